//! What whoever installs the operator says.

use std::collections::BTreeMap;

use serde_json::Value;

use super::pending::Pending;

/// Takes the level of the overrides, `error` to `debug`; nothing stands for what the command line says.
pub type SetLogLevel = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// Options of the operator and of what it makes.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the operator and the nodes live.
    pub namespace: String,
    /// The image of the nodes.
    pub image: String,
    /// Secrets to pull it with.
    pub image_pull_secrets: Vec<String>,
    /// A ClusterTrustBundle whose certificates take the place of the image's.
    pub trust_bundle: Option<String>,
    /// Where the tokens are that the admin ports of the nodes ask for; `None` if these are open to their own machine.
    pub admin_tokens: Option<SecretKey>,
    /// Pipelines of a kind at most; the oldest count.
    pub max_pipelines: Option<usize>,
    /// The PriorityClass of the nodes.
    pub high_priority_class: String,
    /// The directory on a node that keeps what backends have not taken.
    pub data_path: String,
    /// `resources` of the container, as Kubernetes has them.
    pub resources: Value,
    /// `tolerations` of the pods.
    pub tolerations: Value,
    /// `nodeSelector` of the pods.
    pub node_selector: BTreeMap<String, String>,
    /// More arguments for the nodes.
    pub node_args: Vec<String>,
    /// Whether nodes get the right `nodes/proxy`: kubelets before Kubernetes 1.33 know no smaller one. It can only be
    /// given by an operator that has it.
    pub nodes_proxy: bool,
    /// Which workloads there are.
    pub scale: Scale,
    /// Where to say what waits in pods, if an autoscaler may ask it here.
    pub pending: Option<Pending>,
    /// Labels and annotations of the workloads, and of their pods.
    pub workload_labels: BTreeMap<String, String>,
    /// See there.
    pub workload_annotations: BTreeMap<String, String>,
    /// See there.
    pub pod_labels: BTreeMap<String, String>,
    /// See there.
    pub pod_annotations: BTreeMap<String, String>,
}

/// A key of a Secret in the namespace of the nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretKey {
    /// The name of the Secret.
    pub name: String,
    /// The key of its data.
    pub key: String,
}

/// Which workloads do the work. By default one pod on each node does all of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scale {
    /// Whether gateway, log agent and metric agent are DaemonSets of their own.
    pub split_roles: bool,
    /// The gateway as replicas, in place of a pod on each node.
    pub gateway: Option<Replicas>,
}

/// Replicas of the gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct Replicas {
    /// How many; with autoscaling, how many at least.
    pub count: u32,
    /// Whether there may be more.
    pub autoscaling: Option<Autoscaling>,
    /// Volumes that outlive pods; without them, pods deliver what they have before they end.
    pub storage: Option<Storage>,
    /// `resources` of the container, as Kubernetes has them.
    pub resources: Value,
    /// `tolerations` of the pods.
    pub tolerations: Value,
}

/// When there are more replicas.
#[derive(Debug, Clone, PartialEq)]
pub struct Autoscaling {
    /// At most.
    pub max: u32,
    /// Of the CPU that a pod requests, on average; nothing if it does not matter.
    pub cpu_percent: Option<u32>,
    /// What waits in a pod, on average, as a quantity; nothing if it does not matter.
    pub pending_bytes: Option<String>,
}

/// A volume for each replica.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// As a quantity.
    pub size: String,
    /// The default class of the cluster if there is none.
    pub class: Option<String>,
}
