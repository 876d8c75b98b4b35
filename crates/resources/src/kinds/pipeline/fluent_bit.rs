//! What a `LogPipeline` can say to Fluent Bit: read and checked, so that a manifest can be judged, and not active yet.
//!
//! Texts in Fluent Bit's own language may hold credentials and are never shown.

use std::collections::HashSet;

use crate::diagnostic::{Diagnostic, Reason};
use crate::document::{Located, Node, Version};
use crate::kinds::output::tls::Tls;
use crate::kinds::reference::secret_key_ref;
use crate::kinds::value::{Resolved, Resolver, Value};

/// Plugins that the pipeline itself depends on.
const FORBIDDEN_FILTERS: &[&str] = &["kubernetes", "rewrite_tag"];

/// What has to be looked up once all Secrets are known.
pub(crate) struct FluentBit {
    /// Of `variables`.
    pub(crate) values: Vec<Value>,
    pub(crate) http: Option<Http>,
}

/// `output.http` as written.
pub(crate) struct Http {
    host: Value,
    user: Option<Value>,
    password: Option<Value>,
    tls: Option<Tls>,
}

impl FluentBit {
    /// Reports references that lead nowhere, and what they lead to when it cannot be used.
    pub(crate) fn check_references(&self, resolver: Resolver<'_>) {
        for value in &self.values {
            resolver.resolve(value);
        }
        let Some(Http { host, user, password, tls }) = &self.http else { return };
        check_host(host, resolver);
        for value in [user, password].into_iter().flatten() {
            resolver.resolve(value);
        }
        if let Some(tls) = tls {
            tls.compile(None, resolver);
        }
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
        if let Some(uri) = fields.optional("uri").and_then(|node| node.string())
            && !uri.value.starts_with('/')
        {
            let message = format!("{} should match '^/.*$'", uri.place.shown(&uri.value));
            node.findings().push(Diagnostic::error(&uri.place, message).value(&uri.value).expected("a path: /..."));
        }
        let tls = fields.optional("tls").map(|node| Tls::decode(&node));
        fields.finish();
        Some(Self { host, user, password, tls })
    }
}

fn check_host(host: &Value, resolver: Resolver<'_>) {
    let Some(Resolved { text, place, from_secret }) = resolver.resolve(host) else { return };
    let host = text.trim();
    let part = |label: &str| {
        label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !(label.is_empty() || label.starts_with('-') || label.ends_with('-'))
    };
    if host.split('.').all(part) {
        return;
    }
    let place = if from_secret { place.hidden() } else { place };
    let message = format!("HTTP output host invalid: invalid hostname {}", place.shown(host));
    let diagnostic = Diagnostic::error(&place, message).reason(Reason::EndpointInvalid);
    resolver.findings.push(diagnostic.value(host).expected("a host name or an IPv4 address, without a port"));
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
