//! A configuration that changes while data flows: only what it is about changes, and nothing is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use weir_engine::{Changes, Settings};
use weir_plan::{Backlog, Header, Overflow, Pipeline, Plan, Secret};

use crate::clients::{SPANS, ids, request, send_all};
use crate::data_dir::DataDir;
use crate::support::backend::Backend;
use crate::support::gateway::{DOWN, Gateway, arrived, closed_port, faults, pipeline, settings, sink};
use crate::support::grpc::{Grpc, OK, UNIMPLEMENTED};
use crate::support::process::{Weir, manifest};
use crate::support::{eventually, payload};

fn plan(pipelines: Vec<Pipeline>) -> Plan {
    Plan { pipelines, ..Plan::default() }
}

async fn hasty(dir: &DataDir) -> Settings {
    Settings { spill_after: Duration::from_millis(5), ..dir.settings().await }
}

#[tokio::test]
async fn a_pipeline_that_is_added_gets_what_comes_and_one_that_is_removed_nothing_more() {
    let (first, second) = (sink("{}").await, sink("{}").await);
    let mut gateway = Gateway::to(first.grpc).await;
    send_all(gateway.at.grpc, 0..10, 10).await;
    let both = plan(vec![pipeline("backend", first.grpc), pipeline("other", second.grpc)]);
    let changes = gateway.engine.reload(&both).unwrap();
    assert_eq!(changes, Changes { added: vec!["traces/other".into()], ..Changes::default() });
    send_all(gateway.at.grpc, 10..20, 10).await;
    let changes = gateway.engine.reload(&plan(vec![pipeline("other", second.grpc)])).unwrap();
    assert_eq!(changes, Changes { removed: vec!["traces/backend".into()], ..Changes::default() });
    send_all(gateway.at.grpc, 20..30, 10).await;
    gateway.settle().await;
    assert_eq!((arrived(&first), arrived(&second)), (ids(0..20), ids(10..30)));
    assert!(gateway.engine.reload(&plan(vec![pipeline("other", second.grpc)])).unwrap().is_empty());

    gateway.engine.reload(&Plan::default()).unwrap();
    let answer = gateway.client().await.export(&payload::encoded(1, 1, 0)).await;
    assert_eq!(answer.code, UNIMPLEMENTED, "{answer:?}");
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
        assert_eq!(changes.changed, ["traces/backend"]);
        gateway.settle().await;
        assert_eq!(arrived(&backend), ids(0..20));
        gateway.stop().await;
    }
}

/// One that is gone uses what it has until it has ended: the memory for encoding requests is not given away twice.
#[tokio::test]
async fn a_pipeline_that_is_leaving_counts_until_it_has_left() {
    let (hanging, backend) = (Backend::holding().await, Backend::start().await);
    let settings = Settings { memory: weir_engine::settings::MEMORY_MIN, ..settings() };
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
    assert_eq!(gateway.scrape().await.get(orphaned), (20 * SPANS) as f64);
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
    acknowledged: Mutex<Vec<u64>>,
    ends: AtomicBool,
}

impl Load {
    async fn send(&self, address: std::net::SocketAddr) {
        let client = Grpc::connect(address).await;
        while !self.ends.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if client.export(&request(number, 100)).await.code == OK {
                self.acknowledged.lock().unwrap().push(number);
            }
        }
    }
}

