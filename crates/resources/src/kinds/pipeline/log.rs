//! `LogPipeline`: the fields of its `spec`, and which of them go together.
//!
//! With `output.http` and `output.custom`, container logs are sent as Fluent Bit sends them.

use weir_plan::{ContainerLogs, Input, Multiline, OtlpInput, Processing, RecordShape, Selector, Signal};

use super::fluent_bit::{self, FluentBit, Names, Records, To};
use super::input;
use super::rules::{self, RuleFields};
use super::selector;
use super::{Output, Spec};
use crate::diagnostic::{Diagnostic, Place};
use crate::document::{Node, Version};
use crate::kinds::output::OtlpOutput;

/// A field that only Fluent Bit understands.
struct Legacy<'a> {
    node: Node<'a>,
    /// Its path in messages.
    attribute: &'static str,
    /// What is reported when it stands beside an OTLP output; `None` where another rule reports it.
    rule: Option<&'static str>,
}

/// `input` as written.
struct LogInput<'a> {
    /// Nothing when they are turned off.
    container_logs: Option<ContainerLogs>,
    /// What only Fluent Bit takes of it, and what both do.
    records: Records,
    otlp: Option<(Node<'a>, Option<OtlpInput>)>,
}

impl Default for LogInput<'_> {
    /// Container logs are collected unless the document says that they are not.
    fn default() -> Self {
        Self { container_logs: Some(container_logs()), records: Records::default(), otlp: None }
    }
}

impl LogInput<'_> {
    /// For Fluent Bit's records.
    fn compile_raw(self) -> Input {
        let container_logs = self.container_logs.map(|logs| ContainerLogs { shape: RecordShape::Raw, ..logs });
        Input { otlp: None, container_logs, ..Input::default() }
    }

    fn compile(self) -> Input {
        let otlp = self.otlp.map_or_else(|| Some(OtlpInput::default()), |(_, otlp)| otlp);
        Input { otlp, container_logs: self.container_logs, ..Input::default() }
    }
}

/// `output` as written.
struct Outputs<'a> {
    place: Place,
    custom: Option<Node<'a>>,
    http: Option<Node<'a>>,
    otlp: Option<Node<'a>>,
}

/// Reads `spec` of the pipeline with this name. Nothing when it, or its output, was reported.
pub(crate) fn decode(spec: &Node<'_>, name: &str) -> Option<Spec> {
    let mut fields = spec.fields()?;
    let mut legacy = Vec::new();
    let input = fields.optional("input").and_then(|node| decode_input(&node, &mut legacy)).unwrap_or_default();
    let (mut filters_of_text, mut names) = (Vec::new(), Names::default());
    for (attribute, rule) in [
        ("filters", "filters are not supported with otlp output"),
        ("files", "files not supported with otlp output"),
        ("variables", "variables not supported with otlp output"),
    ] {
        let Some(node) = fields.optional(attribute) else { continue };
        match attribute {
            "filters" => filters_of_text = node.list().iter().filter_map(fluent_bit::filter).collect(),
            "files" => names.take_files(&node),
            _ => names.take_variables(&node),
        }
        legacy.push(Legacy { node, attribute, rule: Some(rule) });
    }
    let outputs = fields.required("output").and_then(|output| decode_outputs(&output, &mut legacy));
    let RuleFields { transforms, filters, given, asked_in_vain } = rules::take(&mut fields, Signal::Logs);
    fields.finish();

    let processing = Processing { transforms, filters, ..Processing::default() };
    let outputs = outputs?;
    let (input, output) = if let Some(otlp) = &outputs.otlp {
        refuse_legacy(&legacy);
        (input.compile(), OtlpOutput::decode(otlp).map(|otlp| Output::Otlp(Box::new(otlp))))
    } else {
        refuse_without_otlp(&input, &given);
        warn_legacy(&legacy, name);
        let custom = outputs.custom.as_ref().and_then(fluent_bit::output);
        let http = outputs.http.and_then(|http| fluent_bit::Http::decode(&http));
        let output = FluentBit {
            to: custom.or(http.map(|http| To::Http(Box::new(http)))),
            filters: filters_of_text,
            names,
            records: input.records,
        };
        (input.compile_raw(), Some(Output::FluentBit(Box::new(output))))
    };
    Some(Spec { input, processing, output: output?, output_place: outputs.place, asked_in_vain })
}

