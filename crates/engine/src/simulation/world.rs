//! One world: its disk, backends and clients, and the processes that live in it one after the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_enrich::{Enricher, StaticPods};
use weir_journal::Fs;
use weir_plan::{Overflow, Signal};
use weir_testkit::{Faults, SimFs};

use super::backend::{Mood, Scripted, is_poison};
use super::sluggish::Sluggish;
use super::{payload, rules};
use crate::account::{Account, Queue};
use crate::accounts::Accounts;
use crate::books::Snapshot;
use crate::budget::Budget;
use crate::buffer::Buffer;
use crate::intake::{Arrived, Intake, Route, Routes, Selection, Verdict};
use crate::pipeline::{Common, Limits, Pipeline};
use crate::settings::Fsync;
use crate::share::Share;
use crate::store::{Clock, Io, Opened, Store};

const MEMORY: usize = 1 << 20;
const BATCH_BYTES: usize = 48 << 10;
/// Small, so that segments are small and come and go.
const DISK: u64 = 64 << 20;
const CLIENTS: usize = 6;
/// Small enough to be reached.
const PIECES: usize = 80;
/// In virtual time; the longest backoff is half a minute.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What happened in some runs.
#[derive(Debug, Default)]
pub(super) struct Totals {
    acknowledged: u64,
    refused: u64,
    duplicates: u64,
    recovered: u64,
    spilled: u64,
    kills: u64,
    power_losses: u64,
    shutdowns: u64,
    failed_writes: u64,
    rejected: u64,
    dropped: u64,
    filtered: u64,
    returns: u64,
    forced: u64,
}

impl Totals {
    pub(super) fn add(&mut self, other: &Self) {
        let Self { acknowledged, refused, duplicates, recovered, spilled, kills, power_losses, shutdowns, .. } = other;
        self.acknowledged += acknowledged;
        self.refused += refused;
        self.duplicates += duplicates;
        self.recovered += recovered;
        self.spilled += spilled;
        self.kills += kills;
        self.power_losses += power_losses;
        self.shutdowns += shutdowns;
        self.failed_writes += other.failed_writes;
        self.rejected += other.rejected;
        self.dropped += other.dropped;
        self.filtered += other.filtered;
        self.returns += other.returns;
        self.forced += other.forced;
    }

    /// A simulation in which nothing goes wrong proves nothing.
    pub(super) fn assert_everything_happened(&self) {
        let Self { acknowledged, refused, duplicates, recovered, spilled, kills, power_losses, shutdowns, .. } = self;
        let all = [acknowledged, refused, duplicates, recovered, spilled, kills, power_losses, shutdowns];
        let losses = [&self.failed_writes, &self.rejected, &self.dropped, &self.filtered];
        let changes = [&self.returns, &self.forced];
        assert!(all.into_iter().chain(losses).chain(changes).all(|n| *n > 0), "{self:?}");
    }
}

/// What clients know.
#[derive(Debug, Default)]
struct Ledger {
    next_id: AtomicU64,
    /// Ids, and for which pipelines: a bit for each that there was.
    acknowledged: Mutex<Vec<(u64, u8)>>,
    refused: AtomicU64,
}

pub(super) struct World {
    dice: fastrand::Rng,
    disk: SimFs,
    backends: Vec<Scripted>,
    ledger: Arc<Ledger>,
    fsync: Fsync,
    /// By pipeline.
    limits: Vec<weir_plan::Backlog>,
    /// Which pipelines have rules.
    ruled: Vec<bool>,
    now_ms: u64,
    /// What pipelines gave up because their limits say so, by pipeline.
    dropped: Vec<u64>,
    totals: Totals,
}

