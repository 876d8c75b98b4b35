//! What metrics tell of the objects of a cluster, and of the status of resources.

use weir_plan::{
    ClusterObject, Condition, ContainerState, DaemonSetState, EndpointCounts, EndpointGroup, HpaState, JobState,
    NodeState, ObjectState, PodState, ReplicaState, ResourceAmounts, ResourceStatus, RunState, ServiceState,
    StatefulSetState, StorageState,
};

use crate::{loaded, with_pipeline};

const OBJECTS: &str = include_str!("../state.yaml");

/// With a pipeline that wants metrics of the cluster.
fn objects(documents: &str) -> Vec<ClusterObject> {
    let pipeline = "
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: MetricPipeline
metadata: {name: runtime}
spec: {input: {runtime: {enabled: true}}, output: {otlp: {endpoint: {value: 'b:1'}}}}
";
    loaded(&(documents.to_owned() + pipeline)).state.objects
}

fn pod() -> ObjectState {
    let limits = ResourceAmounts {
        cpu: Some(500),
        memory: Some(128_000 << 20),
        storage: Some(10_000),
        ephemeral_storage: Some(1_000 << 30),
    };
    let run = RunState {
        container_id: "containerd://abc".into(),
        image: "docker.io/cart:1".into(),
        ready: true,
        restarts: 3,
        state: "waiting",
        reason: "CrashLoopBackOff".into(),
    };
    let requests = ResourceAmounts { cpu: Some(1_000), ..ResourceAmounts::default() };
    let app = ContainerState { name: "app".into(), requests, limits, run: Some(run) };
    let new = ContainerState { name: "new".into(), ..ContainerState::default() };
    let (phase, reason, node) = ("Running".into(), "Evicted".into(), "node-1".into());
    ObjectState::Pod(PodState { phase, reason, node, containers: vec![app, new] })
}

/// Name, namespace, uid and state.
type Known = (&'static str, &'static str, &'static str, ObjectState);

fn nodes_and_workloads() -> Vec<Known> {
    let capacity = ResourceAmounts { cpu: Some(4_000), memory: Some(16_000 << 30), ..ResourceAmounts::default() };
    vec![
        ("cart-0", "shop", "u-pod", pod()),
        (
            "node-1",
            "",
            "u-node",
            ObjectState::Node(NodeState { conditions: vec![("Ready".into(), "True".into())], capacity }),
        ),
        ("shop", "", "u-namespace", ObjectState::Namespace { phase: "Active".into() }),
        ("cart", "shop", "u-deployment", ObjectState::Deployment(ReplicaState { desired: Some(3), available: 2 })),
        ("cart-1", "shop", "u-replicaset", ObjectState::ReplicaSet(ReplicaState { desired: Some(3), available: 0 })),
        (
            "old",
            "shop",
            "u-controller",
            ObjectState::ReplicationController(ReplicaState { desired: None, available: 1 }),
        ),
        (
            "db",
            "shop",
            "u-set",
            ObjectState::StatefulSet(StatefulSetState { desired: Some(4), ready: 3, current: 2, updated: 1 }),
        ),
        (
            "agent",
            "shop",
            "u-daemon",
            ObjectState::DaemonSet(DaemonSetState { current: 1, desired: 2, misscheduled: 3, ready: 4 }),
        ),
        (
            "report",
            "shop",
            "u-job",
            ObjectState::Job(JobState {
                active: 1,
                failed: 2,
                succeeded: 3,
                completions: Some(4),
                parallelism: Some(5),
            }),
        ),
        ("nightly", "shop", "u-cron", ObjectState::CronJob { active: 2 }),
        ("cart", "shop", "u-hpa", ObjectState::Hpa(HpaState { min: Some(1), max: 4, current: 2, desired: 3 })),
    ]
}

fn quotas_storage_and_services() -> Vec<Known> {
    let endpoints = |zone: &str, counts| EndpointGroup { address_type: "IPv4".into(), zone: zone.into(), counts };
    let storage = |request| StorageState {
        phase: "Bound".into(),
        storage_class: "fast".into(),
        capacity: Some(8_000 << 30),
        request,
    };
    vec![
        (
            "quota",
            "shop",
            "u-quota",
            ObjectState::ResourceQuota {
                hard: vec![("requests.cpu".into(), 2_000), ("pods".into(), 10_000)],
                used: vec![("requests.cpu".into(), 250)],
            },
        ),
        ("pv", "", "u-pv", ObjectState::PersistentVolume(storage(None))),
        ("data", "shop", "u-claim", ObjectState::PersistentVolumeClaim(storage(Some(4_000 << 30)))),
        (
            "web",
            "shop",
            "u-service",
            ObjectState::Service(ServiceState {
                kind: "LoadBalancer".into(),
                ingresses: 1,
                endpoints: vec![
                    endpoints("a", EndpointCounts { ready: 1, serving: 2, terminating: 1 }),
                    endpoints("", EndpointCounts::default()),
                ],
            }),
        ),
    ]
}

#[test]
fn objects_of_a_cluster_have_a_state() {
    let expected = nodes_and_workloads().into_iter().chain(quotas_storage_and_services());
    let expected = expected.map(|(name, namespace, uid, state)| ClusterObject {
        name: name.into(),
        namespace: namespace.into(),
        uid: uid.into(),
        state,
    });
    assert_eq!(objects(OBJECTS), expected.collect::<Vec<_>>());
    assert!(loaded(&with_pipeline(OBJECTS)).state.objects.is_empty(), "no pipeline wants it");
}

/// People keep them beside their pipelines.
#[test]
fn manifests_that_nobody_applied_are_not_looked_at() {
    let manifests = "
{apiVersion: apps/v1, kind: Deployment, metadata: {generateName: a}, spec: {replicas: 'many'}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 'many'}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 3}}
---
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: 'none'}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a}}
---
{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {maxReplicas: 3}}
";
    assert_eq!(objects(manifests), []);
}

#[test]
fn the_status_of_resources_is_known() {
    let documents = "
apiVersion: operator.kyma-project.io/v1alpha1
kind: Telemetry
metadata: {name: default, namespace: kyma-system}
status:
  state: Warning
  conditions:
  - {type: A, status: 'True', reason: B, message: what}
  - {type: C, status: 'False'}
  - D
  endpoints: {}
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: TracePipeline
metadata: {name: traces}
spec: {output: {otlp: {endpoint: {value: 'b:1'}}}}
status: {conditions: [{type: A, status: Unknown, reason: B}]}
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: LogPipeline
metadata: {name: logs}
spec: {input: {runtime: {enabled: false}}, output: {otlp: {endpoint: {value: 'b:1'}}}}
status: [what]
";
    let condition = |status: &str| Condition { kind: "A".into(), status: status.into(), reason: "B".into() };
    let expected = [
        ResourceStatus {
            group: "operator.kyma-project.io".into(),
            version: "v1beta1".into(),
            resource: "telemetries".into(),
            name: "default".into(),
            namespace: "kyma-system".into(),
            state: Some("Warning".into()),
            conditions: vec![condition("True")],
        },
        ResourceStatus {
            group: "telemetry.kyma-project.io".into(),
            version: "v1beta1".into(),
            resource: "tracepipelines".into(),
            name: "traces".into(),
            conditions: vec![condition("Unknown")],
            ..ResourceStatus::default()
        },
    ];
    assert_eq!(loaded(documents).state.statuses, expected);
}
