//! What a plan wants to know of a cluster: nothing else is watched.

use std::collections::BTreeSet;

use weir_plan::{Body, Pipeline, Plan, Signal};

use super::Roles;

/// A kind, as it is watched.
pub(super) type Kind = (&'static str, &'static str);

/// Kinds of which metrics tell, with what the names of these metrics begin with.
const OF_METRICS: [(&str, Kind); 19] = [
    ("k8s.container.", ("v1", "Pod")),
    ("k8s.pod.phase", ("v1", "Pod")),
    ("k8s.pod.status_reason", ("v1", "Pod")),
    ("k8s.node.condition", ("v1", "Node")),
    ("k8s.namespace.", ("v1", "Namespace")),
    ("k8s.replication_controller.", ("v1", "ReplicationController")),
    ("k8s.resource_quota.", ("v1", "ResourceQuota")),
    ("k8s.persistentvolume.", ("v1", "PersistentVolume")),
    ("k8s.persistentvolumeclaim.", ("v1", "PersistentVolumeClaim")),
    ("k8s.service.", ("v1", "Service")),
    ("k8s.service.endpoint.", ("discovery.k8s.io/v1", "EndpointSlice")),
    ("k8s.deployment.", ("apps/v1", "Deployment")),
    ("k8s.replicaset.", ("apps/v1", "ReplicaSet")),
    ("k8s.statefulset.", ("apps/v1", "StatefulSet")),
    ("k8s.daemonset.", ("apps/v1", "DaemonSet")),
    ("k8s.job.", ("batch/v1", "Job")),
    ("k8s.cronjob.", ("batch/v1", "CronJob")),
    ("k8s.hpa.", ("autoscaling/v2", "HorizontalPodAutoscaler")),
    // What runs in a container, as the runtime says.
    ("container.", ("v1", "Pod")),
];

/// What is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// Pods: who sends, prints, or is scraped.
    pub(super) pods: bool,
    /// Services, and what is behind them.
    pub(super) scrapes: bool,
    /// All annotations of pods.
    pub(super) annotations: bool,
    /// By the one that speaks for the cluster: objects of these kinds.
    pub(super) kinds: BTreeSet<Kind>,
    /// And the status of pipelines and of the Telemetry.
    pub(super) statuses: bool,
}

impl Wants {
    /// What a process with these roles wants for the pipelines of this plan.
    pub fn of(plan: &Plan, roles: Roles) -> Self {
        let mut wants = Self { pods: roles.gateway || roles.logs || roles.metrics, ..Self::default() };
        for pipeline in &plan.pipelines {
            wants.annotations |= roles.logs && takes_annotations(pipeline);
            if !roles.metrics {
                continue;
            }
            let input = &pipeline.input;
            wants.scrapes |= input.prometheus.is_some() || input.istio.is_some();
            wants.statuses |= pipeline.id.signal == Signal::Metrics;
            let metrics = input.runtime.as_ref().map(|runtime| runtime.metrics).unwrap_or_default();
            for name in metrics.names() {
                let told = OF_METRICS.iter().filter(|(beginning, _)| name.starts_with(beginning));
                wants.kinds.extend(told.map(|(_, kind)| *kind));
            }
        }
        wants
    }

    /// Whether anything is wanted of which a cluster needs one.
    pub(super) fn needs_leader(&self) -> bool {
        self.statuses || !self.kinds.is_empty()
    }
}

fn takes_annotations(pipeline: &Pipeline) -> bool {
    matches!(&pipeline.output.body, Body::FluentBit(body) if body.annotations)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use weir_resources::{Options, Source};

    use super::*;

    const ALL: Roles = Roles { gateway: true, logs: true, metrics: true };
    const NONE: Roles = Roles { gateway: false, logs: false, metrics: false };

    fn wants(kind: &str, input: &str, roles: Roles) -> Wants {
        let text = format!(
            "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n  input: {input}\n  \
             output: {{otlp: {{endpoint: {{value: 'http://localhost:4317'}}}}}}\n"
        );
        let source = Source { name: "a".to_owned(), text };
        Wants::of(&weir_resources::load(&[source], &Options::at(SystemTime::UNIX_EPOCH)).unwrap().plan, roles)
    }

    #[test]
    fn nothing_is_watched_that_no_pipeline_asks_for() {
        let pods = Wants { pods: true, ..Wants::default() };
        assert_eq!(wants("LogPipeline", "{runtime: {enabled: true}}", ALL), pods);
        let scrapes = wants("MetricPipeline", "{prometheus: {enabled: true}}", ALL);
        assert!(scrapes.scrapes && scrapes.statuses && scrapes.kinds.is_empty());
        let runtime = wants("MetricPipeline", "{runtime: {enabled: true}}", ALL);
        let kinds: Vec<_> = runtime.kinds.iter().map(|(_, kind)| *kind).collect();
        assert!(kinds.contains(&"Pod") && kinds.contains(&"Deployment"), "{kinds:?}");
        for seldom in ["ReplicaSet", "EndpointSlice", "ResourceQuota"] {
            assert!(!kinds.contains(&seldom), "{kinds:?}");
        }
    }

    #[test]
    fn nothing_is_watched_for_what_another_process_does() {
        let all = "{prometheus: {enabled: true}, runtime: {enabled: true}}";
        let pods = Wants { pods: true, ..Wants::default() };
        assert_eq!(wants("MetricPipeline", all, Roles { metrics: false, ..ALL }), pods);
        assert_eq!(wants("MetricPipeline", all, Roles { metrics: true, ..NONE }), wants("MetricPipeline", all, ALL));
        assert_eq!(wants("MetricPipeline", all, NONE), Wants::default());
    }
}
