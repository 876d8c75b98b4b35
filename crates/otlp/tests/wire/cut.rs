//! Cutting and halving keep every span in its context, and keep to the size.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;
use weir_otlp::cursor::Fields;
use weir_otlp::splice::{Edit, splice};
use weir_otlp::{Part, Signal, cut, halve, traces, validate};

use crate::generate::request;
use crate::model::LIMITS;

/// A span with everything that stands around it: the other fields of its scope and of its resource, all raw.
type Placed = (Vec<u8>, Vec<u8>, Vec<u8>);

fn placed_spans(request: &[u8]) -> Vec<Placed> {
    let mut spans = Vec::new();
    for resource in traces::resource_spans(request) {
        let around_scope = except(request, resource.0.fields(), 2);
        for scope in resource.scope_spans() {
            let around_span = except(request, scope.0.fields(), 2);
            let span = |span: traces::Span<'_>| request[span.0.range()].to_vec();
            spans.extend(scope.spans().map(|view| (around_scope.clone(), around_span.clone(), span(view))));
        }
    }
    spans.sort();
    spans
}

fn except(request: &[u8], fields: Fields<'_>, number: u32) -> Vec<u8> {
    fields.filter(|field| field.number != number).flat_map(|field| &request[field.start..field.end]).copied().collect()
}

/// A request with fields of a later OTLP in it.
fn request_with_unknown_fields() -> impl Strategy<Value = Bytes> {
    let unknown = prop::sample::select(vec![&b""[..], b"\xfa\x01\x03new", b"\xf8\x01\x07", b"\xfd\x01abcd"]);
    (vec(request(), 1..3), vec(unknown, 4)).prop_map(|(requests, unknown)| {
        let bytes: Vec<u8> = requests.iter().flat_map(|request| request.encode_to_vec()).collect();
        let mut edits = vec![Edit::append(weir_otlp::common::Message::request(&bytes), unknown[0])];
        for resource in traces::resource_spans(&bytes) {
            edits.push(Edit::append(resource.0, unknown[1]));
            for scope in resource.scope_spans() {
                edits.push(Edit::append(scope.0, unknown[2]));
                edits.extend(scope.spans().map(|span| Edit::append(span.0, unknown[3])));
            }
        }
        splice(Signal::Traces, &bytes, edits).unwrap().into()
    })
}

#[track_caller]
fn check_parts(request: &Bytes, parts: &[Part]) {
    let together: Vec<u8> = parts.iter().flat_map(|part| part.bytes.to_vec()).collect();
    assert_eq!(placed_spans(&together), placed_spans(request));
    for part in parts {
        assert_eq!(validate(Signal::Traces, &part.bytes, &LIMITS).unwrap().items, part.items);
    }
}

/// Bytes of the fields in a part of one resource and one scope that would stand again in each piece of it.
fn context_of(part: &[u8]) -> usize {
    let resources = || traces::resource_spans(part);
    let scopes = resources().flat_map(traces::ResourceSpans::scope_spans);
    let around: usize = resources().map(|resource| except(part, resource.0.fields(), 2).len()).sum();
    around + scopes.map(|scope| except(part, scope.0.fields(), 2).len()).sum::<usize>()
}

