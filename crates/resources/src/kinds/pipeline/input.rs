//! `input.otlp`: which of the pushed telemetry a pipeline takes.

use weir_plan::OtlpInput;

use super::selector;
use crate::Version;
use crate::document::Node;

/// Reads `input.otlp`: nothing when it is turned off. What is wrong has been reported.
pub(crate) fn otlp(node: &Node<'_>, version: Version) -> Option<OtlpInput> {
    let Some(mut fields) = node.fields() else { return Some(OtlpInput::default()) };
    let mut switch = |key| fields.optional(key).and_then(|node| node.boolean());
    let enabled = match version {
        Version::V1Beta1 => switch("enabled").unwrap_or(true),
        Version::V1Alpha1 => !switch("disabled").unwrap_or(false),
    };
    let namespaces = fields.optional("namespaces").map(|node| selector::namespaces(&node));
    fields.finish();
    enabled.then(|| OtlpInput { namespaces: namespaces.unwrap_or_default() })
}
