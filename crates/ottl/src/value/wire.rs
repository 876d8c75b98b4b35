//! Values from and to `AnyValue` messages.

use std::borrow::Cow;

use weir_otlp::build::{Encoder, varint_len};
use weir_otlp::common::{AnyValue, Message};
use weir_otlp::cursor::{Fields, Value as Raw, WireType};
use weir_otlp::field::{any_value, array_value, key_value, key_value_list, short_key};

use super::{Failure, List, Map, Value};

/// Longest list or map that is looked into. Meanwhile an element of two bytes takes some dozen bytes.
pub(crate) const MAX_CONTAINER: usize = 1 << 20;

const STRING_VALUE: u8 = short_key(any_value::STRING_VALUE, WireType::Len);
const KEY: u8 = short_key(key_value::KEY, WireType::Len);
const VALUE: u8 = short_key(key_value::VALUE, WireType::Len);

/// The value in the body of an `AnyValue`.
pub(crate) fn any(body: &[u8]) -> Value<'_> {
    // Nearly every value is one short string; the rest goes the thorough way.
    if let [STRING_VALUE, length @ ..0x80, text @ ..] = body
        && usize::from(*length) == text.len()
    {
        return Value::String(Cow::Borrowed(std::str::from_utf8(text).unwrap_or_default()));
    }
    match AnyValue::of(Message::request(body)) {
        AnyValue::Empty | AnyValue::StringIndex(_) => Value::Nil,
        AnyValue::String(text) => Value::String(Cow::Borrowed(text)),
        AnyValue::Bool(value) => Value::Bool(value),
        AnyValue::Int(value) => Value::Int(value),
        AnyValue::Double(value) => Value::Double(value),
        AnyValue::Array(_) | AnyValue::KeyValueList(_) if body.len() > MAX_CONTAINER => Value::Unreadable,
        AnyValue::Array(array) => Value::List(List::Wire(&body[array.0.range()])),
        AnyValue::KeyValueList(list) => Value::Map(Map::Wire(&body[list.0.range()])),
        AnyValue::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
    }
}

/// Body of the field that the bytes begin with, when that has the key `tag` and a length of one byte.
#[inline]
pub(crate) fn short_field(tag: u8, bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [first, length @ ..0x80, rest @ ..] if *first == tag => rest.get(..usize::from(*length)),
        _ => None,
    }
}

/// Key and `AnyValue` body of the `KeyValue` with this body.
#[inline]
pub(crate) fn key_value(body: &[u8]) -> (&[u8], &[u8]) {
    // Nearly all are a short key and a short value.
    if let [KEY, key_length @ ..0x80, rest @ ..] = body
        && let Some((key, [VALUE, length @ ..0x80, value @ ..])) = rest.split_at_checked(usize::from(*key_length))
        && usize::from(*length) == value.len()
    {
        return (key, value);
    }
    let (mut key, mut value) = (&[][..], &[][..]);
    for field in Fields::new(body) {
        match (field.number, field.value) {
            (key_value::KEY, Raw::Len(body)) => key = body,
            (key_value::VALUE, Raw::Len(body)) => value = body,
            _ => {}
        }
    }
    (key, value)
}

/// Entries of a `KeyValueList` with this body.
pub(crate) fn entries(body: &[u8]) -> impl Iterator<Item = (&str, Value<'_>)> {
    bodies(body).map(|body| {
        let (key, value) = key_value(body);
        (std::str::from_utf8(key).unwrap_or_default(), any(value))
    })
}

/// Elements of an `ArrayValue` with this body.
pub(crate) fn elements(body: &[u8]) -> impl Iterator<Item = Value<'_>> {
    bodies(body).map(any)
}

/// How many entries or elements there are. Few are not worth counting.
pub(crate) fn count(body: &[u8]) -> usize {
    const FEW_BYTES: usize = 1024;
    if body.len() < FEW_BYTES { 0 } else { bodies(body).count() }
}

fn bodies(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    Fields::new(body).filter(|field| field.number == array_value::VALUES).filter_map(|field| field.body())
}

/// Deepest nesting of lists and maps in a value that is written. Each level is two or three messages, and backends
/// refuse more than a hundred.
const MAX_DEPTH: u32 = 24;

