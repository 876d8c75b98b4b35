//! What a gRPC answer means for the data that was sent.

use std::time::Duration;

use base64::Engine as _;
use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::answer::{self, Answer};
use super::{About, BackendRefusal, Outcome, RetryKind, TOO_LARGE, http as over_http};
use crate::budget::Budget;
use crate::status::Code;

/// Before each message: a flag for compression, and the length in four bytes.
const PREFIX_BYTES: usize = 5;

/// Reads an answer. Retryable codes are those of the OTLP specification ("OTLP/gRPC Throttling", "Failures").
pub(super) fn outcome(answer: &Answer, budget: &Budget) -> Outcome {
    let Some(code) = code(answer) else { return without_status(answer) };
    match code {
        Code::OK if answer.status == 200 => return success(answer, budget),
        // An answer that says both does not prove that anything was taken.
        Code::OK => return without_status(answer),
        _ => {}
    }
    let fields = fields(answer);
    let hint = details(fields).and_then(|status| status.retry_delay);
    judge(code, message(fields), hint)
}

/// The status of an answer, when it has one.
pub(super) fn code(answer: &Answer) -> Option<Code> {
    text(fields(answer), "grpc-status")?.parse::<u32>().ok().map(Code::from)
}

/// Where the status is: after the message. The head counts if the answer is nothing but a head ("trailers-only").
fn fields(answer: &Answer) -> &HeaderMap {
    let is_only_a_head = answer.trailers.is_empty() && answer.body.is_empty();
    if is_only_a_head { &answer.headers } else { &answer.trailers }
}

fn judge(code: Code, message: String, hint: Option<Duration>) -> Outcome {
    match about(code, &message) {
        None => Outcome::Retry { kind: RetryKind::Answered, hint, message: format!("{code}: {message}") },
        Some(About::Size) => {
            Outcome::Refused(BackendRefusal { about: About::Size, code: TOO_LARGE.into(), message, hint })
        }
        Some(about) => Outcome::Refused(BackendRefusal { about, code: code.to_string(), message, hint }),
    }
}

/// What a status is about; `None` for a status that asks to try again.
fn about(code: Code, message: &str) -> Option<About> {
    let may_be_size = [
        Code::RESOURCE_EXHAUSTED,
        Code::OUT_OF_RANGE,
        Code::INVALID_ARGUMENT,
        Code::FAILED_PRECONDITION,
        Code::INTERNAL,
        Code::UNKNOWN,
    ];
    match code {
        _ if may_be_size.contains(&code) && names_a_size(message) => Some(About::Size),
        // The specification calls RESOURCE_EXHAUSTED final without a RetryInfo, but backends under memory pressure answer
        // so, and giving up acknowledged data for a missing hint would break the first promise.
        Code::RESOURCE_EXHAUSTED
        | Code::CANCELLED
        | Code::DEADLINE_EXCEEDED
        | Code::ABORTED
        | Code::OUT_OF_RANGE
        | Code::UNAVAILABLE
        | Code::DATA_LOSS => None,
        Code::INVALID_ARGUMENT => Some(About::Data),
        Code::UNAUTHENTICATED | Code::PERMISSION_DENIED | Code::UNIMPLEMENTED | Code::NOT_FOUND => Some(About::Access),
        _ => Some(About::Unclear),
    }
}

/// Whether a text refuses a message for its size: it speaks of a size, and gives a number of bytes. "The request rate
/// is too large" does not.
///
/// gRPC for Go, Java, Python, C++ and Node uses RESOURCE_EXHAUSTED and gives both sizes; tonic uses OUT_OF_RANGE.
fn names_a_size(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let wordings = ["larger than max", "message length too large", "exceeds maximum size", "too large", "message size"];
    let things = ["message", "request body", "payload", "bytes"];
    let speaks_of_size = wordings.iter().any(|words| message.contains(words));
    let speaks_of_bytes = things.iter().any(|words| message.contains(words));
    let has_size = message.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() >= LEAST_SIZE_DIGITS);
    speaks_of_size && speaks_of_bytes && has_size
}

/// A limit on the size of messages has at least so many digits: backends take more than a thousand bytes.
const LEAST_SIZE_DIGITS: usize = 4;

/// An answer whose gRPC status is missing, or does not fit its HTTP status, does not come from a gRPC server. The HTTP
/// status says what stands in front of it.
fn without_status(answer: &Answer) -> Outcome {
    let status = answer.status;
    let message = format!("HTTP {status} without a gRPC status that explains it");
    match status.as_u16() {
        // The stream ended without its trailers.
        200 if is_grpc(answer) && !answer.is_cut => Outcome::retry(message),
        200..=299 => answer::not_otlp(&message),
        // Only a gRPC status is about items.
        400 | 422 => Outcome::refused(About::Access, status.as_str(), message),
        code => match over_http::about(code) {
            None => Outcome::retry(message),
            Some(about) => Outcome::refused(about, status.as_str(), message),
        },
    }
}

fn is_grpc(answer: &Answer) -> bool {
    answer.content_type().is_some_and(|name| name == "application/grpc" || name.starts_with("application/grpc+"))
}

