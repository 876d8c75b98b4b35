//! What looks like a secret is not shown: values of attributes with such a name, and such words in texts.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

/// What stands in its place.
const REDACTED: &str = "[redacted]";

// All matches of the patterns below are replaced. That takes linear time: what they look at behind a match is one run
// of blanks at most, in which no match starts.

/// Names of what is secret.
static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)authorization|passw|passphrase|\bpwd\b|\bjwt\b|secret|token|cookie|credential|session|signature|(?:api|private|access)[-_.]?key",
    )
    .ok()
});
/// Headers of which all is secret up to the end of the line, or of the text in quotes: `Authorization: AWS4-HMAC-SHA256 ...`.
static HEADERS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)((?:authorization|cookie)\\?["']?[ \t]*[:=][ \t]*\\?["']?(?:(?:bearer|basic)[ \t]+)?)[^"'\\\r\n]+"#,
    )
    .ok()
});
/// `Bearer abc`, and what stands behind `password=` or `"token": "`.
static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)(\b(?:bearer|basic)[ \t]+|(?:passw|passphrase|pwd|jwt|secret|token|credential|session|signature|(?:api|private|access)[-_.]?key)[A-Za-z0-9_.-]{0,32}\\?["']?[ \t]*[:=][ \t]*\\?["']?(?:(?:bearer|basic)[ \t]+)?|\b[a-z][a-z0-9+.-]{0,16}://[^/@\s:]{1,64}:)[^\s"',;&\\@]+"#,
    )
    .ok()
});

/// Takes secrets out of a document in OTLP/JSON.
pub(super) fn redact(document: &mut Value) {
    match document {
        Value::Object(map) => {
            let is_secret = map.get("key").and_then(Value::as_str).is_some_and(is_name_of_secret);
            if let Some(value) = map.get_mut("value").filter(|_| is_secret) {
                *value = json!({"stringValue": REDACTED});
            }
            map.values_mut().for_each(redact);
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::String(text) => {
            for secret in [&HEADERS, &WORDS] {
                let Some(words) = secret.as_ref().filter(|words| words.is_match(text)) else { continue };
                *text = words.replace_all(text, format!("${{1}}{REDACTED}")).into_owned();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_name_of_secret(name: &str) -> bool {
    NAMES.as_ref().is_none_or(|names| names.is_match(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_and_the_rest_stays() {
        assert!(NAMES.is_some() && WORDS.is_some() && HEADERS.is_some());
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
    fn so_are_secrets_in_texts() {
        for (text, expected) in [
            ("GET /x authorization: Bearer abc.def-1\n200", "GET /x authorization: Bearer [redacted]\n200"),
            ("Authorization: AWS4-HMAC-SHA256 Credential=a/b, Signature=c", "Authorization: [redacted]"),
            ("Set-Cookie: id=abc; Path=/; x=1", "Set-Cookie: [redacted]"),
            (r#"{"Authorization":"Digest username=a, response=b","n":1}"#, r#"{"Authorization":"[redacted]","n":1}"#),
            ("Server=db;User=a;Pwd=abc;n=1", "Server=db;User=a;Pwd=[redacted];n=1"),
            ("?jwt=abc.def&x=1", "?jwt=[redacted]&x=1"),
            (r#"{"user":"a","password":"p w"}"#, r#"{"user":"a","password":"[redacted] w"}"#),
            ("login?access_token=abc&x=1", "login?access_token=[redacted]&x=1"),
            ("Cookie: id=abc; x=1", "Cookie: [redacted]"),
            (r#"{"log":"{\"api_key\":\"abc\"}"}"#, r#"{"log":"{\"api_key\":\"[redacted]\"}"}"#),
            ("postgres://user:abc@db/shop", "postgres://user:[redacted]@db/shop"),
            ("no token here", "no token here"),
        ] {
            let mut document = json!({"body": {"stringValue": text}});
            redact(&mut document);
            assert_eq!(document["body"]["stringValue"], expected);
        }
    }
}
