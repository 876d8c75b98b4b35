//! Pods: what every workload's are, and what depends on what they do.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Nodes, labels};
use crate::node::Roles;
use crate::operator::layout::Workload;
use crate::operator::names::{self, CONTAINER, NODE};
use crate::operator::options::{Replicas, SecretKey};

/// Time for clients to hear that a pod is going, for what is pending to be delivered, and for the directory to be left.
const GRACE_SECONDS: u32 = 45;
/// How long a pod that is going takes requests still, until no Service sends it any.
const FAREWELL_SECONDS: u32 = 5;
/// How long replicas may deliver what they have before they end: a volume keeps the rest for the next pod of its name, and
/// without one the rest is lost.
const DRAIN_SECONDS: [u32; 2] = [60, 300];
/// Connections to a replica that has nothing to do live this long, and a tenth of it where there is most to do.
const CONNECTION_AGE: &str = "2m";

/// Nobody: a user that owns nothing on a node but its data directory.
const USER: u32 = 10_001;
/// Files of containers belong to this group, which may read them, and to nobody else.
const GROUP_OF_LOGS: u32 = 0;

/// Where the directory for data is in the container.
const DATA: &str = "/var/lib/weir";
const POD_LOGS: &str = "/var/log/pods";
const CERTIFICATES: &str = "/etc/ssl/certs";
const MESH_CERTIFICATES: &str = "/etc/istio-output-certs";
/// The whole directory is mounted: what is mounted with a `subPath` stays as it was when the Secret changes.
const ADMIN_TOKENS: &str = "/etc/weir/admin-tokens";
/// The key of the Secret as a file, whatever its name is.
const TOKENS_FILE: &str = "tokens";

/// Ports of backends that go through the mesh whichever pipelines there are: one of another port changes the pods.
const MESH_PORTS: [u16; 4] = [443, names::GRPC_PORT, names::HTTP_PORT, 8443];

/// The pods of a workload.
pub(super) struct Pods<'a> {
    pub(super) nodes: &'a Nodes<'a>,
    pub(super) workload: Workload,
    pub(super) roles: Roles,
    /// Of a workload with replicas.
    pub(super) replicas: Option<&'a Replicas>,
}

