//! Which documents concern telemetry, by group and kind, and which are somebody else's.
//!
//! Files hold what belongs together: a Deployment beside its pipeline. What is somebody else's is told from what is
//! misspelt: a group of ours has no other kinds, and one letter more or less does not make a kind of Kubernetes.

pub(crate) mod cluster;
mod convert;
mod object;
mod output;
pub(crate) mod pipeline;
pub(crate) mod secret;
pub(crate) mod telemetry;
pub(crate) mod value;

use crate::document::suggest;

pub use convert::{ConversionError, convert, is_convertible};
pub use pipeline::LogOutputs;

/// Version of an API a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Deprecated.
    V1Alpha1,
    /// Current.
    V1Beta1,
}

impl Version {
    /// `v1alpha1` or `v1beta1`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// The group of the pipelines; all of it is ours.
const PIPELINES: &str = "telemetry.kyma-project.io";

/// The kinds of pipelines.
const PIPELINE_KINDS: [&str; 3] = ["TracePipeline", "MetricPipeline", "LogPipeline"];

/// Other kinds that mean something, and their groups.
const OTHERS: [(&str, &str); 3] = [("Telemetry", "operator.kyma-project.io"), ("Secret", ""), ("List", "")];

/// All kinds that mean something.
pub(crate) fn known(lists: bool) -> Vec<&'static str> {
    let others = ["Telemetry", "Secret"].into_iter().chain(cluster::KINDS.iter().map(|(kind, _)| *kind));
    PIPELINE_KINDS.into_iter().chain(others).chain(lists.then_some("List")).collect()
}

/// Whether a document of this version and kind is somebody else's, and not a mistake.
pub(crate) fn is_foreign(api_version: &str, kind: &str) -> bool {
    let group = group(api_version);
    if group == PIPELINES || PIPELINE_KINDS.contains(&kind) {
        return false;
    }
    let with_groups =
        || OTHERS.into_iter().chain(cluster::KINDS.iter().map(|(kind, version)| (*kind, self::group(version))));
    if let Some((_, ours)) = with_groups().find(|(known, _)| *known == kind) {
        // Groups with a dot belong to whoever owns the domain, and may have kinds of the same name.
        return group != ours && group.contains('.') && !suggest::is_misspelt(ours, group);
    }
    !with_groups().any(|(known, ours)| ours == group && suggest::is_misspelt(known, kind))
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
            ("apps/v1", "Deployment"),
            ("v1", "Service"),
            ("v1", "ServiceAccount"),
            ("rbac.authorization.k8s.io/v1", "Role"),
            ("policy/v1", "PodDisruptionBudget"),
            ("external-secrets.io/v1", "SecretStore"),
            ("batch/v1", "CronJob"),
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
