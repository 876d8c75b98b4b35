//! What a gRPC answer means for the data that was sent.

use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::HeaderMap;

use super::{Answer, Outcome, RetryKind};
use crate::status::Code;

/// Reads an answer. Retryable codes are those of the OTLP specification ("OTLP/gRPC Throttling", "Failures").
pub(super) fn outcome(answer: &Answer) -> Outcome {
    let Some(code) = code(answer) else { return without_status(answer) };
    let fields = fields(answer);
    if code == Code::OK {
        return delivered(&answer.body);
    }
    let message = text(fields, "grpc-message").map(percent_decode).unwrap_or_default();
    let message = super::shorten(&message);
    let hint = details(fields).and_then(|status| status.retry_delay);
    judge(code, message, hint)
}

/// The status of an answer, when it has one.
pub(super) fn code(answer: &Answer) -> Option<Code> {
    text(fields(answer), "grpc-status")?.parse::<u32>().ok().map(Code::from)
}

/// Trailers-only answers carry their status in the headers.
fn fields(answer: &Answer) -> &HeaderMap {
    if answer.headers.contains_key("grpc-status") { &answer.headers } else { &answer.trailers }
}

fn judge(code: Code, message: String, hint: Option<Duration>) -> Outcome {
    match code {
        Code::CANCELLED
        | Code::DEADLINE_EXCEEDED
        | Code::ABORTED
        | Code::OUT_OF_RANGE
        | Code::UNAVAILABLE
        | Code::DATA_LOSS => Outcome::Retry { kind: RetryKind::Answered, hint, message: format!("{code}: {message}") },
        Code::RESOURCE_EXHAUSTED if hint.is_none() && is_too_large(&message) => Outcome::TooLarge { message },
        // The specification calls this final without a RetryInfo, but backends under memory pressure answer so, and
        // giving up acknowledged data for a missing hint would break the first promise.
        Code::RESOURCE_EXHAUSTED => {
            Outcome::Retry { kind: RetryKind::Answered, hint, message: format!("{code}: {message}") }
        }
        _ => Outcome::Rejected { code: code.to_string(), message },
    }
}

/// The texts in which gRPC servers refuse a message for its size.
fn is_too_large(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("larger than max") || message.contains("too large") || message.contains("message size")
}

/// The HTTP to gRPC status mapping of the gRPC specification, for answers from something that speaks no gRPC.
fn without_status(answer: &Answer) -> Outcome {
    let status = answer.status;
    let message = format!("HTTP {status} without a gRPC status");
    match status.as_u16() {
        // The stream ended without its trailers, or a proxy had no backend to ask.
        200 | 429 | 502 | 503 | 504 => Outcome::retry(message),
        413 => Outcome::TooLarge { message },
        code => Outcome::Rejected { code: code.to_string(), message },
    }
}

fn delivered(body: &Bytes) -> Outcome {
    // One uncompressed message: five bytes of prefix, then the response.
    let response = match body.first() {
        Some(0) => body.get(5..).unwrap_or_default(),
        _ => &[],
    };
    super::http::partial(weir_otlp::partial_success(response))
}

fn details(fields: &HeaderMap) -> Option<weir_otlp::status::Status> {
    let encoded = text(fields, "grpc-status-details-bin")?.trim_end_matches('=');
    let bytes = base64::engine::general_purpose::STANDARD_NO_PAD.decode(encoded).ok()?;
    weir_otlp::status::decode(&bytes)
}

fn text<'a>(fields: &'a HeaderMap, name: &str) -> Option<&'a str> {
    fields.get(name)?.to_str().ok()
}

/// grpc-message is percent-encoded UTF-8.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail
            .get(..2)
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, hex) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_percent_decoded() {
        assert_eq!(percent_decode("a%20b%C3%A9%zz%4"), "a bé%zz%4");
    }

    #[test]
    fn codes_lead_to_their_outcome() {
        let retry = |code| matches!(judge(code, String::new(), None), Outcome::Retry { .. });
        assert!(retry(Code::UNAVAILABLE) && retry(Code::DEADLINE_EXCEEDED) && retry(Code::RESOURCE_EXHAUSTED));
        assert!(!retry(Code::INVALID_ARGUMENT) && !retry(Code::from(16)) && !retry(Code::from(13)));
        let too_large =
            judge(Code::RESOURCE_EXHAUSTED, "grpc: received message larger than max (5 vs. 4)".into(), None);
        assert!(matches!(too_large, Outcome::TooLarge { .. }));
    }
}
