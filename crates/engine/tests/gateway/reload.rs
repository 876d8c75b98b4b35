//! A configuration that changes while data flows: only what it is about changes, and nothing is lost.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use weir_engine::settings::MEMORY_MIN;
use weir_engine::{Changes, Engine, Settings, StartError};
use weir_plan::{
    Backlog, Filter, Header, Overflow, Pipeline, Plan, Processing, Protocol, Secret, Signal, Temporality, Transform,
};
use weir_testkit::backend::{Backend, Say};
use weir_testkit::clients::{SPANS, ids, send_all};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::{Grpc, OK, UNIMPLEMENTED, frame};
use weir_testkit::metrics::Scrape;
use weir_testkit::signals::{counter_of, deltas, numbered};
use weir_testkit::sink::{DOWN, arrived, arrived_of, closed_port, faults, sink};
use weir_testkit::{eventually, http, in_time, payload};

use crate::support::{Gateway, no_pods, on_disk, output, pipeline, settings, traces};

fn plan(pipelines: Vec<Pipeline>) -> Plan {
    Plan { pipelines, ..Plan::default() }
}

async fn hasty(dir: &DataDir) -> Settings {
    Settings { spill_after: Duration::from_millis(5), ..on_disk(dir).await }
}

#[tokio::test]
async fn a_pipeline_that_is_added_gets_what_comes_and_one_that_is_removed_nothing_more() {
    let (first, second) = (sink("{}").await, sink("{}").await);
    let mut gateway = Gateway::to(first.grpc).await;
    send_all(gateway.at.grpc, 0..10, 10).await;
    let both = plan(vec![pipeline("backend", first.grpc), pipeline("other", second.grpc)]);
    let changes = gateway.engine.reload(&both).unwrap();
    assert_eq!(changes, Changes { added: vec![traces("other")], ..Changes::default() });
    send_all(gateway.at.grpc, 10..20, 10).await;
    let changes = gateway.engine.reload(&plan(vec![pipeline("other", second.grpc)])).unwrap();
    assert_eq!(changes, Changes { removed: vec![traces("backend")], ..Changes::default() });
    send_all(gateway.at.grpc, 20..30, 10).await;
    gateway.settle().await;
    assert_eq!((arrived(&first), arrived(&second)), (ids(0..20), ids(10..30)));
    assert!(gateway.engine.reload(&plan(vec![pipeline("other", second.grpc)])).unwrap().is_empty());

    gateway.engine.reload(&Plan::default()).unwrap();
    let answer = gateway.client().await.export(&payload::encoded(1, 1, 0)).await;
    assert_eq!(answer.code, UNIMPLEMENTED, "{answer:?}");
}

/// Nobody owes what is left of a request when its pipeline is gone, so its client is not told OK.
#[tokio::test]
async fn a_request_that_arrives_while_its_last_pipeline_leaves_is_not_acknowledged() {
    let backend = sink("{}").await;
    let mut gateway = Gateway::to(backend.grpc).await;
    let body = payload::encoded(1, 1, 0);
    let fields = format!("Content-Length: {}\r\nExpect: 100-continue\r\nConnection: close\r\n", body.len());
    let mut client = TcpStream::connect(gateway.at.http).await.unwrap();
    client.write_all(&http::head("POST", Signal::Traces.http_path(), "application/x-protobuf", &fields)).await.unwrap();
    let mut begun = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    in_time("it is asked for the body", client.read_exact(&mut begun)).await.unwrap();
    gateway.engine.reload(&Plan::default()).unwrap();
    client.write_all(&body).await.unwrap();
    assert_eq!(in_time("the answer", http::read_answer(&mut client)).await.unwrap().status, 404);
    assert_eq!(gateway.scrape().await.sum("weir_receiver_unclaimed_items_total", "signal"), 0.0);
}

