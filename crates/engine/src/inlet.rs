//! The inlet: the one way in, for every source of requests.
//!
//! Sockets (`receive`) are one kind of source. Another kind runs in the same process: it reads files, scrapes targets
//! or watches a cluster. Each source reserves memory before it has any bytes, makes a [`Request`] of them, offers it
//! and waits for the [`Verdict`]. So the promises to clients are promises to all sources. The inlet does not know where
//! requests go.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use weir_otlp::Limits;
use weir_plan::{Multiline, PipelineId, RecordShape, RuntimeMetrics, Signal};

use crate::before_books::EarlyLoss;
use crate::budget::{Budget, Holder, Permit};
use crate::buffer::{Body, Buffer};
use crate::clock::unix_nanos;
use crate::intake::Intake;
use crate::view::SourceFigures;

/// The least time that a source is asked to wait before it sends again what was refused. Memory and room become free as
/// fast as backends answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long a request may wait for room in the memory budget before it is refused.
pub(crate) const ADMIT_PATIENCE: Duration = Duration::from_millis(250);

/// Where a source in the same process offers its requests. Cheap to clone. As long as there is one, no other engine can
/// use the journal's directory.
#[derive(Debug, Clone)]
pub struct Inlet {
    intake: Arc<Intake>,
    /// Pays for what is offered here.
    budget: Budget,
}

/// A part of the memory for requests that a source may take. Cheap to clone.
#[derive(Debug, Clone)]
pub struct MemoryPart(Budget);

impl MemoryPart {
    /// Takes `bytes`; `None` when there is no room, in this part or in all of the memory. The permit can grow within the
    /// part.
    pub fn try_reserve(&self, bytes: usize) -> Option<Permit> {
        self.0.try_take(bytes)
    }

    /// The same, but waits a moment for room.
    pub async fn reserve(&self, bytes: usize) -> Option<Permit> {
        self.0.take(bytes, ADMIT_PATIENCE).await
    }

    /// All the memory of this part, in bytes.
    pub fn memory(&self) -> usize {
        self.0.capacity()
    }
}

/// Which of its inputs a pipeline takes a request from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// What clients push.
    Otlp,
    /// Metrics of nodes and workloads. Pipelines take only requests with the metrics that they want.
    Runtime(RuntimeMetrics, Added),
    /// The status of resources that configure telemetry, which all pipelines of metrics take.
    ResourceStatus,
    /// Metrics of scraped targets.
    Prometheus,
    /// What is said of these scrapes: `up` and `scrape_*`.
    PrometheusDiagnostics,
    /// Metrics of Istio's proxies about the traffic of the mesh.
    Istio,
    /// What is said of scraping the proxies.
    IstioDiagnostics,
    /// Metrics of the proxies about themselves.
    Envoy,
    /// What containers print, in requests of one container each.
    /// Pipelines take only what was made as they want it.
    ContainerLogs(RecordShape, Multiline),
}

/// What is added to resources of a source in the same process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// All that is known of the pod and its node, and a name of the service.
    All,
    /// Only what holds for the whole cluster.
    OfCluster,
}

impl InputKind {
    /// What this process collects itself: the signal, the input as specifications call it, and how its data comes.
    pub(crate) const COLLECTED: [(Signal, &'static str, &'static str); 4] = [
        (Signal::Metrics, "prometheus", "http"),
        (Signal::Metrics, "istio", "http"),
        (Signal::Metrics, "runtime", "http"),
        (Signal::Logs, "runtime", "file"),
    ];

    /// Which of these it is; `None` for what clients push.
    fn collected(self) -> Option<usize> {
        match self {
            Self::Otlp => None,
            Self::Prometheus | Self::PrometheusDiagnostics => Some(0),
            Self::Istio | Self::IstioDiagnostics | Self::Envoy => Some(1),
            Self::Runtime(..) | Self::ResourceStatus => Some(2),
            Self::ContainerLogs(..) => Some(3),
        }
    }
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// What pipelines choose by.
    pub input: InputKind,
    /// The address that it was sent from. The pod with this address is added to resources that do not say where they
    /// are from.
    pub peer: Option<IpAddr>,
}

