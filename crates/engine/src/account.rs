//! One pipeline's account: its books, its share of the memory, and its queue in the journal.
//!
//! Requests, delivery and the journal's writer all look at a pipeline through this. It moves no data itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;
use weir_journal::{Backlog, Entry, Journal, QueueId};
use weir_legible::Warnings;
use weir_plan::{Overflow, PipelineId};

use crate::before_books::EarlyLosses;
use crate::books::{Books, DropReason, Fate};
use crate::clock::unix_nanos;
use crate::obligation::Leftover;
use crate::request_size::RequestSize;
use crate::samples::Samples;
use crate::share::Share;
use crate::taps::{Followed, RecoveredItems, Way};

/// From this fullness of the backlog on, clients are slowed down as much as they ever are.
const FULL_PRESSURE: f64 = 0.5;

/// What the parts of the engine share of one pipeline.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) id: PipelineId,
    pub(crate) books: Books,
    /// What would have come into the books, and was lost before.
    pub(crate) before_books: EarlyLosses,
    pub(crate) share: Share,
    /// `None` when data is held in memory only.
    pub(crate) queue: Option<JournalQueue>,
    /// Told when the queue may have something to take, and when a read of it is over.
    pub(crate) queue_filled: Notify,
    /// Bytes on their way into the queue: they count for its limit as if they were there.
    depositing: AtomicU64,
    /// How long delivery takes lately, from arrival to the backend's answer, in milliseconds.
    delivery_ms: AtomicU64,
    /// The largest request that the backend takes, as far as is known. Without a pipeline nothing limits it.
    pub(crate) request_size: RequestSize,
    /// Bytes of requests whose client was answered OK, as they are before the rules.
    pub(crate) accepted_bytes: AtomicU64,
    /// Bytes of requests that the backend took, before compression.
    pub(crate) delivered_bytes: AtomicU64,
    /// Counts lines of the log about all pipelines.
    warnings: Arc<Warnings>,
    /// Samples of what was given up.
    pub(crate) given_up: Samples,
    /// Entries of the queue in which somebody has seen an item.
    pub(crate) followed: Followed,
    /// A few items of what was in the queue when the process began.
    pub(crate) recovered: RecoveredItems,
    /// Parts of entries that a pipeline left behind.
    leftovers: Mutex<Vec<Leftover>>,
    /// Since when it has no pipeline: process time, see [`Account::orphan`].
    orphaned_at: Mutex<Option<Duration>>,
}

/// A pipeline's queue in the journal.
#[derive(Debug)]
pub(crate) struct JournalQueue {
    pub(crate) journal: Arc<Journal>,
    pub(crate) id: QueueId,
    limits: Mutex<weir_plan::Backlog>,
}

/// The limits of an orphan. Its own limits went with its configuration, so only the writer or a full disk gives up its
/// data.
const ORPHANS_LIMITS: weir_plan::Backlog =
    weir_plan::Backlog { max_bytes: u64::MAX, max_age: Duration::MAX, overflow: Overflow::DropOldest };

/// Room that is reserved in a backlog; given back with the value.
#[derive(Debug)]
pub(crate) struct BacklogRoom<'a> {
    account: &'a Account,
    bytes: u64,
}

