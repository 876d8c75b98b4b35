//! Runtime metrics again and again, for as long as a pipeline wants them.

use std::fmt::{self, Write};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{self, JoinHandle};
use tokio::time::{Instant, MissedTickBehavior, interval};
use weir_engine::{Added, EarlyLoss, Inlet, InputKind, Secured, unix_nanos};
use weir_legible::{Seldom, names};
use weir_plan::{ClusterObject, ClusterState, ObjectState, PipelineId, Plan, ResourceAmounts, RuntimeMetrics, Signal};

use super::client::{AskError, Client, Kubelet, Page};
use super::draft::{Draft, EstimateTooSmall, REQUEST_BYTES};
use super::kubelet::{self, Pages};
use super::{cluster, resource_status};
use crate::board::TargetBoard;
use crate::download::clipped;
use crate::inlet::{Loss, Lost, Made, deliver, reserve};

/// The scopes of metrics, which are those of Kyma's agent and gateway.
const SCOPE: &str = "io.kyma-project.telemetry/runtime";
const SCOPE_OF_STATUS: &str = "io.kyma-project.telemetry/kyma";

/// A kubelet has at most so long for a page, and no longer than the interval.
const PATIENCE: Duration = Duration::from_secs(10);

const SUMMARY: &str = "/stats/summary";
const PODS: &str = "/pods";

/// What is made of an object of a page at most, beside its texts. A container has an object for each thing that is
/// measured of it.
const PER_MEASURED: usize = 2 << 10;

/// What is made of an object of the cluster, of a part of it, or of a resource at most, beside its own texts.
const PER_OBJECT: usize = 4 << 10;

/// So many objects of a cluster become metrics at a time, in one request.
const OBJECTS_AT_A_TIME: usize = REQUEST_BYTES / PER_OBJECT;

/// Who may speak for the cluster, asked each time.
#[derive(Clone)]
pub struct Speaks(Arc<dyn Fn() -> bool + Send + Sync>);

impl Speaks {
    /// `now`: whether this process does at this moment.
    pub fn when(now: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    fn now(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Speaks").field(&self.now()).finish()
    }
}

/// What is looked at.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The kubelet of this node.
    pub kubelet: Option<Kubelet>,
    /// Whether this process makes the metrics of which a cluster needs one of each: of its objects, and of the status of
    /// resources. `None`: never.
    pub of_cluster: Option<Speaks>,
}

/// Makes runtime metrics until it is stopped.
#[derive(Debug)]
pub struct RuntimeAgent {
    wanted: watch::Sender<Wanted>,
    tasks: Vec<JoinHandle<()>>,
}

/// What pipelines want, and what there is to tell.
#[derive(Debug, Clone)]
struct Wanted {
    /// Each wish once.
    wishes: Vec<RuntimeMetrics>,
    /// Pipelines of metrics, and whether each has a wish. The status of resources goes to all of them.
    pipelines: Vec<(PipelineId, bool)>,
    interval: Duration,
    state: Arc<ClusterState>,
}

/// One source of metrics.
#[derive(Debug)]
enum Source {
    Kubelet(Box<Watcher>),
    Cluster(Speaks),
}

/// Looks at a source again and again.
#[derive(Debug)]
struct Loop {
    inlet: Inlet,
    source: Source,
    unsaid: Unsaid,
    loss_reported: Seldom,
}

/// What was lost, of which the log says nothing yet.
#[derive(Debug, Default)]
struct Unsaid {
    lost: Option<Lost>,
    /// How many looks lost something.
    looks: u64,
    /// The pipelines that take from the source.
    pipelines: String,
}

/// Asks a kubelet.
#[derive(Debug)]
struct Watcher {
    client: Client,
    url: String,
    /// Where it is shown how the kubelet is reached.
    board: TargetBoard,
    /// For which inputs metrics were made last, with their data points.
    last_made: Vec<(InputKind, u64)>,
    /// What the log says is wrong.
    told: Option<String>,
    failure_reported: Seldom,
}

