//! Objects of a cluster (`Pod`, `Node`, `Namespace`, `ReplicaSet`, `Job`, `ConfigMap`, `Service`, `EndpointSlice`,
//! `Endpoints`) as `kubectl get -o yaml` prints them: what enrichment needs to know of the pod that sent telemetry, and
//! what is scraped. What metrics tell of these objects and of others is in `state`.
//!
//! They are other people's objects: only what is needed is read, and the rest is not looked at. What is read has to be
//! of the right type. Messages show none of their values, because nobody knows what else is in them.

mod pod;
mod service;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use weir_plan::{Cluster, ClusterFacts, ClusterObject, ScrapablePod, Scrapables, Workload, WorkloadKind};

use crate::diagnostic::{Diagnostic, Place};
use crate::document::{Fields, Located, Node};
use pod::Pod;
use service::Services;
use state::States;

/// The namespace of an object that names none, as for `kubectl apply`.
const DEFAULT_NAMESPACE: &str = "default";

/// The namespace whose identity stands for that of the cluster.
const CLUSTER_NAMESPACE: &str = "kube-system";

/// What a Gardener cluster says of itself, in [`CLUSTER_NAMESPACE`].
const SHOOT_INFO: &str = "shoot-info";

/// Labels of a node that become attributes.
const NODE_LABELS: &[&str] = &[
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/arch",
];

/// An object among all: kind, namespace, name.
type Key = (String, String, String);

/// All objects of a configuration.
#[derive(Default)]
pub(crate) struct Objects {
    places: HashMap<Key, Place>,
    pods: Vec<Pod>,
    scrapable_pods: Vec<ScrapablePod>,
    services: Services,
    nodes: BTreeMap<String, Arc<BTreeMap<String, String>>>,
    /// What stands behind a ReplicaSet or a Job.
    owners: HashMap<Key, Workload>,
    cluster: Cluster,
    states: States,
}

/// `metadata` of an object.
struct ObjectMeta<'a> {
    name: Located<String>,
    namespace: String,
    fields: Fields<'a>,
}

impl Objects {
    /// Reads a document of one of these kinds.
    pub(crate) fn add(&mut self, kind: &str, document: &Node<'_>) {
        let Some(mut document) = document.clone().secret().fields() else { return };
        if state::is_manifest(kind, &mut document) {
            return;
        }
        let Some(mut meta) = object_meta(&mut document) else { return };
        if kind == "Namespace" {
            self.states.add(kind, &mut meta, &mut document);
            return self.namespace(meta);
        }
        if kind == "ConfigMap" && !(meta.name.value == SHOOT_INFO && meta.namespace == CLUSTER_NAMESPACE) {
            return;
        }
        // Many files have a service beside what it leads to, which is not one of a cluster yet.
        if kind == "Service" && !service::says_anything(&mut meta) {
            return;
        }
        let namespace = if kind == "Node" { String::new() } else { meta.namespace.clone() };
        let key = (kind.to_owned(), namespace, meta.name.value.clone());
        if let Some(first) = self.places.get(&key) {
            let message = format!("{kind} is defined twice, first at {}", first.position());
            document.node().findings().push(Diagnostic::error(&meta.name.place, message));
            return;
        }
        self.places.insert(key.clone(), meta.name.place.clone());
        self.states.add(kind, &mut meta, &mut document);
        match kind {
            "Pod" => {
                let (pod, scrapable) = pod::decode(meta, &mut document);
                self.pods.push(pod);
                self.scrapable_pods.push(scrapable);
            }
            "Service" | "EndpointSlice" | "Endpoints" => self.services.add(kind, meta, &mut document),
            "Node" => {
                let labels = strings(&mut meta.fields, "labels", |key| NODE_LABELS.contains(&key));
                self.nodes.insert(meta.name.value, Arc::new(labels));
            }
            "ConfigMap" => self.cluster.cloud_provider = cloud_provider(&mut document),
            "ReplicaSet" | "Job" => {
                if let Some(owner) = owners(&mut meta.fields).into_iter().next() {
                    self.owners.insert(key, owner);
                }
            }
            _ => {}
        }
    }

    /// Many files begin with the namespace of what is in them. It matters only where it says what the cluster is.
    fn namespace(&mut self, mut meta: ObjectMeta<'_>) {
        if meta.name.value != CLUSTER_NAMESPACE {
            return;
        }
        let Some(uid) = text(&mut meta.fields, "uid") else { return };
        match &self.cluster.uid {
            Some(known) if *known != uid => {
                let message = format!("{CLUSTER_NAMESPACE} has two uids: the objects are of two clusters");
                meta.fields.node().findings().push(Diagnostic::error(&meta.name.place, message));
            }
            _ => self.cluster.uid = Some(uid),
        }
    }

    /// Facts about the cluster and its pods, and the state of all objects.
    pub(crate) fn compile(self) -> (ClusterFacts, Vec<ClusterObject>) {
        let Self { pods, scrapable_pods, services, nodes, owners, cluster, states, .. } = self;
        let pods = pods.into_iter().map(|pod| pod.compile(&owners)).collect();
        let scrapables = Scrapables { pods: scrapable_pods, services: services.compile() };
        (ClusterFacts { cluster, nodes, pods, scrapables }, states.compile())
    }
}

fn object_meta<'a>(document: &mut Fields<'a>) -> Option<ObjectMeta<'a>> {
    let mut fields = document.required("metadata")?.fields()?;
    let name = fields.required("name").and_then(|node| node.string());
    let namespace = text(&mut fields, "namespace").unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    Some(ObjectMeta { name: name?, namespace, fields })
}

/// A cloud under the name by which telemetry knows it.
fn cloud_provider(config_map: &mut Fields<'_>) -> Option<String> {
    let mut data = config_map.optional("data")?.fields()?;
    let provider = text(&mut data, "provider")?;
    Some(if provider == "openstack" { "sap".to_owned() } else { provider })
}

/// Owners that have an attribute.
fn owners(metadata: &mut Fields<'_>) -> Vec<Workload> {
    let references = metadata.optional("ownerReferences").map(|node| node.list()).unwrap_or_default();
    references.iter().filter_map(owner).collect()
}

fn owner(reference: &Node<'_>) -> Option<Workload> {
    let mut fields = reference.fields()?;
    let (kind, name) = (text(&mut fields, "kind")?, text(&mut fields, "name")?);
    Some(Workload { kind: workload_kind(&kind)?, name: name.into() })
}

fn workload_kind(kind: &str) -> Option<WorkloadKind> {
    Some(match kind {
        "Deployment" => WorkloadKind::Deployment,
        "ReplicaSet" => WorkloadKind::ReplicaSet,
        "StatefulSet" => WorkloadKind::StatefulSet,
        "DaemonSet" => WorkloadKind::DaemonSet,
        "Job" => WorkloadKind::Job,
        "CronJob" => WorkloadKind::CronJob,
        _ => return None,
    })
}

fn text(fields: &mut Fields<'_>, key: &'static str) -> Option<String> {
    fields.optional(key).and_then(|node| node.string()).map(|text| text.value)
}

/// Takes those entries of a map of strings whose keys are wanted.
fn strings(fields: &mut Fields<'_>, key: &'static str, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let entries = fields.optional(key).map(|node| node.map_of(wanted)).unwrap_or_default();
    entries.into_iter().filter_map(|(key, node)| Some((key.to_owned(), node.string()?.value))).collect()
}
