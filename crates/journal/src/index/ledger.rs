//! What one queue is owed of one segment.

use std::collections::BTreeMap;

use crate::bits::Bits;
use crate::model::{Entry, Loss};

/// The most entries of one run. Whoever takes them gets a list of them that is not paid for.
const MAX_RUN: u32 = 1 << 10;

/// Entries by their number in the segment. The sums are exact as long as each entry is taken, handed back and settled
/// for what it was entered for. Where that is not known any more, the last of the entries that are untaken gets what is
/// left of these, so that those who have taken the others account for all of them.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    owed: Bits,
    /// Those of `owed` that somebody has taken.
    taken: Bits,
    /// For the entries of `owed` that are delivered in parts, the items that need no more delivery. `total` is without
    /// them.
    completed_items: BTreeMap<u32, u64>,
    total: Loss,
    /// What of it is untaken.
    untaken: Loss,
}

impl Ledger {
    pub(crate) fn total(&self) -> Loss {
        self.total
    }

    pub(crate) fn untaken(&self) -> Loss {
        self.untaken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.total.entries == 0
    }

    pub(crate) fn owes(&self, index: u32) -> bool {
        self.owed.contains(index)
    }

    pub(crate) fn is_taken(&self, index: u32) -> bool {
        self.taken.contains(index)
    }

    /// Whether the entry is new.
    pub(crate) fn enter(&mut self, index: u32, entry: &Entry, taken: bool) -> bool {
        let new = self.owed.insert(index);
        if new {
            self.total.add(Loss::of(entry));
            if taken {
                self.taken.insert(index);
            } else {
                self.untaken.add(Loss::of(entry));
            }
        }
        new
    }

    /// Some items of an entry are not owed any more. Returns by how many the total falls; `None` when the entry is not
    /// owed.
    pub(crate) fn complete_items(&mut self, index: u32, items: u64) -> Option<u64> {
        if !self.owes(index) {
            return None;
        }
        let items = items.min(self.total.items);
        *self.completed_items.entry(index).or_default() += items;
        self.total.items -= items;
        if !self.is_taken(index) {
            self.untaken.items = self.untaken.items.saturating_sub(items);
        }
        Some(items)
    }

    /// Whether the entry was untaken.
    pub(crate) fn take(&mut self, index: u32, entry: Loss) -> bool {
        let taken = self.owes(index) && self.taken.insert(index);
        if taken {
            let entry = self.without_completed(index, entry);
            self.untaken.subtract(self.untaken.part(entry));
        }
        taken
    }

    /// Whether the entry was taken.
    pub(crate) fn release(&mut self, index: u32, entry: Loss) -> bool {
        let released = self.taken.contains(index);
        if released {
            let entry = self.without_completed(index, entry);
            self.untaken.add(self.taken_total().part(entry));
            self.taken.remove(index);
        }
        released
    }

    /// Removes an entry that counted for about `guess` when it was entered.
    pub(crate) fn settle(&mut self, index: u32, guess: Loss) -> Option<Loss> {
        if !self.owed.remove(index) {
            return None;
        }
        let guess = self.without_completed(index, guess);
        self.completed_items.remove(&index);
        let settled = if self.taken.remove(index) {
            self.taken_total().part(guess)
        } else {
            let settled = self.untaken.part(guess);
            self.untaken.subtract(settled);
            settled
        };
        self.total.subtract(settled);
        Some(settled)
    }

    /// What of it is taken.
    fn taken_total(&self) -> Loss {
        let mut taken = self.total;
        taken.subtract(self.untaken);
        taken
    }

    fn without_completed(&self, index: u32, entry: Loss) -> Loss {
        let completed = self.completed_items.get(&index).copied().unwrap_or(0);
        Loss { items: entry.items.saturating_sub(completed), ..entry }
    }

    /// What is owed, from `index` on.
    pub(crate) fn owed_from(&self, index: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.owed.next(index), |last| self.owed.next(last.checked_add(1)?))
    }

    /// The first untaken entry from `index` on, and the end of the run of untaken entries that it begins.
    pub(crate) fn untaken_run(&self, index: u32) -> Option<(u32, u32)> {
        let first = self.owed.next_except(index, &self.taken)?;
        Some((first, self.owed.run_end_except(first, first.saturating_add(MAX_RUN), &self.taken)))
    }

    /// The last untaken entry before `index`.
    pub(crate) fn last_untaken(&self, index: u32) -> Option<u32> {
        self.owed.last_except(index, &self.taken)
    }
}