/// Why there are no metrics of a kubelet.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the page {0} is not what a kubelet writes: {1}")]
    Page(&'static str, String),
    #[error("no room in --memory for what becomes of the pages, up to {0} bytes: give Weir more memory")]
    NoMemory(usize),
    #[error(transparent)]
    Estimate(#[from] EstimateTooSmall),
    #[error("the pages made their reader fail ({0}): this is a bug in weir")]
    Work(String),
}

impl LookError {
    /// Why pipelines have nothing of what the kubelet has; `None` if that is for no limit of Weir's own.
    fn early(&self) -> Option<EarlyLoss> {
        match self {
            Self::NoMemory(_) | Self::Ask(AskError::NoMemory { .. }) => Some(EarlyLoss::NoMemory),
            Self::Ask(AskError::TooLarge { .. }) => Some(EarlyLoss::TooLarge),
            _ => None,
        }
    }
}

impl Wanted {
    fn new(plan: &Plan, state: Arc<ClusterState>) -> Self {
        let (mut wishes, mut pipelines): (Vec<RuntimeMetrics>, _) = (Vec::new(), Vec::new());
        for pipeline in plan.pipelines.iter().filter(|pipeline| pipeline.id.signal == Signal::Metrics) {
            let wish = pipeline.input.runtime.as_ref().map(|runtime| runtime.metrics);
            let wish = wish.filter(|metrics| !metrics.is_empty());
            pipelines.push((pipeline.id.clone(), wish.is_some()));
            let new = wish.filter(|metrics| !wishes.contains(metrics));
            wishes.extend(new);
        }
        Self { wishes, pipelines, interval: plan.intervals.runtime, state }
    }

    /// The pipelines that take from a source, for the log.
    fn takers(&self, is_cluster: bool) -> String {
        names(self.pipelines.iter().filter(|(_, has_wish)| *has_wish || is_cluster).map(|(id, _)| id))
    }

    /// What a node has, if that is known.
    fn capacity(&self, node: &str) -> ResourceAmounts {
        let mut nodes = self.state.objects.iter().filter_map(|object| match object {
            ClusterObject { name, state: ObjectState::Node(state), .. } if name == node => Some(state.capacity),
            _ => None,
        });
        nodes.next().unwrap_or_default()
    }
}

impl RuntimeAgent {
    /// Begins with what the pipelines of this plan want. The board shows how the kubelet is reached.
    pub fn start(
        settings: Settings,
        (plan, state): (&Plan, Arc<ClusterState>),
        inlet: &Inlet,
        board: TargetBoard,
    ) -> Self {
        let Settings { kubelet, of_cluster } = settings;
        inlet.report(|of_all| {
            Loss::COUNTED.iter().for_each(|why| _ = of_all.runtime_lost.entry(why.as_str()).or_default());
        });
        let (wanted, _) = watch::channel(Wanted::new(plan, state));
        let kubelet = kubelet.map(|kubelet| {
            let url = kubelet.url.to_string();
            let (client, failure_reported) = (Client::new(kubelet), Seldom::default());
            let last_made = Vec::new();
            Source::Kubelet(Box::new(Watcher { client, url, board, last_made, told: None, failure_reported }))
        });
        let sources = kubelet.into_iter().chain(of_cluster.map(Source::Cluster));
        let start = |source| {
            let (inlet, wanted, loss_reported) = (inlet.clone(), wanted.subscribe(), Seldom::default());
            let mut looking = Loop { inlet, source, unsaid: Unsaid::default(), loss_reported };
            tokio::spawn(async move {
                looking.run(wanted).await;
                looking.say_lost();
            })
        };
        let tasks = sources.map(start).collect();
        Self { wanted, tasks }
    }

    /// Goes on with what the pipelines of this plan want.
    pub fn reload(&self, plan: &Plan, state: Arc<ClusterState>) {
        self.wanted.send_replace(Wanted::new(plan, state));
    }

    /// Ends.
    pub async fn stop(self) {
        let Self { wanted, tasks } = self;
        drop(wanted);
        for task in tasks {
            // A task that panicked has ended as well.
            let _ = task.await;
        }
    }
}

impl Loop {
    async fn run(&mut self, mut wanted: watch::Receiver<Wanted>) {
        let mut every = wanted.borrow_and_update().interval;
        let mut ticks = ticks(every);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                changed = wanted.changed() => {
                    let now = wanted.borrow_and_update().interval;
                    if changed.is_err() {
                        return;
                    }
                    if mem::replace(&mut every, now) != now {
                        ticks = self::ticks(now);
                    }
                    continue;
                }
            }
            let now = wanted.borrow().clone();
            let deadline = Instant::now() + now.interval;
            tokio::select! {
                () = self.look(&now, deadline) => {}
                () = closed(wanted.clone()) => return,
            }
        }
    }

    /// Makes metrics once. `deadline`: when they are made again.
    async fn look(&mut self, wanted: &Wanted, deadline: Instant) {
        let lost = match &mut self.source {
            Source::Kubelet(watcher) if wanted.wishes.is_empty() => return watcher.board.forget_kubelet(),
            Source::Kubelet(watcher) => match watcher.look(wanted, &self.inlet, deadline).await {
                Some(made) => deliver(&self.inlet, made, deadline).await.into_iter().collect(),
                None => return,
            },
            Source::Cluster(speaks) => look_at_cluster(wanted, speaks, &self.inlet, deadline).await,
        };
        self.note(&lost, wanted);
    }

    /// Counts what was lost. The log says so at once and then now and then.
    fn note(&mut self, lost: &[Lost], wanted: &Wanted) {
        for Lost { why, data_points } in lost {
            self.inlet.report(|of_all| *of_all.runtime_lost.entry(why.as_str()).or_default() += data_points);
        }
        if !lost.is_empty() {
            self.unsaid.looks += 1;
            self.unsaid.pipelines = wanted.takers(matches!(self.source, Source::Cluster(_)));
        }
        self.unsaid.lost = lost.iter().fold(self.unsaid.lost, |all, lost| Lost::both(all, Some(*lost)));
        if self.unsaid.lost.is_some() && self.loss_reported.due(Instant::now()).is_some() {
            self.say_lost();
        }
    }

    /// Logs all that was lost since the last time.
    fn say_lost(&mut self) {
        let Unsaid { lost: Some(Lost { why, data_points }), looks, pipelines } = mem::take(&mut self.unsaid) else {
            return;
        };
        let (source, left_out) = (self.source.name(), looks.saturating_sub(1));
        match (why, data_points) {
            // Nobody knows how many data points these would have been.
            (Loss::NoMemory, 0) => tracing::warn!(
                pipelines,
                source,
                left_out,
                advice = "give weir more --memory",
                "no room in --memory to make runtime metrics; trying again"
            ),
            (Loss::Bug, 0) => tracing::error!(
                pipelines,
                source,
                left_out,
                "metrics of objects take more memory than was estimated: this is a bug in weir, please report it; these objects have none"
            ),
            (_, 1..) => tracing::warn!(
                pipelines,
                source,
                data_points,
                reason = %why,
                left_out,
                advice = "mend the backend, or give weir more --memory",
                "runtime metrics were lost"
            ),
            (_, 0) => {}
        }
    }
}

