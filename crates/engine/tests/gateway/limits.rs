//! Limits of a backlog, in bytes and in age: what goes is the oldest, of this pipeline alone, and counted.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use weir_engine::Settings;
use weir_plan::{Backlog, Overflow, Pipeline};
use weir_testkit::backend::{Backend, Say};
use weir_testkit::clients::{SPANS, ids, is_polite, request, send, send_all, send_at_once, send_singly};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::OK;
use weir_testkit::sink::{DOWN, arrived, faults, sink};
use weir_testkit::{eventually, http, payload};

use crate::support::{Gateway, on_disk, pipeline};

const LIMIT: u64 = 1 << 20;

/// Requests of some 20 KiB, twice of what the limit allows.
const REQUESTS: u64 = 100;

const PADDING: usize = 2000;

fn limited(name: &str, backend: SocketAddr, overflow: Overflow) -> Pipeline {
    let backlog = Backlog { max_bytes: LIMIT, overflow, ..Backlog::default() };
    Pipeline { backlog, ..pipeline(name, backend) }
}

fn aged(backend: SocketAddr, max_age: Duration) -> Vec<Pipeline> {
    vec![Pipeline { backlog: Backlog { max_age, ..Backlog::default() }, ..pipeline("backend", backend) }]
}

async fn hasty(dir: &DataDir) -> Settings {
    Settings { spill_after: Duration::from_millis(5), ..on_disk(dir).await }
}

/// The id of the one span in a sample of what was given up.
fn the_span_of(sample: &serde_json::Value) -> u64 {
    assert_eq!((&sample["pipeline"], &sample["code"]), (&"traces/sick".into(), &"backlog_full".into()), "{sample}");
    // Requests that came together are one entry.
    let items = sample["items"].as_u64().unwrap();
    assert!(
        items > 0 && items.is_multiple_of(SPANS) && sample["message"].as_str().unwrap().contains("backlog-max-bytes"),
        "{sample}"
    );
    let otlp = STANDARD.decode(sample["otlp"].as_str().unwrap()).unwrap();
    let ids = payload::ids(&ExportTraceServiceRequest::decode(otlp.as_slice()).unwrap());
    assert_eq!(ids.len(), 1, "{sample}");
    ids[0]
}

#[tokio::test]
async fn a_full_backlog_loses_its_oldest_while_another_pipeline_is_well() {
    let (dir, sick, healthy) = (DataDir::new(), sink(DOWN).await, sink("{}").await);
    let pipelines = vec![limited("sick", sick.grpc, Overflow::DropOldest), pipeline("healthy", healthy.grpc)];
    let gateway = Gateway::with(pipelines, hasty(&dir).await).await;
    assert!(request(0, PADDING).len() as u64 * REQUESTS > LIMIT * 2);
    for round in 0..10 {
        send_all(gateway.at.grpc, round * 10..round * 10 + 10, PADDING).await;
        // Clients get their OK before what they wrote together is cut back to the limit.
        eventually("the backlog is within its limit", async || {
            gateway.scrape().await.figure("weir_pipeline_backlog_bytes", "sick") <= LIMIT as f64
        })
        .await;
    }
    let books = gateway.books("sick");
    let dropped = books.dropped["backlog_full"];
    assert_eq!((books.accepted, books.dropped.len(), books.delivered), (REQUESTS * SPANS, 1, 0), "{books:?}");
    // Not more than has to go, but for what was written together.
    assert!(books.pending >= REQUESTS * SPANS / 4, "{books:?}");
    eventually("the healthy one has everything", async || arrived(&healthy) == ids(0..REQUESTS)).await;
    assert!(gateway.books("healthy").dropped.is_empty());
    let samples = http::get(gateway.at.admin, "/dropped").await;
    let samples: serde_json::Value = serde_json::from_slice(&samples.body).unwrap();
    let lost: Vec<u64> = samples.as_array().unwrap().iter().map(the_span_of).collect();
    // Ten requests at once arrive in any order.
    assert!(!lost.is_empty() && lost.iter().all(|id| *id <= dropped + 10 * SPANS), "{lost:?} of {dropped}");

    sick.set_faults(faults("{}"));
    gateway.settle().await;
    assert_eq!(gateway.books("sick").dropped["backlog_full"], dropped, "nothing more was dropped");
    let arrived = arrived(&sick);
    assert_eq!(arrived.len() as u64, REQUESTS * SPANS - dropped);
    // A request that was under way when room was needed may be among them.
    let newest = arrived.iter().filter(|id| **id > dropped).count();
    assert!(newest * 10 >= arrived.len() * 8 && arrived.last() == ids(0..REQUESTS).last(), "{newest} are the newest");
    dir.becomes_empty().await;
}

