//! What readers share: taking, reading and completing entries.
//!
//! The lock of the index is held while bits and sums change, never while a file is read.

mod evict;
mod look;
mod oldest;
mod take;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ReadError;
use crate::bits::Bits;
use crate::format::{FRAME_HEAD, FileKind, FrameHead, Kind, Seal};
use crate::fs::{File, Fs, read_full};
use crate::index::Index;
use crate::model::{Backlog, DamageReport, Entry, Loss, Order, Position, QueueId, Stats, Taken};
pub use look::{Bookmark, Looked, Viewer};

/// The shared handle.
#[derive(Debug)]
pub struct Journal {
    fs: Arc<dyn Fs>,
    index: Mutex<Index>,
    /// Segments from this one on were begun since the journal was opened.
    begins_at: u64,
}

impl Journal {
    pub(crate) fn new(fs: Arc<dyn Fs>, index: Index, begins_at: u64) -> Self {
        Self { fs, index: Mutex::new(index), begins_at }
    }

    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of a queue, which is registered if it is new. Up to 8,192 queues can be told apart; further ones, and
    /// names of more than 1,024 bytes, get an id that is owed nothing and cannot be appended for.
    pub fn queue(&self, name: &str) -> QueueId {
        self.index().queue(name)
    }

    /// All queues: those that were found on opening and those registered since.
    pub fn queues(&self) -> Vec<(QueueId, String)> {
        let index = self.index();
        (0u16..).map(QueueId).zip(index.queues.iter().map(|queue| queue.name.clone())).collect()
    }

    pub(crate) fn name(&self, queue: QueueId) -> String {
        self.index().name(queue)
    }

