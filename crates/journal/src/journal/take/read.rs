//! Reads a run of entries. Nothing is taken by that: what was read is only compared with what is wanted.

use std::io;
use std::ops::Range;

use super::super::Journal;
use super::Taking;
use super::next::Want;
use crate::format::{FrameHead, Kind};
use crate::fs::{File, read_full};
use crate::model::Entry;
use crate::walk::{Found, Place, Step, Walk};

/// What a read gave.
pub(super) enum Outcome {
    /// At least the first entry.
    Run(Run),
    /// The first entry's payload is this long, which is more than may be read.
    TooLarge(usize),
    /// The entries before `next` are damaged.
    Lost(Lost),
    /// The entries before `next` cannot be read now.
    Unreadable { next: Place, error: io::Error },
    /// The file is gone.
    Gone,
}

/// Entries that are damaged.
pub(super) struct Lost {
    pub(super) first: u32,
    /// Behind them.
    pub(super) next: Place,
    /// Of all of them, where that is known.
    pub(super) items: Option<u64>,
    /// Of the file.
    pub(super) bytes: u64,
}

/// Entries that were read at once.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) buffer: Vec<u8>,
    pub(super) entries: Vec<Read>,
    /// Behind the last of them.
    pub(super) next: Place,
}

#[derive(Debug)]
pub(super) struct Read {
    pub(super) entry: Entry,
    pub(super) payload: Range<usize>,
    pub(super) sound: bool,
}

impl Taking<'_> {
    pub(super) fn read(&self, max_bytes: usize) -> Outcome {
        match self.journal.open_segment(self.want.segment) {
            Ok(file) => {
                let outcome = self.read_from(&*file, max_bytes);
                // The next one who takes goes on where a run ends, and may find there what the system has read ahead.
                let read = if let Outcome::Run(run) = &outcome { run.next.offset } else { u64::MAX };
                file.forget(self.want.durable_end.min(read));
                outcome
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Outcome::Gone,
            // Nothing of the segment can be read.
            Err(error) => Outcome::Unreadable { next: self.want.behind(), error },
        }
    }

    fn read_from(&self, file: &dyn File, max_bytes: usize) -> Outcome {
        let Want { first, place, counted, .. } = self.want;
        if place.index == first
            && let Some(outcome) = self.read_run(file, place.offset, max_bytes)
        {
            return outcome;
        }
        // The first entry is somewhere behind, or something is wrong with it: heads lead on.
        let mut walk = Walk::new(file, self.want.seal, counted, self.want.end);
        let mut lost = Stretch { from: counted, unreadable: None };
        while let Some(step) = walk.step() {
            match step {
                Step::Entry(found) if found.head.index == first => return self.read_first(file, &found, max_bytes),
                Step::Entry(found) if found.head.index > first => {
                    let items = Some(found.head.items_before);
                    return lost.outcome(Place { offset: found.offset, index: found.head.index, items });
                }
                Step::Gap(gap) => lost.unreadable = gap.unreadable.or(lost.unreadable),
                Step::Entry(_) | Step::Queue { .. } => lost.from = walk.place(),
            }
        }
        lost.outcome(self.want.behind())
    }

    /// The run from the first entry on; if not all of it can be read, that entry alone.
    fn read_first(&self, file: &dyn File, found: &Found, max_bytes: usize) -> Outcome {
        if let Some(outcome) = self.read_run(file, found.offset, max_bytes) {
            return outcome;
        }
        let next = Place { offset: found.end(), index: found.head.index + 1, items: Some(found.items_behind()) };
        let frame_bytes = found.head.frame_bytes();
        let wanted = wanted(&found.head, frame_bytes);
        if wanted > max_bytes {
            return Outcome::TooLarge(wanted);
        }
        let mut buffer = vec![0; usize::try_from(frame_bytes).unwrap_or(0)];
        // One read decides: what cannot be read now is not lost.
        let filled = match read_full(file, &mut buffer, found.offset) {
            Ok(filled) => filled,
            Err(error) => return Outcome::Unreadable { next, error },
        };
        buffer.truncate(filled);
        let (first, items) = (found.head.index, Some(u64::from(found.head.items)));
        let lost = || Outcome::Lost(Lost { first, next, items, bytes: frame_bytes });
        self.take_apart(found.offset, buffer, max_bytes).unwrap_or_else(lost)
    }

    /// Reads as much of the run as fits; none when there is no frame of the first entry.
    fn read_run(&self, file: &dyn File, offset: u64, max_bytes: usize) -> Option<Outcome> {
        let length = self.want.bound.saturating_sub(offset).min(buffered(max_bytes));
        let mut buffer = vec![0; usize::try_from(length).ok()?];
        let filled = read_full(file, &mut buffer, offset).ok()?;
        buffer.truncate(filled);
        self.take_apart(offset, buffer, max_bytes)
    }

    fn take_apart(&self, offset: u64, buffer: Vec<u8>, max_bytes: usize) -> Option<Outcome> {
        let (at, payload_bytes, entries, items, too_large) = (0, 0, Vec::new(), None, None);
        let mut reader = RunReader { want: &self.want, offset, buffer, at, payload_bytes, entries, items, too_large };
        while reader.read_frame(max_bytes) {}
        reader.too_large.map(Outcome::TooLarge).or_else(|| reader.finish().map(Outcome::Run))
    }
}

