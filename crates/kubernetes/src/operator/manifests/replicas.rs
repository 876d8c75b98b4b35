//! What is beside replicas: how many there are, and how many may be away at once.

use serde_json::{Value, json};

use super::Nodes;
use super::pods::Pods;
use crate::operator::layout::Workload;
use crate::operator::object::kinds::{self, Kind};
use crate::operator::options::Autoscaling;
use crate::operator::pending;

/// There is less to do for this long before a replica goes: what it has, it delivers first.
const CALM_SECONDS: u16 = 300;

/// Kinds of what may be beside these workloads.
pub(super) fn beside(workloads: impl IntoIterator<Item = Workload>) -> impl Iterator<Item = (Kind, Workload)> {
    let replicated = workloads.into_iter().filter(|workload| workload.is_replicated());
    replicated.flat_map(|workload| [kinds::AUTOSCALER, kinds::DISRUPTION_BUDGET].map(|kind| (kind, workload)))
}

impl Nodes<'_> {
    /// Nothing beside those that only deliver what they have: they stay as many as they are.
    pub(super) fn beside_replicas(&self, pods: &Pods<'_>) -> Vec<Value> {
        let Some(replicas) = pods.replicas.filter(|_| pods.roles.gateway) else { return Vec::new() };
        let mut all = vec![self.disruption_budget(pods)];
        if let Some(autoscaling) = &replicas.autoscaling {
            all.push(self.autoscaler(pods.workload, replicas.count, autoscaling));
        }
        all
    }

    fn disruption_budget(&self, pods: &Pods<'_>) -> Value {
        let (api_version, kind) = kinds::DISRUPTION_BUDGET;
        json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": self.metadata(pods.workload.name()),
            "spec": { "maxUnavailable": 1, "selector": { "matchLabels": pods.selector() } },
        })
    }

    fn autoscaler(&self, workload: Workload, min: u32, autoscaling: &Autoscaling) -> Value {
        let (api_version, kind) = kinds::AUTOSCALER;
        let (of_version, of_kind) = workload.kind();
        let mut metrics = Vec::new();
        if let Some(percent) = autoscaling.cpu_percent {
            let target = json!({ "type": "Utilization", "averageUtilization": percent });
            metrics.push(json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } }));
        }
        if let Some(bytes) = &autoscaling.pending_bytes {
            let target = json!({ "type": "AverageValue", "averageValue": bytes });
            metrics.push(json!({ "type": "Pods", "pods": { "metric": { "name": pending::NAME }, "target": target } }));
        }
        let one = json!([{ "type": "Pods", "value": 1, "periodSeconds": 120 }]);
        json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": self.metadata(workload.name()),
            "spec": {
                "scaleTargetRef": { "apiVersion": of_version, "kind": of_kind, "name": workload.name() },
                "minReplicas": min,
                "maxReplicas": autoscaling.max,
                "metrics": metrics,
                "behavior": { "scaleDown": { "stabilizationWindowSeconds": CALM_SECONDS, "policies": one } },
            },
        })
    }
}
