//! How sources that collect metrics use the engine's inlet: they wait for memory and for room until it is time to collect
//! anew.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};
use weir_engine::{EarlyLoss, Inlet, InputKind, MemoryPart, Origin, Permit, Request, Secured, Verdict};
use weir_otlp::cut;
use weir_plan::Signal;

/// How long a request waits that finds no memory.
const MEMORY_PAUSE: Duration = Duration::from_secs(1);

/// The same of work that is yet to be done. The inlet has let it wait for a moment already.
const WORK_PAUSE: Duration = Duration::from_millis(50);

/// Why pipelines do not have what was collected for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Some pipeline has no room, or its disk fails.
    NoRoom,
    /// There is no memory for it.
    NoMemory,
    /// It is larger than any request may be.
    TooLarge,
    /// It could not be encoded, which it always should be.
    Bug,
}

impl Loss {
    /// Those that cost a number of data points that is known. Each is counted from the start, with 0: a counter that
    /// appears with its first loss shows no increase then.
    pub(crate) const COUNTED: [Self; 3] = [Self::NoRoom, Self::NoMemory, Self::TooLarge];

    /// In one word, for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoRoom => "no_room",
            Self::NoMemory => "no_memory",
            Self::TooLarge => "too_large",
            Self::Bug => "bug",
        }
    }

    /// As pipelines are told of it. Of what a bug takes, nobody knows how much it is.
    fn early(self) -> Option<EarlyLoss> {
        match self {
            Self::NoRoom => Some(EarlyLoss::NoRoom),
            Self::NoMemory => Some(EarlyLoss::NoMemory),
            Self::TooLarge => Some(EarlyLoss::TooLarge),
            Self::Bug => None,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => "pipelines have no room, or their disk fails; see /backends",
            Self::NoMemory => "no room in --memory",
            Self::TooLarge => "larger than --max-request-size",
            Self::Bug => "could not be encoded: this is a bug in weir",
        })
    }
}

/// What not every pipeline took until it was collected anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Why.
    pub why: Loss,
    /// How much that is.
    pub data_points: u64,
}

/// Encoded requests, and what pays for them.
pub(crate) struct Made {
    requests: Vec<Encoded>,
    permit: Option<Permit>,
}

/// An encoded request for pipelines that take from this input.
struct Encoded {
    input: InputKind,
    bytes: Vec<u8>,
    data_points: u64,
}

impl Made {
    /// Without a permit, requests of a few hundred bytes are paid for when they are offered. `data_points`: those of the
    /// only request, where they were counted before.
    pub(crate) fn new(requests: Vec<(InputKind, Vec<u8>)>, data_points: Option<u64>, permit: Option<Permit>) -> Self {
        let encoded = |(input, bytes): (InputKind, Vec<u8>)| {
            let data_points = data_points.unwrap_or_else(|| weir_otlp::count(Signal::Metrics, &bytes).into());
            Encoded { input, bytes, data_points }
        };
        Self { requests: requests.into_iter().map(encoded).collect(), permit }
    }

    /// For which inputs they are, with their data points.
    pub(crate) fn inputs(&self) -> Vec<(InputKind, u64)> {
        self.requests.iter().map(|encoded| (encoded.input, encoded.data_points)).collect()
    }

    /// Gives back what was paid for the work on them.
    pub(crate) fn pay_no_more(&mut self) {
        let each = |encoded: &Encoded| encoded.bytes.capacity() + Permit::OVERHEAD_BYTES;
        if let Some(permit) = &mut self.permit {
            permit.shrink_to(self.requests.iter().map(each).sum());
        }
    }
}

impl Lost {
    /// What was lost together, for the reason that came last.
    pub(crate) fn both(before: Option<Self>, after: Option<Self>) -> Option<Self> {
        let data_points = [before, after].into_iter().flatten().map(|lost| lost.data_points).sum();
        after.or(before).map(|Self { why, .. }| Self { why, data_points })
    }
}

/// What comes of one attempt.
enum Attempt {
    Done,
    /// It may be tried again after this time.
    Later(Loss, Duration),
    Never(Loss),
}

/// What memory is taken of.
pub(crate) trait Memory {
    /// All that there is, in bytes.
    fn most(&self) -> usize;

    /// Reserves `bytes`; gives up after a short wait.
    fn take(&self, bytes: usize) -> impl Future<Output = Option<Permit>> + Send;
}

impl Memory for Inlet {
    fn most(&self) -> usize {
        self.memory()
    }

    async fn take(&self, bytes: usize) -> Option<Permit> {
        self.reserve(bytes).await
    }
}

impl Memory for MemoryPart {
    fn most(&self) -> usize {
        self.memory()
    }

    async fn take(&self, bytes: usize) -> Option<Permit> {
        self.reserve(bytes).await
    }
}

