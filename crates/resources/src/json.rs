//! Documents as plain JSON, for what does not care where in a text things stand.

use serde_json::{Map, Number, Value};

use crate::diagnostic::{Diagnostic, Findings, Report};
use crate::source::Source;
use crate::yaml::{self, Content, Yaml};

/// The documents of a source as JSON. Of numbers, those that JSON can write stay numbers; others become text.
///
/// # Errors
/// All syntax errors.
pub fn documents(source: &Source) -> Result<Vec<Value>, Report> {
    let documents = yaml::parse(&source.text);
    let findings = Findings::default();
    let file = source.name.as_str().into();
    for error in documents.errors {
        findings.push(Diagnostic::syntax(&file, error));
    }
    if findings.has_errors() {
        return Err(Report { diagnostics: findings.into_sorted() });
    }
    Ok(documents.roots.iter().map(|root| value(root)).collect())
}

/// Nesting has a limit, and so has what aliases expand to: both have been checked.
fn value(yaml: &Yaml) -> Value {
    match &yaml.content {
        Content::Null => Value::Null,
        Content::Bool(value) => Value::Bool(*value),
        Content::Number(text) => match text.parse::<Number>() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::String(text.clone()),
        },
        Content::Text(text) => Value::String(text.clone()),
        Content::List(items) => items.iter().map(|item| value(item)).collect(),
        Content::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), value(&entry.value))).collect::<Map<_, _>>().into()
        }
    }
}
