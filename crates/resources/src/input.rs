//! `input.otlp`: which of the pushed telemetry a pipeline takes.

use weir_plan::Input;

use crate::Version;
use crate::node::Node;
use crate::selector;

/// Reads `input.otlp`. What is wrong has been reported.
pub(crate) fn otlp(node: &Node<'_>, version: Version) -> Input {
    let mut input = Input::default();
    let Some(mut fields) = node.fields() else { return input };
    let mut switch = |key| fields.optional(key).and_then(|node| node.boolean());
    input.otlp = match version {
        Version::V1Beta1 => switch("enabled").unwrap_or(true),
        Version::V1Alpha1 => !switch("disabled").unwrap_or(false),
    };
    if let Some(namespaces) = fields.optional("namespaces") {
        input.namespaces = selector::namespaces(&namespaces);
    }
    fields.finish();
    input
}
