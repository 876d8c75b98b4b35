//! Properties over generated requests and texts, with prost as the oracle.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message as _;
use weir_ottl::{Filter, Options, Signal, Transform};

use crate::table::LIMITS;

fn string(value: &str) -> Option<AnyValue> {
    Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) })
}

/// Attributes with different keys, some of them those the statements name.
fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    let value = prop_oneof![
        4 => "[a-c]{0,3}".prop_map(Value::StringValue),
        1 => any::<i64>().prop_map(Value::IntValue),
        1 => "x{120,140}".prop_map(Value::StringValue),
    ];
    let entry = (prop_oneof![Just("old".to_owned()), Just("gone".to_owned()), "[a-z]{1,12}"], value);
    vec(entry, 0..6).prop_map(|entries| {
        let entries: std::collections::BTreeMap<String, Value> = entries.into_iter().collect();
        let pair = |(key, value)| KeyValue { key, value: Some(AnyValue { value: Some(value) }), key_strindex: 0 };
        entries.into_iter().map(pair).collect()
    })
}

fn request() -> impl Strategy<Value = ExportTraceServiceRequest> {
    let span = ("[xyz]{0,2}", attributes(), any::<u64>()).prop_map(|(name, attributes, start_time_unix_nano)| Span {
        name,
        attributes,
        start_time_unix_nano,
        ..Span::default()
    });
    let scope = vec(span, 1..4).prop_map(|spans| ScopeSpans { spans, ..ScopeSpans::default() });
    let resource = attributes().prop_map(|attributes| Resource { attributes, ..Resource::default() });
    let resource = (option::of(resource), vec(scope, 1..3));
    let resource =
        resource.prop_map(|(resource, scope_spans)| ResourceSpans { resource, scope_spans, ..Default::default() });
    vec(resource, 0..4).prop_map(|resource_spans| ExportTraceServiceRequest { resource_spans })
}

fn transform(statements: &[&str]) -> Transform {
    let statements: Vec<String> = statements.iter().map(|text| (*text).to_owned()).collect();
    Transform::compile(Signal::Traces, &Options::transform(Signal::Traces), &[], &statements).unwrap()
}

fn spans_of(request: &mut ExportTraceServiceRequest) -> impl Iterator<Item = &mut Span> {
    let scopes = request.resource_spans.iter_mut().flat_map(|resource| &mut resource.scope_spans);
    scopes.flat_map(|scope| &mut scope.spans)
}

/// A message that protobuf knows no fields of: appended to any message, it must survive.
const UNKNOWN: &[u8] = b"\xfa\x07\x03abc";

