//! Splices against the same edits done by a library that decodes.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value as Dynamic};
use weir_otlp::build::Encoder;
use weir_otlp::common::Message;
use weir_otlp::cursor::Cursor;
use weir_otlp::splice::{Edit, splice, splice_front};
use weir_otlp::{Error, Signal, traces, validate};

use crate::generate::{any_signal, damaged_request, request, request_bytes};
use crate::model::{LIMITS, Request, assert_same, levels, walk};
use crate::reflect;

/// An attribute, encoded.
fn attribute(value: &str) -> Vec<u8> {
    let value = AnyValue { value: Some(Value::StringValue(value.into())) };
    KeyValue { key: "k8s.pod.name".into(), value: Some(value), key_strindex: 0 }.encode_to_vec()
}

fn field(number: u32, body: &[u8]) -> Vec<u8> {
    let mut field = Encoder::default();
    field.bytes(number, body);
    field.into_bytes()
}

/// The number of the attributes of an item, which metrics number by the type of the data it is in.
fn attributes_of_items(signal: Signal, request: &[u8], holder: Message<'_>) -> u32 {
    let data = Cursor::new(&request[holder.field_range()]).key().unwrap().unwrap().number;
    match (signal, data) {
        (Signal::Traces, _) | (Signal::Metrics, 9) => 9,
        (Signal::Metrics, 10) => 1,
        (Signal::Metrics, _) => 7,
        (Signal::Logs, _) => 6,
    }
}

/// The edits as decoded messages take them.
struct Decoded<F> {
    added: Vec<u8>,
    drops: F,
    items: usize,
}

impl<F: Fn(usize) -> bool> Decoded<F> {
    /// Edits a message whose items are at `levels`.
    fn edit(&mut self, message: &mut DynamicMessage, levels: &[&[u32]]) {
        if message.has_field_by_name("resource") {
            let resource = message.get_field_by_name_mut("resource").unwrap().as_message_mut().unwrap();
            let added = attribute_of(resource, &self.added);
            attributes(resource).push(added);
        }
        let (numbers, deeper) = levels.split_first().unwrap();
        for number in *numbers {
            if !message.has_field_by_number(*number) {
                continue;
            }
            match message.get_field_by_number_mut(*number).unwrap() {
                Dynamic::List(items) if deeper.is_empty() => self.edit_items(items),
                Dynamic::List(inner) => {
                    inner.iter_mut().filter_map(Dynamic::as_message_mut).for_each(|inner| self.edit(inner, deeper));
                }
                Dynamic::Message(inner) => self.edit(inner, deeper),
                other => unreachable!("{other:?} on the way to items"),
            }
        }
    }

    fn edit_items(&mut self, items: &mut Vec<Dynamic>) {
        items.retain(|_| {
            self.items += 1;
            !(self.drops)(self.items)
        });
        for item in items.iter_mut().filter_map(Dynamic::as_message_mut) {
            let added = attribute_of(item, &self.added);
            attributes(item).first_mut().iter_mut().for_each(|first| (*first).clone_from(&added));
        }
    }
}

fn attributes(message: &mut DynamicMessage) -> &mut Vec<Dynamic> {
    message.get_field_by_name_mut("attributes").unwrap().as_list_mut().unwrap()
}

/// An attribute as this message has them.
fn attribute_of(message: &DynamicMessage, encoded: &[u8]) -> Dynamic {
    let attributes = message.descriptor().get_field_by_name("attributes").unwrap();
    Dynamic::Message(DynamicMessage::decode(attributes.kind().as_message().unwrap().clone(), encoded).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 768, ..ProptestConfig::default() })]

    /// WIRE-2
    #[test]
    fn no_edits_no_change((signal, bytes) in prop_oneof![
        (any_signal(), prop::collection::vec(any::<u8>(), 0..200)),
        request_bytes(),
    ]) {
        prop_assert_eq!(splice(signal, &bytes, Vec::new()).unwrap(), bytes);
    }

    /// Enrichment, filter and transformation at once: an attribute is added to each resource, items are dropped, and
    /// the first attribute of each item is replaced.
    #[test]
    fn edits_do_what_decoding_would_do(request in request(), dropped in any::<u32>(), value in "[a-z]{0,200}") {
        let drops = |index: usize| dropped >> (index % 32) & 1 == 1;
        let (signal, bytes, added) = (request.signal(), request.encode(), attribute(&value));

        let mut expected = DynamicMessage::decode(reflect::request(signal), &bytes[..]).unwrap();
        Decoded { added: added.clone(), drops, items: 0 }.edit(&mut expected, levels(signal));

        let mut edits = Vec::new();
        let mut items = 0;
        walk(signal, &bytes, &mut |path| match path {
            [_, resource] => {
                edits.extend(resource.message(1).map(|resource| Edit::append(resource, field(1, &added))));
            }
            [.., holder, item] if path.len() > levels(signal).len() => {
                items += 1;
                let number = attributes_of_items(signal, &bytes, *holder);
                if drops(items) {
                    edits.push(Edit::remove(*holder, *item));
                } else if let Some(first) = item.messages(number).next() {
                    edits.push(Edit::replace(*item, first, field(number, &added)));
                }
            }
            _ => {}
        });
        let spliced = splice(signal, &bytes, edits.clone()).unwrap();
        validate(signal, &spliced, &LIMITS).unwrap();
        let (front, until) = splice_front(signal, &bytes, edits).unwrap();
        prop_assert_eq!([&front[..], &bytes[until..]].concat(), &spliced[..]);
        let expected = Request::decode(signal, &expected.encode_to_vec());
        assert_same(&Request::decode(signal, &spliced), &expected);
    }

    #[test]
    fn damaged_requests_do_not_panic((signal, bytes) in damaged_request()) {
        let mut edits = Vec::new();
        walk(signal, &bytes, &mut |path| match path {
            [_, resource] => edits.extend(resource.message(1).map(|it| Edit::append(it, &b"\x10\x01"[..]))),
            [_, resource, scope] => edits.push(Edit::remove(*resource, *scope)),
            _ => {}
        });
        drop(splice_front(signal, &bytes, edits.clone()));
        drop(splice(signal, &bytes, edits));
    }

    /// What is left where it is counts in the lengths around it.
    #[test]
    fn a_front_and_the_rest_are_the_whole(request in request(), resources in 0..3_usize, value in "[a-z]{0,200}") {
        let (signal, bytes, added) = (request.signal(), request.encode(), attribute(&value));
        let mut edits = Vec::new();
        walk(signal, &bytes, &mut |path| {
            if let [_, resource] = path
                && edits.len() < resources
            {
                edits.extend(resource.message(1).map(|resource| Edit::append(resource, field(1, &added))));
            }
        });
        let (front, until) = splice_front(signal, &bytes, edits.clone()).unwrap();
        prop_assert_eq!([&front[..], &bytes[until..]].concat(), splice(signal, &bytes, edits).unwrap());
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
