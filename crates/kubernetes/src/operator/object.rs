//! Objects of Kubernetes as JSON: what to call them, and what every object has.

use std::fmt;

use serde_json::Value;

/// What names one object of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey {
    /// As `apiVersion` has it, for example `apps/v1`.
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    /// Nothing for objects of the whole cluster.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl ObjectKey {
    /// An object of the whole cluster.
    pub(crate) fn cluster((api_version, kind): (&'static str, &'static str), name: impl Into<String>) -> Self {
        Self { api_version, kind, namespace: None, name: name.into() }
    }

    pub(crate) fn within(self, namespace: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Kinds, as `apiVersion` and `kind`.
pub(crate) mod kinds {
    pub(crate) type Kind = (&'static str, &'static str);

    pub(crate) const CONFIG_MAP: Kind = ("v1", "ConfigMap");
    pub(crate) const SECRET: Kind = ("v1", "Secret");
    pub(crate) const SERVICE: Kind = ("v1", "Service");
    pub(crate) const SERVICE_ACCOUNT: Kind = ("v1", "ServiceAccount");
    pub(crate) const DAEMON_SET: Kind = ("apps/v1", "DaemonSet");
    pub(crate) const DEPLOYMENT: Kind = ("apps/v1", "Deployment");
    pub(crate) const STATEFUL_SET: Kind = ("apps/v1", "StatefulSet");
    pub(crate) const AUTOSCALER: Kind = ("autoscaling/v2", "HorizontalPodAutoscaler");
    pub(crate) const DISRUPTION_BUDGET: Kind = ("policy/v1", "PodDisruptionBudget");
    pub(crate) const ROLE: Kind = ("rbac.authorization.k8s.io/v1", "Role");
    pub(crate) const ROLE_BINDING: Kind = ("rbac.authorization.k8s.io/v1", "RoleBinding");
    pub(crate) const CLUSTER_ROLE: Kind = ("rbac.authorization.k8s.io/v1", "ClusterRole");
    pub(crate) const CLUSTER_ROLE_BINDING: Kind = ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding");
    pub(crate) const NETWORK_POLICY: Kind = ("networking.k8s.io/v1", "NetworkPolicy");
    pub(crate) const PRIORITY_CLASS: Kind = ("scheduling.k8s.io/v1", "PriorityClass");
    pub(crate) const DESTINATION_RULE: Kind = ("networking.istio.io/v1", "DestinationRule");
    pub(crate) const PEER_AUTHENTICATION: Kind = ("security.istio.io/v1", "PeerAuthentication");
    pub(crate) const VERTICAL_POD_AUTOSCALER: Kind = ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler");
    pub(crate) const TRACE_PIPELINE: Kind = ("telemetry.kyma-project.io/v1beta1", "TracePipeline");
    pub(crate) const METRIC_PIPELINE: Kind = ("telemetry.kyma-project.io/v1beta1", "MetricPipeline");
    pub(crate) const LOG_PIPELINE: Kind = ("telemetry.kyma-project.io/v1beta1", "LogPipeline");
    pub(crate) const TELEMETRY: Kind = ("operator.kyma-project.io/v1beta1", "Telemetry");

    /// Those of Weir.
    pub(crate) const OURS: [Kind; 4] = [TRACE_PIPELINE, METRIC_PIPELINE, LOG_PIPELINE, TELEMETRY];

    /// What the API calls all objects of a kind.
    pub(crate) fn plural(kind: &str) -> String {
        let kind = kind.to_lowercase();
        match kind.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None if kind.ends_with('s') => kind + "es",
            None => kind + "s",
        }
    }
}

/// The text at a path, as `/metadata/name`.
pub(crate) fn text<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    object.pointer(path).and_then(Value::as_str)
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name").unwrap_or_default()
}

pub(crate) fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default()
}

/// Whether an annotation means something here. Others belong to others.
pub(crate) fn is_our_annotation(key: &str) -> bool {
    ["weir.dev/", "telemetry.kyma-project.io/"].iter().any(|ours| key.starts_with(ours))
}

/// Whether somebody deleted it and it is still there.
pub(crate) fn is_being_deleted(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// Whether the switch at this path is on; `default` if it is not there.
pub(crate) fn switch(object: &Value, path: &str, default: bool) -> bool {
    object.pointer(path).and_then(Value::as_bool).unwrap_or(default)
}
