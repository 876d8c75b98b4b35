//! Weir's configuration: pipeline documents, and for enrichment the objects of a small cluster.

use super::super::processing::Processing;
use super::{Output, Pipelines, pipeline_name};
use crate::signal::Signal;

/// The Telemetry resource, and the objects that describe the pod.
const CLUSTER: &str = include_str!("../../../data/cluster.yaml");

/// One pipeline document for each backend, all alike.
pub(crate) fn weir(pipelines: &Pipelines<'_>) -> String {
    let each = pipelines.backends.iter().enumerate();
    let mut documents: Vec<String> = each.map(|(index, port)| pipeline(pipelines, index, *port)).collect();
    if let Some(scraped) = pipelines.scraped {
        documents.push(scraped.telemetry());
    }
    if pipelines.processing == Processing::Enrich {
        documents.push(CLUSTER.to_owned());
    }
    documents.join("---\n")
}

fn pipeline(pipelines: &Pipelines<'_>, index: usize, port: u16) -> String {
    let name = pipeline_name(index);
    let kind = pipelines.signal.kind();
    let output = output(pipelines, port);
    let annotations = annotations(pipelines);
    let input = input(pipelines);
    let rules = rules(pipelines.processing, pipelines.signal);
    format!(
        "apiVersion: telemetry.kyma-project.io/v1beta1
kind: {kind}
metadata:
  name: {name}{annotations}
spec:{input}{rules}
  output:{output}
"
    )
}

fn output(pipelines: &Pipelines<'_>, port: u16) -> String {
    let compression = pipelines.compression.name().unwrap_or("none");
    match pipelines.output {
        Output::Otlp => format!(
            "
    otlp:
      endpoint:
        value: http://127.0.0.1:{port}
      compression: {compression}"
        ),
        Output::Http(format) => format!(
            "
    http:
      host:
        value: 127.0.0.1
      port: \"{port}\"
      tls:
        insecure: true
      format: {}
      compress: {compression}",
            format.name()
        ),
    }
}

fn annotations(pipelines: &Pipelines<'_>) -> String {
    let targets = pipelines.scraped.map(|scraped| scraped.annotation());
    let all = targets.iter().chain(pipelines.annotations);
    let lines: String = all.map(|one| format!("\n    {}: {:?}", one.key, one.value)).collect();
    if lines.is_empty() { lines } else { format!("\n  annotations:{lines}") }
}

/// By default, a LogPipeline reads the logs of containers.
fn input(pipelines: &Pipelines<'_>) -> &'static str {
    if pipelines.scraped.is_some() {
        return "\n  input:\n    prometheus:\n      enabled: true";
    }
    match pipelines.signal {
        Signal::Logs if pipelines.pod_logs.is_none() => "\n  input:\n    runtime:\n      enabled: false",
        Signal::Logs | Signal::Traces | Signal::Metrics => "",
    }
}

fn rules(processing: Processing, signal: Signal) -> String {
    let list = |lines: Vec<String>| lines.iter().map(|line| format!("\n        - '{line}'")).collect::<String>();
    let statements = processing.statements(signal);
    if !statements.is_empty() {
        return format!("\n  transform:\n    - statements:{}", list(statements));
    }
    match processing.condition(signal) {
        Some(condition) => format!("\n  filter:\n    - conditions:{}", list(vec![condition])),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::processing::{ENRICHED, POD_UID};
    use std::path::Path;

    use super::super::{Annotation, RecordFormat};
    use super::*;
    use crate::codec::Compression;

    const PLAIN: Pipelines<'_> = Pipelines {
        signal: Signal::Traces,
        backends: &[1001, 1002, 1003],
        output: Output::Otlp,
        compression: Compression::None,
        processing: Processing::None,
        overlay: None,
        annotations: &[],
        pod_logs: None,
        scraped: None,
    };

    #[test]
    fn every_backend_has_a_document_of_its_signal() {
        for signal in Signal::ALL {
            let text = weir(&Pipelines { signal, ..PLAIN });
            assert_eq!(text.matches(&format!("kind: {}\n", signal.kind())).count(), 3);
            assert!(text.contains("name: load-test-3") && text.contains("127.0.0.1:1003"));
            assert!(text.contains("compression: none") && !text.contains("annotations"));
            assert_eq!(text.contains("runtime:"), signal == Signal::Logs);
        }
        let agent = Pipelines { signal: Signal::Logs, pod_logs: Some(Path::new("/pods")), ..PLAIN };
        assert!(!weir(&agent).contains("runtime:"));
        let text = weir(&Pipelines { output: Output::Http(RecordFormat::JsonLines), ..agent });
        assert!(text.contains("port: \"1003\"") && text.contains("format: json_lines\n      compress: none"), "{text}");
    }

    #[test]
    fn annotations_stand_in_the_metadata() {
        let annotations: [Annotation; 1] = ["weir.dev/backlog-max-bytes=1GiB".parse().unwrap()];
        let text = weir(&Pipelines { annotations: &annotations, ..PLAIN });
        assert!(
            text.contains("load-test-1\n  annotations:\n    weir.dev/backlog-max-bytes: \"1GiB\"\nspec:"),
            "{text}"
        );
    }

    #[test]
    fn rules_stand_before_the_output() {
        let with = |processing| weir(&Pipelines { processing, signal: Signal::Logs, ..PLAIN });
        let filter = "  filter:\n    - conditions:\n        - 'log.attributes[\"load.drop\"] == \"1\"'\n  output:";
        assert!(with(Processing::Filter97).contains(filter));
        let renames = with(Processing::Rename4);
        assert!(renames.contains("  transform:\n    - statements:\n        - 'set(") && !renames.contains("filter"));
    }

    #[test]
    fn enrichment_needs_a_cluster_and_knows_everything_about_the_pod() {
        let text = weir(&Pipelines { processing: Processing::Enrich, ..PLAIN });
        for kind in ["Telemetry", "Namespace", "Node", "ReplicaSet", "Pod"] {
            assert!(text.contains(&format!("kind: {kind}\n")), "{kind}");
        }
        assert!(text.contains(&format!("  uid: {POD_UID}\n")));
        for (key, value) in ENRICHED {
            assert!(text.contains(&format!(": {value}\n")), "{key}");
        }
    }
}
