//! `output.http`: a server that gets records as Fluent Bit sends them.

use weir_plan::{Body, Compression, Date, DateFormat, Endpoint, FluentBitFormat, Output, Protocol, Sink};

use super::Records;
use crate::diagnostic::{Diagnostic, Findings, Place, Reason};
use crate::document::Node;
use crate::kinds::output::tls::Tls;
use crate::kinds::output::{authorization, credential, is_path};
use crate::kinds::value::{Resolved, Resolver, Value};

pub(crate) const COMPRESSIONS: [(&str, Compression); 2] = [("none", Compression::None), ("gzip", Compression::Gzip)];

pub(crate) const FORMATS: [(&str, FluentBitFormat); 5] = [
    ("json", FluentBitFormat::Json),
    ("json_lines", FluentBitFormat::JsonLines),
    ("json_stream", FluentBitFormat::JsonStream),
    ("msgpack", FluentBitFormat::MsgPack),
    ("gelf", FluentBitFormat::Gelf),
];

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
    format: Option<FluentBitFormat>,
    dedot: bool,
    tls: Tls,
}

impl Http {
    /// Reads `output.http`.
    pub(crate) fn decode(node: &Node<'_>) -> Option<Self> {
        let mut fields = node.fields()?;
        let host = fields.required("host").map_or(Value::Invalid, |node| Value::decode(&node));
        let mut credential = |key| fields.optional(key).map(|node| Value::decode(&node));
        let set = |value: Option<Value>| value.filter(|value| !value.is_unset());
        let (user, password) = (set(credential("user")), set(credential("password")));
        if let (None, Some(place)) = (&user, password.as_ref().and_then(Value::place)) {
            let message = "basic authentication is not used: there is no 'user'";
            let expected = "both of 'user' and 'password', or neither";
            node.findings().push(Diagnostic::warning(&place.hidden(), message, expected));
        }
        let findings = node.findings();
        let uri = fields.text("uri").and_then(|uri| check_uri(uri.value, &uri.place, findings));
        let port = fields.text("port").and_then(|port| check_port(&port.value, &port.place, findings));
        let compression = fields.choice("compress", &COMPRESSIONS);
        let format = fields.choice("format", &FORMATS);
        let dedot = fields.boolean("dedot");
        let tls = Tls::take(&mut fields);
        fields.finish();
        Some(Self { host, user, password, uri, port, compression, format, dedot, tls })
    }

    pub(super) fn compile(&self, records: Records, resolver: Resolver<'_>) -> Option<Output> {
        let host = resolver.resolve(&self.host).and_then(|host| host_of(&host, resolver));
        let headers = self.headers(resolver);
        let tls = self.tls.compile(None, resolver);
        let endpoint = Endpoint { host: host?, port: self.port?, path: self.uri.clone()? };
        let body = Body::FluentBit(weir_plan::FluentBit {
            to: Sink::Http,
            format: self.format?,
            date: Date { key: Some("date".to_owned()), format: DateFormat::Iso8601 },
            kyma: true,
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

/// A path, and perhaps a query.
pub(super) fn check_uri(value: String, place: &Place, findings: &Findings) -> Option<String> {
    let message = if !value.starts_with('/') {
        format!("{} should match '^/.*$'", place.shown(&value))
    } else if value.contains('#') || !is_path(&value) {
        format!("{} is not a URL path", place.shown(&value))
    } else {
        return Some(value);
    };
    findings.push(Diagnostic::error(place, message).value(&value).expected("a path: /..."));
    None
}

pub(super) fn check_port(value: &str, place: &Place, findings: &Findings) -> Option<u16> {
    let port = value.parse().ok().filter(|port| *port > 0 && value.bytes().all(|byte| byte.is_ascii_digit()));
    if port.is_none() {
        let message = format!("{} is not a port", place.shown(value));
        findings.push(Diagnostic::error(place, message).value(value).expected("1 to 65535"));
    }
    port
}

/// A host name.
pub(super) fn host_of(host: &Resolved, resolver: Resolver<'_>) -> Option<String> {
    let Resolved { text, place, from_secret } = host;
    let host = text.trim();
    let part = |label: &str| {
        label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !(label.is_empty() || label.starts_with('-') || label.ends_with('-'))
    };
    if host.split('.').all(part) {
        return Some(host.to_owned());
    }
    let place = if *from_secret { place.hidden() } else { place.clone() };
    let message = format!("HTTP output host invalid: invalid hostname {}", place.shown(host));
    let diagnostic = Diagnostic::error(&place, message).reason(Reason::EndpointInvalid);
    resolver.findings.push(diagnostic.value(host).expected("a host name or an IPv4 address, without a port"));
    None
}