proptest! {
    #[test]
    fn parts_hold_every_span_in_its_context(request in request_with_unknown_fields(), max in 0..3000usize) {
        let parts = cut(Signal::Traces, &request, max);
        check_parts(&request, &parts);
        for part in parts.iter().filter(|part| part.bytes.len() > max) {
            // Headers of three messages stand beside the context.
            prop_assert!(part.items <= 1 || context_of(&part.bytes) + 20 > max / 4, "{} spans, {} bytes, {max}",
                part.items, part.bytes.len());
        }
    }

    #[test]
    fn halves_are_even(request in request_with_unknown_fields()) {
        let items = validate(Signal::Traces, &request, &LIMITS).unwrap().items;
        match halve(Signal::Traces, &request) {
            None => prop_assert!(items < 2),
            Some((left, right)) => {
                prop_assert_eq!((left.items, right.items), (items / 2, items - items / 2));
                check_parts(&request, &[left, right]);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..300), max in 0..100usize) {
        let bytes = Bytes::from(bytes);
        cut(Signal::Traces, &bytes, max);
        halve(Signal::Traces, &bytes);
    }
}

/// `count` resources with one scope each, all of the same size.
fn even_request(count: usize) -> (Bytes, usize) {
    let one = b"\x0a\x10\x0a\x02\x10\x01\x12\x0a\x12\x02\x30\x01\x12\x04\x2a\x02ab";
    (Bytes::from(one.repeat(count)), one.len())
}

#[test]
fn whole_resources_are_slices_of_the_request() {
    let (request, one) = even_request(10);
    let parts = cut(Signal::Traces, &request, 3 * one + 1);
    assert_eq!(parts.iter().map(|part| part.items).collect::<Vec<_>>(), [6, 6, 6, 2]);
    for (index, part) in parts.iter().enumerate() {
        assert_eq!(part.bytes.as_ptr(), request[index * 3 * one..].as_ptr(), "part {index} was copied");
    }
    let (left, right) = halve(Signal::Traces, &request).unwrap();
    assert_eq!((left.bytes.as_ptr(), right.bytes.as_ptr()), (request.as_ptr(), request[5 * one..].as_ptr()));
}

#[test]
fn a_request_that_fits_is_one_part() {
    let (request, one) = even_request(2);
    assert_eq!(cut(Signal::Traces, &request, 2 * one), [Part { bytes: request, items: 4 }]);
}

#[test]
fn a_large_resource_is_cut_between_its_spans() {
    let mut scope = weir_otlp::build::Encoder::default();
    scope.bytes(1, b"\x0a\x05scope");
    for _ in 0..100 {
        scope.bytes(2, b"\x2a\x08GET /all");
    }
    let mut resource = weir_otlp::build::Encoder::default();
    resource.bytes(1, b"\x10\x07");
    resource.bytes(2, &scope.into_bytes());
    resource.bytes(3, b"https://schema");
    let mut request = weir_otlp::build::Encoder::default();
    request.bytes(1, &resource.into_bytes());
    let request = Bytes::from(request.into_bytes());

    let parts = cut(Signal::Traces, &request, 200);
    check_parts(&request, &parts);
    assert!(parts.iter().all(|part| part.bytes.len() <= 200));
    // 200 bytes, less 33 of context and header, make room for 13 spans of 12 bytes.
    assert_eq!(parts.iter().map(|part| part.items).collect::<Vec<_>>(), [13, 13, 13, 13, 13, 13, 13, 9]);
}

#[test]
fn a_single_large_span_is_its_own_part() {
    let mut scope = weir_otlp::build::Encoder::default();
    scope.bytes(2, b"\x2a\x01a");
    scope.bytes(2, &[b"\x2a\x7f".as_slice(), &[b'b'; 127]].concat());
    scope.bytes(2, b"\x2a\x01c");
    let mut resource = weir_otlp::build::Encoder::default();
    resource.bytes(2, &scope.into_bytes());
    let mut request = weir_otlp::build::Encoder::default();
    request.bytes(1, &resource.into_bytes());
    let request = Bytes::from(request.into_bytes());

    let parts = cut(Signal::Traces, &request, 100);
    check_parts(&request, &parts);
    assert_eq!(parts.iter().map(|part| part.items).collect::<Vec<_>>(), [1, 1, 1]);
    assert!(parts[1].bytes.len() > 100);
    assert_eq!(halve(Signal::Traces, &parts[1].bytes), None);
}

/// Its length takes more bytes than it needs, so that it is too large while there is nothing in it to cut.
#[test]
fn a_resource_without_spans_is_kept() {
    let request = Bytes::from_static(b"\x0a\x84\x80\x80\x80\x80\x80\x80\x80\x80\x00\x1a\x02ab");
    assert_eq!(cut(Signal::Traces, &request, 12), [Part { bytes: request, items: 0 }]);
}

/// What is repeated in each part must not multiply the data.
#[test]
fn context_larger_than_half_of_the_limit_is_not_repeated() {
    let mut resource = weir_otlp::build::Encoder::default();
    resource.bytes(3, &[b'u'; 60]);
    for _ in 0..1000 {
        resource.bytes(2, b"\x12\x00");
    }
    let mut request = weir_otlp::build::Encoder::default();
    request.bytes(1, &resource.into_bytes());
    let request = Bytes::from(request.into_bytes());
    assert_eq!(cut(Signal::Traces, &request, 100).len(), 1);
    let parts = cut(Signal::Traces, &request, 200);
    check_parts(&request, &parts);
    let total: usize = parts.iter().map(|part| part.bytes.len()).sum();
    assert!(total < 4 * request.len(), "{total} bytes made of {}", request.len());
}
