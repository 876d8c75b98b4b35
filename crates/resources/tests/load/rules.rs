//! Every rule of the configuration, as data: `cases/*.txt` hold texts and exactly what is reported about them.
//!
//! A case is `=== NAME`, the text, and after `=>` the expected lines (none: it loads without a word). In a case whose
//! name starts with `otlp:` the text is what stands under `spec.output.otlp` of a TracePipeline in the current version
//! (`alpha:` in the older one): its first line is line 8 and it is indented by 6. With `trace:`, `metric:`, `log:`
//! (`metric-alpha:`, `log-alpha:`) or `telemetry:` it is what stands under `spec`: its first line is line 6 and it is
//! indented by 2. The Secrets `default/backend` and `default/tls` are there in all these cases, and `$KEY` refers to a
//! key of the latter.

use std::fs;
use std::path::Path;

use weir_resources::{Severity, Source, load};

use crate::options;

const SECRET: &str = "---
apiVersion: v1
kind: Secret
metadata: {name: backend}
data: {binary: //79, wrapped: aHVu\tdGVy\n  Mg==}
stringData: {password: hunter2, line: \"hunter2\\n\", token: \"hunter2\\n\", unicode: hünter2, empty: '',
  endpoint: \"https://hunter2.example.com:4317/x\\n\"}
";

pub(crate) struct Case<'a> {
    name: &'a str,
    text: &'a str,
    expected: Vec<&'a str>,
}

pub(crate) fn cases(file: &str) -> Vec<Case<'_>> {
    let parse = |block| {
        let (name, rest) = str::split_once(block, '\n').expect("a case has a text");
        let (text, expected) = rest.split_once("=>\n").unwrap_or_else(|| panic!("{name}: no =>"));
        Case { name, text, expected: expected.lines().filter(|line| !line.is_empty()).collect() }
    };
    file.split("=== ").skip(1).map(parse).collect()
}

/// Keys of the Secret `default/tls`, longer ones first, because one may start with another.
const KEYS: &[&str] = &[
    "both-v1",
    "cert-v1",
    "p521-key",
    "ec-cert",
    "ec-key",
    "cert-expired",
    "cert-soon",
    "cert",
    "ca-expired",
    "ca-soon",
    "ca",
    "other-key",
    "key",
    "bundle",
    "chain",
];

const CERTIFICATES: &str = include_str!("../certificates.yaml");

/// A pipeline with which a configuration is not empty.
const PIPELINE: &str = "---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata: {name: other}
spec: {output: {otlp: {endpoint: {value: 'a:1'}}}}
";

/// The text of a case as a whole file.
pub(crate) fn document(case: &Case<'_>) -> String {
    let (kind, group, version, name) = match case.name.split_once(':') {
        Some(("otlp", _)) => return output_document(case, "TracePipeline", "v1beta1"),
        Some(("alpha", _)) => return output_document(case, "TracePipeline", "v1alpha1"),
        Some(("trace", _)) => ("TracePipeline", "telemetry", "v1beta1", "x"),
        Some(("metric", _)) => ("MetricPipeline", "telemetry", "v1beta1", "x"),
        Some(("metric-alpha", _)) => ("MetricPipeline", "telemetry", "v1alpha1", "x"),
        Some(("log", _)) => ("LogPipeline", "telemetry", "v1beta1", "x"),
        Some(("log-alpha", _)) => ("LogPipeline", "telemetry", "v1alpha1", "x"),
        Some(("telemetry", _)) => ("Telemetry", "operator", "v1beta1", "default"),
        _ => return case.text.to_owned(),
    };
    let mut document =
        format!("apiVersion: {group}.kyma-project.io/{version}\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n");
    for line in case.text.lines() {
        document += &format!("  {line}\n");
    }
    let other = if kind == "Telemetry" { PIPELINE } else { "" };
    format!("{}{SECRET}---\n{CERTIFICATES}{other}", with_references(document))
}

/// A pipeline with the text of a case as its output.
fn output_document(case: &Case<'_>, kind: &str, version: &str) -> String {
    let mut document = format!(
        "apiVersion: telemetry.kyma-project.io/{version}\nkind: {kind}\nmetadata:\n  name: x\nspec:\n  output:\n    otlp:\n"
    );
    for line in case.text.lines() {
        document += &format!("      {line}\n");
    }
    if kind == "LogPipeline" {
        document += "  input: {runtime: {enabled: false}}\n";
    }
    format!("{}{SECRET}---\n{CERTIFICATES}", with_references(document))
}

fn with_references(mut document: String) -> String {
    for key in KEYS {
        let reference = format!("{{valueFrom: {{secretKeyRef: {{name: tls, namespace: default, key: {key}}}}}}}");
        document = document.replace(&format!("${key}"), &reference);
    }
    document
}

fn reported(text: String) -> Vec<String> {
    let diagnostics = match load(&[Source { name: "x.yaml".to_owned(), text }], &options()) {
        Ok(loaded) => loaded.warnings,
        Err(report) => report.diagnostics,
    };
    for found in &diagnostics {
        assert!(found.severity == Severity::Error || !found.expected.is_empty(), "what would be right? {found}");
    }
    diagnostics.iter().map(ToString::to_string).collect()
}

#[test]
fn every_rule_reports_what_it_says() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut failures = String::new();
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let file = fs::read_to_string(entry.unwrap().path()).unwrap();
        for case in cases(&file) {
            count += 1;
            let reported = reported(document(&case));
            if reported != case.expected {
                failures += &format!("=== {}\n{}=>\n{}\n\n", case.name, case.text, reported.join("\n"));
            }
        }
    }
    assert!(count > 190, "only {count} cases found");
    assert!(failures.is_empty(), "these cases report something else now:\n{failures}");
}

#[test]
fn an_output_follows_the_same_rules_in_every_kind() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let file = fs::read_to_string(entry.unwrap().path()).unwrap();
        for case in cases(&file).into_iter().filter(|case| case.name.starts_with("otlp:")) {
            count += 1;
            for kind in ["MetricPipeline", "LogPipeline"] {
                let reported = reported(output_document(&case, kind, "v1beta1")).join("\n");
                let reported = reported.replace("authentication, tls, temporality", "authentication, tls");
                assert_eq!(reported, case.expected.join("\n"), "{kind}: {}", case.name);
            }
        }
    }
    assert!(count > 60, "only {count} cases found");
}
