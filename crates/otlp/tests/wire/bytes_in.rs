//! Validation and views against prost, on generated, damaged and arbitrary bytes.

use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;
use weir_otlp::build::Encoder;
use weir_otlp::{Error, Problem, Signal, count, validate};

use crate::generate::{any_signal, damaged_request, request, request_of, respelled_request};
use crate::model::{LIMITS, Request, assert_same};

/// WIRE-4, and its reverse but for what we refuse on purpose.
#[track_caller]
fn check_against_prost(signal: Signal, bytes: &[u8]) {
    let theirs = Request::try_decode(signal, bytes);
    match (validate(signal, bytes, &LIMITS), theirs) {
        (Ok(ours), Ok(theirs)) => {
            assert_eq!(ours, theirs.counts());
            assert_eq!(count(signal, bytes), ours.items);
            assert_same(&Request::through_views(signal, bytes), &theirs);
        }
        (Ok(_), Err(error)) => panic!("we accept what prost refuses: {error}"),
        (Err(error), Ok(_)) => {
            let Error::Wire { problem, .. } = error else { panic!("not a wire error: {error}") };
            // prost skips groups, merges singular messages that occur twice, and has its own depth limit.
            let on_purpose = matches!(problem, Problem::Group | Problem::Duplicate | Problem::Depth(_));
            assert!(on_purpose, "we refuse what prost accepts: {problem}");
        }
        (Err(_), Err(_)) => {}
    }
}

/// A request of one resource and one scope with one span, metric or log record that has these bytes.
fn with_one(body: &[u8]) -> Vec<u8> {
    let mut request = Encoder::default();
    let resource = request.open(1, 0);
    let scope = request.open(2, 0);
    request.bytes(2, body);
    request.close(scope);
    request.close(resource);
    request.into_bytes()
}

/// One length-delimited field.
fn field(number: u32, body: &[u8]) -> Vec<u8> {
    let mut field = Encoder::default();
    field.bytes(number, body);
    field.into_bytes()
}

/// Each byte of a small request, set to each value.
#[track_caller]
fn check_every_change(signal: Signal, body: &[u8], items: u32) {
    let request = with_one(body);
    assert_eq!(validate(signal, &request, &LIMITS).unwrap().items, items);
    for (at, byte) in (0..request.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
        let mut changed = request.clone();
        changed[at] = byte;
        check_against_prost(signal, &changed);
    }
}

#[test]
fn every_change_of_one_byte_of_a_span_is_judged_as_prost_does() {
    // A name and three attributes: text, an integer, a list of text.
    let span = b"\x2a\x02ab\x4a\x0a\x0a\x01k\x12\x05\x0a\x03abc\x4a\x08\x0a\x01k\x12\x03\x18\xff\x01\
        \x4a\x0c\x0a\x01k\x12\x07\x2a\x05\x0a\x03\x0a\x01d";
    check_every_change(Signal::Traces, span, 1);
}