    /// Takes the next entries that `queue` is owed and nobody has taken: a stretch that can be read at once, of up to
    /// `max_bytes` of payload in total and 1,024 entries. Reading takes `max_bytes` and [`Journal::TAKE_OVERHEAD`] of
    /// memory. If the first entry alone is larger, `pay` is asked whether its payload may be read all the same. If not,
    /// nothing is taken, and [`Taken::too_large`] says how large it is.
    ///
    /// Damaged entries are completed, counted in [`Taken::damaged`] and skipped. An entry that the system cannot read
    /// now is put off: later entries come first. When there are none, this fails, and the next call begins again.
    pub fn take(
        &self,
        queue: QueueId,
        order: Order,
        max_bytes: usize,
        pay: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Taken, ReadError> {
        take::take(self, queue, order, max_bytes, pay)
    }

    /// What [`Journal::take`] reads beyond payloads: the heads between them.
    pub const TAKE_OVERHEAD: usize = 16 << 10;

    /// Shows `viewer` what these queues are owed from a place on, the oldest first, whether it was taken or not: each
    /// entry once. It ends after about `max_bytes` of files, or when the viewer has seen enough. Reading takes
    /// [`Journal::LOOK_OVERHEAD`] of memory beside the payload of an entry.
    ///
    /// Nothing changes by it, not even what is known of damage. What is appended, completed or removed meanwhile is
    /// seen or not.
    pub fn look(&self, queues: &[QueueId], from: Bookmark, max_bytes: u64, viewer: &mut dyn Viewer) -> Looked {
        look::look(self, queues, from, max_bytes, viewer)
    }

    /// What [`Journal::look`] takes beside a payload: a part of the file, twice while it grows.
    pub const LOOK_OVERHEAD: usize = 512 << 10;

    /// The payload of an entry.
    pub fn read(&self, entry: &Entry) -> Result<Vec<u8>, ReadError> {
        let Position { segment, index: _, offset } = entry.position;
        let place = Spot { segment, offset: u64::from(offset) };
        let known = self.index().segments.get(&segment).map(|segment| (segment.seal, segment.durable_end));
        let (seal, durable_end) = known.ok_or_else(|| place.gone())?;
        let file = match self.open_segment(segment) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.discover(entry, DamageReport::GONE);
                return Err(place.gone());
            }
            file => file.map_err(|error| place.failed(error))?,
        };
        let payload = read_payload(&*file, seal, entry);
        file.forget(durable_end);
        let payload = payload.map_err(|error| place.failed(error))?;
        payload.ok_or_else(|| {
            self.discover(entry, DamageReport::UNSOUND);
            place.damaged()
        })
    }

    /// Damage that was met since the last call, to be logged. [`Journal::stats`] includes it.
    pub fn discovered_damage(&self) -> Vec<DamageReport> {
        std::mem::take(&mut self.index().discovered).into_list()
    }

    /// Whoever was owed the entry never gets it.
    fn discover(&self, entry: &Entry, what: &str) {
        let Position { segment, index: number, offset: _ } = entry.position;
        let mut index = self.index();
        // A segment that nobody is owed is removed by ourselves.
        let is_owed = index.segments.get(&segment).is_some_and(|segment| segment.debts > 0);
        if is_owed && index.is_new_damage(segment, number) {
            index.discover(DamageReport::of_entry(entry, what.to_owned()));
        }
    }

    /// Whether the entry was there when the journal was opened.
    pub fn is_recovered(&self, entry: &Entry) -> bool {
        entry.position.segment < self.begins_at
    }

    /// Whether `queue` is still owed the entry.
    pub fn is_owed(&self, queue: QueueId, entry: &Entry) -> bool {
        self.index().is_owed(queue, entry)
    }

    /// `queue` has got the entry; false when it was not owed any more (evicted).
    pub fn complete(&self, queue: QueueId, entry: &Entry) -> bool {
        let Position { segment, index, offset: _ } = entry.position;
        self.index().settle(queue, segment, index, Loss::of(entry)).is_some()
    }

    /// `queue` has got some items of an entry that it gets in parts. From now on the entry counts for the other items.
    /// False when it is not owed any more (evicted). When its last part is done, the entry is to be completed as a
    /// whole; until then the journal remembers all of it.
    pub fn complete_items(&self, queue: QueueId, entry: &Entry, items: u64) -> bool {
        self.index().complete_items(queue, entry, items)
    }

    /// Hands a taken entry back, so that [`Journal::take`] hands it out (again); false when it is not owed any more.
    pub fn release(&self, queue: QueueId, entry: &Entry) -> bool {
        self.index().release(queue, entry)
    }

    /// The same, but with [`Order::Oldest`] all that was not handed out yet comes first, also what is appended later,
    /// and then what was put off, in turn. False when the entry is not owed any more.
    pub fn put_off(&self, queue: QueueId, entry: &Entry) -> bool {
        self.index().put_off(queue, entry)
    }

    /// Makes [`Journal::take`] go on with the oldest entries, those put off included.
    pub fn begin_again(&self, queue: QueueId) {
        self.index().begin_again(queue);
    }

    /// Gives up the oldest entries that `queue` is owed, taken ones too, until at most `max_bytes`
    /// of payload are owed and the oldest is not older than `not_before_ms`.
    pub fn evict(&self, queue: QueueId, max_bytes: u64, not_before_ms: u64) -> Loss {
        evict::evict(self, queue, evict::Limits { max_bytes, not_before_ms })
    }

    /// Gives up the oldest segment whose space that frees: everybody who is owed something of it `may_lose` it. Returns
    /// what each of them loses; nothing when there is no such segment.
    pub fn evict_segment(&self, may_lose: &dyn Fn(QueueId) -> bool) -> Vec<(QueueId, Loss)> {
        evict::evict_segment(self, may_lose)
    }

    /// The oldest entry that `queue` is owed, which would be evicted first. `None` if there is none, or if the disk does not
    /// give it. Reads heads only, from the nearest known place on.
    pub fn oldest(&self, queue: QueueId) -> Option<Entry> {
        oldest::oldest(self, queue)
    }

    /// What `queue` is owed. Reads nothing.
    pub fn backlog(&self, queue: QueueId) -> Backlog {
        self.index().backlog(queue)
    }

    /// The journal as a whole. Reads nothing.
    pub fn stats(&self) -> Stats {
        let index = self.index();
        let disk_bytes = index.segments.values().map(|segment| segment.disk_bytes).sum();
        Stats { segments: index.segments.len() as u64, disk_bytes, damage: index.damage }
    }

    fn open_segment(&self, segment: u64) -> io::Result<Arc<dyn File>> {
        self.fs.open(&FileKind::Segment.name(segment))
    }

    /// Completions that are not written down, by segment.
    pub(crate) fn take_pending(&self) -> Vec<(u64, BTreeMap<QueueId, Bits>)> {
        let mut index = self.index();
        let with_pending = index.segments.iter_mut().filter(|(_, segment)| !segment.pending.is_empty());
        with_pending.map(|(id, segment)| (*id, std::mem::take(&mut segment.pending))).collect()
    }

    /// These could not be written down after all.
    pub(crate) fn return_pending(&self, id: u64, completed: BTreeMap<QueueId, Bits>) {
        if let Some(segment) = self.index().segments.get_mut(&id) {
            for (queue, entries) in completed {
                let pending = segment.pending.entry(queue).or_default();
                // These are many, and those that were completed meanwhile are few.
                let meanwhile = std::mem::replace(pending, entries);
                meanwhile.runs().flatten().for_each(|index| _ = pending.insert(index));
            }
        }
    }
}

/// Where something is read.
#[derive(Debug, Clone, Copy)]
struct Spot {
    segment: u64,
    offset: u64,
}

impl Spot {
    fn gone(self) -> ReadError {
        ReadError::Gone { file: FileKind::Segment.name(self.segment), offset: self.offset }
    }

    fn damaged(self) -> ReadError {
        ReadError::Damaged { file: FileKind::Segment.name(self.segment), offset: self.offset }
    }

    fn failed(self, source: io::Error) -> ReadError {
        match source.kind() {
            io::ErrorKind::NotFound => self.gone(),
            _ => ReadError::Io { file: FileKind::Segment.name(self.segment), offset: self.offset, source },
        }
    }
}

/// The payload of an entry; `None` when the bytes are not what was written.
pub(crate) fn read_payload(file: &dyn File, seal: Seal, entry: &Entry) -> io::Result<Option<Vec<u8>>> {
    let offset = u64::from(entry.position.offset);
    let mut head = [0; FRAME_HEAD];
    let filled = read_full(file, &mut head, offset)?;
    let is_it = |head: &FrameHead| {
        matches!(head.kind, Kind::Entry(_))
            && head.index == entry.position.index
            && head.payload_bytes == entry.payload_bytes
    };
    let Some(head) = FrameHead::decode(&head[..filled], seal).filter(is_it) else { return Ok(None) };
    let mut payload = vec![0; head.payload_bytes as usize];
    let filled = read_full(file, &mut payload, offset + head.payload_at())?;
    Ok((filled == payload.len() && seal.sum(&payload) == head.payload_sum).then_some(payload))
}
