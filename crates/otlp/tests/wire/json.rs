//! OTLP/JSON to protobuf: every rule of the mapping by hand, and prost as the judge of the result.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use weir_otlp::{Limits, Signal, from_json};

use crate::model::LIMITS;

const MAX: usize = 1 << 20;

#[track_caller]
fn read(json: &str) -> ExportTraceServiceRequest {
    match from_json(Signal::Traces, json.as_bytes(), &LIMITS, MAX) {
        Ok(bytes) => ExportTraceServiceRequest::decode(&bytes[..]).unwrap(),
        Err(error) => panic!("{error}"),
    }
}

/// The span with these members.
#[track_caller]
fn span(members: &str) -> Span {
    let request = read(&format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{{members}}}]}}]}}]}}"#));
    request.resource_spans[0].scope_spans[0].spans[0].clone()
}

#[track_caller]
fn value(json: &str) -> Option<Value> {
    let mut span = span(&format!(r#""attributes":[{{"key":"k","value":{json}}}]"#));
    span.attributes.remove(0).value.unwrap().value
}

/// The error for a span with these members.
#[track_caller]
fn error(members: &str) -> String {
    let json = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{}},{{{members}}}]}}]}}]}}"#);
    from_json(Signal::Traces, json.as_bytes(), &LIMITS, MAX).unwrap_err().to_string()
}

fn string(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(Value::StringValue(value.into())) };
    KeyValue { key: key.into(), value: Some(value), key_strindex: 0 }
}

