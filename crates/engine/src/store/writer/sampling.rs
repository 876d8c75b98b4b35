//! Keeps a sample of what a backlog gives up: the first item of the oldest entry, once a second for each reason.
//!
//! The entry is known before it goes, and read once it is gone, while its file is still there. The writer has to get on: with
//! many backlogs that are full, only some of them have a sample in each second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use weir_journal::Entry;

use crate::account::Account;
use crate::books::DropReason;
use crate::budget::{Budget, OVERHEAD_BYTES};

/// Samples that are looked for in one second, of all pipelines together.
const MOST_A_SECOND: usize = 8;

/// No larger entry is read for the sake of a sample.
const LARGEST_ENTRY: u32 = 1 << 20;

/// How many samples were looked for in this second.
#[derive(Debug, Default)]
pub(super) struct Looks {
    second: AtomicU64,
    taken: AtomicUsize,
}

impl Looks {
    fn may_look(&self, second: u64) -> bool {
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.taken.store(0, Ordering::Relaxed);
        }
        self.taken.fetch_add(1, Ordering::Relaxed) < MOST_A_SECOND
    }
}

/// What the oldest entries of some accounts are, before some of them go.
pub(super) struct Sampling<'a> {
    budget: &'a Budget,
    now_ms: u64,
    reason: DropReason,
    oldest: Vec<(Arc<Account>, Entry)>,
}

impl<'a> Sampling<'a> {
    /// Looks at those of which a sample is due for this reason. `budget` pays for what is read.
    pub(super) fn before(
        (budget, looks): (&'a Budget, &Looks),
        now_ms: u64,
        accounts: &[Arc<Account>],
        reason: DropReason,
    ) -> Self {
        let second = now_ms / 1000;
        // In this order: a backlog that is cut back many times a second takes one look of it.
        let is_due = |account: &Account| account.given_up.is_due(reason.as_str(), second) && looks.may_look(second);
        let oldest = |account: &Arc<Account>| {
            let queue = account.queue.as_ref().filter(|queue| queue.backlog().entries > 0 && is_due(account))?;
            // What is delivered from here on until it is given up would be taken for lost. That is a moment.
            let entry = queue.journal.oldest(queue.id).filter(|entry| queue.journal.is_owed(queue.id, entry))?;
            if entry.payload_bytes > LARGEST_ENTRY {
                return None;
            }
            Some((Arc::clone(account), entry))
        };
        Self { budget, now_ms, reason, oldest: accounts.iter().filter_map(oldest).collect() }
    }

    /// Keeps samples of those that are gone.
    pub(super) fn after(self) {
        for (account, entry) in &self.oldest {
            // Without memory, or without the bytes, there is no sample.
            let _ = self.keep(account, entry);
        }
    }

    fn keep(&self, account: &Account, entry: &Entry) -> Option<()> {
        let queue = account.queue.as_ref().filter(|queue| !queue.journal.is_owed(queue.id, entry))?;
        // The entry, and an item of it.
        let _paid = self.budget.try_take(2 * (entry.payload_bytes as usize + OVERHEAD_BYTES))?;
        let body: Bytes = queue.journal.read(entry).ok()?.into();
        let first = weir_otlp::single(account.id.signal, &body).next()?.make();
        let words = (self.reason.as_str(), self.reason.explanation());
        account.given_up.push(self.now_ms, words, entry.items.into(), &first);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_full_backlogs_do_not_keep_the_writer() {
        let looks = Looks::default();
        let looked = |second| (0..1000).filter(|_| looks.may_look(second)).count();
        assert_eq!([7, 8].map(looked), [MOST_A_SECOND; 2]);
    }
}
