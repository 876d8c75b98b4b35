//! When a client gets its OK, and where its data is then.

use std::time::Duration;

use serde_json::Value;
use weir_engine::Settings;
use weir_testkit::backend::Backend;
use weir_testkit::clients::{SPANS, ids, request, send_all};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::OK;
use weir_testkit::http::{self, JSON, PROTOBUF};
use weir_testkit::sink::{DOWN, arrived, faults, sink};
use weir_testkit::{eventually, json, payload};

use crate::support::{Gateway, on_disk, pipeline};

/// Longer than any healthy backend needs on a busy machine.
const PATIENT: Duration = Duration::from_secs(60);

const HASTY: Duration = Duration::from_millis(10);

#[tokio::test]
async fn while_all_is_well_nothing_is_written() {
    let (dir, one, two) = (DataDir::new(), sink("{}").await, sink("{}").await);
    let settings = Settings { spill_after: PATIENT, ..on_disk(&dir).await };
    let gateway = Gateway::with(vec![pipeline("one", one.grpc), pipeline("two", two.grpc)], settings).await;
    send_all(gateway.at.grpc, 0..200, 100).await;
    gateway.settle().await;
    let scrape = gateway.scrape().await;
    for figure in ["weir_journal_spilled_bytes_total", "weir_journal_segments", "weir_journal_disk_bytes"] {
        assert_eq!(scrape.get(figure), 0.0, "{figure}");
    }
    assert_eq!(dir.files(), Vec::<std::path::PathBuf>::new());
    assert_eq!((arrived(&one), arrived(&two)), (ids(0..200), ids(0..200)));
    scrape.books("one");
}

#[tokio::test]
async fn what_a_slow_backend_has_not_answered_for_is_on_disk_when_its_client_gets_ok() {
    let (dir, backend) = (DataDir::new(), Backend::holding().await);
    let settings = Settings { spill_after: HASTY, ..on_disk(&dir).await };
    let gateway = Gateway::with(vec![pipeline("backend", backend.address)], settings).await;
    let body = request(0, 100);
    assert_eq!(gateway.client().await.export(&body).await.code, OK);
    assert!(dir.holds(b"GET /orders/7") && dir.holds(b"GET /orders/10"));
    let scrape = gateway.scrape().await;
    assert_eq!(scrape.get("weir_journal_spilled_bytes_total"), body.len() as f64);
    assert_eq!(scrape.figure("weir_pipeline_backlog_items", "backend"), SPANS as f64);
    assert_eq!(scrape.figure("weir_pipeline_backlog_bytes", "backend"), body.len() as f64);
    assert_eq!(scrape.get("weir_journal_segments"), 1.0);
    assert_eq!(gateway.books("backend").pending, SPANS);

    backend.answer();
    gateway.settle().await;
    dir.becomes_empty().await;
    assert_eq!(backend.ids(), ids(0..1), "the request that was under way has delivered it; there was no other");
    assert_eq!(gateway.books("backend").delivered, SPANS);
}

/// One copy, however many pipelines are owed it; it goes when the last of them has it.
#[tokio::test]
async fn one_copy_serves_every_pipeline() {
    let (dir, one, two) = (DataDir::new(), sink(DOWN).await, sink(DOWN).await);
    let settings = Settings { spill_after: HASTY, ..on_disk(&dir).await };
    let gateway = Gateway::with(vec![pipeline("one", one.grpc), pipeline("two", two.grpc)], settings).await;
    send_all(gateway.at.grpc, 0..50, 1000).await;
    let sent: usize = (0..50).map(|number| request(number, 1000).len()).sum();
    assert_eq!(gateway.scrape().await.get("weir_journal_spilled_bytes_total"), sent as f64);

    one.set_faults(faults("{}"));
    eventually("the first has everything", async || arrived(&one) == ids(0..50)).await;
    eventually("its backlog is empty", async || {
        gateway.scrape().await.figure("weir_pipeline_backlog_items", "one") == 0.0
    })
    .await;
    let books = gateway.books("two");
    assert_eq!((books.pending, books.delivered), (50 * SPANS, 0));
    two.set_faults(faults("{}"));
    gateway.settle().await;
    dir.becomes_empty().await;
    assert_eq!(arrived(&two), ids(0..50));
    assert_eq!((one.report(false).duplicates, two.report(false).duplicates), (0, 0));
}

/// A single span, one resource that is larger than any request to the backend may be, and JSON: all are kept as they
/// came, over an orderly restart, and arrive once.
#[tokio::test]
async fn requests_of_every_size_and_form_are_kept() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let pipelines = || vec![pipeline("backend", sink.grpc)];
    let settings = Settings { spill_after: HASTY, ..on_disk(&dir).await };
    let gateway = Gateway::with(pipelines(), settings).await;
    let client = gateway.client().await;
    let large = payload::encoded(1001, 900, 10_000);
    assert!(large.len() > 2 * (4 << 20), "{} bytes", large.len());
    let gzip = payload::compress("gzip", &payload::encoded(2001, 100, 100));
    let document: Value = json::traces(&payload::request(3001, 100, 100));
    assert_eq!(client.export(&payload::encoded(1, 1, 10)).await.code, OK);
    assert_eq!(client.export(&large).await.code, OK);
    assert_eq!(client.export_as("gzip", &gzip).await.code, OK);
    assert_eq!(http::post(gateway.at.http, JSON, None, document.to_string().as_bytes()).await.status, 200);
    assert_eq!(http::post(gateway.at.http, PROTOBUF, None, &payload::encoded(4001, 5, 10)).await.status, 200);
    assert_eq!(client.export(b"").await.code, OK, "nothing is nothing to keep");
    let sent = 1 + 900 + 100 + 100 + 5;
    assert_eq!(gateway.books("backend").pending, sent);
    drop(client);
    let stopped = gateway.stop().await;
    assert_eq!((stopped[0].1.pending, stopped[0].1.dropped.len()), (sent, 0), "{stopped:?}");

    sink.set_faults(faults("{}"));
    let gateway = Gateway::with(pipelines(), on_disk(&dir).await).await;
    gateway.settle().await;
    let expected = [1..=1, 1001..=1900, 2001..=2100, 3001..=3100, 4001..=4005];
    assert_eq!(arrived(&sink), expected.into_iter().flatten().collect::<Vec<_>>());
    assert_eq!(sink.report(false).duplicates, 0);
    let books = gateway.books("backend");
    assert_eq!((books.recovered, books.accepted, books.delivered), (sent, 0, sent));
    dir.becomes_empty().await;
}

/// A client that goes away before its answer cannot know; what it sent is kept all the same.
#[tokio::test]
async fn what_a_client_did_not_wait_for_is_kept() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let settings = Settings { spill_after: PATIENT, ..on_disk(&dir).await };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    let client = gateway.client().await;
    let body = request(0, 100);
    tokio::select! {
        answer = client.export(&body) => panic!("answered: {answer:?}"),
        () = eventually("it is here", async || gateway.books("backend").waiting == SPANS) => {}
    }
    drop(client);
    eventually("it is on disk", async || {
        gateway.scrape().await.figure("weir_pipeline_backlog_items", "backend") == SPANS as f64
    })
    .await;
    sink.set_faults(faults("{}"));
    gateway.settle().await;
    assert_eq!(arrived(&sink), ids(0..1));
    dir.becomes_empty().await;
}
