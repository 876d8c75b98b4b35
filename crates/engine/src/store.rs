//! Promise P1 on disk: the engine's side of the journal.
//!
//! Requests hand their pieces to a [`Store`]; its one writer (`store/writer.rs`) puts everything that waits on disk
//! together, with one write and one fsync, and tells each obligation what became of it. Reading back is done by the
//! pipelines themselves, by way of `store/reads.rs`. What the journal has at the start is in `store/open.rs`.

mod open;
mod reads;
mod writer;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_journal::{Durability, Journal};
use weir_legible::{Seldom, names};
use weir_plan::PipelineId;

use crate::accounts::Accounts;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::histogram::Histogram;
use crate::obligation::Deposit;
use crate::settings::Fsync;
pub(crate) use open::Opened;
use open::{Recovered, enter_recovered, find_orphans};
pub(crate) use reads::{Io, Reads};
pub(crate) use writer::Writer;

/// What to do when the disk fails or does not answer, for the log.
pub const LOOK_AT_THE_DISK: &str = "look at the disk of --data-dir, and at the kernel's log";

/// What waits for a pipeline that is not configured is given up when this process has run for this long without the
/// pipeline.
pub(crate) const ORPHANS_WAIT: Duration = Duration::from_secs(24 * 3600);

/// After a failure the disk is tried again after this long. Until then clients wait for delivery alone.
const TRY_AGAIN: Duration = Duration::from_millis(250);
/// When there was no space on the disk to write something again, the next attempt is this much later.
const REWRITE_AGAIN: Duration = Duration::from_secs(10);

/// After a failure, the disk counts for the health check as not working for this much longer, if nothing is written
/// meanwhile.
const FAILURE_COUNTS: Duration = Duration::from_secs(10);

/// A disk that has not done one thing in this time hangs. Even a slow disk writes the largest group in less.
const HANGS_AFTER: Duration = Duration::from_secs(2);

/// What the journal's writer counts.
#[derive(Debug, Default)]
pub(crate) struct StoreStats {
    /// Payload bytes written.
    pub(crate) spilled_bytes: AtomicU64,
    /// Payload bytes read back.
    pub(crate) read_back_bytes: AtomicU64,
    /// Groups that could not be written.
    pub(crate) failures: AtomicU64,
    /// Times that completions could not be written down, or files not be deleted.
    pub(crate) tidy_failures: AtomicU64,
    /// Time from the first byte of a group to its fsync; if the fsync comes later, to the last byte.
    pub(crate) commits: Histogram,
    /// Time of an fsync between groups (`fsync: interval`).
    pub(crate) syncs: Histogram,
    /// When the disk may be tried again, in milliseconds after the start; 0 while it works.
    tries_again_ms: AtomicU64,
    /// When there may be space to write again what is on disk already, in milliseconds after the start.
    rewrites_again_ms: AtomicU64,
    /// When the writer began its present work, in milliseconds after the start, plus one; 0 while it waits for work.
    began_ms: AtomicU64,
    /// Bytes that were handed to the writer and are not on disk.
    inside: AtomicUsize,
    /// What the disk had room for when it was last asked; `None` if it did not say.
    room: Mutex<Option<u64>>,
    hang_reported: Mutex<Seldom>,
}

impl StoreStats {
    /// How long the disk has been busy with its present work.
    pub(crate) fn busy(&self, clock: &Clock) -> Duration {
        match self.began_ms.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            began => clock.started.elapsed().saturating_sub(Duration::from_millis(began - 1)),
        }
    }

    /// Bytes for which the disk has room, as of a second ago or less, beside what is always left free.
    pub(crate) fn room(&self) -> Option<u64> {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_room(&self, room: Option<u64>) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = room;
    }
}

/// The disk is at work, until this is dropped.
#[derive(Debug)]
struct Busy {
    stats: Arc<StoreStats>,
    clock: Clock,
}

impl Busy {
    fn begin(stats: &Arc<StoreStats>, clock: Clock) -> Self {
        let now = u64::try_from(clock.started.elapsed().as_millis()).unwrap_or(u64::MAX / 2);
        stats.began_ms.store(now + 1, Ordering::Release);
        Self { stats: Arc::clone(stats), clock }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let took = self.stats.busy(&self.clock);
        self.stats.began_ms.store(0, Ordering::Release);
        if took > HANGS_AFTER {
            tracing::info!(seconds = took.as_secs(), "the disk answers again");
        }
    }
}

/// Bytes of one request that the writer has. It may take a long time until it lets them go.
#[derive(Debug)]
pub(crate) struct Inside {
    stats: Arc<StoreStats>,
    bytes: usize,
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.stats.inside.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// The way to the journal. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) journal: Arc<Journal>,
    pub(crate) stats: Arc<StoreStats>,
    pub(crate) reads: Arc<Reads>,
    pub(crate) clock: Clock,
    pub(crate) recovered: Recovered,
    inbox: mpsc::UnboundedSender<Job>,
}

/// What the writer can be told.
#[derive(Debug)]
enum Job {
    /// Put these pieces of one request on disk.
    Put(Vec<Deposit>),
    /// Write down what is known, and end.
    Close,
}

