//! Protobuf to OTLP/JSON: the spelling of every kind of value, by hand.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use weir_otlp::build::Encoder;
use weir_otlp::{Json, Limits, Signal, from_json, to_json, validate};

use crate::model::LIMITS;

#[track_caller]
fn json(bytes: &[u8]) -> (String, u64) {
    let Json { text, unknown_fields } = to_json(Signal::Traces, bytes, &LIMITS).unwrap();
    (String::from_utf8(text).unwrap(), unknown_fields)
}

/// A request with one span that has these bytes.
fn with_span(span: &[u8]) -> Vec<u8> {
    let mut request = Encoder::default();
    let resource_spans = request.open(1, 0);
    let scope_spans = request.open(2, 0);
    request.bytes(2, span);
    request.close(scope_spans);
    request.close(resource_spans);
    request.into_bytes()
}

/// What is written for a span that has these bytes.
#[track_caller]
fn span(span: &[u8]) -> String {
    let (text, unknown_fields) = json(&with_span(span));
    assert_eq!(unknown_fields, 0);
    let inner = text.strip_prefix(r#"{"resourceSpans":[{"scopeSpans":[{"spans":["#).unwrap();
    inner.strip_suffix("]}]}]}").unwrap().to_owned()
}

/// What is written for a value.
#[track_caller]
fn value(value: Value) -> String {
    let value = Some(AnyValue { value: Some(value) });
    let text =
        span(&Span { attributes: vec![KeyValue { value, ..KeyValue::default() }], ..Span::default() }.encode_to_vec());
    text.strip_prefix(r#"{"attributes":[{"value":"#).unwrap().strip_suffix("}]}").unwrap().to_owned()
}

fn string(text: &str) -> AnyValue {
    AnyValue { value: Some(Value::StringValue(text.into())) }
}

#[test]
fn a_span_with_every_field() {
    let attribute = |key: &str| KeyValue { key: key.into(), value: Some(string("v")), key_strindex: 0 };
    let every = Span {
        trace_id: vec![0xab; 16],
        span_id: vec![1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef],
        trace_state: "a=b".into(),
        parent_span_id: vec![0; 8],
        flags: u32::MAX,
        name: "checkout".into(),
        kind: 3,
        start_time_unix_nano: u64::MAX,
        end_time_unix_nano: 1,
        attributes: vec![attribute("a"), attribute("b")],
        dropped_attributes_count: 1,
        events: vec![Event { time_unix_nano: 2, name: "e".into(), ..Event::default() }],
        dropped_events_count: 2,
        links: vec![Link { trace_id: vec![0xff], flags: 257, ..Link::default() }],
        dropped_links_count: u32::MAX,
        status: Some(Status { code: 2, message: "declined".into() }),
    };
    let expected = concat!(
        r#"{"traceId":"abababababababababababababababab","spanId":"0123456789abcdef","traceState":"a=b","#,
        r#""parentSpanId":"0000000000000000","name":"checkout","kind":3,"#,
        r#""startTimeUnixNano":"18446744073709551615","endTimeUnixNano":"1","#,
        r#""attributes":[{"key":"a","value":{"stringValue":"v"}},{"key":"b","value":{"stringValue":"v"}}],"#,
        r#""droppedAttributesCount":1,"events":[{"timeUnixNano":"2","name":"e"}],"droppedEventsCount":2,"#,
        r#""links":[{"traceId":"ff","flags":257}],"droppedLinksCount":4294967295,"#,
        r#""status":{"message":"declined","code":2},"flags":4294967295}"#,
    );
    assert_eq!(span(&every.encode_to_vec()), expected);
}

#[test]
fn values_of_every_kind() {
    assert_eq!(value(Value::StringValue("a\"\\\n\u{1}é😀".into())), r#"{"stringValue":"a\"\\\n\u0001é😀"}"#);
    assert_eq!(value(Value::BoolValue(false)), r#"{"boolValue":false}"#);
    assert_eq!(value(Value::BoolValue(true)), r#"{"boolValue":true}"#);
    assert_eq!(value(Value::IntValue(i64::MIN)), r#"{"intValue":"-9223372036854775808"}"#);
    assert_eq!(value(Value::IntValue(0)), r#"{"intValue":"0"}"#);
    assert_eq!(value(Value::BytesValue(vec![0xfb, 0xff, 0xbf, 1])), r#"{"bytesValue":"+/+/AQ=="}"#);
    assert_eq!(value(Value::StringValueStrindex(-1)), r#"{"stringValueStrindex":-1}"#);
    let array = ArrayValue { values: vec![string("a"), AnyValue { value: None }] };
    assert_eq!(value(Value::ArrayValue(array)), r#"{"arrayValue":{"values":[{"stringValue":"a"},{}]}}"#);
    assert_eq!(value(Value::ArrayValue(ArrayValue::default())), r#"{"arrayValue":{}}"#);
    let list = KeyValueList { values: vec![KeyValue { key: "{".into(), value: None, key_strindex: 0 }] };
    assert_eq!(value(Value::KvlistValue(list)), r#"{"kvlistValue":{"values":[{"key":"{"}]}}"#);
}

#[test]
fn doubles_are_exact_and_may_be_words() {
    let double = |double: f64| value(Value::DoubleValue(double));
    assert_eq!(double(0.1), r#"{"doubleValue":0.1}"#);
    assert_eq!(double(-0.0), r#"{"doubleValue":-0.0}"#);
    assert_eq!(double(f64::MAX), r#"{"doubleValue":1.7976931348623157e+308}"#);
    assert_eq!(double(f64::from_bits(1)), r#"{"doubleValue":5e-324}"#);
    assert_eq!(double(f64::NAN), r#"{"doubleValue":"NaN"}"#);
    assert_eq!(double(f64::INFINITY), r#"{"doubleValue":"Infinity"}"#);
    assert_eq!(double(f64::NEG_INFINITY), r#"{"doubleValue":"-Infinity"}"#);
}

#[test]
fn integers_have_the_width_of_their_type() {
    // kind = -1 and 2^32 + 2; dropped_attributes_count = 2^32 + 3.
    assert_eq!(span(b"\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), r#"{"kind":-1}"#);
    assert_eq!(span(b"\x30\x82\x80\x80\x80\x10"), r#"{"kind":2}"#);
    assert_eq!(span(b"\x50\x83\x80\x80\x80\x10"), r#"{"droppedAttributesCount":3}"#);
}

#[test]
fn the_last_one_counts_and_repeated_fields_need_not_stand_together() {
    assert_eq!(span(b"\x2a\x01a\x30\x01\x2a\x01b"), r#"{"name":"b","kind":1}"#);
    // An attribute, a name, another attribute.
    assert_eq!(
        span(b"\x4a\x03\x0a\x01k\x2a\x01a\x4a\x03\x0a\x01l"),
        r#"{"name":"a","attributes":[{"key":"k"},{"key":"l"}]}"#
    );
    // A value that is a string and then an integer, and one the other way round.
    assert_eq!(
        span(b"\x4a\x07\x12\x05\x0a\x01a\x18\x05\x4a\x07\x12\x05\x18\x05\x0a\x01a"),
        r#"{"attributes":[{"value":{"intValue":"5"}},{"value":{"stringValue":"a"}}]}"#
    );
}

#[test]
fn requests_one_after_the_other_are_one() {
    let one = |schema_url: &str| {
        let resource_spans = vec![ResourceSpans { schema_url: schema_url.into(), ..ResourceSpans::default() }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    };
    let both = [one("a"), one("b")].concat();
    assert_eq!(json(&both).0, r#"{"resourceSpans":[{"schemaUrl":"a"},{"schemaUrl":"b"}]}"#);
    assert_eq!(json(b"").0, "{}");
}

#[test]
fn what_has_no_name_is_counted() {
    // Field 31 and field 100 beside a name.
    let (text, unknown_fields) = json(&with_span(b"\xfa\x01\x02ab\x2a\x01a\xa0\x06\x01"));
    assert_eq!(
        (text.as_str(), unknown_fields),
        (r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a"}]}]}]}"#, 2)
    );
}

#[test]
fn what_is_not_valid_is_refused_as_ever() {
    let limits = Limits { max_depth: 2, ..Limits::default() };
    for (bytes, limits) in [
        (with_span(b"\x2a\x05abcd"), LIMITS),
        (with_span(b"\x2a\x01\xff"), LIMITS),
        (with_span(b"\x28\x05"), LIMITS),
        (with_span(b"\x7a\x00\x7a\x00"), LIMITS),
        (with_span(b""), limits),
    ] {
        assert_eq!(
            to_json(Signal::Traces, &bytes, &limits).unwrap_err(),
            validate(Signal::Traces, &bytes, &limits).unwrap_err()
        );
    }
}

#[test]
fn nesting_up_to_the_limit_comes_back() {
    let mut nested = string("leaf");
    for _ in 0..28 {
        nested = AnyValue { value: Some(Value::ArrayValue(ArrayValue { values: vec![nested] })) };
    }
    let attributes = vec![KeyValue { key: "k".into(), value: Some(nested), key_strindex: 0 }];
    let resource = Some(Resource { attributes, ..Resource::default() });
    let resource_spans =
        vec![ResourceSpans { resource, scope_spans: vec![ScopeSpans::default()], ..ResourceSpans::default() }];
    let bytes = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
    let limits = Limits::default();
    let text = to_json(Signal::Traces, &bytes, &limits).unwrap().text;
    assert_eq!(from_json(Signal::Traces, &text, &limits, usize::MAX).unwrap(), bytes);
}
