//! What metrics tell of the objects of a cluster.
//!
//! Only objects that a cluster knows count, which have a uid: manifests that nobody applied have no state. Texts that are
//! none are left out here; who reads them for enrichment reports them. Numbers have to be numbers.

mod pod;

use std::collections::{HashMap, HashSet};

use weir_plan::{
    ClusterObject, DaemonSetState, EndpointGroup, HpaState, JobState, NodeState, ObjectState, ReplicaState,
    ResourceAmounts, ServiceState, StatefulSetState, StorageState, Thousandths,
};
use weir_units::quantity;

use super::ObjectMeta;
use crate::document::{Fields, Node};

/// Kinds of which nothing else is read.
const ONLY_STATE: [&str; 9] = [
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "CronJob",
    "HorizontalPodAutoscaler",
    "ReplicationController",
    "ResourceQuota",
    "PersistentVolume",
    "PersistentVolumeClaim",
];

/// Kinds without a namespace.
const CLUSTER_SCOPED: [&str; 3] = ["Node", "Namespace", "PersistentVolume"];

/// The label of an EndpointSlice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The states of all objects.
#[derive(Default)]
pub(super) struct States {
    objects: Vec<ClusterObject>,
    /// Of namespaces, which may be there several times.
    namespaces: HashSet<String>,
    /// By the namespace and the name of the Service.
    endpoints: HashMap<(String, String), Vec<EndpointGroup>>,
}

/// Whether a document is a manifest that nobody applied, of which nothing is read.
pub(super) fn is_manifest(kind: &str, document: &mut Fields<'_>) -> bool {
    ONLY_STATE.contains(&kind) && part(document, "metadata").is_none_or(|mut metadata| uid(&mut metadata).is_none())
}

fn uid(metadata: &mut Fields<'_>) -> Option<String> {
    metadata.optional("uid")?.text().filter(|uid| !uid.is_empty()).map(str::to_owned)
}

impl States {
    /// Adds an object.
    pub(super) fn add(&mut self, kind: &str, meta: &mut ObjectMeta<'_>, document: &mut Fields<'_>) {
        let Some(uid) = uid(&mut meta.fields) else { return };
        if kind == "EndpointSlice" {
            return self.endpoints(meta, document);
        }
        if kind == "Namespace" && !self.namespaces.insert(uid.clone()) {
            return;
        }
        let Some(state) = state(kind, document) else { return };
        let namespace = if CLUSTER_SCOPED.contains(&kind) { String::new() } else { meta.namespace.clone() };
        self.objects.push(ClusterObject { name: meta.name.value.clone(), namespace, uid, state });
    }

    fn endpoints(&mut self, meta: &mut ObjectMeta<'_>, document: &mut Fields<'_>) {
        let labels = meta.fields.optional("labels").and_then(|node| node.part());
        let Some(service) = labels.and_then(|mut labels| labels.optional(SERVICE_NAME)?.text()) else { return };
        let address_type = word(document, "addressType");
        let groups = self.endpoints.entry((meta.namespace.clone(), service.to_owned())).or_default();
        for endpoint in items(document, "endpoints") {
            let Some(mut endpoint) = endpoint.part() else { continue };
            let zone = word(&mut endpoint, "zone");
            let is_same = |group: &EndpointGroup| group.address_type == address_type && group.zone == zone;
            let index = groups.iter().position(is_same).unwrap_or_else(|| {
                let address_type = address_type.clone();
                groups.push(EndpointGroup { address_type, zone: zone.clone(), ..EndpointGroup::default() });
                groups.len() - 1
            });
            let mut conditions = part(&mut endpoint, "conditions");
            let mut says = |key| conditions.as_mut()?.optional(key)?.boolean();
            let counts = &mut groups[index].counts;
            // Without a word, an endpoint is ready; and it serves if it is ready.
            let ready = says("ready").unwrap_or(true);
            counts.ready += u64::from(ready);
            counts.serving += u64::from(says("serving").unwrap_or(ready));
            counts.terminating += u64::from(says("terminating").unwrap_or(false));
        }
    }

    /// All objects, in the order in which they were read.
    pub(super) fn compile(mut self) -> Vec<ClusterObject> {
        for object in &mut self.objects {
            if let ObjectState::Service(service) = &mut object.state
                && let Some(endpoints) = self.endpoints.remove(&(object.namespace.clone(), object.name.clone()))
            {
                service.endpoints = endpoints;
            }
        }
        self.objects
    }
}

fn state(kind: &str, document: &mut Fields<'_>) -> Option<ObjectState> {
    if kind == "Pod" {
        return Some(ObjectState::Pod(pod::decode(document)));
    }
    let (mut spec, mut status) = (part(document, "spec"), part(document, "status"));
    let mut of_spec = |key| number(spec.as_mut()?, key);
    let mut of_status = |key| status.as_mut().and_then(|status| number(status, key)).unwrap_or_default();
    Some(match kind {
        "Deployment" | "ReplicaSet" | "ReplicationController" => {
            let replicas = ReplicaState { desired: of_spec("replicas"), available: of_status("availableReplicas") };
            match kind {
                "Deployment" => ObjectState::Deployment(replicas),
                "ReplicaSet" => ObjectState::ReplicaSet(replicas),
                _ => ObjectState::ReplicationController(replicas),
            }
        }
        "StatefulSet" => ObjectState::StatefulSet(StatefulSetState {
            desired: of_spec("replicas"),
            ready: of_status("readyReplicas"),
            current: of_status("currentReplicas"),
            updated: of_status("updatedReplicas"),
        }),
        "DaemonSet" => ObjectState::DaemonSet(DaemonSetState {
            current: of_status("currentNumberScheduled"),
            desired: of_status("desiredNumberScheduled"),
            misscheduled: of_status("numberMisscheduled"),
            ready: of_status("numberReady"),
        }),
        "Job" => ObjectState::Job(JobState {
            active: of_status("active"),
            failed: of_status("failed"),
            succeeded: of_status("succeeded"),
            completions: of_spec("completions"),
            parallelism: of_spec("parallelism"),
        }),
        "HorizontalPodAutoscaler" => ObjectState::Hpa(HpaState {
            min: of_spec("minReplicas"),
            max: of_spec("maxReplicas").unwrap_or_default(),
            current: of_status("currentReplicas"),
            desired: of_status("desiredReplicas"),
        }),
        _ => return without_numbers(kind, spec, status),
    })
}

