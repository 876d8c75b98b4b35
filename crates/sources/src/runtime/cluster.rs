//! Metrics of what the objects of a cluster say of themselves.
//!
//! Names, attributes and meanings are those of the Collector's receiver `k8s_cluster`.

mod image;
#[cfg(test)]
mod tests;

use weir_engine::Added;
use weir_otlp::conventions::{CONTAINER_NAME, IMAGE_NAME, NAMESPACE_NAME, NODE_NAME, POD_NAME, POD_UID};
use weir_plan::{
    ClusterObject, ContainerState, DaemonSetState, HpaState, JobState, NodeState, ObjectState, PodState, ReplicaState,
    RunState, ServiceState, StatefulSetState, StorageState, Thousandths,
};

use super::draft::{Attributes, Draft, EstimateTooSmall, Metrics, signed};

/// Phases of pods, in the order of their numbers, which begin with 1. Any other is `Unknown`.
const POD_PHASES: [&str; 5] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];

/// Why pods have failed, in the order of their numbers, which begin with 1. Anything else has the next number.
const POD_REASONS: [&str; 5] = ["Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError"];

const CONTAINER_STATES: [&str; 3] = ["terminated", "running", "waiting"];

const CONTAINER_REASONS: [&str; 9] = [
    "ContainerCreating",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "ErrImagePull",
    "ImagePullBackOff",
    "OOMKilled",
    "Completed",
    "Error",
    "ContainerCannotRun",
];

const VOLUME_PHASES: [&str; 5] = ["Pending", "Available", "Bound", "Released", "Failed"];

const CLAIM_PHASES: [&str; 3] = ["Pending", "Bound", "Lost"];

const ADDRESS_TYPES: [&str; 3] = ["IPv4", "IPv6", "FQDN"];

/// Writes the metrics of an object.
pub(super) fn write(object: &ClusterObject, draft: &mut Draft) -> Result<(), EstimateTooSmall> {
    let state = &object.state;
    match state {
        ObjectState::Pod(pod) => write_pod(object, pod, draft),
        ObjectState::PersistentVolume(volume) => write_storage(object, "k8s.persistentvolume", volume, draft),
        ObjectState::PersistentVolumeClaim(claim) => write_storage(object, "k8s.persistentvolumeclaim", claim, draft),
        ObjectState::Service(service) => write_service(object, service, draft),
        _ => {
            let (kind, added) = kind(state);
            let keys = [format!("k8s.{kind}.name"), format!("k8s.{kind}.uid")];
            let mut attributes = vec![(keys[0].as_str(), object.name.as_str()), (&keys[1], &object.uid)];
            attributes.extend(of_namespace(object));
            draft.resource(added, &attributes, 0, |metrics| write_state(state, metrics))
        }
    }
}

/// What the attributes of a kind begin with, and what is added to its metrics: as in the Kyma Telemetry module, nodes and
/// most workloads are no part of a service.
fn kind(state: &ObjectState) -> (&'static str, Added) {
    match state {
        ObjectState::Node(_) => ("node", Added::OfCluster),
        ObjectState::Deployment(_) => ("deployment", Added::OfCluster),
        ObjectState::StatefulSet(_) => ("statefulset", Added::OfCluster),
        ObjectState::DaemonSet(_) => ("daemonset", Added::OfCluster),
        ObjectState::Job(_) => ("job", Added::OfCluster),
        ObjectState::Namespace { .. } => ("namespace", Added::All),
        ObjectState::ReplicaSet(_) => ("replicaset", Added::All),
        ObjectState::ReplicationController(_) => ("replicationcontroller", Added::All),
        ObjectState::CronJob { .. } => ("cronjob", Added::All),
        ObjectState::Hpa(_) => ("hpa", Added::All),
        ObjectState::ResourceQuota { .. } => ("resourcequota", Added::All),
        ObjectState::Pod(_) => ("pod", Added::All),
        ObjectState::PersistentVolume(_) => ("persistentvolume", Added::All),
        ObjectState::PersistentVolumeClaim(_) => ("persistentvolumeclaim", Added::All),
        ObjectState::Service(_) => ("service", Added::All),
    }
}

fn of_namespace(object: &ClusterObject) -> Option<(&'static str, &str)> {
    (!object.namespace.is_empty()).then_some((NAMESPACE_NAME, object.namespace.as_str()))
}

/// The metrics of a kind that has no other attributes than its name.
fn write_state(state: &ObjectState, metrics: &mut Metrics<'_>) {
    match state {
        ObjectState::Node(node) => write_node(node, metrics),
        ObjectState::Namespace { phase } => write_namespace(phase, metrics),
        ObjectState::Deployment(replicas) => write_replicas("k8s.deployment", replicas, metrics),
        ObjectState::ReplicaSet(replicas) => write_replicas("k8s.replicaset", replicas, metrics),
        ObjectState::ReplicationController(all) => write_replicas("k8s.replication_controller", all, metrics),
        ObjectState::StatefulSet(set) => write_stateful_set(set, metrics),
        ObjectState::DaemonSet(set) => write_daemon_set(set, metrics),
        ObjectState::Job(job) => write_job(job, metrics),
        ObjectState::CronJob { active } => metrics.int("k8s.cronjob.active_jobs", Some(*active)),
        ObjectState::Hpa(hpa) => write_hpa(hpa, metrics),
        ObjectState::ResourceQuota { hard, used } => {
            write_quota("k8s.resource_quota.hard_limit", hard, metrics);
            write_quota("k8s.resource_quota.used", used, metrics);
        }
        ObjectState::Pod(_)
        | ObjectState::PersistentVolume(_)
        | ObjectState::PersistentVolumeClaim(_)
        | ObjectState::Service(_) => {}
    }
}