/// A backend that hangs has connections for two configurations of its pipeline at most.
#[tokio::test]
async fn requests_to_a_backend_that_was_replaced_twice_are_given_up() {
    let hanging = Backend::holding().await;
    let settings = Settings { spill_after: Duration::from_millis(5), ..settings() };
    let mut gateway = Gateway::with(vec![pipeline("backend", hanging.address)], settings).await;
    for number in 0..4 {
        let mut changed = pipeline("backend", hanging.address);
        changed.output.headers = vec![Header { name: "x-token".into(), value: Secret::new(number.to_string()) }];
        gateway.engine.reload(&plan(vec![changed])).unwrap();
        send_all(gateway.at.grpc, number..number + 1, 10).await;
        eventually("it has what came", async || hanging.ids().contains(&(number * SPANS + 1))).await;
    }
    // Sooner than requests without an answer are given up.
    let closed = eventually("the connections before are closed", async || hanging.open_connections() <= 2);
    tokio::time::timeout(Duration::from_secs(20), closed).await.unwrap();
    hanging.answer();
    gateway.settle().await;
    let arrived: BTreeSet<u64> = hanging.ids().into_iter().collect();
    assert!(arrived.into_iter().eq(ids(0..4)));
}

/// A drain begins with the backend that is configured, even if it was about to wait for an earlier one.
#[tokio::test]
async fn a_corrected_endpoint_is_the_one_that_a_drain_goes_to() {
    let (hanging, healthy) = (Backend::holding().await, Backend::start().await);
    let settings =
        Settings { spill_after: Duration::from_millis(5), drain_timeout: Duration::from_secs(4), ..settings() };
    let mut gateway = Gateway::with(vec![pipeline("backend", hanging.address)], settings).await;
    send_all(gateway.at.grpc, 0..10, 10).await;
    eventually("it has something", async || !hanging.captured().is_empty()).await;
    gateway.engine.reload(&plan(vec![pipeline("backend", closed_port().await)])).unwrap();
    send_all(gateway.at.grpc, 10..20, 10).await;
    gateway.engine.reload(&plan(vec![pipeline("backend", healthy.address)])).unwrap();
    gateway.stop().await;
    assert_eq!(healthy.ids(), ids(0..20));
}

/// What waited for a backend that was not there goes to the one that is there now, at once.
#[tokio::test]
async fn a_corrected_endpoint_gets_the_backlog() {
    for with_journal in [false, true] {
        let (dir, backend) = (DataDir::new(), sink("{}").await);
        let settings = if with_journal { hasty(&dir).await } else { settings() };
        let mut gateway = Gateway::with(vec![pipeline("backend", closed_port().await)], settings).await;
        send_all(gateway.at.grpc, 0..20, 100).await;
        let changes = gateway.engine.reload(&plan(vec![pipeline("backend", backend.grpc)])).unwrap();
        assert_eq!(changes.changed, [traces("backend")]);
        gateway.settle().await;
        assert_eq!(arrived(&backend), ids(0..20));
        gateway.stop().await;
    }
}

/// One that is gone uses what it has until it has ended: the memory for encoding requests is not given away twice.
#[tokio::test]
async fn a_pipeline_that_is_leaving_counts_until_it_has_left() {
    let (hanging, backend) = (Backend::holding().await, Backend::start().await);
    let settings = Settings { memory: MEMORY_MIN, ..settings() };
    let mut gateway = Gateway::with(vec![pipeline("old", hanging.address)], settings).await;
    let client = gateway.client().await;
    // Half of an eighth of the memory takes it in one piece, a quarter of that eighth does not.
    let large = |first| payload::encoded(first, 15, 100_000);
    assert!((1 << 20..2 << 20).contains(&large(1).len()));
    assert_eq!(client.export(&large(1)).await.code, OK);
    eventually("the old backend has it", async || hanging.captured().len() == 1).await;
    gateway.engine.reload(&plan(vec![pipeline("new", backend.address)])).unwrap();
    assert_eq!(client.export(&large(101)).await.code, OK);
    eventually("the new backend has it", async || backend.ids().len() == 15).await;
    assert!(backend.captured().len() > 1, "in pieces, because the old pipeline still encodes");
}

