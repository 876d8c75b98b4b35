//! `weir try`: rules on a sample, without a gateway.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use weir_testkit::in_time;

use crate::process::command;

const CONFIGURATION: &str = r#"
apiVersion: telemetry.kyma-project.io/v1beta1
kind: LogPipeline
metadata: {name: shop}
spec:
  input: {runtime: {enabled: false}}
  output: {otlp: {endpoint: {value: 'http://127.0.0.1:1'}}}
  transform:
  - statements:
    - set(log.attributes["team"], "red")
    - set(log.attributes["n"], Int(log.body) + 1) where log.severity_number == 17
  filter:
  - conditions: ['IsMatch(log.body, "healthz")']
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata: {name: spans}
spec:
  output: {otlp: {endpoint: {value: 'http://127.0.0.1:1'}}}
  transform:
  - statements: ['set(span.name, "renamed") where span.kind == SPAN_KIND_SERVER']
  filter:
  - conditions:
    - resource.attributes["service.name"] == "noise"
    - span.name == "secret"
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: MetricPipeline
metadata: {name: points}
spec:
  output: {otlp: {endpoint: {value: 'http://127.0.0.1:1'}, temporality: delta}}
  transform:
  - statements: ['set(datapoint.attributes["team"], "red")']
  filter:
  - conditions: ['metric.name == "internal"']
"#;

/// Two spans that one resource holds, and two more in another.
const SPANS: &str = r#"{"resourceSpans": [
  {"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "noise"}}]},
   "scopeSpans": [{"spans": [{"name": "a"}, {"name": "b"}]}]},
  {"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
   "scopeSpans": [{"spans": [{"name": "GET /orders", "kind": 2}, {"name": "secret", "kind": 1}]}]}]}"#;

/// A counter at 5 and then at 12, and a metric with two points.
const POINTS: &str = r#"{"resourceMetrics": [{"scopeMetrics": [{"metrics": [
  {"name": "requests", "sum": {"aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [
    {"startTimeUnixNano": "1", "timeUnixNano": "2", "asInt": "5"},
    {"startTimeUnixNano": "1", "timeUnixNano": "3", "asInt": "12"}]}},
  {"name": "internal", "gauge": {"dataPoints": [{"asInt": "1"}, {"asInt": "2"}]}}]}]}]}"#;

/// How `weir try` ended: exit code, output, log.
type Tried = (Option<i32>, String, String);

/// `weir try` with this sample on its standard input.
async fn try_it(sample: &str, arguments: &[&str]) -> Tried {
    run("-", sample, arguments).await
}

/// `weir try` with this sample in a file.
async fn try_file(sample: &str, arguments: &[&str]) -> Tried {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("sample.json");
    std::fs::write(&file, sample).unwrap();
    run(file.to_str().unwrap(), "", arguments).await
}

/// `weir try` with this input, and this on its standard input.
async fn run(input: &str, given: &str, arguments: &[&str]) -> Tried {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("pipeline.yaml");
    std::fs::write(&file, CONFIGURATION).unwrap();
    let mut command = command(&["try", file.to_str().unwrap(), "--input", input]);
    command.args(arguments);
    feed(command, given).await
}

