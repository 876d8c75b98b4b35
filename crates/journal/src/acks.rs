//! The file beside a segment: which of its entries are completed, and a second copy of what must not be lost.
//!
//! Completions are not synced: entries whose completion is lost are delivered again. The names of queues are repeated
//! here, because a damaged sector must not hide who is owed a whole segment. How far the segment goes is in the head of
//! the next segment; it is repeated here when that one is deleted first. What is kept in memory of such a file is
//! limited, whatever its records say: entries whose completion is left out are delivered again.

use std::collections::BTreeMap;
use std::io;

use crate::bits::Bits;
use crate::format::{Extent, FILE_HEAD, FileKind, MAX_NAME, Seal, u16_at, u32_at};
use crate::fs::File;
use crate::model::DamageReport;
use crate::names::Names;
use crate::reports::Reports;
use crate::walk::Window;

const MAGIC: u32 = u32::from_le_bytes(*b"WJA\xA5");
const HEAD: usize = 16;
const QUEUE: u8 = 1;
const COMPLETED: u8 = 2;
const EXTENT: u8 = 3;

/// Runs in one record. This bounds the bytes that a checksum covers before it is believed.
const MAX_RUNS: usize = 512;

/// Runs of one file in memory, 4 MiB: several times more than the entries of a segment need when they are completed in
/// any order.
const MAX_RUNS_KEPT: usize = 1 << 19;

/// No queue has this number. Its completions say that the segment is about to be removed.
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

/// Sorted, with touching and overlapping runs joined.
fn normalized(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_unstable();
    runs.dedup_by(|run, last| {
        let touches = u64::from(run.first) <= last.end();
        if touches {
            let count = last.end().max(run.end()) - u64::from(last.first);
            last.count = u32::try_from(count).unwrap_or(u32::MAX);
        }
        touches
    });
    runs.shrink_to_fit();
    runs
}

/// The record that names a queue.
pub(crate) fn encode_queue(out: &mut Vec<u8>, seal: Seal, number: u16, name: &str) {
    encode(out, seal, QUEUE, number, name.len(), |out| out.extend_from_slice(name.as_bytes()));
}

/// Records of what a queue has completed. Each is made when its turn comes, because together they may be as large as
/// the segment.
pub(crate) fn encode_completed(seal: Seal, number: u16, completed: &Bits) -> impl Iterator<Item = Vec<u8>> {
    let mut runs = completed.runs().map(|run| Run { first: *run.start(), count: run.end() - run.start() + 1 });
    std::iter::from_fn(move || {
        let part: Vec<Run> = runs.by_ref().take(MAX_RUNS).collect();
        let mut record = Vec::new();
        (!part.is_empty()).then(|| encode_runs(&mut record, seal, number, &part)).map(|()| record)
    })
}

/// The record of what a queue has completed; up to [`MAX_RUNS`].
fn encode_runs(out: &mut Vec<u8>, seal: Seal, number: u16, runs: &[Run]) {
    encode(out, seal, COMPLETED, number, runs.len(), |out| {
        for run in runs {
            out.extend_from_slice(&run.first.to_le_bytes());
            out.extend_from_slice(&run.count.to_le_bytes());
        }
    });
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
    pub(crate) names: Names,
    /// Completed entries by queue number, sorted and joined.
    pub(crate) done: BTreeMap<u16, Vec<Run>>,
    /// How many runs `done` has.
    runs: usize,
    /// There are more than are kept.
    pub(crate) is_full: bool,
    /// What is no record although records follow.
    pub(crate) damage: Reports,
    /// How far the segment goes, where that was recorded.
    pub(crate) extent: Option<Extent>,
    /// Where the last record ends.
    pub(crate) end: u64,
    /// Bytes behind the last record that are no zeros.
    pub(crate) torn_bytes: u64,
}

/// Reads all records in the first `length` bytes of a file.
pub(crate) fn read(file: &dyn File, id: u64, length: u64, seal: Seal) -> io::Result<Acks> {
    let mut acks = Acks::none();
    let (mut window, mut at, mut content_end) = (Window::default(), acks.end, acks.end);
    while at < length {
        if let Some(record) = read_record(&mut window, file, at, length, seal)? {
            // Zeros were never written to, or not before power was lost: nothing here is synced.
            if content_end > acks.end {
                acks.damage.push(no_record(id, acks.end, at - acks.end));
            }
            acks.enter(record);
            at += record.len() as u64;
            (acks.end, content_end) = (at, at);
        } else {
            let word = window.get(file, at, 8, length)?;
            if let Some(last) = word.iter().rposition(|byte| *byte != 0) {
                content_end = at + last as u64 + 1;
            }
            at += 8;
        }
    }
    acks.torn_bytes = content_end - acks.end;
    acks.join();
    Ok(acks)
}

