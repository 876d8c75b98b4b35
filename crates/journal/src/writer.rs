//! The one writer: appends groups, writes down completions, deletes segments that no queue is owed.
//!
//! Only it creates, extends and removes files. It has no thread and no clock: its owner calls it.

mod ack_file;
mod active;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::bits::Bits;
use crate::format::{FileHead, FileKind, MAX_ID, MAX_SEGMENT, Previous};
use crate::fs::{Fs, Space};
use crate::group::{self, Group};
use crate::index::Segment;
use crate::model::{Durability, Entry, NewEntry, QueueId, Turnover};
use crate::recover::Recovered;
use crate::{AppendError, Journal, Options};
pub(crate) use ack_file::AckFile;
use active::Active;

/// Segments are at least this long. In shorter ones, the heads would matter.
const MIN_SEGMENT: u64 = 4 << 10;

/// The bytes of a group: its entries, and the names of its queues where the segment does not have them.
struct Measure {
    entries: u64,
    names: BTreeMap<QueueId, u64>,
}

/// The only one who changes the directory.
#[derive(Debug)]
pub struct Writer {
    fs: Arc<dyn Fs>,
    journal: Arc<Journal>,
    segment_bytes: u64,
    seed: u64,
    active: Option<Active>,
    acks: BTreeMap<u64, AckFile>,
    next_id: u64,
    /// No file that was removed before this process began can come back.
    removals_last: bool,
    previous: Previous,
    /// A file that is not written to any more could not be synced. The next [`Writer::sync`] says so.
    unsynced: Option<io::Error>,
    turnover: Turnover,
}

impl Writer {
    pub(crate) fn new(fs: Arc<dyn Fs>, options: Options, journal: Arc<Journal>, recovered: Recovered) -> Self {
        let Recovered { acks, next_id, previous, .. } = recovered;
        let Options { segment_bytes, seed } = options;
        // A group begins before this, so that its offsets fit.
        let segment_bytes = segment_bytes.clamp(MIN_SEGMENT, MAX_SEGMENT / 4);
        let (active, removals_last, unsynced) = (None, false, None);
        let turnover = Turnover::default();
        Self { fs, journal, segment_bytes, seed, active, acks, next_id, removals_last, previous, unsynced, turnover }
    }