/// The state of an object whose fields are lists, texts and amounts.
fn without_numbers(kind: &str, mut spec: Option<Fields<'_>>, mut status: Option<Fields<'_>>) -> Option<ObjectState> {
    let of_spec = |spec: &mut Option<Fields<'_>>, key| spec.as_mut().map(|spec| word(spec, key)).unwrap_or_default();
    let phase = of_spec(&mut status, "phase");
    Some(match kind {
        "Node" => {
            let conditions = status.as_mut().map(|status| items(status, "conditions")).unwrap_or_default();
            let capacity = status.as_mut().map(|status| amounts(status, "capacity")).unwrap_or_default();
            ObjectState::Node(NodeState { conditions: conditions.iter().filter_map(condition).collect(), capacity })
        }
        "Namespace" => ObjectState::Namespace { phase },
        "CronJob" => {
            let active = status.as_mut().map_or(0, |status| items(status, "active").len());
            ObjectState::CronJob { active: active as u64 }
        }
        "ResourceQuota" => {
            let mut of = |key| status.as_mut().map(|status| quotas(status, key)).unwrap_or_default();
            ObjectState::ResourceQuota { hard: of("hard"), used: of("used") }
        }
        "PersistentVolume" => ObjectState::PersistentVolume(StorageState {
            phase,
            storage_class: of_spec(&mut spec, "storageClassName"),
            capacity: spec.as_mut().and_then(|spec| amounts(spec, "capacity").storage),
            request: None,
        }),
        "PersistentVolumeClaim" => ObjectState::PersistentVolumeClaim(StorageState {
            phase,
            storage_class: of_spec(&mut spec, "storageClassName"),
            capacity: status.as_mut().and_then(|status| amounts(status, "capacity").storage),
            request: spec
                .as_mut()
                .and_then(|spec| part(spec, "resources"))
                .and_then(|mut resources| amounts(&mut resources, "requests").storage),
        }),
        "Service" => {
            let balancer = status.as_mut().and_then(|status| part(status, "loadBalancer"));
            let ingresses = balancer.map_or(0, |mut balancer| items(&mut balancer, "ingress").len());
            let kind = of_spec(&mut spec, "type");
            ObjectState::Service(ServiceState { kind, ingresses: ingresses as u64, endpoints: Vec::new() })
        }
        _ => return None,
    })
}

fn condition(node: &Node<'_>) -> Option<(String, String)> {
    let mut fields = node.part()?;
    Some((word(&mut fields, "type"), word(&mut fields, "status")))
}

fn quotas(status: &mut Fields<'_>, key: &'static str) -> Vec<(String, Thousandths)> {
    let Some(node) = status.optional(key).filter(|node| node.part().is_some()) else { return Vec::new() };
    let entries = node.map().into_iter();
    entries.filter_map(|(name, node)| Some((name.to_owned(), amount(&node)?))).collect()
}

/// Amounts of the resources that metrics tell of.
fn amounts(fields: &mut Fields<'_>, key: &'static str) -> ResourceAmounts {
    let Some(mut fields) = part(fields, key) else { return ResourceAmounts::default() };
    let mut of = |key| amount(&fields.optional(key)?);
    ResourceAmounts {
        cpu: of("cpu"),
        memory: of("memory"),
        storage: of("storage"),
        ephemeral_storage: of("ephemeral-storage"),
    }
}

fn amount(node: &Node<'_>) -> Option<Thousandths> {
    let amount = node.scalar().and_then(|text| quantity::thousandths(text).ok());
    if amount.is_none() {
        node.findings()
            .push(node.error("is not an amount").expected("a quantity of Kubernetes, such as 500m or 128Mi"));
    }
    amount
}

fn number(fields: &mut Fields<'_>, key: &'static str) -> Option<u64> {
    let node = fields.optional(key)?;
    let number = node.scalar().and_then(|text| text.parse().ok());
    if number.is_none() {
        node.findings().push(node.error("is not a number").expected("a whole number, at least 0"));
    }
    number
}

fn part<'a>(fields: &mut Fields<'a>, key: &'static str) -> Option<Fields<'a>> {
    fields.optional(key)?.part()
}

fn items<'a>(fields: &mut Fields<'a>, key: &'static str) -> Vec<Node<'a>> {
    fields.optional(key).map(|node| node.items()).unwrap_or_default()
}

/// A text; empty if there is none.
fn word(fields: &mut Fields<'_>, key: &'static str) -> String {
    fields.optional(key).and_then(|node| node.text()).unwrap_or_default().to_owned()
}
