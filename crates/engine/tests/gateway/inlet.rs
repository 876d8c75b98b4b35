//! Sources in the process itself: what they offer is kept, counted and refused like what clients send, and no socket is
//! needed for it.

use std::time::Duration;

use bytes::Bytes;
use weir_engine::settings::{Admin, MEMORY_MIN};
use weir_engine::view::BeforeBooks;
use weir_engine::{
    Addresses, BookFigures, EarlyLoss, Engine, Inlet, InputKind, Origin, Permit, Request, Secured, Settings, Unfit,
    Verdict,
};
use weir_loadtest::sink::Sink;
use weir_plan::{Backlog, Input, Overflow, Pipeline, PipelineId, Plan, Signal};
use weir_testkit::backend::Backend;
use weir_testkit::data_dir::DataDir;
use weir_testkit::sink::{DOWN, arrived, faults, sink};
use weir_testkit::{eventually, in_time, payload};

use crate::support::{no_pods, on_disk, pipeline, settings};

const NOWHERE: Addresses = Addresses { grpc: None, http: None, metrics: None, health: None, admin: None };

/// An engine without a socket, and a pipeline to a backend.
async fn engine(sink: &Sink, settings: Settings) -> Engine {
    engine_of(vec![pipeline("backend", sink.grpc)], settings).await
}

async fn engine_of(pipelines: Vec<Pipeline>, settings: Settings) -> Engine {
    let admin = Admin { port: None, ..Admin::default() };
    let settings =
        Settings { grpc_port: None, http_port: None, metrics_port: None, health_port: None, admin, ..settings };
    let plan = Plan { pipelines, ..Plan::default() };
    let engine = Engine::start(&plan, no_pods(), settings).await.unwrap();
    assert_eq!(engine.addresses(), NOWHERE);
    engine
}

/// A batch of a source's.
async fn batch(inlet: &Inlet, bytes: Vec<u8>) -> Request {
    let permit = inlet.reserve(bytes.capacity()).await.unwrap();
    Request::new(Signal::Traces, bytes, permit, Origin::of(InputKind::Otlp)).unwrap()
}

async fn offer(inlet: &Inlet, bytes: Vec<u8>) -> Verdict {
    in_time("an answer", inlet.offer(batch(inlet, bytes).await)).await
}

/// The books of the only pipeline; they balance.
fn books(engine: &Engine) -> BookFigures {
    let [(_, books)] = &engine.books()[..] else { panic!("one pipeline") };
    assert!(books.balanced(), "{books:?}");
    books.clone()
}

async fn stop(engine: Engine) -> BookFigures {
    let stopped = in_time("shutdown", engine.shutdown(std::future::pending())).await;
    assert!(stopped.in_order);
    stopped.books[0].1.clone()
}

#[tokio::test]
async fn what_a_source_offers_arrives_and_is_in_the_books() {
    let sink = sink("{}").await;
    let engine = engine(&sink, settings()).await;
    let inlet = engine.inlet();
    assert!(inlet.is_open(Signal::Traces, InputKind::Otlp));
    assert!(!inlet.is_open(Signal::Traces, InputKind::Prometheus) && !inlet.is_open(Signal::Logs, InputKind::Otlp));
    let request = batch(&inlet, payload::encoded(1, 100, 10)).await;
    assert_eq!(request.items(), 100);
    assert_eq!(inlet.offer(request).await, Verdict::Secured);
    assert_eq!(offer(&inlet, Vec::new()).await, Verdict::Secured, "nothing is nothing to keep");
    assert_eq!(arrived(&sink), (1..=100).collect::<Vec<_>>());
    assert_eq!((books(&engine).accepted, books(&engine).delivered), (100, 100));
    let stopped = stop(engine).await;
    assert_eq!((stopped.pending, stopped.dropped.len()), (0, 0), "{stopped:?}");
    let late = offer(&inlet, payload::encoded(101, 1, 10)).await;
    assert!(matches!(late, Verdict::Refused(..)), "{late:?}");
}

