//! One world: its disk, backends and clients, and the processes that live in it one after the other.

mod remains;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_plan::Overflow;
use weir_testkit::{Faults, SimFs};

use super::backend::{Mark, Scripted};
use super::clients::{self, Ledger};
use super::forced::Forced;
use super::process::{Disk, Planned, Process, id_of, is_nameless, number_of};
use super::totals::Totals;
use super::{payload, rules};
use crate::books::{BookFigures, PARTIAL_SUCCESS};
use crate::clock::Clock;
use crate::samples::Sample;
use crate::settings::Fsync;

/// Small, so that segments are small and come and go.
const DISK: u64 = 64 << 20;
/// How long it may take, in virtual time, until everything has arrived that backends take; the longest backoff is half
/// a minute.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A read that takes longer than this hangs.
const HANGS_MS: u64 = 2_000;

pub(super) struct World {
    dice: fastrand::Rng,
    /// None: the processes hold data in memory only.
    disk: Option<Disk>,
    pipelines: Vec<Planned>,
    ledger: Arc<Ledger>,
    now_ms: u64,
    /// How many items the present process lost as it may, by pipeline: it gave them up, or was killed while only it had
    /// them.
    given_up: Vec<u64>,
    /// What was acknowledged and is nowhere since some process ended, by pipeline: no more than that gave up.
    gone: Vec<HashSet<u64>>,
    /// What may have gone with the power.
    powerless: HashSet<u64>,
    /// What the books say was delivered, by pipeline.
    delivered: Vec<u64>,
    totals: Totals,
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Kill,
    PowerLoss,
    Shutdown,
    /// A shutdown whose tasks are told to end where they stand.
    Forced,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kills",
            Self::PowerLoss => "power_losses",
            Self::Shutdown => "shutdowns",
            Self::Forced => "forced",
        }
    }
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        let ledger = Arc::<Ledger>::default();
        let disk = (dice.u8(..3) > 0).then(|| disk(&mut dice, &ledger));
        let pipelines: Vec<_> = (0..dice.usize(1..4)).map(|_| planned(&mut dice)).collect();
        let mut totals = Totals::default();
        totals.count("in_memory", u64::from(disk.is_none()));
        Self {
            given_up: vec![0; pipelines.len()],
            gone: vec![HashSet::new(); pipelines.len()],
            powerless: HashSet::new(),
            delivered: vec![0; pipelines.len()],
            dice,
            disk,
            pipelines,
            ledger,
            now_ms: 1_700_000_000_000,
            totals,
        }
    }

    /// Lives through some processes, then waits until everything is well, and checks.
    pub(super) fn run(mut self) -> Totals {
        for _ in 0..self.dice.usize(1..5) {
            let end = self.next_end();
            let life = Duration::from_millis(self.dice.u64(200..40_000));
            let missing = self.missing();
            self.process(missing, async |world, process| world.live(process, life, end).await);
            if end == End::PowerLoss {
                self.lose_power();
            }
            let had = self.remains();
            if let Some(disk) = &mut self.disk {
                disk.forced.ended();
                disk.fs = if end == End::PowerLoss { disk.fs.after_power_loss() } else { disk.fs.after_kill() };
            }
            self.miss(&had, end);
        }
        if let Some(disk) = &self.disk {
            heal(disk);
        }
        self.pipelines.iter().for_each(|planned| planned.backend.recover());
        self.process(None, async |world, process| world.settle(process).await);
        self.miss(&self.remains(), End::Shutdown);
        self.check();
        let has_gone = |id: &&u64| self.pipelines.iter().any(|planned| !planned.backend.has(**id));
        self.totals.count("powerless", self.powerless.iter().filter(has_gone).count() as u64);
        self.totals.count("acknowledged", self.ledger.acknowledged() as u64);
        self.totals.count("refused", self.ledger.refused.load(Ordering::Relaxed));
        self.totals.count("duplicates", self.pipelines.iter().map(|planned| planned.backend.duplicates()).sum());
        self.totals.count("hangs", self.disk.map_or(0, |disk| disk.hangs.load(Ordering::Relaxed)));
        self.totals
    }

    /// What was acknowledged may go with it, as far as `fsync` allows.
    fn lose_power(&mut self) {
        let Some(disk) = &self.disk else { return };
        match disk.fsync {
            Fsync::Always => {}
            Fsync::Interval(_) => {
                let lost = disk.forced.power_is_lost();
                self.powerless.extend(lost.into_iter().flat_map(|places| self.ledger.at(places)));
            }
            Fsync::Never => self.powerless.extend(self.ledger.at(0..self.ledger.acknowledged())),
        }
    }

    /// Sometimes a pipeline is not configured for a while; what it is owed waits for its return.
    fn missing(&mut self) -> Option<usize> {
        let which = self.dice.usize(..4 * self.pipelines.len());
        (self.pipelines.len() > 1 && which < self.pipelines.len()).then_some(which)
    }

    fn next_end(&mut self) -> End {
        match self.dice.u8(..5) {
            0 => End::Shutdown,
            4 => End::Forced,
            1 | 2 if self.disk.is_some() => End::PowerLoss,
            _ => End::Kill,
        }
    }

    /// Runs one process in a runtime of its own: when that is dropped, every task ends where it stands.
    fn process(&mut self, missing: Option<usize>, life: impl AsyncFnOnce(&mut Self, Process)) {
        // What the engine draws itself (jitter, nonces) follows the seed as well; but not how much of it tasks draw that end
        // with a runtime: their order depends on what the test has run before.
        fastrand::seed(self.dice.u64(..));
        self.given_up.fill(0);
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let clock = Clock::simulated(self.now_ms);
            let process = Process::start(&self.pipelines, self.disk.as_ref(), missing, clock);
            life(self, process).await;
            self.now_ms = clock.now_ms() + 1;
        });
    }

    async fn live(&mut self, mut process: Process, life: Duration, end: End) {
        let before = self.ledger.acknowledged();
        let clients = clients::spawn(&self.ledger, &process.intake, &process.budget, &mut self.dice);
        let ends = Instant::now() + life;
        while Instant::now() < ends {
            tokio::time::sleep(Duration::from_millis(self.dice.u64(1..4_000)).min(ends - Instant::now())).await;
            self.imagine_power_loss();
            let which = self.dice.usize(..self.pipelines.len());
            self.pipelines[which].backend.change_mood();
            self.change_disk();
            self.reload(&mut process, which);
            assert_only_bad_was_rejected(&process);
        }
        match end {
            End::Shutdown => process.shut_down(clients, self.patience()).await,
            End::Forced => process.end(clients).await,
            End::Kill | End::PowerLoss => {}
        }
        self.account(&process, end, before);
    }

    /// How long a drain may take: often less than a client waits before its data is written.
    fn patience(&mut self) -> Duration {
        match self.dice.u8(..3) {
            0 => Duration::ZERO,
            1 => Duration::from_millis(self.dice.u64(1..400)),
            _ => Duration::from_secs(5),
        }
    }

    /// Sometimes the configuration changes.
    fn reload(&mut self, process: &mut Process, number: usize) {
        let (deadline, planned) = (Instant::now() + self.patience(), &self.pipelines[number]);
        let what = match (self.dice.u8(..16), process.has(number)) {
            (0..12, false) if process.accounts.find(&id_of(number)).is_some() => {
                process.add(number, planned);
                "added"
            }
            (0..3, true) => {
                process.replace(number, planned, deadline);
                "replaced"
            }
            (3, true) => {
                process.remove(number, deadline);
                "removed"
            }
            (4 | 5, true) => {
                process.move_backend(number, planned);
                "moved"
            }
            (6, _) => {
                process.adjust(&self.pipelines, self.dice.usize(40..=100));
                "adjusted"
            }
            _ => return,
        };
        self.totals.count(what, 1);
        let hangs = self.disk.as_ref().is_some_and(|disk| disk.reads_take.load(Ordering::Relaxed) > HANGS_MS);
        self.totals.count("reloads_while_reads_hang", u64::from(hangs));
    }

    fn change_disk(&mut self) {
        let (dice, Some(disk)) = (&mut self.dice, &self.disk) else { return };
        let Disk { fs, reads_take, .. } = disk;
        match dice.u8(..10) {
            0 => fs.set_faults(Faults { write: 2, ..Faults::default() }),
            1 => fs.set_faults(Faults { sync: 2, ..Faults::default() }),
            2 => fs.set_faults(Faults { short: 3, read: 6, other: 4, ..Faults::default() }),
            3 => fs.set_capacity(Some(dice.u64(1..4_000_000))),
            4..7 => heal(disk),
            7 => reads_take.store(dice.u64(2..30_000), Ordering::Relaxed),
            _ => {}
        }
    }

    /// Whatever happens to a process, its books balance, have everything that was acknowledged, and nothing was given up
    /// that may not be.
    fn account(&mut self, process: &Process, end: End, before: usize) {
        for account in process.accounts.all() {
            let books = account.books.figures();
            assert!(books.balanced(), "{}: {books:?}", account.id);
            if is_nameless(&account.id) {
                self.totals.count("nameless", books.recovered);
                continue;
            }
            let number = number_of(&account.id);
            let acknowledged = self.ledger.owed_to(number, before).len() as u64;
            assert!(acknowledged <= books.accepted, "{number}: {acknowledged} acknowledged, {books:?}");
            assert!(self.pipelines[number].has_rules || books.filtered.is_empty(), "{number}: {books:?}");
            let may_drop = |reason: &&str| self.may_drop(process, number, reason);
            assert!(books.dropped.keys().all(may_drop), "{number}: {books:?}");
            self.enter(number, &books);
            if self.disk.is_none() && end == End::Kill {
                self.given_up[number] += books.pending;
                self.totals.count("killed", books.pending);
            }
        }
        self.totals.count(end.name(), 1);
        if matches!(end, End::Shutdown | End::Forced) {
            process.assert_nothing_is_left();
        }
        let Some(store) = process.intake.store() else { return };
        self.totals.count("spilled", store.stats.spilled_bytes.load(Ordering::Relaxed));
        self.totals.count("failed_writes", store.stats.failures.load(Ordering::Relaxed));
    }

    /// Whether a pipeline may give something up for this reason.
    fn may_drop(&self, process: &Process, number: usize, reason: &str) -> bool {
        // One that is away has no limits of its own.
        let may_lose = self.pipelines[number].backlog.overflow == Overflow::DropOldest || process.was_away(number);
        match reason {
            "memory_full" | "shutdown" => self.disk.is_none(),
            // Where power was lost in the middle of what was not forced to the disk.
            "journal_damaged" => !self.powerless.is_empty(),
            "backlog_full" | "backlog_age" | "disk_full" => self.disk.is_some() && may_lose,
            _ => false,
        }
    }

    fn enter(&mut self, number: usize, books: &BookFigures) {
        self.given_up[number] += given_up(books);
        self.delivered[number] += books.delivered;
        self.totals.count("recovered", books.recovered);
        books.dropped.iter().chain(&books.filtered).for_each(|(reason, items)| self.totals.count(reason, *items));
        books.rejected.iter().for_each(|(code, items)| self.totals.count(code, *items));
    }

    /// Everything is well: first all arrives that backends take, then the rest, once they relent.
    async fn settle(&mut self, mut process: Process) {
        let before = self.ledger.acknowledged();
        self.wait(&process, |world, process| world.lacks_only_what_is_marked(process)).await;
        self.pipelines.iter().for_each(|planned| planned.backend.relent());
        let is_done = |books: &BookFigures| books.pending + books.waiting == 0;
        // What a disk that hung still has to write will be pending once more.
        let is_idle = |process: &Process| process.intake.store().is_none_or(|store| store.has_room(1));
        let is_over =
            |process: &Process| is_idle(process) && process.intake.books().iter().all(|(_, books)| is_done(books));
        self.wait(&process, |_, process| is_over(process)).await;
        assert_only_bad_was_rejected(&process);
        process.shut_down(JoinSet::new(), Duration::from_secs(5)).await;
        self.account(&process, End::Shutdown, before);
        if let Some(store) = process.intake.store() {
            let stats = store.journal.stats();
            let is_empty = process.accounts.all().iter().all(|account| account.backlog().items == 0);
            assert!(!is_empty || stats.segments == 0, "an empty journal takes no space: {stats:?}");
        }
        assert_eq!(process.budget.used(), 0, "all memory is given back");
        assert!(process.budget.held().iter().all(|(_, bytes)| *bytes == 0), "{:?}", process.budget.held());
    }

    /// Waits until it is so, but not for ever.
    async fn wait(&self, process: &Process, is_so: impl Fn(&Self, &Process) -> bool) {
        let gives_up = Instant::now() + PATIENCE;
        while !is_so(self, process) {
            assert!(Instant::now() < gives_up, "still pending: {:?}", process.intake.books());
            tokio::time::sleep(Duration::from_secs(1)).await;
            // Where nothing passes, nothing shows that the items are to blame that are refused.
            let good = |id: &u64| Mark::of(*id).is_none() && !rules::remove(*id);
            let mut ids = std::iter::repeat_with(|| self.ledger.draw(1)).flatten();
            let ids = ids.find(good).into_iter().collect();
            self.ledger.offer(&process.intake, &process.budget, ids, 0).await;
        }
    }

    /// Whether everything that is not marked has arrived, and nothing is pending that could be anything else.
    fn lacks_only_what_is_marked(&self, process: &Process) -> bool {
        let kept = Mark::kept_among(self.ledger.drawn());
        process.intake.books().iter().all(|(id, books)| {
            let number = number_of(id);
            let missing = self.missing_at(number, |id| Mark::of(id).is_none()).len() as u64;
            books.pending <= kept && missing <= given_up(books)
        })
    }

    /// What was acknowledged for a pipeline, of a kind, and has not arrived, beside what is known to be gone.
    fn missing_at(&self, number: usize, of_kind: impl Fn(u64) -> bool) -> Vec<u64> {
        let Planned { backend, has_rules, .. } = &self.pipelines[number];
        let owed = self.ledger.owed_to(number, 0).into_iter();
        let is_owed = |id: &u64| of_kind(*id) && !(*has_rules && rules::remove(*id));
        let is_gone = |id: &u64| self.powerless.contains(id) || self.gone[number].contains(id);
        // Nearly all have arrived, so that is asked first.
        owed.filter(|id| !backend.has(*id) && is_owed(id) && !is_gone(id)).collect()
    }

    fn check(&self) {
        for (number, Planned { backend, has_rules, .. }) in self.pipelines.iter().enumerate() {
            let removed = |id: &u64| *has_rules && rules::remove(*id) && backend.has(*id);
            let wrong: Vec<u64> = self.ledger.owed_to(number, 0).into_iter().filter(removed).collect();
            assert!(wrong.is_empty(), "backend {number} has spans that its rules remove: {wrong:?}");
            let (delivered, arrived) = (self.delivered[number], backend.deliveries());
            assert!(delivered <= arrived, "backend {number} got {arrived} spans, the books say {delivered}");
        }
    }
}

