//! `URL`: an address taken apart as Go's `net/url` does.

use std::borrow::Cow;

use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Entries, Failure, Value};

mod escape;
mod query;

use escape::{Part, escaped, is_escaped, unescaped};

const INVALID_HOST: Failure = Failure::text("the host of the URL is invalid");
const INVALID_PORT: Failure = Failure::text("the port of the URL is invalid");

pub(super) fn parse_url<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let text = arguments.text(0, scene)?;
    scene.check_length(text.len())?;
    if text.is_empty() {
        return Err(Failure::text("the URL is empty"));
    }
    if let Some(query) = text.strip_prefix('?') {
        return query::parameters(scene, query);
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(Failure::text("the URL has a control character"));
    }
    entries(&Url::parse(&text)?).map(Value::map)
}

/// An address in parts. The texts are decoded unless stated otherwise.
#[derive(Debug, Default)]
struct Url<'t> {
    scheme: String,
    /// What follows a scheme without a slash, as it is.
    opaque: &'t str,
    user: Option<(String, Option<String>)>,
    host: String,
    /// Whether two slashes stand before an authority.
    has_authority: bool,
    path: String,
    /// As it is, or encoded when it was not.
    raw_path: String,
    /// As it is.
    query: &'t str,
    ends_with_question_mark: bool,
    fragment: String,
    raw_fragment: String,
}

impl<'t> Url<'t> {
    fn parse(text: &'t str) -> Result<Self, Failure> {
        let mut url = Self::default();
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        url.fragment = unescaped(fragment, Part::Fragment)?;
        url.raw_fragment = raw(fragment, &url.fragment, Part::Fragment);
        let (scheme, rest) = scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        url.query = query;
        url.ends_with_question_mark = query.is_empty() && text.ends_with('?');
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                url.opaque = rest;
                return Ok(url);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err(Failure::text("the first segment of a path must not contain a colon"));
            }
        }
        if let Some(authority) = rest.strip_prefix("//").filter(|_| !scheme.is_empty() || !rest.starts_with("///")) {
            let end = authority.find('/').unwrap_or(authority.len());
            url.has_authority = true;
            url.authority(&authority[..end])?;
            rest = &authority[end..];
        }
        url.path = unescaped(rest, Part::Path)?;
        url.raw_path = raw(rest, &url.path, Part::Path);
        Ok(url)
    }

    fn authority(&mut self, authority: &str) -> Result<(), Failure> {
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
                if !user.bytes().all(is_valid) {
                    return Err(Failure::text("the user of the URL is invalid"));
                }
                let (name, password) = match user.split_once(':') {
                    Some((name, password)) => (name, Some(unescaped(password, Part::User)?)),
                    None => (user, None),
                };
                self.user = Some((unescaped(name, Part::User)?, password));
                host
            }
            None => authority,
        };
        let port = match host.rfind(']') {
            Some(end) if host.starts_with('[') => &host[end + 1..],
            _ if host.starts_with('[') => return Err(INVALID_HOST),
            _ => host.rfind(':').map_or("", |colon| &host[colon..]),
        };
        let is_port =
            port.strip_prefix(':').map_or(port.is_empty(), |port| port.bytes().all(|byte| byte.is_ascii_digit()));
        if !is_port {
            return Err(INVALID_PORT);
        }
        self.host = unescaped(host, Part::Host)?;
        Ok(())
    }

    /// Host without brackets, and port.
    fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port),
            _ => (self.host.as_str(), ""),
        };
        (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
    }

    fn user_info(&self) -> Option<String> {
        self.user.as_ref().map(|(name, password)| match password {
            Some(password) => format!("{}:{}", escaped(name, Part::User), escaped(password, Part::User)),
            None => escaped(name, Part::User),
        })
    }

    /// The address put together again.
    fn text(&self) -> String {
        let mut text = if self.scheme.is_empty() { String::new() } else { format!("{}:", self.scheme) };
        if self.opaque.is_empty() {
            let is_empty = self.host.is_empty() && self.user.is_none();
            if self.has_authority && !(is_empty && (self.path.is_empty() || self.scheme.is_empty())) {
                text.push_str("//");
            }
            if let Some(user) = self.user_info() {
                text.extend([&user, "@"]);
            }
            text.push_str(&escaped(&self.host, Part::Host));
            text.push_str(&self.raw_path);
        } else {
            text.push_str(self.opaque);
        }
        if self.ends_with_question_mark || !self.query.is_empty() {
            text.extend(["?", self.query]);
        }
        if !self.fragment.is_empty() {
            text.extend(["#", &self.raw_fragment]);
        }
        text
    }
}

/// The part as it was, if it is encoded well; otherwise encoded.
fn raw(text: &str, decoded: &str, part: Part) -> String {
    if is_escaped(text, part) { text.to_owned() } else { escaped(decoded, part) }
}

/// The scheme, empty when there is none, and the rest.
fn scheme(text: &str) -> Result<(&str, &str), Failure> {
    let end = text.bytes().position(|byte| !(byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)));
    match end {
        Some(0) if text.starts_with(':') => Err(Failure::text("the URL lacks a scheme before the colon")),
        Some(end) if text[end..].starts_with(':') && text.starts_with(|first: char| first.is_ascii_alphabetic()) => {
            Ok((&text[..end], &text[end + 1..]))
        }
        _ => Ok(("", text)),
    }
}

/// Attributes in the names of the semantic conventions.
fn entries<'a>(url: &Url<'_>) -> Result<Entries<'a>, Failure> {
    let (host, port) = url.host_and_port();
    let mut entries: Entries<'a> = Vec::new();
    let mut put = |key: &'static str, value: Value<'a>| entries.push((Cow::Borrowed(key), value));
    put("url.original", Value::text(url.text()));
    put("url.domain", Value::text(host.to_owned()));
    put("url.scheme", Value::text(url.scheme.clone()));
    put("url.path", Value::text(url.path.clone()));
    if !port.is_empty() {
        put("url.port", Value::Int(port.parse().map_err(|_| INVALID_PORT)?));
    }
    let user = url.user.as_ref();
    let optional = [
        ("url.fragment", Some(url.fragment.clone())),
        ("url.username", user.map(|(name, _)| name.clone())),
        ("url.query", Some(url.query.to_owned())),
        ("url.extension", url.path.rsplit_once('.').map(|(_, extension)| extension.to_owned())),
    ];
    for (key, value) in optional {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            put(key, Value::text(value));
        }
    }
    // These are there even when they are empty.
    let user = [("url.user_info", url.user_info()), ("url.password", user.and_then(|(_, password)| password.clone()))];
    user.into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .for_each(|(key, value)| put(key, Value::text(value)));
    Ok(entries)
}
