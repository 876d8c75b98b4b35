//! Objects of the API server, cut down to what decisions need: the rest is most of them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, ContainerStatus, Pod, PodSpec, PodStatus, Secret};
use kube::api::{DynamicObject, ObjectMeta};
use serde_json::{Map, Value, json};

use super::world::Mark;
use crate::changed_by::{self, Manager};
use crate::operator::layout::Workload;
use crate::operator::limits::{MAX_SPEC_BYTES, TOO_LARGE};
use crate::operator::names;
use crate::operator::picture::{PodState, WorkloadStatus};

/// Annotations of others may be as large as the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// A custom resource, without what others keep in its metadata.
pub(crate) fn resource(object: DynamicObject) -> Value {
    let DynamicObject { types, metadata, data } = object;
    let (api_version, kind) = types.map(|types| (types.api_version, types.kind)).unwrap_or_default();
    let annotations = metadata.annotations.unwrap_or_default().into_iter().filter(|(key, _)| key != LAST_APPLIED);
    let mut kept = json!({
        "name": metadata.name,
        "uid": metadata.uid,
        "generation": metadata.generation,
        "creationTimestamp": metadata.creation_timestamp,
        "annotations": annotations.collect::<BTreeMap<_, _>>(),
        "resourceVersion": metadata.resource_version,
    });
    if let Some(deleted) = metadata.deletion_timestamp {
        kept["deletionTimestamp"] = json!(deleted);
    }
    if let Some(finalizers) = metadata.finalizers {
        kept["finalizers"] = json!(finalizers);
    }
    let mut trimmed = json!({ "apiVersion": api_version, "kind": kind, "metadata": kept });
    if let Some(changed_by) = metadata.managed_fields.and_then(Manager::of) {
        trimmed[changed_by::KEPT] = changed_by.line().into();
    }
    let mut data = match data {
        Value::Object(data) => data,
        _ => Map::new(),
    };
    for part in ["spec", "status"] {
        if let Some(value) = data.remove(part) {
            trimmed[part] = value;
        }
    }
    without_large_spec(trimmed)
}

/// What must not run need not be kept.
fn without_large_spec(mut object: Value) -> Value {
    let bytes = object.get("spec").map_or(0, |spec| spec.to_string().len());
    if bytes > MAX_SPEC_BYTES {
        object["spec"] = json!({});
        object[TOO_LARGE] = json!(bytes);
    }
    object
}

/// The overrides of the ConfigMap.
pub(crate) fn overrides(map: ConfigMap) -> Option<String> {
    map.data?.remove("overrides")
}

/// The values of a Secret in base64, as documents have them.
pub(crate) fn values(secret: Secret) -> BTreeMap<String, String> {
    let data = secret.data.unwrap_or_default().into_iter();
    data.map(|(key, value)| (key, BASE64_STANDARD.encode(value.0))).collect()
}

/// A workload, if it is one of ours. One that is going is none.
pub(super) type Found = Option<(Workload, WorkloadStatus)>;

fn found(metadata: &ObjectMeta, pods: Option<&PodSpec>, status: WorkloadStatus) -> Found {
    let workload = Workload::named(metadata.name.as_deref()?)?;
    // An older installation has agents of the same names.
    let is_ours = workload == Workload::Node || pods.is_some_and(runs_node);
    (is_ours && metadata.deletion_timestamp.is_none()).then_some((workload, status))
}

fn runs_node(pods: &PodSpec) -> bool {
    let args = pods.containers.first().and_then(|container| container.args.as_ref());
    args.and_then(|args| args.first()).is_some_and(|command| command == "node")
}

pub(super) fn stateful_set(object: StatefulSet) -> Found {
    let (spec, status) = (object.spec.unwrap_or_default(), object.status.unwrap_or_default());
    let is_current = status.observed_generation == object.metadata.generation;
    let [desired, updated, ready] = [spec.replicas, status.updated_replicas, status.ready_replicas].map(number);
    found(
        &object.metadata,
        spec.template.spec.as_ref(),
        WorkloadStatus { is_current, desired, updated, ready, since: None },
    )
}

