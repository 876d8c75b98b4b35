//! Nobody keeps the pipelines of others from running: not by a large one, by many, or by Secrets that come and go.

use kube::api::DynamicObject;

use super::*;
use crate::operator::shell::trim;

fn aged(name: &str, second: u32, spec: Value) -> Value {
    let mut object = object(super::super::object::kinds::TRACE_PIPELINE, name, spec);
    object["metadata"]["creationTimestamp"] = format!("2026-01-01T00:00:{second:02}Z").into();
    object
}

fn spec() -> Value {
    json!({ "output": otlp("http://backend.shop:4317") })
}

/// A spec that cannot be compressed, of about so many bytes.
fn noise(bytes: usize) -> Value {
    let mut random = fastrand::Rng::with_seed(7);
    let value: String = std::iter::repeat_with(|| random.alphanumeric()).take(bytes).collect();
    let mut spec = spec();
    spec["output"]["otlp"]["headers"] = json!([{ "name": "x-noise", "value": value }]);
    spec
}

#[test]
fn a_pipeline_that_stays_as_it_was_keeps_its_secrets() {
    let mut cluster = Cluster::new();
    let before = json!({ "output": of_secret("one", "endpoint") });
    cluster.pipeline(Signal::Traces, "shop", before).secret("one", &[("endpoint", "http://b:4317")]);
    let first = cluster.settle().configuration.unwrap();
    // It refers to another Secret now, which was not looked up yet.
    cluster.pipeline(Signal::Traces, "shop", json!({ "output": of_secret("two", "endpoint") }));
    assert_eq!(cluster.decide().configuration.unwrap(), first);
    cluster.picture.overrides = Some("tracing: { paused: true }".to_owned());
    cluster.secret("two", &[("endpoint", "http://b:4317")]);
    assert_eq!(cluster.decide().configuration.unwrap(), first, "what is paused stays as it was");
}

#[test]
fn a_secret_that_is_made_anew_costs_no_pipeline() {
    let mut cluster = Cluster::new();
    cluster.pipeline(Signal::Traces, "shop", json!({ "output": of_secret("backend", "endpoint") })).trace("other");
    cluster.secret("backend", &[("endpoint", "http://b:4317")]);
    let before = cluster.settle().configuration.unwrap();
    cluster.state("backend", SecretState::Missing(Some(cluster.now)));
    let decision = cluster.decide();
    assert_eq!(decision.configuration.unwrap(), before);
    assert_eq!(decision.again, Some(cluster.now + Duration::from_secs(10)));
    cluster.now += Duration::from_secs(10);
    let decision = cluster.decide();
    assert_eq!(configured(&decision), ["other"]);
    assert_eq!(brief(&decision, "shop", "ConfigurationGenerated"), "False ReferencedSecretMissing");
}

#[test]
fn half_a_configuration_does_not_take_the_place_of_one_that_cannot_be_read() {
    let mut cluster = Cluster::new();
    cluster.pipeline(Signal::Traces, "shop", json!({ "output": of_secret("backend", "endpoint") })).trace("other");
    let decision = cluster.decide();
    assert!(decision.configuration.is_none() && decision.apply.is_empty(), "the Secret was not looked up yet");
    cluster.secret("backend", &[("endpoint", "http://b:4317")]);
    assert_eq!(configured(&cluster.decide()), ["other", "shop"]);
}

#[test]
fn one_with_too_many_secrets_is_left_out_and_none_of_them_is_watched() {
    let mut cluster = Cluster::new();
    let reference = |number: usize| json!({ "name": format!("h{number}"), "valueFrom": { "secretKeyRef": { "name": format!("s{number}"), "namespace": "shop", "key": "a" } } });
    let mut greedy = spec();
    greedy["output"]["otlp"]["headers"] = (0..65).map(reference).collect::<Vec<_>>().into();
    cluster.pipeline(Signal::Traces, "greedy", greedy).trace("other");
    let decision = cluster.decide();
    let (_, reason, message) = condition(&decision, "greedy", "ConfigurationGenerated");
    assert_eq!(
        (reason.as_str(), message.as_str()),
        ("ValidationFailed", "It refers to 65 Secrets; at most 64 are allowed")
    );
    assert_eq!(configured(&decision), ["other"]);
    assert!(decision.secrets.is_empty(), "{:?}", decision.secrets);
}

#[test]
fn there_are_as_many_pipelines_as_nodes_have_memory_for() {
    let mut cluster = Cluster::new();
    cluster.options.resources = json!({ "limits": { "memory": "4Mi" } });
    for (second, name) in [(1, "d"), (2, "c"), (3, "b"), (4, "a")] {
        cluster.object(Signal::Traces, aged(name, second, spec()));
    }
    let decision = cluster.decide();
    assert_eq!(configured(&decision), ["b", "c", "d"]);
    let (_, reason, message) = condition(&decision, "a", "ConfigurationGenerated");
    assert!(reason == "MaxPipelinesExceeded" && message.contains("enough for 3 pipelines"), "{reason}: {message}");
}

#[test]
fn a_large_spec_is_refused_and_not_kept() {
    let large = aged("large", 1, noise(300 << 10));
    let kept = trim::resource(serde_json::from_value::<DynamicObject>(large.clone()).unwrap());
    assert!(kept.to_string().len() < 1000);
    let mut cluster = Cluster::new();
    cluster.object(Signal::Traces, kept).trace("other");
    let decision = cluster.decide();
    let (_, reason, message) = condition(&decision, "large", "ConfigurationGenerated");
    assert!(reason == "ValidationFailed" && message.contains("at most 256 KiB"), "{reason}: {message}");
    assert_eq!(configured(&decision), ["other"]);

    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": { "uid": "u", "object": large },
    });
    let answer = crate::admission::validate(review.to_string().as_bytes(), now()).unwrap();
    assert_eq!(answer.pointer("/response/allowed"), Some(&json!(false)));
}

#[test]
fn those_that_come_later_do_not_push_out_what_nodes_have() {
    let mut cluster = Cluster::new();
    cluster.object(Signal::Traces, aged("running", 30, noise(200 << 10)));
    assert_eq!(configured(&cluster.settle()), ["running"]);
    // Some of them are older, because they were made before and wrong until now.
    for second in 20..40 {
        cluster.object(Signal::Traces, aged(&format!("new{second}"), second, noise(80 << 10)));
    }
    let decision = cluster.decide();
    let all = configured(&decision);
    assert!(all.contains(&"running".to_owned()) && all.contains(&"new20".to_owned()), "{all:?}");
    assert!(!all.contains(&"new39".to_owned()), "{all:?}");
    assert_eq!(brief(&decision, "new39", "ConfigurationGenerated"), "False ValidationFailed");
}
