//! Facts about a pod, collected once and encoded once: the attributes that its telemetry gets.
//!
//! Only this module reads what a [`Pod`] says. The attributes and their sources are those of the Collector's
//! `k8s_attributes` processor as the Kyma Telemetry module configures it.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_otlp::build::Encoder;
use weir_otlp::conventions;
use weir_plan::{Cluster, Enrichment, Pod, PodLabels, ServiceEnrichment, WorkloadKind};

use crate::attributes;
use crate::resource::is_internal;
use crate::workloads::Workloads;

/// Labels of a node and the attributes they become.
const NODE_LABELS: [(&str, &str); 4] = [
    ("topology.kubernetes.io/region", "cloud.region"),
    ("topology.kubernetes.io/zone", "cloud.availability_zone"),
    ("node.kubernetes.io/instance-type", "host.type"),
    ("kubernetes.io/arch", "host.arch"),
];

/// Owners whose names become attributes; a ReplicaSet is none of them.
const WORKLOADS: [(WorkloadKind, &str); 5] = [
    (WorkloadKind::Deployment, "k8s.deployment.name"),
    (WorkloadKind::StatefulSet, "k8s.statefulset.name"),
    (WorkloadKind::DaemonSet, "k8s.daemonset.name"),
    (WorkloadKind::Job, "k8s.job.name"),
    (WorkloadKind::CronJob, "k8s.cronjob.name"),
];

/// The prefix of annotations of a pod whose rest is the name of an attribute.
const ANNOTATION_PREFIX: &str = "resource.opentelemetry.io/";

/// Facts about a sender of telemetry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PodFacts {
    /// In the order of their keys, which are unique.
    attributes: Vec<Attribute>,
    containers: Vec<Container>,
    /// What the pod's labels call the application.
    app: Option<String>,
}

/// An attribute of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) key: String,
    pub(crate) value: String,
    /// Both, as a field of `Resource`.
    pub(crate) field: Vec<u8>,
}

/// Facts about a container beyond those about its pod.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Container {
    name: String,
    attributes: Vec<Attribute>,
}

impl Attribute {
    pub(crate) fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (key.into(), value.into());
        let mut field = Encoder::with_capacity(key.len() + value.len() + 10);
        attributes::write(&mut field, attributes::OF_RESOURCE, &key, &value);
        Self { key, value, field: field.into_bytes() }
    }
}

impl PodFacts {
    /// What telemetry of this pod of a cluster gets.
    pub(crate) fn new(
        pod: &Pod,
        node_labels: Option<&BTreeMap<String, String>>,
        cluster: &Cluster,
        enrichment: &Enrichment,
    ) -> Self {
        let mut facts = Draft::default();
        facts.cluster(cluster, enrichment);
        if let Some(labels) = node_labels {
            facts.node(labels);
        }
        facts.pod(pod);
        facts.labels(pod, &enrichment.pod_labels);
        let otel = enrichment.service == ServiceEnrichment::Otel;
        if otel {
            facts.service(pod);
            facts.annotations(pod);
        }
        let containers = if otel { facts.containers(pod) } else { Vec::new() };
        let app = ["app.kubernetes.io/name", "app"].iter().find_map(|key| label(pod, key));
        Self { attributes: facts.encoded(), containers, app: app.map(str::to_owned) }
    }

    /// In the order of their keys.
    pub(crate) fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// The value of an attribute.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let index = self.attributes.binary_search_by(|attribute| attribute.key.as_str().cmp(key)).ok()?;
        self.attributes.get(index).map(|attribute| attribute.value.as_str())
    }

    /// What the pod's labels call the application.
    pub(crate) fn app(&self) -> Option<&str> {
        self.app.as_deref()
    }

    /// Facts about the container with this name; about the only one, when there is no name.
    pub(crate) fn container(&self, name: &str) -> &[Attribute] {
        let container = match (self.containers.as_slice(), name) {
            ([only], "") => Some(only),
            (containers, name) => containers.iter().find(|container| container.name == name),
        };
        container.map_or(&[], |container| &container.attributes)
    }
}

/// Attributes by their keys; the last source of one wins.
#[derive(Default)]
struct Draft(BTreeMap<String, String>);

impl Draft {
    /// What nobody filled in says nothing.
    fn set(&mut self, key: impl Into<String>, value: &str) {
        if !value.is_empty() {
            self.0.insert(key.into(), value.to_owned());
        }
    }

