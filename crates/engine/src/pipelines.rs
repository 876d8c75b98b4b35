//! All pipelines of a running engine, and how a plan changes them.
//!
//! Only what differs is touched. A pipeline whose output changed goes on with the new backend, one whose limits or
//! rules changed with the new ones; what is in flight, queued or in the journal stays where it is. A pipeline that is
//! gone delivers what it can; the rest waits in the journal in case the pipeline comes back.
//!
//! What cannot be set up concerns its own pipeline only. The pipeline keeps the backend or the rules that it has.
//! Without any backend yet, it takes data, which waits until there is one; without any rules yet, it takes nothing.

mod remembered;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use weir_enrich::{Enricher, Pods};
use weir_legible::line;
use weir_plan::{Body, PipelineId, Plan, Protocol};

use crate::account::{Account, JournalQueue};
use crate::accounts::Accounts;
use crate::books::BookFigures;
use crate::budget::Budget;
use crate::division::{COMPRESSORS, Copies, Division, PAYLOADS, READ_BACK, REQUESTS, RequestLimits};
use crate::export::{self, Backend, BackendLimits, SetupError, Unusable};
use crate::intake::{Intake, Route, Routes, Selection};
use crate::pipeline::{Common, Limits, MAX_IN_FLIGHT, Pipeline};
use crate::rules::{Delta, Memory, Rules};
use crate::settings::Settings;
use crate::share::Share;
use crate::taps::Recent;
use crate::view::Budgets;

use remembered::Remembered;

/// What is kept of why a pipeline cannot be set up, in characters.
const MAX_CAUSE: usize = 1000;

/// What a plan changed. Names are those of journal queues: `traces/backend`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Pipelines that were not there before.
    pub added: Vec<PipelineId>,
    /// Pipelines that differ from before.
    pub changed: Vec<PipelineId>,
    /// Pipelines that are gone.
    pub removed: Vec<PipelineId>,
    /// What cannot be set up as planned.
    pub faults: Vec<SetupError>,
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
    /// Facts about the cluster change without a plan.
    pods: Arc<dyn Pods>,
    running: BTreeMap<PipelineId, Running>,
    /// Pays for what the exporters of all of them encode.
    encode: Budget,
    /// Pays for the compressors of all of them.
    encoders: Budget,
    /// One for each that runs, and for each that is leaving.
    tasks: JoinSet<()>,
    /// Those that are gone from the plan and have not ended yet.
    leaving: HashMap<Id, Running>,
    remembered: Remembered,
    /// How the memory is divided now, to be shown.
    divided: Arc<Mutex<Division>>,
    /// The limit on requests that the log mentioned last.
    said_limit: Option<usize>,
}

/// A pipeline as it runs.
#[derive(Debug)]
struct Running {
    plan: weir_plan::Pipeline,
    pipeline: Arc<Pipeline>,
    /// What its exporters have.
    limits: BackendLimits,
    task: Id,
    /// Something of the plan cannot be set up. The next plan tries it again.
    faulty: bool,
}

/// What has to be made for a pipeline of a plan; `None` if it has what it needs.
type Made = Option<(Result<Arc<dyn Backend>, SetupError>, BackendLimits)>;

/// The rules of a pipeline, if it has any; an error when they cannot be compiled.
type Compiled = Result<Option<Arc<Rules>>, SetupError>;

impl Pipelines {
    pub(crate) fn new(
        settings: Settings,
        common: Common,
        accounts: Arc<Accounts>,
        intake: Arc<Intake>,
        pods: Arc<dyn Pods>,
    ) -> Self {
        let (running, tasks, leaving) = (BTreeMap::new(), JoinSet::new(), HashMap::new());
        let division = Division::new(&settings, [], 0);
        let (encode, encoders) = (Budget::for_encoding(division.encode), Budget::for_encoding(division.encoders));
        let remembered = Remembered::new(settings.state.clone(), common.budget.clone());
        let divided = Arc::new(Mutex::new(division));
        Self {
            settings,
            common,
            accounts,
            intake,
            pods,
            running,
            encode,
            encoders,
            tasks,
            leaving,
            remembered,
            divided,
            said_limit: None,
        }
    }

