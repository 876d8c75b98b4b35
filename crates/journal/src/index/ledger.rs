//! What one queue is owed of one segment.

use std::collections::BTreeMap;

use crate::bits::Bits;
use crate::model::{Entry, Loss};

/// The most entries of one run. Whoever takes them gets a list of them that is not paid for.
const MAX_RUN: u32 = 1 << 10;

/// Entries by their number in the segment. The sums are exact as long as each entry is settled for what it was entered
/// for. Where that is not known any more, the last entry settled gets what is left.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    owed: Bits,
    /// Those of `owed` that somebody has taken.
    taken: Bits,
    /// For the entries of `owed` that are delivered in parts, the items that need no more delivery. `total` is without
    /// them.
    completed_items: BTreeMap<u32, u64>,
    total: Loss,
    untaken: u64,
}

impl Ledger {
    pub(crate) fn total(&self) -> Loss {
        self.total
    }

    pub(crate) fn untaken(&self) -> u64 {
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
            self.untaken += u64::from(!taken);
            if taken {
                self.taken.insert(index);
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
        Some(items)
    }

    /// Whether the entry was untaken.
    pub(crate) fn take(&mut self, index: u32) -> bool {
        let taken = self.owes(index) && self.taken.insert(index);
        self.untaken -= u64::from(taken);
        taken
    }

    /// Whether the entry was taken.
    pub(crate) fn release(&mut self, index: u32) -> bool {
        let released = self.taken.remove(index);
        self.untaken += u64::from(released);
        released
    }

    /// Removes an entry that counted for about `guess` when it was entered.
    pub(crate) fn settle(&mut self, index: u32, guess: Loss) -> Option<Loss> {
        if !self.owed.remove(index) {
            return None;
        }
        if !self.taken.remove(index) {
            self.untaken -= 1;
        }
        let items = guess.items.saturating_sub(self.completed_items.remove(&index).unwrap_or(0));
        let settled = match self.total.entries {
            1 => self.total,
            _ => Loss { entries: 1, items: items.min(self.total.items), bytes: guess.bytes.min(self.total.bytes) },
        };
        self.total.entries -= settled.entries;
        self.total.items -= settled.items;
        self.total.bytes -= settled.bytes;
        Some(settled)
    }

    /// What its entries counted for when they were entered.
    pub(crate) fn entered(&self) -> Loss {
        Loss { items: self.total.items + self.completed_items.values().sum::<u64>(), ..self.total }
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
}
