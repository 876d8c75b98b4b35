//! The journal's one writer: group commit, limits of the backlogs, and tidying up.
//!
//! It runs on a thread of its own, because every step waits for the disk. While one group is being written the next
//! one gathers, so a slow disk makes larger groups, not longer queues.

mod draft;
mod sampling;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use weir_journal::{AppendError, Durability, NewEntry, QueueId, Space, Turnover};
use weir_legible::{Seldom, names};
use weir_plan::PipelineId;

use super::open::log_damage;
use super::{Busy, Clock, Job, ORPHANS_WAIT, REWRITE_AGAIN, StoreStats, TRY_AGAIN};
use crate::account::Account;
use crate::accounts::Accounts;
use crate::books::DropReason;
use crate::budget::Budget;
use crate::obligation::Deposit;
use crate::settings::Fsync;
use draft::{Draft, draft};
use sampling::{Looks, Sampling};

/// The most bytes that are written together, so that nobody waits long for others. A larger entry is written alone.
const GROUP_BYTES: usize = 32 << 20;
/// Requests written together at most.
const REQUESTS_PER_GROUP: usize = 1024;
/// How often completions are written down, empty segments are deleted, and old data is looked for. Data delivered since
/// the last time is delivered again after a kill.
const TIDY_EVERY: Duration = Duration::from_millis(100);
/// Time between two reports of what was damaged on the disk when it was read: it may be all that there is.
const REPORT_EVERY: Duration = Duration::from_secs(30);
/// Time after which the disk is asked again what it has room for, for figures.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A tenth of the disk is left free, or this much if that is less.
const FREE_BYTES: u64 = 2 << 30;
/// The most segments that are given up for one group when the disk is full.
const EVICTIONS: usize = 4;

/// What the writer is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) accounts: Arc<Accounts>,
    pub(super) journal: Arc<weir_journal::Journal>,
    pub(super) stats: Arc<StoreStats>,
    pub(super) clock: Clock,
    pub(super) fsync: Fsync,
    /// Pays for what is read.
    pub(super) budget: Budget,
}

/// See the module.
pub(crate) struct Writer {
    journal: weir_journal::Writer,
    jobs: mpsc::UnboundedReceiver<Job>,
    parts: Parts,
    /// Written since the last sync (`fsync: interval`).
    unsynced: bool,
    failure_reported: Seldom,
    too_large_reported: Seldom,
    untidiness_reported: Seldom,
    /// When the log was last told of damage.
    damage_reported: Option<Instant>,
    /// When the disk was last asked what it has room for, for figures.
    room_noted: Instant,
    /// As the log was last told.
    turnover: Turnover,
    looks: Looks,
}

impl Writer {
    pub(super) fn new(journal: weir_journal::Writer, jobs: mpsc::UnboundedReceiver<Job>, parts: Parts) -> Self {
        let writer = Self {
            journal,
            jobs,
            parts,
            unsynced: false,
            failure_reported: Seldom::default(),
            too_large_reported: Seldom::default(),
            untidiness_reported: Seldom::default(),
            damage_reported: None,
            room_noted: Instant::now(),
            turnover: Turnover::default(),
            looks: Looks::default(),
        };
        writer.note_room();
        writer
    }

