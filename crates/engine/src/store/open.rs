//! Opening the journal: what was found there, in the log, in the books and among the accounts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_journal::{DamageReport, Fs, Journal, Options, Recovery};
use weir_plan::{PipelineId, Signal};

use crate::account::{Account, JournalQueue};
use crate::accounts::Accounts;
use crate::clock::Clock;
use crate::share::Share;

/// The size of a segment file. It is small enough that a shrinking backlog soon gives its space back, and large enough
/// that the largest backlogs are some hundred files.
const SEGMENT_BYTES: u64 = 32 << 20;
/// On a small disk a segment is this part of the disk, so that giving up one segment is not giving up everything.
const SEGMENTS_PER_DISK: u64 = 64;
/// But not less than this.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// Damaged places that are logged one by one.
const LOGGED_PLACES: usize = 20;

/// What opening the journal took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recovered {
    pub(crate) took: Duration,
    pub(crate) truncated_bytes: u64,
}

/// A journal that was opened, before there are pipelines.
pub(crate) struct Opened {
    pub(crate) journal: Arc<Journal>,
    pub(super) recovery: Recovery,
    pub(super) took: Duration,
    pub(super) writer: weir_journal::Writer,
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

/// Accounts of pipelines that are owed something, or have lost something, and are not configured.
pub(super) fn find_orphans(journal: &Arc<Journal>, recovery: &Recovery, accounts: &Accounts) {
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
                advice = "create the pipeline again under this name if the data is wanted",
                "the journal holds data for a pipeline that is not configured; it is kept until this process has run for \
                 a day, in case the pipeline returns"
            );
        }
        let queue = JournalQueue::of_orphan(Arc::clone(journal), id);
        accounts.open(pipeline, Share::new(0, Instant::now()), Some(queue)).orphan(Duration::ZERO);
    }
}

/// Takes the backlog into the books.
pub(super) fn enter_recovered(recovery: &Recovery, accounts: &[Arc<Account>]) {
    for account in accounts {
        let Some(queue) = &account.queue else { continue };
        let backlog = recovery.queues.iter().find(|(id, ..)| *id == queue.id).map(|(.., backlog)| backlog.items);
        let lost = recovery.lost.iter().find(|(id, _)| *id == queue.id).map(|(_, loss)| loss.items);
        if backlog.is_some_and(|items| items > 0) {
            account.recovered.are_there();
        }
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
            advice = "after a crash nothing has to be done; otherwise look at the disk",
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
pub(super) fn log_damage(damage: &[DamageReport]) {
    for report in damage.iter().take(LOGGED_PLACES) {
        tracing::error!(
            advice = "look at the disk; `weir journal verify` shows all of it",
            "the journal is damaged: {report}"
        );
    }
    let rest = || damage.iter().skip(LOGGED_PLACES);
    let left_out: u64 = rest().map(|report| report.places).sum();
    if left_out > 0 {
        let items: u64 = rest().filter_map(|report| report.items).sum();
        tracing::error!(
            left_out,
            items,
            advice = "look at the disk; `weir journal verify` lists them",
            "the journal is damaged in more places"
        );
    }
}
