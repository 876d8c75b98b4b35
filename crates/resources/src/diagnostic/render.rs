//! Shows a diagnostic with its source line and a caret under the offending part.
//!
//! It quotes a line only when no secret can stand on it: the whole line for a plain scalar that is not secret, the
//! key with its value masked otherwise, and nothing for flow style, where neighbours share the line.

use super::{Diagnostic, Excerpt, Severity};

/// Characters of a source line that are shown.
const MAX_LINE_CHARS: usize = 200;

/// What documents and their parts often begin with.
const PUBLIC_KEYS: [&str; 4] = ["apiVersion", "kind", "name", "namespace"];

struct Style {
    severity: &'static str,
    bold: &'static str,
    frame: &'static str,
    reset: &'static str,
}

impl Style {
    fn new(severity: Severity, color: bool) -> Self {
        if !color {
            return Self { severity: "", bold: "", frame: "", reset: "" };
        }
        let severity = match severity {
            Severity::Error => "\x1b[1;31m",
            Severity::Warning => "\x1b[1;33m",
        };
        Self { severity, bold: "\x1b[1m", frame: "\x1b[1;34m", reset: "\x1b[0m" }
    }
}

pub(super) fn render(diagnostic: &Diagnostic, source_text: &str, color: bool) -> String {
    let Style { severity, bold, frame, reset } = Style::new(diagnostic.severity, color);
    let Diagnostic { file, line, column, field, message, expected, .. } = diagnostic;
    let separator = if field.is_empty() { "" } else { ": " };
    let mut out = format!("{severity}{}{reset}{bold}: {field}{separator}{message}{reset}\n", diagnostic.severity);

    let number = line.to_string();
    let gutter = " ".repeat(number.len());
    let at = if *line == 0 { file.clone() } else { format!("{file}:{line}:{column}") };
    out += &format!("{gutter}{frame}-->{reset} {at}\n");
    match shown_line(diagnostic, source_text) {
        Some(text) => {
            let room = text.chars().count().saturating_sub(column - 1).max(1);
            let caret = "^".repeat(diagnostic.width.clamp(1, room));
            let hint = if expected.is_empty() { String::new() } else { format!(" expected {expected}") };
            out += &format!("{gutter} {frame}|{reset}\n{frame}{number} |{reset} {text}\n");
            let indent = " ".repeat(column - 1);
            out += &format!("{gutter} {frame}|{reset} {indent}{severity}{caret}{hint}{reset}\n");
        }
        None if expected.is_empty() => {}
        None => out += &format!("{gutter} {frame}={reset} expected {expected}\n"),
    }
    if let Some(reason) = diagnostic.reason {
        let of = diagnostic.pipeline.as_ref().map(|pipeline| format!(" of {pipeline}")).unwrap_or_default();
        out += &format!("{gutter} {frame}={reset} condition {}{of}\n", reason.name());
    }
    out
}

fn shown_line(diagnostic: &Diagnostic, source_text: &str) -> Option<String> {
    let line = source_text.lines().nth(diagnostic.line.checked_sub(1)?)?;
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    let shown = match diagnostic.excerpt {
        Excerpt::Line if !is_flow(line) => line.to_owned(),
        Excerpt::Line => return None,
        Excerpt::Block if is_public(line) => line.to_owned(),
        Excerpt::Key | Excerpt::Block => masked(line)?,
    };
    // One character stays one column, and control characters do not reach a terminal.
    let shown: String = shown.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_LINE_CHARS).collect();
    (diagnostic.column <= shown.chars().count() + 1).then_some(shown)
}

/// Whether several fields may share the line. The elements of a list are one field, as long as none of them is a mapping.
fn is_flow(line: &str) -> bool {
    let line = line.trim();
    let mut lists = [": [", "- ["].iter().filter_map(|start| line.split_once(start)).map(|(_, list)| list);
    line.contains(['{', '}'])
        || line.starts_with('[')
        || line.ends_with(',')
        || lists.any(|list| [": ", ":\t", "\":", "':"].iter().any(|mapping| list.contains(mapping)))
}

/// Whether the line has nothing but a key whose values are never secret where no secret is expected, and its value.
fn is_public(line: &str) -> bool {
    let key = line.trim_start().trim_start_matches("- ").split(':').next().unwrap_or_default();
    PUBLIC_KEYS.contains(&key) && !is_flow(line)
}

/// `  - key: ***`, or nothing when the line does not start with a plain key.
fn masked(line: &str) -> Option<String> {
    let mut start = line.len() - line.trim_start().len();
    while let Some(rest) = line[start..].strip_prefix("- ") {
        start += 2 + (rest.len() - rest.trim_start().len());
    }
    let rest = &line[start..];
    let key_len = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_-./".contains(c)))?;
    let value = rest[key_len..].strip_prefix(':')?;
    if key_len == 0 || !(value.is_empty() || value.starts_with([' ', '\t', '\r'])) {
        return None;
    }
    let key = &line[..start + key_len];
    Some(if value.trim().is_empty() { format!("{key}:") } else { format!("{key}: ***") })
}
