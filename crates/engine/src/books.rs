//! Promise P4 (ENGINE-1): the books of one pipeline, exact at any moment.
//!
//! `accepted + recovered = delivered + filtered + dropped{reason} + rejected{code} + pending` holds after every entry,
//! because each entry is made under one lock. Items whose client has not been answered yet are `waiting`: neither
//! accepted nor pending. The books know counts of items only, never payloads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use weir_legible::{Seldom, Warnings};
use weir_plan::PipelineId;

use crate::losses::Losses;

/// The code under which items are counted that a backend rejected from a request that it took.
pub(crate) const PARTIAL_SUCCESS: &str = "partial_success";

/// How a pipeline was finished with items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The backend took them.
    Delivered,
    /// The backend took them, except for some that it rejected for good (OTLP partial success).
    DeliveredBut {
        /// How many it rejected, at most all.
        rejected: u64,
        /// In the backend's words.
        cause: String,
    },
    /// Weir gave them up.
    Dropped(DropReason),
    /// The backend refused them for good.
    Rejected {
        /// `INVALID_ARGUMENT`, `400`, `partial_success`, ...
        code: String,
        /// In the backend's words.
        cause: String,
    },
}

/// Why Weir gave items up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DropReason {
    /// The pipeline's share of the memory was full and newer data took the place of its oldest.
    MemoryFull,
    /// The process, or the pipeline, ended before the backend took them.
    Shutdown,
    /// The pipeline's backlog was at its limit in bytes and newer data took the place of its oldest.
    BacklogFull,
    /// They had waited in the backlog for longer than the pipeline allows.
    BacklogAge,
    /// The disk had no space left and newer data took their place.
    DiskFull,
    /// The journal did not give back what was written.
    JournalDamaged,
}

impl DropReason {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::MemoryFull => "memory_full",
            Self::Shutdown => "shutdown",
            Self::BacklogFull => "backlog_full",
            Self::BacklogAge => "backlog_age",
            Self::DiskFull => "disk_full",
            Self::JournalDamaged => "journal_damaged",
        }
    }

    /// What the log says.
    pub(crate) fn explanation(self) -> &'static str {
        match self {
            Self::MemoryFull => "the pipeline's share of the memory is full of what its backend does not take",
            Self::Shutdown => "it was held in memory, and its pipeline ended before the backend took it",
            Self::BacklogFull => "the backlog is larger than weir.dev/backlog-max-bytes allows",
            Self::BacklogAge => {
                "it waited for longer than weir.dev/backlog-max-age allows, or for a day without its pipeline"
            }
            Self::DiskFull => "it does not fit on the disk",
            Self::JournalDamaged => "the journal is damaged, the disk did not give back what was written",
        }
    }

    /// What can be done so that it does not happen again.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::MemoryFull => "mend the backend, give weir more --memory, or name a directory with --data-dir",
            Self::Shutdown => "name a directory with --data-dir, or give weir a longer --drain-timeout",
            Self::BacklogFull | Self::BacklogAge => "mend the backend, or raise what the annotation allows",
            Self::DiskFull => "mend the backend, or give --data-dir more room",
            Self::JournalDamaged => crate::store::LOOK_AT_THE_DISK,
        }
    }
}

/// A consistent copy of the books. All figures are items since the start, except `waiting` and `pending`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BookFigures {
    /// Taken over: the client was, or is about to be, told OK.
    pub accepted: u64,
    /// Accepted by an earlier process and found in the journal at the start.
    pub recovered: u64,
    /// Taken by the backend.
    pub delivered: u64,
    /// Removed on the user's request, by reason: `filter`, `istio_noise`, `temporality`.
    pub filtered: BTreeMap<&'static str, u64>,
    /// Given up, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Refused by the backend for good, by its code.
    pub rejected: BTreeMap<String, u64>,
    /// Accepted and not finished.
    pub pending: u64,
    /// Here, but the client has not been answered.
    pub waiting: u64,
    /// Was here, and the client was told to send it again.
    pub withdrawn: u64,
    /// Entries that did not add up: bugs of this program.
    pub mismatches: u64,
}

