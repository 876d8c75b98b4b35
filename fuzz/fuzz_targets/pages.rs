//! Any page, then another one, and both again: what comes of a page by comparison with the one before is what comes of it
//! when it is read, all of it is valid, and it takes no more memory than was asked for.
//!
//! The second page is the first one with `change` written over it at `place`, which is near enough to be compared.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_otlp::build::Encoder;
use weir_otlp::field::{request, resource_data};
use weir_otlp::{Limits, Signal, validate};
use weir_sources::scrape::{Format, LastPage, PageRules, Taken};

const START: u64 = 1_700_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

fuzz_target!(|input: (u8, u16, [u8; 3], &[u8])| {
    let (choice, place, change, first) = input;
    // A line, or a family, of which nothing comes.
    let (format, nothing) = match choice % 4 {
        0 | 1 => (Format::Text, &b"# a comment\n"[..]),
        2 => (Format::OpenMetrics, &b"# a comment\n"[..]),
        _ => (Format::Protobuf, &b"\x03\x0a\x01a"[..]),
    };
    let (honor_timestamps, honor_labels) = (choice & 4 == 0, choice & 8 == 0);
    let rules = PageRules { sample_limit: 100, honor_timestamps, honor_labels, ..PageRules::of(format) };
    let mut second = first.to_vec();
    let place = usize::from(place) % first.len().max(1);
    let changed = second.iter_mut().skip(place).zip(change);
    changed.for_each(|(byte, new)| *byte = new);

    let (mut compared, mut read) = (LastPage::default(), LastPage::default());
    for (turn, page) in (0..).zip([first, &second, first, first]) {
        let time = START + turn * SECOND;
        let one = take(&mut compared, page, &rules, time);
        // It stands at the beginning, so that there is nothing to compare.
        let longer = [if turn % 2 == 0 { &[] } else { nothing }, page].concat();
        let other = take(&mut read, &longer, &rules, time);
        let counts =
            |taken: &Option<(Taken, Vec<u8>)>| taken.as_ref().map(|(taken, _)| (taken.samples, taken.repeated));
        assert_eq!(counts(&one), counts(&other));
        let points = |taken: Option<(Taken, Vec<u8>)>| taken.map(|(_, metrics)| metrics);
        assert_eq!(points(one), points(other), "turn {turn}");
    }
    let mut metrics = Vec::new();
    compared.mark_all_stale(START + 9 * SECOND, &mut metrics).expect("there is memory");
    check(&metrics);
});

fn take(last_page: &mut LastPage, page: &[u8], rules: &PageRules, time: u64) -> Option<(Taken, Vec<u8>)> {
    let (mut metrics, paid) = (Vec::new(), last_page.work(page, rules));
    let taken = last_page.take(page, rules, time, &mut metrics);
    let Ok(paid) = paid else {
        assert!(taken.is_err() && metrics.is_empty());
        return None;
    };
    assert!(last_page.memory() + metrics.capacity() <= paid, "{} and {} bytes", last_page.memory(), metrics.capacity());
    let Ok(taken) = taken else {
        assert!(metrics.is_empty());
        return None;
    };
    check(&metrics);
    Some((taken, metrics))
}

/// Metrics are the fields of a `ScopeMetrics`.
fn check(metrics: &[u8]) {
    let mut out = Encoder::default();
    let resource = out.open(request::RESOURCES, metrics.len());
    out.bytes(resource_data::SCOPES, metrics);
    out.close(resource);
    validate(Signal::Metrics, &out.into_bytes(), &Limits::default()).expect("what we make is valid");
}
