//! What looks like a secret is not shown: values of attributes with such a name, and such words in texts.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde_json::{Value, json};
use weir_legible::{REDACTED, is_name_of_secret, without_secrets};

/// What was hidden is looked for in what rules have made of it if it is so long: as a whole text, and within others.
/// Less may be anything.
const LEAST_WHOLE: usize = 4;
const LEAST_WITHIN: usize = 6;

/// Takes secrets out of a document in OTLP/JSON.
pub(super) fn redact(document: &mut Value) {
    redact_and(document, &mut |_| {});
}

/// The same for a document, and for what rules have made of it: they may have put elsewhere what is secret.
pub(super) fn redact_both(before: &mut Value, after: &mut Value) {
    let mut hidden = BTreeSet::new();
    redact_and(before, &mut |secret| {
        if secret.len() >= LEAST_WHOLE && !REDACTED.contains(secret) {
            hidden.insert(secret.to_owned());
        }
    });
    Hidden::from(hidden).hide_in(after);
    redact(after);
}

/// Takes secrets out, and tells each of them.
fn redact_and(document: &mut Value, tell: &mut dyn FnMut(&str)) {
    match document {
        Value::Object(map) => {
            let is_secret = map.get("key").and_then(Value::as_str).is_some_and(is_name_of_secret);
            if let Some(value) = map.get_mut("value").filter(|_| is_secret) {
                each_text(value, tell);
                *value = json!({"stringValue": REDACTED});
            }
            if let Some(bytes) = map.get("bytesValue").and_then(Value::as_str).filter(|bytes| has_secret(bytes)) {
                tell(bytes);
                map.remove("bytesValue");
                map.insert("stringValue".to_owned(), json!(REDACTED));
            }
            map.values_mut().for_each(|value| redact_and(value, tell));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact_and(item, tell)),
        Value::String(text) => {
            if let Some(redacted) = without_secrets(text, tell) {
                *text = redacted;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Calls `each` for the texts of a value; numbers in OTLP/JSON are mostly texts.
fn each_text(value: &Value, each: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(map) => {
            map.iter().filter(|(name, _)| name.as_str() != "key").for_each(|(_, value)| each_text(value, each));
        }
        Value::Array(items) => items.iter().for_each(|item| each_text(item, each)),
        Value::String(text) => each(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether bytes, in base64, are a text with a secret.
fn has_secret(bytes: &str) -> bool {
    let Ok(bytes) = STANDARD.decode(bytes) else { return false };
    without_secrets(&String::from_utf8_lossy(&bytes), &mut |_| {}).is_some()
}

/// What was hidden in a document, as it may be in another one.
struct Hidden {
    /// Where a text is nothing else.
    whole: BTreeSet<String>,
    /// Where it is a part of a text. If that cannot be looked for, no text is shown.
    within: Option<Result<Regex, regex::Error>>,
}

impl From<BTreeSet<String>> for Hidden {
    fn from(whole: BTreeSet<String>) -> Self {
        let long = whole.iter().filter(|secret| secret.len() >= LEAST_WITHIN);
        let mut ways: Vec<_> = long.flat_map(|secret| [secret.clone(), escaped(secret)]).collect();
        // One that is a part of another one comes after it.
        ways.sort_unstable_by_key(|way| Reverse(way.len()));
        let ways: Vec<_> = ways.iter().map(|way| regex::escape(way)).collect();
        let within = (!ways.is_empty()).then(|| Regex::new(&ways.join("|")));
        Self { whole, within }
    }
}

impl Hidden {
    fn hide_in(&self, document: &mut Value) {
        match document {
            Value::Object(map) => map.values_mut().for_each(|value| self.hide_in(value)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::String(text) => match &self.within {
                _ if self.whole.contains(text.as_str()) => REDACTED.clone_into(text),
                Some(Ok(within)) if within.is_match(text) => *text = within.replace_all(text, REDACTED).into_owned(),
                Some(Err(_)) => REDACTED.clone_into(text),
                Some(Ok(_)) | None => {}
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// As it stands in a text that is JSON.
fn escaped(secret: &str) -> String {
    let quoted = json!(secret).to_string();
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(secret).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_and_the_rest_stays() {
        let attribute = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
        let list = |items: Vec<Value>| json!({"attributes": items});
        let mut document = list(vec![
            attribute("http.request.header.authorization", "Bearer abc"),
            attribute("db.password", "x"),
            attribute("http.route", "/cart"),
            json!({"key": "inner", "value": {"kvlistValue": {"values": [attribute("api_key", "k"), attribute("a", "b")]}}}),
        ]);
        redact(&mut document);
        let expected = list(vec![
            attribute("http.request.header.authorization", REDACTED),
            attribute("db.password", REDACTED),
            attribute("http.route", "/cart"),
            json!({"key": "inner", "value": {"kvlistValue": {"values": [attribute("api_key", REDACTED), attribute("a", "b")]}}}),
        ]);
        assert_eq!(document, expected);
    }

    #[test]
    fn so_are_bytes_that_are_a_text_with_a_secret() {
        let of = |text: &str| json!({"body": {"bytesValue": STANDARD.encode(text)}});
        let (mut secret, mut other) = (of("GET / password=s3cr3t"), of("GET /"));
        redact(&mut secret);
        redact(&mut other);
        assert_eq!((secret, other), (json!({"body": {"stringValue": REDACTED}}), of("GET /")));
    }

    #[test]
    fn what_is_hidden_before_rules_is_hidden_after_them() {
        let list = |all: &[(&str, &str)]| -> Value {
            all.iter().map(|(key, value)| json!({"key": key, "value": {"stringValue": value}})).collect()
        };
        let url = ("url", "redis://:p4ssw0rd@cache");
        let mut before = list(&[("db.password", "hunter\"2"), ("token.kind", "POST"), ("session.requests", "7"), url]);
        let mut after = list(&[
            ("moved", "hunter\"2"),
            ("in.json", r#"{"pw":"hunter\"2"}"#),
            ("said", "it is p4ssw0rd"),
            ("kind", "POST"),
            ("name", "POST /cart"),
            ("count", "7"),
            ("hunter\"2", "as a key"),
        ]);
        redact_both(&mut before, &mut after);
        assert_eq!(before[3]["value"]["stringValue"], "redis://:[redacted]@cache");
        let expected = list(&[
            ("moved", REDACTED),
            ("in.json", r#"{"pw":"[redacted]"}"#),
            ("said", "it is [redacted]"),
            ("kind", REDACTED),
            ("name", "POST /cart"),
            ("count", "7"),
            (REDACTED, "as a key"),
        ]);
        assert_eq!(after, expected);
    }
}
