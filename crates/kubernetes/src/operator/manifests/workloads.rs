//! Workloads: a pod on each node, or replicas.

use serde_json::{Value, json};

use super::pods::{Pods, extend};
use super::{Nodes, labels};
use crate::operator::layout::Workload;
use crate::operator::options::Storage;

/// The new pod is there before the old one ends. It asks the old one for the data directory, and becomes ready with it:
/// docs/decisions/022-two-generations-of-a-pod.md. Nodes do not depend on each other, so many nodes are updated some at a time
/// (one at least).
const UPDATE: (&str, u8) = ("10%", 0);

impl Nodes<'_> {
    pub(super) fn workloads(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for (&workload, &roles) in &self.layout.workloads {
            let replicas = self.options.scale.gateway.as_ref().filter(|_| workload.is_replicated());
            let pods = Pods { nodes: self, workload, roles, replicas };
            all.push(self.workload(&pods));
            all.extend(self.beside_replicas(&pods));
        }
        all
    }

    fn workload(&self, pods: &Pods<'_>) -> Value {
        let workload = pods.workload;
        let (api_version, kind) = workload.kind();
        let mut metadata = self.metadata(workload.name());
        metadata["labels"] = labels(workload.name(), workload.component());
        extend(&mut metadata["labels"], &self.options.workload_labels);
        metadata["annotations"] = json!(self.options.workload_annotations);
        let mut spec = json!({ "selector": { "matchLabels": pods.selector() }, "template": pods.template() });
        let (surge, unavailable) = UPDATE;
        let rolling =
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } });
        match workload {
            Workload::Stateful => {
                spec["serviceName"] = workload.name().into();
                // They need not wait for each other.
                spec["podManagementPolicy"] = "Parallel".into();
                // What is in them is owed, also while there are fewer replicas.
                let kept = json!({ "whenDeleted": "Retain", "whenScaled": "Retain" });
                spec["persistentVolumeClaimRetentionPolicy"] = kept;
                let storage = self.options.scale.gateway.as_ref().and_then(|replicas| replicas.storage.as_ref());
                spec["volumeClaimTemplates"] = storage.map(claim).into_iter().collect();
            }
            Workload::Stateless => spec["strategy"] = rolling,
            _ => spec["updateStrategy"] = rolling,
        }
        json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec })
    }
}

fn claim(storage: &Storage) -> Value {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": storage.size } },
    });
    if let Some(class) = &storage.class {
        spec["storageClassName"] = class.as_str().into();
    }
    json!({ "metadata": { "name": "data" }, "spec": spec })
}