    /// Runs until it is told to close, or every [`super::Store`] is gone.
    pub(crate) async fn run(mut self) {
        let mut inbox = Vec::with_capacity(REQUESTS_PER_GROUP);
        let mut tidy = tokio::time::interval_at(Instant::now() + TIDY_EVERY, TIDY_EVERY);
        tidy.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let interval = if let Fsync::Interval(every) = self.parts.fsync { every } else { TIDY_EVERY };
        let mut sync = tokio::time::interval(interval);
        sync.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = tidy.tick() => {
                    let _busy = self.begin();
                    self.tidy();
                }
                _ = sync.tick() => {
                    let _busy = self.begin();
                    self.sync();
                }
                _ = self.jobs.recv_many(&mut inbox, REQUESTS_PER_GROUP) => {
                    let closes = inbox.is_empty() || inbox.iter().any(|job| matches!(job, Job::Close));
                    self.commit(inbox.drain(..).flat_map(Job::deposits));
                    if closes {
                        break;
                    }
                }
            }
        }
        self.jobs.close();
        while let Ok(late) = self.jobs.try_recv() {
            late.deposits().for_each(|deposit| deposit.obligation.withdraw());
        }
        self.report_damage();
        if let Err(error) = self.journal.finish() {
            tracing::warn!(
                %error,
                advice = crate::store::LOOK_AT_THE_DISK,
                "cannot close the journal in good order; the next start finds it as after a kill"
            );
        }
    }

    fn begin(&self) -> Busy {
        Busy::begin(&self.parts.stats, self.parts.clock)
    }

    /// Writes down for figures what the disk has room for: those who read them do not wait for the disk.
    fn note_room(&self) {
        let room = |space: Space| space.free.saturating_sub(left_free(space));
        self.parts.stats.note_room(self.journal.space().ok().map(room));
    }

    /// Puts pieces on disk and tells their obligations.
    fn commit(&mut self, deposits: impl Iterator<Item = Deposit>) {
        // Data that is written again is not new data: other rules hold for it, and it has groups of its own.
        let (again, new) = draft(deposits).into_iter().partition(Draft::is_rewritten);
        self.commit_drafts(new);
        self.commit_drafts(again);
    }

    fn commit_drafts(&mut self, mut drafts: Vec<Draft>) {
        while !drafts.is_empty() {
            let mut bytes = 0;
            let mut fits = |draft: &Draft| {
                bytes += draft.bytes;
                bytes <= GROUP_BYTES
            };
            let count = drafts.iter().take_while(|draft| fits(draft)).count().max(1);
            let rest = drafts.split_off(count);
            let busy = self.begin();
            self.commit_group(&drafts);
            drop(busy);
            drafts = rest;
        }
    }

    fn commit_group(&mut self, drafts: &[Draft]) {
        let bytes: usize = drafts.iter().map(|draft| draft.bytes).sum();
        let is_new = !drafts.iter().any(Draft::is_rewritten);
        if !self.make_space(bytes as u64, is_new) {
            if is_new {
                self.failed("the disk is nearly full, and some space is always left free", drafts);
            } else {
                // It stays where it is, which costs clients nothing.
                self.parts.stats.rewrites_again_ms.store(self.soon(REWRITE_AGAIN), Ordering::Relaxed);
            }
            return drafts.iter().for_each(Draft::withdraw);
        }
        let entries: Vec<NewEntry<'_>> = drafts.iter().map(Draft::entry).collect();
        let now_ms = self.parts.clock.now_ms();
        let began = Instant::now();
        match self.journal.append(&entries, now_ms, self.durability(is_new)) {
            Ok(written) => {
                let stats = &self.parts.stats;
                stats.commits.observe(began.elapsed());
                stats.spilled_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                stats.tries_again_ms.store(0, Ordering::Relaxed);
                self.unsynced = true;
                drafts.iter().zip(written).for_each(|(draft, entry)| draft.secure(entry));
                self.enforce_limits(drafts);
            }
            // This is no fault of the disk, and the entry is alone in its group.
            Err(error @ AppendError::TooLarge { .. }) => {
                if let Some(left_out) = self.too_large_reported.due(Instant::now()) {
                    tracing::error!(
                        pipelines = pipelines_of(drafts),
                        bytes,
                        %error,
                        left_out,
                        advice = "let the client send smaller requests",
                        "cannot write a request to the journal; its client is asked to send it again"
                    );
                }
                drafts.iter().for_each(Draft::withdraw);
            }
            Err(error) => {
                self.failed(&error.to_string(), drafts);
                drafts.iter().for_each(Draft::withdraw);
            }
        }
    }

    /// Data that is written again must be as safe as it is where it is now, before that may go.
    fn durability(&self, is_new: bool) -> Durability {
        if is_new { self.parts.fsync.durability() } else { Durability::Synced }
    }

    fn failed(&mut self, cause: &str, drafts: &[Draft]) {
        let stats = &self.parts.stats;
        stats.failures.fetch_add(1, Ordering::Relaxed);
        stats.tries_again_ms.store(self.soon(TRY_AGAIN), Ordering::Relaxed);
        if let Some(left_out) = self.failure_reported.due(Instant::now()) {
            let pipelines = (!drafts.is_empty()).then(|| pipelines_of(drafts));
            let bytes: usize = drafts.iter().map(|draft| draft.bytes).sum();
            tracing::error!(
                pipelines,
                cause,
                entries = drafts.len(),
                bytes,
                left_out,
                advice = crate::store::LOOK_AT_THE_DISK,
                "cannot write to the journal; clients whose data no backend takes are asked to send it again"
            );
        }
    }

    /// This much later, in milliseconds after the start.
    fn soon(&self, wait: Duration) -> u64 {
        u64::try_from((self.parts.clock.started.elapsed() + wait).as_millis()).unwrap_or(u64::MAX)
    }

    fn sync(&mut self) {
        if self.unsynced && matches!(self.parts.fsync, Fsync::Interval(_)) {
            self.unsynced = false;
            let began = Instant::now();
            if let Err(error) = self.journal.sync() {
                let cause = format!("cannot sync: {error}; what was written last may not survive a power loss");
                return self.failed(&cause, &[]);
            }
            self.parts.stats.syncs.observe(began.elapsed());
        }
    }

    fn tidy(&mut self) {
        if self.damage_reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            self.report_damage();
        }
        self.expire();
        if let Err(error) = self.journal.tidy() {
            self.parts.stats.tidy_failures.fetch_add(1, Ordering::Relaxed);
            if let Some(left_out) = self.untidiness_reported.due(Instant::now()) {
                tracing::warn!(
                    %error,
                    left_out,
                    advice = crate::store::LOOK_AT_THE_DISK,
                    "cannot write down in the journal what was delivered, or delete what is done with; it is tried \
                     again, and a start before that succeeds delivers the data again"
                );
            }
        }
        if self.room_noted.elapsed() >= LOOK_EVERY {
            self.room_noted = Instant::now();
            self.note_room();
        }
        self.say_turnover();
    }

    /// Logs which files came and went since the last time.
    fn say_turnover(&mut self) {
        let now = self.journal.turnover();
        let before = std::mem::replace(&mut self.turnover, now);
        if now != before {
            tracing::debug!(
                made = now.made - before.made,
                removed = now.removed - before.removed,
                segments = self.parts.journal.stats().segments,
                "segments of the journal were made or removed"
            );
        }
    }

    /// Logs what was found damaged since the last time. The journal keeps only so many places apart.
    fn report_damage(&mut self) {
        let damage = self.parts.journal.discovered_damage();
        if !damage.is_empty() {
            log_damage(&damage);
            self.damage_reported = Some(Instant::now());
        }
    }

    /// Gives up what is older than its pipeline allows.
    fn expire(&self) {
        let now_ms = self.parts.clock.now_ms();
        for account in self.parts.accounts.all() {
            let Some(queue) = &account.queue else { continue };
            let max_age_ms = u64::try_from(queue.limits().max_age.as_millis()).unwrap_or(u64::MAX);
            let not_before_ms = now_ms.saturating_sub(max_age_ms);
            if queue.backlog().oldest_ms.is_some_and(|oldest| oldest < not_before_ms) {
                self.evict_backlog(&account, u64::MAX, not_before_ms, DropReason::BacklogAge);
            }
        }
        self.give_up_orphans();
    }

    fn evict_backlog(&self, account: &Arc<Account>, max_bytes: u64, not_before_ms: u64, reason: DropReason) {
        let sampling = self.sampling(std::slice::from_ref(account), reason);
        account.evict_backlog(max_bytes, not_before_ms, reason);
        sampling.after();
    }

    fn sampling(&self, accounts: &[Arc<Account>], reason: DropReason) -> Sampling<'_> {
        Sampling::before((&self.parts.budget, &self.looks), self.parts.clock.now_ms(), accounts, reason)
    }

    fn give_up_orphans(&self) {
        let Some(time) = self.parts.clock.elapsed().checked_sub(ORPHANS_WAIT) else { return };
        for orphan in self.parts.accounts.orphans() {
            orphan.if_orphan_since(time, || {
                orphan.evict_backlog(0, u64::MAX, DropReason::BacklogAge);
                // Parts of what is given up.
                drop(orphan.take_leftovers());
            });
        }
    }

    /// Keeps every backlog within its limit in bytes, except for what was just `written`: nothing newer needs its
    /// place, and it has been acknowledged. A backlog that refuses instead of dropping may exceed its limit by what was
    /// written together with the last data that there was room for.
    fn enforce_limits(&self, written: &[Draft]) {
        for account in self.parts.accounts.all().iter().filter(|account| account.may_drop_oldest()) {
            let Some(queue) = &account.queue else { continue };
            let max_bytes = queue.limits().max_bytes;
            if queue.backlog().bytes > max_bytes {
                let new = written.iter().filter(|draft| draft.owes(queue.id)).map(|draft| draft.bytes as u64).sum();
                self.evict_backlog(account, max_bytes.max(new), 0, DropReason::BacklogFull);
            }
        }
    }

    /// Leaves some space free on the disk. If need be, the oldest segment goes for which every debtor may lose its
    /// oldest data. False when there is not enough space all the same: then the clients keep their data. Nothing is
    /// lost for data that is not new.
    fn make_space(&mut self, bytes: u64, is_new: bool) -> bool {
        let mut free = None;
        for _ in 0..EVICTIONS {
            // If the disk does not say, writing will show.
            let Ok(space) = self.journal.space() else { return true };
            let needed = bytes + left_free(space);
            if space.free >= needed {
                return true;
            }
            // Data is not given up in vain: not when others fill the disk, and not when it shares its files with data
            // that stays.
            let hopeless = space.free + self.parts.journal.stats().disk_bytes < needed;
            if !is_new || hopeless || free.is_some_and(|before| space.free <= before) || !self.evict_segment() {
                return false;
            }
            free = Some(space.free);
            self.tidy();
        }
        false
    }

    /// Whether there was a segment that could go.
    fn evict_segment(&self) -> bool {
        let accounts = self.parts.accounts.all();
        let with_queue = accounts.iter().filter_map(|account| Some((account.queue.as_ref()?.id, account)));
        let owners: BTreeMap<_, _> = with_queue.collect();
        let may_lose = |id: QueueId| owners.get(&id).is_some_and(|account| account.may_drop_oldest());
        let losing: Vec<_> = accounts.iter().filter(|account| account.may_drop_oldest()).cloned().collect();
        let sampling = self.sampling(&losing, DropReason::DiskFull);
        let losses = self.parts.journal.evict_segment(&may_lose);
        sampling.after();
        for (id, loss) in &losses {
            let Some(account) = owners.get(id) else { continue };
            account.lost(loss.items, DropReason::DiskFull);
        }
        !losses.is_empty()
    }
}

/// What data does not take of a disk.
fn left_free(space: Space) -> u64 {
    FREE_BYTES.min(space.total / 10)
}

/// Who is owed any of them, for the log.
fn pipelines_of(drafts: &[Draft]) -> String {
    let pipelines: BTreeSet<&PipelineId> = drafts.iter().flat_map(Draft::pipelines).collect();
    names(pipelines)
}

impl Job {
    fn deposits(self) -> impl Iterator<Item = Deposit> {
        let deposits = if let Self::Put(deposits) = self { deposits } else { Vec::new() };
        deposits.into_iter()
    }
}
