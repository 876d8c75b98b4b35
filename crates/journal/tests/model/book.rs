//! What the journal should know: plain lists, and the rules of what may be missing or come back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use weir_journal::{Backlog, Entry, Loss};

/// What was promised for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Safety {
    /// The append failed, or has not returned.
    Refused,
    /// A kill leaves it.
    Written,
    /// As written, but a sync failed since.
    Doubtful,
    /// Power loss leaves it.
    Synced,
}

/// What a queue has to do with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Debt {
    Open {
        taken: bool,
        /// Items that it has got.
        completed: u64,
    },
    /// Completed, or refused; `noted`: before a tidy that returned, or cut off. Only power loss brings that back.
    Done { noted: bool },
}

pub(crate) struct Item {
    pub(crate) payload: Vec<u8>,
    pub(crate) items: u32,
    pub(crate) written_ms: u64,
    /// Which process appended it.
    pub(crate) process: u32,
    pub(crate) safety: Safety,
    pub(crate) debts: BTreeMap<usize, Debt>,
    /// Queues that completed it once. When it came back after power loss, that may be remembered again after another: a
    /// record of which the disk lost some zeros at the end is whole again when the file grows.
    pub(crate) completed: BTreeSet<usize>,
    /// In this life.
    pub(crate) entry: Option<Entry>,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {:?}, {:?}, {:?}", self.payload.len(), self.safety, self.debts, self.entry)
    }
}

/// What became of the bytes of a refused group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// They are gone.
    Durably,
    /// The disk may have them yet.
    Written,
    /// They may be there: cutting failed, or the process died first.
    Failed,
}

/// How lives ended: the worst of several deaths counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Death {
    Kill,
    PowerLoss,
}

/// Everything that was ever appended, in order.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) all: Vec<Item>,
}

impl Item {
    /// What it counts for.
    pub(crate) fn loss(&self, queue: usize) -> Loss {
        let completed = if let Some(Debt::Open { completed, .. }) = self.debts.get(&queue) { *completed } else { 0 };
        Loss { entries: 1, items: u64::from(self.items) - completed, bytes: self.payload.len() as u64 }
    }

    pub(crate) fn is_open(&self, queue: usize) -> bool {
        matches!(self.debts.get(&queue), Some(Debt::Open { .. }))
    }

    /// The queue has got it, or gives it up.
    pub(crate) fn complete(&mut self, queue: usize) {
        self.debts.insert(queue, Debt::Done { noted: false });
        self.completed.insert(queue);
    }

    /// Nobody is owed it; it may be found as far as it was not cut off.
    pub(crate) fn refuse(&mut self, cut: Cut) {
        match cut {
            Cut::Durably => self.debts.clear(),
            Cut::Written | Cut::Failed => {
                let done = Debt::Done { noted: cut == Cut::Written };
                self.debts.values_mut().for_each(|debt| *debt = done);
            }
        }
    }

    pub(crate) fn set_taken(&mut self, queue: usize, now: bool) {
        if let Some(Debt::Open { taken, .. }) = self.debts.get_mut(&queue) {
            *taken = now;
        }
    }

    /// The queue did not find it.
    pub(crate) fn forget(&mut self, queue: usize, faults: bool) {
        // What a failing disk refused may come back any time.
        if faults && self.safety == Safety::Refused {
            return;
        }
        if self.completed.contains(&queue) || matches!(self.debts.get(&queue), Some(Debt::Done { .. })) {
            // Power loss can still bring it back: completions are not synced.
            self.debts.insert(queue, Debt::Done { noted: true });
        } else {
            self.debts.remove(&queue);
        }
    }

    /// Whether the queue must find it after such a death.
    pub(crate) fn must_survive(&self, queue: usize, death: Death) -> bool {
        let safe = match death {
            Death::Kill => self.safety != Safety::Refused,
            Death::PowerLoss => self.safety == Safety::Synced && !self.completed.contains(&queue),
        };
        safe && self.is_open(queue)
    }

    /// Whether the queue may find it after such a death.
    pub(crate) fn may_be_found(&self, queue: usize, death: Death) -> bool {
        match self.debts.get(&queue) {
            Some(Debt::Open { .. } | Debt::Done { noted: false }) => true,
            Some(Debt::Done { noted: true }) => death == Death::PowerLoss,
            None => false,
        }
    }
}

impl Book {
    /// Entries that the queue is owed, oldest first.
    pub(crate) fn open(&self, queue: usize) -> impl Iterator<Item = (usize, &Item)> {
        self.all.iter().enumerate().filter(move |(_, item)| item.is_open(queue))
    }

    pub(crate) fn untaken(&self, queue: usize) -> Vec<usize> {
        let is_untaken = |item: &Item| matches!(item.debts[&queue], Debt::Open { taken: false, .. });
        self.open(queue).filter(|(_, item)| is_untaken(item)).map(|(number, _)| number).collect()
    }

    pub(crate) fn backlog(&self, queue: usize) -> Backlog {
        let mut backlog = Backlog { untaken_entries: self.untaken(queue).len() as u64, ..Backlog::default() };
        for (_, item) in self.open(queue) {
            backlog.entries += 1;
            backlog.items += item.loss(queue).items;
            backlog.bytes += item.payload.len() as u64;
            backlog.oldest_ms = backlog.oldest_ms.or(Some(item.written_ms));
        }
        backlog
    }

    /// Gives up the oldest, as documented.
    pub(crate) fn evict(&mut self, queue: usize, max_bytes: u64, not_before_ms: u64) -> Loss {
        let mut bytes = self.backlog(queue).bytes;
        let mut loss = Loss::default();
        for item in &mut self.all {
            if !item.is_open(queue) {
                continue;
            }
            if bytes <= max_bytes && item.written_ms >= not_before_ms {
                break;
            }
            let Loss { entries, items, bytes: gone } = item.loss(queue);
            bytes -= gone;
            loss = Loss { entries: loss.entries + entries, items: loss.items + items, bytes: loss.bytes + gone };
            item.complete(queue);
        }
        loss
    }

    /// Completions so far are written down.
    pub(crate) fn note(&mut self) {
        // What was refused is not known to the journal, so it writes nothing down about it.
        let known = self.all.iter_mut().filter(|item| item.safety != Safety::Refused);
        for debt in known.flat_map(|item| item.debts.values_mut()) {
            if let Debt::Done { noted } = debt {
                *noted = true;
            }
        }
    }

    /// What was written is synced from now on, or in doubt for ever.
    pub(crate) fn sync(&mut self, safety: Safety) {
        for item in &mut self.all {
            if item.safety == Safety::Written {
                item.safety = safety;
            }
        }
    }

    /// The number of the item with this payload, which begins with it.
    pub(crate) fn find(&self, payload: &[u8]) -> usize {
        let number = payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).unwrap_or(u64::MAX);
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let item = self.all.get(number).unwrap_or_else(|| panic!("{payload:?} was never appended"));
        assert_eq!(payload, item.payload, "JOURNAL-2");
        number
    }
}
