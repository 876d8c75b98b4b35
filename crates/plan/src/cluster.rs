//! Facts about a cluster. They are no part of a plan: they change with the cluster, not with the configuration.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::{Labels, Multiline, Scrapables, Secret};

/// Names and what they stand for.
pub(crate) type Texts = Arc<[(Arc<str>, Arc<str>)]>;

/// All that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterFacts {
    /// Of the cluster itself.
    pub cluster: Cluster,
    /// Labels of nodes that become attributes (region, zone, type and architecture), by `metadata.name` of the node.
    pub nodes: BTreeMap<String, Arc<BTreeMap<String, String>>>,
    /// Of pods with the same address or uid the last one counts. There may be very many, so whoever keeps them shares them.
    pub pods: Vec<Arc<Pod>>,
    /// What may be scraped.
    pub scrapables: Scrapables,
}

/// What holds for all telemetry of a cluster; `None` adds nothing. The cluster's name is somebody's choice, see
/// [`Enrichment`](crate::Enrichment).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Cluster {
    /// `k8s.cluster.uid`
    pub uid: Option<String>,
    /// `cloud.provider`
    pub cloud_provider: Option<String>,
}

/// A pod, and what telemetry may want to know of its owners and namespace. There may be very many, so they can share
/// what they have in common: [`Common`](crate::Common).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Pod {
    /// `metadata.name`
    pub name: Arc<str>,
    /// `metadata.namespace`
    pub namespace: Arc<str>,
    /// `metadata.uid`
    pub uid: Arc<str>,
    /// `status.podIPs`; empty where the address says nothing about the pod: in the host's network, and once it has
    /// ended.
    pub ips: Box<[IpAddr]>,
    /// `metadata.labels`
    pub labels: Labels,
    /// `metadata.annotations` that say something about the service (`resource.opentelemetry.io/...`).
    pub annotations: Labels,
    /// Other annotations, as many as there is room for. They may be anything.
    pub other_annotations: BTreeMap<String, Secret>,
    /// How the lines of its containers are joined, where it says so itself.
    pub multiline: Option<Multiline>,
    /// `spec.nodeName`
    pub node: Option<Arc<str>>,
    /// Its owners, the nearest first (a ReplicaSet is left out for the Deployment behind it).
    pub workloads: Arc<[Workload]>,
    /// Names of its containers, and the images they run; init containers last.
    pub containers: Arc<[(Arc<str>, Arc<str>)]>,
}

/// An owner of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Workload {
    /// What it is.
    pub kind: WorkloadKind,
    /// Its name.
    pub name: Arc<str>,
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
