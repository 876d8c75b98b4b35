//! The DaemonSet: one pod on every node, which plays all parts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Nodes, labels};
use crate::operator::names::{self, CONTAINER, NAME_LABEL, NODE};

/// The new pod is there before the old one ends. It asks the old one for the data directory, and becomes ready with it:
/// docs/decisions/022-two-generations-of-a-pod.md.
const UPDATE: (u8, u8) = (1, 0);

/// Time for clients to hear that a pod is going, for what is pending to be delivered, and for the directory to be left.
const GRACE_SECONDS: u32 = 45;
/// How long a pod that is going takes requests still, until no Service sends it any.
const FAREWELL_SECONDS: u32 = 5;

/// Nobody: a user that owns nothing on a node but its data directory.
const USER: u32 = 10_001;
/// Files of containers belong to this group, which may read them, and to nobody else.
const GROUP_OF_LOGS: u32 = 0;

/// Where the data directory is in the container.
const DATA: &str = "/var/lib/weir";
const POD_LOGS: &str = "/var/log/pods";
const CERTIFICATES: &str = "/etc/ssl/certs";
const MESH_CERTIFICATES: &str = "/etc/istio-output-certs";

/// Ports of backends that go through the mesh whichever pipelines there are: one of another port changes the pods.
const MESH_PORTS: [u16; 4] = [443, names::GRPC_PORT, names::HTTP_PORT, 8443];