impl Source {
    /// For the log.
    fn name(&self) -> &str {
        match self {
            Self::Kubelet(watcher) => &watcher.url,
            Self::Cluster(_) => "cluster",
        }
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// Ends when nobody wants anything any more.
async fn closed(mut wanted: watch::Receiver<Wanted>) {
    while wanted.changed().await.is_ok() {}
}

impl Watcher {
    /// Requests of what the kubelet says now. What goes wrong is in the log, once for as long as it is the same.
    async fn look(&mut self, wanted: &Wanted, inlet: &Inlet, deadline: Instant) -> Option<Made> {
        let patience = PATIENCE.min(wanted.interval);
        let made = match self.client.pages([SUMMARY, PODS], patience, inlet).await {
            Ok(pages) => made_of(pages, wanted.clone(), inlet, deadline).await,
            Err(error) => Err(error.into()),
        };
        match &made {
            Ok(made) => self.last_made = made.inputs(),
            Err(error) => error.early().into_iter().for_each(|why| {
                self.last_made.iter().for_each(|(input, data_points)| never_made(inlet, *input, (*data_points, why)));
            }),
        }
        let url = &self.url;
        let error = made.as_ref().err().map(ToString::to_string);
        tracing::debug!(kubelet = url, error = error.as_deref(), "the kubelet was asked");
        self.board.note_kubelet(url, error.clone());
        if error.is_none() && self.told.take().is_some() {
            tracing::info!(kubelet = url, "the kubelet answers again");
        }
        if error.is_some()
            && error != self.told
            && let Some(left_out) = self.failure_reported.due(Instant::now())
        {
            tracing::warn!(
                kubelet = url,
                error,
                left_out,
                advice = "look at the kubelet's address, and at the right to read nodes/stats and nodes/pods",
                "cannot get runtime metrics from the kubelet; trying again"
            );
            self.told = error;
        }
        made.ok()
    }
}

/// Counts for pipelines about how many data points they do not get that were never made. Of which namespaces these would
/// have been is not known.
fn never_made(inlet: &Inlet, input: InputKind, lost: (u64, EarlyLoss)) {
    inlet.lost_request((Signal::Metrics, input), &[], lost, &Secured::default());
}

/// Requests of the pages of a kubelet, for each wish.
async fn made_of(
    [summary, pods]: [Page; 2],
    wanted: Wanted,
    inlet: &Inlet,
    deadline: Instant,
) -> Result<Made, LookError> {
    let room = summary.body.len() + PER_MEASURED * kubelet::objects(&summary.body);
    let work = kubelet::memory(&summary.body) + kubelet::memory(&pods.body) + room * wanted.wishes.len();
    let permit = reserve(inlet, work, deadline).await.ok_or(LookError::NoMemory(work))?;
    let done = task::spawn_blocking(move || -> Result<_, LookError> {
        let now = unix_nanos();
        let pages = Pages {
            summary: kubelet::summary(&summary.body)
                .map_err(|error| LookError::Page(SUMMARY, clipped(&error.to_string())))?,
            pods: kubelet::pods(&pods.body).map_err(|error| LookError::Page(PODS, clipped(&error.to_string())))?,
        };
        let capacity = wanted.capacity(pages.node());
        let mut requests = Vec::new();
        for wish in wanted.wishes {
            let mut draft = Draft::new(SCOPE, wish, now, room);
            pages.write(&capacity, now, &mut draft)?;
            requests.extend(draft.finish().into_iter().map(|(added, bytes)| (InputKind::Runtime(wish, added), bytes)));
        }
        Ok(requests)
    });
    let requests: Vec<(InputKind, Vec<u8>)> = done.await.map_err(|error| LookError::Work(error.to_string()))??;
    let mut made = Made::new(requests, None, Some(permit));
    made.pay_no_more();
    Ok(made)
}

/// Tells of the objects of the cluster and of the status of resources, as long as this process speaks for it. Returns what
/// was lost.
async fn look_at_cluster(wanted: &Wanted, speaks: &Speaks, inlet: &Inlet, deadline: Instant) -> Vec<Lost> {
    let (now, state) = (unix_nanos(), &wanted.state);
    let mut lost = Vec::new();
    for wish in &wanted.wishes {
        let (wish, input) = (*wish, |added| InputKind::Runtime(*wish, added));
        for objects in state.objects.chunks(OBJECTS_AT_A_TIME).take_while(|_| speaks.now()) {
            let room: usize = objects.iter().map(size).sum();
            let fill = |draft: &mut Draft| objects.iter().try_for_each(|object| cluster::write(object, draft));
            let draft = |room| Draft::new(SCOPE, wish, now, room);
            lost.extend(tell(inlet, deadline, (room, draft), fill, input).await);
        }
    }
    if inlet.is_open(Signal::Metrics, InputKind::ResourceStatus) {
        for statuses in state.statuses.chunks(OBJECTS_AT_A_TIME).take_while(|_| speaks.now()) {
            let room = statuses.iter().map(|status| size_of_parts(1 + status.conditions.len(), status)).sum();
            let fill = |draft: &mut Draft| statuses.iter().try_for_each(|of| resource_status::write(of, draft));
            let draft = |room| Draft::new(SCOPE_OF_STATUS, RuntimeMetrics::default(), now, room);
            lost.extend(tell(inlet, deadline, (room, draft), fill, |_| InputKind::ResourceStatus).await);
        }
    }
    lost
}

/// What is made of an object at most.
pub(super) fn size(object: &ClusterObject) -> usize {
    let parts = match &object.state {
        ObjectState::Pod(pod) => 1 + pod.containers.len(),
        ObjectState::Node(node) => 1 + node.conditions.len(),
        ObjectState::ResourceQuota { hard, used } => 1 + hard.len() + used.len(),
        ObjectState::Service(service) => 1 + service.endpoints.len(),
        _ => 1,
    };
    size_of_parts(parts, object)
}

/// What is made of something with so many parts at most. Each part may have all its texts, an image even twice: as one
/// and taken apart.
fn size_of_parts(parts: usize, whole: &impl fmt::Debug) -> usize {
    parts.saturating_mul(PER_OBJECT + 2 * printed(whole))
}

/// How long something is when it is printed, which is at least as long as its texts.
fn printed(whole: &impl fmt::Debug) -> usize {
    struct Length(usize);
    impl fmt::Write for Length {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut length = Length(0);
    // It never fails.
    let _ = write!(length, "{whole:?}");
    length.0
}

/// Makes requests in a draft with so much room, and offers them. Nobody knows how many data points are lost that were
/// not made.
async fn tell(
    inlet: &Inlet,
    deadline: Instant,
    (room, draft): (usize, impl FnOnce(usize) -> Draft),
    fill: impl FnOnce(&mut Draft) -> Result<(), EstimateTooSmall>,
    input: impl Fn(Added) -> InputKind,
) -> Option<Lost> {
    let Some(permit) = reserve(inlet, room, deadline).await else {
        never_made(inlet, input(Added::All), (1, EarlyLoss::NoMemory));
        return Some(Lost { why: Loss::NoMemory, data_points: 0 });
    };
    let mut draft = draft(room);
    if fill(&mut draft).is_err() {
        return Some(Lost { why: Loss::Bug, data_points: 0 });
    }
    let requests = draft.finish().into_iter().map(|(added, bytes)| (input(added), bytes)).collect();
    let mut made = Made::new(requests, None, Some(permit));
    made.pay_no_more();
    deliver(inlet, made, deadline).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_of_the_pipelines_that_take_from_the_source() {
        let pipelines = [("with", true), ("without", false)];
        let wanted = Wanted {
            wishes: Vec::new(),
            pipelines: pipelines.map(|(name, wish)| (PipelineId::new(Signal::Metrics, name), wish)).into(),
            interval: PATIENCE,
            state: Arc::default(),
        };
        assert_eq!([false, true].map(|of| wanted.takers(of)), ["metrics/with", "metrics/with, metrics/without"]);
    }
}
