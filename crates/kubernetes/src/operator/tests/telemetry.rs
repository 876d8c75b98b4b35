//! The Telemetry: its state, its endpoints, and what keeps it.

use super::*;

fn delete(cluster: &mut Cluster) {
    let telemetry = cluster.picture.telemetry.as_mut().unwrap();
    Arc::make_mut(telemetry)["metadata"]["deletionTimestamp"] = "2026-09-21T14:13:10Z".into();
}

#[test]
fn it_is_ready_when_all_is_well_and_says_where_to_push() {
    let mut cluster = Cluster::new();
    let decision = cluster.telemetry().trace("shop").settle();
    assert_eq!(state_of_telemetry(&decision), "Ready");
    assert_eq!(brief(&decision, "default", "TraceComponentsHealthy"), "True ComponentsRunning");
    assert_eq!(brief(&decision, "default", "LogComponentsHealthy"), "True NoPipelineDeployed");
    let status = decision.statuses.iter().find(|status| status.object.kind == "Telemetry").unwrap();
    let endpoints = &status.value()["endpoints"];
    assert_eq!(endpoints["otlp"]["grpc"], "http://telemetry-otlp.kyma-system:4317");
    assert_eq!(endpoints["logs"]["http"], "http://telemetry-otlp-logs.kyma-system:4318");
    assert_eq!(endpoints.as_object().unwrap().len(), 4);
    assert!(decision.finalizers.is_none(), "it has it");
    assert!(cluster.decide().statuses.is_empty());
}

#[test]
fn a_pipeline_that_is_not_well_makes_a_warning_with_its_reason() {
    let mut cluster = Cluster::new();
    cluster.telemetry().trace("good");
    cluster.pipeline(Signal::Traces, "bad", json!({ "output": otlp("nowhere") }));
    let decision = cluster.decide();
    assert_eq!(state_of_telemetry(&decision), "Warning");
    let (status, reason, message) = condition(&decision, "default", "TraceComponentsHealthy");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "EndpointInvalid"));
    assert!(message.starts_with("TracePipeline 'bad': "), "{message}");
    assert_eq!(brief(&decision, "default", "MetricComponentsHealthy"), "True NoPipelineDeployed");
}

/// A condition of more importance counts before one of a pipeline that comes first.
#[test]
fn the_most_important_condition_counts() {
    let mut cluster = Cluster::new();
    cluster.telemetry().trace("a");
    cluster.picture.workloads.clear();
    assert_eq!(brief(&cluster.decide(), "default", "TraceComponentsHealthy"), "False GatewayNotReady");
    cluster.pipeline(Signal::Traces, "z", json!({ "output": otlp("nowhere") }));
    assert_eq!(brief(&cluster.decide(), "default", "TraceComponentsHealthy"), "False EndpointInvalid");
}

#[test]
fn it_gets_a_finalizer_and_is_kept_while_there_are_pipelines() {
    let mut cluster = Cluster::new();
    cluster.telemetry().trace("b").trace("a");
    let telemetry = cluster.picture.telemetry.as_mut().unwrap();
    Arc::make_mut(telemetry)["metadata"]["finalizers"] = json!(["other"]);
    let (key, finalizers) = cluster.decide().finalizers.unwrap();
    assert_eq!(key.to_string(), "Telemetry kyma-system/default");
    assert_eq!(finalizers, json!(["other", "telemetry.kyma-project.io/finalizer"]));

    cluster.telemetry();
    delete(&mut cluster);
    let decision = cluster.decide();
    assert!(decision.finalizers.is_none());
    assert_eq!(state_of_telemetry(&decision), "Warning");
    let (status, reason, message) = condition(&decision, "default", "TraceComponentsHealthy");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ResourceBlocksDeletion"));
    assert!(message.ends_with("delete the following resources: TracePipelines (a,b)"), "{message}");

    cluster.picture.pipelines = Arc::default();
    let decision = cluster.decide();
    assert!(
        decision.finalizers.is_none() && decision.apply.len() == 1,
        "the nodes go at once, and their rights after them"
    );
    assert_eq!(state_of_telemetry(&decision), "Deleting");
    assert_eq!(brief(&decision, "default", "TraceComponentsHealthy"), "True NoPipelineDeployed");
    cluster.picture.pods.clear();
    let decision = cluster.decide();
    let is_removed = |key: &crate::operator::object::ObjectKey| key.to_string() == "ClusterRole telemetry-otlp-gateway";
    assert!(decision.delete.iter().any(is_removed), "{:?}", decision.delete);
    assert_eq!(decision.finalizers.map(|(_, finalizers)| finalizers), Some(json!([])));
    assert!(decision.statuses.is_empty(), "it is gone in a moment");
}

