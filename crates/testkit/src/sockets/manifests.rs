//! Documents of configurations of every kind, as JSON, which is YAML.

use std::net::SocketAddr;

use serde_json::{Value, json};
use weir_plan::Signal;

/// A pipeline with this OTLP output.
pub fn pipeline(signal: Signal, name: &str, otlp: &Value) -> String {
    with_spec(signal, name, &json!({"output": {"otlp": otlp}}))
}

/// A pipeline with this `spec`.
pub fn with_spec(signal: Signal, name: &str, spec: &Value) -> String {
    let metadata = json!({"name": name});
    let api_version = "telemetry.kyma-project.io/v1beta1";
    document(&json!({"apiVersion": api_version, "kind": kind(signal), "metadata": metadata, "spec": spec}))
}

/// What pipelines of a signal are called.
pub fn kind(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "TracePipeline",
        Signal::Metrics => "MetricPipeline",
        Signal::Logs => "LogPipeline",
    }
}

/// A Secret in the namespace `default`.
pub fn secret(name: &str, data: &Value) -> String {
    let metadata = json!({"name": name, "namespace": "default"});
    document(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}))
}

fn document(document: &Value) -> String {
    format!("{document}\n---\n")
}

/// An output in plain text to a local backend.
pub fn plain(protocol: &str, backend: SocketAddr) -> Value {
    json!({"endpoint": {"value": format!("http://{backend}")}, "protocol": protocol, "compression": "none"})
}

/// An output over TLS to a local backend.
pub fn secured(protocol: &str, backend: SocketAddr, tls: &Value) -> Value {
    let endpoint = json!({"value": format!("https://{backend}")});
    json!({"endpoint": endpoint, "protocol": protocol, "compression": "none", "tls": tls})
}

/// `output` with more fields.
pub fn with(mut output: Value, fields: Value) -> Value {
    let (Value::Object(all), Value::Object(more)) = (&mut output, fields) else { panic!("an output is an object") };
    all.extend(more);
    output
}

/// The value of a key of a Secret in the namespace `default`.
pub fn from_secret(name: &str, key: &str) -> Value {
    json!({"valueFrom": {"secretKeyRef": {"name": name, "namespace": "default", "key": key}}})
}

/// This machine as a pod, its owner, and facts about pods.
pub const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: orders-7d9f-abcde
  namespace: shop
  uid: 11111111-2222-3333-4444-555555555555
  labels: {app.kubernetes.io/name: orders, team: blue}
  ownerReferences:
  - {apiVersion: apps/v1, kind: ReplicaSet, name: orders-7d9f, uid: rs-1, controller: true}
spec:
  nodeName: node-1
  containers: [{name: main, image: "orders:1.2"}]
status:
  phase: Running
  podIP: 127.0.0.1
  podIPs: [{ip: 127.0.0.1}]
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: orders-7d9f
  namespace: shop
  uid: rs-1
  ownerReferences:
  - {apiVersion: apps/v1, kind: Deployment, name: orders, uid: d-1, controller: true}
---
apiVersion: v1
kind: Node
metadata:
  name: node-1
  labels: {topology.kubernetes.io/region: eu-1, topology.kubernetes.io/zone: eu-1a, kubernetes.io/arch: arm64}
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-system, uid: cluster-1}
---
apiVersion: operator.kyma-project.io/v1beta1
kind: Telemetry
metadata:
  name: default
  namespace: kyma-system
  annotations: {telemetry.kyma-project.io/service-enrichment: otel}
spec:
  enrichments:
    cluster: {name: garden}
    extractPodLabels: [{key: team}]
---
"#;
