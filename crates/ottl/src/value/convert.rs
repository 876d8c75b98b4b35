//! What functions ask of their arguments: a value of one kind, or whatever can be read as one.
//!
//! The strict forms fail on any other kind. The `like` forms convert, and pass on nothing as nothing. Source: the typed
//! getters in `pkg/ottl/expression.go`.

use std::borrow::Cow;

use super::{Failure, List, Map, Time, Value, text};
use crate::scene::TOO_LARGE;

fn expected(what: &str, value: &Value<'_>) -> Failure {
    Failure::new(format!("expected a {what} but got a {}", value.type_name()))
}

impl<'a> Value<'a> {
    pub(crate) fn into_text(self) -> Result<Cow<'a, str>, Failure> {
        match self {
            Self::String(text) => Ok(text),
            other => Err(expected("string", &other)),
        }
    }

    pub(crate) fn into_int(self) -> Result<i64, Failure> {
        match self {
            Self::Int(value) => Ok(value),
            other => Err(expected("int", &other)),
        }
    }

    pub(crate) fn into_double(self) -> Result<f64, Failure> {
        match self {
            Self::Double(value) => Ok(value),
            other => Err(expected("double", &other)),
        }
    }

    pub(crate) fn into_bool(self) -> Result<bool, Failure> {
        match self {
            Self::Bool(value) => Ok(value),
            other => Err(expected("bool", &other)),
        }
    }

    pub(crate) fn into_map(self) -> Result<Map<'a>, Failure> {
        match self {
            Self::Map(map) => Ok(map),
            other => Err(expected("map", &other)),
        }
    }

    pub(crate) fn into_list(self) -> Result<List<'a>, Failure> {
        match self {
            Self::List(list) => Ok(list),
            other => Err(expected("list", &other)),
        }
    }

    pub(crate) fn into_time(self) -> Result<Time, Failure> {
        match self {
            Self::Time(time) => Ok(time),
            other => Err(expected("time", &other)),
        }
    }

    pub(crate) fn into_duration(self) -> Result<i64, Failure> {
        match self {
            Self::Duration(duration) => Ok(duration),
            other => Err(expected("duration", &other)),
        }
    }

    /// As text; containers as JSON, bytes as hexadecimal digits. It fails rather than take more than `room` bytes of memory.
    pub(crate) fn into_text_like(self, room: usize) -> Result<Option<Cow<'a, str>>, Failure> {
        Ok(Some(match self {
            Self::Nil => return Ok(None),
            Self::String(text) => text,
            Self::Bytes(bytes) if 2 * bytes.len() > room => return Err(TOO_LARGE),
            Self::Bytes(bytes) => Cow::Owned(text::to_hex(&bytes)),
            Self::Double(value) if !value.is_finite() => return Err(Failure::text("the number is not finite")),
            Self::Time(time) if !time.is_rfc3339() => return Err(Failure::text("the year is not one of 0 to 9999")),
            other => Cow::Owned(text::argument_json(&other, room)?),
        }))
    }

    /// As the text that stands for an `AnyValue`: bytes as base64, nothing as nothing. It fails rather than take more than
    /// `room` bytes of memory.
    pub(crate) fn into_any_text(self, room: usize) -> Result<Cow<'a, str>, Failure> {
        Ok(match self {
            Self::Bytes(bytes) if 2 * bytes.len() > room => return Err(TOO_LARGE),
            Self::Bytes(bytes) => Cow::Owned(text::to_base64(&bytes)),
            Self::Nil => Cow::Borrowed(""),
            Self::String(text) => text,
            other => Cow::Owned(text::json(&other, room)?),
        })
    }

    /// As an integer; text that is not an integer becomes nothing.
    pub(crate) fn into_int_like(self) -> Result<Option<i64>, Failure> {
        Ok(Some(match self {
            Self::Nil => return Ok(None),
            Self::Int(value) => value,
            #[expect(clippy::cast_possible_truncation, reason = "the fraction is what the language drops")]
            Self::Double(value) => value as i64,
            Self::Bool(value) => i64::from(value),
            Self::String(text) => return Ok(text.parse().ok()),
            other => return Err(expected("number", &other)),
        }))
    }

    /// As a floating point number.
    #[expect(clippy::cast_precision_loss, reason = "the language converts so")]
    pub(crate) fn into_double_like(self) -> Result<Option<f64>, Failure> {
        Ok(Some(match self {
            Self::Nil => return Ok(None),
            Self::Double(value) => value,
            Self::Int(value) => value as f64,
            Self::Bool(value) => f64::from(u8::from(value)),
            Self::String(text) => text::parse_double(&text).ok_or_else(|| Failure::about(&text, "is not a number"))?,
            other => return Err(expected("number", &other)),
        }))
    }

    /// As a truth value; the texts are those of Go's `strconv.ParseBool`.
    pub(crate) fn into_bool_like(self) -> Result<Option<bool>, Failure> {
        Ok(Some(match self {
            Self::Nil => return Ok(None),
            Self::Bool(value) => value,
            Self::Int(value) => value != 0,
            Self::Double(value) => value != 0.0,
            Self::String(text) => match text.as_ref() {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
                "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
                _ => return Err(Failure::about(&text, "is not a truth value")),
            },
            other => return Err(expected("truth value", &other)),
        }))
    }

    /// As bytes; numbers in big endian.
    pub(crate) fn into_bytes_like(self) -> Result<Option<Cow<'a, [u8]>>, Failure> {
        Ok(Some(match self {
            Self::Nil => return Ok(None),
            Self::Bytes(bytes) => bytes,
            Self::String(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
            Self::String(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
            Self::Int(value) => Cow::Owned(value.to_be_bytes().to_vec()),
            Self::Double(value) => Cow::Owned(value.to_be_bytes().to_vec()),
            Self::Bool(value) => Cow::Owned(vec![u8::from(value)]),
            other => return Err(expected("string, number or bytes value", &other)),
        }))
    }
}