fn write_node(node: &NodeState, metrics: &mut Metrics<'_>) {
    let conditions = node.conditions.iter();
    let pairs: Vec<_> = conditions.map(|(kind, status)| (truth(status), [("condition", kind.as_str())])).collect();
    metrics.ints("k8s.node.condition", pairs.iter().map(|(value, pair)| (*value, &pair[..])));
}

fn write_namespace(phase: &str, metrics: &mut Metrics<'_>) {
    let number = match phase {
        "Active" => 1,
        "Terminating" => 0,
        _ => -1,
    };
    metrics.signed("k8s.namespace.phase", Some(number));
}

fn write_stateful_set(set: &StatefulSetState, metrics: &mut Metrics<'_>) {
    metrics.int("k8s.statefulset.desired_pods", set.desired);
    metrics.int("k8s.statefulset.ready_pods", Some(set.ready));
    metrics.int("k8s.statefulset.current_pods", Some(set.current));
    metrics.int("k8s.statefulset.updated_pods", Some(set.updated));
}

fn write_daemon_set(set: &DaemonSetState, metrics: &mut Metrics<'_>) {
    metrics.int("k8s.daemonset.current_scheduled_nodes", Some(set.current));
    metrics.int("k8s.daemonset.desired_scheduled_nodes", Some(set.desired));
    metrics.int("k8s.daemonset.misscheduled_nodes", Some(set.misscheduled));
    metrics.int("k8s.daemonset.ready_nodes", Some(set.ready));
}

fn write_job(job: &JobState, metrics: &mut Metrics<'_>) {
    metrics.int("k8s.job.active_pods", Some(job.active));
    metrics.int("k8s.job.failed_pods", Some(job.failed));
    metrics.int("k8s.job.successful_pods", Some(job.succeeded));
    metrics.int("k8s.job.desired_successful_pods", job.completions);
    metrics.int("k8s.job.max_parallel_pods", job.parallelism);
}

fn write_hpa(hpa: &HpaState, metrics: &mut Metrics<'_>) {
    metrics.int("k8s.hpa.max_replicas", Some(hpa.max));
    metrics.int("k8s.hpa.min_replicas", hpa.min);
    metrics.int("k8s.hpa.current_replicas", Some(hpa.current));
    metrics.int("k8s.hpa.desired_replicas", Some(hpa.desired));
}

fn write_replicas(of: &str, replicas: &ReplicaState, metrics: &mut Metrics<'_>) {
    metrics.int(&format!("{of}.desired"), replicas.desired);
    metrics.int(&format!("{of}.available"), Some(replicas.available));
}

/// CPU is counted in thousandths where the resource says whether it is requested or a limit.
fn write_quota(name: &str, amounts: &[(String, Thousandths)], metrics: &mut Metrics<'_>) {
    let value = |resource: &str, amount| if resource.ends_with(".cpu") { whole(amount) } else { units(amount) };
    let pairs: Vec<_> = amounts
        .iter()
        .map(|(resource, amount)| (signed(value(resource, *amount)), [("resource", resource.as_str())]))
        .collect();
    metrics.ints(name, pairs.iter().map(|(value, pair)| (*value, &pair[..])));
}

fn write_pod(object: &ClusterObject, pod: &PodState, draft: &mut Draft) -> Result<(), EstimateTooSmall> {
    let of_pod = [
        (POD_NAME, object.name.as_str()),
        (POD_UID, &object.uid),
        (NAMESPACE_NAME, &object.namespace),
        (NODE_NAME, &pod.node),
    ];
    // A pod that waits for a node has none.
    let of_pod = if pod.node.is_empty() { &of_pod[..3] } else { &of_pod[..] };
    draft.resource(Added::All, of_pod, 0, |metrics| {
        let place = |among: &[&str], word: &str| among.iter().position(|known| *known == word).unwrap_or(among.len());
        let phase = (place(&POD_PHASES, &pod.phase) + 1).min(POD_PHASES.len());
        metrics.int("k8s.pod.phase", Some(phase as u64));
        metrics.int("k8s.pod.status_reason", Some(place(&POD_REASONS, &pod.reason) as u64 + 1));
    })?;
    pod.containers.iter().try_for_each(|container| write_container(of_pod, container, draft))
}

