//! NetworkPolicies: who may reach the nodes, and whom they may reach.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Nodes;
use crate::operator::layout::Workload;
use crate::operator::names::{self, MANAGER, NAME_LABEL, NODE, POLICY};

/// Istio's proxy serves its own metrics there.
const PROXY_PORT: u16 = 15090;

/// Names of all of them.
pub(super) fn names() -> [String; 2] {
    ["", "-metrics"].map(|suffix| format!("{POLICY}{NODE}{suffix}"))
}

impl Nodes<'_> {
    pub(super) fn policies(&self) -> [Value; 2] {
        let [node, metrics] = names();
        let port = |port: u16| json!({ "port": port, "protocol": "TCP" });
        // Anybody may push. Where backends are is nobody's to say but the pipelines'.
        let clients = json!({ "ports": [port(names::GRPC_PORT), port(names::HTTP_PORT)] });
        let node = self.policy(&node, json!(["Ingress", "Egress"]), &json!([clients]), Some(json!([{}])));
        let scrapers = json!({
            "namespaceSelector": {},
            "podSelector": { "matchLabels": { "networking.kyma-project.io/metrics-scraping": "allowed" } },
        });
        // The operator asks the nodes how their pipelines stand.
        let operator = json!({ "podSelector": { "matchLabels": { NAME_LABEL: MANAGER } } });
        let mut ports = vec![port(names::METRICS_PORT)];
        if self.istio {
            ports.push(port(PROXY_PORT));
        }
        let ingress = json!([{ "from": [scrapers, operator], "ports": ports }]);
        [node, self.policy(&metrics, json!(["Ingress"]), &ingress, None)]
    }

    fn policy(&self, name: &str, types: Value, ingress: &Value, egress: Option<Value>) -> Value {
        // The API server refuses an empty list, and pipelines that take nothing need no pods.
        let pods: BTreeSet<_> = self.layout.all().chain([self.layout.gateway]).map(Workload::name).collect();
        let mut policy = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self.metadata(name),
            "spec": {
                "podSelector": { "matchExpressions": [{ "key": NAME_LABEL, "operator": "In", "values": pods }] },
                "policyTypes": types,
                "ingress": ingress,
            },
        });
        if let Some(egress) = egress {
            policy["spec"]["egress"] = egress;
        }
        policy
    }
}
