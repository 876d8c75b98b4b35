//! An update of a pod: the new process takes over from the old one under load.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tokio::time::timeout;
use weir_loadtest::load::log_files::{Manifest, judge};
use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::http;
use weir_testkit::payload;
use weir_testkit::signals::document;
use weir_testkit::sink::{arrived, sink};
use weir_testkit::{eventually, in_time};

use super::{cluster, start};
use crate::process::command;

/// A client that sends one request after the other to one address, as exporters do: what is refused is sent again.
struct Client {
    address: std::net::SocketAddr,
    next: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
}

/// What it saw.
#[derive(Debug, Default)]
struct Seen {
    acknowledged: Vec<u64>,
    /// Requests with another answer than OK, or none.
    again: u64,
    slowest: Duration,
}

impl Client {
    async fn run(self) -> Seen {
        let (mut seen, mut connection) = (Seen::default(), None);
        while !self.ends.load(Ordering::Relaxed) {
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            let began = Instant::now();
            let mut is_ok = false;
            while !is_ok {
                assert!(began.elapsed() < Duration::from_secs(60), "nobody takes request {id}");
                if connection.as_ref().is_none_or(Grpc::is_closed) {
                    connection = Grpc::try_connect(self.address).await;
                }
                let answer = match &connection {
                    Some(connection) => connection.try_export(&payload::encoded(id, 1, 10)).await,
                    None => None,
                };
                is_ok = answer.is_some_and(|answer| answer.code == OK);
                if !is_ok {
                    (seen.again, connection) = (seen.again + 1, None);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            seen.acknowledged.push(id);
            seen.slowest = seen.slowest.max(began.elapsed());
        }
        seen
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_generations_lose_no_line_and_no_request() {
    let Some(cluster) = cluster().await else { return };
    let (pods, dir, sink) = (TempDir::new().unwrap(), DataDir::new(), sink("{}").await);
    let documents = document(Signal::Traces, "traces", sink.grpc, "") + &document(Signal::Logs, "logs", sink.grpc, "");
    cluster.tell("one", &documents, &json!({})).await;
    let arguments = ["--data-dir", dir.arg(), "--pod-logs", pods.path().to_str().unwrap()];
    let mut old = start(cluster.node("old", &arguments)).await;
    let written = TempDir::new().unwrap();
    let manifest = written.path().join("manifest.json");
    let mut kubelet = command(&["load", "log-files", pods.path().to_str().unwrap(), "--manifest"]);
    kubelet.arg(&manifest).args("--containers 3 --rate 2000 --duration 8s --rotate-every 700ms --keep 100".split(' '));
    let mut kubelet = kubelet.spawn().unwrap();
    let (next, ends) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..4)
        .map(|_| Client { address: old.grpc, next: Arc::clone(&next), ends: Arc::clone(&ends) })
        .map(|client| tokio::spawn(client.run()))
        .collect();
    eventually("some requests are there", async || next.load(Ordering::Relaxed) > 500).await;
    let new = start(cluster.node("new", &arguments)).await;
    eventually("it hands over", async || old.logged("handed over").is_some()).await;
    println!("old: {}", old.logged("handed over").unwrap());
    eventually("it rests", async || old.logged("resting until a signal").is_some()).await;
    let health = old.logged("resting until a signal").unwrap()["health"].as_str().unwrap().parse().unwrap();
    assert!(http::get(health, "/live").await.text().contains("handed_over"));
    assert_eq!(http::get(health, "/").await.status, 503);
    assert!(http::get(new.health, "/").await.text().contains("ready"));
    let after = next.load(Ordering::Relaxed);
    eventually("the old address is served by the new one", async || next.load(Ordering::Relaxed) > after + 500).await;
    ends.store(true, Ordering::Relaxed);
    let mut acknowledged = BTreeSet::new();
    let (mut again, mut slowest) = (0, Duration::ZERO);
    for client in clients {
        let seen = client.await.unwrap();
        acknowledged.extend(seen.acknowledged);
        (again, slowest) = (again + seen.again, slowest.max(seen.slowest));
    }
    println!("{} requests, {again} sent again, the slowest took {slowest:?}", acknowledged.len());
    old.signal(rustix::process::Signal::TERM);
    assert_eq!(old.wait().await.code(), Some(0));
    in_time("the end of writing", kubelet.wait()).await.unwrap();
    let manifest: Manifest = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    let judgement = || judge(&manifest, &sink.report(true).log_lines.unwrap());
    eventually("every line arrives", async || judgement().arrived == judgement().written).await;
    let judgement = judgement();
    assert!(judgement.passes() && judgement.duplicated == 0, "{judgement:?}");
    let arrived: BTreeSet<u64> = arrived(&sink).into_iter().collect();
    assert!(acknowledged.is_subset(&arrived), "{:?}", acknowledged.difference(&arrived).collect::<Vec<_>>());
    // Much more than it takes, because the machine may be busy.
    assert!(slowest < Duration::from_secs(20), "{slowest:?}");
}

/// Whoever was started again is not newer for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_pod_waits_and_goes_on_if_the_new_one_is_gone() {
    let Some(cluster) = cluster().await else { return };
    let (dir, sink) = (DataDir::new(), sink("{}").await);
    cluster.tell("one", &document(Signal::Traces, "traces", sink.grpc, ""), &json!({})).await;
    let arguments = ["--data-dir", dir.arg()];
    let old = start(cluster.node("old", &arguments)).await;
    let new = start(cluster.node("new", &arguments)).await;
    let readies = || old.all_logged("ready").len();
    let hand_overs = || old.all_logged("handed over").len();
    eventually("the old one hands over", async || hand_overs() == 1).await;
    assert_eq!(readies(), 1);
    new.kill().await;
    eventually("the old one goes on", async || readies() == 2).await;
    // A container of the new pod that is started again takes over again.
    let new = start(cluster.node("new", &arguments)).await;
    eventually("the old one hands over again", async || hand_overs() == 2).await;
    old.kill().await;
    // One of the old pod waits.
    let mut waiting = std::pin::pin!(start(cluster.node("old", &arguments)));
    assert!(timeout(Duration::from_secs(3), &mut waiting).await.is_err(), "it waits");
    assert!(new.all_logged("handed over").is_empty());
    new.kill().await;
    in_time("it goes on", waiting).await;
}

/// Kubelet may end the old pod at any moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_during_a_hand_over_is_heard_after_it() {
    let Some(cluster) = cluster().await else { return };
    let (dir, backend) = (DataDir::new(), Backend::holding().await);
    cluster.tell("one", &document(Signal::Traces, "traces", backend.address, ""), &json!({})).await;
    let arguments = ["--data-dir", dir.arg()];
    let mut old = start(cluster.node("old", &arguments)).await;
    let answer = Grpc::connect(old.grpc).await.try_export(&payload::encoded(1, 1, 10)).await;
    assert_eq!(answer.map(|answer| answer.code), Some(OK));
    let ends = async {
        eventually("it takes over", async || {
            old.logged("another process takes over; finishing what is under way").is_some()
        })
        .await;
        old.signal(rustix::process::Signal::TERM);
        old.wait().await
    };
    let (new, ended) = tokio::join!(start(cluster.node("new", &arguments)), ends);
    assert_eq!(ended.code(), Some(0));
    assert!(old.logged("stopping: clients are asked to go elsewhere").is_some());
    backend.answer();
    eventually("what it had is delivered", async || backend.taken_ids().contains(&1)).await;
    drop(new);
}

/// It has nothing yet, and leaves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_waits_for_the_directory_can_be_ended() {
    let Some(cluster) = cluster().await else { return };
    let (dir, sink) = (DataDir::new(), sink("{}").await);
    cluster.tell("one", &document(Signal::Traces, "traces", sink.grpc, ""), &json!({})).await;
    let arguments = ["--data-dir", dir.arg()];
    let old = start(cluster.node("old", &arguments)).await;
    let _new = start(cluster.node("new", &arguments)).await;
    old.kill().await;
    // A container of the old pod that is started again is not let in.
    let said = tempfile::NamedTempFile::new().unwrap();
    let mut waiting = cluster.node("old", &arguments);
    let mut waiting = waiting.stderr(said.reopen().unwrap()).kill_on_drop(true).spawn().unwrap();
    let says = || std::fs::read_to_string(said.path()).unwrap();
    eventually("it waits", async || says().contains("asking it to hand over")).await;
    let pid = rustix::process::Pid::from_raw(waiting.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(in_time("its end", waiting.wait()).await.unwrap().code(), Some(0), "{}", says());
    assert!(says().contains("stopped before it was ready") && !says().contains("panicked"), "{}", says());
}