impl BookFigures {
    /// Whether the equation of P4 holds and no entry was amiss.
    pub fn balanced(&self) -> bool {
        self.mismatches == 0 && self.adds_up()
    }

    /// What came in and is in none of the others; with less, what is too much in them. 0 unless there is a bug.
    pub fn difference(&self) -> i64 {
        let (came, is_here) = (self.accepted + self.recovered, self.finished() + self.pending);
        i64::try_from(came.abs_diff(is_here)).map_or(i64::MAX, |by| if came < is_here { -by } else { by })
    }

    fn adds_up(&self) -> bool {
        self.difference() == 0
    }

    fn finished(&self) -> u64 {
        self.delivered
            + self.filtered.values().sum::<u64>()
            + self.dropped.values().sum::<u64>()
            + self.rejected.values().sum::<u64>()
    }
}

/// The books of one pipeline.
#[derive(Debug)]
pub(crate) struct Books {
    pipeline: PipelineId,
    figures: Mutex<BookFigures>,
    mismatch_reported: Mutex<Seldom>,
    losses: Losses,
}

impl Books {
    /// Of a pipeline. `warnings` count what the log says of all pipelines.
    pub(crate) fn new(pipeline: &PipelineId, warnings: Arc<Warnings>) -> Self {
        Self {
            pipeline: pipeline.clone(),
            figures: Mutex::default(),
            mismatch_reported: Mutex::default(),
            losses: Losses::new(pipeline.clone(), warnings),
        }
    }

    /// For the log.
    pub(crate) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Items that an earlier process accepted were found in the journal.
    pub(crate) fn recover(&self, items: u64) {
        let mut figures = self.lock();
        figures.recovered += items;
        figures.pending += items;
    }

    /// Only the number of these items was found, which an earlier process accepted.
    pub(crate) fn recover_damaged(&self, items: u64) {
        if items > 0 {
            let mut figures = self.lock();
            figures.recovered += items;
            self.enter(figures, items, &Fate::Dropped(DropReason::JournalDamaged));
        }
    }

    /// Items entered the pipeline with their client unanswered.
    pub(crate) fn arrive(&self, items: u64) {
        self.lock().waiting += items;
    }

    /// Items of an accepted request were removed on the user's request.
    pub(crate) fn filter(&self, reason: &'static str, items: u64) {
        let mut figures = self.lock();
        figures.accepted += items;
        *figures.filtered.entry(reason).or_default() += items;
    }

    /// Waiting items became ours to keep.
    pub(crate) fn keep(&self, items: u64) {
        let mut figures = self.lock();
        self.leave_waiting(&mut figures, items);
        figures.accepted += items;
        figures.pending += items;
    }

    /// Waiting items were given back to the client.
    pub(crate) fn withdraw(&self, items: u64) {
        let mut figures = self.lock();
        self.leave_waiting(&mut figures, items);
        figures.withdrawn += items;
    }

    /// Waiting items were finished before the client was answered.
    pub(crate) fn finish_waiting(&self, items: u64, fate: &Fate) {
        let mut figures = self.lock();
        self.leave_waiting(&mut figures, items);
        figures.accepted += items;
        self.enter(figures, items, fate);
    }

    /// Items that had been withdrawn while they were on the wire arrived all the same.
    pub(crate) fn finish_withdrawn(&self, items: u64, fate: &Fate) {
        let mut figures = self.lock();
        figures.accepted += items;
        self.enter(figures, items, fate);
    }

    /// Items that had been withdrawn while they were being written are on disk all the same, and will be delivered.
    pub(crate) fn keep_withdrawn(&self, items: u64) {
        let mut figures = self.lock();
        figures.accepted += items;
        figures.pending += items;
    }

