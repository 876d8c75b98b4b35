//! Objects of the API server, cut down to what is used: the rest is most of them.

use serde_json::{Map, Value};

/// Annotations of others may be as large as the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What annotations that say something to Weir begin with.
const OURS: [&str; 3] = ["resource.opentelemetry.io/", "prometheus.io/", "weir.dev/"];

const METADATA: [&str; 3] = ["metadata.name", "metadata.namespace", "metadata.uid"];

/// What enrichment and scraping use of a pod.
const POD: &[&str] = &[
    "metadata.labels",
    "metadata.annotations",
    "metadata.ownerReferences.kind",
    "metadata.ownerReferences.name",
    "spec.nodeName",
    "spec.hostNetwork",
    "spec.containers.name",
    "spec.containers.image",
    "spec.containers.ports",
    "spec.initContainers.name",
    "spec.initContainers.image",
    "spec.initContainers.ports",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

/// What metrics tell of a pod.
const POD_STATE: &[&str] = &[
    "spec.nodeName",
    "spec.containers.name",
    "spec.containers.resources.requests",
    "spec.containers.resources.limits",
    "status.phase",
    "status.reason",
    "status.containerStatuses.name",
    "status.containerStatuses.containerID",
    "status.containerStatuses.image",
    "status.containerStatuses.ready",
    "status.containerStatuses.restartCount",
    "status.containerStatuses.state.running.none",
    "status.containerStatuses.state.waiting.reason",
    "status.containerStatuses.state.terminated.reason",
];

const NODE: &[&str] = &["metadata.labels", "status.capacity", "status.conditions.type", "status.conditions.status"];
const NAMESPACE: &[&str] = &["status.phase"];
const CONFIG_MAP: &[&str] = &["data.provider"];
const SERVICE: &[&str] = &["metadata.annotations", "spec.type", "status.loadBalancer.ingress.ip"];
const ENDPOINT_SLICE: &[&str] = &[
    "metadata.labels",
    "addressType",
    "ports",
    "endpoints.addresses",
    "endpoints.nodeName",
    "endpoints.zone",
    "endpoints.conditions",
    "endpoints.targetRef.kind",
    "endpoints.targetRef.name",
];
const WORKLOAD: &[&str] = &[
    "spec.replicas",
    "spec.completions",
    "spec.parallelism",
    "spec.minReplicas",
    "spec.maxReplicas",
    "status.availableReplicas",
    "status.readyReplicas",
    "status.currentReplicas",
    "status.updatedReplicas",
    "status.desiredReplicas",
    "status.currentNumberScheduled",
    "status.desiredNumberScheduled",
    "status.numberMisscheduled",
    "status.numberReady",
    "status.active",
    "status.failed",
    "status.succeeded",
    "status.hard",
    "status.used",
    "status.phase",
    "status.capacity",
    "spec.storageClassName",
    "spec.capacity",
    "spec.resources.requests",
];
const STATUS: &[&str] =
    &["status.state", "status.conditions.type", "status.conditions.status", "status.conditions.reason"];

/// Labels of an object, and annotations, in bytes. Those who make an object may give it a MiB of them, and reading takes
/// many times that.
const MAX_MAP_BYTES: usize = 16 << 10;
/// A pod in bytes, beside these. Without its containers, what it sends is still known to be of it.
const MAX_POD_BYTES: usize = 32 << 10;

/// Owners of a pod. One has one, and some have a few.
const MAX_OWNERS: usize = 16;

/// What of an object is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Enrichment and scraping, with all annotations of pods or only those that say something to Weir.
    Facts { annotations: bool },
    /// Metrics of the cluster.
    State,
    /// Metrics of the status of our own resources.
    Status,
}

/// A document.
pub(super) struct Kept {
    pub(super) document: Value,
    /// Labels, annotations, owners and containers for which it is too large.
    pub(super) left_out: usize,
}

/// What is used of an object of a kind, as a document.
pub(super) fn document(api_version: &str, kind: &str, object: &mut Value, purpose: Purpose) -> Kept {
    let of_kind = match (kind, purpose) {
        (_, Purpose::Status) => STATUS,
        ("Pod", Purpose::State) => POD_STATE,
        ("Pod", Purpose::Facts { .. }) => POD,
        ("Node", _) => NODE,
        ("Namespace", _) => NAMESPACE,
        ("ConfigMap", _) => CONFIG_MAP,
        ("Service", _) => SERVICE,
        ("EndpointSlice", _) => ENDPOINT_SLICE,
        _ => WORKLOAD,
    };
    let paths: Vec<&str> = METADATA.iter().chain(of_kind).copied().collect();
    let mut kept = keep(object, &paths);
    if let Some(annotations) = kept.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        let all = kind == "Pod" && purpose == (Purpose::Facts { annotations: true });
        annotations.retain(|key, _| key != LAST_APPLIED && (all || OURS.iter().any(|ours| key.starts_with(ours))));
    }
    kept["apiVersion"] = api_version.into();
    kept["kind"] = kind.into();
    let left_out = bound(kind, &mut kept);
    Kept { document: kept, left_out }
}

