//! Snapshots of any bytes, with a checksum that is right: what is restored goes on working.

#![no_main]

use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash3_128;
use weir_otlp::{Limits as Wire, Signal, validate};
use weir_temporality::{Converter, Limits};

const LIMITS: Limits = Limits { max_bytes: 10_000, max_staleness: std::time::Duration::from_secs(10) };
const NOW: u64 = 1_700_000_000_000_000_000;

/// A seed of the other targets: metrics of all kinds.
const REQUEST: &[u8] = include_bytes!("../corpus/validate/metrics");

fuzz_target!(|input: (u64, &[u8])| {
    let (now, body) = input;
    drop(Converter::restore(body, LIMITS, now));
    let checksum = XxHash3_128::oneshot(body).to_le_bytes();
    let snapshot = [b"WTMP\x01", &checksum[..], body].concat();
    let mut converter = Converter::restore(&snapshot, LIMITS, now).expect("the checksum is right");
    assert!(converter.bytes() <= LIMITS.max_bytes, "{} bytes", converter.bytes());
    // The first byte picks the signal.
    let converted = converter.convert(&REQUEST[1..], now.max(NOW)).expect("the request is valid");
    validate(Signal::Metrics, &converted.request, &Wire::default()).expect("a valid request stays valid");
    converter.undo(converted.undo);
    Converter::restore(&converter.snapshot(), LIMITS, now.max(NOW)).expect("what we write, we read");
});
