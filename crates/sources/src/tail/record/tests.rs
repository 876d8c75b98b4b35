use std::borrow::Cow;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use prost::Message as _;
use serde_json::{Map, Value, json};
use weir_otlp::{Limits, Signal, validate};

use super::*;

mod hostile;
mod oracle;
mod speed;
mod table;

const SOURCE: Source<'_> = Source {
    namespace: "shop",
    pod: "cart-0",
    uid: "0e2ad1f4-9d5c-4d5e-8b1a-0f3a53a1d9f1",
    node: None,
    container: "cart",
    restarts: 3,
    path: "/var/log/pods/shop_cart-0_0e2ad1f4-9d5c-4d5e-8b1a-0f3a53a1d9f1/cart/3.log",
};

const KEEP: RecordShape = RecordShape::Parsed { keep_original_body: true };
const DROP: RecordShape = RecordShape::Parsed { keep_original_body: false };

fn entry(text: &[u8]) -> Entry<'_> {
    Entry { stream: Some(Stream::Stdout), unix_nanos: 7, text: Cow::Borrowed(text), is_cut: false }
}

fn builder(shape: RecordShape, most: usize) -> RequestBuilder {
    RequestBuilder::new(&SOURCE, shape, Size { expected: 1 << 12, most })
}

/// A request that the engine would take.
fn decode(builder: RequestBuilder) -> ExportLogsServiceRequest {
    let items = builder.items();
    let bytes = builder.into_bytes();
    let counts = validate(Signal::Logs, &bytes, &Limits::default()).unwrap();
    assert_eq!((counts.items, counts.resources, counts.scopes), (items, 1, 1));
    ExportLogsServiceRequest::decode(&bytes[..]).unwrap()
}

fn records(request: ExportLogsServiceRequest) -> Vec<LogRecord> {
    request.resource_logs.into_iter().flat_map(|logs| logs.scope_logs).flat_map(|logs| logs.log_records).collect()
}

/// The record of one text, and what form it has.
fn record(text: &[u8], shape: RecordShape) -> (Form, LogRecord) {
    let mut builder = builder(shape, 64 << 20);
    let form = builder.push(&entry(text), &mut Attributes::default(), 8).unwrap();
    (form, records(decode(builder)).remove(0))
}

/// Attributes by name, which must differ.
fn attributes(attributes: Vec<KeyValue>) -> Map<String, Value> {
    let count = attributes.len();
    let map: Map<_, _> = attributes.into_iter().map(|pair| (pair.key, value(pair.value))).collect();
    assert_eq!(map.len(), count, "a name comes twice: {map:?}");
    map
}

fn value(value: Option<AnyValue>) -> Value {
    use any_value::Value as Any;
    match value.and_then(|value| value.value) {
        None => Value::Null,
        Some(Any::StringValue(text)) => json!(text),
        Some(Any::BoolValue(value)) => json!(value),
        Some(Any::DoubleValue(number)) => json!(number),
        Some(Any::ArrayValue(list)) => list.values.into_iter().map(|element| self::value(Some(element))).collect(),
        Some(Any::KvlistValue(list)) => Value::Object(attributes(list.values)),
        Some(other) => panic!("not from JSON: {other:?}"),
    }
}