/// How a process ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Kill,
    PowerLoss,
    Shutdown,
    /// A shutdown whose tasks are told to end where they stand.
    Forced,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        let backends: Vec<_> = (0..dice.usize(1..4)).map(|_| Scripted::new(dice.u64(..))).collect();
        let fsync = match dice.u8(..4) {
            0 => Fsync::Never,
            1 => Fsync::Interval(Duration::from_millis(300)),
            _ => Fsync::Always,
        };
        let disk = SimFs::new(dice.u64(..));
        disk.set_capacity(Some(DISK));
        Self {
            limits: backends.iter().map(|_| limits(&mut dice)).collect(),
            ruled: backends.iter().map(|_| dice.bool()).collect(),
            dropped: vec![0; backends.len()],
            dice,
            disk,
            backends,
            ledger: Arc::default(),
            fsync,
            now_ms: 1_700_000_000_000,
            totals: Totals::default(),
        }
    }

    /// Lives through some processes, then waits until everything is well, and checks.
    pub(super) fn run(mut self) -> Totals {
        for _ in 0..self.dice.usize(1..5) {
            let end = self.next_end();
            let life = Duration::from_millis(self.dice.u64(200..40_000));
            let missing = self.missing();
            self.process(missing, async |world, process| world.live(process, life, end).await);
            self.disk = match end {
                End::PowerLoss => self.disk.after_power_loss(),
                End::Kill | End::Shutdown | End::Forced => self.disk.after_kill(),
            };
        }
        self.disk.set_faults(Faults::default());
        self.disk.set_capacity(Some(DISK));
        self.backends.iter().for_each(|backend| backend.become_(Mood::Well));
        self.process(None, async |world, process| world.settle(process).await);
        self.check();
        self.totals.acknowledged = self.ledger.acknowledged.lock().unwrap().len() as u64;
        self.totals.refused = self.ledger.refused.load(Ordering::Relaxed);
        self.totals.dropped = self.dropped.iter().sum();
        self.totals.duplicates = self.backends.iter().map(Scripted::duplicates).sum();
        self.totals
    }

    /// Sometimes a pipeline is not configured for a while; what it is owed waits for its return.
    fn missing(&mut self) -> Option<usize> {
        let which = self.dice.usize(..4 * self.backends.len());
        (self.backends.len() > 1 && which < self.backends.len()).then_some(which)
    }

    fn next_end(&mut self) -> End {
        match self.dice.u8(..4) {
            0 => End::Shutdown,
            3 => End::Forced,
            // Only what was synced survives a power loss.
            1 if self.fsync == Fsync::Always => End::PowerLoss,
            _ => End::Kill,
        }
    }

    /// Runs one process in a runtime of its own: when that is dropped, every task ends where it stands.
    fn process(&mut self, missing: Option<usize>, life: impl AsyncFnOnce(&mut Self, Process)) {
        // What the engine draws itself (jitter, nonces) follows the seed as well; but not how much of it tasks draw that end
        // with a runtime: their order depends on what the test has run before.
        fastrand::seed(self.dice.u64(..));
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let clock = Clock::simulated(self.now_ms);
            let process = Process::start(self, missing, clock);
            life(self, process).await;
            self.now_ms = clock.now_ms() + 1;
        });
    }

    async fn live(&mut self, process: Process, life: Duration, end: End) {
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn(client(
                Arc::clone(&process.intake),
                Arc::clone(&self.ledger),
                (process.budget.clone(), process.pipelines),
                self.dice.u64(..),
            ));
        }
        let ends = Instant::now() + life;
        while Instant::now() < ends {
            tokio::time::sleep(Duration::from_millis(self.dice.u64(1..4_000)).min(ends - Instant::now())).await;
            let which = self.dice.usize(..self.backends.len());
            self.backends[which].change_mood();
            self.change_disk();
            if self.dice.u8(..4) == 0 {
                self.remove_and_return(&process, which);
            }
        }
        match end {
            End::Shutdown => {
                process.shut_down(clients, self.patience()).await;
                self.totals.shutdowns += 1;
            }
            End::Forced => {
                process.end(clients).await;
                self.totals.forced += 1;
            }
            End::Kill => self.totals.kills += 1,
            End::PowerLoss => self.totals.power_losses += 1,
        }
        self.account(&process);
    }

    /// How long a drain may take: often less than a client waits before its data is written.
    fn patience(&mut self) -> Duration {
        match self.dice.u8(..3) {
            0 => Duration::ZERO,
            1 => Duration::from_millis(self.dice.u64(1..400)),
            _ => Duration::from_secs(5),
        }
    }

    /// A reload takes a pipeline away, and the next one, before that has ended, brings it back.
    fn remove_and_return(&mut self, process: &Process, number: usize) {
        let deadline = Instant::now() + self.patience();
        if process.replace(self, number, deadline) {
            self.totals.returns += 1;
        }
    }

    fn change_disk(&mut self) {
        let dice = &mut self.dice;
        match dice.u8(..10) {
            0 => self.disk.set_faults(Faults { write: 2, ..Faults::default() }),
            1 => self.disk.set_faults(Faults { sync: 2, ..Faults::default() }),
            2 => self.disk.set_faults(Faults { short: 3, read: 6, other: 4, ..Faults::default() }),
            3 => self.disk.set_capacity(Some(dice.u64(1..4_000_000))),
            4..7 => {
                self.disk.set_faults(Faults::default());
                self.disk.set_capacity(Some(DISK));
            }
            _ => {}
        }
    }

    /// Whatever happens to a process, its books balance and nothing was given up that may not be.
    fn account(&mut self, process: &Process) {
        for (name, books) in process.intake.books() {
            let number = number_of(&name);
            assert!(books.balanced(), "{name}: {books:?}");
            let may_drop = self.limits[number].overflow == Overflow::DropOldest;
            assert!(may_drop || books.dropped.is_empty(), "{name}: {books:?}");
            assert!(self.ruled[number] || books.filtered.is_empty(), "{name}: {books:?}");
            self.totals.rejected += books.rejected.values().sum::<u64>();
            self.totals.filtered += books.filtered.values().sum::<u64>();
            self.enter(number, &books);
        }
        process.assert_journal_agrees();
        let store = process.intake.store().unwrap();
        for orphan in store.accounts.orphans() {
            self.enter(number_of(&orphan.id), &orphan.books.snapshot());
        }
        self.totals.spilled += store.stats.spilled_bytes.load(Ordering::Relaxed);
        self.totals.failed_writes += store.stats.failures.load(Ordering::Relaxed);
    }

    fn enter(&mut self, number: usize, books: &Snapshot) {
        assert!(!books.dropped.contains_key("journal_damaged"), "{number}: {books:?}");
        self.dropped[number] += books.dropped.values().sum::<u64>();
        self.totals.recovered += books.recovered;
    }

    fn route(&self, number: usize, pipeline: Pipeline) -> Route {
        let selection = Selection::new(&weir_plan::Input::default());
        let rules = self.ruled[number].then(|| rules::compile(&name_of(number)));
        Route { pipeline: Arc::new(pipeline), selection, rules }
    }

    async fn settle(&mut self, process: Process) {
        let gives_up = Instant::now() + PATIENCE;
        let pending = || process.intake.books().iter().map(|(_, books)| books.pending + books.waiting).sum::<u64>();
        while pending() > 0 {
            assert!(Instant::now() < gives_up, "still pending: {:?}", process.intake.books());
            tokio::time::sleep(Duration::from_secs(1)).await;
            // Where nothing passes, nothing shows that the items are to blame that are refused.
            let good = |id: &u64| !is_poison(*id) && !rules::remove(*id);
            let mut ids = std::iter::repeat_with(|| self.ledger.next_id.fetch_add(1, Ordering::Relaxed));
            let ids: Vec<u64> = ids.find(good).into_iter().collect();
            offer(&process.intake, &self.ledger, (&process.budget, process.pipelines), (ids, 0)).await;
        }
        process.shut_down(JoinSet::new(), Duration::from_secs(5)).await;
        self.account(&process);
        assert_eq!(process.intake.store().unwrap().journal.stats().segments, 0, "an empty journal takes no space");
        assert_eq!(process.budget.used(), 0, "all memory is given back");
    }

    fn check(&self) {
        for (number, backend) in self.backends.iter().enumerate() {
            let acknowledged = self.ledger.acknowledged.lock().unwrap();
            let removed = |id: u64| self.ruled[number] && rules::remove(id);
            let wrong: Vec<_> = acknowledged.iter().filter(|(id, _)| removed(*id) && backend.has(*id)).collect();
            assert!(wrong.is_empty(), "backend {number} has spans that its rules remove: {wrong:?}");
            let owed = acknowledged.iter().filter(|(id, pipelines)| pipelines >> number & 1 == 1 && !removed(*id));
            let lost: Vec<_> = owed.filter(|(id, _)| !backend.has(*id) && !is_poison(*id)).collect();
            let dropped = self.dropped[number];
            let count = lost.len() as u64;
            assert!(
                count <= dropped,
                "backend {number} lacks {count} acknowledged spans, {dropped} were dropped: {:?} ...",
                &lost[..lost.len().min(20)]
            );
        }
    }
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

