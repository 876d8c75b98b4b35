//! What looks like a secret is hidden in texts; in words of others, what looks like data of a person as well.
//!
//! It is a help for eyes and screens, not a guard: what has no such name or form is shown.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexBuilder};

/// What stands in the place of what is hidden.
pub const REDACTED: &str = "[redacted]";

/// A pattern that is compiled when it is needed first.
type Pattern = LazyLock<Option<Regex>>;

/// What each pattern may remember of its own way through texts, for each thread that is at it: no budget pays for it.
const MOST_REMEMBERED_BYTES: usize = 256 << 10;

fn made_of(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(pattern).dfa_size_limit(MOST_REMEMBERED_BYTES).build().ok()
}

// All matches of the patterns below are replaced. That takes linear time: what they look at behind a match is one run
// of blanks at most, in which no match starts.

/// Names of what is secret.
static NAMES: Pattern = LazyLock::new(|| {
    made_of(
        r"(?i)authorization|passw|passphrase|\bpwd\b|\bjwt\b|secret|token|cookie|credential|session|signature|(?:api|private|access)[-_.]?key",
    )
});
/// Headers of which all is secret up to the end of the line (`Authorization: AWS4-HMAC-SHA256 ...`), or of the text in
/// quotes, if it begins with one. Each way has a group of what stands before the secret, and one of the secret.
static HEADERS: Pattern = LazyLock::new(|| {
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
    made_of(&format!("(?i){}", ways.join("|")))
});
/// Passwords in URLs, in groups as above. What is followed by no `@`, or begins like a port, is none.
static URLS: Pattern = LazyLock::new(|| {
    let ways = [
        r#"[0-9]*[^\s/?#"\\<>0-9][^\s/"\\<>]*"#,
        "[0-9]+",
        // With a `/`, which should not be there.
        r#"[0-9]*[^\s/?#"\\<>0-9@][^\s/@"\\<>]*/[^\s@"\\<>]*"#,
    ];
    made_of(&format!(r"(://[^/@\s:\[]*:)({})@", ways.join("|")))
});
/// `Bearer abc`, and what stands behind `password=` or `"token": "`, in groups as above.
static WORDS: Pattern = LazyLock::new(|| {
    made_of(
        r#"(?i)(\b(?:bearer|basic)[ \t]+|(?:passw|passphrase|pwd|jwt|secret|token|credential|session|signature|(?:api|private|access)[-_.]?key)[A-Za-z0-9_.-]{0,32}\\?["']?[ \t]*[:=][ \t]*\\?["']?(?:(?:bearer|basic)[ \t]+)?)([^\s"',;&\\]+)"#,
    )
});
/// All secrets that are looked for in texts, in this order.
static SECRETS: [&Pattern; 3] = [&HEADERS, &URLS, &WORDS];

/// E-mail addresses, in groups as above. The user of a URL stands before a `@`, too: the host behind it is shown.
static MAILS: Pattern = LazyLock::new(|| {
    let none = r#"\s@"'`<>(){}\[\]\\,;:=/?&|"#;
    let user = r#"(://[^\s/?#@"'<>\\,;]*@)"#;
    let domain = format!(r"(?:[^{none}.%]+\.)+[A-Za-z][A-Za-z0-9-]+");
    made_of(&format!(r"{user}|()([^{none}]*[^{none}.](?:@|%40){domain})"))
});
/// JSON Web Tokens, and the beginning of one.
static TOKENS: Pattern = LazyLock::new(|| made_of(r"()((?-u:\b)eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)*)"));
/// What may be the number of a card. Points in time and sizes in bytes have other lengths, or begin with other digits.
static CARDS: Pattern = LazyLock::new(|| {
    let ways = [
        "3[47][0-9]{13}",
        "(?:2[2-7]|[3-6][0-9])[0-9]{14}",
        "3[47][0-9]{2}[ -][0-9]{6}[ -][0-9]{5}",
        "(?:2[2-7]|[3-6][0-9])[0-9]{2}(?:[ -][0-9]{4}){3}",
    ];
    made_of(&format!(r"()((?-u:\b)(?:{})(?-u:\b))", ways.join("|")))
});

