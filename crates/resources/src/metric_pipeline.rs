//! `MetricPipeline`: the fields of its `spec`.
//!
//! The inputs that fetch metrics themselves (`prometheus`, `runtime`, `istio`) are checked here and do nothing yet.

use weir_plan::{Input, Processing, Signal, Temporality};

use crate::Version;
use crate::diagnostic::{Diagnostic, Reason};
use crate::input;
use crate::node::{Fields, Located, Node};
use crate::otlp_output::OtlpOutput;
use crate::pipeline::{Output, Spec};
use crate::rules::{self, Rules};
use crate::runtime_metrics;
use crate::selector;
use crate::suggest;

const TEMPORALITIES: &[(&str, Temporality)] = &[("preserve", Temporality::Preserve), ("delta", Temporality::Delta)];

/// Where the names of `additionalMetrics` are told.
const SEE_LIST: &str = "For the list of valid runtime additional metrics, check documentation: \
                        docs/configuration.md#metrics-of-the-runtime-input";

/// What the runtime input reports on.
const RESOURCES: &[&str] = &["pod", "container", "node", "volume", "daemonset", "deployment", "statefulset", "job"];

/// Reads `spec`. Nothing when it, or its output, was reported.
pub(crate) fn decode(spec: &Node<'_>, version: Version) -> Option<Spec> {
    let mut fields = spec.fields()?;
    let input = fields.optional("input").and_then(|input| decode_input(&input, version)).unwrap_or_default();
    let output = fields.required("output").and_then(|output| {
        let mut fields = output.fields()?;
        let otlp = fields.required("otlp").and_then(|otlp| decode_output(&otlp, version));
        fields.finish();
        Some((otlp?, output.place()))
    });
    let Rules { transforms, filters, asked_in_vain, .. } = rules::take(&mut fields, Signal::Metrics);
    fields.finish();
    let ((output, temporality), output_place) = output?;
    let processing = Processing { transforms, filters, temporality };
    Some(Spec { input, processing, output: Output::Otlp(Box::new(output)), output_place, asked_in_vain })
}

fn decode_output(otlp: &Node<'_>, version: Version) -> Option<(OtlpOutput, Temporality)> {
    let mut fields = otlp.fields()?;
    let output = OtlpOutput::take(&mut fields, version);
    let temporality = fields.optional("temporality").and_then(|node| node.choice("temporality", TEMPORALITIES));
    fields.finish();
    Some((output, temporality.unwrap_or_default()))
}

fn decode_input(input: &Node<'_>, version: Version) -> Option<Input> {
    let mut fields = input.fields()?;
    if let Some(node) = fields.optional("prometheus") {
        pull(&node, "input.prometheus: nothing is scraped", |fields, _| {
            take_switch(fields, "diagnosticMetrics");
        });
    }
    if let Some(node) = fields.optional("istio") {
        pull(&node, "input.istio: no proxy is scraped", |fields, _| {
            take_switch(fields, "diagnosticMetrics");
            take_switch(fields, "envoyMetrics");
        });
    }
    if let Some(node) = fields.optional("runtime") {
        pull(&node, "input.runtime: no metrics of nodes and workloads are collected", take_runtime);
    }
    let otlp = fields.optional("otlp").map(|node| input::otlp(&node, version));
    fields.finish();
    otlp
}

/// Reads an input that fetches metrics: what all have, and `more`, which is told whether the input is enabled.
fn pull(node: &Node<'_>, inactive: &str, more: impl FnOnce(&mut Fields<'_>, bool)) {
    let Some(mut fields) = node.fields() else { return };
    let enabled = fields.optional("enabled").and_then(|node| node.boolean()).unwrap_or(false);
    if let Some(namespaces) = fields.optional("namespaces") {
        selector::namespaces(&namespaces);
    }
    more(&mut fields, enabled);
    fields.finish();
    if enabled {
        node.warn_not_active(inactive);
    }
}

/// Takes a mapping whose only field is `enabled`.
fn take_switch(fields: &mut Fields<'_>, key: &'static str) {
    let Some(mut fields) = fields.optional(key).and_then(|node| node.fields()) else { return };
    fields.optional("enabled").map(|node| node.boolean());
    fields.finish();
}

fn take_runtime(fields: &mut Fields<'_>, enabled: bool) {
    if let Some(mut resources) = fields.optional("resources").and_then(|node| node.fields()) {
        RESOURCES.iter().for_each(|resource| take_switch(&mut resources, resource));
        resources.finish();
    }
    let Some(node) = fields.optional("additionalMetrics") else { return };
    let names = node.strings();
    if enabled {
        names.iter().for_each(|name| check_additional(&node, name));
    }
}

fn check_additional(node: &Node<'_>, Located { value: name, place }: &Located<String>) {
    if runtime_metrics::NAMES.contains(&name.as_str()) {
        return;
    }
    let shown = place.shown(name);
    // The published text, which has no quotes.
    let message = format!("Invalid runtime additional metric: {}. {SEE_LIST}", shown.trim_matches('"'));
    let expected = match suggest::nearest(runtime_metrics::NAMES, name) {
        Some(nearest) => format!("the name of a runtime metric (did you mean {nearest:?}?)"),
        None => "the name of a runtime metric, for example k8s.pod.uptime".to_owned(),
    };
    let diagnostic = Diagnostic::error(place, message).reason(Reason::RuntimeAdditionalMetricInvalid);
    node.findings().push(diagnostic.value(name).expected(expected));
}
