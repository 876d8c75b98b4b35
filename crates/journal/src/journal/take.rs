//! Taking the next entries of a queue with as few reads as possible.
//!
//! A run of consecutive untaken entries is read at once. Its beginning is usually known, because the run before it
//! ended there. Otherwise the heads from the nearest known place on lead to it.

use std::io;
use std::ops::Range;

use super::{Journal, Spot};
use crate::ReadError;
use crate::format::{FileKind, FrameHead, Kind, Seal};
use crate::fs::{File, read_full};
use crate::index::{Index, Ledger, Segment};
use crate::model::{Chunk, DamageReport, Entry, Loss, QueueId};
use crate::walk::{Found, Place, Step, Walk};

/// Which entries come first: the oldest, the newest, or the oldest of what was put off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Oldest,
    Newest,
    /// Before all others what was put off, the oldest first.
    PutOff,
}

/// What to read next.
#[derive(Debug, Clone, Copy)]
struct Want {
    segment: u64,
    seal: Seal,
    /// Where the segment's last frame ended, and how many entries it had. The segment may be written to meanwhile.
    end: u64,
    entries: u32,
    items: u64,
    /// Up to here it is known to be on disk.
    durable_end: u64,
    /// The first entry, and the end of the run of untaken ones.
    first: u32,
    last: u32,
    /// The nearest known frame at or before the first entry.
    place: Place,
    /// The same, but it is known how many items are before it.
    counted: Place,
    /// No entry of the run lies behind this.
    bound: u64,
}

impl Want {
    /// Where the next entry goes. What is there now is not what was looked for.
    fn behind(&self) -> Place {
        Place { offset: self.end, index: self.entries, items: Some(self.items) }
    }
}

/// What a queue can be given.
enum Next {
    Want(Want),
    Nothing,
    /// Only entries that were put off are left. The next search begins with them.
    PutOff,
}

/// What a read gave.
enum Outcome {
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
struct Lost {
    first: u32,
    /// Behind them.
    next: Place,
    /// Of all of them, where that is known.
    items: Option<u64>,
    /// Of the file.
    bytes: u64,
}

/// Entries that were read at once.
#[derive(Debug)]
struct Run {
    buffer: Vec<u8>,
    entries: Vec<Read>,
    /// Behind the last of them.
    next: Place,
}

#[derive(Debug)]
struct Read {
    entry: Entry,
    payload: Range<usize>,
    sound: bool,
}

pub(super) fn take(
    journal: &Journal,
    queue: QueueId,
    order: Order,
    max_bytes: usize,
    pay: &mut dyn FnMut(usize) -> bool,
) -> Result<Chunk, ReadError> {
    let mut failure = None;
    let (mut max_bytes, mut order) = (max_bytes, order);
    loop {
        let next = next(&mut journal.index(), queue, order);
        let want = match (next, failure.take()) {
            (Next::Want(want), earlier) => {
                failure = earlier;
                want
            }
            (Next::Nothing, _) => return Ok(journal.report_unread(queue, Chunk::default())),
            (Next::PutOff, Some(error)) => return Err(error),
            (Next::PutOff, None) => continue,
        };
        let taking = Taking { journal, queue, want };
        let outcome = match taking.read(max_bytes) {
            Outcome::TooLarge(bytes) if pay(bytes) => {
                max_bytes = bytes;
                taking.read(max_bytes)
            }
            outcome => outcome,
        };
        match outcome {
            Outcome::Run(run) => {
                let chunk = taking.enter(run);
                if !chunk.entries.is_empty() {
                    return Ok(journal.report_unread(queue, chunk));
                }
            }
            Outcome::TooLarge(bytes) => {
                let chunk = Chunk { too_large: Some(bytes), ..Chunk::default() };
                return Ok(journal.report_unread(queue, chunk));
            }
            // How much is lost is known of a stretch as a whole, to whoever comes to it from before.
            Outcome::Lost(_) if order == Order::Newest => order = Order::Oldest,
            Outcome::Lost(lost) => taking.lose(&lost),
            Outcome::Unreadable { next, error } => {
                failure = Some(Spot { segment: want.segment, offset: want.place.offset }.failed(error));
                taking.put_off(next);
                order = Order::Oldest;
            }
            Outcome::Gone => taking.lose_segment(),
        }
    }
}

/// A segment, and a run of entries in it.
type Untaken = (u64, (u32, u32));

/// Finds the first untaken entry.
fn next(index: &mut Index, id: QueueId, order: Order) -> Next {
    let Some(queue) = index.queues.get_mut(usize::from(id.0)).filter(|queue| queue.untaken() > 0) else {
        return Next::Nothing;
    };
    if order == Order::Newest
        && let Some((segment, number)) = queue.newest_untried()
    {
        return want(index, segment, (number, number.saturating_add(1)), None);
    }
    let untried = || queue.untaken_from(queue.cursor).map(|run| (run, false));
    let put_off = || queue.untaken_from(queue.again).map(|run| (run, true));
    let is_before_cursor = |((segment, (first, _)), _): &(Untaken, bool)| (*segment, *first) < queue.cursor;
    let run = match order {
        Order::PutOff => put_off().filter(is_before_cursor).or_else(untried),
        Order::Oldest | Order::Newest => untried(),
    };
    let run = run.or_else(put_off);
    let Some(((number, (first, last)), was_put_off)) = run else {
        queue.again = (0, 0);
        return Next::PutOff;
    };
    let cursor = if was_put_off { &mut queue.again } else { &mut queue.cursor };
    *cursor = (number, first);
    let hint = queue.hint.filter(|(segment, hint)| *segment == number && hint.index <= first).map(|(_, hint)| hint);
    want(index, number, (first, last), hint)
}

/// What is to be read for a run of entries. `hint` is where a frame begins, before the first of them.
fn want(index: &Index, number: u64, (first, last): (u32, u32), hint: Option<Place>) -> Next {
    let Some(segment) = index.segments.get(&number) else { return Next::Nothing };
    let mark = segment.place(first);
    let place = hint.filter(|hint| hint.index >= mark.index).unwrap_or(mark);
    let counted = if place.items.is_some() { place } else { mark };
    let bound = segment.mark_behind(last).map_or(segment.end, |mark| u64::from(mark.offset));
    let Segment { seal, end, entries, items, durable_end, .. } = *segment;
    Next::Want(Want { segment: number, seal, end, entries, items, durable_end, first, last, place, counted, bound })
}

/// One step of taking.
struct Taking<'a> {
    journal: &'a Journal,
    queue: QueueId,
    want: Want,
}

