//! What nodes may do: nothing that no pipeline asks for.

use serde_json::{Value, json};
use weir_plan::Signal;

use super::{Nodes, labels};
use crate::operator::names::{self, NODE};

/// To know what is there, and what changes.
const READ: [&str; 3] = ["get", "list", "watch"];

impl Nodes<'_> {
    pub(super) fn rights(&self) -> [Value; 4] {
        let cluster = json!({ "name": NODE, "labels": labels(NODE, "gateway") });
        [
            role("ClusterRole", cluster.clone(), self.of_cluster()),
            self.binding("ClusterRoleBinding", cluster, "ClusterRole"),
            role("Role", self.metadata(NODE), self.of_namespace()),
            self.binding("RoleBinding", self.metadata(NODE), "Role"),
        ]
    }

    fn of_cluster(&self) -> Vec<Value> {
        let needs = self.needs;
        // Who sends: pods by their addresses, and what is known of their nodes and of the cluster.
        let mut rules = vec![
            rule("", &["pods", "nodes", "namespaces"]),
            json!({ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["shoot-info"], "verbs": READ }),
        ];
        if needs.scrapes || needs.istio {
            rules.push(rule("", &["services"]));
            rules.push(rule("discovery.k8s.io", &["endpointslices"]));
        }
        if needs.runtime {
            let mut pages = vec!["nodes/stats", "nodes/pods"];
            // It is the right to run commands in every pod, too.
            if self.options.nodes_proxy {
                pages.push("nodes/proxy");
            }
            rules.push(json!({ "apiGroups": [""], "resources": pages, "verbs": ["get"] }));
            let core =
                ["services", "replicationcontrollers", "resourcequotas", "persistentvolumes", "persistentvolumeclaims"];
            rules.push(rule("", &core));
            rules.push(rule("apps", &["daemonsets", "deployments", "replicasets", "statefulsets"]));
            rules.push(rule("batch", &["jobs", "cronjobs"]));
            rules.push(rule("autoscaling", &["horizontalpodautoscalers"]));
            rules.push(rule("discovery.k8s.io", &["endpointslices"]));
        }
        if self.signals.contains(&Signal::Metrics) {
            // Their status becomes metrics of every MetricPipeline.
            rules.push(rule(names::PIPELINES, &["tracepipelines", "metricpipelines", "logpipelines"]));
            rules.push(rule(names::OPERATOR, &["telemetries"]));
        }
        rules
    }

    /// The one Secret with their configuration, and the Lease of the one that knows the state of the cluster.
    fn of_namespace(&self) -> Vec<Value> {
        let secret = [names::CONFIGURATION];
        let mut rules = vec![json!({
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": secret, "verbs": READ,
        })];
        let (group, lease) = ("coordination.k8s.io", [names::CLUSTER_STATE_LEASE]);
        if self.signals.contains(&Signal::Metrics) {
            rules.push(json!({ "apiGroups": [group], "resources": ["leases"], "verbs": ["create"] }));
        }
        // Also when nobody has to lead any more: whoever did gives it back then, and the next one need not wait.
        let verbs = ["get", "update", "patch"];
        rules.push(json!({ "apiGroups": [group], "resources": ["leases"], "resourceNames": lease, "verbs": verbs }));
        rules
    }

    fn binding(&self, kind: &str, metadata: Value, role: &str) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": metadata,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": NODE },
            "subjects": [{ "kind": "ServiceAccount", "name": NODE, "namespace": self.options.namespace }],
        })
    }
}

fn role(kind: &str, metadata: Value, rules: Vec<Value>) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules })
}

fn rule(group: &str, resources: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": READ })
}
