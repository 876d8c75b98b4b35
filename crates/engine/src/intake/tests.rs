//! Requests that wait for each other, on a runtime with threads, and requests that are cut.

use std::pin::Pin;
use std::sync::{Mutex, mpsc};

use bytes::Bytes;

use tokio::runtime::{Builder, Runtime};
use weir_otlp::build::Encoder;
use weir_plan::{Body, Compression, Endpoint, Output, Processing, Protocol, Temporality};

use super::*;
use crate::accounts::Accounts;
use crate::buffer::Buffer;
use crate::clock::Clock;
use crate::export::{About, Backend, Outcome, Unusable};
use crate::inlet::Origin;
use crate::pipeline::{Common, Limits};
use crate::rules::Memory;
use crate::settings::Onlookers;
use crate::share::Share;

const MEMORY: usize = 64 << 20;

/// A sum of one empty point.
const METRIC: &[u8] = b"\x12\x08\x3a\x06\x0a\x00\x10\x02\x18\x01";

/// For what must happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// One pipeline with this backend.
fn intake(backend: Arc<dyn Backend>, rules: Option<Arc<Rules>>) -> Arc<Intake> {
    let (budget, clock) = (Budget::new(MEMORY), Clock::simulated(0));
    let share = Share::new(MEMORY, Instant::now());
    let account = Accounts::default().open(PipelineId::new(Signal::Metrics, "shop"), share, None);
    let limits = Limits {
        batch_bytes: MEMORY,
        in_flight_bytes: MEMORY,
        read_back_bytes: 0,
        pieces: 0,
        halves: 0,
        samples: 0,
        requests: 64,
    };
    let (read_back, oversized) = (Budget::new(0), Budget::new(0));
    let common = Common { limits, budget: budget.clone(), read_back, oversized, store: None, clock };
    let (pipeline, delivery) = Pipeline::new("shop".into(), account, backend, common);
    tokio::spawn(delivery);
    let selection = Selection::new(&weir_plan::Input::default());
    let intake = Intake::new(budget, Duration::from_millis(1), None, &Onlookers::default());
    let recent = Arc::new(Recent::within(0));
    let routes = vec![Route { pipeline: Arc::new(pipeline), selection, rules, recent }];
    intake.set_routes(Routes { routes, ..Routes::empty() }, RequestLimits::configured(MEMORY));
    Arc::new(intake)
}

/// One whose backend wants deltas and takes nothing.
fn converting(runtime: &Runtime) -> Arc<Intake> {
    let _entered = runtime.enter();
    let endpoint = Endpoint { host: "nowhere".into(), port: 1, path: String::new() };
    let (protocol, compression) = (Protocol::Grpc, Compression::None);
    let output =
        Output { protocol, body: Body::Otlp, endpoint, compression, headers: Vec::new(), oauth2: None, tls: None };
    let processing = Processing { temporality: Temporality::Delta, ..Processing::default() };
    let plan = weir_plan::Pipeline { processing, ..weir_plan::Pipeline::new(Signal::Metrics, "shop", output) };
    let memory = Memory { before: None, bytes: MEMORY };
    let rules = Rules::compile(&plan, memory, &|| None, 0).unwrap().map(Arc::new);
    intake(Arc::new(Unusable(String::new())), rules)
}

/// A request of so many metrics.
fn request(intake: &Intake, metrics: usize) -> Request {
    request_of(intake, 0, metrics)
}

/// The same of a resource with an attribute of this length.
fn request_of(intake: &Intake, attribute: usize, metrics: usize) -> Request {
    let mut request = Encoder::default();
    let resource = request.open(1, METRIC.len() * metrics);
    let fields = [1, 1, 1].map(|number| request.open(number, attribute));
    request.raw(&vec![b'x'; attribute]);
    fields.into_iter().rev().for_each(|field| request.close(field));
    let scope = request.open(2, METRIC.len() * metrics);
    request.raw(&METRIC.repeat(metrics));
    request.close(scope);
    request.close(resource);
    let bytes = request.into_bytes();
    let permit = intake.budget.try_take(bytes.capacity()).unwrap();
    Request::valid(Signal::Metrics, Buffer::new(bytes, permit), metrics as u64, Origin::of(InputKind::Otlp))
}

