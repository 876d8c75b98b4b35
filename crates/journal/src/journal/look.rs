//! Looking through what queues are owed, for whoever wants to know what waits.
//!
//! Nothing is taken, completed or given up, and where a look goes on is remembered by whoever looks. What is damaged is
//! counted for them alone: those who are owed it come to it themselves, and account for it.

use std::fmt;

use super::{Journal, read_payload};
use crate::format::Seal;
use crate::fs::File;
use crate::model::{Entry, QueueId};
use crate::walk::{Found, Place, Step, Walk};

/// What it costs to pass over an entry: its head is read, with what is around it.
const HEAD_BYTES: u64 = 4 << 10;

/// Somebody who looks through entries.
pub trait Viewer {
    /// Whether to go on. Asked before each step behind the first entry that is owed; a step is an entry at most, or a
    /// place without any.
    fn goes_on(&mut self) -> bool;
    /// Whether the payload of an entry is paid for, beside [`Journal::LOOK_OVERHEAD`]. It is not read otherwise.
    fn pays(&mut self, entry: &Entry) -> bool;
    /// An entry as it was written, and those of the queues that are owed it.
    fn see(&mut self, entry: &Entry, owed: &[QueueId], payload: Vec<u8>);
}

/// A place among all entries, from which a look goes on. The default is before all of them. As text it is the numbers
/// of a segment and of an entry in it: `3.17`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bookmark {
    segment: u64,
    index: u32,
}

impl Bookmark {
    /// The place that a text names; `None` if it names none.
    pub fn parse(text: &str) -> Option<Self> {
        let (segment, index) = text.split_once('.')?;
        Some(Self { segment: segment.parse().ok()?, index: index.parse().ok()? })
    }
}

impl fmt::Display for Bookmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, index } = self;
        write!(f, "{segment}.{index}")
    }
}

/// What came of a look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Looked {
    /// Where another look goes on; `None` if this one came to the end.
    pub next: Option<Bookmark>,
    /// Bytes of files that it went through.
    pub bytes: u64,
    /// Entries that are owed, and are damaged or cannot be read.
    pub unreadable: u64,
}

/// See [`Journal::look`].
pub(super) fn look(
    journal: &Journal,
    queues: &[QueueId],
    mut from: Bookmark,
    max_bytes: u64,
    viewer: &mut dyn Viewer,
) -> Looked {
    let mut look = Look { journal, queues, max_bytes, viewer, looked: Looked::default() };
    while let Some(part) = look.part(from) {
        look.looked.next = look.look_at(&part);
        if look.looked.next.is_some() {
            break;
        }
        from = Bookmark { segment: part.segment.saturating_add(1), index: 0 };
    }
    look.looked
}

struct Look<'a> {
    journal: &'a Journal,
    queues: &'a [QueueId],
    max_bytes: u64,
    viewer: &'a mut dyn Viewer,
    looked: Looked,
}

/// What the queues are owed of one segment.
struct Part {
    segment: u64,
    seal: Seal,
    /// The first entry that is owed.
    first: u32,
    /// The nearest known frame at or before it.
    place: Place,
    /// Where the last frame ended. The segment may be written to meanwhile.
    end: u64,
    durable_end: u64,
    /// Those who are owed something.
    debtors: Vec<QueueId>,
}

impl Look<'_> {
    /// The next segment of which something is owed. The index knows it without a read.
    fn part(&self, from: Bookmark) -> Option<Part> {
        let index = self.journal.index();
        let first_of = |queue: &QueueId| {
            let mut ledgers = index.get(*queue)?.ledgers.range(from.segment..);
            ledgers.find_map(|(segment, ledger)| {
                let from = if *segment == from.segment { from.index } else { 0 };
                Some((*segment, ledger.owed_from(from).next()?))
            })
        };
        let (id, first) = self.queues.iter().filter_map(first_of).min()?;
        let is_debtor = |queue: &&QueueId| index.get(**queue).is_some_and(|queue| queue.ledgers.contains_key(&id));
        let debtors = self.queues.iter().filter(is_debtor).copied().collect();
        let segment = index.segments.get(&id)?;
        let (seal, place) = (segment.seal, segment.place(first));
        let (end, durable_end) = (segment.end, segment.durable_end);
        Some(Part { segment: id, seal, first, place, end, durable_end, debtors })
    }

    /// Where it stopped, if that was before the end of the segment.
    fn look_at(&mut self, part: &Part) -> Option<Bookmark> {
        let Ok(file) = self.journal.open_segment(part.segment) else {
            // Nothing of it is owed any more if the writer has removed it.
            self.looked.unreadable += self.owed_within(part, part.first, u32::MAX);
            return None;
        };
        let mut walk = Walk::new(&*file, part.seal, part.place, part.end);
        let stopped = self.follow(&mut walk, &*file, part);
        // Whoever takes may soon want what lies behind.
        file.forget(part.durable_end.min(walk.place().offset));
        stopped
    }

    fn follow(&mut self, walk: &mut Walk<'_>, file: &dyn File, part: &Part) -> Option<Bookmark> {
        loop {
            // The way to the first entry may lead over others, which are not what somebody wants to see.
            let (index, next) = (walk.place().index, walk.place().index.max(part.first));
            if index >= part.first && (self.looked.bytes >= self.max_bytes || !self.viewer.goes_on()) {
                return Some(Bookmark { segment: part.segment, index: next });
            }
            match walk.step()? {
                Step::Entry(found) => self.entry(file, part, &found),
                Step::Gap(gap) => {
                    self.looked.bytes += gap.to - gap.from;
                    let is_end = gap.lost.is_none();
                    let behind = if is_end { u32::MAX } else { walk.place().index };
                    self.looked.unreadable += self.owed_within(part, next, behind);
                    if is_end {
                        return None;
                    }
                }
                Step::Queue { .. } => {}
            }
        }
    }

    fn entry(&mut self, file: &dyn File, part: &Part, found: &Found) {
        let entry = found.entry(part.segment).filter(|entry| entry.position.index >= part.first);
        let Some(entry) = entry else { return };
        let owed = self.debtors(part, &entry);
        if owed.is_empty() || !self.viewer.pays(&entry) {
            self.looked.bytes += found.head.frame_bytes().min(HEAD_BYTES);
            return;
        }
        self.looked.bytes += found.head.frame_bytes();
        match read_payload(file, part.seal, &entry) {
            Ok(Some(payload)) => self.viewer.see(&entry, &owed, payload),
            Ok(None) | Err(_) => self.looked.unreadable += 1,
        }
    }

    /// Who is still owed an entry.
    fn debtors(&self, part: &Part, entry: &Entry) -> Vec<QueueId> {
        let index = self.journal.index();
        part.debtors.iter().copied().filter(|queue| index.is_owed(*queue, entry)).collect()
    }

    /// How many entries of a stretch are owed to whichever queue is owed most of them. They may be many, so the lock is
    /// held for one queue at a time.
    fn owed_within(&self, part: &Part, from: u32, behind: u32) -> u64 {
        let count = |queue: &QueueId| {
            let index = self.journal.index();
            let ledger = index.get(*queue)?.ledgers.get(&part.segment)?;
            Some(ledger.owed_from(from).take_while(|number| *number < behind).count() as u64)
        };
        part.debtors.iter().filter_map(count).max().unwrap_or_default()
    }
}