impl Taking<'_> {
    fn read(&self, max_bytes: usize) -> Outcome {
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

impl Taking<'_> {
    /// Hands out what was read, as far as it is still untaken.
    fn enter(&self, run: Run) -> Chunk {
        let mut index = self.journal.index();
        let mut entries = Vec::with_capacity(run.entries.len());
        for Read { entry, payload, sound } in run.entries {
            let number = entry.position.index;
            if !sound {
                let place = (u64::from(entry.position.offset), payload.len() as u64);
                self.give_up(&mut index, number..number + 1, Loss::of(&entry), place, DamageReport::UNSOUND);
            } else if index.take(self.queue, &entry) {
                entries.push((entry, payload));
            }
        }
        self.advance(&mut index, run.next);
        Chunk { buffer: run.buffer, entries, ..Chunk::default() }
    }

    /// Goes on behind the entries that were dealt with, unless something before them was handed back meanwhile.
    fn advance(&self, index: &mut Index, next: Place) {
        let Some(queue) = index.get_mut(self.queue) else { return };
        let (segment, first) = (self.want.segment, self.want.first);
        for cursor in [&mut queue.cursor, &mut queue.again] {
            if *cursor == (segment, first) {
                *cursor = (segment, next.index);
                queue.hint = Some((segment, next));
            }
        }
    }

    fn put_off(&self, next: Place) {
        self.advance(&mut self.journal.index(), next);
    }

    fn lose(&self, lost: &Lost) {
        let mut index = self.journal.index();
        let entries = u64::from(lost.next.index.saturating_sub(lost.first).max(1));
        let untaken = self.untaken(&index);
        let bytes = untaken.bytes / untaken.entries.max(1) * entries;
        let items = lost.items.unwrap_or(untaken.items / untaken.entries.max(1) * entries);
        let place = (self.want.place.offset, lost.bytes);
        let range = self.want.first..lost.next.index;
        self.give_up(&mut index, range, Loss { entries, items, bytes }, place, "no valid frame; skipped");
        self.advance(&mut index, lost.next);
    }

    /// What the queue is owed of the segment and nobody has taken.
    fn untaken(&self, index: &Index) -> Loss {
        let ledger = index.get(self.queue).and_then(|queue| queue.ledgers.get(&self.want.segment));
        ledger.map(Ledger::untaken).unwrap_or_default()
    }

    fn lose_segment(&self) {
        let mut index = self.journal.index();
        let untaken = self.untaken(&index);
        let what = DamageReport::GONE;
        // Who has taken an entry will see for themselves, and account for it.
        self.give_up(&mut index, 0..u32::MAX, untaken, (0, 0), what);
    }

    /// Completes untaken entries that cannot be read and never will be. Each has its share of what is damaged together.
    fn give_up(&self, index: &mut Index, range: Range<u32>, damaged: Loss, place: (u64, u64), what: &str) {
        let Some(ledger) = index.get(self.queue).and_then(|queue| queue.ledgers.get(&self.want.segment)) else {
            return;
        };
        let untaken = |number: &u32| !ledger.is_taken(*number);
        let numbers: Vec<u32> =
            ledger.owed_from(range.start).take_while(|number| *number < range.end).filter(untaken).collect();
        let (mut lost, mut new) = (Loss::default(), Loss::default());
        for (share, number) in (0..).zip(numbers) {
            let loss = index.settle(self.queue, self.want.segment, number, damaged.of_each(share)).unwrap_or_default();
            lost.add(loss);
            if index.is_new_damage(self.want.segment, number) {
                new.add(loss);
            }
        }
        if new.entries > 0 {
            self.discover(index, new, place, what);
        }
        if let Some(queue) = index.get_mut(self.queue) {
            queue.unreported.add(lost);
        }
    }

    fn discover(&self, index: &mut Index, new: Loss, (offset, bytes): (u64, u64), what: &str) {
        let segment = self.want.segment;
        let (entries, items) = (Some(new.entries), Some(new.items));
        // Of a file that is gone, the payloads are what is known.
        let bytes = if bytes == 0 { new.bytes } else { bytes };
        let (file, what) = (FileKind::Segment.name(segment), what.to_owned());
        index.discover(DamageReport { file, segment, offset, bytes, places: 1, entries, items, what });
    }
}

impl Journal {
    /// Adds to a chunk what was lost on the way to it.
    fn report_unread(&self, queue: QueueId, chunk: Chunk) -> Chunk {
        let damaged = self.index().get_mut(queue).map(|queue| std::mem::take(&mut queue.unreported));
        Chunk { damaged: damaged.unwrap_or_default(), ..chunk }
    }
}
