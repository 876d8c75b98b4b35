//! What the one that speaks for the cluster knows of it: the state of objects, and the status of our own resources.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weir_plan::{ClusterObject, ClusterState, Condition, ResourceStatus};

use super::objects::{Key, Objects, key, observe};
use crate::operator::object::{kinds, name, text};

/// A Service and its EndpointSlices tell something together; all others alone.
const TOGETHER: [&str; 2] = ["Service", "EndpointSlice"];

/// The state of a cluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    alone: BTreeMap<Key, Vec<ClusterObject>>,
    together: Objects,
    statuses: BTreeMap<Key, ResourceStatus>,
    /// Kinds of which all objects are known.
    listed: BTreeSet<&'static str>,
    /// Kinds without which the picture is not complete; `None` while this process does not lead.
    wanted: Option<Vec<&'static str>>,
}

impl Cluster {
    pub(super) fn set(&mut self, kind: &'static str, document: &Value) {
        let key = key(kind, document);
        if TOGETHER.contains(&kind) {
            self.together.set(kind, document);
        } else if let Some(status) = status(document) {
            self.statuses.insert(key, status);
        } else {
            let mut one = Objects::default();
            one.set(kind, document);
            self.alone.insert(key, observe(one.text()).objects);
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.together.remove(key);
        self.statuses.remove(key);
        self.alone.remove(key);
    }

    pub(super) fn replace(&mut self, kind: &'static str, documents: &[Value]) {
        let keys: BTreeSet<Key> = documents.iter().map(|document| key(kind, document)).collect();
        self.alone.retain(|known, _| known.0 != kind || keys.contains(known));
        self.statuses.retain(|known, _| known.0 != kind || keys.contains(known));
        if TOGETHER.contains(&kind) {
            self.together.replace(kind, documents);
        } else {
            documents.iter().for_each(|document| self.set(kind, document));
        }
        self.listed.insert(kind);
    }

    /// Nothing is known yet, and these kinds are wanted.
    pub(super) fn of_wanted(wanted: Vec<&'static str>) -> Self {
        Self { wanted: Some(wanted), ..Self::default() }
    }

    /// Whether all objects of the kinds that are wanted are known.
    pub(super) fn is_complete(&self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.iter().all(|kind| self.listed.contains(kind)))
    }

    pub(super) fn count(&self, kind: &str) -> usize {
        let alone = self.alone.keys().filter(|key| key.0 == kind).count();
        let statuses = self.statuses.keys().filter(|key| key.0 == kind).count();
        alone + statuses + self.together.count(kind)
    }

    /// All of it, as far as it is known.
    pub(super) fn state(&self) -> ClusterState {
        let mut objects: Vec<_> = self.alone.values().flatten().cloned().collect();
        objects.extend(observe(self.together.text()).objects);
        ClusterState { objects, statuses: self.statuses.values().cloned().collect() }
    }
}

/// The status of a resource of ours; nothing for those of others, and without a status.
fn status(document: &Value) -> Option<ResourceStatus> {
    let (group, version) = text(document, "/apiVersion")?.split_once('/')?;
    let kind = text(document, "/kind")?;
    let is_ours =
        kinds::OURS.iter().any(|(api_version, _)| api_version.split_once('/').is_some_and(|of| of.0 == group));
    let conditions = document.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let owned = |of: &Value, path: &str| text(of, path).map(str::to_owned);
    is_ours.then(|| ResourceStatus {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: kinds::plural(kind),
        name: name(document).to_owned(),
        namespace: owned(document, "/metadata/namespace").unwrap_or_default(),
        state: owned(document, "/status/state"),
        conditions: conditions
            .filter_map(|of| {
                Some(Condition {
                    kind: owned(of, "/type")?,
                    status: owned(of, "/status")?,
                    reason: owned(of, "/reason").unwrap_or_default(),
                })
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weir_plan::{ObjectState, ServiceState};

    use super::*;

    fn object(api_version: &str, kind: &str, name: &str, rest: Value) -> Value {
        let mut object = rest;
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({
            "name": name, "namespace": "shop", "uid": name, "labels": {"kubernetes.io/service-name": "cart"},
        });
        object
    }

    #[test]
    fn objects_and_statuses_are_told_as_they_are_now() {
        let mut cluster = Cluster::default();
        let deployment = |replicas| object("apps/v1", "Deployment", "cart", json!({"spec": {"replicas": replicas}}));
        cluster.replace("Deployment", &[deployment(1)]);
        cluster.set("Deployment", &deployment(3));
        cluster.replace("Service", &[object("v1", "Service", "cart", json!({"spec": {"type": "ClusterIP"}}))]);
        let endpoints = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]});
        cluster.replace("EndpointSlice", &[object("discovery.k8s.io/v1", "EndpointSlice", "cart-1", endpoints)]);
        let status = json!({"status": {"conditions": [{"type": "Healthy", "status": "True", "reason": "Well"}]}});
        cluster.replace("TracePipeline", &[object("telemetry.kyma-project.io/v1beta1", "TracePipeline", "a", status)]);
        let ClusterState { objects, statuses } = cluster.state();
        let desired = objects.iter().find_map(|object| match &object.state {
            ObjectState::Deployment(state) => state.desired,
            _ => None,
        });
        assert_eq!(desired, Some(3));
        let service = objects.iter().find_map(|object| match &object.state {
            ObjectState::Service(ServiceState { endpoints, .. }) => Some(endpoints.len()),
            _ => None,
        });
        assert_eq!(service, Some(1));
        assert_eq!((statuses.len(), statuses[0].resource.as_str()), (1, "tracepipelines"));
        assert_eq!(statuses[0].conditions[0].kind, "Healthy");
        assert!(!cluster.is_complete(), "nobody leads");
        cluster.wanted = Some(vec!["Service", "Deployment"]);
        assert!(cluster.is_complete());
        cluster.wanted = Some(vec!["Service", "Pod"]);
        assert!(!cluster.is_complete());
        cluster.remove(&key("Deployment", &deployment(3)));
        cluster.replace("TracePipeline", &[]);
        assert_eq!((cluster.state().objects.len(), cluster.state().statuses.len()), (1, 0));
    }
}