impl Value<'_> {
    /// Whether an `AnyValue` can hold this, and the bytes its body takes then.
    ///
    /// # Errors
    /// When it is a time, an id or another kind that `AnyValue` has no member for.
    #[inline]
    pub(crate) fn encoded_len(&self) -> Result<usize, Failure> {
        match self {
            Self::String(text) => Ok(field_len(text.len())),
            value => value.len_at(0),
        }
    }

    fn len_at(&self, depth: u32) -> Result<usize, Failure> {
        if matches!(self, Self::Unreadable) {
            return Err(Failure::text("the value is a list or a map too long to look into"));
        }
        if depth > MAX_DEPTH {
            return Err(Failure::text("the value is nested too deep"));
        }
        Ok(match self {
            Self::Nil => 0,
            Self::Bool(_) => 2,
            Self::Int(value) => 1 + varint_len(value.cast_unsigned()),
            Self::Double(_) => 1 + size_of::<f64>(),
            Self::String(text) => field_len(text.len()),
            Self::Bytes(bytes) => field_len(bytes.len()),
            Self::Map(Map::Wire(body)) | Self::List(List::Wire(body)) => field_len(body.len()),
            Self::Map(Map::Tree(entries)) => {
                let lengths = entries.iter().map(|(key, value)| Ok(entry_len(key.len(), value.len_at(depth + 1)?)));
                field_len(lengths.sum::<Result<usize, Failure>>()?)
            }
            Self::List(List::Tree(values)) => {
                let lengths = values.iter().map(|value| Ok(field_len(value.len_at(depth + 1)?)));
                field_len(lengths.sum::<Result<usize, Failure>>()?)
            }
            Self::Time(_)
            | Self::Duration(_)
            | Self::TraceId(_)
            | Self::SpanId(_)
            | Self::ProfileId(_)
            | Self::Messages(_)
            | Self::Unreadable => {
                return Err(Failure::new(format!("a {} cannot be stored here", self.type_name())));
            }
        })
    }

    /// Writes the body of an `AnyValue`. Kinds that it cannot hold would be written as nothing; they do not get here,
    /// see [`encoded_len`](Self::encoded_len).
    pub(crate) fn encode(&self, out: &mut Encoder) {
        match self {
            Self::String(text) => out.bytes(any_value::STRING_VALUE, text.as_bytes()),
            Self::Bool(value) => out.varint(any_value::BOOL_VALUE, u64::from(*value)),
            Self::Int(value) => out.varint(any_value::INT_VALUE, value.cast_unsigned()),
            Self::Double(value) => out.fixed64(any_value::DOUBLE_VALUE, value.to_bits()),
            Self::List(List::Wire(body)) => out.bytes(any_value::ARRAY_VALUE, body),
            Self::List(List::Tree(values)) => {
                let list = out.open(any_value::ARRAY_VALUE, 0);
                for value in values {
                    let element = out.open(array_value::VALUES, 0);
                    value.encode(out);
                    out.close(element);
                }
                out.close(list);
            }
            Self::Map(Map::Wire(body)) => out.bytes(any_value::KVLIST_VALUE, body),
            Self::Map(Map::Tree(entries)) => {
                let map = out.open(any_value::KVLIST_VALUE, 0);
                for (key, value) in entries {
                    encode_key_value(key_value_list::VALUES, key, value, out);
                }
                out.close(map);
            }
            Self::Bytes(bytes) => out.bytes(any_value::BYTES_VALUE, bytes),
            Self::Nil | Self::Time(_) | Self::Duration(_) | Self::TraceId(_) | Self::SpanId(_) => {}
            Self::ProfileId(_) | Self::Messages(_) | Self::Unreadable => {}
        }
    }
}

/// Bytes that a length-delimited field takes. Those that hold attributes and values all have keys of one byte.
#[inline]
pub(crate) fn field_len(body: usize) -> usize {
    let length = if body < 0x80 { 1 } else { varint_len(body as u64) };
    1 + length + body
}

/// Bytes that a `KeyValue` takes as a field: one whose `AnyValue` has a body of `value` bytes.
pub(crate) fn entry_len(key: usize, value: usize) -> usize {
    field_len(field_len(key) + field_len(value))
}

/// Writes a `KeyValue` as the field `number`.
pub(crate) fn encode_key_value(number: u32, key: &str, value: &Value<'_>, out: &mut Encoder) {
    let length = value.encoded_len().unwrap_or_default();
    out.header(number, field_len(key.len()) + field_len(length));
    out.bytes(key_value::KEY, key.as_bytes());
    out.header(key_value::VALUE, length);
    let start = out.len();
    value.encode(out);
    debug_assert_eq!(out.len() - start, length, "a value takes the bytes it says");
}
