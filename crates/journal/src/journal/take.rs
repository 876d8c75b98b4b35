//! Taking the next entries of a queue with as few reads as possible.
//!
//! A run of consecutive untaken entries is read at once. Its beginning is usually known, because the run before it
//! ended there. Otherwise the heads from the nearest known place on lead to it.

mod next;
mod read;

use std::ops::Range;

use super::{Journal, Spot};
use crate::ReadError;
use crate::format::FileKind;
use crate::index::{Index, Ledger};
use crate::model::{DamageReport, Loss, Order, QueueId, Taken};
use crate::walk::Place;
use next::{Next, Want, next};
use read::{Lost, Outcome, Read, Run};

pub(super) fn take(
    journal: &Journal,
    queue: QueueId,
    order: Order,
    max_bytes: usize,
    pay: &mut dyn FnMut(usize) -> bool,
) -> Result<Taken, ReadError> {
    let mut failure = None;
    let (mut max_bytes, mut order) = (max_bytes, order);
    loop {
        let next = next(&mut journal.index(), queue, order);
        let want = match (next, failure.take()) {
            (Next::Want(want), earlier) => {
                failure = earlier;
                want
            }
            (Next::Nothing, _) => return Ok(journal.report_unread(queue, Taken::default())),
            (Next::PutOff, Some(error)) => return Err(error),
            (Next::PutOff, None) => continue,
        };
        let taking = Taking { journal, queue, want };
        match taking.read_paid(&mut max_bytes, pay) {
            Outcome::Run(run) => {
                let taken = taking.enter(run);
                if !taken.entries.is_empty() {
                    return Ok(journal.report_unread(queue, taken));
                }
            }
            Outcome::TooLarge(bytes) => {
                let nothing = Taken { too_large: Some(bytes), ..Taken::default() };
                return Ok(journal.report_unread(queue, nothing));
            }
            // How much is lost is known of a stretch as a whole, to whoever comes to it from before.
            Outcome::Lost(_) if order == Order::Newest => order = Order::Oldest,
            Outcome::Lost(lost) => taking.lose(&lost),
            Outcome::Unreadable { next, error } => {
                failure = Some(Spot { segment: want.segment, offset: want.place.offset }.failed(error));
                taking.pass_over(next);
                order = Order::Oldest;
            }
            Outcome::Gone => taking.lose_segment(),
        }
    }
}

/// One step of taking.
struct Taking<'a> {
    journal: &'a Journal,
    queue: QueueId,
    want: Want,
}

impl Taking<'_> {
    /// Reads the run, or a first entry that is larger than `max_bytes`, if that is paid for.
    fn read_paid(&self, max_bytes: &mut usize, pay: &mut dyn FnMut(usize) -> bool) -> Outcome {
        match self.read(*max_bytes) {
            Outcome::TooLarge(bytes) if pay(bytes) => {
                *max_bytes = bytes;
                self.read(bytes)
            }
            outcome => outcome,
        }
    }

    /// Hands out what was read, as far as it is still untaken.
    fn enter(&self, run: Run) -> Taken {
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
        Taken { buffer: run.buffer, entries, ..Taken::default() }
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

    /// Goes on behind what cannot be read now. The queue is still owed it.
    fn pass_over(&self, next: Place) {
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
    /// Adds to what was taken what was lost on the way to it.
    fn report_unread(&self, queue: QueueId, taken: Taken) -> Taken {
        let damaged = self.index().get_mut(queue).map(|queue| std::mem::take(&mut queue.unreported));
        Taken { damaged: damaged.unwrap_or_default(), ..taken }
    }
}
