//! Promise P1 on disk: the engine's side of the journal.
//!
//! Requests hand their pieces to a [`Store`]; its one writer (`store/writer.rs`) puts everything that waits on disk
//! together, with one write and one fsync, and tells each obligation what became of it. Reading back is done by the
//! pipelines themselves, by way of `store/reads.rs`.

mod reads;
mod writer;

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_journal::{DamageReport, Durability, Fs, Journal, Options, Recovery};
use weir_plan::{PipelineId, Signal};

use crate::account::{Account, JournalQueue};
use crate::accounts::Accounts;
use crate::clock::Clock;
use crate::histogram::Histogram;
use crate::obligation::Deposit;
use crate::seldom::Seldom;
use crate::settings::Fsync;
use crate::share::Share;
pub(crate) use reads::{Io, Reads};
pub(crate) use writer::Writer;

/// The size of a segment file. It is small enough that a shrinking backlog soon gives its space back, and large enough
/// that the largest backlogs are some hundred files.
const SEGMENT_BYTES: u64 = 32 << 20;
/// On a small disk a segment is this part of the disk, so that giving up one segment is not giving up everything.
const SEGMENTS_PER_DISK: u64 = 64;
/// But not less than this.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// What waits for a pipeline that is not configured is given up when this process has run for this long without the
/// pipeline.
pub(crate) const ORPHANS_WAIT: Duration = Duration::from_secs(24 * 3600);

/// After a failure the disk is tried again after this long. Until then clients wait for delivery alone.
const TRY_AGAIN: Duration = Duration::from_millis(250);
/// When there was no space on the disk to write something again, the next attempt is this much later.
const REWRITE_AGAIN: Duration = Duration::from_secs(10);

/// Damaged places that are logged one by one.
const LOGGED_PLACES: usize = 20;

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
            tracing::warn!(seconds = took.as_secs(), "the disk answers again");
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

/// What opening the journal took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recovered {
    pub(crate) took: Duration,
    pub(crate) truncated_bytes: u64,
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

/// A journal that was opened, before there are pipelines.
pub(crate) struct Opened {
    pub(crate) journal: Arc<Journal>,
    recovery: Recovery,
    took: Duration,
    writer: weir_journal::Writer,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("recovery", &self.recovery).finish_non_exhaustive()
    }
}

impl Opened {
    /// Opens the journal and reports what it found there.
    pub(crate) fn open(fs: Arc<dyn Fs>, clock: Clock) -> Result<Self, weir_journal::OpenError> {
        let disk = fs.space().map_or(u64::MAX, |space| space.total);
        let segment_bytes = (disk / SEGMENTS_PER_DISK).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES);
        let options = Options { segment_bytes, seed: fastrand::u64(..) };
        let (writer, journal, recovery) = weir_journal::open(fs, options)?;
        let took = clock.started.elapsed();
        report(&recovery, took);
        Ok(Self { journal, recovery, took, writer })
    }
}

impl Store {
    /// The store of these pipelines, and its writer, which its owner runs. Queues that belong to none of the pipelines
    /// are added to the accounts.
    pub(crate) fn new(opened: Opened, accounts: Arc<Accounts>, io: Io, clock: Clock, fsync: Fsync) -> (Self, Writer) {
        let Opened { journal, recovery, took, writer } = opened;
        let recovered = Recovered { took, truncated_bytes: recovery.truncated_bytes };
        find_orphans(&journal, &recovery, &accounts);
        enter_recovered(&recovery, &accounts.all());
        let stats = Arc::<StoreStats>::default();
        let (inbox, commands) = mpsc::unbounded_channel();
        let parts = writer::Parts { accounts, journal: Arc::clone(&journal), stats: Arc::clone(&stats), clock, fsync };
        let writer = Writer::new(writer, commands, parts);
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

    /// Some client is told so.
    pub(crate) fn report_hang(&self) {
        let mut reported = self.stats.hang_reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.is_due(Instant::now()) {
            let seconds = self.stats.busy(&self.clock).as_secs();
            tracing::error!(
                seconds,
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

/// Accounts of pipelines that are owed something, or have lost something, and are not configured.
fn find_orphans(journal: &Arc<Journal>, recovery: &Recovery, accounts: &Accounts) {
    for (id, name) in journal.queues() {
        let backlog = journal.backlog(id);
        let has_lost = recovery.lost.iter().any(|(queue, _)| *queue == id);
        // Any other kind of queue is from another version of Weir. Nothing of it is sent, so its signal does not
        // matter.
        let pipeline = name.parse().unwrap_or_else(|_| PipelineId::new(Signal::Traces, name.as_str()));
        if (backlog.entries == 0 && !has_lost) || accounts.find(&pipeline).is_some() {
            continue;
        }
        if backlog.entries > 0 {
            let (items, bytes) = (backlog.items, backlog.bytes);
            tracing::warn!(
                queue = name,
                items,
                bytes,
                "the journal holds data for a pipeline that is not configured; it is kept until this process has run for \
                 a day, in case the pipeline returns"
            );
        }
        let queue = JournalQueue::of_orphan(Arc::clone(journal), id);
        let account = Account::new(pipeline, Share::new(0, Instant::now()), Some(queue));
        account.orphan(Duration::ZERO);
        accounts.add(Arc::new(account));
    }
}

/// Takes the backlog into the books.
fn enter_recovered(recovery: &Recovery, accounts: &[Arc<Account>]) {
    for account in accounts {
        let Some(queue) = &account.queue else { continue };
        let backlog = recovery.queues.iter().find(|(id, ..)| *id == queue.id).map(|(.., backlog)| backlog.items);
        let lost = recovery.lost.iter().find(|(id, _)| *id == queue.id).map(|(_, loss)| loss.items);
        account.books.recover(backlog.unwrap_or_default());
        account.books.recover_damaged(lost.unwrap_or_default());
    }
}

fn report(recovery: &Recovery, took: Duration) {
    log_damage(&recovery.damage);
    if !recovery.orphans.is_empty() {
        let files = recovery.orphans.join(", ");
        tracing::info!(files, "removed files of completions whose segments are gone: everything in them was delivered");
    }
    if recovery.truncated_bytes > 0 {
        let bytes = recovery.truncated_bytes;
        tracing::warn!(
            bytes,
            "cut off the end of the journal, which is not whole: a write that was under way when the process or the machine died, or damage that cannot be told from one"
        );
    }
    let entries: u64 = recovery.queues.iter().map(|(.., backlog)| backlog.entries).sum();
    if entries > 0 {
        let items: u64 = recovery.queues.iter().map(|(.., backlog)| backlog.items).sum();
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(entries, items, took_ms, "found data in the journal; delivery goes on");
    }
}

/// Logs where the journal is damaged, how much was lost with it, and what was done about it.
pub(crate) fn log_damage(damage: &[DamageReport]) {
    for report in damage.iter().take(LOGGED_PLACES) {
        tracing::error!("the journal is damaged: {report}");
    }
    let rest = damage.len().saturating_sub(LOGGED_PLACES);
    if rest > 0 {
        tracing::error!(places = rest, "the journal is damaged in more places; `weir journal verify` lists them");
    }
}

impl Fsync {
    fn durability(self) -> Durability {
        match self {
            Self::Always => Durability::Synced,
            Self::Interval(_) | Self::Never => Durability::Written,
        }
    }
}
