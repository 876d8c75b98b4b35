//! `weir try`: rules on a sample, without a gateway.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;

use crate::support::in_time;
use crate::support::process::command;

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
"#;

/// `weir try` with this sample on its standard input: exit code, output, log.
async fn try_it(sample: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("pipeline.yaml");
    std::fs::write(&file, CONFIGURATION).unwrap();
    let mut command = command(&["try", file.to_str().unwrap(), "--input", "-"]);
    let mut child = command.args(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(sample.as_bytes()).await.unwrap();
    drop(input);
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
        "logpipeline/shop: 2 of 3 log records left",
        "  1 removed: filter",
        "  transform[0].statements[0]: 3 matched, 0 failed: set(log.attributes[\"team\"], \"red\")",
        "  filter[0].conditions[0]: 1 matched, 0 failed: IsMatch(log.body, \"healthz\")",
    ] {
        assert!(out.lines().any(|found| found == line), "{line}: {out}");
    }
    assert!(out.contains("\n-                \"stringValue\": \"GET /healthz\"\n"), "{out}");
    assert!(out.contains("\n+                  \"key\": \"team\",\n"), "{out}");
    assert!(!out.contains('\u{1b}'), "colours are for terminals");
}

#[tokio::test]
async fn programs_get_json() {
    let (code, out, log) = try_it(&sample(9, &["GET /healthz", "GET /orders"]), &["--format", "json"]).await;
    assert_eq!(code, Some(0), "{log}");
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&shown["pipeline"], &shown["items"]), (&"logpipeline/shop".into(), &1.into()));
    assert_eq!(shown["filtered"]["filter"], 1);
    let record = &shown["after"]["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
    assert_eq!(record["attributes"][0]["value"]["stringValue"], "red");
    assert_eq!(shown["before"]["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap().len(), 2);
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
        ("{\"resourceSpans\": []}", &[], "has no pipeline for this part of the sample"),
    ] {
        let (code, _, log) = try_it(sample, arguments).await;
        assert!(log.contains(complaint), "{sample}: {code:?} {log}");
        assert_eq!(code, Some(i32::from(!sample.contains("resourceSpans"))), "{sample}");
    }
}