fn name_of(number: usize) -> String {
    format!("pipeline-{number}")
}

fn number_of(name: &str) -> usize {
    name.rsplit('-').next().unwrap().parse().unwrap()
}

/// A running engine without its network.
struct Process {
    intake: Arc<Intake>,
    budget: Budget,
    /// Those that are configured: a bit for each.
    pipelines: u8,
    deliveries: Mutex<JoinSet<()>>,
    writer: Mutex<JoinSet<()>>,
    common: Common,
}

impl Process {
    fn start(world: &World, missing: Option<usize>, clock: Clock) -> Self {
        let fs: Arc<dyn Fs> = Arc::new(world.disk.clone());
        let opened = Opened::open(fs, clock).unwrap();
        let account = |number| {
            let name = name_of(number);
            let id = opened.journal.queue(&name);
            let queue = Queue::new(Arc::clone(&opened.journal), id, world.limits[number]);
            Arc::new(Account::new(name, Signal::Traces, Share::new(MEMORY, clock.started), Some(queue)))
        };
        let configured: Vec<_> = (0..world.backends.len()).filter(|number| Some(*number) != missing).collect();
        let accounts: Vec<_> = configured.iter().copied().map(account).collect();
        let everyone = Arc::new(Accounts::new(accounts.clone()));
        let (store, writer) = Store::new(opened, everyone, Io::InPlace, clock, world.fsync);
        let budget = Budget::new(MEMORY);
        let (in_flight_bytes, read_back_bytes) = (MEMORY / 2, MEMORY);
        let limits = Limits { batch_bytes: BATCH_BYTES, in_flight_bytes, read_back_bytes, pieces: PIECES };
        let common = Common { limits, budget: budget.clone(), store: Some(store.clone()), clock };
        let mut deliveries = JoinSet::new();
        let mut routes = Vec::new();
        for (account, number) in accounts.into_iter().zip(&configured) {
            let backend = &world.backends[*number];
            let id = account.id.clone();
            let (pipeline, delivery) = Pipeline::new(id, account, Arc::new(backend.clone()), common.clone());
            deliveries.spawn(delivery);
            routes.push(world.route(*number, pipeline));
        }
        let mut writers = JoinSet::new();
        writers.spawn(Sluggish::new(writer.run(), fastrand::u64(..)));
        let intake = Arc::new(Intake::new(budget.clone(), Duration::from_millis(250), Some(store)));
        intake.set_routes(Routes { enricher: enricher(), routes }, MEMORY);
        let pipelines = configured.iter().fold(0, |mask, number| mask | 1 << number);
        Self { intake, budget, pipelines, deliveries: Mutex::new(deliveries), writer: Mutex::new(writers), common }
    }

