//! Requests that are all structure: crowds of tiny items, and contexts that would be repeated for each part. Whatever is
//! kept for an item, or made of it, is within the memory that was set (promise P3).

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use weir_otlp::build::Encoder;
use weir_plan::Signal;
use weir_testkit::grpc::{Grpc, RESOURCE_EXHAUSTED};
use weir_testkit::http::{self, Answer, JSON, PROTOBUF};
use weir_testkit::manifests::{plain, with_spec};
use weir_testkit::metrics::Scrape;
use weir_testkit::payload;
use weir_testkit::sink::closed_port;

use crate::process::{BESIDE, Weir};

const MEMORY: u64 = 64 << 20;

/// The most items that one request may have.
const CROWD: usize = 1 << 20;

/// What is said when no waiting could help.
const NEVER: &str = "work on it needs more memory than there is";

/// Clients that send at once.
const CLIENTS: usize = 6;

/// A pipeline to nowhere.
async fn pipeline(signal: Signal, spec: serde_json::Value) -> String {
    let mut spec = spec;
    let output = plain("grpc", closed_port().await);
    let otlp = spec["output"]["otlp"].take();
    spec["output"] = json!({"otlp": output});
    if let serde_json::Value::Object(fields) = otlp {
        spec["output"]["otlp"].as_object_mut().unwrap().extend(fields);
    }
    with_spec(signal, "nowhere", &spec)
}

/// `count` times `item`, in one scope of one resource.
fn crowd(item: &[u8], count: usize) -> Vec<u8> {
    nested(&[&[], &[]], &[2], &item.repeat(count))
}

/// Encoded fields inside messages, outermost first: the context of each, and where the next one is in it.
fn nested(contexts: &[&[u8]], numbers: &[u32], innermost: &[u8]) -> Vec<u8> {
    let mut body = innermost.to_vec();
    for (depth, context) in contexts.iter().enumerate().rev() {
        let mut out = Encoder::with_capacity(context.len() + body.len() + 16);
        out.raw(context);
        out.raw(&body);
        body = out.into_bytes();
        let number = if depth == 0 { 1 } else { numbers[depth - 1] };
        let mut field = Encoder::with_capacity(body.len() + 16);
        field.bytes(number, &body);
        body = field.into_bytes();
    }
    body
}

fn path(signal: Signal) -> String {
    format!("/v1/{}", signal.name())
}

async fn post(address: SocketAddr, signal: Signal, content_type: &str, encoding: &str, body: &[u8]) -> Answer {
    let fields = format!("content-length: {}\r\ncontent-encoding: {encoding}\r\n", body.len());
    let mut request = http::head("POST", &path(signal), content_type, &fields);
    request.extend_from_slice(body);
    http::exchange(address, &request).await
}

/// One client sends `body` and is answered 200: no limit keeps it from the code under test. Then many clients send it at
/// once.
async fn send(weir: &Weir, signal: Signal, content_type: &'static str, encoding: &'static str, body: Vec<u8>) {
    let alone = post(weir.http, signal, content_type, encoding, &body).await;
    assert!(alone.status == 200, "{} {}", alone.status, alone.text());
    let statuses = send_at_once(weir, signal, content_type, encoding, body).await;
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
}

/// The same of what can never be taken, because of what work on it would take: the code under test refuses it, with `why`.
async fn send_too_large(weir: &Weir, signal: Signal, why: &str, body: Vec<u8>) {
    let alone = post(weir.http, signal, PROTOBUF, "identity", &body).await;
    assert!(alone.status == 413 && alone.text().contains(why), "{} {}", alone.status, alone.text());
    let statuses = send_at_once(weir, signal, PROTOBUF, "identity", body).await;
    assert!(statuses.iter().all(|status| [413, 503].contains(status)), "{statuses:?}");
}

/// What clients are answered that all send `body` at once; the memory of the process stays within what was set.
async fn send_at_once(
    weir: &Weir,
    signal: Signal,
    content_type: &'static str,
    encoding: &'static str,
    body: Vec<u8>,
) -> Vec<u16> {
    let body = Arc::new(body);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (address, body) = (weir.http, Arc::clone(&body));
        clients.spawn(async move { post(address, signal, content_type, encoding, &body).await.status });
    }
    let statuses = clients.join_all().await;
    let peak = weir.peak();
    assert!(peak <= MEMORY + BESIDE, "{peak} bytes at the peak; {statuses:?}");
    statuses
}