/// A valid request, and the permit that pays for it.
#[derive(Debug)]
pub struct Request {
    pub(crate) signal: Signal,
    pub(crate) body: Body,
    pub(crate) items: u64,
    pub(crate) origin: Origin,
    /// When it arrived, in nanoseconds since the Unix epoch.
    pub(crate) unix_nanos: u64,
}

/// Why bytes are not taken as a request.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// They are not valid, or more than a request may hold.
    #[error(transparent)]
    Invalid(#[from] weir_otlp::Error),
    /// There are more of them than were reserved, and no room for so many.
    #[error("the request takes more memory than was reserved, and there is no room for that")]
    NoMemory,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every pipeline has delivered the data, has it on disk or holds it in memory.
    Secured,
    /// It cannot be taken now. Some pipelines may have delivered it or have it on disk; they get it again when the
    /// source sends it again, after this long. Sources in the same process can spare them that: [`Inlet::offer_again`].
    Refused(Obstacle, Duration),
    /// No pipeline of its signal takes from its input, or none does any more.
    NotServed,
    /// There is not enough memory to work on it now.
    NoMemory,
    /// It can only be taken in smaller parts.
    TooLarge(String),
}

/// The pipelines that have a request already which was refused because of others, or which its source does not wait for
/// any more.
#[derive(Debug, Default)]
pub struct Secured(Vec<PipelineId>);

/// What stands in the way of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// A pipeline has no room for it.
    Full,
    /// Some backend did not take it, and it cannot be written to the disk.
    DiskFails,
    /// The same, and the disk does not answer.
    DiskHangs,
    /// So many requests are being worked on that its turn did not come.
    Busy,
    /// Some of its data points came before, in a request that is not decided or was refused meanwhile.
    Repeated,
}

/// When a source may send again what was refused. Some time is added at random, so that not all return at once.
pub(crate) fn retry_after() -> Duration {
    RETRY_AFTER.mul_f64(1.0 + fastrand::f64())
}

impl Origin {
    /// A source of this process.
    pub fn of(input: InputKind) -> Self {
        Self { input, peer: None }
    }

    /// A client with this address.
    pub fn client(peer: IpAddr) -> Self {
        Self { input: InputKind::Otlp, peer: Some(peer) }
    }
}

impl Secured {
    pub(crate) fn contains(&self, pipeline: &PipelineId) -> bool {
        self.0.contains(pipeline)
    }

    pub(crate) fn add(&mut self, pipeline: &PipelineId) {
        self.0.push(pipeline.clone());
    }
}

impl Request {
    /// Makes a request of its encoded bytes, for which memory was reserved, as they arrive now.
    ///
    /// # Errors
    /// When they are not valid, or take more memory than was reserved and than there is.
    pub fn new(signal: Signal, bytes: Vec<u8>, mut permit: Permit, origin: Origin) -> Result<Self, Unfit> {
        if !permit.cover(bytes.capacity()) {
            return Err(Unfit::NoMemory);
        }
        Ok(Self::check(signal, Buffer::new(bytes, permit), origin)?)
    }

    /// Makes a request of bytes that a source in the same process has encoded itself, so that they are valid: they are
    /// not read again. It has this many `items`. The source may keep a clone of the bytes, to offer them again.
    pub fn made(signal: Signal, bytes: Bytes, items: u64, origin: Origin) -> Self {
        debug_assert_eq!(
            weir_otlp::validate(signal, &bytes, &Limits::default()).map(|counts| counts.items.into()),
            Ok(items),
            "a source makes valid requests and knows what is in them"
        );
        Self { signal, body: Body::Shared(bytes), items, origin, unix_nanos: unix_nanos() }
    }

    /// The same of bytes that carry their permit.
    pub(crate) fn check(signal: Signal, body: Buffer, origin: Origin) -> Result<Self, weir_otlp::Error> {
        let items = u64::from(weir_otlp::validate(signal, &body, &Limits::default())?.items);
        Ok(Self::valid(signal, body, items, origin))
    }

