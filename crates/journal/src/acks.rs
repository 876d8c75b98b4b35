//! The file beside a segment: which of its entries are completed, and what must be known twice.
//!
//! Completions are not synced: what is lost is delivered again. The names of queues are repeated here because a damaged
//! sector must not make it unknown who is owed a whole segment; how far the segment goes is repeated when the next one,
//! whose head says so, is deleted first. It knows no files: only slices.

use std::collections::BTreeMap;

use crate::format::{Extent, FILE_HEAD, MAX_NAME, Seal, u16_at, u32_at};

const MAGIC: u32 = u32::from_le_bytes(*b"WJA\xA5");
const HEAD: usize = 16;
const QUEUE: u8 = 1;
const COMPLETED: u8 = 2;
const EXTENT: u8 = 3;

/// Runs in one record: bounds what a checksum is computed over before it is believed.
const MAX_RUNS: usize = 512;

/// No queue has this number: completions of it say that the segment is about to be removed.
const NOBODY: u16 = u16::MAX;

/// Consecutive entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl Run {
    /// How many of the first `entries` it covers.
    pub(crate) fn within(self, entries: u32) -> u64 {
        self.end().min(u64::from(entries)).saturating_sub(u64::from(self.first))
    }

    fn end(self) -> u64 {
        u64::from(self.first) + u64::from(self.count)
    }
}

/// Appends `run`, joined with the last one where they touch.
pub(crate) fn push_run(runs: &mut Vec<Run>, run: Run) {
    if let Some(last) = runs.last_mut() {
        if last.end() == u64::from(run.first) {
            last.count += run.count;
            return;
        }
        if run.end() == u64::from(last.first) {
            *last = Run { first: run.first, count: last.count + run.count };
            return;
        }
    }
    runs.push(run);
}

/// Sorted, with touching and overlapping runs joined.
pub(crate) fn normalized(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_unstable();
    let mut joined: Vec<Run> = Vec::with_capacity(runs.len());
    for run in runs {
        match joined.last_mut() {
            Some(last) if u64::from(run.first) <= last.end() => {
                let count = last.end().max(run.end()) - u64::from(last.first);
                last.count = u32::try_from(count).unwrap_or(u32::MAX);
            }
            _ => joined.push(run),
        }
    }
    joined
}

/// The record that names a queue.
pub(crate) fn encode_queue(out: &mut Vec<u8>, seal: Seal, number: u16, name: &str) {
    encode(out, seal, QUEUE, number, name.len(), |out| out.extend_from_slice(name.as_bytes()));
}

/// Records of what a queue has completed.
pub(crate) fn encode_runs(out: &mut Vec<u8>, seal: Seal, number: u16, runs: &[Run]) {
    for part in runs.chunks(MAX_RUNS) {
        encode(out, seal, COMPLETED, number, part.len(), |out| {
            for run in part {
                out.extend_from_slice(&run.first.to_le_bytes());
                out.extend_from_slice(&run.count.to_le_bytes());
            }
        });
    }
}

/// The record that everybody has completed everything.
pub(crate) fn encode_done(out: &mut Vec<u8>, seal: Seal) {
    encode_runs(out, seal, NOBODY, &[Run { first: 0, count: u32::MAX }]);
}

/// The record of how far the segment goes.
pub(crate) fn encode_extent(out: &mut Vec<u8>, seal: Seal, extent: &Extent) {
    encode(out, seal, EXTENT, 0, 1, |out| out.extend_from_slice(&extent.encode()));
}

fn encode(out: &mut Vec<u8>, seal: Seal, kind: u8, number: u16, count: usize, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[kind, 0]);
    out.extend_from_slice(&number.to_le_bytes());
    // Names and runs are far fewer.
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    body(out);
    out.resize(out.len().next_multiple_of(8), 0);
    let sum = seal.sum(&out[start + 8..]);
    out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
}

/// What the records of one file say.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    pub(crate) names: BTreeMap<u16, String>,
    /// Completed entries by queue number, sorted and joined.
    pub(crate) done: BTreeMap<u16, Vec<Run>>,
    /// Offsets and lengths of what is no record although records follow.
    pub(crate) damage: Vec<(u64, u64)>,
    /// How far the segment goes, where that was recorded.
    pub(crate) extent: Option<Extent>,
    /// Where the last record ends.
    pub(crate) end: u64,
    /// Bytes behind the last record that are no zeros.
    pub(crate) torn_bytes: u64,
}

/// Reads all records of a file, its head included in `bytes`.
pub(crate) fn decode(bytes: &[u8], seal: Seal) -> Acks {
    let mut acks = Acks { end: FILE_HEAD as u64, ..Acks::default() };
    let mut at = FILE_HEAD;
    let mut sound_until = FILE_HEAD;
    while at < bytes.len() {
        let Some(length) = record_length(&bytes[at..], seal) else {
            at += 8;
            continue;
        };
        // Zeros were never written to, or not before power was lost: nothing here is synced.
        if bytes[sound_until..at].iter().any(|byte| *byte != 0) {
            acks.damage.push((sound_until as u64, (at - sound_until) as u64));
        }
        acks.enter(&bytes[at..at + length]);
        at += length;
        sound_until = at;
    }
    acks.end = sound_until as u64;
    let rest = bytes.get(sound_until..).unwrap_or_default();
    acks.torn_bytes = rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
    for runs in acks.done.values_mut() {
        *runs = normalized(std::mem::take(runs));
    }
    acks
}

fn record_length(bytes: &[u8], seal: Seal) -> Option<usize> {
    if bytes.len() < HEAD || u32_at(bytes, 0) != MAGIC {
        return None;
    }
    let count = u32_at(bytes, 12) as usize;
    let body = match bytes[8] {
        QUEUE if count <= MAX_NAME => count,
        COMPLETED if count <= MAX_RUNS => count * 8,
        EXTENT => Extent::BYTES,
        _ => return None,
    };
    let length = HEAD + body.next_multiple_of(8);
    (seal.sum(bytes.get(8..length)?) == u32_at(bytes, 4)).then_some(length)
}

impl Acks {
    /// Whether everybody has completed everything.
    pub(crate) fn is_done(&self) -> bool {
        self.done.contains_key(&NOBODY)
    }

    fn enter(&mut self, record: &[u8]) {
        let (number, count) = (u16_at(record, 10), u32_at(record, 12) as usize);
        let body = &record[HEAD..];
        match record[8] {
            QUEUE => drop(self.names.insert(number, String::from_utf8_lossy(&body[..count]).into_owned())),
            EXTENT => self.extent = Some(Extent::decode(body)),
            _ => {
                let run = |bytes: &[u8]| Run { first: u32_at(bytes, 0), count: u32_at(bytes, 4) };
                self.done.entry(number).or_default().extend(body.chunks_exact(8).map(run));
            }
        }
    }
}

/// Asks for ascending entries whether they are completed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a>(&'a [Run]);

impl<'a> Cursor<'a> {
    pub(crate) fn new(runs: &'a [Run]) -> Self {
        Self(runs)
    }

    pub(crate) fn contains(&mut self, index: u32) -> bool {
        while let Some((first, rest)) = self.0.split_first() {
            if u64::from(index) < first.end() {
                return first.first <= index;
            }
            self.0 = rest;
        }
        false
    }
}