/// How much to ask for so as to get an entry that ends this far behind the point where reading begins. Names and long
/// lists of queues may take more than what is read beyond payloads.
fn wanted(head: &FrameHead, end: u64) -> usize {
    let excess = usize::try_from(end.saturating_sub(buffered(0))).unwrap_or(usize::MAX);
    excess.max(head.payload_bytes as usize)
}

/// What is read for so much payload.
fn buffered(max_bytes: usize) -> u64 {
    (max_bytes as u64).saturating_add(Journal::TAKE_OVERHEAD as u64)
}

/// What lies between the last frame before the first entry and the first frame behind it.
struct Stretch {
    from: Place,
    unreadable: Option<io::Error>,
}

impl Stretch {
    fn outcome(self, next: Place) -> Outcome {
        if let Some(error) = self.unreadable {
            return Outcome::Unreadable { next, error };
        }
        let items = self.from.items.zip(next.items).map(|(from, to)| to.saturating_sub(from));
        let bytes = next.offset.saturating_sub(self.from.offset);
        Outcome::Lost(Lost { first: self.from.index, next, items, bytes })
    }
}

/// Takes a buffer of frames apart.
struct RunReader<'a> {
    want: &'a Want,
    /// Where the buffer begins in the file.
    offset: u64,
    buffer: Vec<u8>,
    /// Where the next frame begins in the buffer.
    at: usize,
    payload_bytes: usize,
    entries: Vec<Read>,
    /// Items of all entries of the segment up to the last one that was read.
    items: Option<u64>,
    /// The first entry does not fit; how long its payload is.
    too_large: Option<usize>,
}

impl RunReader<'_> {
    fn next_index(&self) -> u32 {
        self.want.first + u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    /// Whether there was another frame that is wanted and fits.
    fn read_frame(&mut self, max_bytes: usize) -> bool {
        let bytes = self.buffer.get(self.at..).unwrap_or_default();
        let index = self.next_index();
        let Some(head) = FrameHead::decode(bytes, self.want.seal).filter(|head| head.index == index) else {
            return false;
        };
        let frame_bytes = usize::try_from(head.frame_bytes()).unwrap_or(usize::MAX);
        if matches!(head.kind, Kind::Queue(_)) {
            self.at += frame_bytes;
            return true;
        }
        let payload_bytes = head.payload_bytes as usize;
        if self.entries.is_empty() {
            self.too_large = self.too_large(&head, max_bytes);
        }
        let fits = self.payload_bytes + payload_bytes <= max_bytes && frame_bytes <= bytes.len();
        if index >= self.want.last || self.too_large.is_some() || !fits {
            return false;
        }
        let found = Found { head, offset: self.offset + self.at as u64 };
        let Some(entry) = found.entry(self.want.segment) else { return false };
        let start = self.at + usize::try_from(head.payload_at()).unwrap_or(usize::MAX);
        let payload = start..start + payload_bytes;
        let sound = self.want.seal.sum(&self.buffer[payload.clone()]) == head.payload_sum;
        self.items = Some(found.items_behind());
        self.entries.push(Read { entry, payload, sound });
        self.payload_bytes += payload_bytes;
        self.at += frame_bytes;
        true
    }

    /// How much has to be asked for to get the entry at hand, if that is more than `max_bytes`.
    fn too_large(&self, head: &FrameHead, max_bytes: usize) -> Option<usize> {
        let end = self.at as u64 + head.frame_bytes();
        // What lies beyond the segment is no entry, however large it says it is.
        if self.offset + end > self.want.end {
            return None;
        }
        Some(wanted(head, end)).filter(|wanted| *wanted > max_bytes)
    }

    fn finish(mut self) -> Option<Run> {
        let next = Place { offset: self.offset + self.at as u64, index: self.next_index(), items: self.items };
        self.buffer.truncate(self.at);
        if self.buffer.capacity() > 2 * self.buffer.len() {
            self.buffer.shrink_to_fit();
        }
        (!self.entries.is_empty()).then_some(Run { buffer: self.buffer, entries: self.entries, next })
    }
}