fn decode_outputs<'a>(output: &Node<'a>, legacy: &mut Vec<Legacy<'a>>) -> Option<Outputs<'a>> {
    let mut fields = output.fields()?;
    let mut outputs = Outputs { place: output.place(), custom: None, http: None, otlp: None };
    for (key, slot) in [("custom", &mut outputs.custom), ("http", &mut outputs.http), ("otlp", &mut outputs.otlp)] {
        *slot = fields.optional(key);
    }
    fields.finish();
    for (node, attribute) in [(&outputs.custom, "output.custom"), (&outputs.http, "output.http")] {
        let Some(node) = node.clone() else { continue };
        legacy.push(Legacy { node: node.secret(), attribute, rule: None });
    }
    if [&outputs.custom, &outputs.http, &outputs.otlp].into_iter().flatten().count() == 1 {
        return Some(outputs);
    }
    let message = "Exactly one output out of 'custom', 'http' or 'otlp' must be defined";
    output.findings().push(output.error(message));
    None
}

fn decode_input<'a>(input: &Node<'a>, legacy: &mut Vec<Legacy<'a>>) -> Option<LogInput<'a>> {
    let mut fields = input.fields()?;
    let runtime = fields.optional("runtime");
    let mut records = Records::default();
    let container_logs =
        runtime.map_or_else(|| Some(container_logs()), |node| decode_runtime(&node, legacy, &mut records));
    let otlp = fields.optional("otlp").map(|node| {
        let otlp = input::otlp(&node);
        (node, otlp)
    });
    fields.finish();
    Some(LogInput { container_logs, records, otlp })
}

/// Nothing when the input is turned off.
fn decode_runtime<'a>(
    runtime: &Node<'a>,
    legacy: &mut Vec<Legacy<'a>>,
    records: &mut Records,
) -> Option<ContainerLogs> {
    let Some(mut fields) = runtime.fields() else { return Some(container_logs()) };
    let mut switch = |key| fields.optional(key).and_then(|node| node.boolean()).unwrap_or(true);
    let (enabled, keep_original_body) = (switch("enabled"), switch("keepOriginalBody"));
    let namespaces = selector::take_of_logs(&mut fields);
    let containers = fields.optional("containers").map(|node| selector::containers(&node)).unwrap_or_default();
    let [labels, annotations] = match runtime.version() {
        Version::V1Beta1 => [
            ("input.runtime.dropLabels", "input.runtime.dropLabels is not supported with otlp output"),
            ("input.runtime.keepAnnotations", "input.runtime.keepAnnotations is not supported with otlp output"),
        ],
        Version::V1Alpha1 => [
            ("input.application.dropLabels", "input.application.dropLabels is not supported with otlp output"),
            (
                "input.application.keepAnnotations",
                "input.application.keepAnnotations is not supported with otlp output",
            ),
        ],
    };
    records.keep_original_body = keep_original_body;
    for (key, (attribute, rule), value) in [
        ("dropLabels", labels, &mut records.drop_labels),
        ("keepAnnotations", annotations, &mut records.keep_annotations),
    ] {
        let Some(node) = fields.optional(key) else { continue };
        *value = node.boolean().unwrap_or(*value);
        legacy.push(Legacy { node, attribute, rule: Some(rule) });
    }
    fields.finish();
    let shape = RecordShape::Parsed { keep_original_body };
    enabled.then_some(ContainerLogs { namespaces, containers, shape, multiline: Multiline::default() })
}

/// The container logs of a pipeline that says nothing about them.
fn container_logs() -> ContainerLogs {
    let shape = RecordShape::Parsed { keep_original_body: true };
    let multiline = Multiline::default();
    ContainerLogs { namespaces: Selector::without_system(), containers: Selector::All, shape, multiline }
}

/// With an OTLP output: nothing of Fluent Bit.
fn refuse_legacy(legacy: &[Legacy<'_>]) {
    for Legacy { node, rule, .. } in legacy {
        if let Some(rule) = rule {
            node.findings().push(Diagnostic::error(&node.place().hidden(), *rule));
        }
    }
}

/// Without an OTLP output: nothing that only the OTLP way has.
fn refuse_without_otlp(input: &LogInput<'_>, rules: &[(&str, Node<'_>)]) {
    if let Some((node, _)) = &input.otlp {
        node.findings().push(node.error("otlp input is only supported with otlp output"));
    }
    for (key, node) in rules {
        node.findings().push(node.error(format!("{key} is only supported with otlp output")));
    }
}

fn warn_legacy(legacy: &[Legacy<'_>], name: &str) {
    for Legacy { node, attribute, .. } in legacy {
        let message = format!(
            "LogPipeline '{name}' uses the attribute '{attribute}' which is based on the deprecated FluentBit technology stack"
        );
        let warning = Diagnostic::warning(&node.place().hidden(), message);
        node.findings().push(warning.expected("a LogPipeline with output.otlp"));
    }
}