/// Alone, a pipeline whose backend takes nothing asks clients to wait first; data is dropped when that goes on.
#[tokio::test]
async fn a_full_backlog_alone_refuses_until_its_backend_counts_as_stalled() {
    let (dir, sick) = (DataDir::new(), sink(DOWN).await);
    let pipelines = vec![limited("sick", sick.grpc, Overflow::DropOldest)];
    let gateway = Gateway::with(pipelines, hasty(&dir).await).await;
    let (mut next, mut kept) = (0, 0);
    eventually("the oldest data goes", async || {
        for answer in send(gateway.at.grpc, next..next + 10, PADDING).await {
            if answer.code == OK {
                kept += SPANS;
            } else {
                is_polite(&answer);
            }
        }
        next += 10;
        !gateway.books("sick").dropped.is_empty()
    })
    .await;
    let books = gateway.books("sick");
    assert_eq!(books.accepted, kept);
    assert_eq!(books.dropped["backlog_full"] + books.pending, kept, "{books:?}");
    eventually("the backlog is within its limit", async || {
        gateway.scrape().await.figure("weir_pipeline_backlog_bytes", "sick") <= LIMIT as f64
    })
    .await;
}

#[tokio::test]
async fn refuse_gives_up_nothing_that_was_acknowledged() {
    let (dir, sick, healthy) = (DataDir::new(), sink(DOWN).await, sink("{}").await);
    let pipelines = vec![limited("sick", sick.grpc, Overflow::Refuse), pipeline("healthy", healthy.grpc)];
    let gateway = Gateway::with(pipelines, hasty(&dir).await).await;
    let mut kept = Vec::new();
    // They all find an empty backlog.
    for (number, answer) in (0..).zip(send_at_once(gateway.at.grpc, 0..REQUESTS, PADDING).await) {
        if answer.code == OK {
            kept.extend(ids(number..number + 1));
        } else {
            is_polite(&answer);
        }
    }
    let books = gateway.books("sick");
    let full = kept.len() as u64;
    let half = REQUESTS * SPANS / 2;
    assert!((half / 2..half + 10 * SPANS).contains(&full), "{books:?}");
    assert_eq!((books.accepted, books.pending, books.dropped.len()), (full, full, 0), "{books:?}");

    sick.set_faults(faults("{}"));
    gateway.settle().await;
    let arrived = arrived(&sick);
    assert!(kept.iter().all(|id| arrived.binary_search(id).is_ok()), "acknowledged and lost");
    send_all(gateway.at.grpc, REQUESTS..REQUESTS + 10, PADDING).await;
    gateway.settle().await;
    assert!(gateway.books("sick").dropped.is_empty());
}

/// Whatever its size: it is acknowledged, and nothing newer needs its place.
#[tokio::test]
async fn a_request_larger_than_the_limit_is_kept_by_a_pipeline_that_may_drop_its_oldest() {
    let (dir, sick) = (DataDir::new(), sink(DOWN).await);
    let gateway = Gateway::with(vec![limited("sick", sick.grpc, Overflow::DropOldest)], hasty(&dir).await).await;
    let padding = PADDING * 100;
    assert!(request(0, padding).len() as u64 > LIMIT);
    send_all(gateway.at.grpc, 0..1, padding).await;
    sick.set_faults(faults("{}"));
    gateway.settle().await;
    assert_eq!((arrived(&sick), gateway.books("sick").dropped.len()), (ids(0..1), 0));
}

/// It has little, but not for the sake of others: nobody goes without because of it.
#[tokio::test]
async fn a_backlog_that_is_hardly_filled_is_not_given_up_for_a_request_that_does_not_fit() {
    for _ in 0..10 {
        let (dir, sick) = (DataDir::new(), sink(DOWN).await);
        let gateway = Gateway::with(vec![limited("sick", sick.grpc, Overflow::DropOldest)], hasty(&dir).await).await;
        send_all(gateway.at.grpc, 0..1, PADDING).await;
        let answers = send(gateway.at.grpc, 1..2, PADDING * 100).await;
        // A machine may be so slow that the backend counts as stalled meanwhile.
        if answers[0].code != OK {
            is_polite(&answers[0]);
            sick.set_faults(faults("{}"));
            gateway.settle().await;
            let books = gateway.books("sick");
            assert_eq!((books.dropped.len(), books.pending), (0, 0), "{books:?}");
            return;
        }
    }
    panic!("what had been acknowledged before was given up each time");
}

