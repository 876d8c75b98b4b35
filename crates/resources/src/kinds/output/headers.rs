//! Extra request headers of an output: decoding, and what a header may be.

use std::collections::HashMap;

use http::HeaderName;
use weir_plan::Secret;

use crate::diagnostic::{Diagnostic, Findings, Place, quoted};
use crate::document::{Located, Node};
use crate::kinds::value::{Resolver, Value};

/// Headers that the transport sets itself; a second value would break requests.
const RESERVED: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// A header as written.
pub(super) struct Header {
    name: Located<String>,
    /// Trimmed; empty for none.
    prefix: String,
    value: Value,
}

pub(super) fn decode(node: &Node<'_>) -> Vec<Header> {
    let headers: Vec<Header> = node.list().iter().filter_map(|node| decode_header(node)).collect();
    let mut seen: HashMap<&str, &Place> = HashMap::new();
    for Header { name, .. } in &headers {
        if let Some(first) = seen.insert(&name.value, &name.place) {
            let message =
                format!("header {} is given twice, first at {}", name.place.shown(&name.value), first.position());
            node.findings().push(Diagnostic::error(&name.place, message).value(&name.value));
        }
    }
    headers
}

fn decode_header(node: &Node<'_>) -> Option<Header> {
    let mut fields = node.fields()?;
    let name = fields.required("name").and_then(|node| decode_name(&node));
    let prefix = fields.optional("prefix").and_then(|node| node.string());
    let value = Value::take(&mut fields);
    fields.finish();
    Some(Header { name: name?, prefix: prefix.map(|text| text.value.trim().to_owned()).unwrap_or_default(), value })
}

/// A header name in lower case.
fn decode_name(node: &Node<'_>) -> Option<Located<String>> {
    let Located { value, place } = node.string()?;
    check_name(&value, &place, node.findings()).map(|value| Located { value, place })
}

fn check_name(value: &str, place: &Place, findings: &Findings) -> Option<String> {
    let (message, expected) = match HeaderName::try_from(value) {
        Ok(name) if RESERVED.contains(&name.as_str()) || name.as_str().starts_with("grpc-") => (
            format!("header {} is reserved", place.shown(value)),
            "a header that the OTLP transport does not set itself",
        ),
        Ok(name) => return Some(name.as_str().to_owned()),
        Err(_) => (
            format!("{} is not a header name", place.shown(value)),
            "letters, digits and any of !#$%&'*+-.^_`|~ (at least 1 character)",
        ),
    };
    findings.push(Diagnostic::error(place, message).value(value).expected(expected));
    None
}

/// A header whose name and value are known. `None` has been reported.
pub(crate) fn header(name: &str, value: &Located<String>, resolver: Resolver<'_>) -> Option<weir_plan::Header> {
    let name = check_name(name, &value.place, resolver.findings)?;
    let name = Located { value: name, place: value.place.clone() };
    compile_header(&Header { name, prefix: String::new(), value: Value::Inline(value.clone()) }, resolver)
}

/// Resolves headers. `authorized_by` names what already sets `authorization`.
pub(super) fn compile(
    headers: &[Header],
    authorized_by: Option<&str>,
    resolver: Resolver<'_>,
) -> Vec<weir_plan::Header> {
    for Header { name, .. } in headers.iter().filter(|header| header.name.value == "authorization") {
        if let Some(method) = authorized_by {
            let message = format!("header \"authorization\" is already set by {method}");
            let diagnostic = Diagnostic::error(&name.place, message).value(&name.value);
            resolver.findings.push(diagnostic.expected("only one of the two"));
        }
    }
    headers.iter().filter_map(|header| compile_header(header, resolver)).collect()
}

fn compile_header(header: &Header, resolver: Resolver<'_>) -> Option<weir_plan::Header> {
    let Header { name, prefix, value } = header;
    let value = resolver.resolve(value)?;
    let text = value.text.trim();
    let text = if prefix.is_empty() { text.to_owned() } else { format!("{prefix} {text}") };
    if !text.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) {
        let message = format!("the value of header {} has an invalid character (not shown)", quoted(&name.value));
        let expected = "visible ASCII characters and spaces";
        resolver.findings.push(Diagnostic::error(&value.place.hidden(), message).expected(expected));
        return None;
    }
    Some(weir_plan::Header { name: name.value.clone(), value: Secret::new(text) })
}