    /// Makes a request of items that were checked and counted before.
    pub(crate) fn valid(signal: Signal, body: Buffer, items: u64, origin: Origin) -> Self {
        Self { signal, body: body.into(), items, origin, unix_nanos: unix_nanos() }
    }

    /// Spans, data points or log records in it.
    pub fn items(&self) -> u64 {
        self.items
    }
}

impl Inlet {
    pub(crate) fn new(intake: Arc<Intake>, holder: Holder) -> Self {
        let budget = intake.budget().held_by(holder);
        Self { intake, budget }
    }

    /// Whether some pipeline of this signal takes from this input. Another plan may change that at any time.
    pub fn is_open(&self, signal: Signal, input: InputKind) -> bool {
        self.intake.serves(signal, input)
    }

    /// The largest request that is taken now, in bytes.
    pub fn max_request_bytes(&self) -> usize {
        self.intake.max_request_bytes()
    }

    /// Reserves memory for `bytes` of a request that is yet to be made. Waits a moment for room; `None` when there is
    /// none, or when too many wait already. The source shall come back later then, and hold on to nothing meanwhile.
    pub async fn reserve(&self, bytes: usize) -> Option<Permit> {
        self.budget.take(bytes, ADMIT_PATIENCE).await
    }

    /// The same without waiting.
    pub fn try_reserve(&self, bytes: usize) -> Option<Permit> {
        self.budget.try_take(bytes)
    }

    /// A part of the memory for requests, for what a source has to remember: all that is taken from it is at most `bytes`.
    pub fn memory_part(&self, bytes: usize) -> MemoryPart {
        MemoryPart(self.budget.within(bytes))
    }

    /// All the memory that there is for requests, in bytes.
    pub fn memory(&self) -> usize {
        self.budget.capacity()
    }

    /// Lets a source tell of itself, for the metrics: it changes its own part of the figures.
    pub fn report(&self, change: impl FnOnce(&mut SourceFigures)) {
        change(&mut self.intake.sources.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Counts items that these pipelines would have got, and that were lost before they came into any books. Pipelines
    /// that are not in the plan any more are left out.
    pub fn lost_early(&self, pipelines: &[PipelineId], items: u64, why: EarlyLoss) {
        self.intake.lost_early(pipelines, items, why);
    }

    /// The same of a valid request of so many items that will not be offered again, for all pipelines that would have
    /// taken some of it. Those in `secured` have it. Returns whether there is anybody else: if not, nothing is lost.
    ///
    /// A request that was never made may be stood for by one with its resource and without items.
    pub fn lost_request(
        &self,
        of: (Signal, InputKind),
        request: &[u8],
        lost: (u64, EarlyLoss),
        secured: &Secured,
    ) -> bool {
        self.intake.lost_request(of, request, lost, secured)
    }

    /// Offers a request to every pipeline that takes it, and waits until its data is safe or refused. A source that
    /// stops waiting does not learn what becomes of the request. It is kept all the same where that costs nothing.
    pub async fn offer(&self, request: Request) -> Verdict {
        self.offer_to(request, None).await
    }

    /// The same for a request that may be offered several times: pipelines in `secured` do not get it again, and those
    /// that have it after this time are added. When the source stops waiting, those are added that have delivered it
    /// by then, or keep it.
    pub async fn offer_again(&self, request: Request, secured: &mut Secured) -> Verdict {
        self.offer_to(request, Some(secured)).await
    }

    async fn offer_to(&self, request: Request, secured: Option<&mut Secured>) -> Verdict {
        let (bytes, most) = (request.body.len(), self.max_request_bytes());
        if request.items == 0 {
            return Verdict::Secured;
        }
        if bytes > most {
            return Verdict::TooLarge(format!("{bytes} bytes, the limit is {most}"));
        }
        let (items, collected) = (request.items, request.origin.input.collected());
        let verdict = self.intake.accept(request, secured).await;
        if let (Verdict::Secured, Some(input)) = (&verdict, collected) {
            self.intake.collected[input].fetch_add(items, Ordering::Relaxed);
        }
        verdict
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.intake.is_draining()
    }
}