/// A request that is larger than the limit finds room when the backlog is empty: otherwise it would be refused for ever.
#[tokio::test]
async fn refuse_takes_any_request_into_an_empty_backlog() {
    let (dir, sick) = (DataDir::new(), sink(DOWN).await);
    let gateway = Gateway::with(vec![limited("sick", sick.grpc, Overflow::Refuse)], hasty(&dir).await).await;
    let padding = PADDING * 100;
    assert!(request(0, padding).len() as u64 > LIMIT);
    send_all(gateway.at.grpc, 0..1, padding).await;
    for answer in send(gateway.at.grpc, 1..3, 100).await {
        is_polite(&answer);
    }
    sick.set_faults(faults("{}"));
    gateway.settle().await;
    assert_eq!(arrived(&sick).into_iter().filter(|id| *id <= SPANS).collect::<Vec<_>>(), ids(0..1));
    assert!(gateway.books("sick").dropped.is_empty());
    dir.becomes_empty().await;
}

#[tokio::test]
async fn what_is_too_old_is_dropped_and_counted() {
    let (dir, sick) = (DataDir::new(), sink(DOWN).await);
    let gateway = Gateway::with(aged(sick.grpc, Duration::from_secs(1)), hasty(&dir).await).await;
    send_all(gateway.at.grpc, 0..10, 100).await;
    eventually("it is dropped", async || gateway.books("backend").dropped.contains_key("backlog_age")).await;
    gateway.settle().await;
    let books = gateway.books("backend");
    assert_eq!((books.accepted, books.dropped["backlog_age"]), (10 * SPANS, 10 * SPANS), "{books:?}");
    dir.becomes_empty().await;
    sick.set_faults(faults("{}"));
    // The first of it may grow too old before the backend is tried again.
    let mut next = 10;
    eventually("new data is delivered", async || {
        send_all(gateway.at.grpc, next..next + 1, 100).await;
        next += 1;
        !arrived(&sick).is_empty()
    })
    .await;
    assert!(arrived(&sick)[0] > 10 * SPANS);
}

/// However many parts of it are on their way.
#[tokio::test]
async fn what_was_taken_apart_is_dropped_when_it_is_too_old() {
    let backend = Backend::scripted(|_, _| Say::Code(3, "a header is missing", None)).await;
    let dir = DataDir::new();
    let gateway = Gateway::with(aged(backend.address, Duration::from_secs(3)), hasty(&dir).await).await;
    send_all(gateway.at.grpc, 0..10, 100).await;
    eventually("it is taken apart", async || {
        backend.captured().iter().any(|request| (payload::ids(&request.message).len() as u64) < SPANS)
    })
    .await;
    gateway.settle().await;
    let books = gateway.books("backend");
    assert_eq!((books.accepted, books.dropped["backlog_age"]), (10 * SPANS, 10 * SPANS), "{books:?}");
    dir.becomes_empty().await;
}

/// Age does not begin anew with the process.
#[tokio::test]
async fn what_grew_too_old_between_two_starts_is_dropped() {
    let (dir, sick) = (DataDir::new(), sink(DOWN).await);
    let gateway = Gateway::with(vec![pipeline("backend", sick.grpc)], hasty(&dir).await).await;
    send_all(gateway.at.grpc, 0..10, 100).await;
    gateway.stop().await;
    let gateway = Gateway::with(aged(sick.grpc, Duration::from_millis(1)), on_disk(&dir).await).await;
    gateway.settle().await;
    let books = gateway.books("backend");
    assert_eq!((books.recovered, books.dropped["backlog_age"]), (10 * SPANS, 10 * SPANS), "{books:?}");
    dir.becomes_empty().await;
}

/// The backend answers for data that was given up meanwhile: it is counted once.
#[tokio::test]
async fn data_given_up_while_it_is_under_way_is_counted_once() {
    let (dir, backend) = (DataDir::new(), Backend::holding().await);
    let gateway = Gateway::with(aged(backend.address, Duration::from_secs(1)), hasty(&dir).await).await;
    send_singly(gateway.at.grpc, 0..5, 100).await;
    eventually("it is given up", async || gateway.books("backend").pending == 0).await;
    backend.answer();
    eventually("nothing is under way", async || {
        let scrape = gateway.scrape().await;
        scrape.sum("otelcol_exporter_in_flight_requests", "backend") == 0.0
    })
    .await;
    gateway.settle().await;
    let books = gateway.books("backend");
    assert_eq!((books.delivered, books.dropped["backlog_age"]), (0, 5 * SPANS), "{books:?}");
    dir.becomes_empty().await;
}
