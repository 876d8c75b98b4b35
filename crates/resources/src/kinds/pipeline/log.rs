//! `LogPipeline`: the fields of its `spec`, and which of them go together.
//!
//! With `output.http` and `output.custom`, container logs are sent as Fluent Bit sends them.

use weir_plan::{ContainerLogs, Input, Multiline, OtlpInput, Processing, RecordShape, Signal};

use super::fluent_bit::{self, FluentBit, Names, Records, To};
use super::input;
use super::rules::{self, RuleFields};
use super::selector;
use super::{Output, Spec};
use crate::diagnostic::{Diagnostic, Place};
use crate::document::{Fields, Node, Version};
use crate::kinds::fields::log_clash;
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
    /// Nothing when it is turned off.
    otlp: Option<OtlpInput>,
    /// Where that is written, if it is.
    otlp_node: Option<Node<'a>>,
}

impl LogInput<'_> {
    /// For Fluent Bit's records.
    fn compile_raw(self) -> Input {
        let container_logs = self.container_logs.map(|logs| ContainerLogs { shape: RecordShape::Raw, ..logs });
        Input { otlp: None, container_logs, ..Input::default() }
    }

    fn compile(self) -> Input {
        Input { otlp: self.otlp, container_logs: self.container_logs, ..Input::default() }
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
    let input = decode_input(fields.mapping("input"), &mut legacy);
    let (mut filters_of_text, mut names) = (Vec::new(), Names::default());
    for attribute in ["filters", "files", "variables"] {
        let Some(node) = fields.optional(attribute) else { continue };
        match attribute {
            "filters" => filters_of_text = node.list().iter().filter_map(fluent_bit::filter).collect(),
            "files" => names.take_files(&node),
            _ => names.take_variables(&node),
        }
        let rule = Some(log_clash(attribute, node.version()));
        legacy.push(Legacy { node, attribute, rule });
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
    None
}

fn decode_input<'a>(mut fields: Fields<'a>, legacy: &mut Vec<Legacy<'a>>) -> LogInput<'a> {
    let (container_logs, records) = decode_runtime(fields.mapping("runtime"), legacy);
    let (otlp_node, otlp) = (fields.optional("otlp"), input::take_otlp(&mut fields));
    fields.finish();
    LogInput { container_logs, records, otlp, otlp_node }
}

/// No container logs when the input is turned off.
fn decode_runtime<'a>(mut fields: Fields<'a>, legacy: &mut Vec<Legacy<'a>>) -> (Option<ContainerLogs>, Records) {
    let (enabled, keep_original_body) = (fields.boolean("enabled"), fields.boolean("keepOriginalBody"));
    let namespaces = selector::take_of_logs(&mut fields);
    let containers = fields.optional("containers").map(|node| selector::containers(&node)).unwrap_or_default();
    let version = fields.node().version();
    let [labels, annotations] = match version {
        Version::V1Beta1 => ["input.runtime.dropLabels", "input.runtime.keepAnnotations"],
        Version::V1Alpha1 => ["input.application.dropLabels", "input.application.keepAnnotations"],
    };
    let (mut drop_labels, mut keep_annotations) = (false, false);
    for (key, attribute, value) in
        [("dropLabels", labels, &mut drop_labels), ("keepAnnotations", annotations, &mut keep_annotations)]
    {
        let Some(node) = fields.optional(key) else { continue };
        *value = node.boolean().unwrap_or_default();
        let rule = Some(log_clash(&format!("input.runtime.{key}"), version));
        legacy.push(Legacy { node, attribute, rule });
    }
    fields.finish();
    let shape = RecordShape::Parsed { keep_original_body };
    let logs = ContainerLogs { namespaces, containers, shape, multiline: Multiline::default() };
    (enabled.then_some(logs), Records { keep_original_body, keep_annotations, drop_labels })
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
    if let Some(node) = &input.otlp_node {
        node.findings().push(node.error(log_clash("input.otlp", node.version())));
    }
    for (key, node) in rules {
        node.findings().push(node.error(log_clash(key, node.version())));
    }
}

fn warn_legacy(legacy: &[Legacy<'_>], name: &str) {
    for Legacy { node, attribute, .. } in legacy {
        let message = format!(
            "LogPipeline '{name}' uses the attribute '{attribute}' which is based on the deprecated FluentBit technology stack"
        );
        let expected = "a LogPipeline with output.otlp";
        node.findings().push(Diagnostic::warning(&node.place().hidden(), message, expected));
    }
}
