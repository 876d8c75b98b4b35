//! Statements and conditions of any text on requests of any kind: a valid request stays valid, grows within its limit,
//! and has the items that the counts say.
//!
//! The input: a byte that picks the signal, lines of text, a zero, a request.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::requests::signal;
use weir_otlp::{Signal, validate};
use weir_ottl::{Filter, Limits, Options, Transform};

const LIMITS: Limits = Limits { now_unix_nano: 1_700_000_000_123_456_789, max_growth: 1000, max_scratch: 1 << 16 };

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let Some(end) = rest.iter().position(|byte| *byte == 0) else { return };
    let (text, request) = (String::from_utf8_lossy(&rest[..end]), &rest[end + 1..]);
    let signal = signal(*choice);
    for line in text.lines() {
        let line = [line.to_owned()];
        if let Ok(rule) = Transform::compile(signal, &Options::transform(signal), &[], &line) {
            transform(signal, &rule, request);
        } else if let Ok(rule) = Filter::compile(signal, &Options::filter(signal), &line) {
            filter(signal, &rule, request);
        }
    }
});

fn transform(signal: Signal, rule: &Transform, request: &[u8]) {
    let changed = rule.apply(request, &LIMITS).request;
    let (Some(items), Some(changed)) = (items(signal, request), changed) else { return };
    assert!(changed.len() <= request.len() + LIMITS.max_growth, "{rule:?}: {} bytes", changed.len());
    let left = items_of_valid(signal, &changed, rule);
    // Only data points are split and joined.
    assert!(signal == Signal::Metrics || left == items, "{rule:?}: {items} items became {left}");
}

fn filter(signal: Signal, rule: &Filter, request: &[u8]) {
    let done = rule.apply(request, &LIMITS);
    let (Some(items), Some(left)) = (items(signal, request), &done.request) else { return };
    assert!(left.len() < request.len());
    assert_eq!(items_of_valid(signal, left, rule), items - done.dropped.iter().sum::<u64>(), "{rule:?}");
}

/// Items of a valid request.
fn items(signal: Signal, request: &[u8]) -> Option<u64> {
    let counts = validate(signal, request, &weir_otlp::Limits::default()).ok()?;
    Some(u64::from(counts.items))
}

fn items_of_valid(signal: Signal, request: &[u8], rule: &impl std::fmt::Debug) -> u64 {
    items(signal, request).unwrap_or_else(|| panic!("{rule:?} made an invalid request"))
}
