//! Cutting at any size and halving: no panic on anything, and of valid requests no item is lost.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use weir_fuzz::requests::signal;
use weir_otlp::{Limits, Part, cut, halve, single, validate};

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (choice, max, bytes) = input;
    let signal = signal(choice);
    let request = Bytes::copy_from_slice(bytes);
    let parts: Vec<_> = cut(signal, &request, usize::from(max)).collect();
    let halves = halve(signal, &request);
    // Each has all of its context: not all of them are kept.
    let alone: Vec<_> = single(signal, &request).map(|part| part.items()).collect();
    let limits = Limits::default();
    let Ok(counts) = validate(signal, bytes, &limits) else { return };
    let check = |part: &Part<'_>| {
        let made = part.make();
        assert_eq!(made.len(), part.length());
        assert_eq!(validate(signal, &made, &limits).map(|counts| counts.items), Ok(part.items()));
    };
    parts.iter().for_each(check);
    single(signal, &request).take(100).for_each(|part| check(&part));
    assert_eq!(alone, vec![1; counts.items as usize]);
    assert_eq!(parts.iter().map(Part::items).sum::<u32>(), counts.items);
    assert_eq!(halves.is_some(), counts.items > 1);
    if let Some((left, right)) = halves {
        check(&left);
        check(&right);
        assert_eq!((left.items(), left.items() + right.items()), (counts.items / 2, counts.items));
    }
});