/// What servers speak of in sentences: `invalid token: signature is invalid`.
const SPOKEN_OF: [&str; 6] = ["authorization", "token", "credential", "credentials", "session", "signature"];
/// No word of such a sentence is longer.
const LONGEST_WORD: usize = 16;

/// Whether something that is called so is secret.
pub fn is_name_of_secret(name: &str) -> bool {
    NAMES.as_ref().is_none_or(|names| names.is_match(name))
}

/// A text with its secrets hidden, each of which is told; nothing if there are none.
pub fn without_secrets(text: &str, tell: &mut dyn FnMut(&str)) -> Option<String> {
    let mut hides = |_: &str, secret: &str| {
        tell(secret);
        true
    };
    let mut hidden = Cow::Borrowed(text);
    for pattern in SECRETS {
        hidden = hide(hidden, pattern, &mut hides);
    }
    match hidden {
        Cow::Owned(hidden) => Some(hidden),
        Cow::Borrowed(_) => None,
    }
}

/// Words of others, who may quote data in them: without secrets, e-mail addresses, tokens and numbers of cards.
/// Sentences about tokens are not taken for tokens.
pub fn without_private(words: &str) -> Cow<'_, str> {
    let mut shown = Cow::Borrowed(words);
    for pattern in SECRETS {
        shown = hide(shown, pattern, &mut |before, secret| !is_sentence(before, secret));
    }
    for pattern in [&MAILS, &TOKENS] {
        shown = hide(shown, pattern, &mut |_, _| true);
    }
    hide(shown, &CARDS, &mut |_, digits| is_card(digits))
}

