//! Cutting at any size and halving: no panic on anything, and of valid requests no span is lost.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weir_otlp::{Limits, cut_traces, halve_traces, validate_traces};

fuzz_target!(|input: (u16, &[u8])| {
    let (max, bytes) = input;
    let request = Bytes::copy_from_slice(bytes);
    let parts = cut_traces(&request, usize::from(max));
    let halves = halve_traces(&request);
    let limits = Limits::default();
    let Ok(counts) = validate_traces(bytes, &limits) else { return };
    let check = |bytes: &[u8], items: u32| {
        assert_eq!(validate_traces(bytes, &limits).map(|counts| counts.items), Ok(items));
    };
    parts.iter().for_each(|part| check(&part.bytes, part.items));
    assert_eq!(parts.iter().map(|part| part.items).sum::<u32>(), counts.items);
    assert_eq!(halves.is_some(), counts.items > 1);
    if let Some((left, right)) = halves {
        check(&left.bytes, left.items);
        check(&right.bytes, right.items);
        assert_eq!((left.items, left.items + right.items), (counts.items / 2, counts.items));
    }
});
