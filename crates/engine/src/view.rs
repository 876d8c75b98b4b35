//! All figures of a running engine, as plain data. Metrics and pages, those from outside included, read this and
//! nothing else of the engine.
//!
//! A [`Snapshot`] is read pipeline by pipeline. The books of each pipeline are copied under their lock, so their equation
//! holds in every snapshot. Other figures may be an instant older or younger than the books beside them.
//!
//! A snapshot has all pipelines at once, because metrics are written one after the other, each for all pipelines, and
//! have to show one state. It is paid for: at first from what is set aside for pages, then from what payloads have.
//! Samples of what was lost are not in it. They are telemetry, and large, so they are given for one pipeline at a time.

mod admission;
mod container_logs;
mod journal;
mod memory;
mod pipeline;
mod receivers;
mod sources;

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

pub use crate::before_books::BeforeBooks;
pub use crate::books::BookFigures;
pub use crate::division::RequestLimits;
pub use crate::export::{ClientCertificate, CodeFigures, CredentialFigures, Expiry};
pub use crate::histogram::HistogramFigures;
pub use crate::pipeline::{AnswerFigures, BackendFigures, BackendState, Ending, RetryFigures};
pub use crate::process::ProcessFigures;
pub use crate::receive::Lack;
pub use crate::reloads::ReloadFigures;
pub use crate::samples::Sample;
pub use admission::AdmissionFigures;
pub use container_logs::ContainerLogFigures;
pub use journal::JournalFigures;
pub use memory::{HolderFigures, MemoryFigures, PartFigures};
pub use pipeline::{BacklogFigures, DeltaFigures, OrphanFigures, PipelineFigures, RuleFigures};
pub use receivers::{CollectedFigures, ReceiverFigures, TransportFigures};
pub use sources::{ScrapeFigures, SourceFigures, WatchFigures};
use weir_plan::PipelineId;

use crate::account::Account;
use crate::accounts::Accounts;
use crate::budget::{Budget, Funds, Permit};
use crate::clock::Clock;
use crate::intake::{Intake, Routes};
use crate::process;
use crate::receive::{Reason, ReceiverStats};
use crate::reloads::Reloads;
use crate::samples::Lost;
use crate::taps::{RecentItems, Search, Sought, TapError};
pub(crate) use memory::Budgets;

/// Whether a request would be taken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It would.
    Ready,
    /// It would not, for now.
    Refusing,
    /// It would not: the engine is shutting down.
    Draining,
}

impl Health {
    /// `refused`: why a small request would not be taken.
    fn of(refused: Option<Reason>) -> Self {
        match refused {
            None => Self::Ready,
            Some(Reason::Draining) => Self::Draining,
            Some(_) => Self::Refusing,
        }
    }

    /// As the health check calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Refusing => "refusing",
            Self::Draining => "draining",
        }
    }
}

/// An engine as it was at one time.
#[derive(Debug)]
pub struct Snapshot {
    /// Since the engine started.
    pub uptime: Duration,
    /// Whether a request would be taken.
    pub health: Health,
    /// What came from clients.
    pub receivers: ReceiverFigures,
    /// The pipelines of the plan.
    pub pipelines: Vec<PipelineFigures>,
    /// Pipelines that are not, or no longer, in the plan, but have books or a backlog.
    pub orphans: Vec<OrphanFigures>,
    /// Who has which part of the memory.
    pub memory: MemoryFigures,
    /// `None` without a data directory.
    pub journal: Option<JournalFigures>,
    /// What sources in this process tell of themselves. The others are as of now; this is as of a second ago, or less.
    pub sources: SourceFigures,
    /// How taking up configurations went.
    pub reloads: ReloadFigures,
    /// What the process uses.
    pub process: ProcessFigures,
    _paid: Permit,
}

/// Takes snapshots of an engine. Cheap to clone. After the engine has ended, it shows the last figures that there were.
#[derive(Debug, Clone)]
pub struct View(Arc<Owners>);

/// Those who have the figures.
#[derive(Debug)]
pub(crate) struct Owners {
    pub(crate) intake: Arc<Intake>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) receivers: Arc<ReceiverStats>,
    pub(crate) reloads: Arc<Reloads>,
    pub(crate) budgets: Budgets,
    pub(crate) clock: Clock,
    /// What pays for snapshots.
    pub(crate) funds: Funds,
}

impl View {
    pub(crate) fn new(owners: Owners) -> Self {
        Self(Arc::new(owners))
    }

