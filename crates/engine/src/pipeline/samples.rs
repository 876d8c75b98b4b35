//! The last items that a backend refused for good, for somebody to look at.
//!
//! Bounded whatever backends and clients send: [`KEPT`] samples per pipeline, each with at most [`MAX_BODY_BYTES`] of
//! the request, [`MAX_MESSAGE_BYTES`] of the backend's message and [`MAX_CODE_BYTES`] of its code, so less than 360 KiB
//! per pipeline. Bodies are copies: a slice would keep alive the request that it was cut from.
//!
//! Samples are for inspection only; what was refused is counted in the books.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Samples per pipeline; a new one takes the place of the oldest.
const KEPT: usize = 20;
/// What is kept of the refused request.
const MAX_BODY_BYTES: usize = 16 * 1024;
/// What is kept of the backend's message.
const MAX_MESSAGE_BYTES: usize = 1024;
/// What is kept of the code; longer than any that is known.
const MAX_CODE_BYTES: usize = 64;

/// A request that was refused for good: one item, or a batch that was not taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    /// When it was refused, in milliseconds since the Unix epoch.
    pub(crate) at_ms: u64,
    /// gRPC status name or HTTP status.
    pub(crate) code: String,
    /// The backend's own words.
    pub(crate) message: String,
    /// Items that were refused together.
    pub(crate) items: u64,
    /// The refused request in OTLP protobuf, from its beginning.
    pub(crate) body: Bytes,
    /// Whether the request was longer than `body`.
    pub(crate) is_cut: bool,
}

impl Sample {
    /// Copies what is kept.
    pub(crate) fn new(at_ms: u64, code: &str, message: &str, items: u64, body: &[u8]) -> Self {
        let kept = &body[..body.len().min(MAX_BODY_BYTES)];
        Self {
            at_ms,
            code: beginning(code, MAX_CODE_BYTES).to_owned(),
            message: beginning(message, MAX_MESSAGE_BYTES).to_owned(),
            items,
            body: Bytes::copy_from_slice(kept),
            is_cut: kept.len() < body.len(),
        }
    }
}

/// As much of a text as fits, in whole characters.
fn beginning(text: &str, max_bytes: usize) -> &str {
    let ends = text.char_indices().map(|(at, character)| at + character.len_utf8());
    &text[..ends.take_while(|end| *end <= max_bytes).last().unwrap_or_default()]
}

/// The samples of one pipeline.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    ring: Mutex<VecDeque<Sample>>,
}

impl Samples {
    /// Keeps a sample, and forgets the oldest when there are too many.
    pub(crate) fn push(&self, sample: Sample) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() == KEPT {
            ring.pop_front();
        }
        ring.push_back(sample);
    }

    /// All samples, the newest first.
    pub(crate) fn list(&self) -> Vec<Sample> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_come_first() {
        let samples = Samples::default();
        assert!(samples.list().is_empty());
        (0..25).for_each(|at| samples.push(Sample::new(at, "400", "no such field", 1, b"span")));
        let times: Vec<u64> = samples.list().iter().map(|sample| sample.at_ms).collect();
        assert_eq!(times, (5..25).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_small_sample_is_whole() {
        let sample = Sample::new(7, "INVALID_ARGUMENT", "no trace id", 1, b"span");
        let expected = Sample {
            at_ms: 7,
            code: "INVALID_ARGUMENT".into(),
            message: "no trace id".into(),
            items: 1,
            body: Bytes::from_static(b"span"),
            is_cut: false,
        };
        assert_eq!(sample, expected);
        assert!(!Sample::new(7, "400", "", 1, &[0; MAX_BODY_BYTES]).is_cut);
    }

    #[test]
    fn memory_is_bounded() {
        let samples = Samples::default();
        // 3-byte characters do not end at the limit.
        let (text, body) = ("€".repeat(10_000), vec![0x0a; 4 << 20]);
        (0..100).for_each(|at| samples.push(Sample::new(at, &text, &text, 1, &body)));
        let list = samples.list();
        assert!(list.iter().all(|sample| sample.is_cut && sample.body.len() == MAX_BODY_BYTES));
        let sizes = list.iter().map(|sample| sample.code.capacity() + sample.message.capacity() + sample.body.len());
        let total: usize = sizes.sum::<usize>() + list.len() * size_of::<Sample>();
        assert!(total < 360 * 1024, "{total}");
    }
}
