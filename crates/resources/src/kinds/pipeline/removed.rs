//! Attributes that enrichment removes before rules run, so that rules about them never match.

use weir_plan::{ServiceEnrichment, Signal};

use crate::diagnostic::{Diagnostic, Place};

/// What is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    /// What Istio's proxies call their service.
    ServiceOfProxies,
    /// The name of a service that says that it is unknown.
    UnknownService,
    /// Attributes of a resource that are internal to the components of Kyma.
    Internal,
    /// The attribute by which access logs of Istio are known.
    AccessLog,
}

const OTHER_MODE: &str = "a Telemetry with the annotation telemetry.kyma-project.io/service-enrichment: kyma-legacy";

impl Removed {
    const ALL: [Self; 4] = [Self::ServiceOfProxies, Self::UnknownService, Self::Internal, Self::AccessLog];

    /// What the text of a rule for a signal asks for.
    pub(crate) fn asked_for(text: &str, signal: Signal) -> impl Iterator<Item = Self> {
        let is_asked = move |removed: &Self| {
            removed.words(signal).is_some_and(|words| words.iter().all(|word| text.contains(word)))
        };
        Self::ALL.into_iter().filter(is_asked)
    }

    /// What a rule has to name to ask for it; nothing where the signal has no such thing.
    fn words(self, signal: Signal) -> Option<&'static [&'static str]> {
        match (self, signal) {
            (Self::ServiceOfProxies, Signal::Traces) => Some(&["\"proxy\"", "\"service."]),
            (Self::UnknownService, _) => Some(&["\"service.name\"", "\"unknown_service"]),
            (Self::Internal, _) => Some(&["resource.attributes[\"kyma."]),
            (Self::AccessLog, Signal::Logs) => Some(&["log.attributes[\"kyma.module\"]", "\"istio\""]),
            (Self::ServiceOfProxies | Self::AccessLog, _) => None,
        }
    }

    /// Whether it is taken away in a mode.
    pub(crate) fn is_removed(self, mode: ServiceEnrichment) -> bool {
        match self {
            Self::ServiceOfProxies | Self::UnknownService => mode == ServiceEnrichment::Otel,
            Self::Internal | Self::AccessLog => true,
        }
    }

    pub(crate) fn warning(self, place: &Place) -> Diagnostic {
        let (message, expected) = match self {
            Self::ServiceOfProxies => (
                "service.* attributes of Istio's proxies are removed before rules see them: what is compared here is the \
                 name of the pod that sent, if it is known (docs/enrichment.md#service-attributes)",
                format!("k8s.* attributes, or {OTHER_MODE}"),
            ),
            Self::UnknownService => (
                "a service.name that starts with unknown_service is removed before rules see it \
                 (docs/enrichment.md#service-attributes)",
                format!("resource.attributes[\"service.name\"] == nil, or {OTHER_MODE}"),
            ),
            Self::Internal => (
                "attributes of a resource that start with kyma. are internal and removed before rules see them \
                 (docs/enrichment.md#what-is-added)",
                "an attribute of another name".to_owned(),
            ),
            Self::AccessLog => (
                "the attribute kyma.module of Istio's access logs is removed before rules see it \
                 (docs/enrichment.md#access-logs-of-istio)",
                "scope.name == \"io.kyma-project.telemetry/istio\"".to_owned(),
            ),
        };
        Diagnostic::warning(place, message, expected)
    }
}
