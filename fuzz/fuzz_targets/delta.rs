//! Conversion of two requests of any kind to deltas, in turns, some taken back: every point is counted, what is valid
//! stays so, memory stays within its limit, and a snapshot tells all.
//!
//! Bits of `refused` say which turns are taken back; `seconds` pass from one turn to the next.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_otlp::{Signal, validate};
use weir_temporality::{Converter, Limits};

const LIMITS: Limits = Limits { max_bytes: 10_000, max_staleness: std::time::Duration::from_secs(10) };
const START: u64 = 1_700_000_000_000_000_000;
const TURNS: u64 = 6;

fuzz_target!(|input: (u8, u8, u16, &[u8])| {
    let (refused, seconds, split, bytes) = input;
    let requests: [&[u8]; 2] = bytes.split_at(usize::from(split).min(bytes.len())).into();
    let mut converter = Converter::new(LIMITS, START);
    let mut undos = Vec::new();
    for turn in 0..TURNS {
        let now = START + turn * u64::from(seconds) * 1_000_000_000;
        let request = requests[usize::from(turn % 2 == 1)];
        let Ok(converted) = converter.convert(request, now) else { continue };
        check(request, &converted.request, &converted.counts);
        assert!(converter.bytes() <= LIMITS.max_bytes, "{} bytes", converter.bytes());
        if refused >> turn & 1 == 1 {
            undos.push(converted.undo);
        }
        // Not in the order in which they were made.
        if turn % 3 == 2 {
            undos.pop().into_iter().for_each(|undo| _ = converter.undo(undo));
        }
    }
    undos.drain(..).for_each(|undo| _ = converter.undo(undo));
    let snapshot = converter.snapshot();
    let restored = Converter::restore(&snapshot, LIMITS, START).expect("what we write, we read");
    assert_eq!(restored.series(), converter.series());
});

fn check(request: &[u8], converted: &[u8], counts: &weir_temporality::Counts) {
    let limits = weir_otlp::Limits::default();
    let Ok(before) = validate(Signal::Metrics, request, &limits) else { return };
    let after = validate(Signal::Metrics, converted, &limits).expect("a valid request stays valid");
    let left = counts.converted + counts.passed.total();
    assert_eq!(u64::from(before.items), left + counts.dropped.total());
    assert_eq!(u64::from(after.items), left);
}