    /// Everything as it is now; the memory for it is paid for until it is dropped. `None` when there is no room for it.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.0.funds.find(|budget| self.0.snapshot(budget))
    }

    /// Whether a request would be taken now. Needs no memory.
    pub fn health(&self) -> Health {
        Health::of(self.0.refusal())
    }

    /// The last samples of what each pipeline has lost so, the newest first. Whoever keeps them keeps memory that was set
    /// aside for the samples of their pipeline.
    pub(crate) fn lost(&self, lost: Lost) -> impl Iterator<Item = (PipelineId, Vec<Arc<Sample>>)> + use<> {
        let routes = self.0.intake.routes();
        let pipelines = (0..routes.routes.len()).map(move |at| Arc::clone(&routes.routes[at].pipeline));
        pipelines.map(move |pipeline| {
            let samples = match lost {
                Lost::Rejected => &pipeline.stats.samples,
                Lost::Dropped => &pipeline.account.given_up,
            };
            (pipeline.account.id.clone(), samples.list())
        })
    }

    /// The recent items of a pipeline; `None` if there is no such pipeline. Whoever keeps it keeps memory that was set aside
    /// for it.
    pub fn recent(&self, pipeline: &PipelineId) -> Option<RecentItems> {
        let routes = self.0.intake.routes();
        let route = routes.to(pipeline)?;
        Some(RecentItems { recovered: route.pipeline.account.recovered.list(), ..route.recent.lists() })
    }

    /// A search through what these pipelines are owed on the disk; `None` without a data directory.
    ///
    /// # Errors
    /// A text that cannot be looked for, another search, or no memory.
    pub fn search(&self, sought: &Sought, is_meant: &dyn Fn(&PipelineId) -> bool) -> Option<Result<Search, TapError>> {
        let store = self.0.intake.store()?;
        Some(self.0.intake.taps().search((&store.journal, &store.reads), sought, is_meant))
    }
}

/// What each account costs while a snapshot is taken: its places in lists.
const LISTED_BYTES: usize = 64;

impl Owners {
    fn snapshot(&self, budget: &Budget) -> Option<Snapshot> {
        // This comes first, so that a snapshot does not show its own cost.
        let refused = self.refusal();
        let memory = self.budgets.figures(&self.intake, refused);
        let routes = self.intake.routes();
        // This comes after the routes and has all accounts, so that no pipeline is missed that leaves or comes
        // meanwhile.
        let accounts = self.accounts.all();
        let (all, planned) = (accounts.len(), routes.routes.len());
        let places = planned * size_of::<PipelineFigures>() + all.saturating_sub(planned) * size_of::<OrphanFigures>();
        let mut paid = budget.try_take(places + all * LISTED_BYTES)?;
        let pipelines = self.pipelines(&routes, &mut paid)?;
        let orphans = self.orphans(&routes, &accounts, &mut paid)?;
        let sources = self.sources(&mut paid)?;
        Some(Snapshot {
            uptime: self.clock.started.elapsed(),
            health: Health::of(refused),
            receivers: ReceiverFigures::of(&self.receivers, &self.intake),
            pipelines,
            orphans,
            memory,
            journal: self.intake.store().map(JournalFigures::of),
            sources,
            reloads: self.reloads.figures(),
            process: process::figures(),
            _paid: paid,
        })
    }

    /// What each pipeline costs beside its place is known, and paid for, only when it is there. So they come one at a
    /// time.
    fn pipelines(&self, routes: &Routes, paid: &mut Permit) -> Option<Vec<PipelineFigures>> {
        let mut pipelines = Vec::with_capacity(routes.routes.len());
        for route in &routes.routes {
            let figures = PipelineFigures::of(route, self.clock);
            paid.grow(figures.heap()).then(|| pipelines.push(figures))?;
        }
        Some(pipelines)
    }

    fn orphans(&self, routes: &Routes, all: &[Arc<Account>], paid: &mut Permit) -> Option<Vec<OrphanFigures>> {
        let taken: HashSet<_> = routes.routes.iter().map(|route| Arc::as_ptr(&route.pipeline.account)).collect();
        let mut orphans = Vec::with_capacity(all.len().saturating_sub(taken.len()));
        for account in all.iter().filter(|account| !taken.contains(&Arc::as_ptr(account))) {
            let figures = OrphanFigures::of(account, self.clock);
            paid.grow(figures.heap()).then(|| orphans.push(figures))?;
        }
        Some(orphans)
    }

    fn sources(&self, paid: &mut Permit) -> Option<SourceFigures> {
        let told = self.intake.sources.lock().unwrap_or_else(PoisonError::into_inner);
        paid.grow(told.heap()).then(|| told.clone())
    }

    /// Why a small request would be refused now; `None` if it would be taken.
    fn refusal(&self) -> Option<Reason> {
        let intake = &self.intake;
        let reasons = [
            (intake.is_draining(), Reason::Draining),
            (!intake.has_memory(), Reason::NoMemory),
            // Nobody takes what there is no pipeline for.
            (intake.routes().routes.is_empty(), Reason::Unsupported),
            (!intake.has_room(), Reason::Full),
            (intake.needs_broken_store(), Reason::Disk),
        ];
        reasons.into_iter().find_map(|(is_so, reason)| is_so.then_some(reason))
    }
}