/// Some pods do not go. How long they are waited for is said by the clock here, whatever that of the API server says.
#[test]
fn pods_are_waited_for_since_its_deletion_was_seen() {
    for deleted in ["2026-09-21T13:00:00Z", "2026-09-21T16:00:00Z"] {
        let mut cluster = Cluster::new();
        let telemetry = cluster.telemetry().picture.telemetry.as_mut().unwrap();
        Arc::make_mut(telemetry)["metadata"]["deletionTimestamp"] = deleted.into();
        cluster.picture.deleting_since = Some(cluster.now);
        cluster.now += Duration::from_secs(119);
        let decision = cluster.decide();
        assert!(decision.finalizers.is_none(), "{deleted}");
        cluster.now += Duration::from_secs(1);
        assert_eq!(decision.again, Some(cluster.now), "it is looked at again then");
        assert_eq!(cluster.decide().finalizers.map(|(_, left)| left), Some(json!([])), "{deleted}");
    }
}

#[test]
fn one_that_is_wrong_has_no_effect_and_stops_no_pipeline() {
    let mut cluster = Cluster::new();
    cluster.telemetry().trace("shop");
    let telemetry = cluster.picture.telemetry.as_mut().unwrap();
    Arc::make_mut(telemetry)["spec"] = json!({ "enrichments": { "cluster": { "name": 7, "nam": "x" } } });
    let decision = cluster.decide();
    assert_eq!(configured(&decision), ["shop"]);
    assert_eq!(state_of_telemetry(&decision), "Warning");
    assert_eq!(brief(&decision, "default", "TraceComponentsHealthy"), "False ValidationFailed");
    assert_eq!(brief(&decision, "shop", "ConfigurationGenerated"), "True GatewayConfigured");
}

#[test]
fn paused_it_says_nothing_and_nodes_keep_it() {
    let mut cluster = Cluster::new();
    cluster.telemetry().trace("shop");
    let before = cluster.settle().configuration;
    cluster.picture.overrides = Some("telemetry: {paused: true}".to_owned());
    cluster.pipeline(Signal::Traces, "bad", json!({ "output": otlp("nowhere") }));
    let telemetry = cluster.picture.telemetry.as_mut().unwrap();
    Arc::make_mut(telemetry)["spec"] = json!({ "enrichments": { "cluster": { "name": "other" } } });
    let decision = cluster.decide();
    assert_eq!(decision.configuration, before);
    assert!(decision.statuses.iter().all(|status| status.object.kind != "Telemetry"));
}

/// An operator that has just started has looked no Secret up.
#[test]
fn nothing_is_said_of_a_signal_before_all_its_pipelines_are_judged() {
    let mut cluster = Cluster::new();
    cluster.telemetry().trace("shop").pipeline(Signal::Traces, "other", json!({ "output": of_secret("b", "e") }));
    cluster.state("b", SecretState::Missing(None)).settle();
    cluster.picture.secrets = Arc::default();
    assert!(cluster.decide().statuses.is_empty());
    cluster.picture.workloads.clear();
    let decision = cluster.decide();
    assert!(decision.statuses.iter().all(|status| status.object.kind != "Telemetry"), "its condition stays");
}