    /// What there is to see of the memory: these budgets, and those of the pipelines.
    pub(crate) fn budgets(&self, others: [(&'static str, Budget); 2]) -> Budgets {
        let Common { budget, read_back, .. } = &self.common;
        let own = [(PAYLOADS, budget), (READ_BACK, read_back), (REQUESTS, &self.encode), (COMPRESSORS, &self.encoders)];
        let own = own.map(|(holder, budget)| (holder, budget.clone()));
        let budgets = own.into_iter().chain(others).collect();
        Budgets { total: self.settings.memory, division: Arc::clone(&self.divided), budgets }
    }

    /// Makes the pipelines what `plan` says, as far as they can be set up.
    pub(crate) fn apply(&mut self, plan: &Plan) -> Changes {
        let gone = self.all_but(plan);
        let alone = Division::new(&self.settings, &plan.pipelines, 0);
        // Pipelines that leave use what they have until they have ended.
        let division = Division::new(&self.settings, &plan.pipelines, self.leaving.len() + gone.len());
        let made: Vec<_> = plan.pipelines.iter().map(|pipeline| self.make(pipeline, division)).collect();
        let rules = self.compile(plan, division);
        let mut changes = Changes::default();
        self.common.limits = limits(division);
        let before = self.intake.routes();
        let mut routes = Vec::with_capacity(plan.pipelines.len());
        for ((planned, made), rules) in plan.pipelines.iter().zip(made).zip(rules) {
            routes.extend(self.take_up(planned, (made, rules), division, &before, &mut changes));
        }
        let enricher = Enricher::new(plan.enrichment.clone(), Arc::clone(&self.pods));
        let routes = Routes { enricher, routes };
        // What does not fit beside the pipelines that are leaving may come again when they have ended.
        let limits = self.request_limits(alone, routes.copies());
        self.intake.set_routes(routes, limits);
        forget_series(&before, &self.intake.routes());
        self.share_out(division);
        self.remove(&gone);
        changes.removed = gone;
        changes
    }

    /// Makes one pipeline run as planned, as far as it can be set up. Returns the way that its requests go.
    fn take_up(
        &mut self,
        planned: &weir_plan::Pipeline,
        (made, rules): (Made, Compiled),
        division: Division,
        before: &Routes,
        changes: &mut Changes,
    ) -> Option<Route> {
        let (id, faults) = (planned.id.clone(), changes.faults.len());
        match self.running.get_mut(&id) {
            Some(running) => {
                if running.plan != *planned {
                    changes.changed.push(id.clone());
                }
                changes.faults.extend(running.change(planned, made, division));
            }
            None => {
                changes.faults.extend(self.add(planned, made, division));
                changes.added.push(id.clone());
            }
        }
        let running = self.running.get_mut(&id)?;
        let pipeline = Arc::clone(&running.pipeline);
        let room = division.recent - pipeline.account.recovered.fit(division.recent);
        let new = || Arc::new(Recent::within(room));
        let route = match rules {
            Ok(rules) => {
                let recent = before.to(&id).filter(|before| has_same_rules(before.rules.as_ref(), rules.as_ref()));
                let recent = recent.map_or_else(new, |before| Arc::clone(&before.recent));
                Route { pipeline, selection: Selection::new(&planned.input), rules, recent }
            }
            Err(fault) => {
                changes.faults.push(fault);
                match before.to(&id) {
                    Some(before) => Route { pipeline, ..before.clone() },
                    None => Route { pipeline, selection: Selection::nothing(), rules: None, recent: new() },
                }
            }
        };
        running.set_faults(changes.faults.get(faults..).unwrap_or_default());
        Some(route)
    }

    /// Each gets its part of the memory.
    fn share_out(&mut self, division: Division) {
        *self.divided.lock().unwrap_or_else(PoisonError::into_inner) = division;
        self.common.limits = limits(division);
        self.common.budget.resize(division.payloads);
        self.common.read_back.resize(division.read_back * division.pipelines);
        self.common.oversized.resize(division.oversized());
        self.encode.resize(division.encode * division.pipelines);
        self.running.values().chain(self.leaving.values()).for_each(|running| running.resize(division));
        let routes = self.intake.routes();
        routes.deltas().for_each(|(_, delta)| delta.resize(division.series));
        for route in &routes.routes {
            let recovered = route.pipeline.account.recovered.fit(division.recent);
            route.recent.resize(division.recent - recovered);
        }
    }

    /// How large a request may be. One for which there can never be room would otherwise be refused for ever.
    fn request_limits(&mut self, division: Division, copies: Copies) -> RequestLimits {
        let limits = division.request_limits(self.settings.max_request_bytes, copies);
        let (wish, limit) = (limits.configured, limits.largest());
        if wish > limit && self.said_limit.is_none_or(|said| limit < said) {
            self.said_limit = Some(limit);
            tracing::info!(
                wish,
                limit,
                "requests are limited to what there is room for in all pipelines; more memory allows more"
            );
        }
        limits
    }

    /// The rules of every pipeline. What a converter remembers goes over to its successor.
    fn compile(&self, plan: &Plan, division: Division) -> Vec<Compiled> {
        let (before, unix_nanos) = (self.intake.routes(), self.common.clock.now_ms().saturating_mul(1_000_000));
        let compile = |planned: &weir_plan::Pipeline| {
            let id = planned.id.clone();
            let route = before.to(&id);
            // Filters of Fluent Bit work on records as the output has them.
            let is_same = |plan: &weir_plan::Pipeline| {
                (&plan.processing, &plan.output.body) == (&planned.processing, &planned.output.body)
            };
            let unchanged = |running: &Running| !running.faulty && is_same(&running.plan);
            if let Some(route) = route.filter(|_| self.running.get(&id).is_some_and(unchanged)) {
                return Ok(route.rules.clone());
            }
            let before = route.and_then(|route| route.rules.as_deref());
            let memory = Memory { before: before.and_then(|rules| rules.delta.as_ref()), bytes: division.series };
            let restore = || self.remembered.read(&id);
            let rules = Rules::compile(planned, memory, &restore, unix_nanos);
            let fail = |cause| SetupError { pipeline: planned.id.clone(), cause };
            Ok(rules.map_err(fail)?.map(Arc::new))
        };
        plan.pipelines.iter().map(compile).collect()
    }

    /// What cannot be set up as the last plan has it.
    pub(crate) fn faults(&self) -> Vec<SetupError> {
        let fault = |(id, running): (&PipelineId, &Running)| {
            let cause = running.pipeline.stats.setup_error()?;
            Some(SetupError { pipeline: id.clone(), cause })
        };
        self.running.iter().filter_map(fault).collect()
    }

    /// Requests are taken from now on.
    pub(crate) async fn begin(&mut self) {
        self.remembered.begin(&self.intake.routes(), self.common.clock.now_ms().saturating_mul(1_000_000)).await;
    }

    /// Writes down what is remembered of metric series. Call this when nothing is converted any more.
    pub(crate) async fn remember(&self, deadline: Instant) {
        self.remembered.write(self.intake.routes(), deadline).await;
    }

    /// An exporter where one is needed.
    fn make(&self, planned: &weir_plan::Pipeline, division: Division) -> Made {
        let running = self.running.get(&planned.id);
        if running.is_some_and(|running| !running.faulty && running.plan.output == planned.output) {
            return None;
        }
        let new = || BackendLimits::new(self.encode.within(division.encode), division.backend_connections);
        let limits = running.map_or_else(new, |running| running.limits.clone());
        Some((export::backend(planned, &limits, self.encoders.clone(), &self.settings.proxy), limits))
    }

    /// A pipeline that is not running. If its backend cannot be set up, its data waits.
    fn add(&mut self, planned: &weir_plan::Pipeline, made: Made, division: Division) -> Option<SetupError> {
        // For a pipeline that is not running, everything has been made.
        let (backend, limits) = made?;
        let (backend, fault): (Arc<dyn Backend>, _) = match backend {
            Ok(backend) => (backend, None),
            Err(fault) => (Arc::new(Unusable(fault.to_string())), Some(fault)),
        };
        let returns = self.accounts.adopt(&planned.id, division.share, planned.backlog);
        let account = returns.unwrap_or_else(|| self.open_account(planned, division));
        // Before the pipeline reads anything.
        account.recovered.fit(division.recent);
        let common = Common { limits: limits_of(planned, division), ..self.common.clone() };
        let (pipeline, delivery) = Pipeline::new(planned.exporter_label(), account, backend, common);
        let task = self.tasks.spawn(delivery).id();
        let running = Running { plan: planned.clone(), pipeline: Arc::new(pipeline), limits, task, faulty: false };
        self.running.insert(planned.id.clone(), running);
        fault
    }

    fn open_account(&self, planned: &weir_plan::Pipeline, division: Division) -> Arc<Account> {
        let journal = self.common.store.as_ref().map(|store| &store.journal);
        open_account(&self.accounts, planned, (division, self.common.clock.started), journal)
    }

    /// Those that run and are not in the plan.
    fn all_but(&self, plan: &Plan) -> Vec<PipelineId> {
        let planned: HashSet<&PipelineId> = plan.pipelines.iter().map(|pipeline| &pipeline.id).collect();
        self.running.keys().filter(|id| !planned.contains(id)).cloned().collect()
    }

    /// Gives those that are leaving their time, unless there are more pipelines than there is memory for.
    fn remove(&mut self, gone: &[PipelineId]) {
        let now = Instant::now();
        let crowded = self.running.len() + self.leaving.len() > self.settings.most_pipelines();
        let deadline = if crowded { now } else { now + self.settings.drain_timeout };
        if crowded {
            self.leaving.values().for_each(|running| running.pipeline.drain(now));
        }
        for id in gone {
            let Some(running) = self.running.remove(id) else { continue };
            running.pipeline.drain(deadline);
            running.pipeline.account.orphan(self.common.clock.elapsed());
            self.leaving.insert(running.task, running);
        }
    }

    /// Resolves when a pipeline's task has ended although nobody asked it to. Returns which pipeline it was.
    pub(crate) async fn failed(&mut self) -> Option<PipelineId> {
        loop {
            let ended = match self.tasks.join_next_with_id().await {
                Some(Ok((id, ()))) => id,
                Some(Err(error)) => error.id(),
                // Nothing runs, so nothing can fail.
                None => std::future::pending().await,
            };
            let Some(left) = self.leaving.remove(&ended) else {
                let mut running = self.running.values();
                return running.find(|running| running.task == ended).map(|running| running.plan.id.clone());
            };
            say_left(&left.pipeline.account);
            // The others get what it used.
            let plan = self.running.values().map(|running| &running.plan);
            self.share_out(Division::new(&self.settings, plan, self.leaving.len()));
        }
    }

    /// Tells all pipelines to finish by `deadline`.
    pub(crate) fn drain(&self, deadline: Instant) {
        self.running.values().for_each(|running| running.pipeline.drain(deadline));
    }

    /// Waits for all of them. Deliveries end by themselves at the deadline.
    pub(crate) async fn ended(&mut self) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
            if let Some(left) = self.leaving.remove(&id) {
                say_left(&left.pipeline.account);
            }
        }
    }