#[test]
fn every_change_of_one_byte_of_a_metric_is_judged_as_prost_does() {
    let name = field(1, b"m");
    let cumulative = b"\x10\x02";
    // Two counts in a pack and one on its own, the same of bounds, and an exemplar with a value and an id.
    let counts = field(6, b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0");
    let bounds = [&field(7, b"\0\0\0\0\0\0\xf0\x3f")[..], b"\x39\0\0\0\0\0\0\0\x40"].concat();
    let exemplar = field(8, b"\x19\0\0\0\0\0\0\x08\x40\x22\x02\xab\xcd");
    let point = field(1, &[&counts[..], b"\x31\x03\0\0\0\0\0\0\0", &bounds, &exemplar, b"\x50\x01"].concat());
    let histogram = field(9, &[&point[..], cumulative].concat());
    check_every_change(Signal::Metrics, &[name, histogram].concat(), 1);
    // Two points; negative scale and offset, counts in a pack and on their own, one of two bytes.
    let positive = field(8, b"\x08\x05\x12\x04\x01\xac\x02\x03\x10\x07");
    let points = [field(1, &[b"\x30\x03", &positive[..]].concat()), field(1, &field(9, b"\x12\x00\x10\x01"))].concat();
    check_every_change(Signal::Metrics, &field(10, &[&points[..], cumulative].concat()), 2);
    // Both values, of which the last one counts, and flags.
    let point = field(1, b"\x21\0\0\0\0\0\0\xf8\x3f\x31\x09\0\0\0\0\0\0\0\x40\x01");
    check_every_change(Signal::Metrics, &field(7, &[&point[..], cumulative, b"\x18\x01"].concat()), 1);
    // A quantile without a value, and an empty one.
    let point = field(1, &[field(6, b"\x09\0\0\0\0\0\0\xe0\x3f"), field(6, b"")].concat());
    check_every_change(Signal::Metrics, &field(11, &point), 1);
}

#[test]
fn every_change_of_one_byte_of_a_log_record_is_judged_as_prost_does() {
    // Severity, a body that is a map of a number, an attribute, flags, a trace id.
    let record = b"\x10\x09\x1a\x01I\x2a\x0b\x32\x09\x0a\x07\x0a\x01k\x12\x02\x18\x05\x32\x05\x0a\x01k\x12\x00\
        \x45\x01\0\0\0\x4a\x02\xab\xcd";
    check_every_change(Signal::Logs, record, 1);
}

/// Of the members of a oneof the last one counts, and its items alone; two messages of one would have to be merged or
/// thrown away, which is refused.
#[test]
fn a_metric_has_data_of_one_type() {
    let gauge_of_two = b"\x2a\x04\x0a\x00\x0a\x00";
    let sum_of_one = b"\x3a\x02\x0a\x00";
    let check = |metric: &[u8], expected: Result<u32, Problem>| {
        let found = validate(Signal::Metrics, &with_one(metric), &LIMITS);
        let found = found.map(|counts| counts.items).map_err(|error| match error {
            Error::Wire { problem, path, .. } if path.starts_with("resource_metrics.scope_metrics.metrics") => problem,
            other => panic!("{other}"),
        });
        assert_eq!(found, expected);
    };
    check(b"\x0a\x04name", Ok(0));
    check(gauge_of_two, Ok(2));
    check(&[&gauge_of_two[..], sum_of_one].concat(), Err(Problem::Duplicate));
    check(&[&sum_of_one[..], gauge_of_two].concat(), Err(Problem::Duplicate));
    check(&[&sum_of_one[..], sum_of_one].concat(), Err(Problem::Duplicate));
}

#[test]
fn packed_numbers_end_where_their_field_ends() {
    let nine_bytes = b"\x01\0\0\0\0\0\0\0\x02";
    for (metric, path) in [
        (field(9, &field(1, &field(6, nine_bytes))), "histogram.data_points.bucket_counts"),
        (field(9, &field(1, &field(7, nine_bytes))), "histogram.data_points.explicit_bounds"),
        // A varint that goes on.
        (
            field(10, &field(1, &field(8, &field(2, b"\x01\x80")))),
            "exponential_histogram.data_points.positive.bucket_counts",
        ),
    ] {
        let error = validate(Signal::Metrics, &with_one(&metric), &LIMITS).unwrap_err().to_string();
        assert!(error.contains("field longer than the message that holds it"), "{error}");
        assert!(error.ends_with(&format!(" in resource_metrics.scope_metrics.metrics.{path}")), "{error}");
    }
}

proptest! {
    /// What the encoder writes of buckets, prost reads.
    #[test]
    fn packed_numbers_are_written_as_prost_reads_them(offset in any::<i32>(), counts in vec(any::<u64>(), 1..40)) {
        let mut out = Encoder::default();
        out.sint32(1, offset);
        let packed = out.open(2, 0);
        counts.iter().for_each(|count| out.element(*count));
        out.close(packed);
        let buckets = Buckets::decode(&out.into_bytes()[..]).unwrap();
        prop_assert_eq!(buckets, Buckets { offset, bucket_counts: counts });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    #[test]
    fn generated_requests_are_accepted_with_equal_values(request in request()) {
        let (signal, bytes) = (request.signal(), request.encode());
        prop_assert_eq!(validate(signal, &bytes, &LIMITS).unwrap(), request.counts());
        prop_assert_eq!(count(signal, &bytes), request.counts().items);
        assert_same(&Request::through_views(signal, &bytes), &request);
    }

    #[test]
    fn requests_in_unusual_bytes_are_accepted_with_equal_values((request, bytes) in respelled_request()) {
        let signal = request.signal();
        assert_same(&Request::decode(signal, &bytes), &request);
        prop_assert_eq!(validate(signal, &bytes, &LIMITS).unwrap(), request.counts());
        prop_assert_eq!(count(signal, &bytes), request.counts().items);
        assert_same(&Request::through_views(signal, &bytes), &request);
    }

    #[test]
    fn concatenated_requests_are_one_request(
        (signal, requests) in any_signal().prop_flat_map(|signal| (Just(signal), vec(request_of(signal), 2..4)))
    ) {
        let bytes: Vec<u8> = requests.iter().flat_map(Request::encode).collect();
        let together = validate(signal, &bytes, &LIMITS).unwrap();
        prop_assert_eq!(together, Request::decode(signal, &bytes).counts());
        prop_assert_eq!(together.items, requests.iter().map(|request| request.counts().items).sum::<u32>());
        assert_same(&Request::through_views(signal, &bytes), &Request::decode(signal, &bytes));
    }

    #[test]
    fn every_truncation_is_judged_as_prost_does(request in request()) {
        let bytes = request.encode();
        let step = bytes.len() / 70 + 1;
        for end in (0..bytes.len()).step_by(step) {
            check_against_prost(request.signal(), &bytes[..end]);
        }
    }

    #[test]
    fn errors_point_into_the_request((signal, bytes) in damaged_request()) {
        if let Err(Error::Wire { offset, path, .. }) = validate(signal, &bytes, &LIMITS) {
            prop_assert!(offset < bytes.len());
            prop_assert!(!path.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3072, max_shrink_iters: 1024, ..ProptestConfig::default() })]

    #[test]
    fn damaged_requests_are_judged_as_prost_does((signal, bytes) in damaged_request()) {
        check_against_prost(signal, &bytes);
    }

    #[test]
    fn arbitrary_bytes_are_judged_as_prost_does(signal in any_signal(), bytes in vec(any::<u8>(), 0..200)) {
        check_against_prost(signal, &bytes);
    }

    /// WIRE-1: nothing was validated here.
    #[test]
    fn views_of_anything_do_not_panic(
        (signal, bytes) in prop_oneof![(any_signal(), vec(any::<u8>(), 0..200)), damaged_request()]
    ) {
        Request::through_views(signal, &bytes);
        count(signal, &bytes);
    }
}
