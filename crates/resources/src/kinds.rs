//! Kinds: which documents are about telemetry, and which are not ours. The modules below say what each kind means.
//!
//! Files hold what belongs together, such as an Ingress beside its pipeline. So objects of others must be told from
//! misspelt ones: a group of ours has no other kinds, and one letter more or less does not make a kind of Kubernetes.

pub(crate) mod cluster;
mod convert;
mod defaults;
pub(crate) mod fields;
mod multiline;
mod object;
mod output;
pub(crate) mod pipeline;
mod reference;
pub(crate) mod secret;
pub(crate) mod status;
pub(crate) mod telemetry;
pub(crate) mod value;

use weir_plan::Signal;

use crate::document::suggest;
use crate::document::table::{Object, Type, Version};

pub use convert::{ConversionError, convert, is_convertible};
pub use defaults::with_defaults;
pub use output::certificate_expires;
pub use pipeline::LogOutputs;

/// A kind that means something here.
pub struct Kind {
    /// `kind`.
    pub name: &'static str,
    /// As `apiVersion` names them, the current one first.
    pub versions: &'static [(&'static str, Version)],
    /// What it is for.
    pub role: Role,
    /// What may be written; nothing for the objects of a cluster, of which little is read.
    pub fields: Option<&'static Object>,
}

/// What a kind is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Takes telemetry of a signal to a backend.
    Pipeline(Signal),
    /// Says what is added to all telemetry.
    Telemetry,
    /// Holds values that others refer to.
    Secret,
    /// An object of a cluster.
    Cluster,
    /// More documents.
    List,
}

/// The group of the pipelines; all of it is ours.
const PIPELINES: &str = "telemetry.kyma-project.io";

const PIPELINE: &[(&str, Version)] = &[
    ("telemetry.kyma-project.io/v1beta1", Version::V1Beta1),
    ("telemetry.kyma-project.io/v1alpha1", Version::V1Alpha1),
];
const TELEMETRY: &[(&str, Version)] =
    &[("operator.kyma-project.io/v1beta1", Version::V1Beta1), ("operator.kyma-project.io/v1alpha1", Version::V1Alpha1)];
const CORE: &[(&str, Version)] = &[("v1", Version::V1Beta1)];
const APPS: &[(&str, Version)] = &[("apps/v1", Version::V1Beta1)];
const BATCH: &[(&str, Version)] = &[("batch/v1", Version::V1Beta1)];
const AUTOSCALING: &[(&str, Version)] = &[("autoscaling/v2", Version::V1Beta1), ("autoscaling/v1", Version::V1Beta1)];
const DISCOVERY: &[(&str, Version)] = &[("discovery.k8s.io/v1", Version::V1Beta1)];

/// All of them.
pub const KINDS: &[Kind] = &[
    Kind::new("TracePipeline", PIPELINE, Role::Pipeline(Signal::Traces), Some(&fields::TRACE_PIPELINE)),
    Kind::new("MetricPipeline", PIPELINE, Role::Pipeline(Signal::Metrics), Some(&fields::METRIC_PIPELINE)),
    Kind::new("LogPipeline", PIPELINE, Role::Pipeline(Signal::Logs), Some(&fields::LOG_PIPELINE)),
    Kind::new("Telemetry", TELEMETRY, Role::Telemetry, Some(&fields::TELEMETRY)),
    Kind::new("Secret", CORE, Role::Secret, Some(&fields::SECRET)),
    Kind::new("Pod", CORE, Role::Cluster, None),
    Kind::new("Node", CORE, Role::Cluster, None),
    Kind::new("Namespace", CORE, Role::Cluster, None),
    Kind::new("ConfigMap", CORE, Role::Cluster, None),
    Kind::new("ReplicaSet", APPS, Role::Cluster, None),
    Kind::new("Job", BATCH, Role::Cluster, None),
    Kind::new("Deployment", APPS, Role::Cluster, None),
    Kind::new("StatefulSet", APPS, Role::Cluster, None),
    Kind::new("DaemonSet", APPS, Role::Cluster, None),
    Kind::new("CronJob", BATCH, Role::Cluster, None),
    Kind::new("HorizontalPodAutoscaler", AUTOSCALING, Role::Cluster, None),
    Kind::new("ReplicationController", CORE, Role::Cluster, None),
    Kind::new("ResourceQuota", CORE, Role::Cluster, None),
    Kind::new("PersistentVolume", CORE, Role::Cluster, None),
    Kind::new("PersistentVolumeClaim", CORE, Role::Cluster, None),
    Kind::new("Service", CORE, Role::Cluster, None),
    Kind::new("Endpoints", CORE, Role::Cluster, None),
    Kind::new("EndpointSlice", DISCOVERY, Role::Cluster, None),
    Kind::new("List", CORE, Role::List, Some(&fields::LIST)),
];