/// A success is one message: flag and length, then the response.
fn success(answer: &Answer, budget: &Budget) -> Outcome {
    if answer.is_cut {
        return answer::not_otlp("a gRPC message that is longer than any answer of OTLP");
    }
    if !is_grpc(answer) {
        return answer::not_otlp("a gRPC status in an answer of another type");
    }
    let Some((prefix, _)) = answer.body.split_first_chunk::<PREFIX_BYTES>() else {
        return answer::not_otlp("a gRPC status without a message");
    };
    let message = answer.body.slice(PREFIX_BYTES..);
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    if prefix[0] > 1 || message.len() != length as usize {
        return answer::not_otlp("a gRPC answer that is not one whole message");
    }
    let encoding = text(&answer.headers, "grpc-encoding").filter(|_| prefix[0] == 1);
    match answer::inflate(encoding, &message, budget) {
        Ok(Some(response)) => answer::taken(weir_otlp::partial_success(&response)),
        Ok(None) => Outcome::unsent("no memory to read the answer"),
        Err(fault) => answer::not_otlp(&fault),
    }
}

/// What is said of the status, in percent-encoded UTF-8.
fn message(fields: &HeaderMap) -> String {
    let encoded = text(fields, "grpc-message").unwrap_or_default();
    percent_decode_str(encoded).decode_utf8_lossy().into_owned()
}

fn details(fields: &HeaderMap) -> Option<weir_otlp::status::Status> {
    let encoded = text(fields, "grpc-status-details-bin")?.trim_end_matches('=');
    let bytes = base64::engine::general_purpose::STANDARD_NO_PAD.decode(encoded).ok()?;
    weir_otlp::status::decode(&bytes)
}

fn text<'a>(fields: &'a HeaderMap, name: &str) -> Option<&'a str> {
    fields.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_percent_decoded() {
        let fields = |said: &str| HeaderMap::from_iter([("grpc-message".parse().unwrap(), said.parse().unwrap())]);
        assert_eq!(message(&fields("a%20b%C3%A9%zz%+5%ff%4")), "a bé%zz%+5\u{fffd}%4");
        assert_eq!(message(&HeaderMap::new()), "");
    }

    #[test]
    fn codes_speak_of_data_of_access_or_ask_to_try_again() {
        let of = |wanted| (1..=16).filter(|code| about(Code::from(*code), "") == wanted).collect::<Vec<u32>>();
        assert_eq!(of(None), [1, 4, 8, 10, 11, 14, 15]);
        assert_eq!(of(Some(About::Data)), [3]);
        assert_eq!(of(Some(About::Access)), [5, 7, 12, 16]);
        assert_eq!(of(Some(About::Unclear)), [2, 6, 9, 13]);
        assert_eq!(about(Code::from(77), ""), Some(About::Unclear), "a code that nobody knows");
    }

    /// What an answer means that has an empty message, or none, and a gRPC status in its head and in its trailers.
    fn answered(status: u16, head: Option<&str>, has_message: bool, trailers: Option<&str>) -> Outcome {
        let fields = |status: Option<&str>| -> HeaderMap {
            let status = status.map(|status| (http::HeaderName::from_static("grpc-status"), status.parse().unwrap()));
            status.into_iter().collect()
        };
        let status = http::StatusCode::from_u16(status).unwrap();
        let message = if has_message { &[0; PREFIX_BYTES][..] } else { b"" };
        let mut answer = Answer::of(status, fields(head), bytes::Bytes::from_static(message));
        answer.headers.insert("content-type", http::HeaderValue::from_static("application/grpc"));
        answer.trailers = fields(trailers);
        outcome(&answer, &Budget::new(1000))
    }

    #[test]
    fn the_status_of_a_head_does_not_count_where_more_follows() {
        assert!(matches!(answered(200, Some("0"), true, Some("14")), Outcome::Retry { .. }));
        assert!(matches!(answered(200, Some("0"), true, Some("7")), Outcome::Refused(_)));
        assert!(matches!(answered(200, Some("0"), false, Some("14")), Outcome::Retry { .. }));
        assert!(matches!(answered(200, Some("0"), true, None), Outcome::Retry { .. }), "it was cut off");
        assert!(matches!(answered(200, Some("0"), true, Some("0")), Outcome::Delivered { .. }));
        assert!(matches!(answered(200, Some("14"), false, None), Outcome::Retry { .. }));
        let Outcome::Refused(refusal) = answered(200, Some("0"), false, None) else { panic!("nothing was said") };
        assert_eq!(refusal.code, "not_otlp");
    }

    #[test]
    fn a_success_behind_another_http_status_is_none() {
        let outcome = |status: u16| answered(status, None, true, Some("0"));
        assert!(matches!(outcome(200), Outcome::Delivered { rejected: 0, .. }));
        for status in [201, 204, 302, 403, 500] {
            assert!(matches!(outcome(status), Outcome::Refused(_)), "{status}: {:?}", outcome(status));
        }
        assert!(matches!(outcome(503), Outcome::Retry { .. }));
    }

    #[test]
    fn a_size_is_refused_by_a_text_that_names_one() {
        for text in [
            "grpc: received message larger than max (5242880 vs. 4194304)",
            "gRPC message exceeds maximum size 4194304: 5242880",
            "Error, decoded message length too large: found 5242880 bytes, the limit is: 4194304 bytes",
        ] {
            assert_eq!(about(Code::RESOURCE_EXHAUSTED, text), Some(About::Size), "{text}");
            assert_eq!(about(Code::OUT_OF_RANGE, text), Some(About::Size), "{text}");
            assert_eq!(about(Code::UNAUTHENTICATED, text), Some(About::Access), "{text}");
        }
        for text in [
            "request rate is too large, slow down",
            "the rate of 5000 requests is too large",
            "message rate too large: 12 of 10",
            "too many bytes per second: 1048576",
            "",
        ] {
            assert_eq!(about(Code::RESOURCE_EXHAUSTED, text), None, "{text}");
        }
    }
}
