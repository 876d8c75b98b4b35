//! What an HTTP answer means for the data that was sent.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

use super::{Answer, Outcome, RetryKind};

/// Reads an answer. Retryable codes are those of the OTLP specification ("OTLP/HTTP Response", "Retryable Response Codes").
pub(super) fn outcome(answer: &Answer) -> Outcome {
    match answer.status.as_u16() {
        200..=299 if is_json(&answer.headers) => partial(weir_otlp::partial_success_from_json(&answer.body)),
        200..=299 => partial(weir_otlp::partial_success(&answer.body)),
        429 | 502 | 503 | 504 => Outcome::Retry {
            kind: RetryKind::Answered,
            hint: retry_after(&answer.headers, SystemTime::now()),
            message: message(answer),
        },
        413 => Outcome::TooLarge { message: message(answer) },
        code => Outcome::Rejected { code: code.to_string(), message: message(answer) },
    }
}

/// What the response message of a success says. One that cannot be read is a success all the same: the data was taken.
pub(super) fn partial(response: Result<Option<weir_otlp::PartialSuccess>, weir_otlp::Error>) -> Outcome {
    match response {
        Ok(Some(partial)) => Outcome::Delivered {
            rejected: u64::try_from(partial.rejected).unwrap_or_default(),
            message: partial.message,
        },
        Ok(None) => Outcome::Delivered { rejected: 0, message: String::new() },
        Err(error) => Outcome::Delivered { rejected: 0, message: format!("cannot read the backend's answer: {error}") },
    }
}

fn message(answer: &Answer) -> String {
    let status = weir_otlp::status::decode(&answer.body).filter(|_| !is_json(&answer.headers));
    let text = match status {
        Some(status) if !status.message.is_empty() => status.message,
        _ => String::from_utf8_lossy(&answer.body).trim().to_owned(),
    };
    format!("{}: {}", answer.status, super::shorten(&text))
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.starts_with("application/json"))
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
    fn retry_after_is_read_in_both_forms() {
        assert_eq!(hint("7"), Some(Duration::from_secs(7)));
        assert_eq!(hint("Thu, 01 Jan 1970 00:00:09 GMT"), Some(Duration::from_secs(9)));
        assert_eq!(hint("soon"), None);
    }
}
