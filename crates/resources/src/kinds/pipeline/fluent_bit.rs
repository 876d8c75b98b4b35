//! What a `LogPipeline` can say to Fluent Bit. `output.http` is carried out; texts in Fluent Bit's own language are only
//! checked, so that a manifest can be judged. They may hold credentials and are never shown.

use std::collections::HashSet;

use weir_plan::{Body, Compression, Endpoint, Format, Output, Protocol};

use crate::diagnostic::{Diagnostic, Reason};
use crate::document::{Located, Node, Version};
use crate::kinds::output::tls::Tls;
use crate::kinds::output::{authorization, credential, is_path};
use crate::kinds::reference::secret_key_ref;
use crate::kinds::value::{Resolved, Resolver, Value};

/// Plugins that the pipeline itself depends on.
const FORBIDDEN_FILTERS: &[&str] = &["kubernetes", "rewrite_tag"];

pub(crate) const COMPRESSIONS: [(&str, Compression); 2] = [("none", Compression::None), ("gzip", Compression::Gzip)];

pub(crate) const FORMATS: [(&str, Format); 5] = [
    ("json", Format::Json),
    ("json_lines", Format::JsonLines),
    ("json_stream", Format::JsonStream),
    ("msgpack", Format::MsgPack),
    ("gelf", Format::Gelf),
];

const DEFAULT_PORT: u16 = 443;

/// What has to be looked up once all Secrets are known.
pub(crate) struct FluentBit {
    /// Of `variables`.
    pub(crate) values: Vec<Value>,
    pub(crate) http: Option<Http>,
    /// What `input.runtime` says of records.
    pub(crate) records: Records,
    /// There are filters of Fluent Bit's own language: without them, the backend would get what it shall not have.
    pub(crate) is_filtered: bool,
}

/// What `input.runtime` says of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Records {
    pub(crate) keep_original_body: bool,
    pub(crate) keep_annotations: bool,
    pub(crate) drop_labels: bool,
}

impl Default for Records {
    fn default() -> Self {
        Self { keep_original_body: true, keep_annotations: false, drop_labels: false }
    }
}

/// `output.http` as written.
pub(crate) struct Http {
    host: Value,
    user: Option<Value>,
    password: Option<Value>,
    /// Nothing when what is written is no path.
    uri: Option<String>,
    /// Nothing when what is written is no port.
    port: Option<u16>,
    compression: Option<Compression>,
    format: Option<Format>,
    dedot: bool,
    tls: Tls,
}

impl FluentBit {
    /// The output of a pipeline; nothing for one that delivers nothing yet, and when it was reported. Reports references
    /// that lead nowhere, and what they lead to when it cannot be used.
    pub(crate) fn compile(&self, resolver: Resolver<'_>) -> Option<Output> {
        for value in &self.values {
            resolver.resolve(value);
        }
        let output = self.http.as_ref()?.compile(self.records, resolver)?;
        (!self.is_filtered).then_some(output)
    }
}

impl Http {
    /// Reads `output.http`.
    pub(crate) fn decode(node: &Node<'_>) -> Option<Self> {
        let mut fields = node.fields()?;
        let host = fields.required("host").map_or(Value::Invalid, |node| Value::decode(&node));
        let rule = match node.version() {
            Version::V1Beta1 => "'host' must have 'value' or 'valueFrom' set",
            Version::V1Alpha1 => "failed to resolve value",
        };
        host.check_set(node, rule);
        let mut credential = |key| fields.optional(key).map(|node| Value::decode(&node));
        let set = |value: Option<Value>| value.filter(|value| !value.is_unset());
        let (user, password) = (set(credential("user")), set(credential("password")));
        if let (None, Some(place)) = (&user, password.as_ref().and_then(Value::place)) {
            let message = "basic authentication is not used: there is no 'user'";
            node.findings().push(Diagnostic::warning(&place.hidden(), message));
        }
        let uri = fields.optional("uri").map_or_else(|| Some("/".to_owned()), |node| uri(&node));
        let port = fields.optional("port").map_or(Some(DEFAULT_PORT), |node| port(&node));
        let compression =
            fields.optional("compress").map_or(Some(Compression::None), |node| node.choice(&COMPRESSIONS));
        let format = fields.optional("format").map_or(Some(Format::Json), |node| node.choice(&FORMATS));
        let dedot = fields.optional("dedot").and_then(|node| node.boolean()).unwrap_or(false);
        let tls = fields.optional("tls").map(|node| Tls::decode(&node)).unwrap_or_default();
        fields.finish();
        Some(Self { host, user, password, uri, port, compression, format, dedot, tls })
    }

    fn compile(&self, records: Records, resolver: Resolver<'_>) -> Option<Output> {
        let host = host(&self.host, resolver);
        let headers = self.headers(resolver);
        let tls = self.tls.compile(None, resolver);
        let endpoint = Endpoint { host: host?, port: self.port?, path: self.uri.clone()? };
        let body = Body::FluentBit(weir_plan::FluentBit {
            format: self.format?,
            dedot: self.dedot,
            labels: !records.drop_labels,
            annotations: records.keep_annotations,
            keep_original_body: records.keep_original_body,
        });
        let compression = self.compression?;
        Some(Output { protocol: Protocol::Http, body, endpoint, compression, headers, oauth2: None, tls })
    }

    /// A user may have no password.
    fn headers(&self, resolver: Resolver<'_>) -> Vec<weir_plan::Header> {
        let password = self.password.as_ref().map(|password| credential(password, resolver));
        let Some(value) = &self.user else { return Vec::new() };
        let Some((user, place)) = credential(value, resolver).zip(value.place()) else { return Vec::new() };
        let Some(password) = password.unwrap_or_else(|| Some(String::new())) else { return Vec::new() };
        authorization(&user, &password, &place.hidden(), resolver).into_iter().collect()
    }
}