    /// Drains a pipeline until the deadline, and gives its account to a new one at once; false when it is not configured.
    fn replace(&self, world: &World, number: usize, deadline: Instant) -> bool {
        let name = name_of(number);
        let before = self.intake.pipelines();
        let Some(old) = before.iter().find(|pipeline| pipeline.account.id == name) else { return false };
        old.drain(deadline);
        old.account.orphan(self.common.clock.elapsed());
        old.account.adopt(MEMORY, world.limits[number]);
        let (account, backend) = (Arc::clone(&old.account), Arc::new(world.backends[number].clone()));
        let (new, delivery) = Pipeline::new(name.clone(), account, backend, self.common.clone());
        self.deliveries.lock().unwrap().spawn(delivery);
        let mut new = Some(new);
        let routes = self.intake.routes();
        let routes = routes.routes.iter().map(|route| {
            let is_it = route.pipeline.account.id == name;
            match new.take_if(|_| is_it) {
                Some(new) => world.route(number, new),
                None => Route {
                    pipeline: Arc::clone(&route.pipeline),
                    selection: Selection::new(&weir_plan::Input::default()),
                    rules: route.rules.clone(),
                },
            }
        });
        let routes = routes.collect();
        self.intake.set_routes(Routes { enricher: enricher(), routes }, MEMORY);
        true
    }

