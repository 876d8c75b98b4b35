//! What an HTTP answer means for the data that was sent.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header;

use super::answer::{self, Answer};
use super::{About, BackendRefusal, Outcome, RetryKind};
use crate::budget::Budget;

/// Reads an answer. Retryable codes are those of the OTLP specification ("OTLP/HTTP Response", "Retryable Response
/// Codes"), and 408, by which a server or a proxy says that it waited too long (RFC 9110 15.5.9).
pub(super) fn outcome(answer: &Answer, budget: &Budget) -> Outcome {
    if answer.status.is_success() { success(answer, budget) } else { failure(answer) }
}

/// Reads an answer of a server that is not one of OTLP. Any success means that the data was taken.
pub(super) fn plain_outcome(answer: &Answer) -> Outcome {
    if answer.status.is_success() {
        return Outcome::Delivered { rejected: 0, message: String::new() };
    }
    failure(answer)
}

fn failure(answer: &Answer) -> Outcome {
    let code = answer.status.as_u16();
    let hint = retry_after(&answer.headers, SystemTime::now());
    let message = message(answer);
    match about(code) {
        None => Outcome::Retry { kind: RetryKind::Answered, hint, message },
        Some(about) => Outcome::Refused(BackendRefusal { about, code: code.to_string(), message, hint }),
    }
}

/// What a status is about; `None` for a status that asks to try again.
pub(super) fn about(code: u16) -> Option<About> {
    match code {
        408 | 429 | 502 | 503 | 504 => None,
        // The specification names 400; 422 is what HTTP calls the same thing (RFC 9110 15.5.21).
        400 | 422 => Some(About::Data),
        413 => Some(About::Size),
        500..=599 => Some(About::Unclear),
        // Redirections, credentials, routes, proxies, methods, media types.
        _ => Some(About::Access),
    }
}

/// OTLP answers are protobuf or JSON, and say so. A backend that has nothing to say may leave out the body, and its
/// type with it.
fn success(answer: &Answer, budget: &Budget) -> Outcome {
    let content_type = answer.content_type();
    let name = content_type.as_deref().unwrap_or("none");
    if answer.is_cut {
        return answer::not_otlp("a success that is longer than any answer of OTLP");
    }
    if answer.body.is_empty() {
        return without_body(name);
    }
    let encoding = answer.headers.get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok());
    let body = match answer::inflate(encoding, &answer.body, budget) {
        Ok(Some(body)) => body,
        Ok(None) => return Outcome::unsent("no memory to read the answer"),
        Err(fault) => return answer::not_otlp(&fault),
    };
    match name {
        "application/json" => answer::taken(weir_otlp::partial_success_from_json(&body)),
        "application/x-protobuf" | "application/protobuf" => answer::taken(weir_otlp::partial_success(&body)),
        other => answer::not_otlp(&format!("a success of type {other:?}")),
    }
}

/// A web page may be empty, and a gRPC server has its status elsewhere. An empty body of these types is no success.
fn without_body(content_type: &str) -> Outcome {
    if content_type == "text/html" || content_type.starts_with("application/grpc") {
        return answer::not_otlp(&format!("a success of type {content_type:?}"));
    }
    Outcome::Delivered { rejected: 0, message: String::new() }
}

fn message(answer: &Answer) -> String {
    let is_json = answer.content_type().as_deref() == Some("application/json");
    let status = weir_otlp::status::decode(&answer.body).filter(|_| !is_json);
    let text = match &status {
        Some(status) if !status.message.is_empty() => Cow::Borrowed(status.message.as_str()),
        _ => String::from_utf8_lossy(&answer.body),
    };
    match text.trim() {
        "" => answer.status.to_string(),
        text => format!("{}: {text}", answer.status),
    }
}

/// Retry-After in seconds or as an HTTP date (RFC 9110 10.2.3).
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wish = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wish)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(value: &'static str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::RETRY_AFTER, http::HeaderValue::from_static(value));
        retry_after(&headers, SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn only_answers_about_the_data_or_its_size_speak_of_items() {
        let of = |wanted| (100..1000).filter(|code| about(*code) == wanted).collect::<Vec<u16>>();
        assert_eq!(of(None), [408, 429, 502, 503, 504]);
        assert_eq!(of(Some(About::Data)), [400, 422]);
        assert_eq!(of(Some(About::Size)), [413]);
        assert!(of(Some(About::Unclear)).iter().all(|code| (500..600).contains(code)));
    }

    #[test]
    fn a_success_is_an_answer_of_otlp_or_has_no_body() {
        let is_success = |status, content_type: &'static str, body: &'static str| {
            let mut headers = HeaderMap::new();
            if !content_type.is_empty() {
                headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
            }
            let answer = Answer::of(status, headers, bytes::Bytes::from_static(body.as_bytes()));
            matches!(outcome(&answer, &Budget::new(1000)), Outcome::Delivered { rejected: 0, .. })
        };
        let (ok, accepted) = (http::StatusCode::OK, http::StatusCode::ACCEPTED);
        for status in [ok, accepted, http::StatusCode::NO_CONTENT] {
            for content_type in
                ["", "text/plain", "application/octet-stream", "application/x-protobuf", "application/json"]
            {
                assert!(is_success(status, content_type, ""), "{status} {content_type}");
            }
            assert!(!is_success(status, "text/html", "") && !is_success(status, "application/grpc+proto", ""));
        }
        for body in ["{}", r#"{"partialSuccess":{}}"#, r#"{"partial_success":null}"#, " {\n}\n"] {
            assert!(is_success(ok, "application/json; charset=utf-8", body), "{body}");
        }
        assert!(
            is_success(ok, "application/x-protobuf", "\x0a\0")
                && is_success(accepted, "application/protobuf", "\x0a\0")
        );
        for body in ["Error", "Hi", "\x0a\0", "{}"] {
            for content_type in ["", "application/octet-stream", "text/plain", "text/html", "application/grpc"] {
                assert!(!is_success(ok, content_type, body), "{content_type}: {body}");
            }
        }
        for body in ["[null,null]", r#"{"code":16,"message":"unauthenticated"}"#, r#"{"success":false}"#] {
            assert!(!is_success(ok, "application/json", body), "{body}");
        }
    }

    #[test]
    fn retry_after_is_read_in_both_forms() {
        assert_eq!(hint("7"), Some(Duration::from_secs(7)));
        assert_eq!(hint("Thu, 01 Jan 1970 00:00:09 GMT"), Some(Duration::from_secs(9)));
        assert_eq!(hint("soon"), None);
    }
}
