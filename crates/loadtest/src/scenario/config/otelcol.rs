//! The equivalent OpenTelemetry Collector: processors, queue and retry as the published figures were taken with, and the
//! same memory limit.

use std::fmt::Write;
use std::path::Path;

use super::super::processing::{ENRICHED, Processing};
use super::filelog::{Places, filelog};
use super::{Overlay, Pipelines, Ports, pipeline_name};
use crate::signal::Signal;

/// What the batch processor gathers: how many items, how many at most, and for how long.
struct Batch {
    items: u32,
    most: u32,
    timeout: &'static str,
}

/// Metrics alone have larger batches; nothing is gathered where there is no batch processor.
fn batch(signal: Signal, overlay: Option<Overlay>) -> Option<Batch> {
    let (items, most, timeout) = match (overlay, signal) {
        (Some(Overlay::Base), _) => return None,
        (Some(Overlay::Batch), _) => (500, 600, "200ms"),
        (None, Signal::Metrics) => (1024, 1024, "10s"),
        (None, Signal::Traces | Signal::Logs) => (512, 512, "10s"),
    };
    Some(Batch { items, most, timeout })
}

/// Items in a request that waits in the queue; none when it is as clients sent it.
pub(crate) fn batch_size(signal: Signal, overlay: Option<Overlay>) -> Option<u32> {
    batch(signal, overlay).map(|batch| batch.items)
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
{processors}{batch}exporters:
{exporters}service:
{telemetry}  pipelines:
{pipelines_text}",
        telemetry = telemetry(ports),
        memory_mib = memory_bytes >> 20,
        batch = batch_section(pipelines),
    )
}

fn batch_section(pipelines: &Pipelines<'_>) -> String {
    let batch = batch(pipelines.signal, pipelines.overlay).map(|Batch { items, most, timeout }| {
        format!(
            "  batch:
    send_batch_size: {items}
    send_batch_max_size: {most}
    timeout: {timeout}
"
        )
    });
    batch.unwrap_or_default()
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
    let queue = queue(pipelines.overlay);
    let chain = chain(pipelines);
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
{queue}{RETRY}"
        );
        let _ = write!(
            text,
            "    {signal}/{name}:
      receivers: [{receiver}]
      processors: [{chain}]
      exporters: [otlp_grpc/{kind}-{name}]
"
        );
    }
    (exporters, text)
}

/// Requests that may wait, and how many are sent at once if it is not the default.
fn queue(overlay: Option<Overlay>) -> &'static str {
    match overlay {
        None => "      queue_size: 512\n",
        Some(Overlay::Base | Overlay::Batch) => "      queue_size: 20000\n      num_consumers: 20\n",
    }
}

/// The processors of a pipeline.
fn chain(pipelines: &Pipelines<'_>) -> String {
    let (between, _) = processors(pipelines.processing, pipelines.signal);
    let batch = batch(pipelines.signal, pipelines.overlay).map(|_| "batch");
    let chain: Vec<&str> = ["memory_limiter"].into_iter().chain(between).chain(batch).collect();
    chain.join(", ")
}

/// What stands between the memory limiter and the batch, in a pipeline's list and in the section of processors.
fn processors(processing: Processing, signal: Signal) -> (Option<&'static str>, String) {
    let list = |lines: &[String]| lines.iter().map(|line| format!("      - '{line}'\n")).collect::<String>();
    let section = match signal {
        Signal::Traces => "trace",
        Signal::Metrics => "metric",
        Signal::Logs => "log",
    };
    match processing {
        Processing::None => (None, String::new()),
        // Less than what the metadata of a pod costs: it needs no look-up.
        Processing::Enrich => {
            let action =
                |(key, value): &(&str, &str)| format!("      - {{key: {key}, value: {value}, action: upsert}}\n");
            let actions: String = ENRICHED.iter().map(action).collect();
            (Some("resource"), format!("  resource:\n    attributes:\n{actions}"))
        }
        Processing::Filter97 => {
            let conditions = list(processing.condition(signal).as_slice());
            (Some("filter"), format!("  filter:\n    error_mode: ignore\n    {section}_conditions:\n{conditions}"))
        }
        Processing::Insert | Processing::Rename4 => {
            let statements = list(&processing.statements(signal));
            (
                Some("transform"),
                format!("  transform:\n    error_mode: ignore\n    {section}_statements:\n{statements}"),
            )
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
        config_of(signal, processing, None)
    }

    fn config_of(signal: Signal, processing: Processing, overlay: Option<Overlay>) -> String {
        let backends = [1001, 1002, 1003];
        let compression = Compression::Gzip;
        let pipelines = Pipelines {
            signal,
            backends: &backends,
            output: Output::Otlp,
            compression,
            processing,
            overlay,
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
    fn a_log_gateway_gathers_as_in_the_published_setup() {
        let of = |processing, overlay| config_of(Signal::Logs, processing, Some(overlay));
        let base = of(Processing::None, Overlay::Base);
        assert!(base.contains("processors: [memory_limiter]\n") && !base.contains("batch"), "{base}");
        let batch = of(Processing::Filter97, Overlay::Batch);
        assert!(batch.contains("processors: [memory_limiter, filter, batch]\n"), "{batch}");
        let section =
            "  batch:\n    send_batch_size: 500\n    send_batch_max_size: 600\n    timeout: 200ms\nexporters:\n";
        assert!(batch.contains(section), "{batch}");
        for text in [base, batch] {
            assert_eq!(text.matches("      queue_size: 20000\n      num_consumers: 20\n").count(), 3, "{text}");
        }
        let sizes = [None, Some(Overlay::Base), Some(Overlay::Batch)].map(|overlay| batch_size(Signal::Logs, overlay));
        assert_eq!(sizes, [Some(512), None, Some(500)]);
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