    /// Kept items were finished.
    pub(crate) fn finish_kept(&self, items: u64, fate: &Fate) {
        let mut figures = self.lock();
        match figures.pending.checked_sub(items) {
            Some(rest) => figures.pending = rest,
            None => self.mismatch(&mut figures, "more items finished than were pending"),
        }
        self.enter(figures, items, fate);
    }

    /// An obligation vanished without a fate: a bug.
    pub(crate) fn lose_track(&self, what: &str) {
        self.mismatch(&mut self.lock(), what);
    }

    /// A consistent copy; checks the equation and logs when it does not hold.
    pub(crate) fn figures(&self) -> BookFigures {
        let mut figures = self.lock();
        if !figures.adds_up() {
            self.mismatch(&mut figures, "accepted and recovered are not the sum of their parts");
        }
        figures.clone()
    }

    /// The end of some items, in the books and, if they are lost, in the log.
    fn enter(&self, mut figures: MutexGuard<'_, BookFigures>, items: u64, fate: &Fate) {
        figures.enter(items, fate);
        drop(figures);
        self.losses.note(items, fate);
    }

    fn leave_waiting(&self, figures: &mut BookFigures, items: u64) {
        match figures.waiting.checked_sub(items) {
            Some(rest) => figures.waiting = rest,
            None => self.mismatch(figures, "more items left than were waiting"),
        }
    }

    fn mismatch(&self, figures: &mut BookFigures, what: &str) {
        figures.mismatches += 1;
        let due = self.mismatch_reported.lock().unwrap_or_else(PoisonError::into_inner).due(Instant::now());
        if let Some(left_out) = due {
            let (pipeline, books) = (&self.pipeline, &*figures);
            tracing::error!(
                %pipeline,
                what,
                left_out,
                ?books,
                advice = "report it with this line and the log before it",
                "books do not balance: this is a bug in weir"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, BookFigures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BookFigures {
    fn enter(&mut self, items: u64, fate: &Fate) {
        match fate {
            Fate::Delivered => self.delivered += items,
            Fate::DeliveredBut { rejected, .. } => {
                self.delivered += items.saturating_sub(*rejected);
                self.reject(items.min(*rejected), PARTIAL_SUCCESS);
            }
            Fate::Dropped(reason) => *self.dropped.entry(reason.as_str()).or_default() += items,
            Fate::Rejected { code, .. } => self.reject(items, code),
        }
    }

    fn reject(&mut self, items: u64, code: &str) {
        match self.rejected.get_mut(code) {
            Some(count) => *count += items,
            None => {
                self.rejected.insert(code.to_owned(), items);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_plan::Signal;

    use super::*;

    #[test]
    fn every_way_through_the_books_balances() {
        let books = Books::new(&PipelineId::new(Signal::Traces, "shop"), Arc::default());
        books.arrive(100);
        books.keep(40);
        books.withdraw(10);
        books.finish_waiting(50, &Fate::Delivered);
        books.finish_kept(15, &Fate::Dropped(DropReason::MemoryFull));
        books.finish_kept(5, &Fate::Rejected { code: "INVALID_ARGUMENT".into(), cause: String::new() });
        books.finish_withdrawn(10, &Fate::DeliveredBut { rejected: 3, cause: "three are bad".into() });
        books.recover(7);
        books.recover_damaged(2);
        books.finish_kept(7, &Fate::Dropped(DropReason::BacklogAge));
        let figures = books.figures();
        assert!(figures.balanced(), "{figures:?}");
        assert_eq!((figures.accepted, figures.delivered, figures.pending), (100, 57, 20));
        assert_eq!((figures.waiting, figures.withdrawn), (0, 10));
        assert_eq!(figures.rejected["partial_success"], 3);
    }

    #[test]
    fn an_entry_that_does_not_add_up_is_counted() {
        let books = Books::new(&PipelineId::new(Signal::Traces, "shop"), Arc::default());
        books.arrive(1);
        books.keep(2);
        assert!(!books.figures().balanced());
    }
}
