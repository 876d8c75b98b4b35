//! The end of the process: nothing that was acknowledged is lost, everybody else is told, and it does end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use rustix::process::Signal;
use tokio::sync::watch;
use tokio::task::JoinSet;
use weir_loadtest::ids::IdSet;
use weir_loadtest::load::{self, LoadReport, SendArgs};
use weir_loadtest::signal::Signal as Telemetry;
use weir_testkit::backend::{Backend, Say};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::{Grpc, OK, UNAVAILABLE};
use weir_testkit::manifests::{self, plain};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::{arrived, faults, sink};
use weir_testkit::{eventually, http, in_time, payload};

use crate::process::{Weir, manifest};

/// The generator's options as they are typed.
#[derive(Parser)]
struct Generator {
    #[command(flatten)]
    send: SendArgs,
}

/// Starts a generator against `weir`; the sender stops it.
fn load(weir: &Weir, options: &[&str]) -> (watch::Sender<bool>, tokio::task::JoinHandle<LoadReport>) {
    let endpoint = if options.contains(&"--http") { weir.http } else { weir.grpc }.to_string();
    let arguments = ["load", "--endpoint", &endpoint, "--batch", "20", "--attributes", "5", "-c", "4"];
    let Generator { send } = Generator::parse_from(arguments.iter().chain(options));
    let (stop, stopped) = watch::channel(false);
    (stop, tokio::spawn(async move { load::send(Telemetry::Traces, &send, stopped).await.unwrap() }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_under_load_loses_nothing_that_was_acknowledged() {
    let sink = sink("{}").await;
    let mut weir = Weir::start(&manifest("backend", sink.grpc), &[]).await;
    let (stop_grpc, grpc) = load(&weir, &["--first-id", "1"]);
    let (stop_http, http) = load(&weir, &["--first-id", "100000000", "--http"]);
    eventually("load flows", async || sink.report(false).received > 5_000).await;
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    stop_grpc.send_replace(true);
    stop_http.send_replace(true);
    let received = IdSet::from_ranges(sink.report(true).ids_of(Telemetry::Traces));
    for (name, load) in [("gRPC", grpc), ("HTTP", http)] {
        let report = in_time("end of the load", load).await.unwrap();
        let acknowledged = IdSet::from_ranges(&report.ids.acked);
        assert!(acknowledged.len() > 100, "{name}: {report:?}");
        assert_eq!(acknowledged.missing_from(&received), 0, "{name}: acknowledged and lost");
        assert_eq!(report.refused_without_hint, 0, "{name}: {:?}", report.refused);
    }
    let stopped = weir.logs().into_iter().find(|line| line["message"] == "stopped").unwrap();
    assert_eq!((&stopped["balanced"], &stopped["dropped"]), (&true.into(), &0.into()), "{stopped}");
}

/// Clients are asked to reconnect after a while (GOAWAY), so that they spread over instances; that costs no data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_connections_are_retired_and_lose_nothing() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("backend", sink.grpc), &["--max-connection-age", "200ms"]).await;
    let client = Grpc::connect(weir.grpc).await;
    assert_eq!(client.export(&payload::encoded(1, 1, 10)).await.code, OK);
    let (stop, load) = load(&weir, &["--first-id", "1000", "--rate", "20000"]);
    eventually("the idle connection is closed", async || client.is_closed()).await;
    eventually("load flows across many connections", async || sink.report(false).received > 20_000).await;
    stop.send_replace(true);
    let report = in_time("end of the load", load).await.unwrap();
    let report_of_sink = sink.report(true);
    let received = IdSet::from_ranges(report_of_sink.ids_of(Telemetry::Traces));
    assert_eq!(IdSet::from_ranges(&report.ids.acked).missing_from(&received), 0, "acknowledged and lost");
    assert_eq!((report_of_sink.duplicates, report.refused.len()), (0, 0), "{report:?}");
}

/// Of two instances, one has its memory full of what its backend does not answer: its clients are asked to go sooner. What
/// is under way there ends well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_busy_instance_live_shorter_and_lose_nothing() {
    const CLIENTS: u64 = 8;
    const SPANS: u64 = 5_000;
    let (slow, well) = (sink(r#"{"stall": 100}"#).await, sink("{}").await);
    let arguments = ["--max-connection-age", "30s", "--rebalance", "--memory", "64MiB", "--spill-after", "60s"];
    let retired = async |weir: &Weir| Scrape::of(weir.metrics).await.get("weir_receiver_connections_retired_total");
    let busy = Weir::start(&manifest("backend", slow.grpc), &arguments).await;
    let idle = Weir::start(&manifest("backend", well.grpc), &arguments).await;
    let at_rest = Grpc::connect(idle.grpc).await;
    assert_eq!(at_rest.export(&payload::encoded(1, 1, 10)).await.code, OK);
    let mut calls = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Grpc::connect(busy.grpc).await;
        calls.spawn(async move {
            let answer = client.export(&payload::encoded(1 + number * SPANS, SPANS, 500)).await;
            (client, answer.code)
        });
    }
    eventually("all are asked to go", async || retired(&busy).await >= CLIENTS as f64).await;
    assert_eq!((retired(&idle).await, at_rest.is_closed()), (0.0, false), "there is nothing to do");
    slow.set_faults(faults("{}"));
    for (client, code) in in_time("all answers", calls.join_all()).await {
        assert_eq!(code, OK, "nobody who was asked to go lost a request");
        eventually("the connection ends after its last answer", async || client.is_closed()).await;
    }
    assert_eq!(arrived(&slow), (1..=CLIENTS * SPANS).collect::<Vec<_>>());
    assert_eq!(slow.report(true).duplicates, 0, "each once");
}

/// A directory that goes with the process: what is in it is delivered first.
#[tokio::test]
async fn a_backlog_is_delivered_before_the_end_where_that_is_asked_for() {
    let sink = sink(r#"{"fault": ["503:100"]}"#).await;
    let dir = DataDir::new();
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms", "--drain-backlog"];
    let mut weir = Weir::start(&manifest("backend", sink.grpc), &arguments).await;
    let client = Grpc::connect(weir.grpc).await;
    for number in 0..10 {
        assert_eq!(client.export(&payload::encoded(1 + number * 10, 10, 10)).await.code, OK);
    }
    weir.signal(Signal::TERM);
    eventually("clients are asked to go", async || client.is_closed()).await;
    sink.set_faults(faults("{}"));
    assert_eq!(weir.wait().await.code(), Some(0));
    assert_eq!(arrived(&sink), (1..=100).collect::<Vec<_>>());
}

/// Held data is delivered by a backend that comes back while the process drains.
#[tokio::test]
async fn what_is_held_is_delivered_before_the_end() {
    let sink = sink(r#"{"fault": ["503:100"]}"#).await;
    let mut weir = Weir::start(&manifest("backend", sink.grpc), &["--spill-after", "10ms"]).await;
    let client = Grpc::connect(weir.grpc).await;
    for number in 0..10 {
        assert_eq!(client.export(&payload::encoded(1 + number * 10, 10, 10)).await.code, OK);
    }
    weir.signal(Signal::TERM);
    eventually("it drains", async || http::get(weir.health, "/").await.status == 503).await;
    sink.set_faults(faults("{}"));
    assert_eq!(weir.wait().await.code(), Some(0));
    assert_eq!(arrived(&sink), (1..=100).collect::<Vec<_>>());
}

/// However long the backend asked to be left alone: in memory it cannot wait that long.
#[tokio::test]
async fn what_the_backend_asked_time_for_is_delivered_before_the_end() {
    // One refusal that speaks of access is enough, or so many others in a row.
    for (code, refusals) in [(503, 24), (403, 1)] {
        let well = Arc::new(AtomicBool::new(false));
        let is_well = Arc::clone(&well);
        let backend = Backend::scripted(move |_, _| match is_well.load(Ordering::Relaxed) {
            true => Say::Ok,
            false => Say::Code(code, "later", Some(Duration::from_secs(600))),
        })
        .await;
        let to_backend = manifests::pipeline(weir_plan::Signal::Traces, "backend", &plain("http", backend.address));
        let mut weir = Weir::start(&to_backend, &["--spill-after", "10ms"]).await;
        let client = Grpc::connect(weir.grpc).await;
        for number in 0..60 {
            assert_eq!(client.export(&payload::encoded(1 + number, 1, 10)).await.code, OK);
        }
        eventually("it is asked no more", async || backend.captured().len() >= refusals).await;
        weir.signal(Signal::TERM);
        eventually("it drains", async || http::get(weir.health, "/").await.status == 503).await;
        well.store(true, Ordering::Relaxed);
        assert_eq!(weir.wait().await.code(), Some(0));
        assert_eq!(backend.taken_ids(), (1..=60).collect::<Vec<_>>(), "{code}");
    }
}

#[tokio::test]
async fn a_drain_says_so_refuses_what_waits_and_ends_in_time() {
    let sink = sink(r#"{"stall": 100}"#).await;
    // Long enough to see it drain on a busy machine.
    let options = ["--drain-timeout", "10s", "--spill-after", "60s"];
    let mut weir = Weir::start(&manifest("backend", sink.grpc), &options).await;
    let ready = http::get(weir.health, "/").await;
    assert_eq!((ready.status, ready.text().as_str()), (200, "{\"status\":\"ready\"}\n"));

    let (idle, client) = (Grpc::connect(weir.grpc).await, Grpc::connect(weir.grpc).await);
    let request = payload::encoded(1, 10, 10);
    let waiting = client.export(&request);
    let observe = async {
        eventually("the backend has the request", async || sink.report(false).requests > 0).await;
        assert!(!idle.is_closed());
        weir.signal(Signal::TERM);
        eventually("the health check says so", async || {
            let health = http::get(weir.health, "/").await;
            health.status == 503 && health.text().contains("draining")
        })
        .await;
        eventually("idle connections are told to go away", async || idle.is_closed()).await;
        eventually("no new connections", async || tokio::net::TcpStream::connect(weir.grpc).await.is_err()).await;
    };
    let (answer, ()) = tokio::join!(waiting, observe);
    assert_eq!(answer.code, UNAVAILABLE, "{answer:?}");
    assert!(answer.message.contains("shutting down"), "{answer:?}");
    assert!(answer.retry_after.is_some_and(|hint| hint >= Duration::from_secs(1)), "{answer:?}");
    assert_eq!(weir.wait().await.code(), Some(0));
}

/// Without a backend, held data cannot be saved by a memory-only gateway: it is counted, and said.
#[tokio::test]
async fn what_cannot_be_delivered_by_the_deadline_is_counted() {
    let sink = sink(r#"{"fault": ["503:100"]}"#).await;
    let options = ["--drain-timeout", "500ms", "--spill-after", "10ms"];
    let mut weir = Weir::start(&manifest("backend", sink.grpc), &options).await;
    let client = Grpc::connect(weir.grpc).await;
    assert_eq!(client.export(&payload::encoded(1, 10, 10)).await.code, OK);
    weir.signal(Signal::INT);
    assert_eq!(weir.wait().await.code(), Some(0));
    let stopped = weir.logs().into_iter().find(|line| line["message"] == "stopped").unwrap();
    assert_eq!((&stopped["accepted"], &stopped["dropped"]), (&10.into(), &10.into()), "{stopped}");
    assert_eq!(stopped["balanced"], true, "{stopped}");
}

/// As by timeout(1), which signals its child and then its group, or by a terminal that is closed. Of two signals of one
/// kind the system may make one.
#[tokio::test]
async fn a_doubled_signal_is_one() {
    let sink = sink(r#"{"fault": ["503:100"]}"#).await;
    let options = ["--drain-timeout", "1h", "--spill-after", "10ms"];
    let mut weir = Weir::start(&manifest("backend", sink.grpc), &options).await;
    let client = Grpc::connect(weir.grpc).await;
    assert_eq!(client.export(&payload::encoded(1, 10, 10)).await.code, OK);
    for signal in [Signal::TERM, Signal::INT, Signal::TERM] {
        weir.signal(signal);
    }
    eventually("it drains", async || weir.has_ended() || http::get(weir.health, "/").await.status == 503).await;
    sink.set_faults(faults("{}"));
    assert_eq!(weir.wait().await.code(), Some(0), "{:?}", weir.logs());
    assert_eq!(arrived(&sink), (1..=10).collect::<Vec<_>>());
}

/// It ends at once, and says all the same what became of what was acknowledged.
#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let sink = sink(r#"{"stall": 100}"#).await;
    let options = ["--drain-timeout", "1h", "--spill-after", "10ms"];
    let mut weir = Weir::start(&manifest("backend", sink.grpc), &options).await;
    let client = Grpc::connect(weir.grpc).await;
    for number in 0..20 {
        assert_eq!(client.export(&payload::encoded(1 + number * 10, 10, 10)).await.code, OK);
    }
    weir.signal(Signal::TERM);
    eventually("it drains", async || http::get(weir.health, "/").await.status == 503).await;
    weir.hurry().await;
    assert_eq!(weir.wait().await.code(), Some(1));
    let amiss: Vec<_> = weir.logs().into_iter().filter(|line| line["message"].to_string().contains("bug")).collect();
    assert!(amiss.is_empty(), "{amiss:?}");
    let stopped = weir.logged("stopped").unwrap();
    assert_eq!((&stopped["accepted"], &stopped["dropped"]), (&200.into(), &200.into()), "{stopped}");
    assert_eq!(stopped["balanced"], true, "{stopped}");
}