/// As when it was refused. Nothing of it is copied.
#[tokio::test]
async fn what_a_source_has_made_may_be_offered_again() {
    let sink = sink("{}").await;
    let engine = engine(&sink, settings()).await;
    let inlet = engine.inlet();
    let bytes = payload::encoded(1, 100, 10);
    let permit = inlet.reserve(bytes.capacity()).await.unwrap();
    let bytes = permit.pays_for(bytes);
    for _ in 0..2 {
        let request = Request::made(Signal::Traces, bytes.clone(), 100, Origin::of(InputKind::Otlp));
        assert_eq!(in_time("an answer", inlet.offer(request)).await, Verdict::Secured);
    }
    assert_eq!((books(&engine).accepted, books(&engine).delivered), (200, 200));
    drop(bytes);
    let all = inlet.memory() - Permit::OVERHEAD_BYTES;
    eventually("nobody keeps what is delivered", async || inlet.reserve(all).await.is_some()).await;
    stop(engine).await;
}

/// The memory is that which clients' requests have, and a source that finds none is told so.
#[tokio::test]
async fn sources_get_no_more_memory_than_there_is() {
    let sink = sink("{}").await;
    let engine = engine(&sink, Settings { memory: MEMORY_MIN, ..settings() }).await;
    let inlet = engine.inlet();
    let part = inlet.max_request_bytes();
    let mut taken: Vec<Permit> = Vec::new();
    while let Some(permit) = inlet.reserve(part).await {
        taken.push(permit);
    }
    assert!(taken.len() > 1 && taken.len() * part <= MEMORY_MIN, "{} of {part}", taken.len());
    let rest = inlet.reserve(0).await.unwrap();
    let grown = Request::new(Signal::Traces, payload::encoded(1, 1, part), rest, Origin::of(InputKind::Otlp));
    assert!(matches!(grown, Err(Unfit::NoMemory)), "{grown:?}");

    taken.truncate(1);
    let waiting = inlet.reserve(part);
    assert!(waiting.await.is_some(), "what was given back is there for others");
    let permit = taken.pop().unwrap();
    let bad = Request::new(Signal::Traces, b"no telemetry".to_vec(), permit, Origin::of(InputKind::Otlp));
    assert!(matches!(bad, Err(Unfit::Invalid(_))), "{bad:?}");
    let large = offer(&inlet, payload::encoded(1, 2, part)).await;
    assert!(matches!(large, Verdict::TooLarge(_)), "{large:?}");
    assert_eq!(books(&engine).accepted, 0);
    assert_eq!(offer(&inlet, payload::encoded(1, 1, 10)).await, Verdict::Secured);
    stop(engine).await;
}

/// Without a disk, a backend that takes nothing fills the pipeline's share; then sources are refused like clients.
#[tokio::test]
async fn sources_are_refused_when_there_is_no_room() {
    let sink = sink(DOWN).await;
    let settings = Settings { memory: MEMORY_MIN, spill_after: Duration::from_millis(1), ..settings() };
    let engine = engine(&sink, settings).await;
    let inlet = engine.inlet();
    let (mut secured, mut first) = (0, 1);
    let refused = loop {
        match offer(&inlet, payload::encoded(first, 100, 5_000)).await {
            Verdict::Secured => secured += 100,
            refused => break refused,
        }
        first += 100;
        assert!(first < 10_000, "never refused");
    };
    assert!(matches!(refused, Verdict::Refused(..) | Verdict::NoMemory), "{refused:?}");
    let books = books(&engine);
    assert!(secured > 0 && books.accepted == secured, "{books:?}");
}