fn no_record(id: u64, offset: u64, bytes: u64) -> DamageReport {
    let what = "no valid record; what it completed is delivered again";
    DamageReport::without_loss(FileKind::Acks, id, (offset, bytes), what.to_owned())
}

fn read_record<'a>(
    window: &'a mut Window,
    file: &dyn File,
    at: u64,
    end: u64,
    seal: Seal,
) -> io::Result<Option<&'a [u8]>> {
    let Some(length) = record_length(window.get(file, at, HEAD, end)?) else { return Ok(None) };
    let record = window.get(file, at, length, end)?;
    Ok((record.len() == length && seal.sum(&record[8..]) == u32_at(record, 4)).then_some(record))
}

/// How long the record is that may begin here.
fn record_length(head: &[u8]) -> Option<usize> {
    if head.len() < HEAD || u32_at(head, 0) != MAGIC {
        return None;
    }
    let count = u32_at(head, 12) as usize;
    let body = match head[8] {
        QUEUE if count <= MAX_NAME => count,
        COMPLETED if count <= MAX_RUNS => count * 8,
        EXTENT => Extent::BYTES,
        _ => return None,
    };
    Some(HEAD + body.next_multiple_of(8))
}

impl Acks {
    /// No records.
    pub(crate) fn none() -> Self {
        Self { end: FILE_HEAD as u64, ..Self::default() }
    }

    /// Whether everybody has completed everything.
    pub(crate) fn is_done(&self) -> bool {
        self.done.contains_key(&NOBODY)
    }

    fn enter(&mut self, record: &[u8]) {
        let (number, count) = (u16_at(record, 10), u32_at(record, 12) as usize);
        let body = &record[HEAD..];
        match record[8] {
            QUEUE => self.names.learn(number, String::from_utf8_lossy(&body[..count]).into_owned()),
            EXTENT => self.extent = Some(Extent::decode(body)),
            _ => self.complete(number, body),
        }
    }

    fn complete(&mut self, number: u16, runs: &[u8]) {
        if self.runs + MAX_RUNS > MAX_RUNS_KEPT && !self.is_full {
            self.join();
            // Else each further record would have to be joined again.
            self.is_full = self.runs > MAX_RUNS_KEPT / 2;
        }
        if !self.is_full {
            let run = |bytes: &[u8]| Run { first: u32_at(bytes, 0), count: u32_at(bytes, 4) };
            self.runs += runs.len() / 8;
            self.done.entry(number).or_default().extend(runs.chunks_exact(8).map(run));
        }
    }

    fn join(&mut self) {
        for runs in self.done.values_mut() {
            *runs = normalized(std::mem::take(runs));
        }
        self.runs = self.done.values().map(Vec::len).sum();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A record for each part of the runs.
    fn complete(acks: &mut Acks, number: u16, runs: impl Iterator<Item = Run>) {
        for part in runs.collect::<Vec<_>>().chunks(MAX_RUNS) {
            let mut record = Vec::new();
            encode_runs(&mut record, Seal::default(), number, part);
            acks.enter(&record);
        }
    }

    fn kept(acks: &Acks) -> usize {
        acks.done.values().map(Vec::capacity).sum()
    }

    #[test]
    fn what_is_completed_takes_limited_room() {
        let mut acks = Acks::none();
        let runs = |number: u32| Run { first: 2 * number, count: 1 };
        for number in 0..4 {
            complete(&mut acks, number, (0..u32::try_from(MAX_RUNS_KEPT).unwrap()).map(runs));
        }
        assert!(acks.is_full && kept(&acks) <= 2 * MAX_RUNS_KEPT, "{}", kept(&acks));
        acks.join();
        assert!(acks.runs > MAX_RUNS_KEPT / 2 && kept(&acks) <= MAX_RUNS_KEPT);
        assert!(Cursor::new(&acks.done[&0]).contains(0), "what there was room for counts");
    }

    /// However often it is said, and for however many queues.
    #[test]
    fn what_is_said_again_takes_no_room() {
        let mut acks = Acks::none();
        for number in 0..100 {
            complete(&mut acks, number, (0..40_000).map(|_| Run { first: 0, count: u32::MAX }));
        }
        assert!(!acks.is_full && kept(&acks) <= 2 * MAX_RUNS_KEPT, "{}", kept(&acks));
        acks.join();
        assert_eq!((acks.runs, acks.done.len()), (100, 100));
    }
}
