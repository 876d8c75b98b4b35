//! The state of a cluster's objects, as far as metrics tell of it. It is no part of a plan, and changes at any time.

/// An amount in thousandths: of cores or bytes, for example.
pub type Thousandths = u128;

/// All that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterState {
    /// Objects of the cluster.
    pub objects: Vec<ClusterObject>,
    /// The status of the resources that configure telemetry.
    pub statuses: Vec<ResourceStatus>,
}

/// An object, and the state that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterObject {
    /// `metadata.name`
    pub name: String,
    /// `metadata.namespace`; empty where the kind has none.
    pub namespace: String,
    /// `metadata.uid`
    pub uid: String,
    /// What its kind tells. `None` in it is what an object does not say.
    pub state: ObjectState,
}

/// The state of an object of some kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectState {
    /// `Pod`
    Pod(PodState),
    /// `Node`
    Node(NodeState),
    /// `Namespace`
    Namespace {
        /// `status.phase`
        phase: String,
    },
    /// `Deployment`
    Deployment(ReplicaState),
    /// `ReplicaSet`
    ReplicaSet(ReplicaState),
    /// `ReplicationController`
    ReplicationController(ReplicaState),
    /// `StatefulSet`
    StatefulSet(StatefulSetState),
    /// `DaemonSet`
    DaemonSet(DaemonSetState),
    /// `Job`
    Job(JobState),
    /// `CronJob`
    CronJob {
        /// As many as `status.active` has.
        active: u64,
    },
    /// `HorizontalPodAutoscaler`
    Hpa(HpaState),
    /// `ResourceQuota`
    ResourceQuota {
        /// `status.hard`
        hard: Vec<(String, Thousandths)>,
        /// `status.used`
        used: Vec<(String, Thousandths)>,
    },
    /// `PersistentVolume`
    PersistentVolume(StorageState),
    /// `PersistentVolumeClaim`
    PersistentVolumeClaim(StorageState),
    /// `Service`
    Service(ServiceState),
}

/// Of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodState {
    /// `status.phase`
    pub phase: String,
    /// `status.reason`
    pub reason: String,
    /// `spec.nodeName`
    pub node: String,
    /// In the order of `spec.containers`.
    pub containers: Vec<ContainerState>,
}

/// Of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerState {
    /// Its name.
    pub name: String,
    /// `resources.requests`
    pub requests: ResourceAmounts,
    /// `resources.limits`
    pub limits: ResourceAmounts,
    /// `status.containerStatuses`, once there is one.
    pub run: Option<RunState>,
}

/// Amounts of the resources that metrics tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceAmounts {
    /// Cores.
    pub cpu: Option<Thousandths>,
    /// Bytes.
    pub memory: Option<Thousandths>,
    /// Bytes.
    pub storage: Option<Thousandths>,
    /// Bytes.
    pub ephemeral_storage: Option<Thousandths>,
}

/// How a container runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunState {
    /// With the name of the runtime before it.
    pub container_id: String,
    /// As the runtime names it.
    pub image: String,
    /// Whether it is ready.
    pub ready: bool,
    /// How often it was restarted.
    pub restarts: u64,
    /// `running`, `waiting` or `terminated`; empty if nothing is said.
    pub state: &'static str,
    /// Why it waits or has ended.
    pub reason: String,
}

/// Of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeState {
    /// Types and states of `status.conditions`.
    pub conditions: Vec<(String, String)>,
    /// `status.capacity`
    pub capacity: ResourceAmounts,
}

/// Of what has replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplicaState {
    /// `spec.replicas`
    pub desired: Option<u64>,
    /// `status.availableReplicas`
    pub available: u64,
}

/// Of a StatefulSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatefulSetState {
    /// `spec.replicas`
    pub desired: Option<u64>,
    /// `status.readyReplicas`
    pub ready: u64,
    /// `status.currentReplicas`
    pub current: u64,
    /// `status.updatedReplicas`
    pub updated: u64,
}

/// Of a DaemonSet: numbers of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DaemonSetState {
    /// `status.currentNumberScheduled`
    pub current: u64,
    /// `status.desiredNumberScheduled`
    pub desired: u64,
    /// `status.numberMisscheduled`
    pub misscheduled: u64,
    /// `status.numberReady`
    pub ready: u64,
}

/// Of a Job: numbers of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobState {
    /// `status.active`
    pub active: u64,
    /// `status.failed`
    pub failed: u64,
    /// `status.succeeded`
    pub succeeded: u64,
    /// `spec.completions`
    pub completions: Option<u64>,
    /// `spec.parallelism`
    pub parallelism: Option<u64>,
}

/// Of a HorizontalPodAutoscaler: numbers of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HpaState {
    /// `spec.minReplicas`
    pub min: Option<u64>,
    /// `spec.maxReplicas`
    pub max: u64,
    /// `status.currentReplicas`
    pub current: u64,
    /// `status.desiredReplicas`
    pub desired: u64,
}

/// Of a PersistentVolume or a PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StorageState {
    /// `status.phase`
    pub phase: String,
    /// `spec.storageClassName`; empty if there is none.
    pub storage_class: String,
    /// Bytes of the volume, or of what the claim is bound to.
    pub capacity: Option<Thousandths>,
    /// Bytes that the claim requests.
    pub request: Option<Thousandths>,
}

/// Of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceState {
    /// `spec.type`
    pub kind: String,
    /// As many as `status.loadBalancer.ingress` has.
    pub ingresses: u64,
    /// What its EndpointSlices have.
    pub endpoints: Vec<EndpointGroup>,
}

/// Endpoints of a Service with one type of address in one zone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointGroup {
    /// `IPv4`, `IPv6` or `FQDN`
    pub address_type: String,
    /// Empty if nothing is said.
    pub zone: String,
    /// How many there are.
    pub counts: EndpointCounts,
}

/// Endpoints by their conditions. One may count several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndpointCounts {
    /// They take new connections.
    pub ready: u64,
    /// They serve connections.
    pub serving: u64,
    /// They are about to end.
    pub terminating: u64,
}

/// The status of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceStatus {
    /// The group of its API.
    pub group: String,
    /// The version of its API.
    pub version: String,
    /// The plural of its kind, as the API has it: `metricpipelines`.
    pub resource: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.namespace`; empty if it has none.
    pub namespace: String,
    /// `status.state`
    pub state: Option<String>,
    /// `status.conditions`
    pub conditions: Vec<Condition>,
}

/// A condition of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Condition {
    /// `type`
    pub kind: String,
    /// `True`, `False` or `Unknown`
    pub status: String,
    /// `reason`
    pub reason: String,
}
