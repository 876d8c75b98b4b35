//! Names that Weir goes by. In a cluster they are those that the Kyma Telemetry module published: queries, policies and
//! scripts of users name them. The operator gives them, and what Istio's proxies tell of telemetry's own traffic is known by
//! them.

/// The DaemonSet of the nodes, with its ServiceAccount, roles and bindings.
pub const NODE: &str = "telemetry-otlp-gateway";
/// The DaemonSet of the log agent, where roles are split.
pub const LOG_AGENT: &str = "telemetry-log-agent";
/// The DaemonSet of the metric agent, where roles are split.
pub const METRIC_AGENT: &str = "telemetry-metric-agent";
/// The DaemonSet of both agents, where the gateway is replicas and roles are not split.
pub const AGENTS: &str = "telemetry-agent";
/// The replicas of the gateway, as a StatefulSet.
pub const STATEFUL: &str = "telemetry-gateway-stateful";
/// The replicas of the gateway, as a Deployment.
pub const STATELESS: &str = "telemetry-gateway";

/// The Service that clients push to.
pub const OTLP: &str = "telemetry-otlp";
/// The same under the name of an earlier version, for logs.
pub const OTLP_LOGS: &str = "telemetry-otlp-logs";
/// The same, for traces.
pub const OTLP_TRACES: &str = "telemetry-otlp-traces";
/// The same, for metrics.
pub const OTLP_METRICS: &str = "telemetry-otlp-metrics";

/// What the header `user-agent` of Weir begins with.
pub const PRODUCT: &str = "weir/";
/// What the header `user-agent` of Weir says.
pub const USER_AGENT: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weir_is_known_by_what_its_user_agent_begins_with() {
        let version = USER_AGENT.strip_prefix(PRODUCT);
        assert!(
            version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit())),
            "{USER_AGENT}"
        );
    }
}
