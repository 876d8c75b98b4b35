//! What whoever installs the operator says.

use std::collections::BTreeMap;

use serde_json::Value;

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
    /// Labels and annotations of the DaemonSet, and of its pods.
    pub workload_labels: BTreeMap<String, String>,
    /// See there.
    pub workload_annotations: BTreeMap<String, String>,
    /// See there.
    pub pod_labels: BTreeMap<String, String>,
    /// See there.
    pub pod_annotations: BTreeMap<String, String>,
}