    /// Ends all of them where they are.
    pub(crate) async fn end(&mut self) {
        self.tasks.abort_all();
        self.ended().await;
    }
}

impl Running {
    fn resize(&self, division: Division) {
        self.limits.resize(division);
        self.pipeline.account.share.set_limit(division.share);
        self.pipeline.adjust(limits_of(&self.plan, division));
    }

    /// Changes a running pipeline. If the new backend cannot be set up, the old one stays.
    fn change(&mut self, planned: &weir_plan::Pipeline, made: Made, division: Division) -> Option<SetupError> {
        self.pipeline.account.adopt(division.share, planned.backlog);
        self.plan = planned.clone();
        match made?.0 {
            Ok(backend) => {
                self.pipeline = Arc::new(self.pipeline.sending_to(planned.exporter_label(), backend));
                None
            }
            Err(fault) => Some(fault),
        }
    }

    fn set_faults(&mut self, faults: &[SetupError]) {
        self.faulty = !faults.is_empty();
        let causes: Vec<_> = faults.iter().map(|fault| fault.cause.as_str()).collect();
        let error = self.faulty.then(|| line(&causes.join("; "), MAX_CAUSE));
        self.pipeline.stats.set_setup_error(error);
    }
}

/// A pipeline that is gone from the plan has ended. Its books are closed, unless it has returned.
fn say_left(account: &Account) {
    if account.orphaned_at().is_none() {
        return;
    }
    let (pipeline, BookFigures { accepted, delivered, dropped, rejected, pending, .. }) =
        (&account.id, account.books.figures());
    account.books.losses().say_all();
    let (dropped, rejected): (u64, u64) = (dropped.values().sum(), rejected.values().sum());
    tracing::info!(%pipeline, accepted, delivered, dropped, rejected, pending, "pipeline removed");
}

