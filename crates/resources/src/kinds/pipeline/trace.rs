//! `TracePipeline`: the fields of its `spec`.

use weir_plan::{Input, Processing, Signal};

use super::rules::{self, RuleFields};
use super::{Output, Spec};
use crate::document::Node;
use crate::kinds::output::OtlpOutput;

/// Reads `spec`. Nothing when it, or its output, was reported.
pub(crate) fn decode(spec: &Node<'_>) -> Option<Spec> {
    let mut fields = spec.fields()?;
    let output = fields.required("output").and_then(|output| {
        let mut fields = output.fields()?;
        let otlp = fields.required("otlp").and_then(|otlp| OtlpOutput::decode(&otlp));
        fields.finish();
        Some((otlp?, output.place()))
    });
    let RuleFields { transforms, filters, asked_in_vain, .. } = rules::take(&mut fields, Signal::Traces);
    fields.finish();
    let processing = Processing { transforms, filters, ..Processing::default() };
    let (output, output_place) = output?;
    Some(Spec {
        input: Input::default(),
        processing,
        output: Output::Otlp(Box::new(output)),
        output_place,
        asked_in_vain,
    })
}
