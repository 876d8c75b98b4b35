//! What an engine shows of itself: one snapshot that others read, paid for, and usable without the engine at hand.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use weir_engine::settings::{MEMORY, MEMORY_MIN};
use weir_engine::taps::{Edge, Wish};
use weir_engine::view::{BackendState, Health, PipelineFigures, Snapshot, View};
use weir_engine::{Permit, Settings, SetupError};
use weir_plan::{Pipeline, Plan, Signal, Transform};
use weir_testkit::grpc::{INVALID_ARGUMENT, OK, UNAVAILABLE};
use weir_testkit::http::{self, PROTOBUF};
use weir_testkit::sink::{closed_port, sink};
use weir_testkit::{eventually, payload};

use crate::support::{Gateway, pipeline, settings, traces};

fn of<'a>(snapshot: &'a Snapshot, name: &str) -> &'a PipelineFigures {
    snapshot.pipelines.iter().find(|pipeline| pipeline.id == traces(name)).unwrap()
}

fn plan(pipelines: Vec<Pipeline>) -> Plan {
    Plan { pipelines, ..Plan::default() }
}

#[tokio::test]
async fn a_snapshot_tells_of_a_known_traffic() {
    let sink = sink("{}").await;
    let gateway = Gateway::start(vec![pipeline("ok", sink.grpc), pipeline("dead", closed_port().await)]).await;
    let client = gateway.client().await;
    assert_eq!(client.export(&payload::encoded(1, 7, 10)).await.code, OK);
    assert_eq!(client.export(b"\xff").await.code, INVALID_ARGUMENT);
    let view = gateway.engine.view();
    eventually("the backend is found out", async || {
        let dead = view.snapshot().unwrap();
        let dead = of(&dead, "dead");
        // Every retry takes a part of the budget, which comes back within half a second.
        dead.backend.state == BackendState::Unreachable
            && dead.retry_budget.left < dead.retry_budget.most
            && dead.was_tried
    })
    .await;
    let snapshot = view.snapshot().unwrap();
    let (ok, dead) = (of(&snapshot, "ok"), of(&snapshot, "dead"));
    assert!(ok.books.balanced() && ok.books.delivered == 7 && ok.books.pending == 0, "{ok:?}");
    assert!(dead.books.balanced() && dead.books.delivered == 0 && dead.books.pending == 7, "{dead:?}");
    let bytes = payload::encoded(1, 7, 10).len();
    assert_eq!((ok.pending_bytes, dead.pending_bytes), (0, bytes as u64));
    assert!(dead.held_bytes > bytes && dead.share_bytes > dead.held_bytes, "{dead:?}");
    assert!(dead.oldest_age > ok.oldest_age && !dead.oldest_age.is_zero() && !dead.backend.message.is_empty());
    assert_eq!(
        (ok.latency.buckets.iter().map(|(_, count)| count).sum::<u64>(), ok.backend.state),
        (1, BackendState::Ok)
    );
    assert_eq!((ok.codes.each().collect::<Vec<_>>(), ok.latency_lately.count()), (vec![("OK", 1)], 1));
    assert!(dead.codes.each().all(|(code, _)| code == "none") && dead.codes.each().count() == 1, "{dead:?}");
    let most = Duration::from_secs(60);
    assert!(dead.next_probe.is_some_and(|next| next <= most), "{dead:?}");
    assert_eq!((ok.next_probe, ok.retry_budget.left), (None, ok.retry_budget.most));
    let [grpc, http] = &snapshot.receivers.transports;
    let signal = Signal::Traces as usize;
    assert_eq!((grpc.accepted[signal], http.accepted[signal], snapshot.receivers.connections), (7, 0, 1));
    assert_eq!(grpc.refusals.iter().find(|(reason, _)| *reason == "malformed"), Some(&("malformed", 1)));
    assert!(snapshot.health == Health::Ready && snapshot.journal.is_none() && !snapshot.uptime.is_zero());
    let memory = &snapshot.memory;
    let parts: usize = memory.parts.iter().map(|part| part.bytes).sum();
    assert!(memory.total == MEMORY && parts <= MEMORY && parts > MEMORY / 8 * 7, "{memory:?}");
    assert!(memory.payloads().1 >= dead.held_bytes, "held data is paid for: {memory:?}");
}

