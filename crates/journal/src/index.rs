//! Which entries each queue is owed, in memory: some bits per entry and queue, and sums.
//!
//! An entry takes many bytes of disk but only some bits here, so tens of gigabytes of backlog fit in some megabytes.
//! The index knows no files; whoever holds its lock does nothing else.

mod ledger;

use std::collections::{BTreeMap, HashMap};

use crate::bits::Bits;
use crate::format::{FILE_HEAD, MAX_NAME, Seal};
use crate::model::{Backlog, Damage, DamageReport, Entry, Loss, Position, QueueId};
use crate::reports::Reports;
use crate::walk::Place;
pub(crate) use ledger::Ledger;

/// The most queues: nobody pays for the memory that each of them takes.
const MAX_QUEUES: usize = 8192;
/// At most this many queues are found on opening, whatever files say. The other places are for queues that are
/// registered.
pub(crate) const MAX_FOUND: usize = 2048;
/// The id of none: it is owed nothing.
const NOBODY: QueueId = QueueId(u16::MAX);

/// Entries between two marks at most.
const MARK_ENTRIES: u32 = 64;
/// At most this much time lies between two marks, unless there are too many marks. So the age of any entry is known
/// well enough without reading it.
const MARK_MS: u64 = 1000;
/// Except for the first ones, there is at most one mark for so many bytes of the file on account of times. So marks
/// take a fortieth of it at most, whatever the times are.
const MARK_BYTES: u32 = 1 << 10;
const FREE_MARKS: u32 = 64;

/// Everything that readers and the writer share.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) segments: BTreeMap<u64, Segment>,
    pub(crate) queues: Vec<Queue>,
    names: HashMap<String, QueueId>,
    pub(crate) damage: Damage,
    /// Damage that was met since the last time somebody asked.
    pub(crate) discovered: Reports,
}

/// One segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) seal: Seal,
    /// Behind its last frame.
    pub(crate) end: u64,
    /// Up to here the segment is known to be on disk. What is read before this, the system need not keep in memory.
    pub(crate) durable_end: u64,
    pub(crate) entries: u32,
    /// Of all its entries.
    pub(crate) items: u64,
    pub(crate) newest_ms: u64,
    pub(crate) marks: Vec<Mark>,
    /// How often an entry of it is owed to a queue.
    pub(crate) debts: u64,
    /// Completions that are not written down yet. Each takes the place of a debt, and as much memory as that.
    pub(crate) pending: BTreeMap<QueueId, Bits>,
    pub(crate) disk_bytes: u64,
    /// Some of it could not be read now, but may be later, so it stays.
    pub(crate) keep: bool,
    /// The segment before it.
    pub(crate) previous: u64,
    /// Something is wrong with the segment, or the disk may have bytes behind its end that were never acknowledged. It
    /// can be read right only if it is known how far it goes.
    pub(crate) frayed: bool,
    /// Entries whose damage is counted already: several queues may be owed such an entry, and each of them meets the
    /// damage.
    pub(crate) damaged: Bits,
}

/// Where an entry lies and when it was written: a point to begin at, instead of the beginning of the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) index: u32,
    pub(crate) offset: u32,
    pub(crate) written_ms: u64,
    /// Items of all entries before. With what the next readable head says, they tell how many items damage has cost.
    pub(crate) items: u64,
}

/// One queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) name: String,
    /// Segments in which it is owed something.
    pub(crate) ledgers: BTreeMap<u64, Ledger>,
    entries: u64,
    items: u64,
    bytes: u64,
    untaken: u64,
    /// No untaken entry lies before this, unless it was put off.
    pub(crate) cursor: (u64, u32),
    /// Where the search goes on among those that were put off, before the cursor, when nothing is left behind it.
    pub(crate) again: (u64, u32),
    /// From where to where entries were taken newest first.
    backwards: Option<((u64, u32), (u64, u32))>,
    /// Where a frame is known to begin: where the last `take` ended, or at what was handed back.
    pub(crate) hint: Option<(u64, Place)>,
    /// What was lost to damage, and not yet told to whoever takes.
    pub(crate) unreported: Loss,
}

impl Segment {
    pub(crate) fn new(seal: Seal) -> Self {
        Self {
            seal,
            end: FILE_HEAD as u64,
            durable_end: 0,
            entries: 0,
            items: 0,
            newest_ms: 0,
            marks: Vec::new(),
            debts: 0,
            pending: BTreeMap::new(),
            disk_bytes: 0,
            keep: false,
            previous: 0,
            frayed: false,
            damaged: Bits::default(),
        }
    }

