//! Roles of a node: what a process does not do, it does not watch, and what it has, it delivers.

use serde_json::{Value, json};
use weir_plan::Signal;
use weir_testkit::backend::{Backend, Say};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::{Grpc, OK, frame};
use weir_testkit::signals::{document, encoded};
use weir_testkit::{eventually, http};

use super::{Cluster, cluster, page, runs, sent, start, value};
use crate::process::Weir;

/// What it watches, by what is in its metrics.
async fn watched(weir: &Weir) -> Vec<String> {
    let text = http::get(weir.metrics, "/metrics").await.text();
    let lines = text.lines().filter_map(|line| line.strip_prefix("weir_watch_objects{watched=\""));
    let mut kinds: Vec<_> = lines.map(|line| line.split('"').next().unwrap().to_owned()).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

async fn is_ready(weir: &Weir) -> bool {
    http::get(weir.health, "/").await.status == 200
}

fn all_pipelines(backend: &Backend) -> String {
    let inputs = "  input: {prometheus: {enabled: true}, runtime: {enabled: true}}\n";
    document(Signal::Traces, "traces", backend.address, "")
        + &document(Signal::Metrics, "metrics", backend.address, inputs)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_watches_and_serves_only_what_its_role_needs() {
    let Some(cluster) = cluster().await else { return };
    let backend = Backend::start().await;
    cluster.tell("one", &all_pipelines(&backend), &json!({})).await;
    let always = ["ConfigMap", "Namespace", "Node", "Secret"];
    for (roles, more) in [("gateway", vec!["Pod"]), ("backlog", vec![])] {
        let weir = start(cluster.node(roles, &["--roles", roles])).await;
        runs(&weir, "one").await;
        assert!(is_ready(&weir).await, "{roles}");
        assert_eq!(weir.grpc.port() != 0, roles == "gateway", "{roles}");
        let mut expected: Vec<_> = always.iter().copied().chain(more).collect();
        expected.sort_unstable();
        eventually("it watches this", async || watched(&weir).await == expected).await;
        let told = page(&weir).await["roles"].clone();
        assert_eq!(told, if roles == "gateway" { json!(["gateway"]) } else { json!([]) });
    }
    let metrics = start(cluster.node("metrics", &["--roles", "metrics"])).await;
    runs(&metrics, "one").await;
    assert_eq!((metrics.grpc.port(), is_ready(&metrics).await), (0, true));
    eventually("it watches Services", async || watched(&metrics).await.contains(&"Service".to_owned())).await;
}

/// A pod of another node, with the address of this machine.
async fn elsewhere(cluster: &Cluster) {
    let pods = "/api/v1/namespaces/shop/pods";
    let container = json!({"name": "app", "image": "cart:1"});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart-elsewhere"},
        "spec": {"nodeName": "n2", "containers": [container]},
    });
    cluster.create(pods, &pod).await;
    let status = json!({"status": {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}});
    cluster.patch(&format!("{pods}/cart-elsewhere/status"), &status).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_for_all_nodes_knows_the_pods_of_all_nodes() {
    let Some(cluster) = cluster().await else { return };
    let backend = Backend::start().await;
    elsewhere(&cluster).await;
    cluster.tell("one", &document(Signal::Traces, "traces", backend.address, ""), &json!({})).await;
    let of_node = start(cluster.node("a", &["--roles", "gateway"])).await;
    assert_eq!(value(&sent(Signal::Traces, of_node.grpc, &backend).await, "k8s.pod.name"), None);
    let of_all = start(cluster.node("b", &["--roles", "gateway", "--all-pods"])).await;
    assert_eq!(value(&sent(Signal::Traces, of_all.grpc, &backend).await, "k8s.pod.name"), Some("cart-elsewhere"));
}

async fn owed(weir: &Weir) -> Value {
    page(weir).await["pipelines"][0]["pending"].clone()
}

/// What is not needed any more stays until it owes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_a_directory_is_delivered_by_a_process_without_a_role() {
    let Some(cluster) = cluster().await else { return };
    let (nowhere, dir) = (weir_testkit::sink::closed_port().await, DataDir::new());
    cluster.tell("one", &document(Signal::Traces, "traces", nowhere, ""), &json!({})).await;
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms"];
    let weir = start(cluster.node("a", &[&arguments[..], &["--roles", "gateway"]].concat())).await;
    let request = frame(&encoded(Signal::Traces, &[], 1..8), false);
    let answer = Grpc::connect(weir.grpc).await.call(Signal::Traces.grpc_method(), None, request).await;
    assert_eq!(answer.code, OK);
    assert_eq!(owed(&weir).await, 7);
    // The newer pod takes the directory over.
    let rest = start(cluster.node("b", &[&arguments[..], &["--roles", "backlog"]].concat())).await;
    runs(&rest, "one").await;
    assert_eq!((owed(&rest).await, rest.grpc.port()), (json!(7), 0));
    let backend = Backend::scripted(|_, _| Say::Ok).await;
    cluster.tell("two", &document(Signal::Traces, "traces", backend.address, ""), &json!({})).await;
    runs(&rest, "two").await;
    eventually("nothing is owed", async || owed(&rest).await == 0).await;
    assert!(!backend.captured().is_empty());
    drop(weir);
}