#[tokio::test]
async fn what_no_backend_takes_is_kept_for_the_next_process() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let started = engine(&sink, Settings { spill_after: Duration::from_millis(5), ..on_disk(&dir).await }).await;
    let inlet = started.inlet();
    assert_eq!(offer(&inlet, payload::encoded(1, 100, 10)).await, Verdict::Secured);
    drop(inlet);
    assert_eq!(stop(started).await.pending, 100);

    sink.set_faults(faults("{}"));
    let restarted = engine(&sink, on_disk(&dir).await).await;
    eventually("it arrives", async || arrived(&sink) == (1..=100).collect::<Vec<_>>()).await;
    eventually("it is done with", async || books(&restarted).pending == 0).await;
    assert_eq!((books(&restarted).recovered, books(&restarted).delivered), (100, 100));
    dir.becomes_empty().await;
}

/// What of each pipeline was lost before it came into the books.
fn before_books(engine: &Engine) -> Vec<BeforeBooks> {
    let snapshot = engine.view().snapshot().unwrap();
    snapshot.pipelines.iter().map(|pipeline| pipeline.before_books).collect()
}

/// It counts for each pipeline that would have got it, and is in no books.
#[tokio::test]
async fn what_a_source_loses_counts_for_those_who_would_have_got_it() {
    let sink = sink("{}").await;
    let nothing = Pipeline { input: Input { otlp: None, ..Input::default() }, ..pipeline("nothing", sink.grpc) };
    let engine = engine_of(vec![pipeline("some", sink.grpc), nothing], settings()).await;
    let (inlet, request) = (engine.inlet(), payload::encoded(1, 100, 10));
    let none = BeforeBooks::default();
    assert_eq!(before_books(&engine), [none, none]);
    let of = (Signal::Traces, InputKind::Otlp);
    inlet.lost_request(of, &request, (100, EarlyLoss::TooLarge), &Secured::default());
    let some = BeforeBooks { items: 100, last: Some(EarlyLoss::TooLarge) };
    assert_eq!(before_books(&engine), [some, none]);
    let of = ["nothing", "gone"].map(|name| PipelineId::new(Signal::Traces, name));
    inlet.lost_early(&of, 7, EarlyLoss::Removed);
    assert_eq!(before_books(&engine), [some, BeforeBooks { items: 7, last: Some(EarlyLoss::Removed) }]);
    let books = engine.books();
    let are_empty =
        |books: &BookFigures| books.balanced() && books.accepted == 0 && books.dropped.values().sum::<u64>() == 0;
    assert!(books.iter().all(|(_, books)| are_empty(books)), "{books:?}");
}

