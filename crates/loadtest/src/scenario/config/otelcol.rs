//! The equivalent OpenTelemetry Collector: processors, queue and retry as the published figures were taken with, and the
//! same memory limit.

use std::fmt::Write;
use std::path::Path;

use super::super::processing::{ENRICHED, Processing};
use super::filelog::{Places, filelog};
use super::{Pipelines, Ports, pipeline_name};
use crate::signal::Signal;

/// Items the batch processor gathers: metrics alone have larger batches.
pub(crate) fn batch_size(signal: Signal) -> u32 {
    match signal {
        Signal::Metrics => 1024,
        Signal::Traces | Signal::Logs => 512,
    }
}

/// The whole configuration file; `data` is where it may keep something.
pub(crate) fn otelcol(ports: Ports, pipelines: &Pipelines<'_>, memory_bytes: u64, data: &Path) -> String {
    if let Some(pods) = pipelines.pod_logs {
        return filelog(ports, pipelines, memory_bytes, &Places { pods, data });
    }
    let (exporters, pipelines_text) = pipeline_sections(pipelines);
    let (_, processors) = processors(pipelines.processing, pipelines.signal);
    let receiver = match pipelines.scraped {
        Some(scraped) => scraped.receiver(),
        None => otlp_receiver(ports),
    };
    format!(
        "receivers:
{receiver}processors:
  memory_limiter:
    check_interval: 1s
    limit_mib: {memory_mib}
{processors}  batch:
    send_batch_size: {batch}
    send_batch_max_size: {batch}
    timeout: 10s
exporters:
{exporters}service:
{telemetry}  pipelines:
{pipelines_text}",
        telemetry = telemetry(ports),
        memory_mib = memory_bytes >> 20,
        batch = batch_size(pipelines.signal),
    )
}

fn otlp_receiver(ports: Ports) -> String {
    format!(
        "  otlp:
    protocols:
      grpc:
        endpoint: 127.0.0.1:{grpc}
        max_recv_msg_size_mib: 20
      http:
        endpoint: 127.0.0.1:{http}
",
        grpc = ports.grpc,
        http = ports.http,
    )
}

/// How receivers and exporters try again.
pub(super) const RETRY: &str = "    retry_on_failure:
      enabled: true
      initial_interval: 5s
      max_interval: 30s
      max_elapsed_time: 300s
";

/// What it says of itself, and where.
pub(super) fn telemetry(ports: Ports) -> String {
    format!(
        "  telemetry:
    logs:
      level: warn
    metrics:
      readers:
        - pull:
            exporter:
              prometheus:
                host: 127.0.0.1
                port: {}
",
        ports.metrics
    )
}

/// An exporter and a pipeline for each backend.
fn pipeline_sections(pipelines: &Pipelines<'_>) -> (String, String) {
    let compression = pipelines.compression.name().unwrap_or("none");
    let signal = pipelines.signal;
    let kind = signal.kind().to_lowercase();
    let (between, _) = processors(pipelines.processing, signal);
    let receiver = if pipelines.scraped.is_some() { "prometheus" } else { "otlp" };
    let (mut exporters, mut text) = (String::new(), String::new());
    for (index, port) in pipelines.backends.iter().enumerate() {
        let name = pipeline_name(index);
        // Writing to a String cannot fail.
        let _ = write!(
            exporters,
            "  otlp_grpc/{kind}-{name}:
    endpoint: 127.0.0.1:{port}
    compression: {compression}
    tls:
      insecure: true
    sending_queue:
      enabled: true
      queue_size: 512
{RETRY}"
        );
        let _ = write!(
            text,
            "    {signal}/{name}:
      receivers: [{receiver}]
      processors: [memory_limiter, {between}batch]
      exporters: [otlp_grpc/{kind}-{name}]
"
        );
    }
    (exporters, text)
}

/// What stands between the memory limiter and the batch, in a pipeline's list and in the section of processors.
fn processors(processing: Processing, signal: Signal) -> (&'static str, String) {
    let list = |lines: &[String]| lines.iter().map(|line| format!("      - '{line}'\n")).collect::<String>();
    let section = match signal {
        Signal::Traces => "trace",
        Signal::Metrics => "metric",
        Signal::Logs => "log",
    };
    match processing {
        Processing::None => ("", String::new()),
        // Less than what the metadata of a pod costs: it needs no look-up.
        Processing::Enrich => {
            let action =
                |(key, value): &(&str, &str)| format!("      - {{key: {key}, value: {value}, action: upsert}}\n");
            ("resource, ", format!("  resource:\n    attributes:\n{}", ENRICHED.iter().map(action).collect::<String>()))
        }
        Processing::Filter97 => {
            let conditions = list(processing.condition(signal).as_slice());
            ("filter, ", format!("  filter:\n    error_mode: ignore\n    {section}_conditions:\n{conditions}"))
        }
        Processing::Insert | Processing::Rename4 => {
            let statements = list(&processing.statements(signal));
            ("transform, ", format!("  transform:\n    error_mode: ignore\n    {section}_statements:\n{statements}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Output;
    use super::*;
    use crate::codec::Compression;

    const PORTS: Ports = Ports { grpc: 1, http: 2, metrics: 3, health: 4 };

    fn config(signal: Signal, processing: Processing) -> String {
        let backends = [1001, 1002, 1003];
        let compression = Compression::Gzip;
        let pipelines = Pipelines {
            signal,
            backends: &backends,
            output: Output::Otlp,
            compression,
            processing,
            annotations: &[],
            pod_logs: None,
            scraped: None,
        };
        otelcol(PORTS, &pipelines, 512 << 20, Path::new("data"))
    }

    #[test]
    fn every_backend_has_an_exporter_and_a_pipeline() {
        for (signal, exporter, batch) in [
            (Signal::Traces, "tracepipeline", 512),
            (Signal::Metrics, "metricpipeline", 1024),
            (Signal::Logs, "logpipeline", 512),
        ] {
            let text = config(signal, Processing::None);
            assert_eq!(text.matches("queue_size: 512").count(), 3);
            assert!(text.contains(&format!("    {signal}/load-test-2:\n")), "{text}");
            assert!(text.contains(&format!("exporters: [otlp_grpc/{exporter}-load-test-2]")), "{text}");
            assert!(text.contains(&format!("send_batch_size: {batch}\n")), "{text}");
            assert!(text.contains("limit_mib: 512") && text.contains("compression: gzip"));
            assert!(text.contains("processors: [memory_limiter, batch]"));
        }
    }

    #[test]
    fn rules_are_the_same_text_as_in_the_pipelines() {
        let filter = config(Signal::Metrics, Processing::Filter97);
        assert!(filter.contains("processors: [memory_limiter, filter, batch]"));
        assert!(filter.contains("metric_conditions:\n      - 'datapoint.attributes[\"load.drop\"] == \"1\"'\n"));
        let rename = config(Signal::Logs, Processing::Rename4);
        assert!(
            rename.contains("log_statements:\n      - 'set(log.attributes[\"renamed0\"], log.attributes[\"key0\"])'\n")
        );
        let enrich = config(Signal::Traces, Processing::Enrich);
        assert_eq!(enrich.matches("action: upsert").count(), ENRICHED.len());
        assert!(enrich.contains("[memory_limiter, resource, batch]"));
    }
}
