//! A running engine without its network.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_enrich::{Enricher, PodList};
use weir_journal::Fs;
use weir_plan::{PipelineId, Signal};
use weir_testkit::SimFs;

use super::backend::Scripted;
use super::forced::{self, Forced};
use super::rules;
use super::sluggish::Sluggish;
use crate::account::JournalQueue;
use crate::accounts::Accounts;
use crate::budget::{Budget, Holder};
use crate::clock::Clock;
use crate::division::RequestLimits;
use crate::export::Backend;
use crate::intake::{Intake, Route, Routes, Selection};
use crate::pipeline::{Common, Limits, Pipeline};
use crate::settings::{Fsync, Onlookers};
use crate::share::Share;
use crate::store::{Io, Opened, Store};
use crate::taps::Recent;

const MEMORY: usize = 1 << 20;
const BATCH_BYTES: usize = 48 << 10;
/// Small enough to be reached.
const PIECES: usize = 80;
const SPILL_AFTER: Duration = Duration::from_millis(250);

/// One pipeline, as it is configured whenever it is.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) backend: Scripted,
    pub(super) backlog: weir_plan::Backlog,
    pub(super) has_rules: bool,
    /// What it may hold in memory.
    pub(super) share: usize,
}

/// A disk, and what is done for its sake.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) fs: SimFs,
    pub(super) fsync: Fsync,
    /// How often it seemed to hang.
    pub(super) hangs: Arc<AtomicU64>,
    /// How long reading takes now, in milliseconds.
    pub(super) reads_take: Arc<AtomicU64>,
    /// What was forced to it.
    pub(super) forced: Arc<Forced>,
}

pub(super) fn id_of(number: usize) -> PipelineId {
    PipelineId::new(Signal::Traces, format!("pipeline-{number}"))
}

pub(super) fn number_of(pipeline: &PipelineId) -> usize {
    pipeline.name.rsplit('-').next().unwrap().parse().unwrap()
}

/// What waits in the journal may lose its name with the power; then it is nobody's.
pub(super) fn is_nameless(pipeline: &PipelineId) -> bool {
    pipeline.name.starts_with("?/")
}

/// See the module.
pub(super) struct Process {
    pub(super) intake: Arc<Intake>,
    pub(super) budget: Budget,
    pub(super) accounts: Arc<Accounts>,
    deliveries: JoinSet<()>,
    writer: JoinSet<()>,
    common: Common,
    /// Pipelines that were not configured for a while: a bit for each.
    was_away: u8,
}

impl Process {
    /// Runs all pipelines but one that is missing.
    pub(super) fn start(planned: &[Planned], disk: Option<&Disk>, missing: Option<usize>, clock: Clock) -> Self {
        let opened = disk.map(|disk| {
            let fs: Arc<dyn Fs> = Arc::new(disk.fs.clone());
            Opened::open(fs, clock).unwrap()
        });
        let configured: Vec<usize> = (0..planned.len()).filter(|number| Some(*number) != missing).collect();
        let accounts = Arc::<Accounts>::default();
        for number in &configured {
            let (id, planned) = (id_of(*number), &planned[*number]);
            let queue = opened.as_ref().map(|opened| {
                JournalQueue::new(Arc::clone(&opened.journal), opened.journal.queue(&id.to_string()), planned.backlog)
            });
            accounts.open(id, Share::new(planned.share, clock.started), queue);
        }
        let budget = Budget::new(MEMORY);
        let (for_delivery, for_samples) = (budget.held_by(Holder::Delivery), budget.held_by(Holder::Onlookers));
        let (mut writer, mut store) = (JoinSet::new(), None);
        if let (Some(disk), Some(opened)) = (disk, opened) {
            let io = Io::After(Arc::clone(&disk.reads_take));
            let (opened, work) = Store::new(opened, Arc::clone(&accounts), (io, disk.fsync), clock, &for_samples);
            let work = forced::watched(work.run(), Arc::clone(&disk.forced), opened.clone(), disk.fs.clone());
            writer.spawn(Sluggish::new(work, opened.clone(), Arc::clone(&disk.hangs), fastrand::u64(..)));
            store = Some(opened);
        }
        let limits = Limits {
            batch_bytes: BATCH_BYTES,
            in_flight_bytes: MEMORY / 2,
            read_back_bytes: if store.is_some() { MEMORY } else { 0 },
            pieces: if store.is_some() { PIECES } else { 0 },
            halves: 1 << 20,
            samples: 1 << 20,
            requests: 64,
        };
        let intake = Arc::new(Intake::new(budget.clone(), SPILL_AFTER, store.clone(), &Onlookers::default()));
        let read_back = Budget::new(limits.read_back_bytes * planned.len());
        let oversized = for_delivery.within(MEMORY / 4);
        let common = Common { limits, budget: for_delivery, read_back, oversized, store, clock };
        let was_away = missing.map_or(0, |number| 1 << number);
        let deliveries = JoinSet::new();
        let mut process = Self { intake, budget, accounts, deliveries, writer, common, was_away };
        configured.into_iter().for_each(|number| process.add(number, &planned[number]));
        process
    }

