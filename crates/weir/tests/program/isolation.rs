//! A sick backend hurts only its own pipeline (promise P2), with everything it does not take on disk.

use std::sync::Arc;

use tokio::task::JoinSet;
use weir_testkit::backend::Backend;
use weir_testkit::clients::{SPANS, ids, request};
use weir_testkit::data_dir::DataDir;
use weir_testkit::eventually;
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::metrics::{Scrape, whole};
use weir_testkit::sink::{arrived, faults, sink};

use crate::process::{BESIDE, Weir, manifest};

const MEMORY: u64 = 64 << 20;

/// Requests of half a MiB, which is more than the memory budget in all.
const REQUESTS: u64 = 160;

const PADDING: usize = 50_000;

const CLIENTS: u64 = 4;

/// Room that the journal sets aside in advance.
const SEGMENT: u64 = 32 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sick_backends_cost_one_copy_on_disk_and_nobody_else_anything() {
    let dir = Arc::new(DataDir::new());
    let (refusing, silent, healthy) =
        (sink(r#"{"fault": ["503:100"]}"#).await, sink(r#"{"stall": 100}"#).await, sink("{}").await);
    let pipelines = [("refusing", &refusing), ("silent", &silent), ("healthy", &healthy)];
    let manifests: String = pipelines.iter().map(|(name, sink)| manifest(name, sink.grpc)).collect();
    let weir = Weir::start(&manifests, &["--data-dir", dir.arg(), "--memory", "64MiB"]).await;
    let mut clients = JoinSet::new();
    let part = REQUESTS / CLIENTS;
    for first in (0..CLIENTS).map(|client| client * part) {
        let address = weir.grpc;
        clients.spawn(async move {
            let client = Grpc::connect(address).await;
            for number in first..first + part {
                let answer = client.export(&request(number, PADDING)).await;
                assert_eq!(answer.code, OK, "request {number}: {answer:?}");
            }
        });
    }
    clients.join_all().await;
    eventually("the healthy pipeline has everything", async || arrived(&healthy) == ids(0..REQUESTS)).await;
    assert_eq!(healthy.report(false).duplicates, 0);
    let sent = (0..REQUESTS).map(|number| request(number, PADDING).len() as u64).sum::<u64>();
    assert!(sent > MEMORY, "{sent} bytes");
    let scrape = Scrape::of(weir.metrics).await;
    for name in ["refusing", "silent"] {
        let books = scrape.books(name);
        assert_eq!((books.accepted, books.pending), (REQUESTS * SPANS, REQUESTS * SPANS), "{name}: {books:?}");
    }
    assert_eq!(scrape.books("healthy").delivered, REQUESTS * SPANS);
    let spilled = whole(scrape.get("weir_journal_spilled_bytes_total"));
    assert!(spilled <= sent / 100 * 102, "{spilled} bytes written for {sent} sent");
    assert!(dir.space() <= sent / 10 * 12 + SEGMENT, "{} bytes on disk for {sent} sent", dir.space());
    assert!(scrape.get("weir_memory_used_bytes") <= scrape.get("weir_memory_budget_bytes"));
    let peak = weir.peak();
    assert!(peak <= MEMORY + BESIDE, "{peak} bytes at the peak");

    refusing.set_faults(faults("{}"));
    silent.set_faults(faults("{}"));
    weir.kill().await;
    let weir = Weir::start(&manifests, &["--data-dir", dir.arg(), "--memory", "64MiB"]).await;
    for (name, sink) in [("refusing", &refusing), ("silent", &silent)] {
        Scrape::settled(weir.metrics, name).await;
        assert_eq!(arrived(sink), ids(0..REQUESTS), "{name}");
    }
    dir.becomes_empty().await;
    assert_eq!(healthy.report(false).duplicates, 0, "what it had was noted");
    let peak = weir.peak();
    assert!(peak <= MEMORY + BESIDE, "{peak} bytes at the peak while the backlog was sent");
}

/// Its clients wait for the backend and for the disk at the same time, and the disk has only what is owed to the sick.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_sick_backend_gets_is_on_disk_before_a_healthy_one_has_answered() {
    let dir = DataDir::new();
    let (healthy, refusing) = (Backend::start().await, sink(r#"{"fault": ["503:100"]}"#).await);
    let manifests = manifest("healthy", healthy.address) + &manifest("refusing", refusing.grpc);
    let weir = Weir::start(&manifests, &["--data-dir", dir.arg(), "--spill-after", "8s"]).await;
    let client = Grpc::connect(weir.grpc).await;
    assert_eq!(client.export(&request(0, 0)).await.code, OK);

    healthy.hold();
    let (second, address) = (request(1, 0), weir.grpc);
    let waits = tokio::spawn(async move { Grpc::connect(address).await.export(&second).await.code });
    let backlog = async |name| whole(Scrape::of(weir.metrics).await.figure("weir_pipeline_backlog_items", name));
    eventually("the sick pipeline's part is on disk", async || backlog("refusing").await == 2 * SPANS).await;
    assert!(backlog("healthy").await == 0 && !waits.is_finished(), "the healthy one's is not, and nobody is answered");
    healthy.answer();
    assert_eq!(waits.await.unwrap(), OK);
    assert_eq!(healthy.taken_ids(), ids(0..2));
}