impl Drop for BacklogRoom<'_> {
    fn drop(&mut self) {
        self.account.depositing.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl JournalQueue {
    pub(crate) fn new(journal: Arc<Journal>, id: QueueId, limits: weir_plan::Backlog) -> Self {
        Self { journal, id, limits: Mutex::new(limits) }
    }

    /// The queue of a pipeline that is not configured.
    pub(crate) fn of_orphan(journal: Arc<Journal>, id: QueueId) -> Self {
        Self::new(journal, id, ORPHANS_LIMITS)
    }

    /// What it may hold.
    pub(crate) fn limits(&self) -> weir_plan::Backlog {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_limits(&self, limits: weir_plan::Backlog) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// What the pipeline is owed on disk.
    pub(crate) fn backlog(&self) -> Backlog {
        self.journal.backlog(self.id)
    }

    /// How much of the limit in bytes is taken: 0 is empty, 1 is full.
    fn fullness(&self) -> f64 {
        self.backlog().bytes as f64 / self.limits().max_bytes.max(1) as f64
    }
}

impl Account {
    /// `warnings` are those of all pipelines: see [`Accounts::open`](crate::accounts::Accounts::open).
    pub(crate) fn new(id: PipelineId, share: Share, queue: Option<JournalQueue>, warnings: Arc<Warnings>) -> Self {
        let (books, queue_filled) = (Books::new(&id, Arc::clone(&warnings)), Notify::new());
        Self {
            id,
            books,
            before_books: EarlyLosses::default(),
            share,
            queue,
            queue_filled,
            depositing: AtomicU64::new(0),
            delivery_ms: AtomicU64::new(0),
            request_size: RequestSize::new(usize::MAX),
            accepted_bytes: AtomicU64::new(0),
            delivered_bytes: AtomicU64::new(0),
            warnings,
            given_up: Samples::default(),
            followed: Followed::default(),
            recovered: RecoveredItems::default(),
            leftovers: Mutex::default(),
            orphaned_at: Mutex::default(),
        }
    }

    /// Whether the log takes one more line for this reason: many pipelines may have it, for they may have one backend.
    /// The line says how many of the pipeline's own were left out before it.
    pub(crate) fn may_say(&self, reason: &'static str, left_out: u64) -> bool {
        self.warnings.may_say_with(reason, left_out, Instant::now())
    }

    /// The pipeline is not configured any more, from `at` on (time since the start of the process).
    pub(crate) fn orphan(&self, at: Duration) {
        *self.orphaned_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        // The room is that of pipelines.
        self.given_up.fit(0);
        self.recovered.fit(0);
        if let Some(queue) = &self.queue {
            queue.set_limits(ORPHANS_LIMITS);
        }
    }

    /// The pipeline is configured, with these limits.
    pub(crate) fn adopt(&self, share: usize, backlog: weir_plan::Backlog) {
        let orphaned_at = self.orphaned_at.lock().unwrap_or_else(PoisonError::into_inner).take();
        if orphaned_at.is_some() {
            // A backend that was not offered anything has not failed to take it.
            self.share.progressed();
        }
        self.share.set_limit(share);
        if let Some(queue) = &self.queue {
            queue.set_limits(backlog);
        }
    }

    /// Does this if the account has been without a pipeline since before `time`. A pipeline that returns at that moment
    /// finds it done.
    pub(crate) fn if_orphan_since(&self, time: Duration, work: impl FnOnce()) {
        let orphaned_at = self.orphaned_at.lock().unwrap_or_else(PoisonError::into_inner);
        if orphaned_at.is_some_and(|at| at <= time) {
            work();
        }
    }

    /// When it lost its pipeline; `None` while it has one.
    pub(crate) fn orphaned_at(&self) -> Option<Duration> {
        *self.orphaned_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the pipeline take `entry` out of its queue.
    pub(crate) fn release(&self, entry: &Entry) {
        if let Some(queue) = &self.queue {
            queue.journal.release(queue.id, entry);
            self.queue_filled.notify_one();
        }
    }

    /// The same, but everything else in the queue comes first.
    pub(crate) fn put_off(&self, entry: &Entry) {
        if let Some(queue) = &self.queue {
            queue.journal.put_off(queue.id, entry);
        }
    }

    /// The oldest of the backlog is next, what was put off included.
    pub(crate) fn begin_again(&self) {
        if let Some(queue) = &self.queue {
            queue.journal.begin_again(queue.id);
        }
    }

    /// A part of an entry is for whoever takes over.
    pub(crate) fn leave_behind(&self, leftover: Leftover) {
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner).push(leftover);
        self.queue_filled.notify_one();
    }

    /// What pipelines left behind.
    pub(crate) fn take_leftovers(&self) -> Vec<Leftover> {
        std::mem::take(&mut *self.leftovers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the pipeline is owed on disk.
    pub(crate) fn backlog(&self) -> Backlog {
        self.queue.as_ref().map(JournalQueue::backlog).unwrap_or_default()
    }

    /// Age of the oldest data in the backlog.
    pub(crate) fn backlog_age(&self, now_ms: u64) -> Duration {
        self.backlog().oldest_ms.map_or(Duration::ZERO, |oldest| Duration::from_millis(now_ms.saturating_sub(oldest)))
    }

    /// Whether waiting for the pipeline is hardly of use: it has older data, and new data would take it longer than
    /// `spill_after`.
    pub(crate) fn is_behind(&self, spill_after: Duration) -> bool {
        let Some(queue) = &self.queue else { return self.share.is_behind() };
        let backlog = queue.backlog();
        let is_slow = || Duration::from_millis(self.delivery_ms.load(Ordering::Relaxed)) > spill_after;
        // All of the backlog may be on its way, and may still be refused or left unanswered again and again.
        let is_stuck = || self.share.without_progress() > spill_after;
        // A backend that takes everything in time leaves nothing behind, even if some of it was written to the journal.
        backlog.untaken_entries > 0 || (backlog.entries > 0 && (is_slow() || is_stuck()))
    }

    /// A batch was delivered this long after it arrived.
    pub(crate) fn delivered_after(&self, took: Duration) {
        let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX / 8);
        // Only the pipeline's own task writes it.
        let mean = self.delivery_ms.load(Ordering::Relaxed);
        self.delivery_ms.store((mean * 7 + took) / 8, Ordering::Relaxed);
    }

    /// There is another backend: nothing is known of what it takes, and how fast.
    pub(crate) fn has_another_backend(&self) {
        self.request_size.forget();
        self.delivery_ms.store(0, Ordering::Relaxed);
        self.share.progressed();
    }

    /// Little is held, or on disk: the pipeline could do with more.
    pub(crate) fn is_well(&self) -> bool {
        self.share.is_well() && self.queue.as_ref().is_none_or(|queue| queue.fullness() <= 1.0 / 8.0)
    }

    /// How much clients should be slowed down for this pipeline's sake: 0 not at all, 1 as far as it goes.
    pub(crate) fn pressure(&self) -> f64 {
        self.queue.as_ref().map_or(1.0, |queue| (queue.fullness() / FULL_PRESSURE).min(1.0))
    }

    /// Reserves room in the backlog for `bytes`, so that nobody else counts on it at the same time. Without `anyway`,
    /// there is no room that would cost the pipeline other data. An empty backlog has room for any request: one that is
    /// larger than the limit would be refused for ever.
    pub(crate) fn room_for(&self, bytes: usize, anyway: bool) -> Option<BacklogRoom<'_>> {
        let (bytes, queue) = (bytes as u64, self.queue.as_ref()?);
        let fits = |depositing: u64| {
            let taken = queue.backlog().bytes + depositing;
            let room = anyway || taken == 0 || taken + bytes <= queue.limits().max_bytes;
            room.then_some(depositing + bytes)
        };
        let taken = self.depositing.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok();
        taken.then(|| BacklogRoom { account: self, bytes })
    }

    /// Bytes are on their way into the queue, until [`Account::deposited`].
    pub(crate) fn depositing(&self, bytes: usize) {
        self.depositing.fetch_add(bytes as u64, Ordering::AcqRel);
    }

    /// They are there, or will never be.
    pub(crate) fn deposited(&self, bytes: usize) {
        self.depositing.fetch_sub(bytes as u64, Ordering::AcqRel);
    }

    /// Whether the user allows the oldest data to be given up for new data.
    pub(crate) fn may_drop_oldest(&self) -> bool {
        self.queue.as_ref().is_none_or(|queue| queue.limits().overflow == Overflow::DropOldest)
    }

    /// Gives up the oldest of the backlog until it holds at most `max_bytes` and nothing from before `not_before_ms`;
    /// returns the items given up.
    pub(crate) fn evict_backlog(&self, max_bytes: u64, not_before_ms: u64, reason: DropReason) -> u64 {
        let Some(queue) = &self.queue else { return 0 };
        let loss = queue.journal.evict(queue.id, max_bytes, not_before_ms);
        self.lost(loss.items, reason);
        loss.items
    }

    /// Keeps a sample of what was given up in memory, once a second for each reason.
    pub(crate) fn sample_held(&self, reason: DropReason, items: u64, body: &[u8]) {
        let now_ms = unix_nanos() / 1_000_000;
        if self.given_up.is_due(reason.as_str(), now_ms / 1000) {
            self.given_up.push(now_ms, (reason.as_str(), reason.explanation()), items, body);
        }
    }

    /// An entry was read to be sent. If it was there when the process began, a few of its items may be kept.
    pub(crate) fn was_read(&self, entry: &Entry, request: &Bytes) {
        let Some(queue) = self.queue.as_ref().filter(|queue| queue.journal.is_recovered(entry)) else { return };
        let Some(mark) = self.recovered.keep(&self.id, entry, request) else { return };
        self.followed.keep(*entry, &mark);
        // It may have been given up before that.
        if !queue.journal.is_owed(queue.id, entry) {
            self.followed.tell(entry, Way::Dropped);
        }
    }

    /// Items of the backlog were given up.
    pub(crate) fn lost(&self, items: u64, reason: DropReason) {
        if items > 0 {
            self.books.finish_kept(items, &Fate::Dropped(reason));
            let is_owed = |queue: &JournalQueue, entry: &Entry| queue.journal.is_owed(queue.id, entry);
            self.followed.given_up(|entry| self.queue.as_ref().is_some_and(|queue| is_owed(queue, entry)));
        }
    }
}
