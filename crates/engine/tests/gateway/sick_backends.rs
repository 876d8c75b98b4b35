//! What backends see that struggle, ask for time, are away, or come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use weir_engine::Settings;
use weir_plan::{Pipeline, Protocol};
use weir_testkit::backend::{Backend, Say};
use weir_testkit::clients::{SPANS, ids, request, send_all, send_singly};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::OK;
use weir_testkit::sink::{DOWN, arrived, closed_port, faults, sink};
use weir_testkit::{eventually, payload};

use crate::support::{Gateway, on_disk, output, pipeline};

async fn hasty(dir: &DataDir) -> Settings {
    Settings { spill_after: Duration::from_millis(5), ..on_disk(dir).await }
}

/// What a backend sees at most, as documented with the retry budget: five times the first attempts, four for each request
/// that it took, two a second, and a reserve.
fn allowed(first_attempts: u64, backend: &Backend, began: Instant) -> usize {
    let taken = backend.captured().iter().filter(|request| request.taken).count();
    let first_attempts = usize::try_from(first_attempts).unwrap();
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap() + 1;
    5 * first_attempts + 4 * taken + 2 * seconds + 128
}

#[tokio::test]
async fn a_backend_that_takes_nothing_is_not_hammered() {
    let (dir, began) = (DataDir::new(), Instant::now());
    let backend = Backend::scripted(|_, _| Say::Code(14, "later", None)).await;
    let gateway = Gateway::with(vec![pipeline("backend", backend.address)], hasty(&dir).await).await;
    let requests = 50;
    send_singly(gateway.at.grpc, 0..requests, 100).await;
    eventually("some time has passed", async || {
        gateway.scrape().await.figure("weir_pipeline_backlog_oldest_age_seconds", "backend") > 5.0
    })
    .await;
    // Of data that is live at first and then on disk, each is a first attempt.
    let (seen, allowed) = (backend.captured().len(), allowed(2 * requests, &backend, began));
    assert!(seen <= allowed, "{seen} requests, {allowed} allowed");
    assert!(seen <= 150, "{seen} requests, although the backend has taken none of 24 in a row");
    assert_eq!(gateway.books("backend").pending, requests * SPANS);
}

#[tokio::test]
async fn a_backend_that_takes_little_gets_everything_within_its_retry_budget() {
    let (dir, began) = (DataDir::new(), Instant::now());
    let script = |number: usize, _: &_| if number % 2 == 1 { Say::Ok } else { Say::Code(14, "later", None) };
    let backend = Backend::scripted(script).await;
    let gateway = Gateway::with(vec![pipeline("backend", backend.address)], hasty(&dir).await).await;
    let requests = 50;
    send_singly(gateway.at.grpc, 0..requests, 100).await;
    gateway.settle().await;
    assert_eq!(backend.taken_ids(), ids(0..requests));
    let (seen, allowed) = (backend.captured().len(), allowed(2 * requests, &backend, began));
    assert!(seen <= allowed, "{seen} requests, {allowed} allowed");
    dir.becomes_empty().await;
}

/// The hint binds for what waits on disk as well.
#[tokio::test]
async fn a_hint_is_obeyed_for_what_is_on_disk() {
    let hint = Duration::from_secs(2);
    for (protocol, code) in [(Protocol::Grpc, 14), (Protocol::Http, 503)] {
        let dir = DataDir::new();
        let script = move |number, _: &_| if number == 0 { Say::Code(code, "later", Some(hint)) } else { Say::Ok };
        let backend = Backend::scripted(script).await;
        let pipeline = Pipeline { output: output(backend.address, protocol), ..pipeline("backend", backend.address) };
        let gateway = Gateway::with(vec![pipeline], hasty(&dir).await).await;
        send_all(gateway.at.grpc, 0..1, 100).await;
        assert!(!dir.files().is_empty(), "it is on disk");
        gateway.settle().await;
        let captured = backend.captured();
        assert_eq!(captured.len(), 2, "{protocol:?}");
        let pause = captured[1].at - captured[0].at;
        assert!(pause >= hint, "{protocol:?}: {pause:?}");
        dir.becomes_empty().await;
    }
}

