//! How fast lines are found, and read, on one core: `cargo test --release -p weir-sources speed -- --nocapture`. Without
//! a release build the figures mean nothing; what is asserted is that all lines are there.

use std::hint::black_box;
use std::time::Instant;

use super::*;
use crate::tail::line::Format;
use crate::tail::reading::{LONGEST, WINDOW};

const ROUNDS: u32 = if cfg!(debug_assertions) { 1 } else { 200 };

#[test]
fn all_lines_of_a_window_are_found() {
    for length in [200, 2_000] {
        let line = format!("{:x<length$}\n", "2026-11-23T12:00:00.123456789Z stdout F ");
        let text = line.repeat(WINDOW / line.len());
        let found = |text: Text<'_>| text.end == End::Newline;
        let read = |text: Text<'_>| Format::Cri.parse(black_box(text.bytes)).is_some();
        for (what, nanos) in [("found", nanos(&text, &line, found)), ("found and read", nanos(&text, &line, read))] {
            println!(
                "lines of {length} bytes {what}: {:.2} GiB/s",
                text.len() as f64 / nanos * 1e9 / f64::from(1 << 30)
            );
        }
    }
}

/// The shortest time in which all lines of a text were counted.
fn nanos(text: &str, line: &str, counts: impl Fn(Text<'_>) -> bool) -> f64 {
    let once = |_| {
        let start = Instant::now();
        let bytes = black_box(text.as_bytes());
        let lines = Lines::new(Chunk { bytes, offset: 0, before: None, is_last: true }, LONGEST);
        let counted = lines.filter(|found| matches!(*found, Found::Text(text) if counts(text))).count();
        let took = start.elapsed().as_nanos();
        assert_eq!(counted, text.len() / line.len());
        took
    };
    (0..ROUNDS).map(once).min().unwrap_or_default() as f64
}
