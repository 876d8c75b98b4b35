//! Cutting and halving keep every item in its context, and keep to the size.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use weir_otlp::build::Encoder;
use weir_otlp::common::Message;
use weir_otlp::field::request;
use weir_otlp::metrics::{self, Data};
use weir_otlp::splice::{Edit, splice};
use weir_otlp::{Signal, validate};

use crate::generate::{any_signal, request_of};
use crate::model::{LIMITS, Request, children, levels, walk};

/// A part as it was made.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    bytes: Bytes,
    items: u32,
}

fn made(part: &weir_otlp::Part<'_>) -> Part {
    let bytes = part.make();
    assert_eq!(bytes.len(), part.length(), "what was to be paid is what was made");
    let resources = |request: &[u8]| Message::request(request).messages(request::RESOURCES).count();
    assert_eq!(resources(part.resources()), resources(&bytes), "of which resources is known before it is made");
    Part { bytes, items: part.items() }
}

fn cut(signal: Signal, request: &Bytes, max: usize) -> Vec<Part> {
    weir_otlp::cut(signal, request, max).map(|part| made(&part)).collect()
}

fn halve(signal: Signal, request: &Bytes) -> Option<(Part, Part)> {
    weir_otlp::halve(signal, request).map(|(left, right)| (made(&left), made(&right)))
}

/// An item, or a message that holds none, with everything that stands around it: the other fields of each message that
/// holds it, outermost first, all raw.
type Placed = Vec<Vec<u8>>;

fn placed(signal: Signal, request: &[u8]) -> Vec<Placed> {
    let mut leaves = Vec::new();
    walk(signal, request, &mut |path| {
        let Some((leaf, around)) = path[1..].split_last() else { return };
        if levels(signal).get(path.len() - 1).is_some_and(|numbers| children(*leaf, numbers).next().is_some()) {
            return;
        }
        let mut placed: Placed =
            (1..).zip(around).map(|(level, outer)| context(signal, request, level, *outer)).collect();
        placed.push(request[leaf.range()].to_vec());
        leaves.push(placed);
    });
    leaves.sort();
    leaves
}

/// The fields of a message at this level that do not lead to items.
fn context(signal: Signal, request: &[u8], level: usize, message: Message<'_>) -> Vec<u8> {
    let Some(numbers) = levels(signal).get(level) else { return Vec::new() };
    let others = message.fields().filter(|field| !numbers.contains(&field.number));
    others.flat_map(|field| &request[field.start..field.end]).copied().collect()
}

/// A request with fields of a later OTLP in it.
fn request_with_unknown_fields() -> impl Strategy<Value = (Signal, Bytes)> {
    let unknown = prop::sample::select(vec![&b""[..], b"\xfa\x01\x03new", b"\xf8\x01\x07", b"\xfd\x01abcd"]);
    let requests = any_signal().prop_flat_map(|signal| (Just(signal), vec(request_of(signal), 1..3)));
    (requests, vec(unknown, 6)).prop_map(|((signal, requests), unknown)| {
        let bytes: Vec<u8> = requests.iter().flat_map(Request::encode).collect();
        let mut edits = Vec::new();
        walk(signal, &bytes, &mut |path| {
            let (level, message) = (path.len() - 1, path[path.len() - 1]);
            edits.push(Edit::append(message, unknown[level]));
        });
        (signal, splice(signal, &bytes, edits).unwrap().into())
    })
}

#[track_caller]
fn check_parts(signal: Signal, request: &Bytes, parts: &[Part]) {
    let together: Vec<u8> = parts.iter().flat_map(|part| part.bytes.to_vec()).collect();
    assert_eq!(placed(signal, &together), placed(signal, request));
    for part in parts {
        assert_eq!(validate(signal, &part.bytes, &LIMITS).unwrap().items, part.items);
    }
}

