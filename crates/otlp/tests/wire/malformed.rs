//! Malformed and excessive requests by hand: each gets its own error, at its offset, under its field path.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use weir_otlp::build::Encoder;
use weir_otlp::{Error, Limits, Problem, Signal, validate};

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

/// Refused with this problem, at this offset of the span's body, under this path below `resource_spans.scope_spans`.
#[track_caller]
fn check(span: &[u8], problem: Problem, offset: usize, path: &str) {
    let request = with_span(span);
    let body = request.len() - span.len();
    assert_eq!(
        validate(Signal::Traces, &request, &Limits::default()),
        Err(Error::Wire { problem, offset: body + offset, path: format!("resource_spans.scope_spans.{path}") })
    );
}

#[test]
fn each_malformation_has_its_error() {
    check(b"\x28\x05", Problem::WireType, 0, "spans.name");
    check(b"\x2a\x05abcd", Problem::Truncated, 1, "spans.name");
    check(b"\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Problem::Truncated, 1, "spans.name");
    check(b"\x2a\x80", Problem::Truncated, 1, "spans.name");
    check(b"\x2a", Problem::Truncated, 0, "spans.name");
    check(b"\x39abcdefg", Problem::Truncated, 7, "spans.start_time_unix_nano");
    check(b"\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Problem::Varint, 1, "spans.kind");
    check(b"\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", Problem::Varint, 1, "spans.kind");
    check(b"\x02\x00", Problem::FieldZero, 0, "spans");
    check(b"\x00\x00", Problem::FieldZero, 0, "spans");
    check(b"\x82\x00\x00", Problem::FieldZero, 0, "spans");
    check(b"\x30\x01\x2e", Problem::UnknownWireType, 2, "spans");
    check(b"\x2f", Problem::UnknownWireType, 0, "spans");
    check(b"\xf8\xff\xff\xff\x1f\x00", Problem::FieldKey, 0, "spans");
    check(b"\xfb\x01\xfc\x01", Problem::Group, 0, "spans");
    check(b"\x2c", Problem::Group, 0, "spans");
    check(b"\x7a\x02\x18\x01\x7a\x00", Problem::Duplicate, 4, "spans.status");
    check(b"\xfa\x01\x09", Problem::Truncated, 2, "spans.unknown");
}

#[test]
fn strings_must_be_utf8_and_bytes_need_not() {
    check(b"\x2a\x03ab\xff", Problem::Utf8, 4, "spans.name");
    check(b"\x2a\x02a\xc3", Problem::Utf8, 3, "spans.name");
    check(b"\x1a\x02\xed\xa0", Problem::Utf8, 2, "spans.trace_state");
    check(b"\x4a\x04\x0a\x02k\x80", Problem::Utf8, 5, "spans.attributes.key");
    check(b"\x4a\x08\x0a\x01k\x12\x03\x0a\x01\xc0", Problem::Utf8, 9, "spans.attributes.value.string_value");
    check(b"\x5a\x03\x12\x01\xfe", Problem::Utf8, 4, "spans.events.name");
    check(b"\x7a\x03\x12\x01\xfe", Problem::Utf8, 4, "spans.status.message");
    let bytes_in_bytes_fields = with_span(b"\x0a\x01\xff\x4a\x08\x0a\x01k\x12\x03\x3a\x01\xc0");
    assert_eq!(validate(Signal::Traces, &bytes_in_bytes_fields, &Limits::default()).unwrap().items, 1);
}

/// Bytes at every position of words that the ASCII check reads at once.
#[test]
fn a_bad_byte_is_found_wherever_it_is() {
    for length in 1..100 {
        for at in 0..length {
            let mut attribute = Encoder::default();
            let open = attribute.open(9, 0);
            attribute.bytes(1, b"key");
            let value = attribute.open(2, 0);
            let mut text = vec![b'a'; length];
            text[at] = 0x80;
            attribute.bytes(1, &text);
            attribute.close(value);
            attribute.close(open);
            let request = with_span(&attribute.into_bytes());
            let error = validate(Signal::Traces, &request, &Limits::default()).unwrap_err();
            let offset = request.len() - length + at;
            assert!(matches!(error, Error::Wire { problem: Problem::Utf8, offset: found, .. } if found == offset));
        }
    }
}

#[test]
fn overlong_but_valid_varints_are_accepted_as_prost_accepts_them() {
    let request = with_span(b"\xaa\x00\x83\x80\x00abc\xb0\x80\x80\x00\x82\x80\x80\x80\x80\x80\x80\x80\x80\x00");
    assert_eq!(validate(Signal::Traces, &request, &Limits::default()).unwrap().items, 1);
    let span =
        ExportTraceServiceRequest::decode(&request[..]).unwrap().resource_spans[0].scope_spans[0].spans[0].clone();
    assert_eq!((span.name.as_str(), span.kind), ("abc", 2));
}

/// A span with one attribute of nested arrays: `nested` values inside each other.
fn nested(nested: u32) -> ExportTraceServiceRequest {
    let mut value = AnyValue { value: Some(Value::StringValue("leaf".into())) };
    for _ in 1..nested {
        value = AnyValue { value: Some(Value::ArrayValue(ArrayValue { values: vec![value] })) };
    }
    let attribute = KeyValue { key: "k".into(), value: Some(value), key_strindex: 0 };
    let span = Span { attributes: vec![attribute], ..Span::default() };
    let scope_spans = ScopeSpans { spans: vec![span], ..ScopeSpans::default() };
    let resource_spans = ResourceSpans { scope_spans: vec![scope_spans], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
}

#[test]
fn nesting_is_limited() {
    // Resource spans, scope spans, span, attribute, then two levels for each array and one for the leaf.
    let depth_of = |values: u32| 4 + 2 * (values - 1) + 1;
    for values in [1, 2, 10, 40, 47] {
        let request = nested(values).encode_to_vec();
        let limit = |max_depth| validate(Signal::Traces, &request, &Limits { max_depth, ..Limits::default() });
        assert_eq!(limit(depth_of(values)).unwrap().items, 1, "{values} values");
        let error = limit(depth_of(values) - 1).unwrap_err();
        assert!(matches!(error, Error::Wire { problem: Problem::Depth(_), .. }), "{values} values: {error}");
    }
}

#[test]
fn no_limit_goes_beyond_what_backends_accept() {
    let generous = Limits { max_depth: u32::MAX, ..Limits::default() };
    for values in 1..200 {
        let request = nested(values).encode_to_vec();
        let accepted = validate(Signal::Traces, &request, &generous).is_ok();
        assert_eq!(accepted, values <= 48, "{values} values");
        assert!(!accepted || ExportTraceServiceRequest::decode(&request[..]).is_ok(), "{values} values");
    }
}

/// A data point is two levels deeper than a span, and what is in it too.
#[test]
fn metrics_are_limited_as_spans_are() {
    let field = |number: u32, body: &[u8]| {
        let mut field = Encoder::default();
        field.bytes(number, body);
        field.into_bytes()
    };
    let request = |points: usize| {
        // Attributes of the point: one without a value, and one with an integer.
        let point = field(1, &[field(7, b"\x0a\x01k"), field(7, b"\x12\x02\x18\x01")].concat());
        field(1, &field(2, &field(2, &field(7, &point.repeat(points)))))
    };
    let check = |points: usize, limits: Limits| validate(Signal::Metrics, &request(points), &limits);
    let depth = |max_depth| Limits { max_depth, ..Limits::default() };
    assert_eq!(check(1, depth(7)).unwrap().items, 1);
    let error = check(1, depth(6)).unwrap_err().to_string();
    assert!(error.ends_with(" in resource_metrics.scope_metrics.metrics.sum.data_points.attributes.value"), "{error}");
    assert!(matches!(check(1, depth(4)), Err(Error::Wire { problem: Problem::Depth(4), .. })));
    let items = Limits { max_items: 2, ..Limits::default() };
    assert_eq!(check(2, items).unwrap().items, 2);
    assert!(matches!(check(3, items), Err(Error::Wire { problem: Problem::Items(2), .. })));
}

#[test]
fn counts_are_limited() {
    let limits = Limits { max_items: 3, ..Limits::default() };
    let three = with_span(b"").repeat(3);
    assert_eq!(validate(Signal::Traces, &three, &limits).unwrap().items, 3);
    let four = with_span(b"").repeat(4);
    let problem = Problem::Items(3);
    // The fourth resource is refused before its span is seen.
    let offset = three.len();
    assert_eq!(
        validate(Signal::Traces, &four, &limits),
        Err(Error::Wire { problem, offset, path: "resource_spans".into() })
    );
    let spans_in_one_scope = b"\x0a\x0a\x12\x08\x12\x00\x12\x00\x12\x00\x12\x00";
    let error = validate(Signal::Traces, spans_in_one_scope, &limits).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read OTLP protobuf: more than 3 items at byte 10 in resource_spans.scope_spans.spans"
    );
}
