//! OTLP/JSON: every rule of the mapping, a payload as SDKs write it, and prost as the judge of the result.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use proptest::prelude::*;
use weir_otlp::{Error, Limits, Signal, from_json, validate};

use crate::generate::{damaged, request};
use crate::model::{LIMITS, assert_same, decode};

const MAX: usize = 1 << 20;

#[track_caller]
fn read(json: &str) -> ExportTraceServiceRequest {
    match from_json(Signal::Traces, json.as_bytes(), &LIMITS, MAX) {
        Ok(bytes) => decode(&bytes),
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
fn a_payload_as_sdks_write_it() {
    let golden = read(include_str!("sdk.json"));
    let int = |value| AnyValue { value: Some(Value::IntValue(value)) };
    let server = Span {
        trace_id: vec![0x5b, 0x8e, 0xff, 0xf7, 0x98, 0x03, 0x81, 0x03, 0xd2, 0x69, 0xb6, 0x33, 0x81, 0x3f, 0xc6, 0x0c],
        span_id: vec![0xee, 0xe1, 0x9b, 0x7e, 0xc3, 0xc1, 0xb1, 0x74],
        parent_span_id: vec![0xee, 0xe1, 0x9b, 0x7e, 0xc3, 0xc1, 0xb1, 0x73],
        name: "POST /cart/checkout".into(),
        kind: 2,
        start_time_unix_nano: 1_727_701_200_000_000_001,
        end_time_unix_nano: 1_727_701_200_250_000_000,
        attributes: vec![
            string("http.request.method", "POST"),
            KeyValue { key: "http.response.status_code".into(), value: Some(int(500)), key_strindex: 0 },
            KeyValue {
                key: "cart.items".into(),
                value: Some(AnyValue { value: Some(Value::ArrayValue(ArrayValue { values: vec![int(1), int(-2)] })) }),
                key_strindex: 0,
            },
        ],
        events: vec![Event {
            time_unix_nano: 1_727_701_200_100_000_000,
            name: "exception".into(),
            attributes: vec![string("exception.message", "card declined \"again\" \u{1F4B3}")],
            dropped_attributes_count: 0,
        }],
        links: vec![Link { trace_id: vec![0xab; 16], span_id: vec![0xcd; 8], flags: 257, ..Link::default() }],
        status: Some(Status { code: 2, message: "card declined".into() }),
        flags: 257,
        ..Span::default()
    };
    let scope = InstrumentationScope {
        name: "@opentelemetry/instrumentation-http".into(),
        version: "0.53.0".into(),
        ..InstrumentationScope::default()
    };
    let scope_spans = ScopeSpans { scope: Some(scope), spans: vec![server], ..ScopeSpans::default() };
    let resource = Resource { attributes: vec![string("service.name", "checkout")], ..Resource::default() };
    let resource_spans =
        ResourceSpans { resource: Some(resource), scope_spans: vec![scope_spans], ..ResourceSpans::default() };
    assert_same(&golden, &ExportTraceServiceRequest { resource_spans: vec![resource_spans] });
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
        ("{\"resourceSpans\":{}}", "invalid type: map, expected an array at line 1 column 17 in resourceSpans"),
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

/// Writes a request as OTLP/JSON, independently of the code under test.
mod write {
    use super::*;
    use serde_json::{Value as Json, json};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02X}")).collect()
    }

    fn any_value(value: &AnyValue) -> Json {
        use base64::Engine as _;
        match &value.value {
            None => json!({}),
            Some(Value::StringValue(text)) => json!({ "stringValue": text }),
            Some(Value::BoolValue(value)) => json!({ "boolValue": value }),
            Some(Value::IntValue(value)) => json!({ "intValue": value.to_string() }),
            Some(Value::DoubleValue(value)) if value.is_nan() => json!({ "doubleValue": "NaN" }),
            Some(Value::DoubleValue(value)) if value.is_infinite() => {
                json!({ "doubleValue": if *value > 0.0 { "Infinity" } else { "-Infinity" } })
            }
            Some(Value::DoubleValue(value)) => json!({ "doubleValue": value }),
            Some(Value::ArrayValue(array)) => {
                json!({ "arrayValue": { "values": array.values.iter().map(any_value).collect::<Vec<_>>() } })
            }
            Some(Value::KvlistValue(list)) => json!({ "kvlistValue": { "values": attributes(&list.values) } }),
            Some(Value::BytesValue(bytes)) => {
                json!({ "bytesValue": base64::engine::general_purpose::STANDARD.encode(bytes) })
            }
            Some(Value::StringValueStrindex(index)) => json!({ "stringValueStrindex": index }),
        }
    }

    fn attributes(attributes: &[KeyValue]) -> Json {
        let attribute = |attribute: &KeyValue| {
            json!({
                "key": attribute.key, "value": attribute.value.as_ref().map(any_value),
                "keyStrindex": attribute.key_strindex,
            })
        };
        attributes.iter().map(attribute).collect()
    }

    fn span(span: &Span) -> Json {
        let event = |event: &Event| {
            json!({
                "timeUnixNano": event.time_unix_nano.to_string(), "name": event.name,
                "attributes": attributes(&event.attributes), "droppedAttributesCount": event.dropped_attributes_count,
            })
        };
        let link = |link: &Link| {
            json!({
                "traceId": hex(&link.trace_id), "spanId": hex(&link.span_id), "traceState": link.trace_state,
                "attributes": attributes(&link.attributes), "droppedAttributesCount": link.dropped_attributes_count,
                "flags": link.flags,
            })
        };
        json!({
            "traceId": hex(&span.trace_id), "spanId": hex(&span.span_id), "traceState": span.trace_state,
            "parentSpanId": hex(&span.parent_span_id), "flags": span.flags, "name": span.name, "kind": span.kind,
            "startTimeUnixNano": span.start_time_unix_nano, "endTimeUnixNano": span.end_time_unix_nano.to_string(),
            "attributes": attributes(&span.attributes), "droppedAttributesCount": span.dropped_attributes_count,
            "events": span.events.iter().map(event).collect::<Vec<_>>(),
            "droppedEventsCount": span.dropped_events_count,
            "links": span.links.iter().map(link).collect::<Vec<_>>(), "droppedLinksCount": span.dropped_links_count,
            "status": span.status.as_ref().map(|status| json!({ "message": status.message, "code": status.code })),
        })
    }

    fn scope_spans(scope_spans: &ScopeSpans) -> Json {
        let scope = |scope: &InstrumentationScope| {
            json!({
                "name": scope.name, "version": scope.version, "attributes": attributes(&scope.attributes),
                "droppedAttributesCount": scope.dropped_attributes_count,
            })
        };
        json!({
            "scope": scope_spans.scope.as_ref().map(scope), "schemaUrl": scope_spans.schema_url,
            "spans": scope_spans.spans.iter().map(span).collect::<Vec<_>>(),
        })
    }

    pub(super) fn request(request: &ExportTraceServiceRequest) -> String {
        let resource = |resource: &Resource| {
            let entity = |entity: &opentelemetry_proto::tonic::common::v1::EntityRef| {
                json!({
                    "schemaUrl": entity.schema_url, "type": entity.r#type, "idKeys": entity.id_keys,
                    "descriptionKeys": entity.description_keys,
                })
            };
            json!({
                "attributes": attributes(&resource.attributes),
                "droppedAttributesCount": resource.dropped_attributes_count,
                "entityRefs": resource.entity_refs.iter().map(entity).collect::<Vec<_>>(),
            })
        };
        let resource_spans = |data: &ResourceSpans| {
            json!({
                "resource": data.resource.as_ref().map(resource), "schemaUrl": data.schema_url,
                "scopeSpans": data.scope_spans.iter().map(scope_spans).collect::<Vec<_>>(),
            })
        };
        json!({ "resourceSpans": request.resource_spans.iter().map(resource_spans).collect::<Vec<_>>() }).to_string()
    }
}

proptest! {
    #[test]
    fn requests_come_back_from_json_as_they_were(request in request()) {
        let mut request = request;
        // A NaN keeps no payload in JSON.
        let json = write::request(&request);
        let bytes = from_json(Signal::Traces, json.as_bytes(), &LIMITS, usize::MAX).unwrap();
        validate(Signal::Traces, &bytes, &LIMITS).unwrap();
        let mut read = decode(&bytes);
        forget_nan_payloads(&mut request);
        forget_nan_payloads(&mut read);
        assert_same(&read, &request);
    }
}

pub(crate) fn forget_nan_payloads(request: &mut ExportTraceServiceRequest) {
    fn in_value(value: &mut AnyValue) {
        match &mut value.value {
            Some(Value::DoubleValue(value)) if value.is_nan() => *value = f64::NAN,
            Some(Value::ArrayValue(array)) => array.values.iter_mut().for_each(in_value),
            Some(Value::KvlistValue(list)) => in_attributes(&mut list.values),
            _ => {}
        }
    }
    fn in_attributes(attributes: &mut [KeyValue]) {
        attributes.iter_mut().filter_map(|attribute| attribute.value.as_mut()).for_each(in_value);
    }
    for resource_spans in &mut request.resource_spans {
        resource_spans.resource.iter_mut().for_each(|resource| in_attributes(&mut resource.attributes));
        for scope_spans in &mut resource_spans.scope_spans {
            scope_spans.scope.iter_mut().for_each(|scope| in_attributes(&mut scope.attributes));
            for span in &mut scope_spans.spans {
                in_attributes(&mut span.attributes);
                span.events.iter_mut().for_each(|event| in_attributes(&mut event.attributes));
                span.links.iter_mut().for_each(|link| in_attributes(&mut link.attributes));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, max_shrink_iters: 1024, ..ProptestConfig::default() })]

    /// What is accepted is valid and within its size; what is not has a place.
    #[test]
    fn damaged_json_is_refused_or_valid(
        json in damaged(request().prop_map(|request| write::request(&request).into_bytes())),
        max in 0..5000usize,
    ) {
        match from_json(Signal::Traces, &json, &LIMITS, max) {
            Ok(bytes) => {
                prop_assert!(bytes.len() <= max);
                prop_assert!(validate(Signal::Traces, &bytes, &LIMITS).is_ok());
            }
            Err(Error::Json { line, .. }) => prop_assert!(line > 0),
            Err(error) => prop_assert!(false, "not a JSON error: {error}"),
        }
    }
}
