//! `Telemetry` (group `operator.kyma-project.io`): what is added to all telemetry.
//!
//! The intervals of inputs that fetch metrics are checked and kept, but have no effect yet. The fields that once scaled
//! gateways are deprecated and will never have one.

use std::time::Duration;

use weir_plan::{CollectionIntervals, PodLabels, ServiceEnrichment};

use crate::diagnostic::Diagnostic;
use crate::document::quantity;
use crate::document::{Fields, Node};
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
    // The API's own default, for resources from before there was a choice.
    let mut service = ServiceEnrichment::KymaLegacy;
    let metadata = object::metadata(&mut document, |annotations| {
        let node = annotations.optional("telemetry.kyma-project.io/service-enrichment");
        service = node.and_then(|node| node.choice(&SERVICE_ENRICHMENTS)).unwrap_or(ServiceEnrichment::KymaLegacy);
    });
    let spec = document.optional("spec").and_then(|spec| decode_spec(&spec));
    let findings = document.node().findings();
    document.finish();

    let metadata = metadata?;
    if metadata.name.value != NAME {
        let message = format!("has no effect: only the Telemetry with the name {NAME:?} counts");
        findings.push(Diagnostic::warning(&metadata.name.place, message).value(&metadata.name.value));
        return None;
    }
    Some(Telemetry { metadata, service, spec: spec.unwrap_or_default() })
}

fn decode_spec(spec: &Node<'_>) -> Option<Spec> {
    let mut fields = spec.fields()?;
    for key in ["trace", "log"] {
        let Some(mut fields) = fields.optional(key).and_then(|node| node.fields()) else { continue };
        take_gateway(&mut fields);
        fields.finish();
    }
    let intervals = fields.optional("metric").and_then(|node| decode_metric(&node)).unwrap_or_default();
    let enrichments = fields.optional("enrichments").and_then(|node| decode_enrichments(&node)).unwrap_or_default();
    fields.finish();
    Some(Spec { enrichments, intervals })
}

/// Takes `gateway`, which once set a number of replicas.
fn take_gateway(fields: &mut Fields<'_>) {
    let Some(mut gateway) = fields.optional("gateway").and_then(|node| node.fields()) else { return };
    if let Some(node) = gateway.optional("scaling") {
        let message = "is deprecated and has no effect";
        node.findings().push(Diagnostic::warning(&node.place(), message));
        node.check();
    }
    gateway.finish();
}

/// The interval of each input: its own, or that of all, or the default.
fn decode_metric(metric: &Node<'_>) -> Option<CollectionIntervals> {
    let mut fields = metric.fields()?;
    take_gateway(&mut fields);
    let of_all = take_interval(&mut fields).unwrap_or(CollectionIntervals::DEFAULT);
    let mut of_input = |key| {
        let mut fields = fields.optional(key).and_then(|node| node.fields())?;
        let interval = take_interval(&mut fields);
        fields.finish();
        interval
    };
    let [runtime, prometheus, istio] = ["runtime", "prometheus", "istio"].map(|key| of_input(key).unwrap_or(of_all));
    fields.finish();
    Some(CollectionIntervals { runtime, prometheus, istio })
}

/// Takes `collectionInterval`.
fn take_interval(fields: &mut Fields<'_>) -> Option<Duration> {
    let node = fields.optional("collectionInterval")?;
    let text = node.string()?;
    let unsigned = text.value.strip_prefix('-').unwrap_or(&text.value);
    let (message, expected) = match quantity::duration(unsigned) {
        Ok(interval) if interval > Duration::ZERO && unsigned.len() == text.value.len() => {
            node.warn_not_active("collectionInterval: only targets that annotations name are scraped");
            return Some(interval);
        }
        Ok(_) => ("'collectionInterval' must be greater than 0".to_owned(), "a duration, for example 30s"),
        Err(_) => (
            format!("{} is not a duration", text.place.shown(&text.value)),
            "numbers with the units h, m, s or ms, such as 30s or 1m30s",
        ),
    };
    node.findings().push(Diagnostic::error(&text.place, message).value(&text.value).expected(expected));
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
    let mut wrong = false;
    let mut text = |key| {
        let text = fields.optional(key)?.string();
        wrong |= text.is_none();
        text.map(|text| text.value).filter(|text| !text.is_empty())
    };
    let given = (text("key"), text("keyPrefix"));
    fields.finish();
    match given {
        (Some(key), None) => Some(PodLabels::Key(key)),
        (None, Some(prefix)) => Some(PodLabels::Prefix(prefix)),
        _ if wrong => None,
        _ => {
            node.findings().push(node.error("Either 'key' or 'keyPrefix' must be specified"));
            None
        }
    }
}