#[test]
fn ids_are_hexadecimal_in_either_case() {
    let both = span(r#""traceId":"00ffABcd","spanId":"","parentSpanId":"Aa""#);
    assert_eq!((both.trace_id, both.span_id, both.parent_span_id), (vec![0, 255, 0xab, 0xcd], vec![], vec![0xaa]));
    assert!(error(r#""traceId":"abc""#).contains("expected a string of hexadecimal digit pairs"));
    assert!(error(r#""traceId":"0g""#).contains("hexadecimal"));
    assert!(error(r#""traceId":"+1""#).contains("hexadecimal"));
}

#[test]
fn enums_are_numbers_or_names() {
    assert_eq!(span(r#""kind":3"#).kind, 3);
    assert_eq!(span(r#""kind":"SPAN_KIND_CONSUMER""#).kind, 5);
    assert_eq!(span(r#""kind":"4""#).kind, 4);
    assert_eq!(span(r#""kind":77"#).kind, 77);
    assert_eq!(span(r#""kind":-1"#).kind, -1);
    assert_eq!(span(r#""status":{"code":"STATUS_CODE_ERROR"}"#).status.unwrap().code, 2);
    assert!(error(r#""kind":"CONSUMER""#).contains("expected the number or name of an enum value"));
    assert!(error(r#""kind":2147483648"#).contains("invalid value: integer `2147483648`"));
}

#[test]
fn integers_may_be_strings_and_floats_without_fraction() {
    assert_eq!(span(r#""startTimeUnixNano":"18446744073709551615""#).start_time_unix_nano, u64::MAX);
    assert_eq!(span(r#""startTimeUnixNano":18446744073709551615"#).start_time_unix_nano, u64::MAX);
    assert_eq!(span(r#""startTimeUnixNano":1.5e3"#).start_time_unix_nano, 1500);
    assert_eq!(span(r#""startTimeUnixNano":"1e3""#).start_time_unix_nano, 1000);
    assert_eq!(span(r#""droppedEventsCount":"7""#).dropped_events_count, 7);
    assert_eq!(span(r#""flags":"4294967295""#).flags, u32::MAX);
    assert_eq!(value(r#"{"intValue":"-9223372036854775808"}"#), Some(Value::IntValue(i64::MIN)));
    assert_eq!(value(r#"{"intValue":-5}"#), Some(Value::IntValue(-5)));
    for bad in ["-1", "1.5", "18446744073709551616", "\"18446744073709551616\"", "\"\"", "\" 1\"", "\"0x1\"", "true"] {
        assert!(error(&format!(r#""startTimeUnixNano":{bad}"#)).contains("unsigned 64-bit integer"), "{bad}");
    }
    assert!(error(r#""droppedEventsCount":4294967296"#).contains("unsigned 32-bit integer"));
    assert!(error(r#""flags":-1"#).contains("unsigned 32-bit integer"));
}

#[test]
fn doubles_are_exact_and_may_be_words() {
    let double = |json: &str| match value(&format!(r#"{{"doubleValue":{json}}}"#)) {
        Some(Value::DoubleValue(value)) => value,
        other => panic!("{other:?}"),
    };
    assert_eq!(double("0.1").to_bits(), 0.1f64.to_bits());
    assert_eq!(double("123456789012345680000").to_bits(), 123_456_789_012_345_680_000f64.to_bits());
    assert_eq!(double("-2.2250738585072014e-308").to_bits(), (-f64::MIN_POSITIVE).to_bits());
    assert_eq!(double("3").to_bits(), 3f64.to_bits());
    assert_eq!(double("\"-1.5\"").to_bits(), (-1.5f64).to_bits());
    assert!(double("\"NaN\"").is_nan());
    assert_eq!((double("\"Infinity\""), double("\"-Infinity\"")), (f64::INFINITY, f64::NEG_INFINITY));
    for bad in ["\"nan\"", "\"inf\"", "\"1e999\"", "false", "\"\""] {
        assert!(error(&format!(r#""attributes":[{{"value":{{"doubleValue":{bad}}}}}]"#)).contains("a number"), "{bad}");
    }
}

#[test]
fn bytes_are_base64_of_either_alphabet() {
    let bytes = |json: &str| value(&format!(r#"{{"bytesValue":"{json}"}}"#));
    for text in ["+/+/AQ==", "+/+/AQ", "-_-_AQ==", "-_-_AQ"] {
        assert_eq!(bytes(text), Some(Value::BytesValue(vec![0xfb, 0xff, 0xbf, 1])), "{text}");
    }
    assert_eq!(bytes("__8"), Some(Value::BytesValue(vec![0xff, 0xff])));
    assert_eq!(bytes("--8"), Some(Value::BytesValue(vec![0xfb, 0xef])));
    assert_eq!(bytes(""), Some(Value::BytesValue(vec![])));
    assert!(error(r#""attributes":[{"value":{"bytesValue":"a*b"}}]"#).contains("base64"));
    assert!(error(r#""attributes":[{"value":{"bytesValue":"+_+_"}}]"#).contains("base64"));
}

#[test]
fn values_of_every_kind_keep_their_presence() {
    assert_eq!(value(r#"{"stringValue":""}"#), Some(Value::StringValue(String::new())));
    assert_eq!(value(r#"{"boolValue":false}"#), Some(Value::BoolValue(false)));
    assert_eq!(value(r#"{"intValue":0}"#), Some(Value::IntValue(0)));
    assert_eq!(value(r#"{"doubleValue":0}"#), Some(Value::DoubleValue(0.0)));
    assert_eq!(value(r#"{"arrayValue":{}}"#), Some(Value::ArrayValue(ArrayValue { values: vec![] })));
    let list = KeyValueList { values: vec![string("a", "b")] };
    let json = r#"{"kvlistValue":{"values":[{"key":"a","value":{"stringValue":"b"}}]}}"#;
    assert_eq!(value(json), Some(Value::KvlistValue(list)));
    assert_eq!(value("{}"), None);
}

#[test]
fn names_come_in_both_spellings_and_unknown_ones_are_ignored() {
    let json = r#"{"future":{"deep":[1,{"x":null}]},"resource_spans":[{"scope_spans":[{"spans":[
        {"trace_id":"01","start_time_unix_nano":"2","dropped_links_count":3,"newField":"\ud83d\ude00"}],
        "schema_url":"u"}]}]}"#;
    let request = read(json);
    let scope = &request.resource_spans[0].scope_spans[0];
    assert_eq!(scope.schema_url, "u");
    let span = &scope.spans[0];
    assert_eq!((span.trace_id.as_slice(), span.start_time_unix_nano, span.dropped_links_count), (&[1][..], 2, 3));
}

#[test]
fn null_is_the_default() {
    let nulls = span(r#""traceId":null,"name":null,"kind":null,"attributes":null,"status":null,"flags":null"#);
    assert_eq!(nulls, Span::default());
    assert_eq!(read(r#"{"resourceSpans":null}"#), ExportTraceServiceRequest::default());
    assert!(error(r#""attributes":[null]"#).contains("invalid type: null, expected an object"));
}

#[test]
fn escapes_and_unicode_become_utf8() {
    assert_eq!(span(r#""name":"\u00e9\n\"\\\/ 日本 \ud83d\ude00""#).name, "é\n\"\\/ 日本 😀");
    assert!(error(r#""name":"\ud83d""#).contains("cannot read OTLP JSON"));
    assert!(from_json(Signal::Traces, b"{\"x\":\"\xff\"}", &LIMITS, MAX).is_ok(), "ignored text is not judged");
    let bad = b"{\"resourceSpans\":[{\"schemaUrl\":\"\xff\"}]}";
    assert!(
        from_json(Signal::Traces, bad, &LIMITS, MAX).unwrap_err().to_string().contains("resourceSpans[0].schemaUrl")
    );
}

#[test]
fn errors_say_where() {
    let json = "{\"resourceSpans\": [\n  {\"scopeSpans\": [{\"spans\": [{}, {\"traceId\": 5}]}]}\n]}";
    assert_eq!(
        from_json(Signal::Traces, json.as_bytes(), &LIMITS, MAX).unwrap_err().to_string(),
        "cannot read OTLP JSON: invalid value: integer `5`, expected a string of hexadecimal digit pairs \
         at line 2 column 46 in resourceSpans[0].scopeSpans[0].spans[1].traceId"
    );
    let cases = [
        ("", "EOF while parsing a value at line 1 column 0 in request"),
        ("[]", "invalid type: sequence, expected an object"),
        ("null", "invalid type: null, expected an object"),
        ("{} x", "trailing characters"),
        ("{\"resourceSpans\":{}}", "invalid type: map, expected an array at line 1 column 19 in resourceSpans"),
        ("{\"resourceSpans\":[{\"resource\":[]}]}", "expected an object"),
        ("{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"name\":{}}]}]}]}", "expected a string"),
        ("{\"resourceSpans\":[],\"resource_spans\":[]}", "second occurrence of a field"),
        ("{\"resourceSpans\":[{", "EOF while parsing an object"),
    ];
    for (json, expected) in cases {
        let error = from_json(Signal::Traces, json.as_bytes(), &LIMITS, MAX).unwrap_err().to_string();
        assert!(error.contains(expected), "{json}: {error}");
    }
}

#[test]
fn structure_and_size_are_limited() {
    let arrays = |count: usize| {
        let open = r#"{"arrayValue":{"values":["#.repeat(count);
        let close = "]}}".repeat(count);
        let value = format!("{open}{close}");
        format!(r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"value":{value}}}]}}}}]}}"#)
    };
    let limits = Limits::default();
    assert!(from_json(Signal::Traces, arrays(20).as_bytes(), &limits, MAX).is_ok());
    let too_deep = from_json(Signal::Traces, arrays(35).as_bytes(), &limits, MAX).unwrap_err().to_string();
    assert!(too_deep.contains("messages nested deeper than 64"), "{too_deep}");
    assert!(from_json(Signal::Traces, arrays(100_000).as_bytes(), &LIMITS, MAX).is_err());
    assert!(from_json(Signal::Traces, "{\"a\":[".repeat(100_000).as_bytes(), &LIMITS, MAX).is_err());

    let spans = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}{{}}]}}]}}]}}"#, "{},".repeat(9));
    let limits = |max_items| Limits { max_items, ..Limits::default() };
    assert!(from_json(Signal::Traces, spans.as_bytes(), &limits(10), MAX).is_ok());
    let error = from_json(Signal::Traces, spans.as_bytes(), &limits(9), MAX).unwrap_err().to_string();
    assert!(error.contains("more than 9 items") && error.contains("spans[9]"), "{error}");

    let bytes = from_json(Signal::Traces, spans.as_bytes(), &limits(10), MAX).unwrap();
    assert!(from_json(Signal::Traces, spans.as_bytes(), &limits(10), bytes.len()).is_ok());
    let error = from_json(Signal::Traces, spans.as_bytes(), &limits(10), bytes.len() - 1).unwrap_err().to_string();
    assert!(error.contains(&format!("more than {} bytes as protobuf", bytes.len() - 1)), "{error}");
}

/// An answer with the error is not paid for, and values are telemetry.
#[test]
fn errors_do_not_repeat_a_text_that_stands_in_a_wrong_place() {
    let text = "secret\u{80}".repeat(10_000);
    for json in [
        format!(r#""{text}""#),
        format!(r#"{{"resourceSpans":"{text}"}}"#),
        format!(r#"{{"resourceSpans":["{text}"]}}"#),
        format!(r#"{{"resourceSpans":[{{"resource":"{text}"}}]}}"#),
        format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"kind":"{text}"}}]}}]}}]}}"#),
        format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"attributes":[{{"value":"{text}"}}]}}]}}]}}]}}"#),
        format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"{text}"}}]}}]}}]}}"#),
        format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"droppedEventsCount":"{text}"}}]}}]}}]}}"#),
    ] {
        let message = from_json(Signal::Traces, json.as_bytes(), &LIMITS, MAX).unwrap_err().to_string();
        assert!(message.len() < 500 && !message.contains("secret"), "{} bytes: {:.500}", message.len(), message);
    }
}