fn uri(node: &Node<'_>) -> Option<String> {
    let Located { value, place } = node.string()?;
    let message = if !value.starts_with('/') {
        format!("{} should match '^/.*$'", place.shown(&value))
    } else if value.contains('#') || !is_path(&value) {
        format!("{} is not a URL path", place.shown(&value))
    } else {
        return Some(value);
    };
    node.findings().push(Diagnostic::error(&place, message).value(&value).expected("a path: /..."));
    None
}

fn port(node: &Node<'_>) -> Option<u16> {
    let Located { value, place } = node.string()?;
    let port = value.parse().ok().filter(|port| *port > 0 && value.bytes().all(|byte| byte.is_ascii_digit()));
    if port.is_none() {
        let message = format!("{} is not a port", place.shown(&value));
        node.findings().push(Diagnostic::error(&place, message).value(&value).expected("1 to 65535"));
    }
    port
}

fn host(host: &Value, resolver: Resolver<'_>) -> Option<String> {
    let Resolved { text, place, from_secret } = resolver.resolve(host)?;
    let host = text.trim();
    let part = |label: &str| {
        label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !(label.is_empty() || label.starts_with('-') || label.ends_with('-'))
    };
    if host.split('.').all(part) {
        return Some(host.to_owned());
    }
    let place = if from_secret { place.hidden() } else { place };
    let message = format!("HTTP output host invalid: invalid hostname {}", place.shown(host));
    let diagnostic = Diagnostic::error(&place, message).reason(Reason::EndpointInvalid);
    resolver.findings.push(diagnostic.value(host).expected("a host name or an IPv4 address, without a port"));
    None
}

/// Reads `filters`, `files` or `variables`; gives the values that refer to Secrets.
pub(crate) fn take(key: &str, node: &Node<'_>) -> Vec<Value> {
    match key {
        "filters" => node.list().iter().for_each(check_filter),
        "files" => check_files(node),
        _ => return node.list().iter().filter_map(variable).collect(),
    }
    Vec::new()
}

fn check_filter(node: &Node<'_>) {
    let Some(mut fields) = node.fields() else { return };
    if let Some(custom) = fields.optional("custom") {
        let section = section(&custom);
        let plugin = section.iter().flatten().find(|(key, _)| key == "name").map(|(_, value)| value);
        let forbidden =
            FORBIDDEN_FILTERS.iter().find(|name| plugin.is_some_and(|plugin| plugin.eq_ignore_ascii_case(name)));
        if let Some(name) = forbidden {
            let message = format!("custom filter plugin '{name}' is not supported");
            node.findings().push(custom.error(message).expected("another filter plugin"));
        }
        check_section(&custom, section, "custom filter", &["match"]);
    }
    fields.finish();
}

/// Checks `output.custom`.
pub(crate) fn check_output(custom: &Node<'_>) {
    let section = section(custom);
    check_section(custom, section, "custom output", &["match", "storage.total_limit_size"]);
}

/// The keys, in lower case, and values of a section; nothing when it was reported.
fn section(custom: &Node<'_>) -> Option<Vec<(String, String)>> {
    let text = custom.string()?;
    let lines = text.value.lines().map(str::trim).filter(|line| !(line.is_empty() || line.starts_with('#')));
    let section: Option<Vec<_>> = lines
        .map(|line| line.split_once(' ').map(|(key, value)| (key.to_ascii_lowercase(), value.trim().to_owned())))
        .collect();
    if section.is_none() {
        custom
            .findings()
            .push(custom.error("invalid line (not shown)").expected("a key, a space and a value in each line"));
    }
    section
}

fn check_section(custom: &Node<'_>, section: Option<Vec<(String, String)>>, what: &str, forbidden: &[&str]) {
    let Some(section) = section.filter(|section| !section.is_empty()) else { return };
    let has = |name: &str| section.iter().any(|(key, _)| key == name);
    if !has("name") {
        custom.findings().push(custom.error(format!("{what} configuration must have name attribute")));
    }
    for key in forbidden.iter().filter(|key| has(key)) {
        let message = match *key {
            "match" => format!("{what} plugin contains match condition. Match conditions are forbidden"),
            key => format!("{what} plugin contains forbidden configuration key '{key}'"),
        };
        custom.findings().push(custom.error(message));
    }
}

fn check_files(node: &Node<'_>) {
    let mut names = HashSet::new();
    for node in node.list() {
        let Some(mut fields) = node.fields() else { continue };
        let name = fields.required("name").and_then(|node| filled(&node));
        fields.required("content").and_then(|node| filled(&node));
        fields.finish();
        let Some(Located { value, place }) = name else { continue };
        if !names.insert(value.clone()) {
            let message = format!("file {} is given twice", place.shown(&value));
            node.findings().push(Diagnostic::error(&place, message).value(&value).expected("a unique name"));
        }
    }
}

fn variable(node: &Node<'_>) -> Option<Value> {
    let mut fields = node.fields()?;
    fields.required("name").and_then(|node| filled(&node));
    let reference = fields.required("valueFrom").and_then(|node| secret_key_ref(&node));
    fields.finish();
    reference.map(Value::Reference)
}

/// A string that is not empty.
fn filled(node: &Node<'_>) -> Option<Located<String>> {
    let text = node.string()?;
    if text.value.is_empty() {
        node.findings().push(node.error("should be at least 1 chars long"));
        return None;
    }
    Some(text)
}
