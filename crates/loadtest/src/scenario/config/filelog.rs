//! The equivalent OpenTelemetry Collector as a log agent, as the Kyma Telemetry module configures its own: a file log
//! receiver for each pipeline, positions in files, and a queue that counts bytes.

use std::path::Path;

use super::otelcol::{RETRY, telemetry};
use super::{Pipelines, Ports, pipeline_name};

/// What the receiver does with each line.
const OPERATORS: &str = include_str!("../../../data/filelog-operators.yaml");

/// The whole configuration file.
pub(super) fn filelog(ports: Ports, pipelines: &Pipelines<'_>, memory_bytes: u64, places: &Places<'_>) -> String {
    let compression = pipelines.compression.name().unwrap_or("none");
    let named = || pipelines.backends.iter().enumerate().map(|(index, port)| (pipeline_name(index), *port));
    let receivers: String = named().map(|(name, _)| receiver(&name, places.pods)).collect();
    let exporters: String = named().map(|(name, port)| exporter(&name, port, compression)).collect();
    let between: String = named().map(|(name, _)| pipeline(&name)).collect();
    format!(
        "extensions:
  file_storage:
    directory: {data}
    create_directory: true
receivers:
{receivers}processors:
  memory_limiter:
    check_interval: 5s
    limit_mib: {limit_mib}
    spike_limit_mib: {spike_mib}
  transform:
    error_mode: ignore
    log_statements:
      - set(scope.version, \"main\")
      - set(scope.name, \"io.kyma-project.telemetry/runtime\")
exporters:
{exporters}service:
  extensions: [file_storage]
{telemetry}  pipelines:
{between}",
        data = places.data.display(),
        limit_mib = (memory_bytes / 100 * 80) >> 20,
        spike_mib = (memory_bytes / 100 * 25) >> 20,
        telemetry = telemetry(ports),
    )
}

/// Where the agent finds and keeps what is on disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places<'a> {
    pub(super) pods: &'a Path,
    pub(super) data: &'a Path,
}

fn receiver(name: &str, pods: &Path) -> String {
    format!(
        "  file_log/{name}:
    include: [\"{pods}/*_*/*/*.log\"]
    start_at: beginning
    storage: file_storage
    include_file_path: true
    include_file_name: false
{RETRY}    operators:
{OPERATORS}",
        pods = pods.display(),
    )
}

fn pipeline(name: &str) -> String {
    format!(
        "    logs/{name}:
      receivers: [file_log/{name}]
      processors: [memory_limiter, transform]
      exporters: [otlp_grpc/logpipeline-{name}]
"
    )
}

fn exporter(name: &str, port: u16, compression: &str) -> String {
    format!(
        "  otlp_grpc/logpipeline-{name}:
    endpoint: 127.0.0.1:{port}
    compression: {compression}
    tls:
      insecure: true
    sending_queue:
      enabled: true
      sizer: bytes
      queue_size: 200000000
      batch:
        sizer: bytes
        min_size: 2000000
        max_size: 4000000
        flush_timeout: 10s
{RETRY}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::processing::Processing;
    use super::super::Output;
    use super::*;
    use crate::codec::Compression;
    use crate::signal::Signal;

    #[test]
    fn every_pipeline_reads_the_files_itself() {
        let pods = Path::new("/tmp/pods");
        let pipelines = Pipelines {
            signal: Signal::Logs,
            backends: &[1001, 1002, 1003],
            output: Output::Otlp,
            compression: Compression::None,
            processing: Processing::None,
            overlay: None,
            annotations: &[],
            pod_logs: Some(pods),
            scraped: None,
        };
        let ports = Ports { grpc: 1, http: 2, metrics: 3, health: 4 };
        let places = Places { pods, data: Path::new("/tmp/data") };
        let text = filelog(ports, &pipelines, 1000 << 20, &places);
        assert_eq!(text.matches("include: [\"/tmp/pods/*_*/*/*.log\"]").count(), 3);
        assert_eq!(text.matches("type: container, format: containerd").count(), 3);
        assert!(text.contains("receivers: [file_log/load-test-2]") && text.contains("limit_mib: 800\n"), "{text}");
    }
}
