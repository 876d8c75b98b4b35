//! The annotation that says which stack traces become one log record: of a LogPipeline, or of a pod.

use weir_plan::{Language, Multiline};

use crate::diagnostic::{Diagnostic, Severity};
use crate::document::{Node, suggest};

pub(crate) const ANNOTATION: &str = "weir.dev/multiline";

/// Reads languages with commas between them; an empty text means none. What is wrong is reported with this
/// severity.
pub(crate) fn decode(node: &Node<'_>, severity: Severity) -> Option<Multiline> {
    let text = node.string()?;
    let mut multiline = Multiline::default();
    for name in text.value.split(',').map(str::trim).filter(|_| !text.value.trim().is_empty()) {
        let Some((_, language)) = Language::ALL.iter().find(|(known, _)| *known == name) else {
            let message = format!("{} is not a language whose stack traces are known", text.place.shown(name));
            let known = Language::ALL.map(|(known, _)| known);
            let expected = suggest::one_of(&known, name);
            node.findings().push(Diagnostic::new(&text.place, severity, message, expected).value(name));
            return None;
        };
        multiline = multiline.with(*language);
    }
    Some(multiline)
}
