//! Documents as plain JSON, for code that does not care about positions in a text.

use std::rc::Rc;

use serde_json::{Map, Number, Value};

use super::yaml::{self, Content, Yaml};
use crate::diagnostic::Findings;

/// The documents of a text as JSON. Of numbers, those that JSON can write stay numbers; others become text.
pub(crate) fn json(text: &str, file: &Rc<str>, findings: &Findings) -> Vec<Value> {
    let documents = yaml::parse(text);
    findings.extend(documents.errors.into_iter().map(|error| error.diagnostic(file)));
    documents.roots.iter().map(|root| value(root)).collect()
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