/// Until a request has ended, and again once the pipeline is sent elsewhere.
#[tokio::test]
async fn a_backend_to_which_no_request_has_ended_is_told_apart() {
    let (one, other) = (sink("{}").await, sink("{}").await);
    let mut gateway = Gateway::start(vec![pipeline("moves", one.grpc)]).await;
    let view = gateway.engine.view();
    let stands = || {
        let snapshot = view.snapshot().unwrap();
        let moves = of(&snapshot, "moves");
        (moves.was_tried, moves.backend.state)
    };
    assert_eq!(stands(), (false, BackendState::Ok));
    assert_eq!(gateway.client().await.export(&payload::encoded(1, 5, 10)).await.code, OK);
    eventually("it is known", async || stands() == (true, BackendState::Ok)).await;
    gateway.engine.reload(&plan(vec![pipeline("moves", other.grpc)])).unwrap();
    assert_eq!(stands(), (false, BackendState::Ok), "nobody knows the other one");
}

/// One that is gone, a configuration that was not taken up, and the end of the engine.
#[tokio::test]
async fn what_has_happened_is_still_seen_afterwards() {
    let sink = sink("{}").await;
    let mut gateway = Gateway::start(vec![pipeline("gone", sink.grpc), pipeline("stays", sink.grpc)]).await;
    let view = gateway.engine.view();
    assert_eq!(gateway.client().await.export(&payload::encoded(1, 5, 10)).await.code, OK);
    // A client may be answered before, if its backends take their time.
    gateway.settle().await;
    gateway.engine.reload(&plan(vec![pipeline("stays", sink.grpc)])).unwrap();
    let snapshot = view.snapshot().unwrap();
    assert_eq!(snapshot.pipelines.iter().map(|pipeline| &pipeline.id).collect::<Vec<_>>(), [&traces("stays")]);
    let [gone] = &*snapshot.orphans else { panic!("{snapshot:?}") };
    assert!(gone.id == traces("gone") && gone.books.delivered == 5 && gone.books.balanced(), "{gone:?}");
    assert_eq!((snapshot.reloads.successes, snapshot.reloads.failures, snapshot.reloads.error), (1, 0, None));

    let mut broken = pipeline("stays", sink.grpc);
    let statements = vec!["set(span.name, ".to_owned()];
    broken.processing.transforms = vec![Transform { conditions: Vec::new(), statements }];
    gateway.engine.reload(&plan(vec![broken])).unwrap();
    let snapshot = view.snapshot().unwrap();
    let error = snapshot.reloads.error.clone().unwrap();
    assert!(snapshot.reloads.failures == 1 && error.contains("stays"), "{error}");
    let cause = of(&snapshot, "stays").setup_error.clone().unwrap();
    assert_eq!(error, format!("cannot set up pipeline traces/stays: {cause}"));
    assert_eq!(gateway.engine.faults(), [SetupError { pipeline: traces("stays"), cause }]);
    gateway.engine.reload_failed("line 3\nis wrong");
    assert_eq!(view.snapshot().unwrap().reloads.error.unwrap(), "line 3 is wrong");

    gateway.stop().await;
    let snapshot = view.snapshot().unwrap();
    assert_eq!(snapshot.memory.admission.refused, Some("draining"));
    assert!(view.health() == Health::Draining && of(&snapshot, "stays").books.delivered == 5, "{snapshot:?}");
}

/// The numbers add up, and clients are answered as they say.
#[tokio::test]
async fn a_snapshot_says_which_request_would_find_memory() {
    let sink = sink("{}").await;
    let gateway = Gateway::start(vec![pipeline("ok", sink.grpc)]).await;
    let (client, inlet, view) = (gateway.client().await, gateway.engine.inlet(), gateway.engine.view());
    let admission = || {
        let memory = view.snapshot().unwrap().memory;
        let of = memory.admission;
        assert_eq!(of.set_aside + of.used + of.free, memory.total, "{memory:?}");
        of
    };
    let calm = admission();
    assert_eq!((calm.refused, calm.is_scarce, calm.waiting, calm.most_waiting), (None, false, 0, 16));
    assert_eq!((calm.limits.largest(), calm.fits), (inlet.max_request_bytes(), inlet.max_request_bytes()));

    let mut taken = vec![inlet.try_reserve(inlet.memory() - calm.fits).unwrap()];
    let scarce = admission();
    assert!(scarce.is_scarce && scarce.refused.is_none(), "{scarce:?}");
    assert!(0 < scarce.fits && scarce.limits.copies * scarce.fits < scarce.free, "{scarce:?}");
    let fits = payload::encoded(1, 64, scarce.fits / 64 / 8 * 7);
    assert!(scarce.fits / 2 < fits.len() && fits.len() < scarce.fits);
    assert_eq!(client.export(&fits).await.code, OK);

    // What the client's request took is given back meanwhile.
    eventually("nothing is left, and the client is told so", async || {
        taken.extend(inlet.try_reserve(admission().free.saturating_sub(2 * Permit::OVERHEAD_BYTES)));
        let full = admission();
        (full.refused, full.fits) == (Some("no_memory"), 0)
            && client.export(&payload::encoded(100, 1, 10)).await.code == UNAVAILABLE
    })
    .await;
    assert_eq!(view.health(), Health::Refusing);
    drop(taken);
    assert_eq!(admission().refused, None);
    assert_eq!(client.export(&payload::encoded(100, 1, 10)).await.code, OK);
}

