//! `weir node` with a real API server: what the operator says has an effect without a restart, pods are known, and two
//! generations of a pod do not lose a line or a request between them.
//!
//! The programs of a cluster are big and not on every machine. Where they are missing, this says so.

#[path = "../../../kubernetes/tests/api_server/control_plane.rs"]
mod control_plane;
mod generations;
mod history;
mod leader;
mod roles;
mod settings;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::{Grpc, OK, frame};
use weir_testkit::metrics::Scrape;
use weir_testkit::signals::{document, encoded, resources, text};
use weir_testkit::sink::closed_port;
use weir_testkit::{eventually, http};

use crate::process::{Weir, command, on_free_ports};
use control_plane::ControlPlane;

/// Where the operator and its nodes are.
const NAMESPACE: &str = "kyma-system";

/// An API server; nothing, and a word about it, where there is none.
async fn cluster() -> Option<Cluster> {
    let Some(programs) = control_plane::programs() else {
        println!("warning: nodes are not tested with an API server: there is none in WEIR_CLUSTER_BIN");
        return None;
    };
    let cluster = Cluster(ControlPlane::start(&programs).await);
    for name in [NAMESPACE, "shop"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        cluster.create("/api/v1/namespaces", &namespace).await;
    }
    Some(cluster)
}

struct Cluster(ControlPlane);

impl Cluster {
    async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = ::http::Request::builder().method(method).uri(path).header("content-type", kind).body(body);
        self.0.client.request::<Value>(request.unwrap()).await.ok()
    }

    async fn create(&self, path: &str, object: &Value) {
        self.send("POST", path, Some(object)).await.unwrap();
    }

    async fn patch(&self, path: &str, object: &Value) {
        self.send("PATCH", path, Some(object)).await.unwrap();
    }

    /// What the operator tells nodes.
    async fn tell(&self, revision: &str, documents: &str, settings: &Value) {
        let data = json!({
            "configuration.json.gz": packed(documents),
            "settings.json": BASE64_STANDARD.encode(settings.to_string()),
        });
        self.tell_data(revision, &data).await;
    }

    /// The same with all keys of the Secret, of which others stay.
    async fn tell_data(&self, revision: &str, data: &Value) {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "telemetry-node", "annotations": {"weir.dev/revision": revision}},
            "data": data,
        });
        let all = format!("/api/v1/namespaces/{NAMESPACE}/secrets");
        let one = format!("{all}/telemetry-node");
        match self.send("GET", &one, None).await {
            Some(_) => self.patch(&one, &secret).await,
            None => self.create(&all, &secret).await,
        }
    }

    /// A pod of this name on the node, which has the address of this machine.
    async fn pod(&self, name: &str) {
        let pods = "/api/v1/namespaces/shop/pods";
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-7d4b", "uid": "u"}]);
        let labels = json!({"pod-template-hash": "7d4b", "team": "blue"});
        let container = json!({"name": "app", "image": "cart:1", "env": [{"name": "PASSWORD", "value": "hunter2"}]});
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "ownerReferences": owner},
            "spec": {"nodeName": "n1", "containers": [container]},
        });
        self.create(pods, &pod).await;
        let status = json!({"status": {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}});
        self.patch(&format!("{pods}/{name}/status"), &status).await;
    }

    fn node(&self, uid: &str, arguments: &[&str]) -> Command {
        node(&self.0.kubeconfig, uid, arguments)
    }
}

/// A value of the Secret.
fn packed(text: &str) -> String {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    BASE64_STANDARD.encode(packed.finish().unwrap())
}

/// `weir node` as the pod with this uid.
fn node(kubeconfig: &Path, uid: &str, arguments: &[&str]) -> Command {
    let mut command = command(&["node", "--node-name", "n1", "--kubelet", "http://127.0.0.1:1"]);
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(arguments)
        .env("POD_UID", uid)
        .env("POD_NAME", format!("pod-{uid}"));
    on_free_ports(command)
}

/// How to reach an API server that does not answer.
async fn unreachable(directory: &TempDir) -> PathBuf {
    let kubeconfig = directory.path().join("kubeconfig");
    let server = format!("http://{}", closed_port().await);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    kubeconfig
}

async fn start(command: Command) -> Weir {
    Weir::launch(&[], command, TempDir::new().unwrap()).await
}

/// What it says to the operator.
async fn page(weir: &Weir) -> Value {
    serde_json::from_str(&http::get(weir.metrics, "/node").await.text()).unwrap()
}

async fn runs(weir: &Weir, revision: &str) {
    eventually("the configuration runs", async || page(weir).await["revision"] == revision).await;
}

/// The resource that a request has when it arrives.
async fn sent(signal: Signal, to: SocketAddr, backend: &Backend) -> Vec<(String, String)> {
    let before = backend.captured().len();
    let answer =
        Grpc::connect(to).await.call(signal.grpc_method(), None, frame(&encoded(signal, &[], 1..2), false)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
    eventually("it arrives", async || backend.captured().len() > before).await;
    let resource = resources(signal, &backend.captured()[before].plain).remove(0);
    let keys = ["k8s.pod.name", "k8s.deployment.name", "k8s.pod.label.team", "k8s.cluster.uid"];
    keys.iter().filter_map(|key| Some(((*key).to_owned(), text(&resource.attributes, key)?.to_owned()))).collect()
}

fn value<'a>(attributes: &'a [(String, String)], key: &str) -> Option<&'a str> {
    attributes.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}

