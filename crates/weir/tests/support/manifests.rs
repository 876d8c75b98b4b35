//! Documents of configurations of every kind, as JSON, which is YAML.

use std::net::SocketAddr;

use serde_json::{Value, json};
use weir_plan::Signal;

/// A pipeline with this OTLP output.
pub(crate) fn pipeline(signal: Signal, name: &str, otlp: &Value) -> String {
    with_spec(signal, name, &json!({"output": {"otlp": otlp}}))
}

/// A pipeline with this `spec`.
pub(crate) fn with_spec(signal: Signal, name: &str, spec: &Value) -> String {
    let metadata = json!({"name": name});
    let api_version = "telemetry.kyma-project.io/v1beta1";
    document(&json!({"apiVersion": api_version, "kind": kind(signal), "metadata": metadata, "spec": spec}))
}

/// What pipelines of a signal are called.
pub(crate) fn kind(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "TracePipeline",
        Signal::Metrics => "MetricPipeline",
        Signal::Logs => "LogPipeline",
    }
}

/// A Secret in the namespace `default`.
pub(crate) fn secret(name: &str, data: &Value) -> String {
    let metadata = json!({"name": name, "namespace": "default"});
    document(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}))
}

fn document(document: &Value) -> String {
    format!("{document}\n---\n")
}

/// An output in plain text to a local backend.
pub(crate) fn plain(protocol: &str, backend: SocketAddr) -> Value {
    json!({"endpoint": {"value": format!("http://{backend}")}, "protocol": protocol, "compression": "none"})
}

/// An output over TLS to a local backend.
pub(crate) fn secured(protocol: &str, backend: SocketAddr, tls: &Value) -> Value {
    let endpoint = json!({"value": format!("https://{backend}")});
    json!({"endpoint": endpoint, "protocol": protocol, "compression": "none", "tls": tls})
}

/// `output` with more fields.
pub(crate) fn with(mut output: Value, fields: Value) -> Value {
    let (Value::Object(all), Value::Object(more)) = (&mut output, fields) else { panic!("an output is an object") };
    all.extend(more);
    output
}

/// The value of a key of a Secret in the namespace `default`.
pub(crate) fn from_secret(name: &str, key: &str) -> Value {
    json!({"valueFrom": {"secretKeyRef": {"name": name, "namespace": "default", "key": key}}})
}
