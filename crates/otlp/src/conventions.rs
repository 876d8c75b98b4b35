//! Names of attributes that one crate writes and another reads, as the semantic conventions have them.

/// The name of a Kubernetes cluster.
pub const CLUSTER_NAME: &str = "k8s.cluster.name";
/// The UID of a Kubernetes cluster.
pub const CLUSTER_UID: &str = "k8s.cluster.uid";
/// The name of a container in its pod.
pub const CONTAINER_NAME: &str = "k8s.container.name";
/// The image of a container.
pub const IMAGE_NAME: &str = "container.image.name";
/// The namespace of a pod.
pub const NAMESPACE_NAME: &str = "k8s.namespace.name";
/// The node of a pod.
pub const NODE_NAME: &str = "k8s.node.name";
/// What the names of attributes with annotations of a pod begin with.
pub const POD_ANNOTATION: &str = "k8s.pod.annotation.";
/// What the names of attributes with labels of a pod begin with.
pub const POD_LABEL: &str = "k8s.pod.label.";
/// The name of a pod.
pub const POD_NAME: &str = "k8s.pod.name";
/// The UID of a pod.
pub const POD_UID: &str = "k8s.pod.uid";
/// The stream that a container wrote a line to: `stdout` or `stderr`.
pub const LOG_STREAM: &str = "log.iostream";
