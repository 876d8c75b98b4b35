//! Configuration of the systems under test: the same pipelines in each one's own language.

use std::fmt::Write;
use std::str::FromStr;

use crate::codec::Compression;

/// Ports of a system under test, all on 127.0.0.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) grpc: u16,
    pub(crate) http: u16,
    pub(crate) metrics: u16,
    pub(crate) health: u16,
}

/// An annotation of the pipelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    key: String,
    value: String,
}

impl Annotation {
    /// `key: value`.
    pub(crate) fn new(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), value: value.to_owned() }
    }

    /// Whether both say something about the same.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl FromStr for Annotation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self::new(key, value)),
            _ => Err(format!("cannot read annotation \"{text}\": use KEY=VALUE, as weir.dev/backlog-max-bytes=1GiB")),
        }
    }
}

/// Name of pipeline `index`, counted from 0, as in the load-test kit.
fn pipeline_name(index: usize) -> String {
    format!("load-test-{}", index + 1)
}

/// `TracePipeline` documents, one for each sink, all with the same annotations.
pub(crate) fn weir(sinks: &[u16], compression: Compression, annotations: &[Annotation]) -> String {
    let compression = compression.name().unwrap_or("none");
    let lines: String = annotations.iter().map(|one| format!("\n    {}: {:?}", one.key, one.value)).collect();
    let annotations = if lines.is_empty() { lines } else { format!("\n  annotations:{lines}") };
    let documents: Vec<String> = sinks
        .iter()
        .enumerate()
        .map(|(index, port)| {
            format!(
                "apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata:
  name: {name}{annotations}
spec:
  output:
    otlp:
      endpoint:
        value: http://127.0.0.1:{port}
      compression: {compression}
",
                name = pipeline_name(index)
            )
        })
        .collect();
    documents.join("---\n")
}

/// The equivalent OpenTelemetry Collector: processors, queue and retry as the published figures were taken with, and
/// the same memory limit.
pub(crate) fn otelcol(ports: Ports, sinks: &[u16], compression: Compression, memory_bytes: u64) -> String {
    let compression = compression.name().unwrap_or("none");
    let mut exporters = String::new();
    let mut pipelines = String::new();
    for (index, port) in sinks.iter().enumerate() {
        let name = pipeline_name(index);
        // Writing to a String cannot fail.
        let _ = write!(
            exporters,
            "  otlp_grpc/tracepipeline-{name}:
    endpoint: 127.0.0.1:{port}
    compression: {compression}
    tls:
      insecure: true
    sending_queue:
      enabled: true
      queue_size: 512
    retry_on_failure:
      enabled: true
      initial_interval: 5s
      max_interval: 30s
      max_elapsed_time: 300s
"
        );
        let _ = write!(
            pipelines,
            "    traces/{name}:
      receivers: [otlp]
      processors: [memory_limiter, batch]
      exporters: [otlp_grpc/tracepipeline-{name}]
"
        );
    }
    format!(
        "receivers:
  otlp:
    protocols:
      grpc:
        endpoint: 127.0.0.1:{grpc}
        max_recv_msg_size_mib: 20
      http:
        endpoint: 127.0.0.1:{http}
processors:
  memory_limiter:
    check_interval: 1s
    limit_mib: {memory_mib}
  batch:
    send_batch_size: 512
    send_batch_max_size: 512
    timeout: 10s
exporters:
{exporters}service:
  telemetry:
    logs:
      level: warn
    metrics:
      readers:
        - pull:
            exporter:
              prometheus:
                host: 127.0.0.1
                port: {metrics}
  pipelines:
{pipelines}",
        grpc = ports.grpc,
        http = ports.http,
        metrics = ports.metrics,
        memory_mib = memory_bytes >> 20,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_pipelines_have_three_documents_and_three_exporters() {
        let sinks = [1001, 1002, 1003];
        let weir = weir(&sinks, Compression::None, &[]);
        assert_eq!(weir.matches("kind: TracePipeline").count(), 3);
        assert!(weir.contains("name: load-test-3") && weir.contains("127.0.0.1:1003"));
        assert!(weir.contains("compression: none") && !weir.contains("annotations"));
        let ports = Ports { grpc: 1, http: 2, metrics: 3, health: 4 };
        let peer = otelcol(ports, &sinks, Compression::Gzip, 512 << 20);
        assert_eq!(peer.matches("queue_size: 512").count(), 3);
        assert!(peer.contains("exporters: [otlp_grpc/tracepipeline-load-test-2]"));
        assert!(peer.contains("limit_mib: 512") && peer.contains("compression: gzip"));
    }

    #[test]
    fn annotations_stand_in_the_metadata() {
        let annotation: Annotation = "weir.dev/backlog-max-bytes=1GiB".parse().unwrap();
        let weir = weir(&[1], Compression::None, &[annotation]);
        assert!(
            weir.contains("load-test-1\n  annotations:\n    weir.dev/backlog-max-bytes: \"1GiB\"\nspec:"),
            "{weir}"
        );
        assert!("weir.dev/x".parse::<Annotation>().is_err());
    }
}
