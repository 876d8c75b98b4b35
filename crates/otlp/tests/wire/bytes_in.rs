//! Validation and views against prost, on generated, damaged and arbitrary bytes.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;
use weir_otlp::build::Encoder;
use weir_otlp::{Error, Problem, Signal, validate};

use crate::generate::{damaged, request};
use crate::model::{LIMITS, assert_same, counts, decode, through_views};

/// WIRE-4, and its reverse but for what we refuse on purpose.
#[track_caller]
fn check_against_prost(bytes: &[u8]) {
    let theirs = ExportTraceServiceRequest::decode(bytes);
    match (validate(Signal::Traces, bytes, &LIMITS), theirs) {
        (Ok(ours), Ok(theirs)) => {
            assert_eq!(ours, counts(&theirs));
            assert_same(&through_views(bytes), &theirs);
        }
        (Ok(_), Err(error)) => panic!("we accept what prost refuses: {error}"),
        (Err(error), Ok(_)) => {
            let Error::Wire { problem, .. } = error else { panic!("not a wire error: {error}") };
            // prost skips groups, merges singular messages that occur twice, and has its own depth limit.
            let on_purpose = matches!(problem, Problem::Group | Problem::Duplicate | Problem::Depth(_));
            assert!(on_purpose, "we refuse what prost accepts: {error}");
        }
        (Err(_), Err(_)) => {}
    }
}

/// Each byte of a small request, set to each value.
#[test]
fn every_change_of_one_byte_is_judged_as_prost_does() {
    // A span with a name and three attributes: text, an integer, a list of text.
    let span = b"\x2a\x02ab\x4a\x0a\x0a\x01k\x12\x05\x0a\x03abc\x4a\x08\x0a\x01k\x12\x03\x18\xff\x01\
        \x4a\x0c\x0a\x01k\x12\x07\x2a\x05\x0a\x03\x0a\x01d";
    let mut request = Encoder::default();
    let resource_spans = request.open(1, 0);
    let scope_spans = request.open(2, 0);
    request.bytes(2, span);
    request.close(scope_spans);
    request.close(resource_spans);
    let request = request.into_bytes();
    assert_eq!(validate(Signal::Traces, &request, &LIMITS).unwrap().items, 1);
    for (at, byte) in (0..request.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
        let mut changed = request.clone();
        changed[at] = byte;
        check_against_prost(&changed);
    }
}

proptest! {
    #[test]
    fn packed_numbers_are_what_prost_reads(bucket_counts in vec(any::<u64>(), 1..40)) {
        let mut out = Encoder::default();
        let packed = out.open(2, 0);
        bucket_counts.iter().for_each(|count| out.element(*count));
        out.close(packed);
        let buckets = Buckets::decode(&out.into_bytes()[..]).unwrap();
        prop_assert_eq!(buckets, Buckets { offset: 0, bucket_counts });
    }

    #[test]
    fn generated_requests_are_accepted_with_equal_values(request in request()) {
        let bytes = request.encode_to_vec();
        prop_assert_eq!(validate(Signal::Traces, &bytes, &LIMITS).unwrap(), counts(&request));
        assert_same(&through_views(&bytes), &request);
    }

    #[test]
    fn concatenated_requests_are_one_request(requests in vec(request(), 2..4)) {
        let bytes: Vec<u8> = requests.iter().flat_map(|request| request.encode_to_vec()).collect();
        let resource_spans = requests.into_iter().flat_map(|request| request.resource_spans).collect();
        let request = ExportTraceServiceRequest { resource_spans };
        prop_assert_eq!(validate(Signal::Traces, &bytes, &LIMITS).unwrap(), counts(&request));
        assert_same(&decode(&bytes), &request);
    }

    #[test]
    fn every_truncation_is_judged_as_prost_does(request in request()) {
        let bytes = request.encode_to_vec();
        let step = bytes.len() / 200 + 1;
        for end in (0..bytes.len()).step_by(step) {
            check_against_prost(&bytes[..end]);
        }
    }

    #[test]
    fn errors_point_into_the_request(bytes in damaged(request().prop_map(|request| request.encode_to_vec()))) {
        if let Err(Error::Wire { offset, path, .. }) = validate(Signal::Traces, &bytes, &LIMITS) {
            prop_assert!(offset < bytes.len());
            prop_assert!(!path.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, max_shrink_iters: 1024, ..ProptestConfig::default() })]

    #[test]
    fn damaged_requests_are_judged_as_prost_does(
        bytes in damaged(request().prop_map(|request| request.encode_to_vec()))
    ) {
        check_against_prost(&bytes);
    }

    #[test]
    fn arbitrary_bytes_are_judged_as_prost_does(bytes in vec(any::<u8>(), 0..200)) {
        check_against_prost(&bytes);
    }

    /// WIRE-1: nothing was validated here.
    #[test]
    fn views_of_anything_do_not_panic(
        bytes in prop_oneof![
            vec(any::<u8>(), 0..200),
            damaged(request().prop_map(|request| request.encode_to_vec())),
        ]
    ) {
        through_views(&bytes);
    }
}