impl Store {
    /// The store of these pipelines, and its writer, which its owner runs. Queues that belong to none of the pipelines
    /// are added to the accounts. `budget` pays for samples of what the writer gives up while they are made.
    pub(crate) fn new(
        opened: Opened,
        accounts: Arc<Accounts>,
        (io, fsync): (Io, Fsync),
        clock: Clock,
        budget: &Budget,
    ) -> (Self, Writer) {
        let Opened { journal, recovery, took, writer } = opened;
        let recovered = Recovered { took, truncated_bytes: recovery.truncated_bytes };
        find_orphans(&journal, &recovery, &accounts);
        enter_recovered(&recovery, &accounts.all());
        let stats = Arc::<StoreStats>::default();
        let (inbox, jobs) = mpsc::unbounded_channel();
        let parts = writer::Parts {
            accounts,
            journal: Arc::clone(&journal),
            stats: Arc::clone(&stats),
            clock,
            fsync,
            budget: budget.clone(),
        };
        let writer = Writer::new(writer, jobs, parts);
        (Self { journal, stats, reads: Reads::new(io), clock, recovered, inbox }, writer)
    }

    /// Puts pieces on disk. Each obligation is told the result by
    /// [`Obligation::secure`](crate::obligation::Obligation::secure) or `withdraw`.
    pub(crate) fn put(&self, mut deposits: Vec<Deposit>) {
        let bytes = distinct_bytes(&deposits);
        self.stats.inside.fetch_add(bytes, Ordering::AcqRel);
        let inside = Arc::new(Inside { stats: Arc::clone(&self.stats), bytes });
        deposits.iter_mut().for_each(|deposit| deposit.inside = Some(Arc::clone(&inside)));
        if let Err(lost) = self.inbox.send(Job::Put(deposits))
            && let Job::Put(deposits) = lost.0
        {
            // The writer is gone, which only happens at the end of a shutdown: the clients must keep the data.
            deposits.iter().for_each(|deposit| deposit.obligation.withdraw());
        }
    }

    /// Ends the writer once it has done what it was told so far.
    pub(crate) fn close(&self) {
        // One that has ended by itself was reported.
        let _ = self.inbox.send(Job::Close);
    }

    /// Whether the disk took what it was given last, or may be tried again.
    pub(crate) fn is_working(&self) -> bool {
        if self.hangs() {
            return false;
        }
        let tries_again = self.stats.tries_again_ms.load(Ordering::Relaxed);
        tries_again == 0 || self.clock.started.elapsed() >= Duration::from_millis(tries_again)
    }

    /// Whether what is on disk already may be written there again.
    pub(crate) fn may_rewrite(&self) -> bool {
        let again = Duration::from_millis(self.stats.rewrites_again_ms.load(Ordering::Relaxed));
        self.is_working() && self.clock.started.elapsed() >= again
    }

    /// Whether the disk does not answer.
    pub(crate) fn hangs(&self) -> bool {
        self.stats.busy(&self.clock) > HANGS_AFTER
    }

    /// As if the disk were at work until the value is dropped.
    #[cfg(test)]
    pub(crate) fn at_work(&self) -> impl Send + Sync + use<> {
        Busy::begin(&self.stats, self.clock)
    }

    /// Some client is told so, because these pipelines would have to have its data on disk.
    pub(crate) fn report_hang<'a>(&self, pipelines: impl Iterator<Item = &'a PipelineId>) {
        let mut reported = self.stats.hang_reported.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left_out) = reported.due(Instant::now()) {
            let (seconds, bytes) = (self.stats.busy(&self.clock).as_secs(), self.stats.inside.load(Ordering::Acquire));
            tracing::error!(
                pipelines = names(pipelines),
                seconds,
                bytes,
                left_out,
                advice = LOOK_AT_THE_DISK,
                "the disk does not answer; clients whose data no backend takes are asked to send it again"
            );
        }
    }

    /// Whether the writer may have more, so that data that waits for the disk never takes more than `limit` bytes of
    /// the memory. As long as the disk hangs, the writer keeps what it has.
    pub(crate) fn has_room(&self, limit: usize) -> bool {
        self.stats.inside.load(Ordering::Acquire) < limit
    }

    /// Whether the last attempt to write failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.stats.tries_again_ms.load(Ordering::Relaxed) != 0
    }

    /// Whether the disk failed lately. Nothing is written without a request, so a caller that gets no requests while
    /// this is true must get another chance.
    pub(crate) fn has_failed_lately(&self) -> bool {
        let tries_again = Duration::from_millis(self.stats.tries_again_ms.load(Ordering::Relaxed));
        self.hangs() || (self.has_failed() && self.clock.started.elapsed() < tries_again + FAILURE_COUNTS)
    }
}

/// Bytes of the deposits of one request. Deposits of the same bytes follow each other.
fn distinct_bytes(deposits: &[Deposit]) -> usize {
    let mut last = std::ptr::null();
    let distinct =
        deposits.iter().filter(|deposit| std::mem::replace(&mut last, deposit.body.as_ptr()) != deposit.body.as_ptr());
    distinct.map(|deposit| deposit.body.len()).sum()
}

impl Fsync {
    fn durability(self) -> Durability {
        match self {
            Self::Always => Durability::Synced,
            Self::Interval(_) | Self::Never => Durability::Written,
        }
    }
}