pub(super) fn deployment(object: Deployment) -> Found {
    let (spec, status) = (object.spec.unwrap_or_default(), object.status.unwrap_or_default());
    let is_current = status.observed_generation == object.metadata.generation;
    let [desired, updated, ready] = [spec.replicas, status.updated_replicas, status.ready_replicas].map(number);
    found(
        &object.metadata,
        spec.template.spec.as_ref(),
        WorkloadStatus { is_current, desired, updated, ready, since: None },
    )
}

fn number(count: Option<i32>) -> i64 {
    count.unwrap_or_default().into()
}

pub(super) fn daemon_set(daemon_set: DaemonSet) -> Found {
    let spec = daemon_set.spec.unwrap_or_default();
    let status = daemon_set.status.unwrap_or_default();
    let is_current = status.observed_generation == daemon_set.metadata.generation;
    let status = WorkloadStatus {
        is_current,
        desired: status.desired_number_scheduled.into(),
        updated: number(status.updated_number_scheduled),
        ready: status.number_ready.into(),
        since: None,
    };
    found(&daemon_set.metadata, spec.template.spec.as_ref(), status)
}

/// A pod, with what keeps it from being well.
pub(crate) fn pod(pod: Pod) -> PodState {
    let spec = pod.spec.unwrap_or_default();
    let status = pod.status.unwrap_or_default();
    let ready = condition(&status, "Ready").is_some_and(|(status, _)| status == "True");
    let going = pod.metadata.deletion_timestamp.is_some();
    let name = pod.metadata.labels.as_ref().and_then(|labels| labels.get(names::NAME_LABEL));
    PodState {
        workload: name.and_then(|name| Workload::named(name)).unwrap_or_default(),
        name: pod.metadata.name.unwrap_or_default(),
        ip: status.pod_ip.clone().unwrap_or_default(),
        node: spec.node_name.unwrap_or_default(),
        ready,
        fault: if ready || going { None } else { fault(&status) },
    }
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<(&'a str, &'a str)> {
    let found = status.conditions.iter().flatten().find(|condition| condition.type_ == kind)?;
    Some((&found.status, found.message.as_deref().unwrap_or_default()))
}

fn fault(status: &PodStatus) -> Option<String> {
    if let Some(("False", why)) = condition(status, "PodScheduled") {
        return Some(format!("Pod is not scheduled: {why}"));
    }
    if status.phase.as_deref() == Some("Failed") {
        let reason = status.reason.as_deref().or(status.message.as_deref()).unwrap_or("unknown reason");
        return Some(format!("Pod is in the failed state due to: {reason}"));
    }
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let (container, reason) = containers.filter_map(|one| Some((&one.name, trouble(one)?))).next()?;
    Some(format!(
        "Pod is in the pending state because container: {container} is not running due to: {reason}. Please check the \
         container: {container} logs."
    ))
}

/// Why a container does not run, unless it is about to.
fn trouble(container: &ContainerStatus) -> Option<String> {
    const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().filter(|reason| !STARTING.contains(reason))?;
        let last = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
        // A crash loop is what follows; what ended it says more.
        return Some(match last.and_then(|last| last.reason.as_deref()) {
            Some(cause) if cause != reason => format!("{reason} ({cause})"),
            _ => reason.to_owned(),
        });
    }
    let ended = state.terminated.as_ref().filter(|ended| ended.exit_code != 0)?;
    Some(ended.reason.clone().unwrap_or_else(|| format!("exit code {}", ended.exit_code)))
}

/// What differs if somebody changed an object. Statuses change all the time, and only some kinds count generations.
pub(super) fn mark(metadata: &ObjectMeta) -> Mark {
    let mut hasher = DefaultHasher::new();
    metadata.uid.hash(&mut hasher);
    metadata.deletion_timestamp.is_some().hash(&mut hasher);
    match metadata.generation {
        Some(generation) => {
            generation.hash(&mut hasher);
            metadata.labels.hash(&mut hasher);
            // An annotation that only some answers have counts what the generation counts.
            let annotations = metadata.annotations.iter().flatten().filter(|(key, _)| *key != TEMPLATE_GENERATION);
            annotations.for_each(|annotation| annotation.hash(&mut hasher));
            let owners = metadata.owner_references.iter().flatten().map(|owner| &owner.uid);
            owners.for_each(|owner| owner.hash(&mut hasher));
        }
        None => metadata.resource_version.hash(&mut hasher),
    }
    Mark(hasher.finish())
}