fn write_container(
    of_pod: Attributes<'_>,
    container: &ContainerState,
    draft: &mut Draft,
) -> Result<(), EstimateTooSmall> {
    let mut attributes = of_pod.to_vec();
    attributes.push((CONTAINER_NAME, &container.name));
    if let Some(run) = &container.run {
        let id = run.container_id.split_once("://").map_or(run.container_id.as_str(), |(_, id)| id);
        let (name, tag) = image::parts(&run.image);
        let known = [("container.id", id), (IMAGE_NAME, name), ("container.image.tag", tag)];
        attributes.extend(known.into_iter().filter(|(_, value)| !value.is_empty()));
    }
    draft.resource(Added::All, &attributes, 0, |metrics| {
        for (what, amounts) in [("request", &container.requests), ("limit", &container.limits)] {
            metrics.float(&format!("k8s.container.cpu_{what}"), amounts.cpu.map(cores));
            for (of, amount) in [
                ("memory", amounts.memory),
                ("storage", amounts.storage),
                ("ephemeralstorage", amounts.ephemeral_storage),
            ] {
                metrics.int(&format!("k8s.container.{of}_{what}"), amount.map(units));
            }
        }
        if let Some(run) = &container.run {
            write_run(run, metrics);
        }
    })
}

fn write_run(run: &RunState, metrics: &mut Metrics<'_>) {
    metrics.int("k8s.container.restarts", Some(run.restarts));
    metrics.int("k8s.container.ready", Some(u64::from(run.ready)));
    if !run.state.is_empty() {
        one_of("k8s.container.status.state", &CONTAINER_STATES, run.state, metrics);
    }
    one_of("k8s.container.status.reason", &CONTAINER_REASONS, &run.reason, metrics);
}

/// A point for each word, as the value of an attribute with the metric's name: 1 for the one that holds, else 0.
fn one_of(name: &str, words: &[&str], holds: &str, metrics: &mut Metrics<'_>) {
    let pairs: Vec<_> = words.iter().map(|word| (i64::from(*word == holds), [(name, *word)])).collect();
    metrics.ints(name, pairs.iter().map(|(value, pair)| (*value, &pair[..])));
}

fn write_storage(
    object: &ClusterObject,
    of: &str,
    storage: &StorageState,
    draft: &mut Draft,
) -> Result<(), EstimateTooSmall> {
    let keys = [format!("{of}.name"), format!("{of}.uid")];
    let mut attributes = vec![(keys[0].as_str(), object.name.as_str()), (&keys[1], &object.uid)];
    attributes.extend(of_namespace(object));
    if !storage.storage_class.is_empty() {
        attributes.push(("k8s.storageclass.name", &storage.storage_class));
    }
    let is_claim = matches!(object.state, ObjectState::PersistentVolumeClaim(_));
    let phases = if is_claim { &CLAIM_PHASES[..] } else { &VOLUME_PHASES };
    draft.resource(Added::All, &attributes, 0, |metrics| {
        one_of(&format!("{of}.status.phase"), phases, &storage.phase, metrics);
        metrics.int(&format!("{of}.storage.capacity"), storage.capacity.map(units));
        if is_claim {
            metrics.int("k8s.persistentvolumeclaim.storage.request", storage.request.map(units));
        }
    })
}

fn write_service(object: &ClusterObject, service: &ServiceState, draft: &mut Draft) -> Result<(), EstimateTooSmall> {
    let mut attributes = vec![("k8s.service.name", object.name.as_str()), ("k8s.service.uid", &object.uid)];
    attributes.extend(of_namespace(object));
    if !service.kind.is_empty() {
        attributes.push(("k8s.service.type", &service.kind));
    }
    let groups = service.endpoints.iter().filter(|group| ADDRESS_TYPES.contains(&group.address_type.as_str()));
    let points: Vec<_> = groups
        .flat_map(|group| {
            let of = [("ready", group.counts.ready), ("serving", group.counts.serving)];
            of.into_iter().chain([("terminating", group.counts.terminating)]).map(move |(condition, count)| {
                let pairs = [
                    ("k8s.service.endpoint.address_type", group.address_type.as_str()),
                    ("k8s.service.endpoint.condition", condition),
                    ("k8s.service.endpoint.zone", &group.zone),
                ];
                (signed(count), pairs)
            })
        })
        .collect();
    draft.resource(Added::All, &attributes, 0, |metrics| {
        metrics.ints("k8s.service.endpoint.count", points.iter().map(|(value, pairs)| (*value, &pairs[..])));
        let ingresses = (service.kind == "LoadBalancer").then_some(service.ingresses);
        metrics.int("k8s.service.load_balancer.ingress.count", ingresses);
    })
}

/// The number of a condition's status.
pub(super) fn truth(status: &str) -> i64 {
    match status {
        "True" => 1,
        "False" => 0,
        _ => -1,
    }
}

/// Whole units, rounded up.
fn units(amount: Thousandths) -> u64 {
    whole(amount.div_ceil(1_000))
}

fn whole(amount: u128) -> u64 {
    u64::try_from(amount).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "cores are given with a few digits")]
fn cores(amount: Thousandths) -> f64 {
    amount as f64 / 1e3
}