/// A command with this on its standard input.
async fn feed(mut command: tokio::process::Command, given: &str) -> Tried {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that does not read it may have ended.
    let _ = stdin.write_all(given.as_bytes()).await;
    drop(stdin);
    let output = in_time("weir try", child.wait_with_output()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn sample(severity: i32, bodies: &[&str]) -> String {
    let record = |body: &&str| {
        format!(
            "{{\"severityNumber\": {severity}, \"observedTimeUnixNano\": \"1\", \"body\": {{\"stringValue\": \"{body}\"}}}}"
        )
    };
    let records: Vec<_> = bodies.iter().map(record).collect();
    format!("{{\"resourceLogs\": [{{\"scopeLogs\": [{{\"logRecords\": [{}]}}]}}]}}\n", records.join(","))
}

#[tokio::test]
async fn what_changes_is_shown() {
    let two = sample(9, &["GET /healthz", "GET /orders"]) + &sample(9, &["POST /orders"]);
    let (code, out, log) = try_it(&two, &[]).await;
    assert_eq!(code, Some(0), "{log}");
    for line in [
        "logs/shop: 3 log records in, 2 out",
        "  1 removed: filter",
        "  transform[0].statements[0]: 3 matched, 0 failed: set(log.attributes[\"team\"], \"red\")",
        "  filter[0].conditions[0]: 1 matched, 1 removed, 0 failed: IsMatch(log.body, \"healthz\")",
    ] {
        assert!(out.lines().any(|found| found == line), "{line}: {out}");
    }
    assert!(out.contains("\n-                \"stringValue\": \"GET /healthz\"\n"), "{out}");
    assert!(out.contains("\n+                  \"key\": \"team\",\n"), "{out}");
    assert!(!out.contains('\u{1b}'), "colours are for terminals");
}

/// A span of Istio's proxy, which speaks for a service by a name of its own.
const PROXIED: &str = r#"{"resourceSpans": [{
    "resource": {"attributes": [
        {"key": "service.name", "value": {"stringValue": "jaeger.kyma-system"}},
        {"key": "kyma.internal", "value": {"stringValue": "a"}}
    ]},
    "scopeSpans": [{"spans": [
        {"name": "ingress", "attributes": [{"key": "component", "value": {"stringValue": "proxy"}}]},
        {"name": "scrape", "attributes": [
            {"key": "component", "value": {"stringValue": "proxy"}},
            {"key": "http.method", "value": {"stringValue": "GET"}},
            {"key": "upstream_cluster.name", "value": {"stringValue": "inbound|80"}},
            {"key": "user_agent", "value": {"stringValue": "vm_promscrape"}}
        ]}
    ]}]
}]}"#;

const PROXY_RULE: &str =
    r#"span.attributes["component"] == "proxy" and resource.attributes["service.name"] == "jaeger.kyma-system""#;

