//! The answer to an export request, and the partial success it may carry.
//!
//! The protobuf form is the same for all signals; only JSON names the rejected items differently.

use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};

use crate::build::Encoder;
use crate::cursor::{Cursor, Value, fault};
use crate::error::{Error, Fault, Problem};
use crate::field::export_partial_success::{ERROR_MESSAGE, REJECTED};
use crate::field::export_response::PARTIAL_SUCCESS;
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
/// A response is `{}` or speaks of `partialSuccess`. Unlike those of protobuf, its unknown fields are not passed over when
/// they are all there is: gateways and applications say in JSON, with a status of success, that something went wrong.
///
/// # Errors
/// [`Error::Json`] when the text is not an export response.
pub fn partial_success_from_json(text: &[u8]) -> Result<Option<PartialSuccess>, Error> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let response = json.deserialize_map(JsonResponse).and_then(|partial| json.end().map(|()| partial));
    let partial = response.map_err(|error| Error::json(&error, "partialSuccess".to_owned()))?;
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
        let partial = response.open(PARTIAL_SUCCESS, message.len() + 16);
        response.varint(REJECTED, rejected.cast_unsigned());
        response.bytes(ERROR_MESSAGE, message.as_bytes());
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
            (PARTIAL_SUCCESS, Value::Len(_)) => read_partial(&bytes[..field.end], field.body_start(), &mut partial)?,
            (PARTIAL_SUCCESS, _) => return Err(fault(Problem::WireType, field.start)),
            _ => {}
        }
    }
    Ok(partial)
}

fn read_partial(bytes: &[u8], start: usize, partial: &mut PartialSuccess) -> Result<(), Fault> {
    let mut cursor = Cursor::starting_at(bytes, start);
    while let Some(field) = cursor.next_field()? {
        match (field.number, field.value) {
            (REJECTED, Value::Varint(rejected)) => partial.rejected = rejected.cast_signed(),
            (ERROR_MESSAGE, Value::Len(text)) => {
                let text = std::str::from_utf8(text)
                    .map_err(|error| fault(Problem::Utf8, field.body_start() + error.valid_up_to()))?;
                text.clone_into(&mut partial.message);
            }
            (REJECTED | ERROR_MESSAGE, _) => return Err(fault(Problem::WireType, field.start)),
            _ => {}
        }
    }
    Ok(())
}

/// Reads a response in JSON. A list is no response, although serde would read any struct from one.
struct JsonResponse;

impl<'de> Visitor<'de> for JsonResponse {
    type Value = JsonPartial;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an export response")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<JsonPartial, A::Error> {
        let (mut partial, mut is_else) = (None, false);
        while let Some(field) = fields.next_key()? {
            match field {
                JsonField::PartialSuccess => partial = Some(fields.next_value::<Option<JsonPartial>>()?),
                // No field of OTLP, but what gateways say with status 200 when they did not pass a request on.
                JsonField::Error if fields.next_value::<Option<IgnoredAny>>()?.is_some() => {
                    return Err(A::Error::custom("it speaks of an error"));
                }
                JsonField::Error => {}
                JsonField::Other => {
                    fields.next_value::<IgnoredAny>()?;
                    is_else = true;
                }
            }
        }
        match partial {
            None if is_else => Err(A::Error::custom("it is something else")),
            partial => Ok(partial.flatten().unwrap_or_default()),
        }
    }
}

#[derive(Deserialize)]
#[serde(field_identifier)]
enum JsonField {
    #[serde(rename = "partialSuccess", alias = "partial_success")]
    PartialSuccess,
    #[serde(rename = "error", alias = "errors")]
    Error,
    #[serde(other)]
    Other,
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