    fn cluster(&mut self, cluster: &Cluster, enrichment: &Enrichment) {
        self.set(conventions::CLUSTER_NAME, enrichment.cluster_name.as_deref().unwrap_or_default());
        self.set(conventions::CLUSTER_UID, cluster.uid.as_deref().unwrap_or_default());
        self.set("cloud.provider", cluster.cloud_provider.as_deref().unwrap_or_default());
    }

    fn node(&mut self, labels: &BTreeMap<String, String>) {
        for (label, key) in NODE_LABELS {
            self.set(key, labels.get(label).map_or("", String::as_str));
        }
    }

    fn pod(&mut self, pod: &Pod) {
        self.set(conventions::POD_NAME, &pod.name);
        self.set(conventions::NAMESPACE_NAME, &pod.namespace);
        self.set(conventions::NODE_NAME, pod.node.as_deref().unwrap_or_default());
        let workloads = Workloads::of(pod);
        for (kind, key) in WORKLOADS {
            self.set(key, workloads.name(kind).unwrap_or_default());
        }
    }

    /// A label without a value says something, too.
    fn labels(&mut self, pod: &Pod, wanted: &[PodLabels]) {
        let is_wanted = |key: &str| {
            wanted.iter().any(|labels| match labels {
                PodLabels::Key(wanted) => key == wanted,
                PodLabels::Prefix(prefix) => key.starts_with(prefix.as_str()),
            })
        };
        for (key, value) in pod.labels.iter().filter(|(key, _)| is_wanted(key)) {
            self.0.insert(format!("k8s.pod.label.{key}"), value.to_owned());
        }
    }

    /// Source: OpenTelemetry semantic conventions, "Specify resource attributes using Kubernetes annotations"; each
    /// line wins over those above it.
    fn service(&mut self, pod: &Pod) {
        self.set("service.namespace", &pod.namespace);
        self.set("service.name", &pod.name);
        self.set("service.name", owner(pod));
        self.set("service.name", label(pod, "app.kubernetes.io/name").unwrap_or_default());
        self.set("service.name", label(pod, "app.kubernetes.io/instance").unwrap_or_default());
        self.set("service.version", label(pod, "app.kubernetes.io/version").unwrap_or_default());
    }

    fn annotations(&mut self, pod: &Pod) {
        for (key, value) in pod.annotations.iter() {
            match key.strip_prefix(ANNOTATION_PREFIX) {
                Some(key) if !key.is_empty() && !is_internal(key) => self.set(key, value),
                _ => {}
            }
        }
    }

    fn containers(&self, pod: &Pod) -> Vec<Container> {
        let container = |(name, image): &(Arc<str>, Arc<str>)| {
            let instance = format!("{}.{}.{name}", pod.namespace, pod.name);
            let facts = [("service.instance.id", Some(instance)), ("service.version", version(image))];
            let attributes = facts
                .into_iter()
                .filter(|(key, _)| !self.0.contains_key(*key))
                .filter_map(|(key, value)| Some(Attribute::new(key, value?)));
            Container { name: name.to_string(), attributes: attributes.collect() }
        };
        pod.containers.iter().map(container).collect()
    }

    fn encoded(self) -> Vec<Attribute> {
        self.0.into_iter().map(|(key, value)| Attribute::new(key, value)).collect()
    }
}

/// A label that says something.
fn label<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.labels.get(key).filter(|value| !value.is_empty())
}

/// The name of the owner that stands for the service; empty when there is none.
fn owner(pod: &Pod) -> &str {
    const PRECEDENCE: [WorkloadKind; 6] = [
        WorkloadKind::Deployment,
        WorkloadKind::ReplicaSet,
        WorkloadKind::StatefulSet,
        WorkloadKind::DaemonSet,
        WorkloadKind::CronJob,
        WorkloadKind::Job,
    ];
    let workloads = Workloads::of(pod);
    PRECEDENCE.into_iter().find_map(|kind| workloads.name(kind)).unwrap_or_default()
}

/// The version of an image: its tag, its digest, or `tag@digest`.
fn version(image: &str) -> Option<String> {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let file = name.rsplit_once('/').map_or(name, |(_, file)| file);
    let tag = file.split_once(':').map(|(_, tag)| tag).filter(|tag| !tag.is_empty());
    match (tag, digest.filter(|digest| !digest.is_empty())) {
        (Some(tag), Some(digest)) => Some(format!("{tag}@{digest}")),
        (tag, digest) => tag.or(digest).map(str::to_owned),
    }
}
