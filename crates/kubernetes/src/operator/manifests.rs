//! Everything that there has to be for the nodes, as manifests.
//!
//! Each is complete: what an older manifest had and this one has not is removed when it is applied.

mod network;
mod pods;
mod replicas;
mod rights;
mod services;
mod workloads;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weir_plan::Signal;

use super::configuration;
use super::layout::{Layout, Workload};
use super::names::{self, NODE};
use super::object::{ObjectKey, kinds, name, text};
use super::options::Options;
use super::verdict::Needs;

/// What manifests are made from.
pub(crate) struct Nodes<'a> {
    pub(crate) options: &'a Options,
    /// What all pipelines together need.
    pub(crate) needs: Needs,
    /// Signals that have a pipeline.
    pub(crate) signals: BTreeSet<Signal>,
    /// Which workloads there are.
    pub(crate) layout: &'a Layout,
    /// Ports of backends.
    pub(crate) ports: BTreeSet<u16>,
    /// Whether there is a service mesh.
    pub(crate) istio: bool,
    /// The Telemetry, with which everything goes.
    pub(crate) owner: Option<&'a Value>,
}

impl Nodes<'_> {
    /// Everything but the configuration, in an order in which it can be made.
    pub(crate) fn manifests(&self) -> Vec<Value> {
        let mut all = vec![self.account()];
        all.extend(self.rights());
        all.extend(self.policies());
        all.extend(self.services());
        all.extend(self.workloads());
        all.iter_mut().for_each(|manifest| self.own(manifest));
        all
    }

    fn account(&self) -> Value {
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": self.metadata(NODE) })
    }

    /// Makes the Telemetry the owner of what is in its namespace: without it, nothing of this is left.
    pub(crate) fn own(&self, manifest: &mut Value) {
        let (Some(owner), true) = (self.owner, text(manifest, "/metadata/namespace").is_some()) else { return };
        let Some(uid) = text(owner, "/metadata/uid") else { return };
        manifest["metadata"]["ownerReferences"] = json!([{
            "apiVersion": kinds::TELEMETRY.0,
            "kind": kinds::TELEMETRY.1,
            "name": name(owner),
            "uid": uid,
        }]);
    }

    /// The metadata of an object in the namespace.
    fn metadata(&self, name: &str) -> Value {
        json!({ "name": name, "namespace": self.options.namespace, "labels": labels(NODE, "gateway") })
    }
}

/// Labels of everything that is made.
pub(crate) fn labels(application: &str, component: &str) -> Value {
    json!({
        names::NAME_LABEL: application,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": "telemetry",
        names::MANAGED_BY: names::MANAGER,
        "kyma-project.io/module": "telemetry",
    })
}

/// The PriorityClass, which stays whatever becomes of the nodes: other workloads may use it.
pub(crate) fn class(options: &Options) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": { "name": options.high_priority_class, "labels": labels(names::MANAGER, "controller") },
        "value": 2_100_000,
        "globalDefault": false,
        "description": "Telemetry",
    })
}

/// Everything that may have been made for the nodes, workloads first.
pub(crate) fn all(namespace: &str, istio: bool) -> Vec<ObjectKey> {
    let within = |kind, name: &str| ObjectKey::cluster(kind, name).within(namespace);
    let mut all =
        replicas::beside(Workload::ALL).map(|(kind, workload)| within(kind, workload.name())).collect::<Vec<_>>();
    all.extend(Workload::ALL.map(|workload| key_of(workload, namespace)));
    all.push(configuration::key(namespace));
    all.extend(services::NAMES.map(|name| within(kinds::SERVICE, name)));
    all.extend(network::names().map(|name| within(kinds::NETWORK_POLICY, &name)));
    if istio {
        all.extend(services::OTLP.map(|name| within(kinds::DESTINATION_RULE, name)));
    }
    all.extend([kinds::ROLE_BINDING, kinds::ROLE].map(|kind| within(kind, NODE)));
    all.extend([kinds::CLUSTER_ROLE_BINDING, kinds::CLUSTER_ROLE].map(|kind| ObjectKey::cluster(kind, NODE)));
    all.push(within(kinds::SERVICE_ACCOUNT, NODE));
    all
}

/// What a workload is called.
pub(crate) fn key_of(workload: Workload, namespace: &str) -> ObjectKey {
    ObjectKey::cluster(workload.kind(), workload.name()).within(namespace)
}

/// Kinds that are made.
const MADE: [kinds::Kind; 15] = [
    kinds::SECRET,
    kinds::SERVICE,
    kinds::SERVICE_ACCOUNT,
    kinds::DAEMON_SET,
    kinds::STATEFUL_SET,
    kinds::DEPLOYMENT,
    kinds::AUTOSCALER,
    kinds::DISRUPTION_BUDGET,
    kinds::ROLE,
    kinds::ROLE_BINDING,
    kinds::CLUSTER_ROLE,
    kinds::CLUSTER_ROLE_BINDING,
    kinds::NETWORK_POLICY,
    kinds::PRIORITY_CLASS,
    kinds::DESTINATION_RULE,
];

/// What a manifest is of.
pub(crate) fn key(manifest: &Value) -> Option<ObjectKey> {
    let kind = text(manifest, "/kind")?;
    let kind = MADE.into_iter().find(|(_, made)| *made == kind)?;
    let key = ObjectKey::cluster(kind, name(manifest));
    Some(match text(manifest, "/metadata/namespace") {
        Some(namespace) => key.within(namespace),
        None => key,
    })
}
