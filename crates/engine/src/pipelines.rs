//! All pipelines of a running engine, and how a plan changes them.
//!
//! Only what differs is touched. A pipeline whose output changed goes on with another backend, one with other limits or
//! rules with these; what is in flight, queued or in the journal stays where it is. One that is gone delivers what it
//! can; the rest waits in the journal in case it comes back. Nothing is changed before everything is known to work.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use weir_enrich::{Enricher, StaticPods};
use weir_plan::Plan;

use crate::account::{Account, Queue};
use crate::accounts::Accounts;
use crate::books::Snapshot;
use crate::budget::Budget;
use crate::export::{Exporter, SetupError};
use crate::intake::{Intake, Route, Routes, Selection};
use crate::pipeline::{Common, Limits, Pipeline};
use crate::rules::{Memory, Rules};
use crate::settings::{Division, Settings};
use crate::share::Share;
use crate::store;

/// Pieces of one pipeline that wait for their next attempt: 8 MB.
const PARKED_PIECES: usize = 32 * 1024;

/// What a plan changed. Names are those of journal queues: `traces/backend`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Pipelines that were not there before.
    pub added: Vec<String>,
    /// Pipelines that differ from before.
    pub changed: Vec<String>,
    /// Pipelines that are gone.
    pub removed: Vec<String>,
}

impl Changes {
    /// Whether there is any.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pipelines {
    pub(crate) settings: Settings,
    pub(crate) common: Common,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) intake: Arc<Intake>,
    running: BTreeMap<String, Running>,
    /// One for each that runs, and for each that is leaving.
    tasks: JoinSet<()>,
    /// Tasks of pipelines that are gone from the plan, and their accounts.
    leaving: HashMap<Id, Arc<Account>>,
}

/// A pipeline as it runs.
#[derive(Debug)]
struct Running {
    plan: weir_plan::Pipeline,
    pipeline: Arc<Pipeline>,
    /// Pays for what its exporters encode.
    encode: Budget,
    task: Id,
}

/// What has to be made for a pipeline of a plan; nothing if it has what it needs.
type Made = Option<(Exporter, Budget)>;

impl Pipelines {
    pub(crate) fn new(settings: Settings, common: Common, accounts: Arc<Accounts>, intake: Arc<Intake>) -> Self {
        let (running, tasks, leaving) = (BTreeMap::new(), JoinSet::new(), HashMap::new());
        Self { settings, common, accounts, intake, running, tasks, leaving }
    }

    /// Makes the pipelines what `plan` says.
    ///
    /// # Errors
    /// When a backend cannot be set up; then nothing has changed.
    pub(crate) fn apply(&mut self, plan: &Plan) -> Result<Changes, SetupError> {
        let gone = self.all_but(plan);
        // They use what they have until they have ended.
        let division = Division::new(&self.settings, &plan.pipelines, self.leaving.len() + gone.len());
        let made =
            plan.pipelines.iter().map(|pipeline| self.make(pipeline, division)).collect::<Result<Vec<_>, _>>()?;
        let rules = self.compile(plan, division)?;
        let mut changes = Changes::default();
        self.common.limits = limits(division);
        self.common.budget.resize(division.payloads);
        let mut routes = Vec::with_capacity(plan.pipelines.len());
        for ((planned, made), rules) in plan.pipelines.iter().zip(made).zip(rules) {
            let id = store::queue_name(planned);
            match self.running.get_mut(&id) {
                Some(running) => {
                    if running.plan != *planned {
                        changes.changed.push(id);
                    }
                    running.change(planned, made, division);
                }
                None => {
                    self.add(planned, &id, made, division);
                    changes.added.push(id);
                }
            }
            if let Some(running) = self.running.get(&store::queue_name(planned)) {
                let (pipeline, selection) = (Arc::clone(&running.pipeline), Selection::new(&planned.input));
                routes.push(Route { pipeline, selection, rules });
            }
        }
        let pods = Arc::new(StaticPods::new(&plan.metadata, &plan.enrichment));
        let routes = Routes { enricher: Enricher::new(&plan.enrichment, pods), routes };
        let rules = routes.routes.iter().filter_map(|route| route.rules.as_deref());
        rules.clone().filter_map(|rules| rules.delta.as_ref()).for_each(|delta| delta.resize(division.series));
        let has_rules = rules.count() > 0;
        self.intake.set_routes(routes, max_request_bytes(&self.settings, division, has_rules));
        self.remove(&gone);
        changes.removed = gone;
        Ok(changes)
    }