proptest! {
    /// OTTL-3
    #[test]
    fn what_does_not_match_is_not_touched(request in request()) {
        let bytes = [&request.encode_to_vec()[..], UNKNOWN].concat();
        let statements = [
            "set(span.name, \"new\") where span.name == \"never\"",
            "delete_key(span.attributes, \"NEVER\")",
            "delete_matching_keys(resource.attributes, \"[A-Z]\")",
            "set(span.cache[\"a\"], span.name)",
        ];
        prop_assert_eq!(transform(&statements).apply(&bytes, &LIMITS).request, None);
        let conditions = ["span.name == \"never\" or resource.attributes[\"NEVER\"] != nil".to_owned()];
        let filter = Filter::compile(Signal::Traces, &Options::filter(Signal::Traces), &conditions).unwrap();
        prop_assert_eq!(filter.apply(&bytes, &LIMITS).request, None);
    }

    #[test]
    fn edits_do_what_prost_would_do(request in request(), value in "[a-z]{0,200}") {
        let mut expected = request.clone();
        for span in spans_of(&mut expected) {
            let old = span.attributes.iter().find(|pair| pair.key == "old").and_then(|pair| pair.value.clone());
            if let Some(old) = old {
                span.attributes.push(KeyValue { key: "NEW".to_owned(), value: Some(old), key_strindex: 0 });
            }
            span.attributes.retain(|pair| pair.key != "old" && pair.key != "gone");
            if span.name == "x" {
                span.name.clone_from(&value);
                span.start_time_unix_nano = 7;
            }
        }
        for resource in &mut expected.resource_spans {
            let resource = resource.resource.get_or_insert_default();
            resource.attributes.push(KeyValue { key: "ADDED".to_owned(), value: string(&value), key_strindex: 0 });
        }
        let statements = [
            "set(span.attributes[\"NEW\"], span.attributes[\"old\"])",
            "delete_key(span.attributes, \"old\")",
            "delete_key(span.attributes, \"gone\")",
            "set(span.start_time_unix_nano, 7) where span.name == \"x\"",
            &format!("set(span.name, \"{value}\") where span.name == \"x\""),
            &format!("set(resource.attributes[\"ADDED\"], \"{value}\")"),
        ];
        let bytes = request.encode_to_vec();
        let done = transform(&statements).apply(&bytes, &LIMITS);
        prop_assert!(done.statements.iter().all(|tally| tally.errors == 0));
        let bytes = done.request.unwrap_or(bytes);
        weir_otlp::validate(Signal::Traces, &bytes, &weir_otlp::Limits::default()).unwrap();
        prop_assert_eq!(ExportTraceServiceRequest::decode(&bytes[..]).unwrap(), expected);
    }

    #[test]
    fn filters_do_what_prost_would_do(request in request(), name in "[xyz]{0,2}") {
        let mut expected = request.clone();
        for resource in &mut expected.resource_spans {
            resource.scope_spans.iter_mut().for_each(|scope| scope.spans.retain(|span| span.name != name));
            resource.scope_spans.retain(|scope| !scope.spans.is_empty());
        }
        expected.resource_spans.retain(|resource| !resource.scope_spans.is_empty());
        let conditions = [format!("span.name == \"{name}\"")];
        let filter = Filter::compile(Signal::Traces, &Options::filter(Signal::Traces), &conditions).unwrap();
        let bytes = request.encode_to_vec();
        let done = filter.apply(&bytes, &LIMITS);
        let left = done.request.unwrap_or(bytes);
        prop_assert_eq!(ExportTraceServiceRequest::decode(&left[..]).unwrap(), expected);
    }

    /// OTTL-1
    #[test]
    fn no_text_makes_the_compiler_panic(words in vec(prop::sample::select(WORDS.to_vec()), 0..40), noise in "\\PC{0,20}") {
        let text = words.join(" ");
        for text in [text.clone(), words.concat(), format!("{text}{noise}"), noise] {
            let texts = [text];
            let options = Options::transform(Signal::Traces);
            for error in Transform::compile(Signal::Traces, &options, &texts, &texts).err().into_iter().flatten() {
                prop_assert!(error.line() > 0 && error.to_string().contains(error.message()));
            }
        }
    }

    /// Views read damaged bytes as far as they go; so must statements.
    #[test]
    fn damaged_requests_do_not_panic(request in request(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = request.encode_to_vec();
        if bytes.is_empty() {
            return Ok(());
        }
        let index = at.index(bytes.len());
        bytes[index] = byte;
        let statements = [
            "set(span.attributes[\"NEW\"], span.attributes[\"old\"])",
            "keep_matching_keys(span.attributes, \"^[a-m]\")",
            "set(resource.attributes[\"a\"], Concat([span.attributes, span.name, span.trace_id.string], \",\"))",
        ];
        transform(&statements).apply(&bytes, &LIMITS);
    }
}

const WORDS: &[&str] = &[
    "set",
    "(",
    ")",
    "span",
    ".",
    "name",
    ",",
    "\"x\"",
    "where",
    "==",
    "<",
    "and",
    "or",
    "not",
    "nil",
    "true",
    "1",
    "2.5",
    "0xff",
    "[",
    "]",
    "{",
    "}",
    ":",
    "+",
    "-",
    "*",
    "/",
    "=>",
    "=",
    "IsMatch",
    "Concat",
    "SPAN_KIND_SERVER",
    "attributes",
    "resource",
    "delete_key",
    "Any",
    "_",
    "cache",
    "IsRootSpan",
    "\"(\"",
    "Len",
    "set(span.name, ",
    "span.attributes[\"a\"]",
    "(x, y) => ",
];