    /// Notes an entry, which must be later than all others; these have so many items.
    pub(crate) fn enter(&mut self, entry: &Entry, items: u64) {
        let Entry { position: Position { index, offset, segment: _ }, written_ms, .. } = *entry;
        self.entries = index.saturating_add(1);
        self.items = items.saturating_add(u64::from(entry.items));
        self.newest_ms = self.newest_ms.max(written_ms);
        let is_far = |mark: &Mark| {
            let is_later = written_ms.abs_diff(mark.written_ms) >= MARK_MS;
            let has_room = self.marks.len() < (offset / MARK_BYTES + FREE_MARKS) as usize;
            index - mark.index >= MARK_ENTRIES || is_later && has_room
        };
        if self.marks.last().is_none_or(is_far) {
            self.marks.push(Mark { index, offset, written_ms, items });
        }
    }

    /// The last mark at or before an entry.
    pub(crate) fn mark(&self, index: u32) -> Option<&Mark> {
        self.marks[..self.marks.partition_point(|mark| mark.index <= index)].last()
    }

    /// When the oldest entry that a queue is owed was written. This is exact, or at most [`MARK_MS`] too early, or up
    /// to [`MARK_ENTRIES`] entries too early where they are small and come seldom.
    pub(crate) fn oldest_of(&self, ledger: &Ledger) -> Option<u64> {
        Some(self.mark(ledger.owed_from(0).next()?)?.written_ms)
    }

    /// The first mark at or behind an entry.
    pub(crate) fn mark_behind(&self, index: u32) -> Option<&Mark> {
        self.marks.get(self.marks.partition_point(|mark| mark.index < index))
    }

    /// Where to begin a walk that is to meet entry `index`.
    pub(crate) fn place(&self, index: u32) -> Place {
        let at = |mark: &Mark| Place { offset: u64::from(mark.offset), index: mark.index, items: Some(mark.items) };
        self.mark(index).map_or(Place::START, at)
    }
}

impl Queue {
    pub(crate) fn untaken(&self) -> u64 {
        self.untaken
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first run of untaken entries from a place on, and its segment.
    pub(crate) fn untaken_from(&self, (segment, from): (u64, u32)) -> Option<(u64, (u32, u32))> {
        self.ledgers.range(segment..).find_map(|(number, ledger)| {
            let run = ledger.untaken_run(if *number == segment { from } else { 0 })?;
            Some((*number, run))
        })
    }

    /// An entry behind the cursor, newest first: one that came since the last call, else the one before all those that
    /// earlier calls returned. `None` when there is none; then it begins anew.
    pub(crate) fn newest_untried(&mut self) -> Option<(u64, u32)> {
        let last = self.untaken_before((u64::MAX, u32::MAX));
        let (low, high) = self.backwards.unwrap_or(((u64::MAX, u32::MAX), (0, 0)));
        self.backwards = match last.filter(|last| *last > high) {
            Some(last) => Some((low.min(last), last)),
            None => self.untaken_before(low).map(|before| (before, high)),
        };
        let (low, now) = self.backwards?;
        Some(if last.is_some_and(|last| last > high) { now } else { low })
    }

    /// The last untaken entry before a place, and not before the cursor.
    fn untaken_before(&self, (segment, until): (u64, u32)) -> Option<(u64, u32)> {
        let (first, _) = self.cursor;
        let found = self.ledgers.range(first..=segment.max(first)).rev().find_map(|(number, ledger)| {
            let until = if *number == segment { until } else { u32::MAX };
            Some((*number, ledger.last_untaken(until)?))
        });
        found.filter(|found| *found >= self.cursor)
    }

    fn add(&mut self, loss: Loss, untaken: u64) {
        self.entries += loss.entries;
        self.items += loss.items;
        self.bytes += loss.bytes;
        self.untaken += untaken;
    }

    fn subtract(&mut self, loss: Loss, untaken: u64) {
        self.entries -= loss.entries.min(self.entries);
        self.items -= loss.items.min(self.items);
        self.bytes -= loss.bytes.min(self.bytes);
        self.untaken -= untaken.min(self.untaken);
    }
}

impl Index {
    /// Registers or finds a queue.
    pub(crate) fn queue(&mut self, name: &str) -> QueueId {
        self.register(name, MAX_QUEUES).unwrap_or(NOBODY)
    }

    /// The same for a queue that is found on opening; none when there are too many.
    pub(crate) fn found(&mut self, name: &str) -> Option<QueueId> {
        self.register(name, MAX_FOUND)
    }

