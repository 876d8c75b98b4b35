//! `input.otlp`: which of the pushed telemetry a pipeline takes.

use weir_plan::OtlpInput;

use super::selector;
use crate::document::Fields;

/// Takes `otlp`: nothing when it is turned off. What is wrong has been reported.
pub(crate) fn take_otlp(fields: &mut Fields<'_>) -> Option<OtlpInput> {
    let mut fields = fields.mapping("otlp");
    let enabled = fields.boolean("enabled");
    let namespaces = fields.optional("namespaces").map(|node| selector::namespaces(&node));
    fields.finish();
    enabled.then(|| OtlpInput { namespaces: namespaces.unwrap_or_default() })
}