/// A pipeline that is full refuses it, time after time.
#[tokio::test]
async fn what_is_offered_again_goes_to_those_who_do_not_have_it() {
    let (dir, healthy, full) = (DataDir::new(), sink("{}").await, sink(DOWN).await);
    let backlog = Backlog { max_bytes: 1 << 20, overflow: Overflow::Refuse, ..Backlog::default() };
    let pipelines = vec![pipeline("healthy", healthy.grpc), Pipeline { backlog, ..pipeline("full", full.grpc) }];
    let settings = Settings { spill_after: Duration::from_millis(5), ..on_disk(&dir).await };
    let engine = engine_of(pipelines, settings).await;
    let (inlet, mut id) = (engine.inlet(), 0);
    let made = async |id| {
        let bytes = payload::encoded(id, 1, 200_000);
        let permit = inlet.reserve(bytes.capacity()).await.unwrap();
        permit.pays_for(bytes)
    };
    let request = |bytes: &Bytes| Request::made(Signal::Traces, bytes.clone(), 1, Origin::of(InputKind::Otlp));
    let mut offers = 0;
    let (bytes, mut secured) = loop {
        id += 1;
        assert!(id < 1000, "never full");
        let (bytes, mut secured, mut refusals) = (made(id).await, Secured::default(), 0);
        // A disk that takes long refuses, too. It is full when it does so time after time.
        while refusals < 4 {
            match in_time("an answer", inlet.offer_again(request(&bytes), &mut secured)).await {
                Verdict::Secured => break,
                Verdict::Refused(..) => refusals += 1,
                other => panic!("{other:?}"),
            }
        }
        offers += refusals;
        if refusals == 4 {
            break (bytes, secured);
        }
    };
    assert_eq!(arrived(&healthy), (1..=id).collect::<Vec<_>>(), "each once");
    inlet.lost_request((Signal::Traces, InputKind::Otlp), &bytes, (1, EarlyLoss::NoRoom), &secured);
    let lost = before_books(&engine).iter().map(|of| of.items).collect::<Vec<_>>();
    assert_eq!(lost, [0, 1], "who has it would lose nothing if it was given up now");
    full.set_faults(faults("{}"));
    eventually("there is room again", async || {
        offers += 1;
        inlet.offer_again(request(&bytes), &mut secured).await == Verdict::Secured
    })
    .await;
    assert_eq!(arrived(&healthy), (1..=id).collect::<Vec<_>>(), "still once");
    eventually("all arrives", async || arrived(&full) == (1..=id).collect::<Vec<_>>()).await;
    let books = || engine.books().into_iter().map(|(_, books)| books).collect::<Vec<_>>();
    eventually("it is in the books", async || books().iter().all(|books| books.pending == 0)).await;
    // On a busy machine, a backend may take longer to answer than its part of a refused request is waited for, and then
    // gets that part again, until it has answered in time once.
    let more = books()[0].delivered - id;
    assert!(more < offers - 1, "{more} were delivered again, each time that it was offered ({offers})");
}

/// It stops when its time is over. Who has delivered the request, or has it in the journal, has lost nothing of it. It
/// is lost where there is no room.
#[tokio::test]
async fn a_source_that_stops_waiting_knows_who_has_it() {
    let (dir, healthy, hangs) = (DataDir::new(), sink("{}").await, Backend::holding().await);
    let backlog = Backlog { max_bytes: 1 << 20, overflow: Overflow::Refuse, ..Backlog::default() };
    let pipelines = vec![pipeline("healthy", healthy.grpc), Pipeline { backlog, ..pipeline("hangs", hangs.address) }];
    // Nothing but the source itself ends its waiting.
    let settings = Settings { spill_after: Duration::from_secs(3600), ..on_disk(&dir).await };
    let engine = engine_of(pipelines, settings).await;
    let inlet = engine.inlet();
    let books = || engine.books().into_iter().map(|(_, books)| books).collect::<Vec<_>>();
    let of = (Signal::Traces, InputKind::Otlp);
    // Each takes more than half of the backlog, and the first is kept.
    for (id, lost) in [(1, 0), (2, 1)] {
        let bytes = payload::encoded(id, 1, 600_000);
        let permit = inlet.reserve(bytes.capacity()).await.unwrap();
        let (bytes, mut secured) = (permit.pays_for(bytes), Secured::default());
        let request = Request::made(Signal::Traces, bytes.clone(), 1, Origin::of(InputKind::Otlp));
        // What is under way when it is written is not left for later, so that the pipeline is not known to be behind.
        let is_time = async || books()[0].delivered == id && !hangs.captured().is_empty();
        tokio::select! {
            verdict = inlet.offer_again(request, &mut secured) => panic!("{verdict:?}"),
            () = eventually("one has delivered it", is_time) => {}
        }
        assert_eq!(inlet.lost_request(of, &bytes, (1, EarlyLoss::NoRoom), &secured), lost > 0);
        assert_eq!(before_books(&engine).iter().map(|of| of.items).collect::<Vec<_>>(), [0, lost]);
        eventually("the first is in the journal", async || books()[1].pending == 1).await;
    }
    hangs.answer();
    eventually("it is delivered", async || books()[1].pending == 0 && books()[1].delivered > 0).await;
    assert_eq!(arrived(&healthy), [1, 2], "each once");
}