impl Pods<'_> {
    /// Changing it makes other pods.
    pub(super) fn template(&self) -> Value {
        json!({
            "metadata": { "labels": self.labels(), "annotations": self.annotations() },
            "spec": self.spec(),
        })
    }

    /// Whether files of containers are read.
    fn reads_logs(&self) -> bool {
        self.roles.logs && self.nodes.needs.container_logs
    }

    fn spec(&self) -> Value {
        let options = self.nodes.options;
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
            "containers": [self.container()],
            "volumes": self.volumes(),
        });
        match self.replicas {
            None => pod["initContainers"] = json!([self.owner_of_data()]),
            Some(replicas) => {
                // Its backlog has this long, and then requests that are under way have.
                pod["terminationGracePeriodSeconds"] = (GRACE_SECONDS + 2 * self.drain_seconds()).into();
                pod["tolerations"] = replicas.tolerations.clone();
                pod["securityContext"]["fsGroup"] = USER.into();
                pod["securityContext"]["fsGroupChangePolicy"] = "OnRootMismatch".into();
                pod["topologySpreadConstraints"] = json!([{
                    "topologyKey": "kubernetes.io/hostname",
                    "maxSkew": 1,
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": { "matchLabels": self.selector() },
                }]);
            }
        }
        if self.reads_logs() {
            pod["securityContext"]["supplementalGroups"] = json!([GROUP_OF_LOGS]);
        }
        if !options.image_pull_secrets.is_empty() {
            let secrets = options.image_pull_secrets.iter().map(|name| json!({ "name": name }));
            pod["imagePullSecrets"] = secrets.collect();
        }
        pod
    }

    pub(super) fn selector(&self) -> Value {
        json!({ names::NAME_LABEL: self.workload.name() })
    }

    fn drain_seconds(&self) -> u32 {
        let [stateful, stateless] = DRAIN_SECONDS;
        if self.workload == Workload::Stateful { stateful } else { stateless }
    }

    fn args(&self) -> Vec<String> {
        let options = self.nodes.options;
        let data = match self.workload.directory() {
            Some(directory) => format!("{DATA}/{directory}"),
            None => DATA.to_owned(),
        };
        let mut args = ["node", "--namespace", &options.namespace, "--listen", "0.0.0.0", "--data-dir", &data]
            .map(str::to_owned)
            .to_vec();
        // Where a process has all of them, it does what pipelines ask for.
        if self.roles != (Roles { gateway: true, logs: true, metrics: true }) {
            let names = self.roles.names();
            args.extend(["--roles".to_owned(), if names.is_empty() { "backlog".to_owned() } else { names.join(",") }]);
        }
        if self.roles.logs && self.workload.directory().is_some() {
            // Of which there is one a node, whoever reads.
            args.extend(["--log-positions".to_owned(), format!("{DATA}/logs")]);
        }
        if self.replicas.is_some() {
            let seconds = format!("{}s", self.drain_seconds());
            let of_replicas = ["--drain-backlog", "--drain-timeout", &seconds, "--max-connection-age", CONNECTION_AGE];
            args.extend(["--all-pods", "--rebalance"].into_iter().chain(of_replicas).map(str::to_owned));
        }
        if let Some(cpu) = self.replicas.and_then(|replicas| replicas.resources.pointer("/requests/cpu")) {
            // An autoscaler measures by it, too.
            args.extend(["--rebalance-cpu".to_owned(), cpu.as_str().map_or_else(|| cpu.to_string(), str::to_owned)]);
        }
        if options.admin_tokens.is_some() {
            args.extend(["--admin-token-file".to_owned(), format!("{ADMIN_TOKENS}/{TOKENS_FILE}")]);
        }
        args.extend(options.node_args.iter().cloned());
        args
    }

    fn container(&self) -> Value {
        let options = self.nodes.options;
        let resources = self.replicas.map_or(&options.resources, |replicas| &replicas.resources);
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
        let mut ports = vec![port("http-metrics", names::METRICS_PORT), port("health", names::HEALTH_PORT)];
        if self.roles.gateway {
            let otlp = [port("grpc-collector", names::GRPC_PORT), port("http-collector", names::HTTP_PORT)];
            ports.splice(0..0, otlp);
        }
        json!({
            "name": CONTAINER,
            "image": options.image,
            "args": self.args(),
            "env": [
                field("NODE_NAME", "spec.nodeName"),
                field("POD_NAME", "metadata.name"),
                // Which of two pods is the newer one.
                field("POD_UID", "metadata.uid"),
                field("NODE_IP", "status.hostIP"),
            ],
            "ports": ports,
            // A journal that is read back takes as long as it takes.
            "startupProbe": probe("/live", 1, 120),
            "livenessProbe": probe("/live", 10, 6),
            "readinessProbe": probe("/", 2, 2),
            "lifecycle": { "preStop": { "sleep": { "seconds": FAREWELL_SECONDS } } },
            "resources": resources,
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
            "image": self.nodes.options.image,
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
        if self.reads_logs() {
            read_only("pod-logs", POD_LOGS);
        }
        if self.nodes.options.trust_bundle.is_some() {
            read_only("trust-bundle", CERTIFICATES);
        }
        if self.nodes.options.admin_tokens.is_some() {
            read_only("admin-tokens", ADMIN_TOKENS);
        }
        if self.nodes.istio {
            read_only("istio-certs", MESH_CERTIFICATES);
        }
        mounts.into()
    }

    fn volumes(&self) -> Value {
        let of_node = json!({ "path": self.nodes.options.data_path, "type": "DirectoryOrCreate" });
        let mut volumes = match self.workload {
            // It has a claim of its own.
            Workload::Stateful => Vec::new(),
            Workload::Stateless => vec![json!({ "name": "data", "emptyDir": {} })],
            _ => vec![json!({ "name": "data", "hostPath": of_node })],
        };
        if self.reads_logs() {
            volumes.push(json!({ "name": "pod-logs", "hostPath": { "path": POD_LOGS } }));
        }
        if let Some(name) = &self.nodes.options.trust_bundle {
            let bundle = json!({ "clusterTrustBundle": { "name": name, "path": "ca-certificates.crt" } });
            volumes.push(json!({ "name": "trust-bundle", "projected": { "sources": [bundle] } }));
        }
        if let Some(SecretKey { name, key }) = &self.nodes.options.admin_tokens {
            let item = json!({ "key": key, "path": TOKENS_FILE });
            volumes.push(json!({ "name": "admin-tokens", "secret": { "secretName": name, "items": [item] } }));
        }
        if self.nodes.istio {
            volumes.push(json!({ "name": "istio-certs", "emptyDir": {} }));
        }
        volumes.into()
    }

    fn labels(&self) -> Value {
        let mut of_pod = labels(self.workload.name(), self.workload.component());
        // Policies of users select by these. They are there whichever pipelines are: a new label is a new pod.
        for word in ["log", "metric", "trace"] {
            if self.roles.gateway {
                of_pod[format!("telemetry.kyma-project.io/{word}-ingest")] = "true".into();
            }
            of_pod[format!("telemetry.kyma-project.io/{word}-export")] = "true".into();
        }
        if self.roles.metrics {
            of_pod["telemetry.kyma-project.io/metric-scrape"] = "true".into();
        }
        of_pod["networking.kyma-project.io/metrics-scraping"] = "allowed".into();
        if self.nodes.istio {
            of_pod["sidecar.istio.io/inject"] = "true".into();
        }
        extend(&mut of_pod, &self.nodes.options.pod_labels);
        of_pod
    }

    fn annotations(&self) -> Value {
        let mut of_pod = json!({});
        if self.nodes.istio {
            let ports = MESH_PORTS.into_iter().chain(self.nodes.ports.iter().copied());
            let ports: BTreeSet<_> = ports.collect();
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
        extend(&mut of_pod, &self.nodes.options.pod_annotations);
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
pub(super) fn extend(known: &mut Value, more: &BTreeMap<String, String>) {
    for (key, value) in more {
        if known.get(key).is_none() {
            known[key.as_str()] = value.as_str().into();
        }
    }
}