/// Leaves out what makes a document too large. Returns how much that was.
fn bound(kind: &str, document: &mut Value) -> usize {
    let mut left_out = 0;
    for path in ["/metadata/labels", "/metadata/annotations"] {
        let Some(map) = document.pointer_mut(path).and_then(Value::as_object_mut) else { continue };
        let (before, mut bytes) = (map.len(), 0);
        map.retain(|key, value| {
            bytes += key.len() + value.as_str().map_or(0, str::len);
            bytes <= MAX_MAP_BYTES
        });
        left_out += before - map.len();
    }
    if let Some(owners) = document.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) {
        left_out += owners.len().saturating_sub(MAX_OWNERS);
        owners.truncate(MAX_OWNERS);
    }
    let spec = document.get("spec").map_or(0, |spec| spec.to_string().len());
    if kind == "Pod" && spec > MAX_POD_BYTES {
        for list in ["containers", "initContainers"] {
            left_out += document["spec"][list].as_array_mut().map(std::mem::take).unwrap_or_default().len();
        }
    }
    left_out
}

/// A copy with these fields. A path goes through every element of a list; where it ends, all is kept.
fn keep(value: &mut Value, paths: &[&str]) -> Value {
    match value {
        Value::Array(elements) => elements.iter_mut().map(|element| keep(element, paths)).collect(),
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (index, path) in paths.iter().enumerate() {
                let head = head(path);
                // Paths with the same beginning are taken together, at the first of them.
                if paths[..index].iter().any(|before| self::head(before) == head) {
                    continue;
                }
                let Some(field) = fields.get_mut(head) else { continue };
                let rests: Vec<&str> =
                    paths.iter().filter(|path| self::head(path) == head).map(|path| tail(path)).collect();
                let field = if rests.contains(&"") { field.take() } else { keep(field, &rests) };
                kept.insert(head.to_owned(), field);
            }
            Value::Object(kept)
        }
        other => other.take(),
    }
}

fn head(path: &str) -> &str {
    path.split_once('.').map_or(path, |(head, _)| head)
}

fn tail(path: &str) -> &str {
    path.split_once('.').map_or("", |(_, tail)| tail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As a Deployment of a usual shop has it.
    fn pod() -> Value {
        json!({
            "metadata": {
                "name": "cart-7d4b9c6f5d-x2x9z", "namespace": "shop", "uid": "0a8f7c7e-38b5-4a4b-8d0f-1d8f0e6a2b11",
                "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z", "generateName": "cart-7d4b9c6f5d-",
                "labels": {"app.kubernetes.io/name": "cart", "pod-template-hash": "7d4b9c6f5d"},
                "annotations": {
                    "prometheus.io/scrape": "true", "checksum/config": "d0f".repeat(20),
                    "kubectl.kubernetes.io/last-applied-configuration": "x".repeat(3000),
                },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-7d4b9c6f5d", "uid": "u",
                    "controller": true, "blockOwnerDeletion": true,
                }],
                "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
            },
            "spec": {
                "nodeName": "n1",
                "containers": [{
                    "name": "cart", "image": "registry.example.com/shop/cart:1.2.3", "env": [{"name": "A", "value": "secret"}],
                    "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
                }],
                "volumes": [{"name": "a"}],
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "hostIP": "192.168.0.1",
                "containerStatuses": [{
                    "name": "cart", "ready": true, "restartCount": 2, "imageID": "x", "containerID": "containerd://1",
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }],
            },
        })
    }

    #[test]
    fn of_a_pod_there_is_less_than_a_kilobyte_and_nothing_of_its_environment() {
        let kept = document("v1", "Pod", &mut pod(), Purpose::Facts { annotations: false }).document;
        assert!(kept.to_string().len() < 800, "{} {kept}", kept.to_string().len());
        assert!(!kept.to_string().contains("secret"));
        assert_eq!(kept["metadata"]["annotations"], json!({"prometheus.io/scrape": "true"}));
        assert_eq!(kept["metadata"]["ownerReferences"], json!([{"kind": "ReplicaSet", "name": "cart-7d4b9c6f5d"}]));
        assert_eq!(kept["status"]["podIPs"], json!([{"ip": "10.0.0.7"}]));
        let all = document("v1", "Pod", &mut pod(), Purpose::Facts { annotations: true }).document;
        assert_eq!(all["metadata"]["annotations"].as_object().unwrap().len(), 2);
    }

    #[test]
    fn the_state_of_a_pod_is_what_metrics_tell() {
        let kept = document("v1", "Pod", &mut pod(), Purpose::State).document;
        assert_eq!(kept["spec"]["containers"][0]["resources"]["limits"], json!({"memory": "1Gi"}));
        assert_eq!(kept["status"]["containerStatuses"][0]["state"], json!({"running": {}}));
        assert_eq!(kept["metadata"].get("labels"), None);
    }

    #[test]
    fn what_is_too_large_is_left_out() {
        let mut large = pod();
        let labels = large["metadata"]["labels"].as_object_mut().unwrap();
        labels.extend((0..20_000).map(|number| (format!("label-{number}"), "value".into())));
        let containers =
            (0..2000).map(|number| json!({"name": format!("container-{number}"), "image": "nowhere/image"}));
        large["spec"]["containers"] = containers.collect();
        let owner = large["metadata"]["ownerReferences"][0].clone();
        large["metadata"]["ownerReferences"] = vec![owner; 1000].into();
        let Kept { document, left_out } = document("v1", "Pod", &mut large, Purpose::Facts { annotations: true });
        assert!(
            left_out > 20_900 && document.to_string().len() < 40 << 10,
            "{left_out}: {}",
            document.to_string().len()
        );
        assert_eq!(document["metadata"]["name"], pod()["metadata"]["name"]);
        assert_eq!(document["status"]["podIP"], pod()["status"]["podIP"]);
        let usual = super::document("v1", "Pod", &mut pod(), Purpose::Facts { annotations: true });
        assert_eq!(usual.left_out, 0);
    }
}