    /// Appends a group of entries with one write and, when it is to be [`Durability::Synced`], one sync. All or nothing:
    /// after an error none of it is owed to anybody. Returns the entries in the order given.
    pub fn append(
        &mut self,
        group: &[NewEntry<'_>],
        now_ms: u64,
        durability: Durability,
    ) -> Result<Vec<Entry>, AppendError> {
        if group.is_empty() {
            return Ok(Vec::new());
        }
        let measure = self.measure(group)?;
        let mut active = self.active_for(&measure, now_ms)?;
        match self.append_to(&mut active, group, now_ms, durability) {
            Ok(entries) => {
                self.active = Some(active);
                Ok(entries)
            }
            Err(error) => {
                self.abandon(active);
                Err(error)
            }
        }
    }

    /// Makes everything durable that was appended as [`Durability::Written`]. After an error it is unknown what is
    /// durable, and trying again would not tell. The next append begins a new file.
    pub fn sync(&mut self) -> io::Result<()> {
        let earlier = self.unsynced.take();
        let synced = self.active.as_mut().map_or(Ok(()), Active::sync);
        self.active.iter().for_each(|active| self.note_durable(active));
        if synced.is_err()
            && let Some(active) = self.active.take()
        {
            self.seal(&active);
        }
        earlier.map_or(synced, Err)
    }

    /// Writes down completions made since the last call, and deletes segments that nobody is owed, the active one too.
    /// Tries everything, and returns the first error; what failed is tried again by the next call.
    pub fn tidy(&mut self) -> io::Result<()> {
        let deleted = self.delete_done();
        let written = self.write_completions();
        deleted.and(written)
    }

    /// The orderly end: makes everything durable, tidies, and writes down how far the last segment goes. No later
    /// segment says that; without it, damage at the end could not be told from a write that was under way. An append
    /// afterwards begins a new segment.
    pub fn finish(&mut self) -> io::Result<()> {
        let synced = self.sync();
        let tidied = self.tidy();
        if let Some(active) = self.active.take() {
            self.seal(&active);
        }
        let last = self.acks.get_mut(&self.previous.id);
        let noted = last.map_or(Ok(()), |acks| acks.note_extent(&*self.fs));
        synced.and(tidied).and(noted)
    }

    /// Which files it has made and removed.
    pub fn turnover(&self) -> Turnover {
        self.turnover
    }

    /// The room there is.
    pub fn space(&self) -> io::Result<Space> {
        self.fs.space()
    }

    /// How long a group is, if it can be written at all.
    fn measure(&self, group: &[NewEntry<'_>]) -> Result<Measure, AppendError> {
        let entries = group::entry_bytes(group)?;
        let index = self.journal.index();
        let mut names = BTreeMap::new();
        for owed in group.iter().flat_map(|entry| entry.owed) {
            let queue = index.get(owed.queue).ok_or(AppendError::UnknownQueue)?;
            names.entry(owed.queue).or_insert_with(|| group::queue_bytes(&queue.name));
        }
        let (given, limit) = (entries + names.values().sum::<u64>(), MAX_SEGMENT / 2);
        if given > limit {
            return Err(AppendError::TooLarge { what: "a group in bytes", given, limit });
        }
        Ok(Measure { entries, names })
    }

    /// The segment that takes a group, a new one if need be.
    fn active_for(&mut self, group: &Measure, now_ms: u64) -> Result<Active, AppendError> {
        if let Some(active) = self.active.take() {
            let named = self.acks.get(&active.head.id).map(AckFile::numbers);
            let is_new = |queue| named.is_none_or(|named| !named.contains_key(queue));
            let names: u64 = group.names.iter().filter(|(queue, _)| is_new(queue)).map(|(_, bytes)| bytes).sum();
            if active.is_new() || active.end() + names + group.entries <= self.segment_bytes {
                return Ok(active);
            }
            self.retire(active);
        }
        self.create(now_ms)
    }

    fn create(&mut self, now_ms: u64) -> Result<Active, AppendError> {
        let id = self.next_id;
        if id > MAX_ID {
            // The next start would not know it for a segment.
            let source = io::Error::other("numbers of segments end before; move the file with the greatest one away");
            return Err(AppendError::Io { action: "create", file: FileKind::Segment.name(id), source });
        }
        self.let_removals_last(id)?;
        self.next_id += 1;
        let head = FileHead { id, nonce: nonce(self.seed, id), created_ms: now_ms, previous: self.previous };
        let active = Active::create(&*self.fs, &head, self.segment_bytes)?;
        self.acks.insert(id, AckFile::new(head));
        let previous = self.previous.id;
        let segment = Segment { disk_bytes: self.segment_bytes, previous, ..Segment::new(head.seal()) };
        self.journal.index().segments.insert(id, segment);
        self.turnover.made += 1;
        Ok(active)
    }

    /// The first number may be that of a segment which an earlier process removed. Should power loss bring back its
    /// completions, they would lie beside a new segment that has no head yet, and look like damage.
    fn let_removals_last(&mut self, id: u64) -> Result<(), AppendError> {
        if !self.removals_last {
            let action = "sync the directory before creating";
            let failed = |source| AppendError::Io { action, file: FileKind::Segment.name(id), source };
            self.fs.sync_dir().map_err(failed)?;
            self.removals_last = true;
        }
        Ok(())
    }

    fn append_to(
        &mut self,
        active: &mut Active,
        group: &[NewEntry<'_>],
        now_ms: u64,
        durability: Durability,
    ) -> Result<Vec<Entry>, AppendError> {
        let acks = self.acks.entry(active.head.id).or_insert_with(|| AckFile::new(active.head));
        let new = acks.enlist(group.iter().flat_map(|entry| entry.owed).map(|owed| owed.queue));
        let mut bytes = Group::new(active.context(now_ms));
        for (queue, number) in &new {
            bytes.push_queue(*number, &self.journal.name(*queue));
        }
        group.iter().for_each(|entry| bytes.push_entry(entry, acks.numbers()));
        active.write(&mut bytes, durability)?;
        let entries = bytes.entries;
        self.publish(active, group, &entries);
        if !new.is_empty() {
            // The names are there a second time for the case of damage; what fails here is done by the next tidy.
            let _ = self.write_acks(active.head.id, &BTreeMap::new());
        }
        Ok(entries)
    }

    fn publish(&self, active: &Active, group: &[NewEntry<'_>], entries: &[Entry]) {
        let mut index = self.journal.index();
        if let Some(segment) = index.segments.get_mut(&active.head.id) {
            entries.iter().for_each(|entry| segment.enter(entry, segment.items));
            segment.end = active.end();
            segment.durable_end = active.durable_end();
            segment.disk_bytes = self.segment_bytes.max(segment.end);
        }
        for (new, entry) in group.iter().zip(entries) {
            new.owed.iter().for_each(|owed| index.owe(owed.queue, entry, owed.taken));
        }
    }

    /// A segment is full.
    fn retire(&mut self, mut active: Active) {
        if let Err(error) = active.sync() {
            self.unsynced.get_or_insert(error);
        }
        self.seal(&active);
    }

    /// A write failed: nothing is written behind it, and nothing of it stays.
    fn abandon(&mut self, mut active: Active) {
        let had_unsynced = active.has_unsynced();
        // What was appended before may still wait for a sync, and the cut should last.
        let cut = active.cut_and_sync();
        self.seal(&active);
        let Err(error) = cut else { return };
        if let Some(segment) = self.journal.index().segments.get_mut(&active.head.id) {
            segment.frayed = true;
        }
        if had_unsynced {
            self.unsynced.get_or_insert(error);
        }
    }

    /// Nothing is written to this segment any more.
    fn seal(&mut self, active: &Active) {
        // When that fails, the next segment still says where this one ends.
        let _ = active.cut();
        let end = active.file_bytes();
        self.close(active);
        self.note_durable(active);
        if let Some(segment) = self.journal.index().segments.get_mut(&active.head.id) {
            segment.disk_bytes = end;
        }
    }

    /// Readers learn what is on disk.
    fn note_durable(&self, active: &Active) {
        if let Some(segment) = self.journal.index().segments.get_mut(&active.head.id) {
            segment.durable_end = active.durable_end();
        }
    }

    /// Remembers how far a segment goes.
    fn close(&mut self, active: &Active) {
        let extent = active.extent();
        self.previous = Previous { id: active.head.id, extent, seal: active.head.seal() };
        self.acks.get_mut(&active.head.id).into_iter().for_each(|acks| acks.set_extent(extent));
    }

    fn delete_done(&mut self) -> io::Result<()> {
        let done = self.journal.index().done();
        let mut result = Ok(());
        for id in done {
            if self.active.as_ref().is_some_and(|active| active.head.id == id) {
                self.active.take().iter().for_each(|active| self.close(active));
            }
            match self.delete(id) {
                Ok(()) => {
                    self.journal.index().segments.remove(&id);
                    self.acks.remove(&id);
                    self.turnover.removed += 1;
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    fn delete(&mut self, id: u64) -> io::Result<()> {
        self.keep_end_of_previous(id)?;
        self.note_done(id);
        self.remove(FileKind::Segment, id)?;
        self.never_to_return(id)?;
        self.remove(FileKind::Acks, id)
    }

    /// A file of completions that is left alone must not look as if somebody had taken its segment. If this fails, on a
    /// full disk for example, the segment goes all the same.
    fn note_done(&mut self, id: u64) {
        let _ = self.acks.get_mut(&id).map(|acks| acks.note_done(&*self.fs));
    }

    /// A power loss may bring back a file that was removed. If the next segment, which says where its end is, was
    /// removed meanwhile, bytes behind its end that were never acknowledged would be taken for data. Until this
    /// succeeds, the segment is remembered, and the next one is not removed without a note.
    fn never_to_return(&self, id: u64) -> io::Result<()> {
        let is_frayed = self.journal.index().segments.get(&id).is_some_and(|segment| segment.frayed);
        if is_frayed { self.fs.sync_dir() } else { Ok(()) }
    }

    /// A segment says how far the one before it goes. If the earlier one stays longer, it has to say so itself.
    fn keep_end_of_previous(&mut self, id: u64) -> io::Result<()> {
        let index = self.journal.index();
        let Some(previous) = index.segments.get(&id).map(|segment| segment.previous) else { return Ok(()) };
        let Some(is_frayed) = index.segments.get(&previous).map(|segment| segment.frayed) else { return Ok(()) };
        drop(index);
        let Some(acks) = self.acks.get_mut(&previous) else { return Ok(()) };
        let noted = acks.note_extent(&*self.fs);
        // Without that, only damage yet to come would be judged differently; a full disk must not keep files for it.
        if is_frayed { noted } else { Ok(()) }
    }

    fn remove(&self, kind: FileKind, id: u64) -> io::Result<()> {
        match self.fs.remove(&kind.name(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn write_completions(&mut self) -> io::Result<()> {
        let pending = self.journal.take_pending();
        let mut result = Ok(());
        for (id, completed) in pending {
            if let Err(error) = self.write_acks(id, &completed) {
                self.journal.return_pending(id, completed);
                result = result.and(Err(error));
            }
        }
        result
    }

    fn write_acks(&mut self, id: u64, completed: &BTreeMap<QueueId, Bits>) -> io::Result<()> {
        let journal = &self.journal;
        let Some(acks) = self.acks.get_mut(&id) else { return Ok(()) };
        acks.write(&*self.fs, |queue| journal.name(queue), completed)
    }
}

/// A number that no other segment has: splitmix64 over the seed and the id.
fn nonce(seed: u64, id: u64) -> u64 {
    let mut mixed = seed ^ id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