/// Takes memory. Waits until others give theirs back, or until it is too late. What can never be there is not waited for.
pub(crate) async fn reserve(memory: &impl Memory, bytes: usize, until: Instant) -> Option<Permit> {
    reserve_beside(0, memory, bytes, until).await
}

/// The same for somebody who has taken `held` bytes already, and keeps them.
pub(crate) async fn reserve_beside(held: usize, memory: &impl Memory, bytes: usize, until: Instant) -> Option<Permit> {
    while held.saturating_add(bytes) <= memory.most() {
        if let Ok(Some(permit)) = timeout_at(until, memory.take(bytes)).await {
            return Some(permit);
        }
        if Instant::now() + WORK_PAUSE >= until {
            return None;
        }
        sleep(WORK_PAUSE).await;
    }
    None
}

/// Offers requests, in parts as large as the inlet takes, until they are secured, nobody wants them, or it is too late.
/// Returns what was lost of them, which is to be counted (SCRAPE-3).
pub(crate) async fn deliver(inlet: &Inlet, made: Made, until: Instant) -> Option<Lost> {
    let Made { requests, mut permit } = made;
    let mut all: Option<Lost> = None;
    for Encoded { input, bytes, data_points } in requests {
        if !inlet.is_open(Signal::Metrics, input) {
            continue;
        }
        let paid = permit.as_mut().and_then(|permit| permit.part(bytes.capacity()));
        if bytes.len() <= inlet.max_request_bytes() {
            let lost = offer(inlet, (bytes, paid), (input, data_points), until).await;
            all = Lost::both(all, lost);
            continue;
        }
        // The whole is paid for until the last part of it is offered.
        let whole = Bytes::from(bytes);
        for part in cut(Signal::Metrics, &whole, inlet.max_request_bytes()) {
            let Some(room) = reserve(inlet, part.length(), until).await else {
                let lost = Lost { why: Loss::NoMemory, data_points: part.items().into() };
                // The part is not made. Its resources are as good to choose by.
                let lost = told(inlet, (input, part.resources()), lost, &Secured::default());
                all = Lost::both(all, lost);
                continue;
            };
            let lost = offer(inlet, (part.make().into(), Some(room)), (input, part.items().into()), until).await;
            all = Lost::both(all, lost);
        }
    }
    all
}

/// Returns what was lost.
async fn offer(
    inlet: &Inlet,
    (bytes, paid): (Vec<u8>, Option<Permit>),
    (input, data_points): (InputKind, u64),
    until: Instant,
) -> Option<Lost> {
    let lost = |why| Lost { why, data_points };
    let mut secured = Secured::default();
    let permit = match paid {
        Some(permit) => permit,
        None => match reserve(inlet, bytes.capacity(), until).await {
            Some(permit) => permit,
            None => return told(inlet, (input, &bytes), lost(Loss::NoMemory), &secured),
        },
    };
    let bytes = permit.pays_for(bytes);
    loop {
        let request = Request::made(Signal::Metrics, bytes.clone(), data_points, Origin::of(input));
        match offer_once(inlet, request, &mut secured, until).await {
            Attempt::Done => return None,
            Attempt::Later(_, after) if Instant::now() + after < until => sleep(after).await,
            Attempt::Later(why, _) | Attempt::Never(why) => {
                return told(inlet, (input, &bytes), lost(why), &secured);
            }
        }
    }
}

/// Counts what is lost for each pipeline that would have got it; those in `secured` have it. Returns what was lost:
/// nothing if all have it.
fn told(inlet: &Inlet, (input, request): (InputKind, &[u8]), lost: Lost, secured: &Secured) -> Option<Lost> {
    let is_lost = |why| inlet.lost_request((Signal::Metrics, input), request, (lost.data_points, why), secured);
    lost.why.early().is_none_or(is_lost).then_some(lost)
}

