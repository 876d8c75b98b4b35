//! Names of objects and labels, as the Kyma Telemetry module published them: queries, policies and scripts of users name
//! them. Those that other crates know, too, are in the plan's crate.

pub(crate) use weir_plan::names::{
    AGENTS, LOG_AGENT, METRIC_AGENT, NODE, OTLP, OTLP_LOGS, OTLP_METRICS, OTLP_TRACES, STATEFUL, STATELESS,
};

/// Who applies fields, in `managedFields`, and reports events.
pub(crate) const MANAGER: &str = "telemetry-manager";
/// The Lease of the operator.
pub(crate) const LEASE: &str = "cdd7ef0b.kyma-project.io";
/// The container that does the work.
pub(crate) const CONTAINER: &str = "collector";
/// The Secret with the configuration of the nodes.
pub const CONFIGURATION: &str = "telemetry-node";
/// The ConfigMap with exceptions from the usual.
pub(crate) const OVERRIDES: &str = "telemetry-overrides";
/// The only Telemetry that counts.
pub(crate) const TELEMETRY: &str = "default";
/// What keeps a Telemetry until no pipeline is left.
pub(crate) const FINALIZER: &str = "telemetry.kyma-project.io/finalizer";
/// The Lease of the node that knows the state of the cluster.
pub(crate) const CLUSTER_STATE_LEASE: &str = "telemetry-metric-agent-k8scluster";

/// Services of the page with metrics, one for each part that the nodes play.
pub(crate) const NODE_METRICS: &str = "telemetry-otlp-gateway-metrics";
pub(crate) const LOG_AGENT_METRICS: &str = "telemetry-log-agent-metrics";
pub(crate) const METRIC_AGENT_METRICS: &str = "telemetry-metric-agent-metrics";

/// What names of NetworkPolicies begin with.
pub(crate) const POLICY: &str = "kyma-project.io--";

/// The label that says which application an object belongs to.
pub(crate) const NAME_LABEL: &str = "app.kubernetes.io/name";
/// The label that says who made an object.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The annotation that says which configuration is in the Secret.
pub(crate) const REVISION: &str = "weir.dev/revision";

/// The group of pipelines.
pub(crate) const PIPELINES: &str = "telemetry.kyma-project.io";
/// The group of Telemetry.
pub(crate) const OPERATOR: &str = "operator.kyma-project.io";

/// Ports of the nodes.
pub(crate) const GRPC_PORT: u16 = 4317;
pub(crate) const HTTP_PORT: u16 = 4318;
pub(crate) const METRICS_PORT: u16 = 8888;
pub(crate) const HEALTH_PORT: u16 = 13133;