/// Tasks that are spawned from without are begun in their order: the heavy request is at work before the small one is.
#[test]
fn whoever_waits_for_a_long_conversion_keeps_no_worker_from_serving_others() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let intake = converting(&runtime);
    let routes = intake.routes();
    let accept = |metrics| {
        let (intake, request) = (Arc::clone(&intake), request(&intake, metrics));
        runtime.spawn(async move { intake.accept(request, None).await })
    };
    let converter = routes.deltas().next().unwrap().1.converter();
    let clients = [accept(HEAVY_BYTES / METRIC.len() + 1), accept(1)];
    let (other, served) = mpsc::channel();
    runtime.spawn(async move { other.send(()) });
    // The runtime's own clock would stand still.
    let served = served.recv_timeout(PATIENCE);
    let waiting = clients.iter().all(|client| !client.is_finished());
    drop(converter);
    assert!(served.is_ok() && waiting, "the only worker waits: {served:?}");
    for client in clients {
        let verdict = runtime.block_on(async { tokio::time::timeout(PATIENCE, client).await });
        assert_eq!(verdict.unwrap().unwrap(), Verdict::Secured);
    }
}

/// A backend, the largest request that it takes, and what it was sent.
#[derive(Debug)]
struct Choosy {
    most: AtomicUsize,
    sent: Mutex<Vec<usize>>,
}

impl Backend for Choosy {
    fn send(&self, bodies: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        let bytes = bodies.iter().map(Bytes::len).sum();
        self.sent.lock().unwrap().push(bytes);
        let outcome = if bytes > self.most.load(Ordering::Relaxed) {
            Outcome::refused(About::Size, "413", "too large")
        } else {
            Outcome::Delivered { rejected: 0, message: String::new() }
        };
        Box::pin(std::future::ready(outcome))
    }
}

/// What the backend is sent for a request, until it has all of that.
async fn deliver(intake: &Intake, request: Request, backend: &Choosy) -> Vec<usize> {
    assert_eq!(intake.accept(request, None).await, Verdict::Secured);
    // The client may be answered before, with its data held.
    while intake.books()[0].1.pending > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    std::mem::take(&mut *backend.sent.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn pieces_become_larger_again_when_the_backend_takes_more() {
    const METRICS: usize = 40_000;
    let backend = Arc::new(Choosy { most: AtomicUsize::new(30_000), sent: Mutex::default() });
    let intake = intake(Arc::clone(&backend) as Arc<dyn Backend>, None);
    let whole = request(&intake, METRICS).body.len();
    let sent = || deliver(&intake, request(&intake, METRICS), &backend);
    assert_eq!(sent().await[0], whole, "nothing is known yet");
    assert!(sent().await.iter().all(|bytes| *bytes <= 30_000), "it was learned");
    backend.most.store(usize::MAX, Ordering::Relaxed);
    assert!(sent().await.iter().all(|bytes| *bytes <= 30_000), "nothing shows yet that it takes more");
    let mut periods = 0;
    while sent().await != [whole] {
        tokio::time::advance(Duration::from_secs(600)).await;
        periods += 1;
        assert!(periods <= 10, "it never gets the whole again");
    }
    assert!(periods >= 3, "one step at a time");
}

#[tokio::test(start_paused = true)]
async fn what_a_backend_has_taught_keeps_no_request_out() {
    let backend = Arc::new(Choosy { most: AtomicUsize::new(30_000), sent: Mutex::default() });
    let intake = intake(Arc::clone(&backend) as Arc<dyn Backend>, None);
    deliver(&intake, request(&intake, 40_000), &backend).await;
    backend.most.store(usize::MAX, Ordering::Relaxed);
    // Cut into pieces that have the attribute in each, it would take twice as much, which is more than there is.
    let request = request_of(&intake, 12_000, 2_500_000);
    let whole = request.body.len();
    assert_eq!(deliver(&intake, request, &backend).await, [whole]);
}

/// What benchmarks measure beside this code is the same but for what a patch takes out of it.
#[test]
fn patches_of_benchmarks_apply() {
    let code = include_str!("../intake.rs");
    let patches = [
        include_str!("../../../../bench/without/taps.patch"),
        include_str!("../../../../bench/without/unclaimed.patch"),
    ];
    for patch in patches {
        let hunks: Vec<_> = patch.split("\n@@ ").skip(1).collect();
        assert!(!hunks.is_empty(), "{patch}");
        for hunk in hunks {
            let before = hunk.lines().skip(1).filter(|line| !line.starts_with('+'));
            let before: Vec<_> = before.map(|line| line.get(1..).unwrap_or_default()).collect();
            assert!(code.contains(&before.join("\n")), "{hunk}");
        }
    }
}