    /// The rules of every pipeline. What a converter remembers goes over to the one that takes its place.
    fn compile(&self, plan: &Plan, division: Division) -> Result<Vec<Option<Arc<Rules>>>, SetupError> {
        let (before, unix_nanos) = (self.intake.routes(), self.common.clock.now_ms().saturating_mul(1_000_000));
        let compile = |planned: &weir_plan::Pipeline| {
            let id = store::queue_name(planned);
            let route = before.routes.iter().find(|route| route.pipeline.account.id == id);
            let before = route.and_then(|route| route.rules.as_deref());
            let unchanged = self.running.get(&id).is_some_and(|running| running.plan.processing == planned.processing);
            if let Some(route) = route.filter(|_| unchanged) {
                return Ok(route.rules.clone());
            }
            let memory = Memory { before: before.and_then(|rules| rules.delta.as_ref()), bytes: division.series };
            let restore = || self.restore(&id);
            let rules = Rules::compile(planned, memory, &restore, unix_nanos);
            let fail = |cause| SetupError { pipeline: planned.exporter_id(), cause };
            Ok(rules.map_err(fail)?.map(Arc::new))
        };
        plan.pipelines.iter().map(compile).collect()
    }

    /// What an earlier process remembered of a pipeline's series.
    fn restore(&self, id: &str) -> Option<Vec<u8>> {
        let state = self.settings.state.as_ref()?;
        state.take(&state_name(id)).unwrap_or_else(|error| {
            tracing::warn!(pipeline = id, %error, "cannot read what was remembered of metric series; counting begins anew");
            None
        })
    }

    /// Writes down what is remembered of metric series; to be called when nothing is converted any more.
    pub(crate) fn remember(&self) {
        let Some(state) = &self.settings.state else { return };
        for route in &self.intake.routes().routes {
            let Some(delta) = route.rules.as_ref().and_then(|rules| rules.delta.as_ref()) else { continue };
            let id = &route.pipeline.account.id;
            if let Err(error) = state.put(&state_name(id), &delta.snapshot()) {
                tracing::warn!(pipeline = id, %error, "cannot write down what is remembered of metric series");
            }
        }
    }

    /// An exporter where one is needed.
    fn make(&self, planned: &weir_plan::Pipeline, division: Division) -> Result<Made, SetupError> {
        let running = self.running.get(&store::queue_name(planned));
        if running.is_some_and(|running| running.plan.output == planned.output) {
            return Ok(None);
        }
        let encode = running.map_or_else(|| Budget::for_encoding(division.encode), |running| running.encode.clone());
        let exporter = Exporter::new(planned, encode.clone(), &self.settings.proxy)?;
        Ok(Some((exporter, encode)))
    }

    fn add(&mut self, planned: &weir_plan::Pipeline, id: &str, made: Made, division: Division) {
        // One that is not running has been made.
        let Some((exporter, encode)) = made else { return };
        let account = self.accounts.find(id).unwrap_or_else(|| self.open_account(planned, division));
        account.adopt(division.share, planned.backlog);
        let (pipeline, delivery) =
            Pipeline::new(planned.exporter_id(), account, Arc::new(exporter), self.common.clone());
        let task = self.tasks.spawn(delivery).id();
        let running = Running { plan: planned.clone(), pipeline: Arc::new(pipeline), encode, task };
        self.running.insert(id.to_owned(), running);
    }

    fn open_account(&self, planned: &weir_plan::Pipeline, division: Division) -> Arc<Account> {
        let journal = self.common.store.as_ref().map(|store| &store.journal);
        let account = account(planned, division, journal, self.common.clock.started);
        self.accounts.add(Arc::clone(&account));
        account
    }

