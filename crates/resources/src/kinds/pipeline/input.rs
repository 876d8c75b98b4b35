//! `input.otlp`: which of the pushed telemetry a pipeline takes.

use weir_plan::OtlpInput;

use super::selector;
use crate::document::Node;

/// Reads `input.otlp`: nothing when it is turned off. What is wrong has been reported.
pub(crate) fn otlp(node: &Node<'_>) -> Option<OtlpInput> {
    let Some(mut fields) = node.fields() else { return Some(OtlpInput::default()) };
    let enabled = fields.optional("enabled").and_then(|node| node.boolean()).unwrap_or(true);
    let namespaces = fields.optional("namespaces").map(|node| selector::namespaces(&node));
    fields.finish();
    enabled.then(|| OtlpInput { namespaces: namespaces.unwrap_or_default() })
}
