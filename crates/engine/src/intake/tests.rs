//! Requests that wait for each other, on a runtime with threads.

use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};
use weir_otlp::build::Encoder;
use weir_plan::{Compression, Endpoint, Output, Processing, Protocol, Temporality};

use super::*;
use crate::account::Account;
use crate::buffer::Buffer;
use crate::export::Unusable;
use crate::inlet::Origin;
use crate::pipeline::{Common, Limits};
use crate::rules::Memory;
use crate::share::Share;
use crate::store::Clock;

const MEMORY: usize = 64 << 20;

/// A sum of one empty point.
const METRIC: &[u8] = b"\x12\x08\x3a\x06\x0a\x00\x10\x02\x18\x01";

/// For what must happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// One pipeline, whose backend wants deltas and takes nothing.
fn converting(runtime: &Runtime) -> Arc<Intake> {
    let _entered = runtime.enter();
    let (budget, clock) = (Budget::new(MEMORY), Clock::simulated(0));
    let account =
        Arc::new(Account::new(PipelineId::new(Signal::Metrics, "shop"), Share::new(MEMORY, Instant::now()), None));
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
    let (pipeline, delivery) = Pipeline::new("shop".into(), account, Arc::new(Unusable(String::new())), common);
    runtime.spawn(delivery);

    let endpoint = Endpoint { host: "nowhere".into(), port: 1, path: String::new() };
    let (protocol, compression) = (Protocol::Grpc, Compression::None);
    let output = Output { protocol, endpoint, compression, headers: Vec::new(), oauth2: None, tls: None };
    let processing = Processing { temporality: Temporality::Delta, ..Processing::default() };
    let plan = weir_plan::Pipeline { processing, ..weir_plan::Pipeline::new(Signal::Metrics, "shop", output) };
    let memory = Memory { before: None, bytes: MEMORY };
    let rules = Rules::compile(&plan, memory, &|| None, 0).unwrap().map(Arc::new);

    let selection = Selection::new(&weir_plan::Input::default());
    let intake = Intake::new(budget, Duration::from_millis(1), None);
    let routes = vec![Route { pipeline: Arc::new(pipeline), selection, rules }];
    intake.set_routes(Routes { routes, ..Routes::empty() }, MEMORY);
    Arc::new(intake)
}

/// A request of so many metrics.
fn request(intake: &Intake, metrics: usize) -> Request {
    let mut request = Encoder::default();
    let resource = request.open(1, METRIC.len() * metrics);
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
        runtime.spawn(async move { intake.accept(request).await })
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
