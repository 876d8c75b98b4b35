//! Findings about a configuration: printed for people, logged for programs, and as JSON.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::slice;
use std::time::Instant;

use serde_json::{Value, json};
use weir_legible::Recurring;
use weir_plan::PipelineId;
use weir_resources::{Diagnostic, Reason, Severity, Source};

/// Prints them: with source lines on a terminal, a line each elsewhere.
pub(crate) fn print(diagnostics: &[Diagnostic], sources: &[Source]) -> io::Result<()> {
    let mut out = io::stderr().lock();
    let texts: HashMap<&str, &str> =
        sources.iter().map(|source| (source.name.as_str(), source.text.as_str())).collect();
    for diagnostic in diagnostics {
        match texts.get(diagnostic.file.as_str()) {
            Some(text) if out.is_terminal() => writeln!(out, "{}", diagnostic.render(text, true))?,
            _ => writeln!(out, "{diagnostic:#}")?,
        }
    }
    Ok(())
}

/// Logs them as records, for programs that read the log of a gateway.
pub(crate) fn log(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        let Diagnostic { file, line, column, field, message, expected, severity, pipeline, reason, .. } = diagnostic;
        let [field, expected] = [field, expected].map(|text| given(text));
        let [line, column] = [*line, *column].map(place);
        let pipeline = pipeline.as_ref().map(PipelineId::to_string);
        let reason = reason.map(Reason::name);
        match severity {
            Severity::Error => tracing::error!(file, line, column, field, expected, pipeline, reason, "{message}"),
            Severity::Warning => tracing::warn!(file, line, column, field, expected, pipeline, reason, "{message}"),
        }
    }
}

/// Logs those warnings of a configuration that the one before did not have, and those that were logged long ago. Where
/// pipelines change all the time, what is deprecated in others would be in the log each time.
pub(crate) fn log_news(warnings: &[Diagnostic], logged: &mut Recurring) {
    for warning in logged.due(warnings.iter().map(|warning| (without_place(warning), warning)), Instant::now()) {
        log(slice::from_ref(warning));
    }
}

/// Which warning it is. In which line it is changes with what is above it.
fn without_place(warning: &Diagnostic) -> String {
    let Diagnostic { file, field, message, pipeline, .. } = warning;
    format!("{file} {pipeline:?} {field} {message}")
}

/// As one value.
pub(crate) fn json(finding: &Diagnostic) -> Value {
    let Diagnostic { file, line, column, field, value, message, expected, severity, pipeline, reason, .. } = finding;
    json!({
        "severity": match severity { Severity::Error => "error", Severity::Warning => "warning" },
        "file": file,
        "line": place(*line),
        "column": place(*column),
        "field": given(field),
        "value": value,
        "message": message,
        "expected": given(expected),
        "pipeline": pipeline.as_ref().map(PipelineId::to_string),
        "reason": reason.map(Reason::name),
    })
}

/// Nothing for a file that cannot be read.
fn place(number: usize) -> Option<usize> {
    Some(number).filter(|number| *number > 0)
}

fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