/// A rule that never holds is explained by what happens before it.
#[tokio::test]
async fn each_step_shows_what_it_takes_away() {
    let directory = tempfile::TempDir::new().unwrap();
    let config = directory.path().join("pipeline.yaml");
    let text = |telemetry: &str| {
        format!(
            "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: TracePipeline\nmetadata: {{name: mesh}}\nspec:\n  \
             output: {{otlp: {{endpoint: {{value: 'b:1'}}}}}}\n  filter:\n  - conditions:\n    - '{PROXY_RULE}'\n\
             ---\n{telemetry}"
        )
    };
    std::fs::write(&config, text("")).unwrap();
    let tried = async |arguments: &[&str]| {
        let config = config.to_str().unwrap();
        let mut command = command(&["try", config, "--input", "-"]);
        command.args(arguments);
        feed(command, PROXIED).await
    };
    let (code, out, log) = tried(&[]).await;
    assert_eq!(code, Some(0), "{log}");
    let (enrichment, noise) = out.split_once("  noise filter changes:\n").unwrap();
    let enrichment = enrichment.split_once("  enrichment changes:\n").unwrap().1;
    let removed = |text: &str, word: &str| text.lines().any(|line| line.starts_with('-') && line.contains(word));
    assert!(removed(enrichment, "service.name") && removed(enrichment, "kyma.internal"), "{out}");
    assert!(!removed(enrichment, "scrape") && removed(noise, "scrape"), "{out}");
    assert!(out.contains("filter[0].conditions[0]: 0 matched"), "{out}");
    assert!(log.contains("pipeline.yaml:8:") && log.contains("service.* attributes"), "{log}");
    assert!(log.contains("service-enrichment"), "it says what can be done: {log}");

    let (_, out, _) = tried(&["--format", "json"]).await;
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    let steps = shown["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| (step["step"].as_str().unwrap(), step["items"].as_u64())).collect();
    assert_eq!(names, [("enrichment", Some(2)), ("noise filter", Some(1)), ("filter", Some(1))]);
    assert_eq!(steps[2]["after"], shown["after"]);

    // In the other mode the proxy is believed, and nothing is said.
    let legacy = "apiVersion: operator.kyma-project.io/v1beta1\nkind: Telemetry\nmetadata: {name: default}\n";
    std::fs::write(&config, text(legacy)).unwrap();
    let (code, out, log) = tried(&[]).await;
    assert_eq!((code, log.as_str()), (Some(0), ""));
    assert!(
        out.contains("filter[0].conditions[0]: 1 matched, 1 removed") && out.contains("filter leaves nothing"),
        "{out}"
    );
}

#[tokio::test]
async fn programs_get_json() {
    let (code, out, log) = try_it(&sample(9, &["GET /healthz", "GET /orders"]), &["--format", "json"]).await;
    assert_eq!(code, Some(0), "{log}");
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&shown["pipeline"], &shown["items"]), (&"logs/shop".into(), &1.into()));
    assert_eq!(shown["filtered"]["filter"], 1);
    let record = &shown["after"]["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
    assert_eq!(record["attributes"][0]["value"]["stringValue"], "red");
    assert_eq!(shown["before"]["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap().len(), 2);
}

/// What a condition removed is counted in items, however many it removed at once.
#[tokio::test]
async fn traces_from_a_file() {
    let (code, out, log) = try_file(SPANS, &[]).await;
    assert_eq!(code, Some(0), "{log}");
    for line in [
        "traces/spans: 4 spans in, 1 out",
        "  3 removed: filter",
        "  transform[0].statements[0]: 1 matched, 0 failed: set(span.name, \"renamed\") where span.kind == SPAN_KIND_SERVER",
        "  filter[0].conditions[0]: 1 matched, 2 removed, 0 failed: resource.attributes[\"service.name\"] == \"noise\"",
        "  filter[0].conditions[1]: 1 matched, 1 removed, 0 failed: span.name == \"secret\"",
    ] {
        assert!(out.lines().any(|found| found == line), "{line}: {out}");
    }
    let changed = |sign: char, name: &str| {
        let wanted = format!("\"name\": \"{name}\"");
        out.lines().any(|line| line.starts_with(sign) && line.contains(&wanted))
    };
    assert!(changed('-', "GET /orders") && changed('+', "renamed") && changed('-', "secret"), "{out}");
    assert!(!out.contains("metricpipeline") && !out.contains("logpipeline"), "other signals have no part in it: {out}");
}

#[tokio::test]
async fn metrics_from_a_file_become_deltas() {
    let (code, out, log) = try_file(POINTS, &["--format", "json"]).await;
    assert_eq!(code, Some(0), "{log}");
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&shown["pipeline"], &shown["items"]), (&"metrics/points".into(), &2.into()));
    assert_eq!(shown["filtered"], serde_json::json!({"filter": 2}));
    let condition = shown["rules"].as_array().unwrap().iter().find(|rule| rule["field"] == "filter[0].conditions[0]");
    let condition = condition.unwrap();
    assert_eq!((&condition["matched"], &condition["filtered"]), (&1.into(), &2.into()));
    let metrics = &shown["after"]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    assert_eq!(metrics.as_array().unwrap().len(), 1);
    let sum = &metrics[0]["sum"];
    assert_eq!(sum["aggregationTemporality"], 1, "delta: {sum}");
    let values: Vec<_> = sum["dataPoints"].as_array().unwrap().iter().map(|point| &point["asInt"]).collect();
    assert_eq!(values, ["5", "7"]);
    let team = &sum["dataPoints"][0]["attributes"][0]["value"]["stringValue"];
    assert_eq!(team, "red");
}

