//! Access logs of Istio's proxies in the form of other log records.
//!
//! Source: the Kyma processor `istio_enrichment`.

use weir_otlp::build::Encoder;
use weir_otlp::common::{KeyValue, Message, Scope};
use weir_otlp::cursor::Value;
use weir_otlp::field::{log_record, scope, scope_data};

use crate::attributes::{self, OF_LOG_RECORD, texts};

/// The attribute by which Kyma's configuration of Istio marks access logs, and its value.
const MODULE: &str = "kyma.module";
const ISTIO: &str = "istio";

const SCOPE_NAME: &str = "io.kyma-project.telemetry/istio";
const SCOPE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The most bytes that a record or a scope grows by, while it is made.
pub(crate) const MOST_ADDED: usize = 128;

const SEVERITY_TEXT: &str = "INFO";
const SEVERITY_NUMBER: u64 = 9;

/// What decides what happens to a log record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    /// Whether it says when it was observed.
    pub(crate) observed: bool,
    /// Whether Istio's proxy wrote it.
    pub(crate) istio: bool,
}

impl Marks {
    /// Reads a log record, once.
    pub(crate) fn of(record: Message<'_>) -> Self {
        let mut marks = Self::default();
        let mut module_seen = false;
        for field in record.fields() {
            match (field.number, field.value) {
                (11, Value::Fixed64(nanos)) => marks.observed = nanos != 0,
                (OF_LOG_RECORD, Value::Len(_)) if !module_seen && attributes::is_key(record, &field, MODULE) => {
                    module_seen = true;
                    marks.istio = attributes::is_text(record, &field, ISTIO);
                }
                _ => {}
            }
        }
        marks
    }
}

/// An access log record of `request` in its new form, as the field of its scope; `observed` are more fields for it.
pub(crate) fn record(request: &[u8], record: Message<'_>, observed: &[u8]) -> Vec<u8> {
    let [protocol, client] = texts(record, OF_LOG_RECORD, ["network.protocol.name", "client.address"]);
    let mut attributes = Vec::new();
    if let Some((name, version)) = split_protocol(protocol) {
        attributes.extend([("network.protocol.name", name), ("network.protocol.version", version)]);
    }
    if let Some((host, port)) = split_host_port(client) {
        attributes.extend([("client.address", host), ("client.port", port)]);
    }
    let stays = |key: &str| key != MODULE && attributes.iter().all(|(new, _)| *new != key);

    let length = record.range().len();
    let mut out = Encoder::with_capacity(length + MOST_ADDED);
    let open = out.open(scope_data::ITEMS, length);
    for field in record.fields() {
        let stays = match field.number {
            log_record::SEVERITY_NUMBER | log_record::SEVERITY_TEXT => false,
            OF_LOG_RECORD => record.inner(&field).is_none_or(|attribute| stays(KeyValue(attribute).key())),
            _ => true,
        };
        if stays {
            out.raw(&request[field.start..field.end]);
        }
    }
    out.varint(log_record::SEVERITY_NUMBER, SEVERITY_NUMBER);
    out.bytes(log_record::SEVERITY_TEXT, SEVERITY_TEXT.as_bytes());
    attributes.iter().for_each(|(key, value)| attributes::write(&mut out, OF_LOG_RECORD, key, value));
    out.raw(observed);
    out.close(open);
    out.into_bytes()
}

/// The scope of access logs, made from the one they came with, as the field of its holder.
pub(crate) fn scope(request: &[u8], scope: Option<Scope<'_>>) -> Vec<u8> {
    let length = scope.map_or(0, |scope| scope.0.range().len());
    let mut out = Encoder::with_capacity(length + MOST_ADDED);
    let open = out.open(scope_data::SCOPE, length);
    out.bytes(scope::NAME, SCOPE_NAME.as_bytes());
    out.bytes(scope::VERSION, SCOPE_VERSION.as_bytes());
    if let Some(Scope(message)) = scope {
        let others = message.fields().filter(|field| !matches!(field.number, scope::NAME | scope::VERSION));
        others.for_each(|field| out.raw(&request[field.start..field.end]));
    }
    out.close(open);
    out.into_bytes()
}

/// `HTTP/1.1` as name and version; `None` when there are not exactly two parts.
fn split_protocol(protocol: &str) -> Option<(&str, &str)> {
    protocol.split_once('/').filter(|(_, version)| !version.contains('/'))
}

/// `host:port` or `[host]:port`; `None` for everything else, also for an IPv6 address without brackets.
fn split_host_port(address: &str) -> Option<(&str, &str)> {
    let (host, port) = address.rsplit_once(':')?;
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let clean = |text: &str| !text.contains(['[', ']']);
    (clean(bare) && clean(port)).then_some((bare, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_split_as_a_dialer_would() {
        let cases = [
            ("10.0.0.1:80", Some(("10.0.0.1", "80"))),
            ("[2001:db8::1]:443", Some(("2001:db8::1", "443"))),
            ("host:", Some(("host", ""))),
            (":80", Some(("", "80"))),
            ("", None),
            ("10.0.0.1", None),
            ("2001:db8::1", None),
            ("[2001:db8::1]", None),
            ("[::1]x:80", None),
            ("a]:80", None),
            ("[a:80", None),
            ("[a[]:80", None),
        ];
        for (address, expected) in cases {
            assert_eq!(split_host_port(address), expected, "{address}");
        }
    }

    #[test]
    fn protocols_are_split_into_two() {
        let cases = [
            ("HTTP/1.1", Some(("HTTP", "1.1"))),
            ("HTTP/", Some(("HTTP", ""))),
            ("HTTP", None),
            ("", None),
            ("a/b/c", None),
        ];
        for (protocol, expected) in cases {
            assert_eq!(split_protocol(protocol), expected, "{protocol}");
        }
    }
}