    fn register(&mut self, name: &str, most: usize) -> Option<QueueId> {
        if let Some(id) = self.names.get(name) {
            return Some(*id);
        }
        if name.len() > MAX_NAME || self.queues.len() >= most {
            return None;
        }
        let id = QueueId(u16::try_from(self.queues.len()).ok()?);
        self.names.insert(name.to_owned(), id);
        self.queues.push(Queue { name: name.to_owned(), ..Queue::default() });
        Some(id)
    }

    pub(crate) fn name(&self, id: QueueId) -> String {
        self.get(id).map(|queue| queue.name.clone()).unwrap_or_default()
    }

    pub(crate) fn get(&self, id: QueueId) -> Option<&Queue> {
        self.queues.get(usize::from(id.0))
    }

    pub(crate) fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.queues.get_mut(usize::from(id.0))
    }

    fn ledger(&self, id: QueueId, entry: &Entry) -> Option<&Ledger> {
        self.get(id)?.ledgers.get(&entry.position.segment)
    }

    /// A queue is owed an entry of a segment that is in the index.
    pub(crate) fn owe(&mut self, id: QueueId, entry: &Entry, taken: bool) {
        let Position { segment, index, offset: _ } = entry.position;
        let Some(queue) = self.queues.get_mut(usize::from(id.0)) else { return };
        if queue.ledgers.entry(segment).or_default().enter(index, entry, taken) {
            queue.add(Loss::of(entry), u64::from(!taken));
            self.segments.entry(segment).and_modify(|segment| segment.debts += 1);
        }
    }

    /// A queue is owed what recovery found in a segment that is in the index.
    pub(crate) fn adopt(&mut self, id: QueueId, segment: u64, ledger: Ledger) {
        let Some(queue) = self.queues.get_mut(usize::from(id.0)) else { return };
        if ledger.is_empty() {
            return;
        }
        queue.add(ledger.total(), ledger.untaken().entries);
        self.segments.entry(segment).and_modify(|segment| segment.debts += ledger.total().entries);
        queue.ledgers.insert(segment, ledger);
    }

    pub(crate) fn is_owed(&self, id: QueueId, entry: &Entry) -> bool {
        self.ledger(id, entry).is_some_and(|ledger| ledger.owes(entry.position.index))
    }

    /// Some items of an entry are not owed any more; false when none of it is owed.
    pub(crate) fn complete_items(&mut self, id: QueueId, entry: &Entry, items: u64) -> bool {
        let Some(queue) = self.get_mut(id) else { return false };
        let ledger = queue.ledgers.get_mut(&entry.position.segment);
        let Some(items) = ledger.and_then(|ledger| ledger.complete_items(entry.position.index, items)) else {
            return false;
        };
        queue.subtract(Loss { items, ..Loss::default() }, 0);
        true
    }

    /// Marks an entry taken; false when it is not owed, or taken already.
    pub(crate) fn take(&mut self, id: QueueId, entry: &Entry) -> bool {
        let Position { segment, index, offset: _ } = entry.position;
        let Some(queue) = self.get_mut(id) else { return false };
        let taken = queue.ledgers.get_mut(&segment).is_some_and(|ledger| ledger.take(index, Loss::of(entry)));
        queue.untaken -= u64::from(taken);
        taken
    }

    /// Hands a taken entry back; false when it is not owed any more.
    pub(crate) fn release(&mut self, id: QueueId, entry: &Entry) -> bool {
        let Position { segment, index, offset } = entry.position;
        let Some(queue) = self.get_mut(id) else { return false };
        let Some(ledger) = queue.ledgers.get_mut(&segment).filter(|ledger| ledger.owes(index)) else { return false };
        queue.untaken += u64::from(ledger.release(index, Loss::of(entry)));
        let place = (segment, index);
        // What was handed out again after it was put off is no reason to hand out again all that was put off.
        let cursor = if place < queue.again { &mut queue.again } else { &mut queue.cursor };
        if place < *cursor {
            *cursor = place;
            queue.hint = Some((segment, Place { offset: u64::from(offset), index, items: None }));
        }
        true
    }

    /// Hands a taken entry back, to be handed out after everything that was not handed out yet; false when it is not
    /// owed any more.
    pub(crate) fn put_off(&mut self, id: QueueId, entry: &Entry) -> bool {
        let Position { segment, index, offset: _ } = entry.position;
        let Some(queue) = self.get_mut(id) else { return false };
        let Some(ledger) = queue.ledgers.get_mut(&segment).filter(|ledger| ledger.owes(index)) else { return false };
        queue.untaken += u64::from(ledger.release(index, Loss::of(entry)));
        true
    }

    /// The oldest comes first, whether it was put off or not.
    pub(crate) fn begin_again(&mut self, id: QueueId) {
        if let Some(queue) = self.get_mut(id) {
            (queue.cursor, queue.again, queue.backwards) = ((0, 0), (0, 0), None);
        }
    }