/// Bytes of the fields in a part that would stand again in each piece of it.
fn context_of(signal: Signal, part: &[u8]) -> usize {
    let mut bytes = 0;
    walk(signal, part, &mut |path| {
        if let [_, .., message] = path {
            bytes += context(signal, part, path.len() - 1, *message).len();
        }
    });
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 768, ..ProptestConfig::default() })]

    #[test]
    fn parts_hold_every_item_in_its_context((signal, request) in request_with_unknown_fields(), max in 0..3000usize) {
        let parts = cut(signal, &request, max);
        check_parts(signal, &request, &parts);
        for part in parts.iter().filter(|part| part.bytes.len() > max) {
            // Headers of up to five messages stand beside the context.
            prop_assert!(part.items <= 1 || context_of(signal, &part.bytes) + 30 > max / 4, "{} items, {} bytes, {max}",
                part.items, part.bytes.len());
        }
    }

    #[test]
    fn halves_are_even((signal, request) in request_with_unknown_fields()) {
        let items = validate(signal, &request, &LIMITS).unwrap().items;
        match halve(signal, &request) {
            None => prop_assert!(items < 2),
            Some((left, right)) => {
                prop_assert_eq!((left.items, right.items), (items / 2, items - items / 2));
                check_parts(signal, &request, &[left, right]);
            }
        }
    }

    #[test]
    fn every_item_can_stand_alone((signal, request) in request_with_unknown_fields()) {
        let parts: Vec<_> = weir_otlp::single(signal, &request).map(|part| made(&part)).collect();
        prop_assert!(parts.iter().all(|part| part.items == 1));
        prop_assert_eq!(Ok(parts.len()), usize::try_from(validate(signal, &request, &LIMITS).unwrap().items));
        let mut alone: Vec<Placed> = Vec::new();
        for part in &parts {
            prop_assert_eq!(validate(signal, &part.bytes, &LIMITS).unwrap().items, 1);
            let found = placed(signal, &part.bytes);
            prop_assert_eq!(found.len(), 1);
            alone.extend(found);
        }
        alone.sort();
        // Messages that hold no item stand nowhere.
        let items = placed(signal, &request).into_iter().filter(|placed| placed.len() == levels(signal).len());
        prop_assert_eq!(alone, items.collect::<Vec<_>>());
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(
        signal in any_signal(), bytes in vec(any::<u8>(), 0..300), max in 0..100usize,
    ) {
        let bytes = Bytes::from(bytes);
        cut(signal, &bytes, max);
        halve(signal, &bytes);
        weir_otlp::single(signal, &bytes).for_each(|part| drop(made(&part)));
    }
}

/// A metric with this data, one field, in a request with a resource, a scope and another metric before it.
fn with_metric(number: u32, data: &[u8]) -> Bytes {
    let mut request = Encoder::default();
    let resource = request.open(1, 0);
    request.bytes(1, b"\x10\x07");
    let scope = request.open(2, 0);
    request.bytes(2, b"\x0a\x05other\x2a\x02\x0a\x00");
    let metric = request.open(2, 0);
    request.bytes(1, b"http.server.requests");
    request.bytes(2, b"Requests taken");
    request.bytes(3, b"{request}");
    request.bytes(number, data);
    request.bytes(12, b"\x0a\x01m");
    request.close(metric);
    request.close(scope);
    request.close(resource);
    request.into_bytes().into()
}

/// `count` data points, each with its index as its time.
fn data_points(count: u64) -> Vec<u8> {
    let mut data = Encoder::default();
    for index in 0..count {
        let point = data.open(1, 0);
        data.fixed64(3, index);
        data.close(point);
    }
    data.into_bytes()
}

#[test]
fn a_large_metric_is_cut_between_its_data_points() {
    // The tail of a sum: cumulative, monotonic. It stands behind the points, as some encoders write it.
    for (number, tail, temporality) in
        [(5, &b""[..], 0), (7, b"\x10\x02\x18\x01", 2), (9, b"\x10\x01", 1), (10, b"\x10\x02", 2), (11, b"", 0)]
    {
        let request = with_metric(number, &[&data_points(100), tail].concat());
        let parts = cut(Signal::Metrics, &request, 300);
        check_parts(Signal::Metrics, &request, &parts);
        assert!(parts.len() > 5 && parts.iter().all(|part| part.bytes.len() <= 300), "{} parts", parts.len());
        let (left, right) = halve(Signal::Metrics, &request).unwrap();
        check_parts(Signal::Metrics, &request, &[left.clone(), right.clone()]);

        for parts in [parts, vec![left, right]] {
            let mut times = Vec::new();
            for part in &parts {
                let scopes = metrics::resource_metrics(&part.bytes).flat_map(metrics::ResourceMetrics::scope_metrics);
                let of_name = |metric: &metrics::Metric<'_>| metric.name() == "http.server.requests";
                for metric in scopes.flat_map(metrics::ScopeMetrics::metrics).filter(of_name) {
                    assert_eq!((metric.unit(), metric.metadata().count()), ("{request}", 1));
                    let data = metric.data().unwrap();
                    assert_eq!(data.aggregation_temporality(), temporality);
                    assert_eq!(data.is_monotonic(), matches!(data, Data::Sum(_)));
                    times.extend(data.data_points().map(|point| point.fixed64(3)));
                }
            }
            assert_eq!(times, (0..100).collect::<Vec<_>>());
        }
    }
}