/// It has the drain timeout: what is on the wire is waited for, and what was refused, if it is nowhere else, tried again.
#[tokio::test]
async fn a_pipeline_that_is_removed_has_time_to_deliver_what_it_has() {
    for with_journal in [false, true] {
        let (dir, slow, sick) = (DataDir::new(), Backend::holding().await, sink(DOWN).await);
        let in_memory = Settings { spill_after: Duration::from_millis(5), ..settings() };
        let settings = if with_journal { hasty(&dir).await } else { in_memory };
        let both = plan(vec![pipeline("slow", slow.address), pipeline("sick", sick.grpc)]);
        let mut gateway = Gateway::with(both.pipelines.clone(), settings).await;
        send_all(gateway.at.grpc, 0..20, 10).await;
        eventually("all is on the wire", async || slow.ids() == ids(0..20)).await;
        gateway.engine.reload(&Plan::default()).unwrap();
        slow.answer();
        sick.set_faults(faults("{}"));
        let books = async |name| gateway.scrape().await.books(name);
        eventually("the slow one has it", async || books("slow").await.delivered == 20 * SPANS).await;
        if !with_journal {
            eventually("the sick one has it", async || books("sick").await.delivered == 20 * SPANS).await;
        }
        gateway.engine.reload(&both).unwrap();
        gateway.settle().await;
        assert_eq!((slow.ids(), arrived(&sick)), (ids(0..20), ids(0..20)), "once");
        gateway.stop().await;
    }
}

/// What converters remember is divided among them; one that goes on gives some of it up when others come.
#[tokio::test]
async fn converters_that_come_leave_less_memory_to_the_one_that_is_there() {
    const REMEMBERED: &str = "weir_temporality_series{pipeline=\"first\",signal=\"metrics\"}";
    let backend = Backend::start().await;
    let converting = |name: &str| {
        let mut pipeline = pipeline(name, backend.address);
        pipeline.id.signal = Signal::Metrics;
        pipeline.processing.temporality = Temporality::Delta;
        pipeline
    };
    let settings = Settings { memory: weir_engine::settings::MEMORY_MIN, ..settings() };
    let mut gateway = Gateway::with(vec![converting("first")], settings).await;
    let client = gateway.client().await;
    let count = async |services: std::ops::Range<u64>| {
        let request: Vec<u8> = services.flat_map(|number| counter_of(&format!("service-{number}"), 1, 1)).collect();
        let answer = client.call(Signal::Metrics.grpc_method(), None, frame(&request, false)).await;
        assert_eq!(answer.code, OK, "{answer:?}");
    };
    for hundred in 0..60 {
        count(100 * hundred..100 * hundred + 100).await;
    }
    assert_eq!(gateway.scrape().await.get(REMEMBERED), 6000.0);
    let many = (0..31).map(|number| converting(&format!("other-{number}"))).chain([converting("first")]).collect();
    gateway.engine.reload(&plan(many)).unwrap();
    count(6000..6001).await;
    let left = gateway.scrape().await.get(REMEMBERED);
    assert!(left < 3000.0, "{left}");
    gateway.stop().await;
}

#[tokio::test]
async fn no_more_pipelines_are_run_than_there_is_memory_for() {
    let backend = closed_port().await;
    let of = |count: usize| plan((0..count).map(|number| pipeline(&number.to_string(), backend)).collect());
    let settings = Settings { memory: MEMORY_MIN, ..settings() };
    let error = Engine::start(&of(33), no_pods(), settings.clone()).await.unwrap_err();
    assert!(matches!(error, StartError::TooManyPipelines { pipelines: 33, most: 32 }), "{error}");
    let mut gateway = Gateway::with(of(32).pipelines, settings).await;
    assert!(matches!(gateway.engine.reload(&of(33)), Err(StartError::TooManyPipelines { .. })));
    assert!(gateway.engine.reload(&of(32)).unwrap().is_empty(), "nothing has changed");
}