const TELEMETRY: &str = "apiVersion: operator.kyma-project.io/v1beta1\nkind: Telemetry\nmetadata: {name: default}\nspec: \
                         {enrichments: {extractPodLabels: [{key: team}]}}\n---\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_does_what_the_operator_says_and_knows_its_pods() {
    let Some(cluster) = cluster().await else { return };
    let (backend, dir) = (Backend::start().await, DataDir::new());
    let traces = document(Signal::Traces, "traces", backend.address, "");
    let logs = document(Signal::Logs, "logs", backend.address, "  input: {runtime: {enabled: false}}\n");
    cluster.pod("cart-7d4b-1").await;
    cluster.tell("one", &(TELEMETRY.to_owned() + &traces), &json!({})).await;
    let weir = start(cluster.node("a", &["--data-dir", dir.arg()])).await;
    runs(&weir, "one").await;
    let backend_of_page = async || page(&weir).await["pipelines"][0]["backend"].clone();
    let expected = json!({"state": "ok", "tried": false, "code": "", "message": ""});
    assert_eq!(backend_of_page().await, expected, "nobody knows it yet");
    let known = sent(Signal::Traces, weir.grpc, &backend).await;
    assert_eq!(value(&known, "k8s.pod.name"), Some("cart-7d4b-1"), "{known:?}");
    assert_eq!(value(&known, "k8s.deployment.name"), Some("cart"), "{known:?}");
    assert_eq!(value(&known, "k8s.pod.label.team"), Some("blue"), "{known:?}");
    assert!(value(&known, "k8s.cluster.uid").is_some_and(|uid| uid.len() == 36), "{known:?}");
    let labels = json!({"metadata": {"labels": {"team": "red"}}});
    cluster.patch("/api/v1/namespaces/shop/pods/cart-7d4b-1", &labels).await;
    eventually("the other label is known", async || {
        value(&sent(Signal::Traces, weir.grpc, &backend).await, "k8s.pod.label.team") == Some("red")
    })
    .await;
    eventually("it is known", async || backend_of_page().await["tried"].as_bool() == Some(true)).await;
    assert!(weir.all_logged("configuration reloaded").is_empty(), "a pod is no configuration");
    // Another pipeline, and another level of the log, without a restart.
    cluster.tell("two", &(TELEMETRY.to_owned() + &traces + &logs), &json!({"logLevel": "error"})).await;
    runs(&weir, "two").await;
    sent(Signal::Logs, weir.grpc, &backend).await;
    assert!(weir.all_logged("configuration reloaded").is_empty(), "only errors are logged");
    let delivered = page(&weir).await["pipelines"][1]["delivered"].as_u64();
    assert_eq!(delivered, Some(1));
    // What cannot be used changes nothing, and is told.
    cluster.tell("three", "kind: Nothing\n", &json!({})).await;
    eventually("it is told", async || page(&weir).await["error"].is_string()).await;
    assert_eq!(page(&weir).await["revision"], "two");
    sent(Signal::Logs, weir.grpc, &backend).await;
    cluster.tell("four", &(TELEMETRY.to_owned() + &traces + &logs), &json!({})).await;
    runs(&weir, "four").await;
    assert!(page(&weir).await["error"].is_null());
    // A pipeline that was made anew may have another kind of output.
    let anew = "---\napiVersion: telemetry.kyma-project.io/v1beta1\nkind: LogPipeline\nmetadata: {name: logs}\nspec: {input: \
                {runtime: {enabled: false}}, output: {http: {host: {value: 127.0.0.1}}}}\n";
    cluster.tell("anew", &(TELEMETRY.to_owned() + &traces + anew), &json!({})).await;
    runs(&weir, "anew").await;
    sent(Signal::Traces, weir.grpc, &backend).await;
    cluster.tell("four", &(TELEMETRY.to_owned() + &traces + &logs), &json!({})).await;
    runs(&weir, "four").await;
    let figures = Scrape::of(weir.metrics).await;
    assert_eq!(figures.get("weir_watch_objects{watched=\"Pod\",scope=\"node\"}"), 1.0);
    eventually("it is kept", async || {
        let kept = std::fs::read_to_string(dir.path().join("state/configuration"));
        kept.is_ok_and(|kept| kept.contains("\"four\""))
    })
    .await;
    weir.kill().await;
    // Without the API server, the last good one is used.
    drop(cluster);
    let nobody = TempDir::new().unwrap();
    let weir = start(node(&unreachable(&nobody).await, "a", &["--data-dir", dir.arg()])).await;
    runs(&weir, "four").await;
    sent(Signal::Logs, weir.grpc, &backend).await;
    let live = http::get(weir.health, "/live").await.text();
    assert!(live.contains("ready"), "{live}");
}
