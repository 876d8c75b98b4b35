//! What a pod is told of itself, in variables of the environment: the downward API of Kubernetes.

use std::env;

use crate::cli::ProcessArgs;

/// Where a pod finds the name of its node, if whoever runs it wants it to; the second is that of Kyma's agents.
const NODE_NAMES: [&str; 2] = ["NODE_NAME", "MY_NODE_NAME"];

/// The name of this node, if somebody says it.
pub(crate) fn node_name(args: &ProcessArgs) -> Option<String> {
    args.node_name.clone().or_else(|| NODE_NAMES.into_iter().find_map(variable))
}

/// The name of the pod, which its containers have as that of their host as well.
pub(crate) fn pod_name() -> Option<String> {
    variable("POD_NAME").or_else(|| variable("HOSTNAME"))
}

/// The address of this node.
pub(crate) fn node_ip() -> Option<String> {
    variable("NODE_IP")
}

fn variable(name: &str) -> Option<String> {
    env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}