/// Each has something to deliver to a backend that hangs. As long as there is memory for all of them, they have their time.
#[tokio::test]
async fn pipelines_that_leave_do_not_take_more_memory_than_there_is() {
    let hanging = sink(r#"{"stall": 100}"#).await;
    let named =
        |prefix: u64| plan((0..10).map(|number| pipeline(&format!("{prefix}-{number}"), hanging.grpc)).collect());
    let (spill_after, drain_timeout) = (Duration::from_millis(5), Duration::from_secs(600));
    let settings = Settings { memory: MEMORY_MIN, spill_after, drain_timeout, ..settings() };
    let mut gateway = Gateway::with(named(0).pipelines, settings).await;
    let client = gateway.client().await;
    for prefix in 1..20 {
        assert_eq!(client.export(&payload::encoded(prefix, 1, 100)).await.code, OK);
        gateway.engine.reload(&named(prefix)).unwrap();
        let scrape = gateway.scrape().await;
        let budget = scrape.get("weir_memory_budget_bytes");
        assert!((4e6..MEMORY_MIN as f64).contains(&budget), "{budget} after {prefix}");
        if prefix == 2 {
            assert_eq!(scrape.get("weir_pipeline_pending_items{pipeline=\"0-0\",signal=\"traces\"}"), 1.0);
        }
    }
}

/// Its backlog waits on disk, and its books go on where they were.
#[tokio::test]
async fn a_removed_pipeline_finds_its_backlog_when_it_returns() {
    let (dir, sick, well) = (DataDir::new(), sink(DOWN).await, sink("{}").await);
    let both = || vec![pipeline("sick", sick.grpc), pipeline("well", well.grpc)];
    let drain_timeout = Duration::from_millis(50);
    let mut gateway = Gateway::with(both(), Settings { drain_timeout, ..hasty(&dir).await }).await;
    send_all(gateway.at.grpc, 0..20, 100).await;
    gateway.engine.reload(&plan(vec![pipeline("well", well.grpc)])).unwrap();
    send_all(gateway.at.grpc, 20..40, 100).await;
    let orphaned = "weir_journal_orphaned_items{queue=\"traces/sick\"}";
    eventually("it waits", async || gateway.scrape().await.get(orphaned) == (20 * SPANS) as f64).await;
    sick.set_faults(faults("{}"));
    gateway.engine.reload(&plan(both())).unwrap();
    gateway.settle().await;
    assert_eq!((arrived(&sick), arrived(&well)), (ids(0..20), ids(0..40)));
    let books = gateway.books("sick");
    assert_eq!((books.accepted, books.delivered), (20 * SPANS, 20 * SPANS), "{books:?}");
    gateway.stop().await;
    dir.becomes_empty().await;
}

/// What clients send, and what they were told.
#[derive(Default)]
struct Load {
    next: AtomicU64,
    acknowledged: Mutex<Vec<(Signal, u64)>>,
    ends: AtomicBool,
}

impl Load {
    /// Sends all signals in turn, with a counter of the client's own beside the metrics, which counts its requests.
    /// Returns by how much the counter has grown; its last value was taken.
    async fn send(&self, address: SocketAddr, client: usize) -> i64 {
        let connection = Grpc::connect(address).await;
        let mut value = 0;
        for sent in 0.. {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let ends = self.ends.load(Ordering::Relaxed);
            let signal = if ends { Signal::Metrics } else { Signal::ALL[sent % Signal::ALL.len()] };
            let mut body = numbered(signal, 1 + number * SPANS..1 + (number + 1) * SPANS);
            if signal == Signal::Metrics {
                value += 1;
                body.extend(counter_of(&format!("client-{client}"), sent as u64, value));
            }
            if connection.call(signal.grpc_method(), None, frame(&body, false)).await.code == OK {
                self.acknowledged.lock().unwrap().push((signal, number));
                if ends {
                    // The first point of a series is where counting begins.
                    return value - 1;
                }
            }
        }
        unreachable!("it ends");
    }

    /// The ids of what a client got OK for, and no filter drops in any plan.
    fn owed(&self, signal: Signal) -> Vec<u64> {
        let acknowledged = self.acknowledged.lock().unwrap();
        let numbers = acknowledged.iter().filter(|(of, _)| *of == signal).map(|(_, number)| *number);
        numbers.flat_map(|number| 1 + number * SPANS..(number + 1) * SPANS).collect()
    }
}

/// Rules that change every item, and drop those whose number ends in 0. Counters they leave alone: with another attribute
/// they would be other series.
fn rules(signal: Signal) -> Processing {
    let (statement, condition) = match signal {
        Signal::Traces => ("set(span.attributes[\"seen\"], true)", "IsMatch(span.name, \"0$\")"),
        Signal::Metrics => {
            ("set(datapoint.attributes[\"seen\"], true)", "IsMatch(datapoint.attributes[\"id\"], \"0$\")")
        }
        Signal::Logs => ("set(log.attributes[\"seen\"], true)", "IsMatch(log.body, \"0$\")"),
    };
    let conditions = if signal == Signal::Metrics { vec!["metric.name == \"gauge\"".into()] } else { Vec::new() };
    let transform = Transform { statements: vec![statement.into()], conditions };
    let filter = Filter { conditions: vec![condition.into()] };
    Processing { transforms: vec![transform], filters: vec![filter], ..Processing::default() }
}

/// Where the pipelines of [`some_plan`] lead.
struct Places {
    /// One pipeline of each signal is in every plan.
    constant: SocketAddr,
    /// So is one that converts counters.
    delta: SocketAddr,
    flaky: SocketAddr,
    down: SocketAddr,
}

impl Places {
    /// All pipelines that there may be; the first four are always there.
    fn pipelines(&self) -> Vec<Pipeline> {
        let to = |signal, name, address| Pipeline::new(signal, name, output(address, Protocol::Grpc));
        let mut delta = to(Signal::Metrics, "delta", self.delta);
        delta.processing.temporality = Temporality::Delta;
        let constant = Signal::ALL.map(|signal| to(signal, "constant", self.constant));
        let others = [to(Signal::Traces, "flaky", self.flaky), to(Signal::Logs, "down", self.down)];
        constant.into_iter().chain([delta]).chain(others).collect()
    }

    /// One of many configurations.
    fn some_plan(&self, random: &mut fastrand::Rng) -> Plan {
        let mut pipelines = self.pipelines();
        pipelines.retain(|pipeline| ["constant", "delta"].contains(&pipeline.id.name.as_str()) || random.bool());
        pipelines.iter_mut().for_each(|pipeline| vary(pipeline, random));
        plan(pipelines)
    }
}

/// Other rules, another secret, other limits.
fn vary(pipeline: &mut Pipeline, random: &mut fastrand::Rng) {
    if random.bool() {
        let temporality = pipeline.processing.temporality;
        pipeline.processing = Processing { temporality, ..rules(pipeline.id.signal) };
    }
    // There is nothing but gauges in what is judged here, and these have no temporality.
    if pipeline.id.signal == Signal::Metrics && pipeline.id.name == "constant" && random.bool() {
        pipeline.processing.temporality = Temporality::Delta;
    }
    if random.bool() {
        let header = Header { name: "x-version".into(), value: Secret::new(random.u8(..).to_string()) };
        pipeline.output.headers.push(header);
    }
    let overflow = if random.bool() { Overflow::Refuse } else { Overflow::DropOldest };
    pipeline.backlog = Backlog { max_bytes: random.u64(1 << 30..2 << 30), overflow, ..Backlog::default() };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_reloads_under_load_lose_nothing() {
    const RELOADS: usize = 1000;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (dir, constant) = (DataDir::new(), sink(r#"{"fault": ["503:20"], "delay": "5ms:30"}"#).await);
    let (flaky, down) = (sink(r#"{"fault": ["503:50"]}"#).await, sink(DOWN).await);
    let refuses = |number| if number % 5 == 0 { Say::Code(14, "later", None) } else { Say::Ok };
    let delta = Backend::scripted(move |number, _| refuses(number)).await;
    let places = Places { constant: constant.grpc, delta: delta.address, flaky: flaky.grpc, down: down.grpc };
    let settings = Settings { drain_timeout: Duration::from_secs(1), ..hasty(&dir).await };
    let mut gateway = Gateway::with(places.pipelines(), settings).await;
    let load = Arc::new(Load::default());
    let mut clients = JoinSet::new();
    for client in 0..4 {
        let (load, address) = (Arc::clone(&load), gateway.at.grpc);
        clients.spawn(async move { load.send(address, client).await });
    }
    for _ in 0..RELOADS {
        let before = load.next.load(Ordering::Relaxed);
        gateway.engine.reload(&places.some_plan(&mut random)).unwrap();
        eventually("clients go on", async || load.next.load(Ordering::Relaxed) > before).await;
    }
    load.ends.store(true, Ordering::Relaxed);
    let counted: i64 = clients.join_all().await.into_iter().sum();
    gateway.engine.reload(&plan(places.pipelines())).unwrap();
    [&constant, &flaky, &down].into_iter().for_each(|sink| sink.set_faults(faults("{}")));
    gateway.settle().await;
    for signal in Signal::ALL {
        let (owed, arrived) = (load.owed(signal), BTreeSet::from_iter(arrived_of(&constant, signal)));
        let missing: Vec<_> = owed.iter().filter(|id| !arrived.contains(id)).collect();
        assert!(missing.is_empty(), "{signal:?}: {} of {}: {missing:?}", missing.len(), owed.len());
        assert!(owed.len() > RELOADS, "{signal:?}: {}", owed.len());
    }
    let taken = delta.captured().into_iter().filter(|request| request.taken);
    let deltas: Vec<_> = taken.flat_map(|request| deltas(&request.plain)).collect();
    assert!(deltas.iter().all(|(temporality, _)| *temporality == 1), "delta and nothing else");
    assert_eq!(deltas.iter().map(|(_, value)| value).sum::<i64>(), counted, "every increase once");
    let books = gateway.engine.books();
    let filtered = books.iter().filter(|(_, books)| books.filtered.values().sum::<u64>() > 0);
    assert!(filtered.count() >= 4, "there were rules: {books:?}");
    gateway.stop().await;
    dir.becomes_empty().await;
}

/// Not only at the next reload.
#[tokio::test]
async fn a_pipeline_that_has_ended_leaves_its_memory_to_the_others() {
    let (sick, well) = (sink(DOWN).await, sink("{}").await);
    // Long enough to see it end, on a busy machine as well.
    let settings = Settings { drain_timeout: Duration::from_secs(5), ..settings() };
    let capacity = "otelcol_exporter_queue_capacity";
    let alone = Gateway::with(vec![pipeline("well", well.grpc)], settings.clone()).await;
    let all = alone.scrape().await.sum(capacity, "tracepipeline-well");
    let mut gateway = Gateway::with(vec![pipeline("sick", sick.grpc), pipeline("well", well.grpc)], settings).await;
    send_all(gateway.at.grpc, 0..5, 10).await;
    gateway.engine.reload(&plan(vec![pipeline("well", well.grpc)])).unwrap();
    assert!(
        gateway.scrape().await.sum(capacity, "tracepipeline-well") < all,
        "the other uses its part until it has ended"
    );
    let at = gateway.at.metrics;
    let has_all = eventually("it has all", async || Scrape::of(at).await.sum(capacity, "tracepipeline-well") == all);
    tokio::select! {
        _ = gateway.engine.failed() => panic!("it has not failed"),
        () = has_all => {}
    }
}

/// Converters take memory that a sick pipeline had filled. It gives that back, so that the others are served.
#[tokio::test]
async fn a_pipeline_that_holds_more_than_its_new_part_keeps_nobody_from_memory() {
    let (nowhere, well) = (closed_port().await, sink("{}").await);
    let settings = Settings { memory: MEMORY_MIN, spill_after: Duration::from_millis(5), ..settings() };
    let sick = pipeline("sick", nowhere);
    let mut gateway = Gateway::with(vec![sick.clone()], settings).await;
    let client = gateway.client().await;
    let mut first = 1;
    while client.export(&payload::encoded(first, 10, 50_000)).await.code == OK {
        first += 10;
    }
    let converting = |number: usize| {
        let mut pipeline = pipeline(&format!("well-{number}"), well.grpc);
        pipeline.id.signal = Signal::Metrics;
        pipeline.processing.temporality = Temporality::Delta;
        pipeline
    };
    gateway.engine.reload(&plan((0..8).map(converting).chain([sick]).collect())).unwrap();
    let is_served = async || {
        let request = frame(&counter_of("a", 1, 1), false);
        client.call(Signal::Metrics.grpc_method(), None, request).await.code == OK
    };
    eventually("another pipeline gets memory", is_served).await;
    let books = gateway.scrape().await.books("sick");
    assert!(books.dropped > 0 && books.pending > 0, "{books:?}");
    gateway.stop().await;
}
