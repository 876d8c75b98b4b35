//! Samples of the last items that a backend refused for good, or that were given up.
//!
//! They are bounded, whatever backends and clients send: [`KEPT`] samples of each kind for each pipeline, each with at
//! most [`MAX_BODY_BYTES`] of the request, [`MAX_MESSAGE_BYTES`] of the backend's message and [`MAX_CODE_BYTES`] of its
//! code, and all of them within the room that is set aside for the pipeline. A code that comes again and again pushes
//! out none that is rare: the newest one of each code goes last. Where there is one a second, each reason has its own.
//! Bodies are copies: a slice would keep alive the request that it was cut from.
//!
//! Samples are for inspection only; what was lost is counted in the books.

mod page;

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

pub(crate) use page::{Lost, LostPage};

/// Samples of a pipeline.
const KEPT: usize = 20;
/// What was given up has one part in so many of the room: each reason has one a second, and they are alike.
const OF_ROOM_FOR_GIVEN_UP: usize = 4;
/// One pipeline has no use for more room than this.
pub(crate) const MAX_BYTES: usize = 360 * 1024;
/// One sample has only a part of the room, so that others can stay.
const OF_ROOM_FOR_ONE: usize = 4;
/// What is kept of the refused request.
const MAX_BODY_BYTES: usize = 16 * 1024;
/// What is kept of the backend's message.
const MAX_MESSAGE_BYTES: usize = 1024;
/// How much of the code is kept; longer than any known code.
const MAX_CODE_BYTES: usize = 64;

/// What was lost: a request that was refused for good, of one item, or a batch that was not taken apart; or the first item
/// of one that was given up on the disk, or one that was given up in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// When it was lost, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// gRPC status name or HTTP status of the refusal; of what was given up, the reason that the books have.
    pub code: String,
    /// The backend's own words, or ours.
    pub message: String,
    /// Items that were lost together.
    pub items: u64,
    /// The request in OTLP protobuf, from its beginning.
    pub body: Bytes,
    /// Whether the request was longer than `body`.
    pub is_cut: bool,
}

impl Sample {
    /// Copies what is to be kept, where there is `room` for all samples together.
    fn new(room: usize, at_ms: u64, code: &str, message: &str, items: u64, body: &[u8]) -> Self {
        let kept = &body[..body.len().min(MAX_BODY_BYTES).min(room / OF_ROOM_FOR_ONE)];
        Self {
            at_ms,
            code: beginning(code, MAX_CODE_BYTES).to_owned(),
            message: beginning(message, MAX_MESSAGE_BYTES).to_owned(),
            items,
            body: Bytes::copy_from_slice(kept),
            is_cut: kept.len() < body.len(),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.code.len() + self.message.len() + self.body.len()
    }
}

/// As much of a text as fits, in whole characters.
fn beginning(text: &str, max_bytes: usize) -> &str {
    let ends = text.char_indices().map(|(at, character)| at + character.len_utf8());
    &text[..ends.take_while(|end| *end <= max_bytes).last().unwrap_or_default()]
}

/// What the samples of a pipeline may take: those that were refused, and those that were given up.
pub(crate) fn rooms(room: usize) -> [usize; 2] {
    let given_up = room / OF_ROOM_FOR_GIVEN_UP;
    [room - given_up, given_up]
}

/// Samples of one pipeline and of one kind. There is no room before somebody has said how much.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    room: AtomicUsize,
    /// The second of the last one for each reason for which there is one a second. There are few such reasons.
    seconds: Mutex<Vec<(&'static str, u64)>>,
    ring: Mutex<VecDeque<Arc<Sample>>>,
}

impl Samples {
    /// Keeps a sample, as far as there is room for it.
    pub(crate) fn push(&self, at_ms: u64, (code, message): (&str, &str), items: u64, body: &[u8]) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let room = self.room.load(Ordering::Relaxed);
        ring.push_back(Arc::new(Sample::new(room, at_ms, code, message, items, body)));
        fit(&mut ring, room);
    }

    /// Whether there was none for this reason in this second yet, and there is room for one. True once.
    pub(crate) fn is_due(&self, reason: &'static str, second: u64) -> bool {
        if self.room.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, last)) = seconds.iter_mut().find(|(of, _)| *of == reason) {
            return mem::replace(last, second) != second;
        }
        seconds.push((reason, second));
        true
    }

    /// Forgets samples while they are larger than this together.
    pub(crate) fn fit(&self, room: usize) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        self.room.store(room, Ordering::Relaxed);
        fit(&mut ring, room);
    }

    /// All samples, the newest first.
    pub(crate) fn list(&self) -> Vec<Arc<Sample>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }
}

