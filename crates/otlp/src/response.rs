//! The answer to an export request, and the partial success it may carry.
//!
//! The protobuf form is the same for all signals; only JSON names the rejected items differently.

use serde::Deserialize;
use serde::de::Error as _;

use crate::build::Encoder;
use crate::cursor::{Cursor, Value, fault};
use crate::error::{Error, Fault, Problem};
use crate::signal::Signal;

/// What a backend took only in part, or a warning when nothing was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartialSuccess {
    /// Items the backend rejected.
    pub rejected: i64,
    /// Its explanation.
    pub message: String,
}

/// Reads an export response. `None` when everything was taken without a word.
///
/// # Errors
/// [`Error::Wire`] when the bytes are not an export response.
pub fn partial_success(bytes: &[u8]) -> Result<Option<PartialSuccess>, Error> {
    read_response(bytes).map(PartialSuccess::unless_empty).map_err(|Fault { problem, offset }| Error::Wire {
        problem,
        offset,
        path: "partial_success".to_owned(),
    })
}

/// Reads an export response in JSON, of any signal. `None` when everything was taken without a word.
///
/// # Errors
/// [`Error::Json`] when the text is not an export response.
pub fn partial_success_from_json(text: &[u8]) -> Result<Option<PartialSuccess>, Error> {
    let response: JsonResponse =
        serde_json::from_slice(text).map_err(|error| Error::json(&error, "partialSuccess".to_owned()))?;
    if response.error.is_some() {
        return Err(Error::json(&serde_json::Error::custom("it speaks of an error"), "error".to_owned()));
    }
    let partial = response.partial_success.unwrap_or_default();
    let success = PartialSuccess {
        rejected: partial.rejected.map_or(0, |JsonInt(rejected)| rejected),
        message: partial.message.unwrap_or_default(),
    };
    Ok(success.unless_empty())
}

/// Encodes the answer to an export request of any signal.
pub fn response(partial: Option<&PartialSuccess>) -> Vec<u8> {
    let mut response = Encoder::default();
    if let Some(PartialSuccess { rejected, message }) = partial {
        let partial = response.open(1, message.len() + 16);
        response.varint(1, rejected.cast_unsigned());
        response.bytes(2, message.as_bytes());
        response.close(partial);
    }
    response.into_bytes()
}

/// The answer to an export request in JSON.
pub fn response_to_json(signal: Signal, partial: Option<&PartialSuccess>) -> String {
    match partial {
        None => "{}".to_owned(),
        Some(PartialSuccess { rejected, message }) => serde_json::json!({
            "partialSuccess": { signal.rejected_in_json(): rejected.to_string(), "errorMessage": message }
        })
        .to_string(),
    }
}

impl PartialSuccess {
    fn unless_empty(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

fn read_response(bytes: &[u8]) -> Result<PartialSuccess, Fault> {
    let mut partial = PartialSuccess::default();
    let mut response = Cursor::new(bytes);
    while let Some(field) = response.next_field()? {
        match (field.number, field.value) {
            (1, Value::Len(_)) => read_partial(&bytes[..field.end], field.body_start(), &mut partial)?,
            (1, _) => return Err(fault(Problem::WireType, field.start)),
            _ => {}
        }
    }
    Ok(partial)
}

fn read_partial(bytes: &[u8], start: usize, partial: &mut PartialSuccess) -> Result<(), Fault> {
    let mut cursor = Cursor::starting_at(bytes, start);
    while let Some(field) = cursor.next_field()? {
        match (field.number, field.value) {
            (1, Value::Varint(rejected)) => partial.rejected = rejected.cast_signed(),
            (2, Value::Len(text)) => {
                let text = std::str::from_utf8(text)
                    .map_err(|error| fault(Problem::Utf8, field.body_start() + error.valid_up_to()))?;
                text.clone_into(&mut partial.message);
            }
            (1 | 2, _) => return Err(fault(Problem::WireType, field.start)),
            _ => {}
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct JsonResponse {
    #[serde(rename = "partialSuccess", alias = "partial_success")]
    partial_success: Option<JsonPartial>,
    /// No field of OTLP, but what gateways say with status 200 when they did not pass a request on.
    #[serde(alias = "errors")]
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
struct JsonPartial {
    #[serde(
        rename = "rejectedSpans",
        alias = "rejected_spans",
        alias = "rejectedDataPoints",
        alias = "rejected_data_points",
        alias = "rejectedLogRecords",
        alias = "rejected_log_records"
    )]
    rejected: Option<JsonInt>,
    #[serde(rename = "errorMessage", alias = "error_message")]
    message: Option<String>,
}

/// A 64-bit integer, which proto3 JSON writes as a string and also accepts as a number.
struct JsonInt(i64);

impl<'de> Deserialize<'de> for JsonInt {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::Number(number) => number.as_i64(),
            serde_json::Value::String(text) => text.parse().ok(),
            _ => None,
        }
        .map(Self)
        .ok_or_else(|| D::Error::custom("expected a 64-bit integer"))
    }
}
