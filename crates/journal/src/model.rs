//! The words of the journal: what goes in, what comes out, and what is counted. Plain data.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use crate::format::FileKind;

/// A queue's name as a number, which is valid in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub(crate) u16);

/// Where an entry lies. Later entries are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    pub(crate) segment: u64,
    pub(crate) index: u32,
    pub(crate) offset: u32,
}

/// An entry without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Where it lies.
    pub position: Position,
    /// Length of the payload.
    pub payload_bytes: u32,
    /// Items in the payload, as the caller said.
    pub items: u32,
    /// When it was appended, as the caller said.
    pub written_ms: u64,
}

/// What an append waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The group is on disk before the call returns: it survives power loss.
    Synced,
    /// The system has the group: it survives the process, and power loss after the next [`Writer::sync`].
    ///
    /// [`Writer::sync`]: crate::Writer::sync
    Written,
}

/// An entry to append.
#[derive(Debug, Clone, Copy)]
pub struct NewEntry<'a> {
    /// The payload; its parts are concatenated on disk.
    pub payload: &'a [Bytes],
    /// Items in the payload, for the books.
    pub items: u32,
    /// Who is owed the entry.
    pub owed: &'a [Owed],
}

/// One queue that is owed an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owed {
    /// The queue.
    pub queue: QueueId,
    /// It is being delivered already, so [`Journal::take`](crate::Journal::take) must not hand it out.
    pub taken: bool,
}

/// Which of its entries a queue takes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The oldest that were not handed out yet, and then those that were put off.
    Oldest,
    /// A single entry, the newest: one that came since the last call, else the one before those that earlier calls
    /// took. When there is none that was not handed out yet, this is as [`Order::Oldest`].
    Newest,
    /// The oldest of those that were put off, before those that were not handed out yet. Where more of the latter come
    /// all the time, [`Order::Oldest`] alone would never get back to the others.
    PutOff,
}

/// Entries that a queue has taken.
#[derive(Debug, Default)]
pub struct Taken {
    /// What was read.
    pub buffer: Vec<u8>,
    /// The entries, oldest first, and the places of their payloads in `buffer`. Without any, nothing is untaken.
    pub entries: Vec<(Entry, Range<usize>)>,
    /// The size of the next payload, if it was not taken because nobody pays for it.
    pub too_large: Option<usize>,
    /// What was owed to this queue and could not be read because of damage. It is completed already; this is for the
    /// caller's books.
    pub damaged: Loss,
}

/// What is given up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loss {
    /// Entries.
    pub entries: u64,
    /// Their items.
    pub items: u64,
    /// Their payload bytes.
    pub bytes: u64,
}

/// What a queue is owed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Entries, taken ones too.
    pub entries: u64,
    /// Their items.
    pub items: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Entries that nobody has taken.
    pub untaken_entries: u64,
    /// When the oldest entry was written. This is exact, or at most a second too early, or up to 64 entries too early
    /// where they are small and come seldom.
    pub oldest_ms: Option<u64>,
}

/// Segments that came and went since the journal was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turnover {
    /// How many were made.
    pub made: u64,
    /// How many were removed, those of earlier processes included.
    pub removed: u64,
}

/// The journal as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Segments on disk.
    pub segments: u64,
    /// Their bytes, what is preallocated included.
    pub disk_bytes: u64,
    /// Damage met since the journal was opened.
    pub damage: Damage,
}

/// Damage, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Damage {
    /// Damaged places.
    pub places: u64,
    /// Bytes that cannot be read.
    pub bytes: u64,
    /// Entries lost in them, as far as that is known.
    pub entries: u64,
    /// Items lost in them, as far as that is known.
    pub items: u64,
}

/// One damaged place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamageReport {
    /// The file.
    pub file: String,
    /// The segment it belongs to.
    pub segment: u64,
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// How many places this stands for: more than one only at the end of a long list, where the rest is summed up.
    pub places: u64,
    /// Entries lost with it, where that is known.
    pub entries: Option<u64>,
    /// Items lost with it, where that is known.
    pub items: Option<u64>,
    /// What is wrong, and what was done about it.
    pub what: String,
}

impl DamageReport {
    /// What is said of an entry whose bytes are not what was written.
    pub(crate) const UNSOUND: &str = "the payload's checksum does not match; the entry cannot be delivered";

    /// What is said of a file with entries that somebody is owed.
    pub(crate) const GONE: &str = "the file is gone, removed by somebody else; what was in it cannot be delivered";

    /// Something is wrong with a file, and no entry is lost with it.
    pub(crate) fn without_loss(kind: FileKind, segment: u64, (offset, bytes): (u64, u64), what: String) -> Self {
        let (file, entries, items) = (kind.name(segment), Some(0), Some(0));
        Self { file, segment, offset, bytes, places: 1, entries, items, what }
    }

    /// An entry that is damaged, or cannot be read.
    pub(crate) fn of_entry(entry: &Entry, what: String) -> Self {
        let Position { segment, index: _, offset } = entry.position;
        Self {
            file: FileKind::Segment.name(segment),
            segment,
            offset: u64::from(offset),
            bytes: u64::from(entry.payload_bytes),
            places: 1,
            entries: Some(1),
            items: Some(u64::from(entry.items)),
            what,
        }
    }
}

impl fmt::Display for DamageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, segment: _, offset, bytes, places: _, entries, items, what } = self;
        write!(f, "{file} at byte {offset} ({}", Count(*bytes, "byte", "bytes"))?;
        for (number, one, many) in [(entries, "entry", "entries"), (items, "item", "items")] {
            number.map_or(Ok(()), |number| write!(f, ", {}", Count(number, one, many)))?;
        }
        write!(f, "): {what}")
    }
}

/// A number of things, with the words for one and for more.
struct Count(u64, &'static str, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, one, many) = self;
        write!(f, "{number} {}", if *number == 1 { one } else { many })
    }
}

/// What was found on opening.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The queues that are owed something.
    pub queues: Vec<(QueueId, String, Backlog)>,
    /// What queues were owed and cannot be read. It is not owed any more.
    pub lost: Vec<(QueueId, Loss)>,
    /// Bytes cut off the end: a write that was under way when the process died, or damage that cannot be told from one.
    pub truncated_bytes: u64,
    /// Everything that is wrong otherwise.
    pub damage: Vec<DamageReport>,
    /// Files of completions that were removed because their segment is gone and was completed: the process died before it
    /// could remove both.
    pub orphans: Vec<String>,
}