impl Kind {
    const fn new(
        name: &'static str,
        versions: &'static [(&'static str, Version)],
        role: Role,
        fields: Option<&'static Object>,
    ) -> Self {
        Self { name, versions, role, fields }
    }

    /// The kind of this name.
    pub(crate) fn of(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// The fields of its `spec`.
    pub(crate) fn spec(&self) -> Option<&'static Object> {
        match self.fields?.field("spec")?.of {
            Type::Object(spec) => Some(spec),
            _ => None,
        }
    }

    /// The name that the API has for all objects of this kind: `tracepipelines`.
    pub(crate) fn plural(&self) -> String {
        let kind = self.name.to_lowercase();
        match kind.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => kind + "s",
        }
    }

    /// A kind that has two versions, and the version of it that `api_version` names.
    pub(crate) fn versioned(api_version: &str, kind: &str) -> Option<(&'static Self, Version)> {
        let kind = Self::of(kind).filter(|kind| kind.fields.is_some() && kind.versions.len() > 1)?;
        let (_, version) = kind.versions.iter().find(|(name, _)| *name == api_version)?;
        Some((kind, *version))
    }

    pub(crate) fn group(&self) -> &'static str {
        self.versions.first().map_or("", |(api_version, _)| group(api_version))
    }
}

/// Whether a document of this version and kind is somebody else's, and not a mistake.
pub(crate) fn is_foreign(api_version: &str, kind: &str) -> bool {
    let group = group(api_version);
    let known = Kind::of(kind);
    if group == PIPELINES || known.is_some_and(|known| known.group() == PIPELINES) {
        return false;
    }
    if let Some(known) = known {
        // Groups with a dot belong to whoever owns the domain, and may have kinds of the same name.
        return group != known.group() && group.contains('.') && !suggest::is_misspelt(known.group(), group);
    }
    !KINDS.iter().any(|known| known.group() == group && suggest::is_misspelt(known.name, kind))
}

/// `apps` of `apps/v1`; the core of Kubernetes has none.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_misspelt_is_not_somebody_elses() {
        for (api_version, kind) in [
            ("networking.k8s.io/v1", "Ingress"),
            ("serving.knative.dev/v1", "Service"),
            ("v1", "ServiceAccount"),
            ("rbac.authorization.k8s.io/v1", "Role"),
            ("policy/v1", "PodDisruptionBudget"),
            ("external-secrets.io/v1", "SecretStore"),
            ("apps/v1", "ControllerRevision"),
            ("batch.volcano.sh/v1alpha1", "Job"),
            ("telemetry.istio.io/v1", "Telemetry"),
            ("tekton.dev/v1", "Pipeline"),
            ("operator.kyma-project.io/v1alpha2", "Istio"),
        ] {
            assert!(is_foreign(api_version, kind), "{api_version} {kind}");
        }
        for (api_version, kind) in [
            ("telemetry.kyma-project.io/v1beta1", "TracePipline"),
            ("telemetry.kyma-project.io/v1beta1", "Anything"),
            ("telemetry.kyma-projekt.io/v1beta1", "TracePipeline"),
            ("operator.kyma-project.io/v1beta1", "Telemetri"),
            ("operator.kyma-projekt.io/v1beta1", "Telemetry"),
            ("v1", "Secrets"),
            ("v2", "Secret"),
            ("v1", "ReplicaSet"),
            ("apps/v1", "ReplicaSets"),
        ] {
            assert!(!is_foreign(api_version, kind), "{api_version} {kind}");
        }
    }
}
