//! `MetricPipeline`: the fields of its `spec`.
//!
//! The inputs that fetch metrics themselves are part of the plan. `prometheus` scrapes what an annotation names; `runtime`
//! and `istio` do nothing yet.

mod runtime_names;

use weir_plan::{
    Input, IstioInput, Processing, PrometheusInput, RuntimeInput, RuntimeResource, Selector, Signal, Temporality,
};

use super::input;
use super::rules::{self, RuleFields};
use super::selector;
use super::{Output, Spec};
use crate::diagnostic::{Diagnostic, Reason};
use crate::document::suggest;
use crate::document::{Fields, Located, Node};
use crate::kinds::output::OtlpOutput;

pub(crate) const TEMPORALITIES: [(&str, Temporality); 2] =
    [("preserve", Temporality::Preserve), ("delta", Temporality::Delta)];

/// Where the names of `additionalMetrics` are told.
const SEE_LIST: &str = "For the list of valid runtime additional metrics, check documentation: \
                        docs/configuration.md#metrics-of-the-runtime-input";

/// What the runtime input reports on.
const RESOURCES: [(&str, RuntimeResource); 8] = [
    ("pod", RuntimeResource::Pod),
    ("container", RuntimeResource::Container),
    ("node", RuntimeResource::Node),
    ("volume", RuntimeResource::Volume),
    ("daemonset", RuntimeResource::DaemonSet),
    ("deployment", RuntimeResource::Deployment),
    ("statefulset", RuntimeResource::StatefulSet),
    ("job", RuntimeResource::Job),
];

/// Reads `spec`. `has_targets`: an annotation says what is scraped. Nothing when it, or its output, was reported.
pub(crate) fn decode(spec: &Node<'_>, has_targets: bool) -> Option<Spec> {
    let mut fields = spec.fields()?;
    let input = decode_input(fields.mapping("input"), has_targets);
    let output = fields.required("output").and_then(|output| {
        let mut fields = output.fields()?;
        let otlp = fields.required("otlp").and_then(|otlp| decode_output(&otlp));
        fields.finish();
        Some((otlp?, output.place()))
    });
    let RuleFields { transforms, filters, asked_in_vain, .. } = rules::take(&mut fields, Signal::Metrics);
    fields.finish();
    let ((output, temporality), output_place) = output?;
    let processing = Processing { transforms, filters, temporality, ..Processing::default() };
    Some(Spec { input, processing, output: Output::Otlp(Box::new(output)), output_place, asked_in_vain })
}

fn decode_output(otlp: &Node<'_>) -> Option<(OtlpOutput, Temporality)> {
    let mut fields = otlp.fields()?;
    let output = OtlpOutput::take(&mut fields);
    let temporality = fields.choice("temporality", &TEMPORALITIES);
    fields.finish();
    Some((output, temporality?))
}

fn decode_input(mut fields: Fields<'_>, has_targets: bool) -> Input {
    let prometheus = fields.optional("prometheus").and_then(|node| {
        let inactive = (!has_targets).then_some("input.prometheus: pods and services are not scraped");
        pull(&node, inactive, |fields, namespaces, _| {
            let diagnostic_metrics = take_switch(fields, "diagnosticMetrics");
            PrometheusInput { namespaces, diagnostic_metrics, static_targets: Vec::new() }
        })
    });
    let istio = fields.optional("istio").and_then(|node| {
        pull(&node, Some("input.istio: no proxy is scraped"), |fields, namespaces, _| {
            let diagnostic_metrics = take_switch(fields, "diagnosticMetrics");
            IstioInput { namespaces, diagnostic_metrics, envoy_metrics: take_switch(fields, "envoyMetrics") }
        })
    });
    let runtime = fields.optional("runtime").and_then(|node| {
        pull(&node, Some("input.runtime: no metrics of nodes and workloads are collected"), take_runtime)
    });
    let otlp = input::take_otlp(&mut fields);
    fields.finish();
    Input { otlp, runtime, prometheus, istio, ..Input::default() }
}

/// Reads an input that fetches metrics: the fields that all of them have and, through `rest`, its own. `inactive`: what
/// does not come of it yet. `rest` is told
/// where from, and whether the input is enabled. Returns nothing if it is not.
fn pull<T>(
    node: &Node<'_>,
    inactive: Option<&str>,
    rest: impl FnOnce(&mut Fields<'_>, Selector, bool) -> T,
) -> Option<T> {
    let mut fields = node.fields()?;
    let enabled = fields.boolean("enabled");
    let namespaces = selector::take_collected(&mut fields);
    let input = rest(&mut fields, namespaces, enabled);
    fields.finish();
    if let Some(inactive) = inactive.filter(|_| enabled) {
        node.warn_not_active(inactive);
    }
    enabled.then_some(input)
}

/// Takes a mapping whose only field is `enabled`.
fn take_switch(fields: &mut Fields<'_>, key: &'static str) -> bool {
    let mut fields = fields.mapping(key);
    let enabled = fields.boolean("enabled");
    fields.finish();
    enabled
}

fn take_runtime(fields: &mut Fields<'_>, namespaces: Selector, enabled: bool) -> RuntimeInput {
    let mut wanted = fields.mapping("resources");
    let resources = RESOURCES.into_iter().filter(|(key, _)| take_switch(&mut wanted, key));
    let resources = resources.map(|(_, resource)| resource).collect();
    wanted.finish();
    let mut additional_metrics = Vec::new();
    if let Some(node) = fields.optional("additionalMetrics") {
        let names = node.strings();
        if enabled {
            names.iter().for_each(|name| check_additional(&node, name));
        }
        additional_metrics.extend(names.into_iter().map(|name| name.value));
    }
    RuntimeInput { namespaces, resources, additional_metrics }
}

fn check_additional(node: &Node<'_>, Located { value: name, place }: &Located<String>) {
    if runtime_names::ALL.contains(&name.as_str()) {
        return;
    }
    let shown = place.shown(name);
    // The published text, which has no quotes.
    let message = format!("Invalid runtime additional metric: {}. {SEE_LIST}", shown.trim_matches('"'));
    let expected = match suggest::nearest(runtime_names::ALL, name) {
        Some(nearest) => format!("the name of a runtime metric (did you mean {nearest:?}?)"),
        None => "the name of a runtime metric, for example k8s.pod.uptime".to_owned(),
    };
    let diagnostic = Diagnostic::error(place, message).reason(Reason::RuntimeAdditionalMetricInvalid);
    node.findings().push(diagnostic.value(name).expected(expected));
}