/// As the `file` exporter of a Collector writes it: a line each, of any signal.
#[tokio::test]
async fn a_file_of_several_signals_goes_to_the_pipelines_of_each() {
    let line = |document: &str| document.replace('\n', "") + "\n";
    let lines = line(SPANS) + &line(POINTS) + &line(&sample(9, &["GET /healthz"]));
    let (code, out, log) = try_file(&lines, &[]).await;
    assert_eq!(code, Some(0), "{log}");
    for summary in [
        "traces/spans: 4 spans in, 1 out",
        "metrics/points: 4 data points in, 2 out",
        "logs/shop: 1 log record in, 0 out",
    ] {
        assert!(out.lines().any(|found| found == summary), "{summary}: {out}");
    }
    assert_eq!(out.lines().filter(|line| line.is_empty()).count(), 2, "one between two pipelines: {out}");
}

#[tokio::test]
async fn a_sample_that_cannot_be_read_is_named() {
    let (code, _, log) = run("no/such/sample.json", "", &[]).await;
    assert_eq!(code, Some(1));
    assert!(log.contains("cannot read the sample no/such/sample.json"), "{log}");
}

#[tokio::test]
async fn a_rule_that_fails_is_a_finding() {
    let (code, out, _) = try_it(&sample(17, &["not a number"]), &[]).await;
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("transform[0].statements[1]: 0 matched, 1 failed"), "{out}");
}

#[tokio::test]
async fn what_cannot_be_tried_is_named() {
    for (sample, arguments, complaint) in [
        ("", &[][..], "is empty"),
        ("{\"resourceLogs\": [", &[], "is not JSON"),
        ("{\"spans\": []}", &[], "has none of resourceSpans"),
        ("\n\n{\"resourceLogs\": 7}", &[], "is not OTLP"),
        ("{\"resourceLogs\": []}", &["--pipeline", "other"], "cannot find a pipeline named"),
        ("{\"resourceSpans\": []}", &["--pipeline", "shop"], "has no pipeline for this part of the sample"),
    ] {
        let (code, _, log) = try_it(sample, arguments).await;
        assert!(log.contains(complaint), "{sample}: {code:?} {log}");
        assert_eq!(code, Some(i32::from(!sample.contains("resourceSpans"))), "{sample}");
    }
}

/// The root of the repository, where commands of the documentation are typed.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The arguments of the one `weir try` that a document shows, without the remark behind it.
fn documented(document: &str) -> Vec<&str> {
    let shown: Vec<_> = document.lines().filter(|line| line.starts_with("weir try ")).collect();
    assert_eq!(shown.len(), 1, "{shown:?}");
    shown[0].split(" # ").next().unwrap().split_whitespace().skip(1).collect()
}

#[tokio::test]
async fn what_the_readme_says_of_the_shipped_sample_works() {
    let readme = std::fs::read_to_string(format!("{ROOT}/README.md")).unwrap();
    let yaml = readme.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("pipelines.yaml");
    std::fs::write(&file, yaml).unwrap();
    let mut arguments = documented(&readme);
    let place = arguments.iter().position(|argument| *argument == "pipelines.yaml").unwrap();
    arguments[place] = file.to_str().unwrap();
    let mut command = command(&arguments);
    command.current_dir(ROOT);
    let (code, out, log) = feed(command, "").await;
    assert_eq!(code, Some(0), "{log}");
    assert!(out.starts_with("traces/backend: 3 spans in, 3 out\n"), "{out}");
}

/// The sample shows something: one rule of the example matches all spans, another one removes one.
#[tokio::test]
async fn what_the_manual_says_of_the_shipped_sample_works() {
    let manual = std::fs::read_to_string(format!("{ROOT}/docs/ottl.md")).unwrap();
    let mut command = command(&documented(&manual));
    command.current_dir(ROOT);
    let (code, out, log) = feed(command, "").await;
    assert_eq!(code, Some(0), "{log}");
    for part in
        ["traces/grpc-backend: 3 spans in, 2 out\n", "3 matched, 0 failed: set(", "1 removed, 0 failed: IsMatch("]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
}