/// A new account, among the others.
pub(crate) fn open_account(
    accounts: &Accounts,
    planned: &weir_plan::Pipeline,
    (division, epoch): (Division, Instant),
    journal: Option<&Arc<weir_journal::Journal>>,
) -> Arc<Account> {
    let id = planned.id.clone();
    let queue =
        journal.map(|journal| JournalQueue::new(Arc::clone(journal), journal.queue(&id.to_string()), planned.backlog));
    accounts.open(id, Share::new(division.share, epoch), queue)
}

pub(crate) fn limits(division: Division) -> Limits {
    let Division { batch_bytes, in_flight: in_flight_bytes, read_back: read_back_bytes, .. } = division;
    let Division { pieces, halves, samples, .. } = division;
    let requests = MAX_IN_FLIGHT;
    Limits { batch_bytes, in_flight_bytes, read_back_bytes, pieces, halves, samples, requests }
}

/// Over HTTP/1.1 each request needs a connection of its own.
fn limits_of(planned: &weir_plan::Pipeline, division: Division) -> Limits {
    let limits = match planned.output.protocol {
        Protocol::Http => Limits { requests: division.backend_connections, ..limits(division) },
        Protocol::Grpc => limits(division),
    };
    match planned.output.body {
        Body::Otlp => limits,
        Body::FluentBit(_) => {
            let most = (division.encode / FLUENT_BIT_GROWS).clamp(FLUENT_BIT_BYTES.start, FLUENT_BIT_BYTES.end);
            Limits { batch_bytes: limits.batch_bytes.min(most), ..limits }
        }
    }
}

/// A record of Fluent Bit repeats the facts about its pod. It may be this many times as large as in OTLP, together with
/// what is made of it to compress it, before a request is halved.
const FLUENT_BIT_GROWS: usize = 12;

/// Bytes of OTLP in one request to a server of Fluent Bit's records. Fluent Bit sends up to 2 MB.
const FLUENT_BIT_BYTES: Range<usize> = 16 << 10..1 << 20;

/// Whether a pipeline has the rules that it had before.
fn has_same_rules(before: Option<&Arc<Rules>>, now: Option<&Arc<Rules>>) -> bool {
    before.map(Arc::as_ptr) == now.map(Arc::as_ptr)
}

/// A converter that is not used any more lives as long as one of its conversions may be taken back. Its memory is that
/// of the converters there are now.
fn forget_series(before: &Routes, now: &Routes) {
    let is_used = |delta: &Delta| now.deltas().any(|(_, other)| other.is(delta));
    before.deltas().filter(|(_, delta)| !is_used(delta)).for_each(|(_, delta)| delta.resize(0));
}