async fn offer_once(inlet: &Inlet, request: Request, secured: &mut Secured, until: Instant) -> Attempt {
    let Ok(verdict) = timeout_at(until, inlet.offer_again(request, secured)).await else {
        return Attempt::Never(Loss::NoRoom);
    };
    match verdict {
        Verdict::Secured | Verdict::NotServed => Attempt::Done,
        Verdict::TooLarge(_) => Attempt::Never(Loss::TooLarge),
        Verdict::Refused(_, after) => Attempt::Later(Loss::NoRoom, after),
        Verdict::NoMemory => Attempt::Later(Loss::NoMemory, MEMORY_PAUSE),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
    use opentelemetry_proto::tonic::metrics::v1::{
        Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric,
    };
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use prost::Message;
    use weir_engine::settings::Admin;
    use weir_engine::view::BeforeBooks;
    use weir_engine::{Engine, Settings};
    use weir_enrich::PodList;
    use weir_plan::{
        Body, ClusterFacts, Compression, Endpoint, Output, Pipeline, Plan, PrometheusInput, Protocol, Selector,
    };

    use super::*;

    /// An engine without pipelines and ports.
    pub(crate) async fn engine() -> Engine {
        engine_of(&Plan::default(), Settings::default()).await
    }

    /// One with these pipelines.
    async fn engine_of(plan: &Plan, settings: Settings) -> Engine {
        let admin = Admin { port: None, ..Admin::default() };
        let settings =
            Settings { grpc_port: None, http_port: None, metrics_port: None, health_port: None, admin, ..settings };
        Engine::start(plan, Arc::new(PodList::new(ClusterFacts::default())), settings).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_waited_for_until_it_is_too_late() {
        let engine = engine().await;
        let inlet = engine.inlet();
        let most = inlet.memory() - Permit::OVERHEAD_BYTES;
        let held = inlet.reserve(most).await.unwrap();
        let waiting = tokio::spawn({
            let (inlet, until) = (inlet.clone(), Instant::now() + Duration::from_secs(30));
            async move { reserve(&inlet, most, until).await }
        });
        sleep(Duration::from_secs(20)).await;
        assert!(!waiting.is_finished());
        drop(held);
        let held = waiting.await.unwrap();
        assert!(held.is_some());

        let began = Instant::now();
        assert!(reserve(&inlet, most, began + Duration::from_secs(2)).await.is_none());
        let waited = began.elapsed().as_secs_f64();
        assert!((1.9..=2.01).contains(&waited), "{waited}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_never_be_there_is_not_waited_for() {
        let engine = engine().await;
        let (inlet, began) = (engine.inlet(), Instant::now());
        assert!(reserve(&inlet, inlet.memory() + 1, began + Duration::from_secs(30)).await.is_none());
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    /// A pipeline that scrapes in these namespaces. Nothing is sent to its backend.
    fn scraping(name: &str, namespaces: Selector) -> Pipeline {
        let endpoint = Endpoint { host: "127.0.0.1".into(), port: 1, path: String::new() };
        let (protocol, compression) = (Protocol::Grpc, Compression::None);
        let output =
            Output { protocol, body: Body::Otlp, endpoint, compression, headers: Vec::new(), oauth2: None, tls: None };
        let mut pipeline = Pipeline::new(Signal::Metrics, name, output);
        pipeline.input.otlp = None;
        pipeline.input.prometheus = Some(PrometheusInput {
            namespaces,
            diagnostic_metrics: false,
            static_targets: Vec::new(),
            native_histograms: false,
        });
        pipeline
    }

    /// So many data points of one namespace.
    fn points(namespace: &str, count: u64) -> ResourceMetrics {
        let value = AnyValue { value: Some(any_value::Value::StringValue(namespace.into())) };
        let namespace = KeyValue { key: "k8s.namespace.name".into(), value: Some(value), ..KeyValue::default() };
        let resource = Resource { attributes: vec![namespace], ..Resource::default() };
        let point = |at| NumberDataPoint { time_unix_nano: at, ..NumberDataPoint::default() };
        let data = metric::Data::Gauge(Gauge { data_points: (1..=count).map(point).collect() });
        let metrics = vec![Metric { name: "a".into(), data: Some(data), ..Metric::default() }];
        let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
        ResourceMetrics { resource: Some(resource), scope_metrics, ..ResourceMetrics::default() }
    }

    /// The larger namespace has many parts, and the smaller one is in two of them.
    #[tokio::test(start_paused = true)]
    async fn parts_that_find_no_memory_are_lost_once_for_each_pipeline() {
        const LARGEST: usize = 16 << 10;
        let only = |name: &str| scraping(name, Selector::Only(vec![name.to_owned()]));
        let pipelines = vec![only("small"), only("large"), only("none"), scraping("all", Selector::All)];
        let plan = Plan { pipelines, ..Plan::default() };
        let engine = engine_of(&plan, Settings { max_request_bytes: LARGEST, ..Settings::default() }).await;
        let inlet = engine.inlet();
        let resource_metrics = vec![points("small", 10), points("large", 5_000), points("small", 5)];
        let bytes = ExportMetricsServiceRequest { resource_metrics }.encode_to_vec();
        assert!(bytes.len() > 3 * LARGEST);
        let held = inlet.reserve(inlet.memory() - Permit::OVERHEAD_BYTES).await.unwrap();
        let made = Made::new(vec![(InputKind::Prometheus, bytes)], None, None);
        let lost = deliver(&inlet, made, Instant::now()).await;
        drop(held);
        assert_eq!(lost, Some(Lost { why: Loss::NoMemory, data_points: 5_015 }));
        let seen = engine.view().snapshot().unwrap();
        let early = seen.pipelines.iter().map(|pipeline| pipeline.before_books);
        let lost = |items| BeforeBooks { items, last: Some(EarlyLoss::NoMemory) };
        assert_eq!(early.collect::<Vec<_>>(), [lost(15), lost(5_000), BeforeBooks::default(), lost(5_015)]);
    }
}
