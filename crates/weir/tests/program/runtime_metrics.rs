//! Runtime metrics of the program: options, what the log says, objects in files that change.

use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use weir_testkit::backend::Backend;
use weir_testkit::eventually;
use weir_testkit::tls::Authority;

use crate::process::Weir;

const SUMMARY: &str = r#"{"node": {"nodeName": "node-1", "cpu": {"usageNanoCores": 1}}, "pods": null}"#;
const PODS: &str = r#"{"items": null}"#;

/// Answers everybody with this code, until it is another one.
async fn kubelet(code: &Arc<Mutex<u16>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let (code, acceptor) = (Arc::clone(code), Authority::new().server(None));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(answer(stream, Arc::clone(&code)));
            }
        }
    });
    url
}

async fn answer(stream: tokio_rustls::server::TlsStream<TcpStream>, code: Arc<Mutex<u16>>) {
    let mut stream = BufReader::new(stream);
    let (mut path, mut line) = (String::new(), String::new());
    while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
        if let Some(rest) = line.strip_prefix("GET ") {
            path = rest.split(' ').next().unwrap_or_default().to_owned();
        } else if line == "\r\n" {
            let body = if path == "/pods" { PODS } else { SUMMARY };
            let head = format!("HTTP/1.1 {} Said\r\ncontent-length: {}\r\n\r\n", code.lock().unwrap(), body.len());
            let sent = stream.write_all((head + body).as_bytes()).await;
            if sent.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
        line.clear();
    }
}

/// A pipeline for runtime metrics, which are made often, and this document. A kubelet has no more time to answer than
/// there is between two looks.
fn manifests(backend: SocketAddr, document: &str) -> String {
    format!(
        "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: MetricPipeline\nmetadata: {{name: runtime}}\nspec:\n  \
         input: {{runtime: {{enabled: true}}, otlp: {{enabled: false}}}}\n  \
         output: {{otlp: {{endpoint: {{value: 'http://{backend}'}}}}}}\n\
         status: {{conditions: [{{type: AgentHealthy, status: 'True', reason: AgentReady}}]}}\n---\n\
         apiVersion: operator.kyma-project.io/v1beta1\nkind: Telemetry\nmetadata: {{name: default}}\n\
         spec: {{metric: {{runtime: {{collectionInterval: 2s}}}}}}\n---\n{document}"
    )
}

fn deployment(name: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: shop, uid: u}}\n\
         spec: {{replicas: 2}}\nstatus: {{availableReplicas: 1}}\n"
    )
}

/// Names of metrics that have arrived, with the value of an attribute of their resource.
fn arrived(backend: &Backend, key: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for captured in backend.captured() {
        for of in ExportMetricsServiceRequest::decode(&captured.plain[..]).unwrap().resource_metrics {
            let attributes = of.resource.unwrap_or_default().attributes;
            let value = attributes.into_iter().find(|pair| pair.key == key).and_then(|pair| pair.value);
            let value = value.map(|value| format!("{:?}", value.value)).unwrap_or_default();
            let metrics = of.scope_metrics.into_iter().flat_map(|scope| scope.metrics);
            all.extend(metrics.map(|metric| (metric.name, value.clone())));
        }
    }
    all
}

async fn arrives(backend: &Backend, name: &str, key: &str, value: &str) {
    let is_it = |(metric, of): &(String, String)| metric == name && of.contains(value);
    eventually(name, async || arrived(backend, key).iter().any(is_it)).await;
}

#[tokio::test]
async fn a_kubelet_and_the_objects_of_a_cluster_are_told_of() {
    let (backend, code, directory) = (Backend::start().await, Arc::new(Mutex::new(401)), TempDir::new().unwrap());
    let token = directory.path().join("token");
    fs::write(&token, "secret\n").unwrap();
    let url = kubelet(&code).await;
    let arguments = ["--kubelet", &url, "--kubelet-token", token.to_str().unwrap()];
    let weir = Weir::start(&manifests(backend.address, &deployment("cart")), &arguments).await;
    let failed = "cannot get runtime metrics from the kubelet; trying again";
    eventually("it is refused", async || weir.logged(failed).is_some()).await;
    let error = weir.logged(failed).unwrap()["error"].as_str().unwrap().to_owned();
    assert!(error.contains("401 Unauthorized") && error.contains("--kubelet-token"), "{error}");
    arrives(&backend, "k8s.deployment.desired", "k8s.deployment.name", "cart").await;
    arrives(&backend, "kyma.resource.status.conditions", "k8s.resource.name", "runtime").await;

    *code.lock().unwrap() = 200;
    arrives(&backend, "k8s.node.cpu.usage", "k8s.node.name", "node-1").await;
    eventually("it is said", async || weir.logged("the kubelet answers again").is_some()).await;
    assert_eq!(weir.all_logged(failed).len(), 1, "once");

    weir.edit(&manifests(backend.address, &deployment("orders")));
    arrives(&backend, "k8s.deployment.desired", "k8s.deployment.name", "orders").await;
}

/// Of many processes, one tells of the cluster.
#[tokio::test]
async fn a_process_may_leave_the_cluster_to_others() {
    let (backend, code) = (Backend::start().await, Arc::new(Mutex::new(200)));
    let url = kubelet(&code).await;
    let arguments = ["--kubelet", &url, "--cluster-metrics", "off"];
    let _weir = Weir::start(&manifests(backend.address, &deployment("cart")), &arguments).await;
    arrives(&backend, "k8s.node.cpu.usage", "k8s.node.name", "node-1").await;
    eventually("again", async || arrived(&backend, "").len() > 2).await;
    let names: Vec<_> = arrived(&backend, "").into_iter().map(|(name, _)| name).collect();
    assert!(names.iter().all(|name| name == "k8s.node.cpu.usage"), "{names:?}");
}

/// Metrics of the cluster need none.
#[tokio::test]
async fn without_a_kubelet_the_log_says_so() {
    let backend = Backend::start().await;
    let weir = Weir::start(&manifests(backend.address, &deployment("cart")), &[]).await;
    arrives(&backend, "k8s.deployment.available", "k8s.deployment.name", "cart").await;
    assert!(weir.logged("metrics of pods and their node are not collected: name a kubelet with --kubelet").is_some());
}
