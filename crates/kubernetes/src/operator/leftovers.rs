//! What an installation of the Kyma Telemetry module left behind: programs whose work the nodes do, and what belonged to
//! them.

use super::object::ObjectKey;
use super::object::kinds::{
    CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, DAEMON_SET, DEPLOYMENT, DESTINATION_RULE, Kind, NETWORK_POLICY,
    PEER_AUTHENTICATION, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT, VERTICAL_POD_AUTOSCALER,
};
use super::picture::Apis;

/// What is called like the program that it belonged to.
const OF_PROGRAM: &[Kind] = &[
    SERVICE_ACCOUNT,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
    CONFIG_MAP,
    SECRET,
    SERVICE,
    VERTICAL_POD_AUTOSCALER,
    PEER_AUTHENTICATION,
    DESTINATION_RULE,
];

/// Programs, and what kind of workload they were.
const PROGRAMS: &[(&str, Kind)] = &[
    // Before the gateways became one.
    ("telemetry-trace-gateway", DEPLOYMENT),
    ("telemetry-metric-gateway", DEPLOYMENT),
    ("telemetry-log-gateway", DEPLOYMENT),
    // Until the nodes did everything.
    ("telemetry-log-agent", DAEMON_SET),
    ("telemetry-metric-agent", DAEMON_SET),
    ("telemetry-fluent-bit", DAEMON_SET),
    ("telemetry-self-monitor", DEPLOYMENT),
];

/// Everything with a name of its own. Services of agents are not here: nodes have them, too.
const OTHERS: &[(Kind, &str)] = &[
    // The configuration of the gateway, and a name that its Service had for a while.
    (CONFIG_MAP, "telemetry-otlp-gateway"),
    (SECRET, "telemetry-otlp-gateway"),
    (SERVICE, "telemetry-otlp-gateway"),
    (DESTINATION_RULE, "telemetry-otlp-gateway"),
    (PEER_AUTHENTICATION, "telemetry-otlp-gateway"),
    (VERTICAL_POD_AUTOSCALER, "telemetry-otlp-gateway"),
    (CONFIG_MAP, "telemetry-otlp-gateway-coordination"),
    (CONFIG_MAP, "telemetry-telemetry-otlp-gateway-pipelines"),
    // Who may have how many pipelines.
    (CONFIG_MAP, "telemetry-logpipeline-lock"),
    (CONFIG_MAP, "telemetry-logpipeline-sync-syncer"),
    (CONFIG_MAP, "telemetry-metricpipeline-lock"),
    (CONFIG_MAP, "telemetry-metricpipeline-sync-syncer"),
    (CONFIG_MAP, "telemetry-tracepipeline-lock"),
    (CONFIG_MAP, "telemetry-tracepipeline-sync-syncer"),
    (CONFIG_MAP, "telemetry-fluent-bit-sections"),
    (CONFIG_MAP, "telemetry-fluent-bit-files"),
    (CONFIG_MAP, "telemetry-fluent-bit-luascripts"),
    (SECRET, "telemetry-fluent-bit-env"),
    (SECRET, "telemetry-fluent-bit-output-tls-config"),
    (SERVICE, "telemetry-trace-gateway-metrics"),
    (SERVICE, "telemetry-metric-gateway-metrics"),
    (SERVICE, "telemetry-log-gateway-metrics"),
    (SERVICE, "telemetry-fluent-bit-metrics"),
    (SERVICE, "telemetry-fluent-bit-exporter-metrics"),
    (SERVICE, "telemetry-self-monitor-metrics"),
    (NETWORK_POLICY, "telemetry-fluent-bit"),
    (NETWORK_POLICY, "telemetry-self-monitor"),
    // Of the manager's own installation: the last two are for all pods of the module, so also for ours, and would leave them
    // nothing but these ways out if they had no policy of their own.
    (NETWORK_POLICY, "kyma-project.io--allow-telemetry-manager-metrics"),
    (NETWORK_POLICY, "kyma-project.io--allow-telemetry-manager-webhooks"),
    (NETWORK_POLICY, "kyma-project.io--allow-telemetry-to-apiserver"),
    (NETWORK_POLICY, "kyma-project.io--allow-telemetry-to-dns"),
    (ROLE_BINDING, "telemetry-manager-leader-election-rolebinding"),
    (ROLE, "telemetry-manager-leader-election-role"),
];

/// Everything that may be left in a namespace, workloads first: what they need goes after them.
pub(crate) fn all(namespace: &str, apis: Apis) -> Vec<ObjectKey> {
    let workloads = PROGRAMS.iter().map(|(program, kind)| (*kind, (*program).to_owned()));
    let of_programs =
        PROGRAMS.iter().flat_map(|(program, _)| OF_PROGRAM.iter().map(|kind| (*kind, (*program).to_owned())));
    let policies = PROGRAMS.iter().flat_map(|(program, _)| {
        ["", "-metrics"].map(|suffix| (NETWORK_POLICY, format!("kyma-project.io--{program}{suffix}")))
    });
    let others = OTHERS.iter().map(|(kind, name)| (*kind, (*name).to_owned()));
    let found = workloads.chain(of_programs).chain(policies).chain(others);
    let is_served = |(kind, _): &(Kind, String)| match *kind {
        VERTICAL_POD_AUTOSCALER => apis.vertical_pod_autoscaler,
        DESTINATION_RULE | PEER_AUTHENTICATION => apis.istio,
        _ => true,
    };
    let key = |(kind, name): (Kind, String)| {
        let key = ObjectKey::cluster(kind, name);
        if matches!(kind, CLUSTER_ROLE | CLUSTER_ROLE_BINDING) { key } else { key.within(namespace) }
    };
    found.filter(is_served).map(key).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::layout::Workload;
    use super::super::manifests;
    use super::*;

    #[test]
    fn nothing_is_removed_that_nodes_need() {
        let ours: BTreeSet<_> = manifests::all("kyma-system", true).into_iter().collect();
        let apis = Apis { istio: true, vertical_pod_autoscaler: true };
        let both: Vec<_> = all("kyma-system", apis).into_iter().filter(|key| ours.contains(key)).collect();
        // They had the same names before. Those that are applied are left alone, whoever made them.
        let agents = [Workload::LogAgent, Workload::MetricAgent]
            .map(|agent| ObjectKey::cluster(agent.kind(), agent.name()).within("kyma-system"));
        assert_eq!(both, agents);
    }

    #[test]
    fn workloads_go_first_and_apis_that_are_not_there_are_not_asked() {
        let all = all("kyma-system", Apis::default());
        let workloads = |key: &ObjectKey| matches!(key.kind, "DaemonSet" | "Deployment");
        assert_eq!(all.iter().take_while(|key| workloads(key)).count(), PROGRAMS.len());
        assert!(all.iter().all(|key| !key.api_version.contains("istio") && !key.api_version.contains("autoscaling")));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "each once");
    }
}
