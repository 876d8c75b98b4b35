//! Services: where clients push to, and where metrics are scraped.

use serde_json::{Value, json};

use super::{Nodes, labels};
use crate::operator::layout::Workload;
use crate::operator::names::{
    self, LOG_AGENT, LOG_AGENT_METRICS, METRIC_AGENT, METRIC_AGENT_METRICS, NAME_LABEL, NODE, NODE_METRICS,
};

/// Services that clients push to.
pub(super) const OTLP: [&str; 4] = [names::OTLP, names::OTLP_LOGS, names::OTLP_TRACES, names::OTLP_METRICS];

/// All Services.
pub(super) const NAMES: [&str; 7] = [
    names::OTLP,
    names::OTLP_LOGS,
    names::OTLP_TRACES,
    names::OTLP_METRICS,
    NODE_METRICS,
    LOG_AGENT_METRICS,
    METRIC_AGENT_METRICS,
];

impl Nodes<'_> {
    pub(super) fn services(&self) -> Vec<Value> {
        let mut all: Vec<_> = OTLP.iter().map(|name| self.otlp(name)).collect();
        let layout = self.layout;
        all.push(self.metrics(NODE_METRICS, NODE, layout.serving));
        // Queries of users select these by the names of the Services.
        if self.needs.container_logs {
            all.push(self.metrics(LOG_AGENT_METRICS, LOG_AGENT, layout.log_agent));
        }
        if self.needs.scrapes || self.needs.istio || self.needs.runtime {
            all.push(self.metrics(METRIC_AGENT_METRICS, METRIC_AGENT, layout.metric_agent));
        }
        if self.istio {
            all.extend(OTLP.iter().map(|name| self.without_mesh(name)));
        }
        all
    }

    /// Clients are served on their own node if there is a pod: what they send does not leave it in plain text.
    fn otlp(&self, name: &str) -> Value {
        let port = |name: &str, port: u16| json!({ "name": name, "port": port, "targetPort": port, "protocol": "TCP" });
        let serving = self.layout.serving;
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(name),
            "spec": {
                "type": "ClusterIP",
                "internalTrafficPolicy": if serving.is_replicated() { "Cluster" } else { "Local" },
                "selector": { NAME_LABEL: serving.name() },
                "ports": [port("grpc-collector", names::GRPC_PORT), port("http-collector", names::HTTP_PORT)],
            },
        })
    }

    /// `application`: whose metrics they are by the published names. `workload`: who does its work.
    fn metrics(&self, name: &str, application: &str, workload: Workload) -> Value {
        let port = names::METRICS_PORT;
        let component = if application == NODE { "gateway" } else { "agent" };
        let mut metadata = self.metadata(name);
        metadata["labels"] = labels(application, component);
        metadata["annotations"] = json!({
            "prometheus.io/scrape": "true",
            "prometheus.io/scheme": "http",
            "prometheus.io/port": port.to_string(),
        });
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {
                "type": "ClusterIP",
                "selector": { NAME_LABEL: workload.name() },
                "ports": [{ "name": "http-metrics", "port": port, "targetPort": port, "protocol": "TCP" }],
            },
        })
    }

    /// Clients in the mesh send plain text: the ports are not taken over by the sidecar.
    fn without_mesh(&self, service: &str) -> Value {
        json!({
            "apiVersion": "networking.istio.io/v1",
            "kind": "DestinationRule",
            "metadata": self.metadata(service),
            "spec": {
                "host": format!("{service}.{}.svc.cluster.local", self.options.namespace),
                "trafficPolicy": { "tls": { "mode": "DISABLE" } },
            },
        })
    }
}