#[test]
fn metrics_without_data_points_are_kept_once() {
    let empty = [with_metric(5, b""), with_metric(7, b"\x10\x02"), with_metric(1, b"no data at all")].concat();
    let request = Bytes::from([&empty[..], &with_metric(9, &data_points(50)), &empty].concat());
    check_parts(Signal::Metrics, &request, &cut(Signal::Metrics, &request, 150));
    let (left, right) = halve(Signal::Metrics, &request).unwrap();
    check_parts(Signal::Metrics, &request, &[left, right]);
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
    let mut scope = Encoder::default();
    scope.bytes(1, b"\x0a\x05scope");
    for _ in 0..100 {
        scope.bytes(2, b"\x2a\x08GET /all");
    }
    let mut resource = Encoder::default();
    resource.bytes(1, b"\x10\x07");
    resource.bytes(2, &scope.into_bytes());
    resource.bytes(3, b"https://schema");
    let mut request = Encoder::default();
    request.bytes(1, &resource.into_bytes());
    let request = Bytes::from(request.into_bytes());

    let parts = cut(Signal::Traces, &request, 200);
    check_parts(Signal::Traces, &request, &parts);
    assert!(parts.iter().all(|part| part.bytes.len() <= 200));
    // 200 bytes, less 33 of context and header, make room for 13 spans of 12 bytes.
    assert_eq!(parts.iter().map(|part| part.items).collect::<Vec<_>>(), [13, 13, 13, 13, 13, 13, 13, 9]);
}

#[test]
fn a_single_large_span_is_its_own_part() {
    let mut scope = Encoder::default();
    scope.bytes(2, b"\x2a\x01a");
    scope.bytes(2, &[b"\x2a\x7f".as_slice(), &[b'b'; 127]].concat());
    scope.bytes(2, b"\x2a\x01c");
    let mut resource = Encoder::default();
    resource.bytes(2, &scope.into_bytes());
    let mut request = Encoder::default();
    request.bytes(1, &resource.into_bytes());
    let request = Bytes::from(request.into_bytes());

    let parts = cut(Signal::Traces, &request, 100);
    check_parts(Signal::Traces, &request, &parts);
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
    let mut resource = Encoder::default();
    resource.bytes(3, &[b'u'; 60]);
    for _ in 0..1000 {
        resource.bytes(2, b"\x12\x00");
    }
    let mut request = Encoder::default();
    request.bytes(1, &resource.into_bytes());
    let request = Bytes::from(request.into_bytes());
    assert_eq!(cut(Signal::Traces, &request, 100).len(), 1);
    let parts = cut(Signal::Traces, &request, 200);
    check_parts(Signal::Traces, &request, &parts);
    let total: usize = parts.iter().map(|part| part.bytes.len()).sum();
    assert!(total < 4 * request.len(), "{total} bytes made of {}", request.len());
}

/// The contexts of all levels are repeated in each part, so they share the half.
#[test]
fn contexts_of_all_levels_together_are_at_most_half_of_a_part() {
    for context in [5, 20, 50, 100, 200] {
        let mut body = data_points(2000);
        for number in [5, 2, 2, 1] {
            let mut message = Encoder::default();
            message.bytes(number, &body);
            // Fields of a later OTLP, before and behind.
            message.bytes(30, &vec![b'c'; context]);
            body = [&b"\xf8\x01\x07"[..], &message.into_bytes()].concat();
        }
        let request = Bytes::from(body);
        for max in [100, 300, 1000] {
            let parts = cut(Signal::Metrics, &request, max);
            check_parts(Signal::Metrics, &request, &parts);
            let total: usize = parts.iter().map(|part| part.bytes.len()).sum();
            assert!(total < 4 * request.len() + max, "{context}, {max}: {total} bytes made of {}", request.len());
        }
    }
}