/// A backlog of `requests` requests for "backend", and a gateway that finds it.
async fn with_backlog(dir: &DataDir, backend: &Backend, requests: u64) -> Gateway {
    let gateway = Gateway::with(vec![pipeline("backend", closed_port().await)], hasty(dir).await).await;
    send_singly(gateway.at.grpc, 0..requests, 2000).await;
    gateway.stop().await;
    // Requests to the backend that hold two of these; clients wait long enough to be served live.
    let settings = Settings { batch_bytes: 50_000, spill_after: Duration::from_secs(120), ..on_disk(dir).await };
    Gateway::with(vec![pipeline("backend", backend.address)], settings).await
}

#[tokio::test]
async fn a_backend_that_returns_gets_live_data_before_the_end_of_the_backlog() {
    let (dir, backend) = (DataDir::new(), Backend::holding().await);
    let gateway = with_backlog(&dir, &backend, 100).await;
    eventually("the backlog is being sent", async || !backend.captured().is_empty()).await;
    let client = gateway.client().await;
    // Enough for a request: less would wait some milliseconds for company.
    let live: Vec<_> = (1000..1003).map(|number| request(number, 2000)).collect();
    let observe = async {
        eventually("there is live data", async || gateway.books("backend").waiting == 3 * SPANS).await;
        backend.answer();
    };
    let (answers, ()) =
        tokio::join!(futures_util::future::join_all(live.iter().map(|live| client.export(live))), observe);
    assert!(answers.iter().all(|answer| answer.code == OK));
    gateway.settle().await;
    let order: Vec<u64> = backend.captured().iter().map(|request| payload::ids(&request.message)[0]).collect();
    let at = order.iter().position(|id| *id >= ids(1000..1001)[0]).unwrap();
    assert!(at + 10 < order.len(), "live data was request {at} of {}", order.len());
    // The backlog is sent from its beginning; requests that leave together overtake each other.
    assert!(order.iter().take(10).min() == order.iter().min(), "{order:?}");
    assert_eq!(backend.ids(), [ids(0..100), ids(1000..1003)].concat(), "everything once");
    dir.becomes_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_shrinks_however_much_arrives() {
    let (dir, backend) = (DataDir::new(), Backend::start().await);
    let gateway = with_backlog(&dir, &backend, 100).await;
    let stop = Arc::<AtomicBool>::default();
    let clients: Vec<_> = (1..=4_u64)
        .map(|client| {
            let (stop, address) = (Arc::clone(&stop), gateway.at.grpc);
            tokio::spawn(async move {
                let connection = weir_testkit::grpc::Grpc::connect(address).await;
                let mut number = client * 1_000_000;
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(connection.export(&request(number, 100)).await.code, OK);
                    number += 1;
                }
            })
        })
        .collect();
    eventually("the backlog is gone", async || {
        gateway.scrape().await.figure("weir_pipeline_backlog_items", "backend") == 0.0
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    gateway.settle().await;
    let backlog: Vec<u64> = backend.ids().into_iter().filter(|id| *id <= 100 * SPANS).collect();
    assert_eq!(backlog, ids(0..100));
    assert!(gateway.books("backend").accepted > 0);
}

/// Smaller requests than the journal's entries: they are read back in parts, and each part arrives once.
#[tokio::test]
async fn a_backend_that_takes_only_small_requests_gets_the_backlog_in_parts() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], hasty(&dir).await).await;
    send_all(gateway.at.grpc, 0..20, 10_000).await;
    let large = payload::encoded(1001, 400, 10_000);
    assert_eq!(gateway.client().await.export(&large).await.code, OK);
    sink.set_faults(faults(r#"{"max_request_bytes": 60000}"#));
    gateway.settle().await;
    assert_eq!(arrived(&sink), [ids(0..20), (1001..=1400).collect()].concat());
    let report = sink.report(false);
    assert!(report.duplicates == 0 && report.largest_request_bytes <= 60_000, "{report:?}");
    let books = gateway.books("backend");
    assert!(books.rejected.is_empty() && books.dropped.is_empty(), "{books:?}");
    dir.becomes_empty().await;
}

/// Partial answers count for what was read back as for what is live.
#[tokio::test]
async fn partial_success_of_the_backlog_is_counted() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], hasty(&dir).await).await;
    send_all(gateway.at.grpc, 0..20, 100).await;
    sink.set_faults(faults(r#"{"partial": 100}"#));
    gateway.settle().await;
    let (books, report) = (gateway.books("backend"), sink.report(false));
    assert_eq!((books.delivered, books.rejected["partial_success"]), (report.unique, report.partial_rejected));
    assert_eq!(books.delivered + books.rejected["partial_success"], 20 * SPANS);
    dir.becomes_empty().await;
}
