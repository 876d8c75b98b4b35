//! `Telemetry` (group `operator.kyma-project.io`): what is added to all telemetry.
//!
//! The fields that once scaled gateways are deprecated, and have no effect.

use std::time::Duration;

use weir_plan::{CollectionIntervals, PodLabels, ServiceEnrichment};
use weir_units::quantity;

use crate::diagnostic::Diagnostic;
use crate::document::{Fields, Node};
use crate::kinds::fields::NO_INTERVAL;
use crate::kinds::object::{self, Metadata};

/// The only one that counts.
const NAME: &str = "default";

pub(crate) const SERVICE_ENRICHMENTS: [(&str, ServiceEnrichment); 2] =
    [("otel", ServiceEnrichment::Otel), ("kyma-legacy", ServiceEnrichment::KymaLegacy)];

/// A checked document.
pub(crate) struct Telemetry {
    pub(crate) metadata: Metadata,
    pub(crate) service: ServiceEnrichment,
    pub(crate) spec: Spec,
}

/// What `spec` says.
#[derive(Default)]
pub(crate) struct Spec {
    pub(crate) enrichments: Enrichments,
    pub(crate) intervals: CollectionIntervals,
}

/// `enrichments`.
#[derive(Default)]
pub(crate) struct Enrichments {
    pub(crate) cluster_name: Option<String>,
    pub(crate) pod_labels: Vec<PodLabels>,
}

/// Reads a document. Nothing comes back for one that does not count, or has no valid name; both are reported.
pub(crate) fn decode(mut document: Fields<'_>) -> Option<Telemetry> {
    let mut service = None;
    let metadata = object::metadata(&mut document, |annotations| {
        service = annotations.choice("telemetry.kyma-project.io/service-enrichment", &SERVICE_ENRICHMENTS);
    });
    let spec = decode_spec(document.mapping("spec"));
    let findings = document.node().findings();
    document.finish();

    let metadata = metadata?;
    if metadata.name.value != NAME {
        let message = format!("has no effect: only the Telemetry with the name {NAME:?} counts");
        let warning = Diagnostic::warning(&metadata.name.place, message, format!("{NAME:?}, or no such object"));
        findings.push(warning.value(&metadata.name.value));
        return None;
    }
    Some(Telemetry { metadata, service: service.unwrap_or_default(), spec })
}

fn decode_spec(mut fields: Fields<'_>) -> Spec {
    for key in ["trace", "log"] {
        let mut fields = fields.mapping(key);
        take_gateway(&mut fields);
        fields.finish();
    }
    // Nothing comes back only for what was reported.
    let intervals = decode_metric(fields.mapping("metric")).unwrap_or_default();
    let enrichments = fields.optional("enrichments").and_then(|node| decode_enrichments(&node)).unwrap_or_default();
    fields.finish();
    Spec { enrichments, intervals }
}

/// Takes `gateway`, which once set a number of replicas.
fn take_gateway(fields: &mut Fields<'_>) {
    let mut gateway = fields.mapping("gateway");
    if let Some(node) = gateway.optional("scaling") {
        let message = "is deprecated and has no effect";
        node.findings().push(Diagnostic::warning(&node.place(), message, "no such field"));
        node.check();
    }
    gateway.finish();
}

/// The interval of each input: its own, or that of all, or the default.
fn decode_metric(mut fields: Fields<'_>) -> Option<CollectionIntervals> {
    take_gateway(&mut fields);
    let of_all = take_interval(&mut fields);
    let mut of_input = |key| {
        let mut fields = fields.mapping(key);
        let interval = take_interval(&mut fields);
        fields.finish();
        interval.or(of_all)
    };
    let [runtime, prometheus, istio] = ["runtime", "prometheus", "istio"].map(&mut of_input);
    fields.finish();
    Some(CollectionIntervals { runtime: runtime?, prometheus: prometheus?, istio: istio? })
}

/// Takes `collectionInterval`.
fn take_interval(fields: &mut Fields<'_>) -> Option<Duration> {
    let text = fields.text("collectionInterval")?;
    let unsigned = text.value.strip_prefix('-').unwrap_or(&text.value);
    let (message, expected) = match quantity::duration(unsigned) {
        Ok(interval) if interval > Duration::ZERO && unsigned.len() == text.value.len() => return Some(interval),
        Ok(_) => (NO_INTERVAL.to_owned(), "a duration, for example 30s"),
        Err(_) => (
            format!("{} is not a duration", text.place.shown(&text.value)),
            "numbers with the units h, m, s or ms, such as 30s or 1m30s",
        ),
    };
    fields.node().findings().push(Diagnostic::error(&text.place, message).value(&text.value).expected(expected));
    None
}

fn decode_enrichments(enrichments: &Node<'_>) -> Option<Enrichments> {
    let mut fields = enrichments.fields()?;
    let labels = fields.optional("extractPodLabels").map(|node| node.list()).unwrap_or_default();
    let cluster_name = fields.optional("cluster").and_then(|node| {
        let mut fields = node.fields()?;
        let name = fields.optional("name").and_then(|node| node.string());
        fields.finish();
        name.map(|name| name.value).filter(|name| !name.is_empty())
    });
    fields.finish();
    Some(Enrichments { cluster_name, pod_labels: labels.iter().filter_map(decode_pod_labels).collect() })
}

fn decode_pod_labels(node: &Node<'_>) -> Option<PodLabels> {
    let mut fields = node.fields()?;
    let mut text = |key| fields.text(key).map(|text| text.value).filter(|text| !text.is_empty());
    let given = (text("key"), text("keyPrefix"));
    fields.finish();
    match given {
        (Some(key), None) => Some(PodLabels::Key(key)),
        (None, Some(prefix)) => Some(PodLabels::Prefix(prefix)),
        _ => None,
    }
}