    /// Whether a pipeline was not configured for a while.
    pub(super) fn was_away(&self, number: usize) -> bool {
        self.was_away >> number & 1 == 1
    }

    fn pipeline(&self, number: usize) -> Option<Arc<Pipeline>> {
        self.intake.routes().to(&id_of(number)).map(|route| Arc::clone(&route.pipeline))
    }

    /// A reload brings a pipeline (back).
    pub(super) fn add(&mut self, number: usize, planned: &Planned) {
        let id = id_of(number);
        let account = self.accounts.find(&id).unwrap();
        account.adopt(planned.share, planned.backlog);
        let backend: Arc<dyn Backend> = Arc::new(planned.backend.moved());
        let (pipeline, delivery) = Pipeline::new(id.to_string(), account, backend, self.common.clone());
        self.deliveries.spawn(delivery);
        let rules = planned.has_rules.then(|| rules::compile(&id));
        let selection = Selection::new(&weir_plan::Input::default());
        let recent = Arc::new(Recent::within(1 << 20));
        self.route(|routes| routes.push(Route { pipeline: Arc::new(pipeline), selection, rules, recent }));
    }

    /// A reload takes a pipeline away: it delivers what it can until the deadline.
    pub(super) fn remove(&mut self, number: usize, deadline: Instant) {
        let Some(pipeline) = self.pipeline(number) else { return };
        pipeline.drain(deadline);
        pipeline.account.orphan(self.common.clock.elapsed());
        self.was_away |= 1 << number;
        self.route(|routes| routes.retain(|route| !Arc::ptr_eq(&route.pipeline, &pipeline)));
    }

    pub(super) fn has(&self, number: usize) -> bool {
        self.pipeline(number).is_some()
    }

    /// A reload takes a pipeline away, and the next one, before that has ended, brings it back.
    pub(super) fn replace(&mut self, number: usize, planned: &Planned, deadline: Instant) {
        let was_away = self.was_away;
        self.remove(number, deadline);
        self.was_away = was_away;
        self.add(number, planned);
    }

    /// A reload gives a pipeline another backend.
    pub(super) fn move_backend(&self, number: usize, planned: &Planned) {
        let Some(pipeline) = self.pipeline(number) else { return };
        let moved = Arc::new(pipeline.sending_to(id_of(number).to_string(), Arc::new(planned.backend.moved())));
        let same = |route: &&mut Route| Arc::ptr_eq(&route.pipeline, &pipeline);
        self.route(|routes| routes.iter_mut().filter(same).for_each(|route| route.pipeline = Arc::clone(&moved)));
    }

    /// A reload divides the memory in another way: everything in so many hundredths of what there is.
    pub(super) fn adjust(&mut self, planned: &[Planned], percent: usize) {
        let part = |whole: usize| whole / 100 * percent;
        self.common.limits.batch_bytes = part(BATCH_BYTES);
        self.common.limits.in_flight_bytes = part(MEMORY / 2);
        self.budget.resize(part(MEMORY));
        for pipeline in self.intake.pipelines() {
            pipeline.account.share.set_limit(part(planned[number_of(&pipeline.account.id)].share));
            pipeline.adjust(self.common.limits);
        }
    }

    fn route(&self, change: impl FnOnce(&mut Vec<Route>)) {
        let mut routes = self.intake.routes().routes.clone();
        change(&mut routes);
        self.intake.set_routes(Routes { enricher: enricher(), routes }, RequestLimits::configured(MEMORY));
    }

    /// When everything has ended in order, nothing is pending but what the journal remembers: neither is there without the
    /// other. No memory is taken.
    pub(super) fn assert_nothing_is_left(&self) {
        for account in self.accounts.all() {
            let (books, backlog) = (account.books.figures(), account.backlog());
            assert_eq!(books.pending, backlog.items, "{}: {books:?} {backlog:?}", account.id);
            assert_eq!((books.waiting, account.share.held()), (0, 0), "{}: {books:?}", account.id);
        }
    }

    /// The end that a second signal makes: requests and deliveries end where they stand, the journal in order.
    pub(super) async fn end(&mut self, mut clients: JoinSet<()>) {
        self.intake.drain(Instant::now());
        clients.shutdown().await;
        self.deliveries.shutdown().await;
        self.close().await;
    }

    /// The order of [`crate::Engine::shutdown`]: requests, deliveries, journal.
    pub(super) async fn shut_down(&mut self, mut clients: JoinSet<()>, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.intake.drain(deadline);
        self.intake.pipelines().iter().for_each(|pipeline| pipeline.drain(deadline));
        clients.abort_all();
        while clients.join_next().await.is_some() {}
        while let Some(ended) = self.deliveries.join_next().await {
            ended.unwrap();
        }
        self.close().await;
    }

    async fn close(&mut self) {
        let Some(store) = self.intake.store() else { return };
        store.close();
        while let Some(ended) = self.writer.join_next().await {
            ended.unwrap();
        }
    }
}

fn enricher() -> Enricher {
    let cluster_name = Some("simulated".into());
    let enrichment = weir_plan::Enrichment { cluster_name, ..weir_plan::Enrichment::default() };
    Enricher::new(enrichment, Arc::new(PodList::default()))
}