    /// One entry less is owed. Returns what it counted for; `None` when it was not owed.
    pub(crate) fn settle(&mut self, id: QueueId, segment: u64, index: u32, guess: Loss) -> Option<Loss> {
        let queue = self.queues.get_mut(usize::from(id.0))?;
        let ledger = queue.ledgers.get_mut(&segment)?;
        let untaken = ledger.untaken().entries;
        let settled = ledger.settle(index, guess)?;
        let untaken = untaken - ledger.untaken().entries;
        if ledger.is_empty() {
            queue.ledgers.remove(&segment);
        }
        queue.subtract(settled, untaken);
        let segment = self.segments.get_mut(&segment)?;
        segment.debts -= 1;
        segment.pending.entry(id).or_default().insert(index);
        Some(settled)
    }

    /// Who is owed something of a segment.
    pub(crate) fn debtors(&self, number: u64) -> Vec<QueueId> {
        let queues = (0..).map(QueueId).zip(&self.queues);
        queues.filter(|(_, queue)| queue.ledgers.contains_key(&number)).map(|(id, _)| id).collect()
    }

    /// A queue gives up everything that it is owed of a segment.
    pub(crate) fn settle_segment(&mut self, id: QueueId, number: u64) -> Loss {
        let Some(queue) = self.queues.get_mut(usize::from(id.0)) else { return Loss::default() };
        let Some(ledger) = queue.ledgers.remove(&number) else { return Loss::default() };
        queue.subtract(ledger.total(), ledger.untaken().entries);
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.debts -= ledger.total().entries;
            let pending = segment.pending.entry(id).or_default();
            ledger.owed_from(0).for_each(|index| _ = pending.insert(index));
        }
        ledger.total()
    }

    pub(crate) fn backlog(&self, id: QueueId) -> Backlog {
        let Some(queue) = self.get(id) else { return Backlog::default() };
        let first = queue.ledgers.first_key_value();
        let oldest = first.and_then(|(segment, ledger)| self.segments.get(segment)?.oldest_of(ledger));
        Backlog {
            entries: queue.entries,
            items: queue.items,
            bytes: queue.bytes,
            untaken_entries: queue.untaken,
            oldest_ms: oldest,
        }
    }

    /// Segments that nobody is owed anything of.
    pub(crate) fn done(&self) -> Vec<u64> {
        let done = self.segments.iter().filter(|(_, segment)| segment.debts == 0 && !segment.keep);
        done.map(|(id, _)| *id).collect()
    }

    /// Whether nobody has met the damage of this entry before.
    pub(crate) fn is_new_damage(&mut self, segment: u64, index: u32) -> bool {
        self.segments.get_mut(&segment).is_some_and(|segment| segment.damaged.insert(index))
    }

    /// Counts damage that was met while reading, and keeps it to be told.
    pub(crate) fn discover(&mut self, report: DamageReport) {
        self.report(&report);
        self.discovered.push(report);
    }

    /// Counts damage.
    pub(crate) fn report(&mut self, report: &DamageReport) {
        let Damage { places, bytes, entries, items } = &mut self.damage;
        *places = places.saturating_add(report.places);
        // What is lost is said by files, which may say anything.
        *bytes = bytes.saturating_add(report.bytes);
        *entries = entries.saturating_add(report.entries.unwrap_or(0));
        *items = items.saturating_add(report.items.unwrap_or(0));
    }
}

impl Loss {
    pub(crate) fn of(entry: &Entry) -> Self {
        Self { entries: 1, items: u64::from(entry.items), bytes: u64::from(entry.payload_bytes) }
    }

    /// What one of these entries counts for, if nothing is known of each: all count the same, and a remainder goes to
    /// the first ones.
    pub(crate) fn of_each(self, number: u64) -> Self {
        let entries = self.entries.max(1);
        let share = |all: u64| all / entries + u64::from(number < all % entries);
        Self { entries: 1, items: share(self.items), bytes: share(self.bytes) }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.items += other.items;
        self.bytes += other.bytes;
    }

    /// `other` is a part of it.
    pub(crate) fn subtract(&mut self, other: Self) {
        self.entries -= other.entries.min(self.entries);
        self.items -= other.items.min(self.items);
        self.bytes -= other.bytes.min(self.bytes);
    }

    /// One of these entries, which counts for about `guess`; the last one counts for all that is left.
    pub(crate) fn part(self, guess: Self) -> Self {
        match self.entries {
            0 | 1 => self,
            _ => Self { entries: 1, items: guess.items.min(self.items), bytes: guess.bytes.min(self.bytes) },
        }
    }
}