impl Nodes<'_> {
    pub(super) fn daemon_set(&self) -> Value {
        let options = self.options;
        let (surge, unavailable) = UPDATE;
        let mut metadata = self.metadata(NODE);
        extend(&mut metadata["labels"], &options.workload_labels);
        metadata["annotations"] = json!(options.workload_annotations);
        json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": metadata,
            "spec": {
                "selector": { "matchLabels": { NAME_LABEL: NODE } },
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable },
                },
                "template": {
                    "metadata": { "labels": self.pod_labels(), "annotations": self.pod_annotations() },
                    "spec": self.pod(),
                },
            },
        })
    }

    fn pod(&self) -> Value {
        let options = self.options;
        let mut pod = json!({
            "serviceAccountName": NODE,
            "priorityClassName": options.high_priority_class,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "nodeSelector": options.node_selector,
            "tolerations": options.tolerations,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": USER,
                "runAsGroup": USER,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "initContainers": [self.owner_of_data()],
            "containers": [self.container()],
            "volumes": self.volumes(),
        });
        if self.needs.container_logs {
            pod["securityContext"]["supplementalGroups"] = json!([GROUP_OF_LOGS]);
        }
        if !options.image_pull_secrets.is_empty() {
            let secrets = options.image_pull_secrets.iter().map(|name| json!({ "name": name }));
            pod["imagePullSecrets"] = secrets.collect();
        }
        pod
    }

    fn container(&self) -> Value {
        let options = self.options;
        let field =
            |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        let port = |name: &str, port: u16| json!({ "name": name, "containerPort": port, "protocol": "TCP" });
        let probe = |path: &str, seconds: u8, failures: u8| {
            json!({
                "httpGet": { "path": path, "port": names::HEALTH_PORT },
                "periodSeconds": seconds,
                "timeoutSeconds": 2,
                "failureThreshold": failures,
            })
        };
        let mut args = vec!["node", "--namespace", &options.namespace, "--listen", "0.0.0.0", "--data-dir", DATA];
        args.extend(options.node_args.iter().map(String::as_str));
        json!({
            "name": CONTAINER,
            "image": options.image,
            "args": args,
            "env": [
                field("NODE_NAME", "spec.nodeName"),
                field("POD_NAME", "metadata.name"),
                // Which of two pods is the newer one.
                field("POD_UID", "metadata.uid"),
                field("POD_IP", "status.podIP"),
                field("NODE_IP", "status.hostIP"),
            ],
            "ports": [
                port("grpc-collector", names::GRPC_PORT),
                port("http-collector", names::HTTP_PORT),
                port("http-metrics", names::METRICS_PORT),
                port("health", names::HEALTH_PORT),
            ],
            // A journal that is read back takes as long as it takes.
            "startupProbe": probe("/live", 1, 120),
            "livenessProbe": probe("/live", 10, 6),
            "readinessProbe": probe("/", 2, 2),
            "lifecycle": { "preStop": { "sleep": { "seconds": FAREWELL_SECONDS } } },
            "resources": options.resources,
            "securityContext": restricted(&json!([])),
            "volumeMounts": self.mounts(),
        })
    }

    /// The kubelet makes the directory for root. This gives it to the user of the container, and needs no other right.
    fn owner_of_data(&self) -> Value {
        let mut security = restricted(&json!(["CHOWN"]));
        security["runAsUser"] = 0.into();
        security["runAsGroup"] = 0.into();
        security["runAsNonRoot"] = false.into();
        json!({
            "name": "data-directory",
            "image": self.options.image,
            "args": ["own", DATA, format!("{USER}:{USER}")],
            "resources": { "requests": { "cpu": "10m", "memory": "16Mi" }, "limits": { "memory": "64Mi" } },
            "securityContext": security,
            "volumeMounts": [{ "name": "data", "mountPath": DATA }],
        })
    }

    fn mounts(&self) -> Value {
        let mut mounts = vec![json!({ "name": "data", "mountPath": DATA })];
        let mut read_only = |name: &str, path: &str| {
            mounts.push(json!({ "name": name, "mountPath": path, "readOnly": true }));
        };
        if self.needs.container_logs {
            read_only("pod-logs", POD_LOGS);
        }
        if self.options.trust_bundle.is_some() {
            read_only("trust-bundle", CERTIFICATES);
        }
        if self.istio {
            read_only("istio-certs", MESH_CERTIFICATES);
        }
        mounts.into()
    }

    fn volumes(&self) -> Value {
        let data = json!({ "path": self.options.data_path, "type": "DirectoryOrCreate" });
        let mut volumes = vec![json!({ "name": "data", "hostPath": data })];
        if self.needs.container_logs {
            volumes.push(json!({ "name": "pod-logs", "hostPath": { "path": POD_LOGS } }));
        }
        if let Some(name) = &self.options.trust_bundle {
            let bundle = json!({ "clusterTrustBundle": { "name": name, "path": "ca-certificates.crt" } });
            volumes.push(json!({ "name": "trust-bundle", "projected": { "sources": [bundle] } }));
        }
        if self.istio {
            volumes.push(json!({ "name": "istio-certs", "emptyDir": {} }));
        }
        volumes.into()
    }

    fn pod_labels(&self) -> Value {
        let mut of_pod = labels(NODE, "gateway");
        // Policies of users select by these. They are there whichever pipelines are: a new label is a new pod.
        for word in ["log", "metric", "trace"] {
            of_pod[format!("telemetry.kyma-project.io/{word}-ingest")] = "true".into();
            of_pod[format!("telemetry.kyma-project.io/{word}-export")] = "true".into();
        }
        of_pod["telemetry.kyma-project.io/metric-scrape"] = "true".into();
        of_pod["networking.kyma-project.io/metrics-scraping"] = "allowed".into();
        if self.istio {
            of_pod["sidecar.istio.io/inject"] = "true".into();
        }
        extend(&mut of_pod, &self.options.pod_labels);
        of_pod
    }

    fn pod_annotations(&self) -> Value {
        let mut of_pod = json!({});
        if self.istio {
            let ports = MESH_PORTS.into_iter().chain(self.ports.iter().copied());
            let ports: std::collections::BTreeSet<_> = ports.collect();
            let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
            // Clients and scrapers reach the pod itself. Backends are reached through the mesh, and scraped pods are not.
            of_pod["traffic.sidecar.istio.io/includeInboundPorts"] = "".into();
            of_pod["traffic.sidecar.istio.io/includeOutboundIPRanges"] = "".into();
            of_pod["traffic.sidecar.istio.io/includeOutboundPorts"] = ports.join(",").into();
            // Targets may want to see a certificate of the mesh.
            let written = format!("proxyMetadata:\n  OUTPUT_CERTS: {MESH_CERTIFICATES}\n");
            let mount = json!([{ "name": "istio-certs", "mountPath": MESH_CERTIFICATES }]);
            of_pod["proxy.istio.io/config"] = written.into();
            of_pod["sidecar.istio.io/userVolumeMount"] = mount.to_string().into();
        }
        extend(&mut of_pod, &self.options.pod_annotations);
        of_pod
    }
}

/// No right but these.
fn restricted(capabilities: &Value) -> Value {
    let mut of_container = json!({
        "allowPrivilegeEscalation": false,
        "privileged": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    if capabilities.as_array().is_some_and(|capabilities| !capabilities.is_empty()) {
        of_container["capabilities"]["add"] = capabilities.clone();
    }
    of_container
}

/// What is ours stays: a selector without its label would select nothing.
fn extend(known: &mut Value, more: &BTreeMap<String, String>) {
    for (key, value) in more {
        if known.get(key).is_none() {
            known[key.as_str()] = value.as_str().into();
        }
    }
}
