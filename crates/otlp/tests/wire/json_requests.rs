//! Whole requests through JSON, both ways, with a library that knows no OTLP on the other side.

use proptest::prelude::*;
use prost_reflect::SerializeOptions;
use weir_otlp::{Error, Json, Signal, from_json, to_json, validate};

use crate::generate::{any_signal, damaged, damaged_request, request, request_of, respelled_request};
use crate::model::{LIMITS, Request, assert_same_in_json};
use crate::reflect;

/// Ways to write proto3 JSON: 64-bit integers as strings or not, enums as numbers or names, either spelling of names,
/// with defaults or without.
fn spelling() -> impl Strategy<Value = SerializeOptions> {
    any::<[bool; 4]>().prop_map(|[strings, numbers, original, sparse]| {
        SerializeOptions::new()
            .stringify_64_bit_integers(strings)
            .use_enum_numbers(numbers)
            .use_proto_field_name(original)
            .skip_default_fields(sparse)
    })
}

/// What we write, that library and we read as the same values.
#[track_caller]
fn assert_comes_back(signal: Signal, bytes: &[u8]) {
    let Json { text, .. } = to_json(signal, bytes, &LIMITS).unwrap();
    assert!(!text.contains(&b'\n'));
    let original = Request::decode(signal, bytes);
    let ours = from_json(signal, &text, &LIMITS, usize::MAX).unwrap();
    assert_same_in_json(&Request::decode(signal, &ours), &original);
    assert_same_in_json(&Request::decode(signal, &reflect::from_json(signal, &text)), &original);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    #[test]
    fn requests_are_read_as_they_were_written(request in request(), spelling in spelling()) {
        let (signal, encoded) = (request.signal(), request.encode());
        let json = reflect::to_json(signal, &encoded, &spelling).to_string();
        let bytes = from_json(signal, json.as_bytes(), &LIMITS, usize::MAX).unwrap();
        prop_assert_eq!(validate(signal, &bytes, &LIMITS).unwrap(), request.counts());
        // Not the request itself: prost writes no -0.0.
        assert_same_in_json(&Request::decode(signal, &bytes), &Request::decode(signal, &encoded));
    }

    #[test]
    fn requests_come_back_as_they_were(request in request()) {
        assert_comes_back(request.signal(), &request.encode());
    }

    #[test]
    fn requests_in_unusual_bytes_come_back((request, bytes) in respelled_request()) {
        assert_comes_back(request.signal(), &bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1536, max_shrink_iters: 1024, ..ProptestConfig::default() })]

    /// Damage that leaves a request valid makes fields occur twice, out of order, unknown.
    #[test]
    fn damaged_requests_are_refused_or_come_back((signal, bytes) in damaged_request()) {
        match validate(signal, &bytes, &LIMITS) {
            Ok(_) => assert_comes_back(signal, &bytes),
            Err(error) => prop_assert_eq!(to_json(signal, &bytes, &LIMITS), Err(error)),
        }
    }

    /// What is accepted is valid and within its size; what is not has a place.
    #[test]
    fn damaged_json_is_refused_or_valid((signal, json) in damaged_json(), max in 0..5000usize) {
        match from_json(signal, &json, &LIMITS, max) {
            Ok(bytes) => {
                prop_assert!(bytes.len() <= max);
                prop_assert!(validate(signal, &bytes, &LIMITS).is_ok());
            }
            Err(Error::Json { line, .. }) => prop_assert!(line > 0),
            Err(error) => prop_assert!(false, "not a JSON error: {error}"),
        }
    }
}

fn damaged_json() -> impl Strategy<Value = (Signal, Vec<u8>)> {
    any_signal().prop_flat_map(|signal| {
        let json = (request_of(signal), spelling()).prop_map(move |(request, spelling)| {
            reflect::to_json(signal, &request.encode(), &spelling).to_string().into_bytes()
        });
        (Just(signal), damaged(json))
    })
}
