//! A group of entries as bytes: what one append writes at once.
//!
//! Payloads are not copied: the group is a list of parts, of which heads and padding are its own. It knows no files.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::ops::Range;

use crate::AppendError;
use crate::format::{FRAME_HEAD, FrameHead, Kind, MAX_PAYLOAD, Seal, aligned};
use crate::model::{Entry, NewEntry, Position, QueueId};
use crate::walk::Place;

/// Payload parts shorter than this are copied: cheaper than one more part of the write.
const COPY_BELOW: usize = 512;

/// What the frames of a group depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    pub(crate) segment: u64,
    pub(crate) seal: Seal,
    /// Where the group will lie.
    pub(crate) place: Place,
    /// How far the segment is durable.
    pub(crate) durable_end: u64,
    pub(crate) now_ms: u64,
}

/// The group.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    context: Context,
    own: Vec<u8>,
    parts: Vec<Part<'a>>,
    /// Up to where `own` is listed in `parts`.
    listed: usize,
    /// Where the group ends.
    pub(crate) place: Place,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Debug)]
enum Part<'a> {
    Own(Range<usize>),
    Payload(&'a [u8]),
}

/// The bytes that a queue's name takes.
pub(crate) fn queue_bytes(name: &str) -> u64 {
    aligned((FRAME_HEAD + name.len()) as u64)
}

/// The bytes that these entries take, or why they cannot be written.
pub(crate) fn entry_bytes(group: &[NewEntry<'_>]) -> Result<u64, AppendError> {
    let mut sum = 0;
    for entry in group {
        let payload: u64 = entry.payload.iter().map(|part| part.len() as u64).sum();
        let (most, given) = (u64::from(MAX_PAYLOAD), payload);
        if payload > most {
            return Err(AppendError::TooLarge { what: "a payload in bytes", given, limit: most });
        }
        let (most, given) = (u64::from(u16::MAX), entry.owed.len() as u64);
        if given > most {
            return Err(AppendError::TooLarge { what: "a list of queues", given, limit: most });
        }
        sum += aligned(FRAME_HEAD as u64 + aligned(2 * given) + payload);
    }
    Ok(sum)
}

impl<'a> Group<'a> {
    pub(crate) fn new(context: Context) -> Self {
        Self { context, own: Vec::new(), parts: Vec::new(), listed: 0, place: context.place, entries: Vec::new() }
    }

    /// The frame that names a queue.
    pub(crate) fn push_queue(&mut self, number: u16, name: &str) {
        let seal = self.context.seal;
        let sums = Sums { payload: seal.sum(name.as_bytes()), owed: 0 };
        // Names are short, see `Index::queue`.
        let head = self.head(Kind::Queue(number), u32::try_from(name.len()).unwrap_or(0), 0, sums);
        self.own.extend_from_slice(&head.encode(seal));
        self.own.extend_from_slice(name.as_bytes());
        self.finish_frame(&head);
    }

    /// The frame of an entry whose queues have these numbers in the segment.
    pub(crate) fn push_entry(&mut self, entry: &NewEntry<'a>, numbers: &BTreeMap<QueueId, u16>) {
        let seal = self.context.seal;
        let bytes: usize = entry.payload.iter().map(|part| part.len()).sum();
        let owed: Vec<u8> = entry
            .owed
            .iter()
            .filter_map(|owed| numbers.get(&owed.queue))
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let sums = Sums { payload: seal.sum_of(entry.payload.iter().map(|part| &part[..])), owed: seal.sum(&owed) };
        // `measure` has seen to both lengths.
        let kind = Kind::Entry(u16::try_from(owed.len() / 2).unwrap_or(0));
        let head = self.head(kind, u32::try_from(bytes).unwrap_or(0), entry.items, sums);
        self.entries.push(Entry {
            position: Position {
                segment: self.context.segment,
                index: self.place.index,
                // A segment ends before offsets do.
                offset: u32::try_from(self.place.offset).unwrap_or(u32::MAX),
            },
            payload_bytes: head.payload_bytes,
            items: entry.items,
            written_ms: self.context.now_ms,
        });
        self.own.extend_from_slice(&head.encode(seal));
        self.own.extend_from_slice(&owed);
        self.pad(owed.len());
        entry.payload.iter().for_each(|part| self.push_payload(part));
        self.finish_frame(&head);
        self.place.index += 1;
        self.place.items = self.place.items.map(|items| items + u64::from(entry.items));
    }

    /// All parts, in the order in which they are written.
    pub(crate) fn slices(&mut self) -> Vec<IoSlice<'_>> {
        self.list_own();
        self.parts
            .iter()
            .map(|part| match part {
                Part::Own(range) => IoSlice::new(&self.own[range.clone()]),
                Part::Payload(bytes) => IoSlice::new(bytes),
            })
            .collect()
    }

    fn head(&self, kind: Kind, payload_bytes: u32, items: u32, sums: Sums) -> FrameHead {
        FrameHead {
            kind,
            payload_bytes,
            payload_sum: sums.payload,
            owed_sum: sums.owed,
            index: self.place.index,
            items,
            items_before: self.place.items.unwrap_or(0),
            written_ms: self.context.now_ms,
            durable_end: u32::try_from(self.context.durable_end).unwrap_or(u32::MAX),
        }
    }

    fn push_payload(&mut self, part: &'a [u8]) {
        if part.len() < COPY_BELOW {
            self.own.extend_from_slice(part);
        } else {
            self.list_own();
            self.parts.push(Part::Payload(part));
        }
    }

    fn finish_frame(&mut self, head: &FrameHead) {
        self.pad(head.payload_bytes as usize);
        self.place.offset += head.frame_bytes();
    }

    /// Pads something of this length, which began aligned in the file, so that the next part is aligned. In `own` it
    /// did not begin aligned, because payloads are missing there.
    fn pad(&mut self, length: usize) {
        self.own.extend_from_slice(&[0; 8][..length.next_multiple_of(8) - length]);
    }

    fn list_own(&mut self) {
        if self.listed < self.own.len() {
            self.parts.push(Part::Own(self.listed..self.own.len()));
            self.listed = self.own.len();
        }
    }
}

struct Sums {
    payload: u32,
    owed: u32,
}
