//! What the operator says of the process, not of pipelines.

use std::fs;

use serde_json::json;
use tempfile::TempDir;
use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::eventually;
use weir_testkit::signals::document;

use super::{cluster, page, runs, start};

/// A container of this pod that has printed a line.
fn prints(pods: &TempDir, pod: &str, line: &str) {
    let directory = pods.path().join(format!("shop_{pod}_11111111-2222-3333-4444-555555555555/app"));
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("0.log"), format!("2026-11-23T12:00:00.123456789Z stdout F {line}\n")).unwrap();
}

/// It does not wait for pipelines that are right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_prints_is_read_as_soon_as_that_is_told() {
    let Some(cluster) = cluster().await else { return };
    let (backend, pods) = (Backend::start().await, TempDir::new().unwrap());
    let arrives = |line: &str| {
        let captured = backend.captured();
        captured.iter().any(|of| of.plain.windows(line.len()).any(|bytes| bytes == line.as_bytes()))
    };
    let logs = document(Signal::Logs, "logs", backend.address, "");
    cluster.tell("one", &logs, &json!({})).await;
    prints(&pods, "pod-a", "from the node itself");
    prints(&pods, "cart", "from a container");
    let weir = start(cluster.node("a", &["--pod-logs", pods.path().to_str().unwrap()])).await;
    runs(&weir, "one").await;
    eventually("a line arrives", async || arrives("from a container")).await;
    assert!(!arrives("from the node itself"));
    cluster.tell("two", "kind: Nothing\n", &json!({"collectAgentLogs": true})).await;
    eventually("its own arrives as well", async || arrives("from the node itself")).await;
    assert!(page(&weir).await["error"].is_string());
    assert_eq!(page(&weir).await["revision"], "one");
}
