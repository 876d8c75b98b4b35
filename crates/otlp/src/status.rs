//! `google.rpc.Status`: the body of OTLP/HTTP errors and of gRPC's `grpc-status-details-bin`.
//!
//! Of the details, only `RetryInfo` is read and written; others are skipped.

use std::time::Duration;

use crate::build::Encoder;
use crate::cursor::{Fields, Value};

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
/// Largest value of a `google.protobuf.Duration`: ten thousand years.
const MAX_SECONDS: u64 = 315_576_000_000;

/// A decoded `google.rpc.Status`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// gRPC code.
    pub code: i32,
    /// Message for people.
    pub message: String,
    /// When the sender may try again, if it said so.
    pub retry_delay: Option<Duration>,
}

/// Encodes a status, with a `RetryInfo` detail if there is a delay.
pub fn encode(code: i32, message: &str, retry_delay: Option<Duration>) -> Vec<u8> {
    let mut status = Encoder::with_capacity(message.len() + 80);
    status.varint(1, i64::from(code).cast_unsigned());
    status.bytes(2, message.as_bytes());
    if let Some(delay) = retry_delay {
        let detail = status.open(3, 60);
        status.bytes(1, RETRY_INFO.as_bytes());
        let retry_info = status.open(2, 16);
        let duration = status.open(1, 12);
        status.varint(1, delay.as_secs().min(MAX_SECONDS));
        status.varint(2, u64::from(delay.subsec_nanos()));
        status.close(duration);
        status.close(retry_info);
        status.close(detail);
    }
    status.into_bytes()
}

/// Decodes a status; `None` when the bytes are not one. A message that is not UTF-8 is repaired, since it is only
/// shown.
pub fn decode(bytes: &[u8]) -> Option<Status> {
    let mut status = Status::default();
    let mut cursor = crate::cursor::Cursor::new(bytes);
    while let Some(field) = cursor.next_field().ok()? {
        match (field.number, field.value) {
            (1, Value::Varint(code)) => status.code = low_i32(code),
            (2, Value::Len(message)) => status.message = String::from_utf8_lossy(message).into_owned(),
            (3, Value::Len(detail)) => status.retry_delay = status.retry_delay.or_else(|| retry_delay(detail)),
            (1..=3, _) => return None,
            _ => {}
        }
    }
    Some(status)
}

/// The status in proto3 JSON.
pub fn to_json(code: i32, message: &str, retry_delay: Option<Duration>) -> String {
    let mut status = serde_json::json!({ "code": code, "message": message });
    if let Some(delay) = retry_delay {
        let delay = format!("{}.{:09}s", delay.as_secs().min(MAX_SECONDS), delay.subsec_nanos());
        status["details"] = serde_json::json!([{ "@type": RETRY_INFO, "retryDelay": delay }]);
    }
    status.to_string()
}

/// The delay in a `google.protobuf.Any` that holds a `RetryInfo`.
fn retry_delay(detail: &[u8]) -> Option<Duration> {
    if last_bytes(detail, 1)? != RETRY_INFO.as_bytes() {
        return None;
    }
    let duration = last_bytes(last_bytes(detail, 2)?, 1)?;
    let seconds = u64::try_from(last_varint(duration, 1).cast_signed()).ok()?;
    let nanos = u32::try_from(last_varint(duration, 2)).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos))
}

fn last_bytes(message: &[u8], number: u32) -> Option<&[u8]> {
    Fields::new(message).filter(|field| field.number == number).filter_map(|field| field.body()).last()
}

fn last_varint(message: &[u8], number: u32) -> u64 {
    let value = Fields::new(message).filter(|field| field.number == number).last().map(|field| field.value);
    if let Some(Value::Varint(value)) = value { value } else { 0 }
}

/// The low 32 bits of a varint, which is how protobuf reads an `int32`.
pub(crate) fn low_i32(value: u64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}
