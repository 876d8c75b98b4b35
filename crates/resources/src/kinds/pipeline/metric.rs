//! `MetricPipeline`: the fields of its `spec`.
//!
//! The inputs that fetch metrics themselves are part of the plan.

use weir_plan::{
    Input, IstioInput, Processing, PrometheusInput, RuntimeInput, RuntimeMetric, RuntimeMetrics, RuntimeResource,
    Selector, Signal, Temporality,
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

/// Reads `spec`. Nothing when it, or its output, was reported.
pub(crate) fn decode(spec: &Node<'_>) -> Option<Spec> {
    let mut fields = spec.fields()?;
    let input = decode_input(fields.mapping("input"));
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

fn decode_input(mut fields: Fields<'_>) -> Input {
    let prometheus = fields.optional("prometheus").and_then(|node| {
        pull(&node, |fields, namespaces, _| {
            let diagnostic_metrics = take_switch(fields, "diagnosticMetrics");
            PrometheusInput { namespaces, diagnostic_metrics, static_targets: Vec::new(), native_histograms: false }
        })
    });
    let istio = fields.optional("istio").and_then(|node| {
        pull(&node, |fields, namespaces, _| {
            let diagnostic_metrics = take_switch(fields, "diagnosticMetrics");
            IstioInput { namespaces, diagnostic_metrics, envoy_metrics: take_switch(fields, "envoyMetrics") }
        })
    });
    let runtime = fields.optional("runtime").and_then(|node| pull(&node, take_runtime));
    let otlp = input::take_otlp(&mut fields);
    fields.finish();
    Input { otlp, runtime, prometheus, istio, ..Input::default() }
}

/// Reads an input that fetches metrics: the fields that all of them have and, through `rest`, its own. `rest` is told
/// where from, and whether the input is enabled. Returns nothing if it is not.
fn pull<T>(node: &Node<'_>, rest: impl FnOnce(&mut Fields<'_>, Selector, bool) -> T) -> Option<T> {
    let mut fields = node.fields()?;
    let enabled = fields.boolean("enabled");
    let namespaces = selector::take_collected(&mut fields);
    let input = rest(&mut fields, namespaces, enabled);
    fields.finish();
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
    let resources: Vec<_> = resources.map(|(_, resource)| resource).collect();
    wanted.finish();
    let mut metrics = RuntimeMetrics::of(&resources);
    if let Some(node) = fields.optional("additionalMetrics") {
        for name in node.strings() {
            if !metrics.insert(&name.value) && enabled {
                report_unknown(&node, &name);
            }
        }
    }
    RuntimeInput { namespaces, metrics }
}

fn report_unknown(node: &Node<'_>, Located { value: name, place }: &Located<String>) {
    let known: Vec<_> = RuntimeMetric::ALL.iter().map(|metric| metric.name).collect();
    let shown = place.shown(name);
    // The published text, which has no quotes.
    let message = format!("Invalid runtime additional metric: {}. {SEE_LIST}", shown.trim_matches('"'));
    let expected = match suggest::nearest(&known, name) {
        Some(nearest) => format!("the name of a runtime metric (did you mean {nearest:?}?)"),
        None => "the name of a runtime metric, for example k8s.pod.uptime".to_owned(),
    };
    let diagnostic = Diagnostic::error(place, message).reason(Reason::RuntimeAdditionalMetricInvalid);
    node.findings().push(diagnostic.value(name).expected(expected));
}

#[cfg(test)]
mod tests {
    use weir_plan::RuntimeMetric;

    /// Messages send their readers there.
    #[test]
    fn all_runtime_metrics_are_in_the_documentation() {
        let documentation = include_str!("../../../../../docs/configuration.md");
        let (_, section) = documentation.split_once("### Metrics of the runtime input\n").unwrap();
        let list = section.split("```").nth(1).unwrap().trim_start_matches("text");
        let known: Vec<_> = RuntimeMetric::ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(list.split_whitespace().collect::<Vec<_>>(), known);
    }
}
