//! The targets of a metric agent, in the language of each system.

use std::path::Path;
use std::time::Duration;

use super::{Annotation, Pipelines, Ports};
use crate::load::scrape_targets::path;

/// What is scraped, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scraped {
    /// Where all targets are.
    pub(crate) port: u16,
    pub(crate) targets: u32,
    pub(crate) interval: Duration,
}

/// Most that a target may take to answer, as Weir's are given.
const TIMEOUT: Duration = Duration::from_secs(10);

impl Scraped {
    /// For a MetricPipeline.
    pub(super) fn annotation(self) -> Annotation {
        let urls: Vec<String> =
            (0..self.targets).map(|target| format!("http://{}{}", self.host(), path(target))).collect();
        Annotation::new("weir.dev/static-targets", &urls.join(", "))
    }

    /// The resource that says how often.
    pub(super) fn telemetry(self) -> String {
        format!(
            "apiVersion: operator.kyma-project.io/v1beta1
kind: Telemetry
metadata: {{name: default, namespace: kyma-system}}
spec: {{metric: {{prometheus: {{collectionInterval: {}ms}}}}}}
",
            self.interval.as_millis()
        )
    }

    /// The receiver of an OpenTelemetry Collector.
    pub(super) fn receiver(self) -> String {
        let config: String = self.scrape_config().lines().map(|line| format!("      {line}\n")).collect();
        format!("  prometheus:\n    config:\n{config}")
    }

    /// The sections of Prometheus's configuration.
    fn scrape_config(self) -> String {
        let one = |target| {
            format!(
                "      - targets: [\"{}\"]\n        labels: {{__metrics_path__: {}, instance: target-{target}}}\n",
                self.host(),
                path(target)
            )
        };
        let targets: String = (0..self.targets).map(one).collect();
        let (every, timeout) = (self.interval.as_millis(), self.interval.min(TIMEOUT).as_millis());
        format!(
            "scrape_configs:
  - job_name: load-test
    scrape_interval: {every}ms
    scrape_timeout: {timeout}ms
    static_configs:
{targets}"
        )
    }

    fn host(self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// The configuration of Prometheus, or what vmagent reads of it: it is told by arguments where to write.
pub(crate) fn prometheus(pipelines: &Pipelines<'_>, writes: bool) -> String {
    let scrapes = pipelines.scraped.map(Scraped::scrape_config).unwrap_or_default();
    let to = |port: &u16| format!("  - url: {}\n", remote_write(*port));
    let backends: String = pipelines.backends.iter().map(to).collect();
    if writes { format!("{scrapes}remote_write:\n{backends}") } else { scrapes }
}

/// How vmagent is told the same.
pub(crate) fn vmagent_arguments(
    ports: Ports,
    pipelines: &Pipelines<'_>,
    memory_bytes: u64,
    file: &Path,
    data: &Path,
) -> Vec<String> {
    let mut arguments = vec![
        format!("-promscrape.config={}", file.display()),
        format!("-remoteWrite.tmpDataPath={}", data.display()),
        format!("-httpListenAddr=127.0.0.1:{}", ports.metrics),
        format!("-memory.allowedBytes={memory_bytes}"),
    ];
    arguments.extend(pipelines.backends.iter().map(|port| format!("-remoteWrite.url={}", remote_write(*port))));
    arguments
}

fn remote_write(port: u16) -> String {
    format!("http://127.0.0.1:{port}/api/v1/write")
}

#[cfg(test)]
mod tests {
    use super::super::super::processing::Processing;
    use super::super::{Output, otelcol, weir};
    use super::*;
    use crate::codec::Compression;
    use crate::signal::Signal;

    const PIPELINES: Pipelines<'_> = Pipelines {
        signal: Signal::Metrics,
        backends: &[1001, 1002],
        output: Output::Otlp,
        compression: Compression::None,
        processing: Processing::None,
        overlay: None,
        annotations: &[],
        pod_logs: None,
        scraped: Some(Scraped { port: 9000, targets: 2, interval: Duration::from_millis(1500) }),
    };
    const PORTS: Ports = Ports { grpc: 1, http: 2, metrics: 3, health: 4 };

    #[test]
    fn every_system_has_every_target_and_every_backend() {
        let weir = weir(&PIPELINES);
        let targets = "http://127.0.0.1:9000/targets/0/metrics, http://127.0.0.1:9000/targets/1/metrics";
        assert_eq!(weir.matches(&format!("\n    weir.dev/static-targets: \"{targets}\"\n")).count(), 2, "{weir}");
        assert_eq!(weir.matches("    prometheus:\n      enabled: true\n").count(), 2);
        assert!(weir.contains("{collectionInterval: 1500ms}"));

        let collector = otelcol(PORTS, &PIPELINES, 512 << 20, Path::new("data"));
        assert!(
            collector.contains("  prometheus:\n    config:\n      scrape_configs:\n        - job_name: load-test\n")
        );
        assert_eq!(collector.matches("receivers: [prometheus]\n").count(), 2);
        assert_eq!(collector.matches("scrape_interval: 1500ms").count(), 1);

        let text = prometheus(&PIPELINES, true);
        assert!(text.contains("labels: {__metrics_path__: /targets/1/metrics, instance: target-1}\n"), "{text}");
        assert!(text.ends_with(
            "remote_write:\n  - url: http://127.0.0.1:1001/api/v1/write\n  - url: http://127.0.0.1:1002/api/v1/write\n"
        ));
        assert!(!prometheus(&PIPELINES, false).contains("remote_write"));
        let arguments = vmagent_arguments(PORTS, &PIPELINES, 1, Path::new("file"), Path::new("data"));
        assert_eq!(arguments.iter().filter(|argument| argument.starts_with("-remoteWrite.url=")).count(), 2);
    }
}