/// Hides what a pattern finds, if `hides` says so: it is given what stands before, and what may be secret.
fn hide<'a>(text: Cow<'a, str>, pattern: &Pattern, hides: &mut dyn FnMut(&str, &str) -> bool) -> Cow<'a, str> {
    match pattern.as_ref() {
        Some(pattern) if pattern.is_match(&text) => {
            Cow::Owned(pattern.replace_all(&text, |found: &Captures<'_>| replacement(found, hides)).into_owned())
        }
        Some(_) | None => text,
    }
}

/// Of what a pattern has found, the first two groups that are there are what stands before the secret, and the secret.
fn replacement(found: &Captures<'_>, hides: &mut dyn FnMut(&str, &str) -> bool) -> String {
    let whole = found.get(0).map_or("", |whole| whole.as_str());
    let mut groups = found.iter().skip(1).flatten().map(|group| group.as_str());
    let (before, secret) = (groups.next().unwrap_or_default(), groups.next().unwrap_or_default());
    if secret.is_empty() || !hides(before, secret) {
        return whole.to_owned();
    }
    let after = whole.get(before.len() + secret.len()..).unwrap_or_default();
    format!("{before}{REDACTED}{after}")
}

/// Whether words go on behind the name of what is secret, as in `token: not found` or `basic authentication`.
fn is_sentence(before: &str, secret: &str) -> bool {
    let before = before.to_ascii_lowercase();
    let speaks = match before.strip_suffix(": ") {
        Some(name) => SPOKEN_OF.iter().any(|of| name.ends_with(of)),
        None => ["bearer ", "basic "].iter().any(|scheme| before.ends_with(scheme)),
    };
    speaks && secret.split(' ').all(is_word)
}

fn is_word(text: &str) -> bool {
    let word = text.trim_end_matches(['.', ',', ':', ';', '!']);
    let is_letter = |(at, char): (usize, char)| char.is_ascii_lowercase() || (at == 0 && char.is_ascii_uppercase());
    word.len() <= LONGEST_WORD && word.chars().enumerate().all(is_letter)
}

/// Whether the last digit is what it is in numbers of cards (ISO/IEC 7812, Luhn).
fn is_card(number: &str) -> bool {
    let digits = number.bytes().rev().filter(u8::is_ascii_digit).map(|digit| u32::from(digit - b'0'));
    let doubled = |(at, digit): (usize, u32)| if at % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 };
    digits.enumerate().map(doubled).sum::<u32>() % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_patterns_are_right() {
        let all = SECRETS.into_iter().chain([&NAMES, &MAILS, &TOKENS, &CARDS]);
        all.enumerate().for_each(|(at, pattern)| assert!(pattern.is_some(), "{at}"));
    }

    /// It is the same when that is done again.
    fn redacted(text: &str) -> String {
        let once = without_secrets(text, &mut |_| {}).unwrap_or_else(|| text.to_owned());
        assert_eq!(without_secrets(&once, &mut |_| {}).unwrap_or_else(|| once.clone()), once);
        once
    }

    #[test]
    fn secrets_are_hidden_and_the_rest_stays() {
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

    #[test]
    fn a_secret_is_told() {
        let mut told = Vec::new();
        let shown = without_secrets("a=b password=c&token=d", &mut |secret| told.push(secret.to_owned()));
        assert_eq!(shown.as_deref(), Some("a=b password=[redacted]&token=[redacted]"));
        assert_eq!(told, ["c", "d"]);
        assert_eq!(without_secrets("a=b", &mut |_| panic!("there is none")), None);
    }

    fn shown(words: &str) -> String {
        let once = without_private(words).into_owned();
        assert_eq!(without_private(&once), once, "it is the same when that is done again");
        once
    }

    #[test]
    fn what_backends_quote_of_persons_is_hidden() {
        for (words, expected) in [
            // Loki, with labels of a stream.
            (
                r#"entry for '{app="shop", user="anna.smith@example.com"}' is too old: 2026-09-21T14:14:10Z"#,
                r#"entry for '{app="shop", user="[redacted]"}' is too old: 2026-09-21T14:14:10Z"#,
            ),
            (
                r#"'{authorization="Bearer abc.def", user_password="hunter2", tenant="shop"}' is too long"#,
                r#"'{authorization="Bearer [redacted]", user_password="[redacted]", tenant="shop"}' is too long"#,
            ),
            // Elasticsearch, with the value of a field.
            (
                "failed to parse field [card] of type [date]. Preview of field's value: '4111 1111 1111 1111'",
                "failed to parse field [card] of type [date]. Preview of field's value: '[redacted]'",
            ),
            // Prometheus remote write, with labels of a series.
            (
                r#"out of order sample: series={__name__="logins_total", mail="a%40b.org", jwt="x"} value=1"#,
                r#"out of order sample: series={__name__="logins_total", mail="[redacted]", jwt="[redacted]"} value=1"#,
            ),
            // A partial success of OTLP.
            (
                "1 span rejected: attribute token is eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln, card 378282246310005",
                "1 span rejected: attribute token is [redacted], card [redacted]",
            ),
            (
                "no user müller+x@mail.example.com, postgres://u:pw@db.example.com/a",
                "no user [redacted], postgres://u:[redacted]@db.example.com/a",
            ),
            ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]"),
            ("password: hunter", "password: [redacted]"),
        ] {
            assert_eq!(shown(words), expected);
        }
    }

    #[test]
    fn what_makes_words_useful_stays() {
        for words in [
            "grpc: received message larger than max (5242880 vs. 4194304)",
            "HTTP 413: the limit is 4194304 bytes; sent at 1790000050000 ms, 1790000050000000000 ns, 20260921141410",
            r#"Ingestion rate limit exceeded for user tenant-7 (limit: 4194304 bytes/sec) while adding '{app="shop"}'"#,
            "failed to parse field [http.status] of type [long] in document with id 'AbC-1_x', field @timestamp",
            "per-user series limit of 150000 exceeded, trace 4bf92f3577b34da6a3ce929d0e0e4736, span 00f067aa0ba902b7",
            "shop@1.2.3 at user@node-1 behind http://user@otlp.example.com:4317/?a=1 does not answer",
            "image registry.example.com/shop@sha256:4111111111111112",
            "HTTP 401 Unauthorized: invalid token: signature is invalid",
            "missing bearer token: Basic authentication is off. Credentials: unknown, session: not found!",
            "invalid authorization: no such user",
            "order 4111111111111112 is no card",
        ] {
            assert_eq!(shown(words), words);
        }
    }
}