/// What is in the record, of the attributes without those that say where it is from. A body without a value is there.
fn show(record: LogRecord) -> String {
    assert_eq!((record.time_unix_nano, record.observed_time_unix_nano), (7, 8));
    let mut attributes = attributes(record.attributes);
    assert!(attributes.remove("log.file.path").is_some());
    if attributes.get("log.iostream") == Some(&json!("stdout")) {
        attributes.remove("log.iostream");
    }
    let mut shown = format!("{} {}", value(Some(record.body.unwrap())), Value::Object(attributes));
    if record.severity_number != 0 || !record.severity_text.is_empty() {
        shown += &format!(" severity {} {}", record.severity_number, record.severity_text);
    }
    if !(record.trace_id.is_empty() && record.span_id.is_empty() && record.flags == 0) {
        shown += &format!(" trace {} {} {:x}", hex(&record.trace_id), hex(&record.span_id), record.flags);
    }
    shown
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn requests_say_where_records_are_from() {
    let mut builder = builder(KEEP, 1 << 20);
    for (stream, text) in [(Some(Stream::Stdout), "a"), (Some(Stream::Stderr), r#"{"b":1}"#), (None, "c")] {
        builder
            .push(
                &Entry { stream, unix_nanos: 0, text: Cow::Borrowed(text.as_bytes()), is_cut: false },
                &mut Attributes::default(),
                8,
            )
            .unwrap();
    }
    assert_eq!(builder.items(), 3);
    let request = decode(builder);
    let resource = attributes(request.resource_logs[0].resource.clone().unwrap().attributes);
    let expected = json!({
        "k8s.namespace.name": "shop",
        "k8s.pod.name": "cart-0",
        "k8s.pod.uid": "0e2ad1f4-9d5c-4d5e-8b1a-0f3a53a1d9f1",
        "k8s.container.name": "cart",
        "k8s.container.restart_count": "3",
    });
    assert_eq!(Value::Object(resource), expected);
    let scope = request.resource_logs[0].scope_logs[0].scope.clone().unwrap();
    assert_eq!((&*scope.name, &*scope.version), (SCOPE_NAME, env!("CARGO_PKG_VERSION")));
    let streams = |record: LogRecord| {
        assert_eq!((record.time_unix_nano, record.observed_time_unix_nano), (0, 8));
        let attributes = attributes(record.attributes);
        assert_eq!(attributes["log.file.path"], SOURCE.path);
        attributes.get("log.iostream").cloned()
    };
    let streams: Vec<_> = records(request).into_iter().map(streams).collect();
    assert_eq!(streams, [Some(json!("stdout")), Some(json!("stderr")), None]);
}

#[test]
fn the_raw_shape_is_the_text_as_it_was_written() {
    for text in ["plain \t ", r#"{"level":"warn","log.iostream":"x"} "#, ""] {
        let (form, record) = record(text.as_bytes(), RecordShape::Raw);
        let body = record.body.unwrap().value.unwrap();
        assert_eq!((form, body), (Form::Text, any_value::Value::StringValue(text.to_owned())));
        assert_eq!((record.time_unix_nano, record.observed_time_unix_nano, record.severity_number), (7, 8, 0));
        assert_eq!(Value::Object(attributes(record.attributes)), json!({"log.iostream": "stdout"}));
    }
}

#[test]
fn records_can_be_taken_away() {
    for shape in RecordShape::ALL {
        let mut builder = builder(shape, 1 << 20);
        builder.push(&entry(b"a"), &mut Attributes::default(), 8).unwrap();
        builder.mark();
        builder.begin_entry();
        builder.push(&entry(br#"{"b":1}"#), &mut Attributes::default(), 8).unwrap();
        builder.undo_entry();
        builder.push(&entry(b"c"), &mut Attributes::default(), 8).unwrap();
        builder.push(&entry(b"d"), &mut Attributes::default(), 8).unwrap();
        assert_eq!(builder.items(), 3);
        builder.reset();
        builder.push(&entry(b"e"), &mut Attributes::default(), 8).unwrap();
        assert_eq!(records(decode(builder)).len(), 2);
    }
}

#[test]
fn lengths_are_as_short_as_they_can_be() {
    for count in [0, 1, 10, 100, 1_000, 20_000] {
        let mut builder = builder(KEEP, 64 << 20);
        for _ in 0..count {
            builder.push(&entry(&b"x".repeat(200)), &mut Attributes::default(), 8).unwrap();
            builder
                .push(
                    &entry(br#"{"msg":"text","a":{"b":[1,2,{"c":"d"}]},"level":"info"}"#),
                    &mut Attributes::default(),
                    8,
                )
                .unwrap();
        }
        let bytes = builder.into_bytes();
        let request = ExportLogsServiceRequest::decode(&bytes[..]).unwrap();
        assert_eq!(request.encoded_len(), bytes.len());
        assert_eq!(records(request).len(), 2 * count);
    }
}
