//! What looks like a secret is not shown: values of attributes with such a name, and such words in texts.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::{Captures, Regex};
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
/// Headers of which all is secret up to the end of the line (`Authorization: AWS4-HMAC-SHA256 ...`), or of the text in
/// quotes, if it begins with one. Each way has a group of what stands before the secret, and one of the secret.
static HEADERS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let name = "(?:authorization|cookie)";
    let begins = format!(r#"{name}\\?["']?[ \t]*[:=][ \t]*"#);
    let ways = [
        // Of such a value, no quote is a part.
        format!(r#"({begins}\\?["']?(?:bearer|basic)[ \t]+)([^"'\\\r\n]+)"#),
        // In a text in JSON within one; in a text in JSON; in other quotes.
        format!(r#"({begins}\\")((?:[^"\\\r\n]|\\\\(?:\\.)?)+)"#),
        format!(r#"({begins}")((?:[^"\\\r\n]|\\.)+)"#),
        format!(r#"({begins}')([^'\r\n]+)"#),
        // A list, an object or a number in JSON.
        format!(r#"({name}\\?["'][ \t]*[:=][ \t]*)(\[[^\]\r\n]*\]?|\{{[^}}\r\n]*\}}?|[^"'\\\s,\[\]{{}}]+)"#),
        // Quotes are parts of it: `Cookie: theme="dark"; sid=abc`.
        format!(r#"({name}[ \t]*[:=][ \t]*)([^"'\\\s](?:[^\\\r\n]|\\[^nr\r\n])*)"#),
    ];
    Regex::new(&format!("(?i){}", ways.join("|"))).ok()
});
/// Passwords in URLs, in groups as above. What is followed by no `@`, or begins like a port, is none.
static URLS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let ways = [
        r#"[0-9]*[^\s/?#"\\<>0-9][^\s/"\\<>]*"#,
        "[0-9]+",
        // With a `/`, which should not be there.
        r#"[0-9]*[^\s/?#"\\<>0-9@][^\s/@"\\<>]*/[^\s@"\\<>]*"#,
    ];
    Regex::new(&format!(r"(://[^/@\s:\[]*:)({})@", ways.join("|"))).ok()
});
/// `Bearer abc`, and what stands behind `password=` or `"token": "`, in groups as above.
static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)(\b(?:bearer|basic)[ \t]+|(?:passw|passphrase|pwd|jwt|secret|token|credential|session|signature|(?:api|private|access)[-_.]?key)[A-Za-z0-9_.-]{0,32}\\?["']?[ \t]*[:=][ \t]*\\?["']?(?:(?:bearer|basic)[ \t]+)?)([^\s"',;&\\]+)"#,
    )
    .ok()
});
/// All that is looked for in texts, in this order.
static PATTERNS: [&LazyLock<Option<Regex>>; 3] = [&HEADERS, &URLS, &WORDS];

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
            for pattern in PATTERNS {
                let Some(pattern) = pattern.as_ref().filter(|pattern| pattern.is_match(text)) else { continue };
                *text = pattern.replace_all(text, |found: &Captures<'_>| replacement(found, tell)).into_owned();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Of what a pattern has found, the first two groups that are there are what stands before the secret, and the secret.
fn replacement(found: &Captures<'_>, tell: &mut dyn FnMut(&str)) -> String {
    let whole = found.get(0).map_or("", |whole| whole.as_str());
    let mut groups = found.iter().skip(1).flatten().map(|group| group.as_str());
    let (before, secret) = (groups.next().unwrap_or_default(), groups.next().unwrap_or_default());
    tell(secret);
    let after = whole.get(before.len() + secret.len()..).unwrap_or_default();
    format!("{before}{REDACTED}{after}")
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
    let text = String::from_utf8_lossy(&bytes);
    PATTERNS.into_iter().any(|pattern| pattern.as_ref().is_some_and(|pattern| pattern.is_match(&text)))
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

fn is_name_of_secret(name: &str) -> bool {
    NAMES.as_ref().is_none_or(|names| names.is_match(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_and_the_rest_stays() {
        assert!(NAMES.is_some() && PATTERNS.iter().all(|pattern| pattern.is_some()));
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
            ("password=@dmin123 n=1", "password=[redacted] n=1"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }

    /// Quotes end the value of a header only if it begins with one.
    #[test]
    fn so_are_headers_with_quotes() {
        for (text, expected) in [
            ("Cookie: theme=\"dark\"; sid=abc123\nHost: a", "Cookie: [redacted]\nHost: a"),
            (r#"Authorization: Digest username="a", realm="b", response="6629""#, "Authorization: [redacted]"),
            (
                r#"{"Authorization":"Digest username=\"a\", response=\"6629\"","n":1}"#,
                r#"{"Authorization":"[redacted]","n":1}"#,
            ),
            (r#"{"log":"Cookie: theme=\"dark\"; sid=abc\r\nHost: a"}"#, r#"{"log":"Cookie: [redacted]\r\nHost: a"}"#),
            (
                r#"{"log":"{\"cookie\":\"a=\\\"b\\\"; sid=c\",\"n\":1}"}"#,
                r#"{"log":"{\"cookie\":\"[redacted]\",\"n\":1}"}"#,
            ),
            ("{'cookie': 'a=\"b\"; sid=abc', 'n': 1}", "{'cookie': '[redacted]', 'n': 1}"),
            (r#"{"set-cookie":["a=b; Path=/","c=d"],"n":1}"#, r#"{"set-cookie":[redacted],"n":1}"#),
            (r#"{"cookie":{"sid":"abc"},"n":1}"#, r#"{"cookie":[redacted],"n":1}"#),
            (r#"{"cookie":"","n":1}"#, r#"{"cookie":"","n":1}"#),
            ("curl -H 'Authorization: Bearer abc' http://a", "curl -H 'Authorization: Bearer [redacted]' http://a"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }

    #[test]
    fn so_are_passwords_in_urls_and_ports_stay() {
        for (text, expected) in [
            ("redis://:hunter2@cache:6379", "redis://:[redacted]@cache:6379"),
            ("postgres://user:p@ss@db", "postgres://user:[redacted]@db"),
            ("postgres://user:1p@ss@db/a?mail=x@y", "postgres://user:[redacted]@db/a?mail=x@y"),
            ("postgres://user:p/ss@db/shop", "postgres://user:[redacted]@db/shop"),
            ("postgres://user:1234@db", "postgres://user:[redacted]@db"),
            (
                "amqp://guest:abc@a:5672,amqp://guest:def@b:5672",
                "amqp://guest:[redacted]@a:5672,amqp://guest:[redacted]@b:5672",
            ),
        ] {
            assert_eq!(redacted(text), expected);
        }
        for text in [
            "http://cart:8080/checkout?x=1",
            "http://cart:8080/?mail=a@b",
            "http://[::1]:8080/?mail=a@b",
            r#"{"url":"http://cart:8080","mail":"a@b.c"}"#,
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    fn redacted(text: &str) -> Value {
        let mut document = json!({"body": {"stringValue": text}});
        redact(&mut document);
        let once = document["body"]["stringValue"].take();
        document["body"]["stringValue"] = once.clone();
        redact(&mut document);
        assert_eq!(document["body"]["stringValue"], once, "it is the same when that is done again");
        once
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