fn fit(ring: &mut VecDeque<Arc<Sample>>, room: usize) {
    while ring.len() > KEPT || ring.iter().map(|sample| sample.bytes()).sum::<usize>() > room {
        // The oldest of the code that has most of them: while a code has more than one, none goes that is its last.
        let alike = |of: &Sample| ring.iter().filter(|sample| sample.code == of.code).count();
        let Some((at, _)) = ring.iter().enumerate().rev().max_by_key(|(_, sample)| alike(sample)) else { return };
        ring.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_come_first() {
        let samples = Samples::default();
        samples.fit(MAX_BYTES);
        assert!(samples.list().is_empty());
        (0..25).for_each(|at| samples.push(at, ("400", "no such field"), 1, b"span"));
        let times: Vec<u64> = samples.list().iter().map(|sample| sample.at_ms).collect();
        assert_eq!(times, (5..25).rev().collect::<Vec<_>>());
    }

    #[test]
    fn what_comes_often_pushes_out_nothing_rare() {
        let samples = Samples::default();
        samples.fit(MAX_BYTES);
        let push = |at, code| samples.push(at, (code, ""), 1, b"span");
        push(0, "422");
        (1..100).for_each(|at| push(at, "400"));
        (100..200).for_each(|at| push(at, "partial_success"));
        let of = |code: &'static str| {
            let list = samples.list().into_iter().filter(move |sample| sample.code == code);
            list.map(|sample| sample.at_ms).collect::<Vec<_>>()
        };
        assert_eq!(of("422"), [0]);
        assert_eq!(of("400"), (91..100).rev().collect::<Vec<_>>());
        assert_eq!(of("partial_success"), (190..200).rev().collect::<Vec<_>>());
        // Where there is room for few, too.
        samples.fit(3 * (size_of::<Sample>() + "partial_success".len() + "span".len()));
        (200..300).for_each(|at| push(at, "400"));
        assert_eq!([of("422"), of("400"), of("partial_success")], [vec![0], vec![299], vec![199]]);
    }

    #[test]
    fn each_code_has_one_before_others_have_two() {
        let samples = Samples::default();
        samples.fit(MAX_BYTES);
        let codes: Vec<String> = (0..KEPT as u64).map(|code| code.to_string()).collect();
        // Each of them comes more often than the one before.
        for (code, times) in codes.iter().zip(1..) {
            (0..times).for_each(|at| samples.push(at, (code, ""), 1, b"span"));
        }
        let kept: Vec<_> = samples.list().into_iter().rev().map(|sample| (sample.code.clone(), sample.at_ms)).collect();
        assert_eq!(kept, codes.into_iter().zip(0..).collect::<Vec<_>>(), "the newest one of each");
        samples.push(1000, ("19", ""), 1, b"span");
        assert_eq!(samples.list().len(), KEPT);
        assert_eq!(samples.list().iter().filter(|sample| sample.code == "19").count(), 1);
    }

    #[test]
    fn one_a_second_is_due_for_each_reason() {
        let samples = Samples::default();
        samples.fit(MAX_BYTES);
        let is_due = |reason| [7, 7, 8, 8].map(|second| samples.is_due(reason, second));
        assert_eq!(["backlog_full", "backlog_age"].map(is_due), [[true, false, true, false]; 2]);
        assert_eq!([8, 9].map(|second| samples.is_due("backlog_full", second)), [false, true]);
    }

    #[test]
    fn a_small_sample_is_whole() {
        let sample = Sample::new(MAX_BYTES, 7, "INVALID_ARGUMENT", "no trace id", 1, b"span");
        let expected = Sample {
            at_ms: 7,
            code: "INVALID_ARGUMENT".into(),
            message: "no trace id".into(),
            items: 1,
            body: Bytes::from_static(b"span"),
            is_cut: false,
        };
        assert_eq!(sample, expected);
        assert!(!Sample::new(MAX_BYTES, 7, "400", "", 1, &[0; MAX_BODY_BYTES]).is_cut);
    }

    #[test]
    fn memory_is_bounded() {
        let samples = Samples::default();
        samples.fit(MAX_BYTES);
        // 3-byte characters do not end at the limit.
        let (text, body) = ("€".repeat(10_000), vec![0x0a; 4 << 20]);
        let push = |at| samples.push(at, (&text, &text), 1, &body);
        (0..100).for_each(push);
        let list = samples.list();
        assert!(list.len() == KEPT && list.iter().all(|sample| sample.is_cut && sample.body.len() == MAX_BODY_BYTES));
        let total = || {
            let sizes = |sample: &Arc<Sample>| {
                size_of::<Sample>() + sample.code.capacity() + sample.message.capacity() + sample.body.len()
            };
            samples.list().iter().map(sizes).sum::<usize>()
        };
        assert!(total() <= MAX_BYTES, "{}", total());
        let little = 40 * 1024;
        samples.fit(little);
        assert!(samples.list().len() == 2 && total() <= little, "there are more pipelines now: {}", total());
        (100..200).for_each(push);
        let list = samples.list();
        assert!(list.len() == 3 && list[0].at_ms == 199 && total() <= little, "{} of {}", list.len(), total());
        samples.fit(0);
        push(200);
        assert_eq!(samples.list(), []);
        assert!(!samples.is_due("400", 1), "without room none is looked for");
    }
}
