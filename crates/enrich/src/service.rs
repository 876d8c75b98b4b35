//! `service.*` attributes that depend on what a resource says itself.
//!
//! Sources: the Kyma processor `service_enrichment` for the legacy mode, the Collector's `k8s_attributes` processor for
//! the OpenTelemetry mode.

use weir_otlp::common::AnyValue;
use weir_otlp::conventions;
use weir_plan::ServiceEnrichment;

use crate::attributes::{OF_RESOURCE, text, texts};
use crate::facts::Attribute;
use crate::resource::Sender;

/// What SDKs call a service that nobody named, also followed by a colon and the name of the executable.
const UNKNOWN: &str = "unknown_service";

/// Attributes that the resource shall have besides the facts about its sender, unless it has them itself.
pub(crate) fn attributes(sender: &Sender<'_>, mode: ServiceEnrichment) -> Vec<Attribute> {
    match mode {
        ServiceEnrichment::KymaLegacy => legacy_name(sender).into_iter().collect(),
        ServiceEnrichment::Otel => otel(sender),
    }
}

/// Whether a service has this name because nobody gave it one.
pub(crate) fn is_unknown(name: AnyValue<'_>, mode: ServiceEnrichment) -> bool {
    let Some(executable) = text(name).strip_prefix(UNKNOWN) else { return false };
    match mode {
        ServiceEnrichment::KymaLegacy => {
            let named = executable.strip_prefix(':').is_some_and(|name| !name.is_empty() && !name.contains('\n'));
            executable.is_empty() || named
        }
        ServiceEnrichment::Otel => true,
    }
}

/// The name of a service that has none: from the pod's labels, then its owner, then the pod.
fn legacy_name(sender: &Sender<'_>) -> Option<Attribute> {
    let own = sender.own("service.name");
    if own.is_some_and(|name| !is_unknown(name, ServiceEnrichment::KymaLegacy)) {
        return None;
    }
    const OWNERS: [&str; 5] =
        ["k8s.deployment.name", "k8s.daemonset.name", "k8s.statefulset.name", "k8s.job.name", conventions::POD_NAME];
    let owner = || OWNERS.iter().map(|key| sender.text(key)).find(|name| !name.is_empty());
    let name = sender.facts.app().or_else(owner).unwrap_or_else(|| own.map_or(UNKNOWN, text));
    Some(Attribute::new("service.name", name))
}

fn otel(sender: &Sender<'_>) -> Vec<Attribute> {
    let Some(resource) = sender.resource else { return sender.facts.container("").to_vec() };
    let [container, namespace] =
        texts(resource.0, OF_RESOURCE, [conventions::CONTAINER_NAME, conventions::NAMESPACE_NAME]);
    let mut attributes = sender.facts.container(container).to_vec();
    if !namespace.is_empty() && sender.facts.get("service.namespace").is_none() {
        attributes.push(Attribute::new("service.namespace", namespace));
    }
    attributes
}
