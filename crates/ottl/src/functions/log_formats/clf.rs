//! `ParseCLF`: the Common Log Format of HTTP servers, and the Combined Log Format.

use std::borrow::Cow;

use super::entry;
use crate::scene::Scene;
use crate::value::{Entries, Failure, Value};

const MALFORMED: Failure = Failure::text("the line is not in the log format");

pub(super) fn parse<'a>(text: &str, _: &Scene<'a>) -> Result<Entries<'a>, Failure> {
    line(text, false)
}

pub(super) fn parse_combined<'a>(text: &str, _: &Scene<'a>) -> Result<Entries<'a>, Failure> {
    line(text, true)
}

fn line<'a>(text: &str, combined: bool) -> Result<Entries<'a>, Failure> {
    let mut rest = text.trim();
    let mut entries = Entries::new();
    for name in ["clf.remote_host", "clf.rfc931", "clf.auth_user"] {
        entries.push(entry(name, word(&mut rest)?));
    }
    let (timestamp, after) = rest.strip_prefix('[').and_then(|rest| rest.split_once("] ")).ok_or(MALFORMED)?;
    if timestamp.is_empty() || timestamp.contains(']') {
        return Err(MALFORMED);
    }
    entries.push(entry("clf.timestamp", timestamp));
    rest = after;
    let request = quoted(&mut rest)?;
    let mut parts = request.splitn(3, ' ');
    if let (Some(method), Some(uri), Some(protocol)) = (parts.next(), parts.next(), parts.next()) {
        entries.push(entry("clf.method", method));
        entries.push(entry("clf.request_uri", uri));
        entries.push(entry("clf.protocol", protocol));
    }
    entries.push(entry("clf.request", request));
    rest = rest.strip_prefix(' ').ok_or(MALFORMED)?;
    entries.push((Cow::Borrowed("clf.status"), number(word(&mut rest)?)?));
    let (bytes, after) = if combined { (word(&mut rest)?, rest) } else { (rest, "") };
    if bytes.is_empty() || has_space(bytes) {
        return Err(MALFORMED);
    }
    if bytes != "-" {
        entries.push((Cow::Borrowed("clf.bytes"), number(bytes)?));
    }
    rest = after;
    if combined {
        entries.push(entry("clf.referer", quoted(&mut rest)?));
        rest = rest.strip_prefix(' ').ok_or(MALFORMED)?;
        entries.push(entry("clf.user_agent", quoted(&mut rest)?));
    }
    if rest.is_empty() { Ok(entries) } else { Err(MALFORMED) }
}

fn has_space(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_whitespace())
}

/// A text without spaces and the space behind it.
fn word<'t>(rest: &mut &'t str) -> Result<&'t str, Failure> {
    let (word, after) = rest.split_once(' ').ok_or(MALFORMED)?;
    if word.is_empty() || has_space(word) {
        return Err(MALFORMED);
    }
    *rest = after;
    Ok(word)
}

fn number<'a>(text: &str) -> Result<Value<'a>, Failure> {
    text.parse().map(Value::Int).map_err(|_| Failure::about(text, "is not an integer"))
}

/// A text in quotes, in which a backslash escapes.
fn quoted(rest: &mut &str) -> Result<String, Failure> {
    let text = rest.strip_prefix('"').ok_or(MALFORMED)?;
    let mut bytes = text.bytes().enumerate();
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'"' => {
                *rest = &text[index + 1..];
                return Ok(unescaped(&text[..index]));
            }
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
    Err(MALFORMED)
}

/// Escapes as Apache and nginx write them. Bytes that make no UTF-8 become replacement characters.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        let (b'\\', [escape, after @ ..]) = (byte, rest) else {
            out.push(*byte);
            continue;
        };
        rest = after;
        match escape {
            b'\\' | b'"' => out.push(*escape),
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'v' => out.push(11),
            b'x' => match rest.split_at_checked(2).map(|(digits, after)| (crate::value::text::from_hex(digits), after))
            {
                Some((Some(byte), after)) => {
                    out.extend(byte);
                    rest = after;
                }
                _ => out.extend(b"\\x"),
            },
            other => out.extend([b'\\', *other]),
        }
    }
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
