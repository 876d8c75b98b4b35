//! What an API server accepts by the definitions alone: each published rule with an object that keeps it, and one that
//! does not.

use http::Method;
use serde_json::{Value, json};
use weir_resources::{Files, is_convertible};

use crate::{Cluster, path, pipeline};

/// Rules as data: a block says what its values are and for which versions, and has a value that keeps the rule, one that
/// breaks it, and what an API server says of that. `$REFERENCE` refers to a key of a Secret.
///
/// A value of `output` is beside a good endpoint in `spec.output.otlp` of every kind of pipeline; one of `http` is beside
/// a good host in `spec.output.http`. One of `metric` or `log` is in a `spec` beside a good output, one of `log-output` is
/// `spec.output` of a LogPipeline, one of `container-logs` its input of container logs, and one of `telemetry` a `spec`.
const RULES: &str = include_str!("rules.txt");

struct Rule {
    of: &'static str,
    versions: Vec<&'static str>,
    good: Value,
    bad: Value,
    /// What an API server says of the bad one.
    message: &'static str,
}

fn rules() -> Vec<Rule> {
    let value = |line: &str| {
        let reference = r#"{"secretKeyRef": {"name": "a", "namespace": "b", "key": "c"}}"#;
        serde_json::from_str(&line.replace("$REFERENCE", reference)).unwrap()
    };
    let rule = |block: &'static str| {
        let lines: Vec<_> = block.trim().lines().collect();
        let [head, good, bad, message] = lines[..] else { panic!("no rule:\n{block}") };
        let mut words = head.split(' ');
        let of = words.next().unwrap();
        Rule { of, versions: words.collect(), good: value(good), bad: value(bad), message }
    };
    RULES.split("=== ").skip(1).map(rule).collect()
}

fn merged(mut base: Value, more: &Value) -> Value {
    match (base.as_object_mut(), more.as_object()) {
        (Some(base), Some(more)) => base.extend(more.clone()),
        _ => base = more.clone(),
    }
    base
}

/// The objects that a value of a rule makes.
fn objects(of: &str, version: &str, value: &Value) -> Vec<Value> {
    let otlp = json!({"otlp": {"endpoint": {"value": "a:1"}}});
    let http = json!({"http": {"host": {"value": "a"}}});
    let one = |kind: &str, spec: Value| vec![pipeline(kind, version, "x", &spec)];
    match of {
        "output" => {
            let output = json!({"output": {"otlp": merged(otlp["otlp"].clone(), value)}});
            ["TracePipeline", "MetricPipeline", "LogPipeline"]
                .into_iter()
                .flat_map(|kind| one(kind, output.clone()))
                .collect()
        }
        "metric" => one("MetricPipeline", merged(json!({"output": otlp}), value)),
        "log" => one("LogPipeline", merged(json!({"output": http}), value)),
        "log-output" => one("LogPipeline", json!({"output": value})),
        "container-logs" => {
            let input = if version == "v1alpha1" { "application" } else { "runtime" };
            one("LogPipeline", json!({"input": {input: value}, "output": http}))
        }
        "http" => one("LogPipeline", json!({"output": {"http": merged(http["http"].clone(), value)}})),
        "telemetry" => {
            let api_version = format!("operator.kyma-project.io/{version}");
            let metadata = json!({"name": "default", "namespace": "kyma-system"});
            vec![json!({"apiVersion": api_version, "kind": "Telemetry", "metadata": metadata, "spec": value})]
        }
        other => panic!("a rule is of {other:?}"),
    }
}

pub(crate) async fn each_rule_has_its_words(cluster: &Cluster) {
    let (mut count, mut wrong) = (0, Vec::new());
    for Rule { of, versions, good, bad, message } in rules() {
        for version in versions {
            for object in objects(of, version, &good) {
                let answer = cluster.try_create(&object).await;
                if answer.code != 201 {
                    wrong.push(format!("{object}\n  is refused: {}", answer.body));
                }
            }
            for object in objects(of, version, &bad) {
                let answer = cluster.try_create(&object).await;
                let by_definition = !answer.message().contains("admission webhook");
                if answer.code != 422 || !answer.message().contains(message) || !by_definition {
                    wrong.push(format!("{object}\n  expected: {message}\n  found: {}", answer.body));
                }
                count += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 100, "only {count} objects break a rule");
}

/// With all fields there are.
pub(crate) async fn the_examples_are_accepted(cluster: &Cluster) {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files = Files::read(&[examples]);
    let documents = files.documents().unwrap().into_iter().flat_map(|(_, documents)| documents);
    let mut count = 0;
    for mut object in documents.filter(is_convertible) {
        if object["kind"] == "Telemetry" {
            object["metadata"]["namespace"] = json!("kyma-system");
        }
        let answer = cluster.try_create(&object).await;
        assert_eq!(answer.code, 201, "{object:#}\n{}", answer.body);
        count += 1;
    }
    assert!(count > 5, "only {count} examples");
}

pub(crate) async fn an_output_cannot_be_switched(cluster: &Cluster) {
    let otlp = json!({"otlp": {"endpoint": {"value": "a:1"}}});
    let http = json!({"http": {"host": {"value": "a"}}});
    for (name, before, after) in [("to-otlp", &http, &otlp), ("from-otlp", &otlp, &http)] {
        let object = pipeline("LogPipeline", "v1beta1", name, &json!({"output": before}));
        cluster.create(&object).await.ok();
        let gone = if name == "to-otlp" { "http" } else { "otlp" };
        let switched = merged(json!({gone: null}), after);
        // Defaults of the other output would be in the way as well.
        let change = json!({"spec": {"output": switched, "input": {"otlp": null}}});
        let answer = cluster.send(Method::PATCH, &path(&object), Some(&change)).await;
        let expected =
            "Switching to or away from OTLP output is not supported. Please re-create the LogPipeline instead";
        assert_eq!(answer.code, 422, "{}", answer.body);
        assert!(answer.message().contains(expected), "{}", answer.body);
        let changed = json!({"spec": {"output": {"custom": "Name stdout", "http": null}}});
        let answer = cluster.send(Method::PATCH, &path(&object), Some(&changed)).await;
        assert_eq!(answer.code == 200, name == "to-otlp", "another output of Fluent Bit: {}", answer.body);
        cluster.send(Method::DELETE, &path(&object), None).await.ok();
    }
}

pub(crate) async fn unknown_fields_are_reported(cluster: &Cluster) {
    let object = pipeline(
        "TracePipeline",
        "v1beta1",
        "x",
        &json!({"output": {"otlp": {"endpoint": {"value": "a:1"}, "protocoll": "grpc"}}}),
    );
    let strictly = format!("{}?dryRun=All&fieldValidation=Strict", crate::collection(&object));
    let answer = cluster.send(Method::POST, &strictly, Some(&object)).await;
    assert!(answer.message().contains("unknown field \"spec.output.otlp.protocoll\""), "{}", answer.body);
}
