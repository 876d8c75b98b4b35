//! Splices against the same edits done by prost.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use proptest::prelude::*;
use prost::Message as _;
use weir_otlp::build::Encoder;
use weir_otlp::splice::{Edit, splice};
use weir_otlp::{Error, Signal, traces, validate};

use crate::generate::{damaged, request};
use crate::model::{LIMITS, assert_same, decode};

fn attribute(number: u32, value: &str) -> (Vec<u8>, KeyValue) {
    let attribute = KeyValue {
        key: "k8s.pod.name".into(),
        value: Some(AnyValue { value: Some(Value::StringValue(value.into())) }),
        key_strindex: 0,
    };
    let mut field = Encoder::default();
    field.bytes(number, &attribute.encode_to_vec());
    (field.into_bytes(), attribute)
}

proptest! {
    /// WIRE-2
    #[test]
    fn no_edits_no_change(bytes in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        request().prop_map(|request| request.encode_to_vec()),
    ]) {
        prop_assert_eq!(splice(Signal::Traces, &bytes, Vec::new()).unwrap(), bytes);
    }

    /// Enrichment, filter and transformation at once: an attribute is added to each resource, spans are dropped, and
    /// the values of attributes are replaced.
    #[test]
    fn edits_do_what_prost_would_do(request in request(), dropped in any::<u32>(), value in "[a-z]{0,200}") {
        let drops = |index: usize| dropped >> (index % 32) & 1 == 1;
        let bytes = request.encode_to_vec();
        let (resource_field, added) = attribute(1, &value);
        let (span_field, replaced) = attribute(9, &value);

        let mut expected = request;
        let mut index = 0;
        for resource in &mut expected.resource_spans {
            resource.resource.iter_mut().for_each(|resource| resource.attributes.push(added.clone()));
            for scope in &mut resource.scope_spans {
                scope.spans.retain(|_| { index += 1; !drops(index) });
                for span in &mut scope.spans {
                    span.attributes.first_mut().iter_mut().for_each(|first| (*first).clone_from(&replaced));
                }
            }
        }

        let mut edits = Vec::new();
        let mut index = 0;
        for resource in traces::resource_spans(&bytes) {
            edits.extend(resource.resource().map(|resource| Edit::append(resource.0, &resource_field[..])));
            for scope in resource.scope_spans() {
                for span in scope.spans() {
                    index += 1;
                    if drops(index) {
                        edits.push(Edit::remove(scope.0, span.0));
                    } else if let Some(first) = span.attributes().next() {
                        edits.push(Edit::replace(span.0, first.0, span_field.clone()));
                    }
                }
            }
        }
        let spliced = splice(Signal::Traces, &bytes, edits).unwrap();
        validate(Signal::Traces, &spliced, &LIMITS).unwrap();
        assert_same(&decode(&spliced), &expected);
    }

    #[test]
    fn damaged_requests_do_not_panic(bytes in damaged(request().prop_map(|request| request.encode_to_vec()))) {
        let mut edits = Vec::new();
        for resource in traces::resource_spans(&bytes) {
            edits.extend(resource.resource().map(|resource| Edit::append(resource.0, &b"\x10\x01"[..])));
            edits.extend(resource.scope_spans().map(|scope| Edit::remove(resource.0, scope.0)));
        }
        drop(splice(Signal::Traces, &bytes, edits));
    }
}

/// One resource and one scope with these spans, and unknown fields in and after the resource.
fn small_request(resource: &[u8], spans: &[&[u8]]) -> Vec<u8> {
    let mut request = Encoder::default();
    let resource_spans = request.open(1, 0);
    request.bytes(1, resource);
    let scope_spans = request.open(2, 0);
    spans.iter().for_each(|span| request.bytes(2, span));
    request.close(scope_spans);
    request.raw(b"\xf8\x01\x05");
    request.close(resource_spans);
    request.into_bytes()
}

#[test]
fn what_is_not_edited_keeps_its_bytes() {
    // An unknown field, and a length written in more bytes than it needs.
    let (unknown, overlong) = (b"\xfd\x01abcd", b"\x2a\x81\x80\x00b");
    let request = small_request(unknown, &[b"\x2a\x01a", overlong]);
    let resource_spans = traces::resource_spans(&request).next().unwrap();
    let scope_spans = resource_spans.scope_spans().next().unwrap();
    let first = scope_spans.spans().next().unwrap();
    // Long enough that the lengths around it grow from one byte to two.
    let long = [&b"\x0a\xc8\x01"[..], &[0; 200]].concat();
    let edits = vec![
        Edit::remove(scope_spans.0, first.0),
        Edit::append(resource_spans.resource().unwrap().0, &long),
        Edit::append(resource_spans.resource().unwrap().0, &b"\x10\x01"[..]),
    ];
    let expected = small_request(&[unknown, &long[..], b"\x10\x01"].concat(), &[overlong]);
    assert_eq!(splice(Signal::Traces, &request, edits).unwrap(), expected);
}

#[test]
fn edits_at_one_place_go_to_their_own_message() {
    // All three messages end at the same byte.
    let request = b"\x0a\x06\x12\x04\x12\x02\x30\x01";
    let resource_spans = traces::resource_spans(request).next().unwrap();
    let scope_spans = resource_spans.scope_spans().next().unwrap();
    let span = scope_spans.spans().next().unwrap();
    let edits = vec![
        Edit::append(resource_spans.0, &b"\x1a\x01r"[..]),
        Edit::append(scope_spans.0, &b"\x1a\x01s"[..]),
        Edit::append(span.0, &b"\x2a\x01n"[..]),
    ];
    let expected = b"\x0a\x0f\x12\x0a\x12\x05\x30\x01\x2a\x01n\x1a\x01s\x1a\x01r";
    assert_eq!(splice(Signal::Traces, request, edits).unwrap(), expected);
}

#[test]
fn edits_that_do_not_fit_are_refused() {
    let request = small_request(b"", &[b"\x2a\x01a\x7a\x00"]);
    let other = small_request(b"", &[b"\x2a\x40some other request altogether, with one span and its long name....."]);
    let scope_of = |request| traces::resource_spans(request).next().unwrap().scope_spans().next().unwrap();
    let (scope, stranger) = (scope_of(&request), scope_of(&other));
    let span = scope.spans().next().unwrap();
    let status = span.status().unwrap();
    let check = |edits: Vec<Edit<'_>>, reason: &str| {
        let error = splice(Signal::Traces, &request, edits).unwrap_err();
        assert!(matches!(error, Error::Edit { .. }) && error.to_string().contains(reason), "{error}");
    };
    check(vec![Edit::remove(scope.0, span.0), Edit::remove(scope.0, span.0)], "overlaps");
    check(vec![Edit::remove(scope.0, span.0), Edit::remove(span.0, status.0)], "names no message");
    check(vec![Edit::remove(scope.0, status.0)], "whole fields");
    let longer = stranger.spans().next().unwrap();
    check(vec![Edit::remove(scope.0, longer.0)], "whole fields");
    check(vec![Edit::append(stranger.0, &b"\x10\x01"[..])], "no message");
}
