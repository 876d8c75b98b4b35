//! What is added to every request: facts about the cluster, and about the pod that sent it.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// What to add.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Enrichment {
    /// How `service.*` attributes are found.
    pub service: ServiceEnrichment,
    /// About the cluster.
    pub cluster: Cluster,
    /// Pod labels that become `k8s.pod.label.<key>`.
    pub pod_labels: Vec<PodLabels>,
}

/// Where `service.name` comes from when a client does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServiceEnrichment {
    /// The pod's labels, then its owner's name: only `service.name`.
    KymaLegacy,
    /// The OpenTelemetry conventions: `service.namespace`, `.name`, `.version` and `.instance.id`.
    #[default]
    Otel,
}

/// Facts that hold for all telemetry of a cluster; `None` adds nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    /// `k8s.cluster.name`
    pub name: Option<String>,
    /// `k8s.cluster.uid`
    pub uid: Option<String>,
    /// `cloud.provider`
    pub cloud_provider: Option<String>,
}

/// Pod labels, by their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodLabels {
    /// The label with this key.
    Key(String),
    /// All labels whose keys start like this.
    Prefix(String),
}

/// What is known of pods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// All of them.
    pub pods: Vec<Pod>,
}

/// A pod, and of its node, owners and namespace what telemetry may want to know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pod {
    /// `metadata.name`
    pub name: String,
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.uid`
    pub uid: String,
    /// `status.podIPs`; empty where the address says nothing about the pod: in the host's network, and once it has
    /// ended.
    pub ips: Vec<IpAddr>,
    /// `metadata.labels`
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations` that say something about the service (`resource.opentelemetry.io/...`).
    pub annotations: BTreeMap<String, String>,
    /// `spec.nodeName`
    pub node: Option<String>,
    /// Labels of the node that become attributes (region, zone, type and architecture).
    pub node_labels: BTreeMap<String, String>,
    /// Its owners, the nearest first (a ReplicaSet is left out for the Deployment behind it).
    pub workloads: Vec<Workload>,
    /// Names of its containers, and the images they run; init containers last.
    pub containers: Vec<(String, String)>,
}

/// An owner of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// What it is.
    pub kind: WorkloadKind,
    /// Its name.
    pub name: String,
}

/// Kinds of owners that have an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkloadKind {
    /// `k8s.deployment.name`
    Deployment,
    /// `k8s.replicaset.name`
    ReplicaSet,
    /// `k8s.statefulset.name`
    StatefulSet,
    /// `k8s.daemonset.name`
    DaemonSet,
    /// `k8s.job.name`
    Job,
    /// `k8s.cronjob.name`
    CronJob,
}