/// Of a client that breaks off, one whose data is held, a source, a tap, and whoever keeps snapshots.
#[tokio::test]
async fn a_snapshot_says_who_has_the_payloads() {
    let (dead, settings) = (closed_port().await, Settings { memory: MEMORY_MIN, ..settings() });
    let taps = settings.onlookers.taps.clone();
    let gateway = Gateway::with(vec![pipeline("dead", dead)], settings).await;
    let (inlet, view) = (gateway.engine.inlet(), gateway.engine.view());
    let holders = || {
        let memory = view.snapshot().unwrap().memory;
        let names = memory.payload_holders.map(|of| of.holder);
        assert_eq!(names, ["clients", "sources", "delivery", "onlookers", "waiting"]);
        let used = memory.payload_holders.map(|of| of.used);
        assert_eq!(used.iter().sum::<usize>(), memory.payloads().1, "{memory:?}");
        used
    };
    assert_eq!(holders(), [0; 5]);

    let declared = http::head("POST", "/v1/traces", PROTOBUF, "content-length: 400000\r\n");
    let mut stalls = TcpStream::connect(gateway.at.http).await.unwrap();
    stalls.write_all(&[&declared[..], &[0; 200_000]].concat()).await.unwrap();
    eventually("what has arrived is the client's", async || holders()[0] > 200_000).await;
    assert_eq!(holders()[1..], [0; 4]);
    drop(stalls);
    eventually("that is given back", async || holders() == [0; 5]).await;
    assert_eq!(gateway.client().await.export(&payload::encoded(1, 7, 10)).await.code, OK);
    let snapshot = view.snapshot().unwrap();
    assert!(holders()[0] >= of(&snapshot, "dead").held_bytes && of(&snapshot, "dead").held_bytes > 0, "{snapshot:?}");
    drop(snapshot);

    let part = inlet.memory_part(100_000);
    let collected = [inlet.reserve(200_000).await, inlet.try_reserve(1_000), part.try_reserve(50_000)];
    assert_eq!(holders()[1], 251_000 + 3 * Permit::OVERHEAD_BYTES);
    assert!(part.try_reserve(50_000).is_none() && inlet.try_reserve(MEMORY_MIN).is_none());
    assert_eq!(holders()[1], 251_000 + 3 * Permit::OVERHEAD_BYTES, "what is refused takes nothing");
    drop(collected);
    assert_eq!(holders()[1..], [0; 4]);

    let (pipelines, lasts) = (vec![pipeline("dead", dead)], Duration::from_secs(60));
    let wish = Wish { pipelines, edge: Edge::Received, text: None, condition: None, per_second: 10, lasts };
    taps.open(&wish).unwrap();
    let of_tap = holders()[3];
    assert!(of_tap > 0, "a tap is paid for");
    let mut kept: Vec<Snapshot> = Vec::new();
    while holders()[3] <= of_tap {
        kept.push(view.snapshot().unwrap());
        assert!(kept.len() * size_of::<PipelineFigures>() <= MEMORY_MIN, "{} for nothing", kept.len());
    }
    drop(kept);
    assert_eq!(holders()[3], of_tap);
}

/// Whoever keeps snapshots takes no more than is set aside for pages and what payloads have, and is told so.
#[tokio::test]
async fn snapshots_are_paid_for() {
    let backend = closed_port().await;
    let pipelines: Vec<_> = (0..32).map(|number| pipeline(&format!("{number}"), backend)).collect();
    let gateway = Gateway::with(pipelines, Settings { memory: MEMORY_MIN, ..settings() }).await;
    let view = gateway.engine.view();
    let mut kept: Vec<Snapshot> = Vec::new();
    while let Some(snapshot) = view.snapshot() {
        kept.push(snapshot);
        assert!(kept.len() * 32 * size_of::<PipelineFigures>() <= MEMORY_MIN, "{} for nothing", kept.len());
    }
    assert_eq!(view.health(), Health::Refusing, "nothing is left for a request");
    let refused = http::get(gateway.at.metrics, "/metrics").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"), "{refused:?}");
    drop(kept);
    let used = |view: &View| {
        let memory = view.snapshot().unwrap().memory;
        memory
            .parts
            .iter()
            .filter(|part| ["payloads", "pages"].contains(&part.holder))
            .filter_map(|part| part.used)
            .sum::<usize>()
    };
    eventually("all is given back", async || used(&view) == 0).await;
    assert_eq!(http::get(gateway.at.metrics, "/metrics").await.status, 200);
}