    /// Those that run and are not in the plan.
    fn all_but(&self, plan: &Plan) -> Vec<String> {
        let planned: HashSet<String> = plan.pipelines.iter().map(store::queue_name).collect();
        self.running.keys().filter(|id| !planned.contains(*id)).cloned().collect()
    }

    fn remove(&mut self, gone: &[String]) {
        for id in gone {
            let Some(running) = self.running.remove(id) else { continue };
            running.pipeline.drain(Instant::now() + self.settings.drain_timeout);
            running.pipeline.account.orphan(self.common.clock.elapsed());
            self.leaving.insert(running.task, Arc::clone(&running.pipeline.account));
        }
    }

    /// Resolves when a pipeline's task has ended although nobody asked it to.
    pub(crate) async fn failed(&mut self) {
        loop {
            let ended = match self.tasks.join_next_with_id().await {
                Some(Ok((id, ()))) => id,
                Some(Err(error)) => error.id(),
                // Nothing runs, so nothing can fail.
                None => std::future::pending().await,
            };
            match self.leaving.remove(&ended) {
                Some(account) => self.left(&account),
                None => return,
            }
        }
    }

    /// A pipeline that is gone from the plan has ended: its books are closed, unless it has returned.
    fn left(&self, account: &Account) {
        if account.orphaned_at().is_none() {
            return;
        }
        let (pipeline, Snapshot { accepted, delivered, dropped, rejected, pending, .. }) =
            (&account.id, account.books.snapshot());
        let (dropped, rejected): (u64, u64) = (dropped.values().sum(), rejected.values().sum());
        tracing::info!(pipeline, accepted, delivered, dropped, rejected, pending, "pipeline removed");
        if account.queue.is_none() {
            self.accounts.forget(&account.id);
        }
    }

    /// Tells all pipelines to finish by `deadline`.
    pub(crate) fn drain(&self, deadline: Instant) {
        self.running.values().for_each(|running| running.pipeline.drain(deadline));
    }

    /// Waits for all of them. Deliveries end by themselves at the deadline.
    pub(crate) async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Running {
    fn change(&mut self, planned: &weir_plan::Pipeline, made: Made, division: Division) {
        self.encode.resize(division.encode);
        self.pipeline.account.adopt(division.share, planned.backlog);
        self.pipeline.adjust(limits(division));
        if let Some((exporter, _)) = made {
            self.pipeline = Arc::new(self.pipeline.sending_to(planned.exporter_id(), Arc::new(exporter)));
        }
        self.plan = planned.clone();
    }
}

/// A name that is one path component: names of pipelines have no slash.
fn state_name(id: &str) -> String {
    format!("temporality-{}", id.replace('/', "-"))
}

/// A new account.
pub(crate) fn account(
    planned: &weir_plan::Pipeline,
    division: Division,
    journal: Option<&Arc<weir_journal::Journal>>,
    epoch: Instant,
) -> Arc<Account> {
    let id = store::queue_name(planned);
    let queue = journal.map(|journal| Queue::new(Arc::clone(journal), journal.queue(&id), planned.backlog));
    Arc::new(Account::new(id, planned.signal, Share::new(division.share, epoch), queue))
}

pub(crate) fn limits(division: Division) -> Limits {
    let Division { batch_bytes, in_flight: in_flight_bytes, read_back: read_back_bytes, .. } = division;
    Limits { batch_bytes, in_flight_bytes, read_back_bytes, parked_pieces: PARKED_PIECES }
}

/// The largest request taken: one that no pipeline could hold would have to be refused for ever.
fn max_request_bytes(settings: &Settings, division: Division, has_rules: bool) -> usize {
    let (wish, limit) = (settings.max_request_bytes, division.largest_request(has_rules));
    if wish > limit {
        tracing::warn!(wish, limit, "requests are limited to what each pipeline can hold; more memory allows more");
    }
    wish.min(limit)
}