/// Items that a pipeline lost as it may. What is damaged has gone with the power, and is known by its ids.
fn given_up(books: &BookFigures) -> u64 {
    books.dropped.iter().filter(|(reason, _)| **reason != "journal_damaged").map(|(_, items)| items).sum()
}

/// The last that were rejected are shown: each is a single span that a backend marks as bad.
fn assert_only_bad_was_rejected(process: &Process) {
    for pipeline in process.intake.pipelines() {
        // Of what a backend took in part it does not say which items it rejected.
        let is_whole = |sample: &Arc<Sample>| sample.code != PARTIAL_SUCCESS;
        for sample in pipeline.stats.samples.list().into_iter().filter(is_whole) {
            let ids = payload::decode(std::slice::from_ref(&sample.body));
            let is_bad = |id: &u64| Mark::of(*id).is_some_and(Mark::may_be_rejected);
            assert!(ids.len() == 1 && ids.iter().all(is_bad), "{}: {ids:?} {}", pipeline.account.id, sample.code);
        }
    }
}

fn heal(disk: &Disk) {
    disk.fs.set_faults(Faults::default());
    disk.fs.set_capacity(Some(DISK));
    disk.reads_take.store(0, Ordering::Relaxed);
}

fn disk(dice: &mut fastrand::Rng, ledger: &Arc<Ledger>) -> Disk {
    let fsync = match dice.u8(..5) {
        0 => Fsync::Never,
        1 | 2 => Fsync::Interval(Duration::from_millis(300)),
        _ => Fsync::Always,
    };
    let fs = SimFs::new(dice.u64(..));
    fs.set_capacity(Some(DISK));
    let forced = Arc::new(Forced::new(Arc::clone(ledger)));
    Disk { fs, fsync, hangs: Arc::default(), reads_take: Arc::default(), forced }
}

fn planned(dice: &mut fastrand::Rng) -> Planned {
    let backend = Scripted::new(dice.u64(..));
    Planned { backend, backlog: limits(dice), has_rules: dice.bool(), share: dice.usize(60_000..700_000) }
}

/// Of three pipelines one may lose nothing, one only when the disk is full, and one has little room.
fn limits(dice: &mut fastrand::Rng) -> weir_plan::Backlog {
    match dice.u8(..3) {
        0 => weir_plan::Backlog { overflow: Overflow::Refuse, ..weir_plan::Backlog::default() },
        1 => weir_plan::Backlog::default(),
        _ => {
            let (max_bytes, max_age) = (dice.u64(50_000..1_000_000), Duration::from_secs(dice.u64(5..7_200)));
            weir_plan::Backlog { max_bytes, max_age, overflow: Overflow::DropOldest }
        }
    }
}