async fn start(manifests: &str) -> Weir {
    Weir::start(manifests, &["--memory", "64MiB"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_tiny_spans_is_cut_within_the_memory() {
    let weir = start(&pipeline(Signal::Traces, json!({})).await).await;
    let spans = crowd(b"\x12\x02\x30\x01", CROWD);
    send(&weir, Signal::Traces, PROTOBUF, "identity", spans).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_tiny_spans_in_json_is_read_within_the_memory() {
    for (span, count) in [("{}", CROWD), (r#"{"kind":1}"#, 900_000)] {
        let weir = start(&pipeline(Signal::Traces, json!({})).await).await;
        let spans = vec![span; count].join(",");
        let body = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#);
        send(&weir, Signal::Traces, JSON, "identity", body.into_bytes()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_tiny_spans_is_filtered_and_changed_within_the_memory() {
    for rules in [
        json!({"filter": [{"conditions": ["span.name == \"a\""]}]}),
        json!({"transform": [{"statements": ["set(span.name, \"\")"]}]}),
    ] {
        let weir = start(&pipeline(Signal::Traces, rules).await).await;
        let spans = |count| crowd(b"\x12\x03\x2a\x01a\x12\x00", count);
        send_too_large(&weir, Signal::Traces, NEVER, spans(CROWD / 2)).await;
        send(&weir, Signal::Traces, PROTOBUF, "identity", spans(CROWD / 8)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_tiny_log_records_is_enriched_within_the_memory() {
    let weir = start(&pipeline(Signal::Logs, json!({})).await).await;
    // What would be added to empty records is many times as large as they are.
    send_too_large(&weir, Signal::Logs, "cannot enrich the request", crowd(b"\x12\x00", CROWD)).await;
    let mut record = Encoder::default();
    let mut text = Encoder::default();
    text.bytes(3, &[b'x'; 140]);
    record.bytes(2, &text.into_bytes());
    send(&weir, Signal::Logs, PROTOBUF, "identity", crowd(&record.into_bytes(), 60_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_tiny_metrics_is_converted_within_the_memory() {
    let delta = pipeline(Signal::Metrics, json!({"output": {"otlp": {"temporality": "delta"}}})).await;
    // A sum that grows, of one empty point; and a histogram, the same.
    let (number, buckets) = (b"\x12\x08\x3a\x06\x0a\x00\x10\x02\x18\x01", b"\x12\x06\x4a\x04\x0a\x00\x10\x02");
    // Histograms of series of their own, which are remembered.
    let metric = |name: usize| {
        let mut metric = Encoder::default();
        let open = metric.open(2, 16);
        metric.bytes(1, format!("{name:x}").as_bytes());
        metric.raw(b"\x4a\x0d\x0a\x09\x19\x01\0\0\0\0\0\0\0\x10\x02");
        metric.close(open);
        metric.into_bytes()
    };
    let series = |count| crowd(&(0..count).flat_map(metric).collect::<Vec<u8>>(), 1);
    for metrics in [crowd(number, 470_000), crowd(buckets, CROWD / 8), series(CROWD / 16)] {
        send(&start(&delta).await, Signal::Metrics, PROTOBUF, "identity", metrics).await;
    }
    send_too_large(&start(&delta).await, Signal::Metrics, NEVER, series(CROWD / 8)).await;
}

/// Each level repeats what is beside it in every part, for all levels below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contexts_in_contexts_are_not_multiplied_beyond_the_memory() {
    let weir = start(&pipeline(Signal::Metrics, json!({})).await).await;
    let points = b"\x0a\x09\x19\x01\0\0\0\0\0\0\0".repeat((5 << 20) / 11);
    let contexts = [2000, 1000, 500, 250].map(|kib| unknown((kib << 10) - 100));
    let contexts: Vec<&[u8]> = contexts.iter().map(Vec::as_slice).collect();
    let request = nested(&contexts, &[2, 2, 5], &points);
    send(&weir, Signal::Metrics, PROTOBUF, "identity", request).await;
}

/// A field of a later OTLP.
fn unknown(length: usize) -> Vec<u8> {
    let mut field = Encoder::default();
    field.bytes(31, &vec![b'c'; length]);
    field.into_bytes()
}

/// What can never be taken in one piece is not asked for again: its parts together take more than a pipeline could hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_parts_would_never_fit_is_too_large() {
    let mut manifests = String::new();
    for name in ["one", "two", "three", "four"] {
        manifests += &pipeline(Signal::Metrics, json!({})).await.replace("nowhere", name);
    }
    let weir = start(&manifests).await;
    let points = b"\x0a\x09\x19\x01\0\0\0\0\0\0\0".repeat(6_300_000 / 11);
    let request = nested(&[&unknown(450 << 10), &[], &[], &[]], &[2, 2, 5], &points);
    let answer = post(weir.http, Signal::Metrics, PROTOBUF, "identity", &request).await;
    assert!(answer.status == 413 && answer.text().contains("cut into requests of at most"), "{answer:?}");
    let refused = Scrape::of(weir.metrics).await;
    let refused = refused.get("weir_receiver_refused_requests_total{transport=\"http\",reason=\"too_large\"}");
    assert_eq!(refused, 1.0);
}

/// The limit is ours; nothing is wrong with the data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_items_than_one_request_may_have_are_too_large() {
    let weir = start(&pipeline(Signal::Traces, json!({})).await).await;
    let spans = crowd(b"\x12\x00", CROWD + 1);
    let json = vec!["{}"; CROWD + 1].join(",");
    let json = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{json}]}}]}}]}}"#);
    for (format, body) in [(PROTOBUF, &spans), (JSON, &json.into_bytes())] {
        let answer = post(weir.http, Signal::Traces, format, "identity", body).await;
        let text = answer.text();
        assert!(
            answer.status == 413 && text.contains("request too large") && text.contains("1048576 items"),
            "{answer:?}"
        );
    }
    let answer = Grpc::connect(weir.grpc).await.export(&spans).await;
    assert!(answer.code == RESOURCE_EXHAUSTED && answer.retry_after.is_none(), "{answer:?}");
}

/// The second frame wants a window that the first one said nothing of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_in_frames_with_large_windows_is_inflated_within_the_memory() {
    let weir = start(&pipeline(Signal::Traces, json!({})).await).await;
    let first = payload::compress("zstd", &crowd(b"\x12\x00", 1));
    let mut large = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    large.window_log(23).unwrap();
    std::io::Write::write_all(&mut large, &payload::encoded(1, 1000, 6_000)).unwrap();
    let body = [first, large.finish().unwrap()].concat();
    send(&weir, Signal::Traces, PROTOBUF, "zstd", body).await;
}
