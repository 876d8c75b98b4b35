//! A sick backend hurts its own pipeline and nobody else (promise P2), and what was acknowledged is kept (P1).

use std::time::Duration;

use futures_util::future::join_all;
use weir_engine::{Settings, settings::MEMORY_MIN};
use weir_plan::Plan;
use weir_testkit::grpc::{self, OK, UNAVAILABLE};
use weir_testkit::http::{self, PROTOBUF};
use weir_testkit::sink::{arrived, closed_port, faults, sink};
use weir_testkit::{eventually, payload};

use crate::support::{Gateway, pipeline, settings};

/// Spans per request, and the text in each: requests of about half a MiB.
const SPANS: u64 = 50;

const PADDING: usize = 10_000;

fn large(number: u64) -> Vec<u8> {
    payload::encoded(1 + number * SPANS, SPANS, PADDING)
}

#[tokio::test]
async fn dead_and_stalled_pipelines_do_not_touch_the_healthy_one() {
    let (stalled, healthy) = (sink(r#"{"stall": 100}"#).await, sink("{}").await);
    let pipelines = vec![
        pipeline("dead", closed_port().await),
        pipeline("stalled", stalled.grpc),
        pipeline("healthy", healthy.grpc),
    ];
    let gateway = Gateway::with(pipelines, Settings { memory: MEMORY_MIN, ..settings() }).await;
    let client = gateway.client().await;
    let share = gateway
        .scrape()
        .await
        .get("otelcol_exporter_queue_capacity{exporter=\"otlp_grpc/tracepipeline-dead\",data_type=\"traces\"}");
    let requests: u32 = 60;
    let size = large(0).len() as f64;
    assert!(size * f64::from(requests) > 3.0 * share, "the sick ones cannot keep everything");
    for number in 0..u64::from(requests) {
        let answer = client.export(&large(number)).await;
        assert_eq!(answer.code, OK, "request {number}: {answer:?}");
        let scrape = gateway.scrape().await;
        for name in ["dead", "stalled"] {
            let held = scrape.get(&format!("weir_pipeline_held_bytes{{pipeline=\"{name}\",signal=\"traces\"}}"));
            assert!(held <= share + size, "{name} holds {held} bytes of {share}");
        }
    }
    let sent = u64::from(requests) * SPANS;
    eventually("the healthy pipeline has everything", async || arrived(&healthy).len() as u64 == sent).await;
    assert_eq!(healthy.report(false).duplicates, 0);
    let books = gateway.books("healthy");
    assert_eq!((books.accepted, books.delivered, books.dropped.len()), (sent, sent, 0));
    for name in ["dead", "stalled"] {
        eventually("it is within its share", async || {
            gateway.scrape().await.get(&format!("weir_pipeline_held_bytes{{pipeline=\"{name}\",signal=\"traces\"}}"))
                <= share
        })
        .await;
        let books = gateway.books(name);
        assert_eq!(books.accepted, sent, "{name}");
        assert!(books.dropped["memory_full"] > 0, "{name}: {books:?}");
        assert_eq!(books.dropped["memory_full"] + books.pending, sent, "{name}: {books:?}");
    }
}

/// What a sick pipeline drops is its oldest data.
#[tokio::test]
async fn a_full_pipeline_keeps_the_newest() {
    let (sick, healthy) = (sink(r#"{"outage": ["0s..1000s"]}"#).await, sink("{}").await);
    let pipelines = vec![pipeline("sick", sick.grpc), pipeline("healthy", healthy.grpc)];
    let gateway = Gateway::with(pipelines, Settings { memory: MEMORY_MIN, ..settings() }).await;
    let client = gateway.client().await;
    for number in 0..60 {
        assert_eq!(client.export(&large(number)).await.code, OK);
    }
    let dropped = gateway.books("sick").dropped["memory_full"];
    sick.set_faults(faults("{}"));
    gateway.settle().await;
    let ids = arrived(&sick);
    assert_eq!(*ids.last().unwrap(), 60 * SPANS);
    assert_eq!(gateway.books("sick").dropped["memory_full"], dropped, "nothing more was dropped");
    assert_eq!(ids.len() as u64, 60 * SPANS - dropped);
    // A batch under way when room was needed is spared, at most.
    let newest = ids.iter().filter(|id| **id > dropped).count();
    assert!(newest * 10 >= ids.len() * 8, "{} ids, {newest} of them the newest", ids.len());
    assert_eq!(arrived(&healthy).len() as u64, 60 * SPANS);
}

/// What it holds was acknowledged, and nobody is short of memory: its smaller part concerns what comes.
#[tokio::test]
async fn more_pipelines_cost_a_full_one_no_more_than_what_comes() {
    let (sick, healthy) = (sink(r#"{"outage": ["0s..1000s"]}"#).await, sink("{}").await);
    let pipelines = |count: usize| {
        let mut pipelines = vec![pipeline("sick", sick.grpc)];
        pipelines.extend((1..count).map(|number| pipeline(&format!("healthy-{number}"), healthy.grpc)));
        pipelines
    };
    let mut gateway = Gateway::with(pipelines(2), Settings { memory: 4 * MEMORY_MIN, ..settings() }).await;
    let client = gateway.client().await;
    let mut number = 0;
    while gateway.books("sick").dropped.is_empty() {
        assert_eq!(client.export(&large(number)).await.code, OK);
        number += 1;
    }
    let before = gateway.books("sick");
    gateway.engine.reload(&Plan { pipelines: pipelines(8), ..Plan::default() }).unwrap();
    for more in 1..=2 {
        assert_eq!(client.export(&large(number)).await.code, OK);
        number += 1;
        eventually("there is room for it", async || {
            let books = gateway.books("sick");
            books.dropped["memory_full"] > before.dropped["memory_full"] + (more - 1) * SPANS
        })
        .await;
    }
    // A request is as large as the one before within some bytes, so that two may make room for one.
    let books = gateway.books("sick");
    assert!(books.pending + 2 * SPANS >= before.pending, "{before:?} {books:?}");
}

/// With nobody to take the data, clients keep it; what was acknowledged is not given up for it.
#[tokio::test]
async fn a_single_dead_pipeline_refuses_what_it_cannot_keep() {
    let sink = sink(r#"{"outage": ["0s..1000s"]}"#).await;
    let settings = Settings { memory: MEMORY_MIN, spill_after: Duration::from_millis(20), ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    assert_eq!(http::get(gateway.at.health, "/").await.status, 200);
    let client = gateway.client().await;
    let (mut acknowledged, mut refused) = (Vec::new(), 0);
    for round in 0..16 {
        let bodies: Vec<_> = (round * 4..round * 4 + 4).map(large).collect();
        let answers = join_all(bodies[..3].iter().map(|body| client.export(body)));
        let (answers, http_answer) = tokio::join!(answers, http::post(gateway.at.http, PROTOBUF, None, &bodies[3]));
        for (number, answer) in (round * 4..).zip(answers) {
            match answer.code {
                OK => acknowledged.push(number),
                _ => {
                    refused += 1;
                    is_polite(&answer);
                }
            }
        }
        match http_answer.status {
            200 => acknowledged.push(round * 4 + 3),
            status => {
                refused += 1;
                assert_eq!(status, 503, "{http_answer:?}");
                assert!(http_answer.header("retry-after").parse::<u64>().unwrap() >= 1, "{http_answer:?}");
            }
        }
    }
    assert!(refused > 0 && !acknowledged.is_empty(), "{refused} refused");
    let books = gateway.books("backend");
    assert_eq!(books.accepted, acknowledged.len() as u64 * SPANS);
    assert!(books.dropped.is_empty(), "{books:?}");
    let counted = gateway.scrape().await.sum("otelcol_receiver_refused_spans_total", "");
    assert_eq!(counted, (refused * SPANS) as f64);

    sink.set_faults(faults("{}"));
    gateway.settle().await;
    let arrived = arrived(&sink);
    for number in acknowledged {
        let first = 1 + number * SPANS;
        assert!((first..first + SPANS).all(|id| arrived.binary_search(&id).is_ok()), "request {number} was lost");
    }
    assert_eq!(client.export(&large(1000)).await.code, OK, "it takes data again");
    gateway.settle().await;
    assert!(gateway.books("backend").dropped.is_empty());
}

/// A refusal that stock clients try again, later.
fn is_polite(answer: &grpc::Answer) {
    assert_eq!(answer.code, UNAVAILABLE, "{answer:?}");
    assert!(answer.retry_after.is_some_and(|hint| hint >= Duration::from_secs(1)), "{answer:?}");
}

/// Small compressed requests must cost what they are, not what reading them took: a dead pipeline that keeps them must
/// not use up the memory that the others need.
#[tokio::test]
async fn small_requests_kept_by_a_dead_pipeline_leave_room_for_the_others() {
    let healthy = sink("{}").await;
    let pipelines = vec![pipeline("dead", closed_port().await), pipeline("healthy", healthy.grpc)];
    let gateway = Gateway::with(pipelines, Settings { memory: MEMORY_MIN, ..settings() }).await;
    let client = gateway.client().await;
    for id in 1..=1000 {
        let small = payload::compress("gzip", &payload::encoded(id, 1, 1000));
        assert_eq!(client.export_as("gzip", &small).await.code, OK, "request {id}");
    }
    eventually("the healthy pipeline has everything", async || arrived(&healthy).len() == 1000).await;
    assert_eq!(gateway.books("dead").pending, 1000);
    // What is on its way when the last span arrives takes its memory along.
    eventually("little more is used than what is held", async || {
        let scrape = gateway.scrape().await;
        let held = scrape.get("weir_pipeline_held_bytes{pipeline=\"dead\",signal=\"traces\"}");
        scrape.get("weir_memory_used_bytes") <= held * 1.25
    })
    .await;
}