    /// When everything has ended, what is pending is what the journal remembers: neither is there without the other.
    fn assert_journal_agrees(&self) {
        if !self.deliveries.lock().unwrap().is_empty() || !self.writer.lock().unwrap().is_empty() {
            return;
        }
        for account in self.intake.store().unwrap().accounts.all() {
            let (books, backlog) = (account.books.snapshot(), account.backlog());
            // Of an entry that was sent in parts, some may be delivered.
            assert!(books.pending <= backlog.items, "{}: {books:?} {backlog:?}", account.id);
            assert_eq!(books.pending == 0, backlog.items == 0, "{}: {books:?} {backlog:?}", account.id);
            assert_eq!(books.waiting, 0, "{}: {books:?}", account.id);
        }
    }

    /// The end that a second signal makes: requests and deliveries end where they stand, the journal in order.
    async fn end(&self, mut clients: JoinSet<()>) {
        self.intake.drain(Instant::now());
        clients.shutdown().await;
        let mut deliveries = std::mem::take(&mut *self.deliveries.lock().unwrap());
        deliveries.shutdown().await;
        self.close().await;
    }

    /// The order of [`crate::Engine::shutdown`]: requests, deliveries, journal.
    async fn shut_down(&self, mut clients: JoinSet<()>, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.intake.drain(deadline);
        self.intake.pipelines().iter().for_each(|pipeline| pipeline.drain(deadline));
        clients.abort_all();
        while clients.join_next().await.is_some() {}
        let mut deliveries = std::mem::take(&mut *self.deliveries.lock().unwrap());
        while let Some(ended) = deliveries.join_next().await {
            ended.unwrap();
        }
        self.close().await;
    }

    async fn close(&self) {
        self.intake.store().unwrap().close();
        let mut writer = std::mem::take(&mut *self.writer.lock().unwrap());
        while let Some(ended) = writer.join_next().await {
            ended.unwrap();
        }
    }
}

fn enricher() -> Enricher {
    let pods = Arc::new(StaticPods::default());
    let cluster = weir_plan::Cluster { name: Some("simulated".into()), ..weir_plan::Cluster::default() };
    Enricher::new(&weir_plan::Enrichment { cluster, ..weir_plan::Enrichment::default() }, pods)
}

/// Sends requests one after the other; some it does not wait for.
async fn client(intake: Arc<Intake>, ledger: Arc<Ledger>, (budget, pipelines): (Budget, u8), seed: u64) {
    let mut dice = fastrand::Rng::with_seed(seed);
    while !intake.is_draining() {
        let count = dice.u64(1..40);
        let first = ledger.next_id.fetch_add(count, Ordering::Relaxed);
        let ids: Vec<u64> = (first..first + count).collect();
        // Some do not wait for their answer.
        let patience = Duration::from_millis(if dice.u8(..8) == 0 { dice.u64(1..500) } else { 600_000 });
        let offer = offer(&intake, &ledger, (&budget, pipelines), (ids, dice.usize(..600)));
        let _ = tokio::time::timeout(patience, offer).await;
        tokio::time::sleep(Duration::from_millis(dice.u64(1..400))).await;
    }
}

/// Sends one request, and notes what it was answered.
async fn offer(intake: &Intake, ledger: &Ledger, of: (&Budget, u8), (ids, padding): (Vec<u64>, usize)) {
    let (budget, pipelines) = of;
    let (body, items) = (payload::encode(&ids, padding), ids.len() as u64);
    let Some(permit) = budget.try_take(body.len()) else { return };
    let body = Buffer::new(body.into(), 0, permit);
    match intake.accept(Arrived { signal: Signal::Traces, body, items, peer: None, unix_nanos: 0 }).await {
        Verdict::Secured => {
            ledger.acknowledged.lock().unwrap().extend(ids.into_iter().map(|id| (id, pipelines)));
        }
        Verdict::Refused(..) | Verdict::NoMemory | Verdict::TooLarge(_) => {
            ledger.refused.fetch_add(items, Ordering::Relaxed);
        }
    }
}