/// One of many configurations; `constant` is in all of them, but not always the same.
fn some_plan(random: &mut fastrand::Rng, constant: std::net::SocketAddr, others: &[std::net::SocketAddr]) -> Plan {
    let mut first = pipeline("constant", constant);
    if random.bool() {
        let header = Header { name: "x-version".into(), value: Secret::new(random.u8(..).to_string()) };
        first.output.headers.push(header);
    }
    let overflow = if random.bool() { Overflow::Refuse } else { Overflow::DropOldest };
    first.backlog = Backlog { max_bytes: random.u64(1 << 30..2 << 30), overflow, ..Backlog::default() };
    let others = others.iter().enumerate().filter(|_| random.bool());
    let others: Vec<_> = others.map(|(number, address)| pipeline(&format!("other-{number}"), *address)).collect();
    plan(std::iter::once(first).chain(others).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_reloads_under_load_lose_nothing() {
    const RELOADS: usize = 1000;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (dir, constant) = (DataDir::new(), sink(r#"{"fault": ["503:20"], "delay": "5ms:30"}"#).await);
    let (flaky, down) = (sink(r#"{"fault": ["503:50"]}"#).await, sink(DOWN).await);
    let others = [flaky.grpc, down.grpc];
    let settings = Settings { drain_timeout: Duration::from_secs(1), ..hasty(&dir).await };
    let mut gateway = Gateway::with(vec![pipeline("constant", constant.grpc)], settings).await;
    let load = Arc::new(Load::default());
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        let (load, address) = (Arc::clone(&load), gateway.at.grpc);
        clients.spawn(async move { load.send(address).await });
    }
    for _ in 0..RELOADS {
        let before = load.next.load(Ordering::Relaxed);
        gateway.engine.reload(&some_plan(&mut random, constant.grpc, &others)).unwrap();
        eventually("clients go on", async || load.next.load(Ordering::Relaxed) > before + 1).await;
    }
    load.ends.store(true, Ordering::Relaxed);
    clients.join_all().await;
    let everyone = ["other-0", "other-1"].iter().zip(others).map(|(name, address)| pipeline(name, address));
    let all = std::iter::once(pipeline("constant", constant.grpc)).chain(everyone).collect();
    gateway.engine.reload(&plan(all)).unwrap();
    [&constant, &flaky, &down].into_iter().for_each(|sink| sink.set_faults(faults("{}")));
    gateway.settle().await;
    let mut acknowledged = load.acknowledged.lock().unwrap().clone();
    acknowledged.sort_unstable();
    let arrived: std::collections::BTreeSet<u64> = arrived(&constant).into_iter().collect();
    let missing: Vec<_> = acknowledged.iter().filter(|number| !arrived.contains(&(1 + **number * SPANS))).collect();
    assert!(missing.is_empty(), "{} of {}: {missing:?}", missing.len(), acknowledged.len());
    assert!(acknowledged.len() > RELOADS, "{}", acknowledged.len());
    gateway.stop().await;
    dir.becomes_empty().await;
}

#[tokio::test]
async fn an_edited_file_is_taken_up_and_a_wrong_one_is_not() {
    let (first, second) = (sink("{}").await, sink("{}").await);
    let weir = Weir::start(&manifest("backend", first.grpc), &[]).await;
    send_all(weir.grpc, 0..5, 10).await;

    weir.edit("kind: [");
    eventually("the error is logged", async || {
        weir.logged("the new configuration is not used; the last good one goes on").is_some()
    })
    .await;
    let found = |line: &Value| {
        line["level"] == "ERROR" && line["line"] == 2 && line["file"].as_str().unwrap().ends_with("pipelines.yaml")
    };
    assert!(weir.logs().iter().filter(|line| line["file"].is_string()).any(found), "{:?}", weir.logs());
    let page = crate::support::metrics::Scrape::of(weir.metrics).await;
    assert_eq!(page.get("weir_config_last_reload_successful"), 0.0);
    send_all(weir.grpc, 5..10, 10).await;

    weir.edit(&(manifest("backend", first.grpc) + &manifest("second", second.grpc)));
    eventually("the new pipeline is there", async || weir.logged("configuration reloaded").is_some()).await;
    send_all(weir.grpc, 10..15, 10).await;
    let page = crate::support::metrics::Scrape::of(weir.metrics).await;
    assert_eq!(page.get("weir_config_last_reload_successful"), 1.0);
    assert_eq!(page.get("weir_config_reloads_total{result=\"success\"}"), 1.0);
    eventually("both have theirs", async || arrived(&first) == ids(0..15) && arrived(&second) == ids(10..15)).await;

    // A certificate that was replaced by garbage.
    let tls = "      tls:\n        ca: {valueFrom: {secretKeyRef: {name: tls, namespace: default, key: ca}}}\n";
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: tls, namespace: default}\nstringData: {ca: garbage}\n---\n";
    let secured = manifest("second", second.grpc).replace("    otlp:\n", &format!("    otlp:\n{tls}"));
    weir.edit(&(secret.to_owned() + &manifest("backend", first.grpc) + &secured));
    let refused = || weir.logs().iter().any(|line| line.to_string().contains("TLS configuration invalid"));
    eventually("the certificate is refused", async || refused()).await;
    send_all(weir.grpc, 15..20, 10).await;
    eventually("both go on", async || arrived(&first) == ids(0..20) && arrived(&second) == ids(10..20)).await;
    weir.edit(&(manifest("backend", first.grpc) + &manifest("second", second.grpc)));
    eventually("all is well", async || {
        let page = crate::support::metrics::Scrape::of(weir.metrics).await;
        page.get("weir_config_last_reload_successful") == 1.0
    })
    .await;

    let reloads = || weir.logs().iter().filter(|line| line["message"] == "configuration reloaded").count();
    let before = reloads();
    weir.signal(rustix::process::Signal::HUP);
    eventually("SIGHUP reads the files again", async || reloads() > before).await;
}
