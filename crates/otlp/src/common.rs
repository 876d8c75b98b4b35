//! Views of the messages that all signals share: attributes, values, resource and scope.
//!
//! A view is a `Copy` slice. Its getters scan the message each time, never allocate and never panic (WIRE-1). If a
//! field occurs twice, the last one counts, as protobuf demands. Views expect validated bytes: in other bytes, a
//! malformed field ends its message, and a string that is not UTF-8 reads as empty.

use std::ops::Range;

use crate::cursor::{Field, Fields, Value};
use crate::field::{any_value, array_value, key_value, key_value_list, resource, scope};
use crate::status::low_i32;

/// A message in a request: where it stands, and its fields.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The request up to the end of this message.
    bytes: &'a [u8],
    start: usize,
    /// Where the key of the field that holds this message begins.
    key: usize,
}

impl<'a> Message<'a> {
    /// A whole request.
    pub fn request(bytes: &'a [u8]) -> Self {
        Self { bytes, start: 0, key: 0 }
    }

    /// Where the body of this message stands in the request.
    pub fn range(self) -> Range<usize> {
        self.start..self.bytes.len()
    }

    /// Where the field that holds this message stands in the request: key, length and body.
    pub fn field_range(self) -> Range<usize> {
        self.key..self.bytes.len()
    }

    /// The body of this message.
    pub fn body(self) -> &'a [u8] {
        &self.bytes[self.start..]
    }

    /// The fields in wire order, with offsets in the request.
    pub fn fields(self) -> Fields<'a> {
        Fields::starting_at(self.bytes, self.start)
    }

    /// Every message in the repeated field `number`.
    pub fn messages(self, number: u32) -> impl Iterator<Item = Self> + use<'a> {
        self.all(number).filter_map(move |field| self.inner(&field))
    }

    /// The message in the singular field `number`.
    pub fn message(self, number: u32) -> Option<Self> {
        self.all(number).filter_map(|field| self.inner(&field)).last()
    }

    /// A `string` field; empty when absent.
    pub fn string(self, number: u32) -> &'a str {
        text(self.bytes_field(number))
    }

    /// A `bytes` field; empty when absent.
    pub fn bytes_field(self, number: u32) -> &'a [u8] {
        self.all(number).filter_map(|field| field.body()).last().unwrap_or_default()
    }

    /// A varint field; 0 when absent.
    pub fn varint(self, number: u32) -> u64 {
        let value = |field: Field<'_>| if let Value::Varint(value) = field.value { Some(value) } else { None };
        self.all(number).filter_map(value).last().unwrap_or_default()
    }

    /// A `fixed64` field; 0 when absent.
    pub fn fixed64(self, number: u32) -> u64 {
        let value = |field: Field<'_>| if let Value::Fixed64(value) = field.value { Some(value) } else { None };
        self.all(number).filter_map(value).last().unwrap_or_default()
    }

    /// A `fixed32` field; 0 when absent.
    pub fn fixed32(self, number: u32) -> u32 {
        let value = |field: Field<'_>| if let Value::Fixed32(value) = field.value { Some(value) } else { None };
        self.all(number).filter_map(value).last().unwrap_or_default()
    }

    fn all(self, number: u32) -> impl Iterator<Item = Field<'a>> + use<'a> {
        self.fields().filter(move |field| field.number == number)
    }

    /// The message in a field of this one, when that is length-delimited.
    pub fn inner(self, field: &Field<'a>) -> Option<Self> {
        field.body().map(|_| Self { bytes: &self.bytes[..field.end], start: field.body_start(), key: field.start })
    }
}

/// `opentelemetry.proto.resource.v1.Resource`
#[derive(Debug, Clone, Copy)]
pub struct Resource<'a>(pub Message<'a>);

impl<'a> Resource<'a> {
    /// Attributes of the entity that sent the data.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(resource::ATTRIBUTES).map(KeyValue)
    }

    /// Attributes the sender dropped.
    pub fn dropped_attributes_count(self) -> u32 {
        low_u32(self.0.varint(resource::DROPPED_ATTRIBUTES_COUNT))
    }
}

/// `opentelemetry.proto.common.v1.InstrumentationScope`
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a>(pub Message<'a>);

impl<'a> Scope<'a> {
    /// Name of the instrumentation library.
    pub fn name(self) -> &'a str {
        self.0.string(scope::NAME)
    }

    /// Its version.
    pub fn version(self) -> &'a str {
        self.0.string(scope::VERSION)
    }

    /// Its attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(scope::ATTRIBUTES).map(KeyValue)
    }
}

/// `opentelemetry.proto.common.v1.KeyValue`
#[derive(Debug, Clone, Copy)]
pub struct KeyValue<'a>(pub Message<'a>);

impl<'a> KeyValue<'a> {
    /// The key.
    pub fn key(self) -> &'a str {
        self.0.string(key_value::KEY)
    }

    /// The value.
    pub fn value(self) -> AnyValue<'a> {
        self.0.message(key_value::VALUE).map_or(AnyValue::Empty, AnyValue::of)
    }
}

/// `opentelemetry.proto.common.v1.AnyValue`
#[derive(Debug, Clone, Copy)]
pub enum AnyValue<'a> {
    /// No value.
    Empty,
    /// Text.
    String(&'a str),
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// A floating point number.
    Double(f64),
    /// A list.
    Array(ArrayValue<'a>),
    /// A map.
    KeyValueList(KeyValueList<'a>),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An index into a string table (profiles only).
    StringIndex(i32),
}

impl<'a> AnyValue<'a> {
    /// The value in an `AnyValue` message: the last member of the oneof that is present.
    pub fn of(message: Message<'a>) -> Self {
        let member = |field: Field<'a>| {
            Some(match (field.number, field.value) {
                (any_value::STRING_VALUE, Value::Len(body)) => Self::String(text(body)),
                (any_value::BOOL_VALUE, Value::Varint(value)) => Self::Bool(value != 0),
                (any_value::INT_VALUE, Value::Varint(value)) => Self::Int(value.cast_signed()),
                (any_value::DOUBLE_VALUE, Value::Fixed64(bits)) => Self::Double(f64::from_bits(bits)),
                (any_value::ARRAY_VALUE, Value::Len(_)) => Self::Array(ArrayValue(message.inner(&field)?)),
                (any_value::KVLIST_VALUE, Value::Len(_)) => Self::KeyValueList(KeyValueList(message.inner(&field)?)),
                (any_value::BYTES_VALUE, Value::Len(body)) => Self::Bytes(body),
                (any_value::STRING_VALUE_STRINDEX, Value::Varint(value)) => Self::StringIndex(low_i32(value)),
                _ => return None,
            })
        };
        message.fields().filter_map(member).last().unwrap_or(Self::Empty)
    }
}

/// `opentelemetry.proto.common.v1.ArrayValue`
#[derive(Debug, Clone, Copy)]
pub struct ArrayValue<'a>(pub Message<'a>);

impl<'a> ArrayValue<'a> {
    /// The elements.
    pub fn values(self) -> impl Iterator<Item = AnyValue<'a>> + use<'a> {
        self.0.messages(array_value::VALUES).map(AnyValue::of)
    }
}

/// `opentelemetry.proto.common.v1.KeyValueList`
#[derive(Debug, Clone, Copy)]
pub struct KeyValueList<'a>(pub Message<'a>);

impl<'a> KeyValueList<'a> {
    /// The entries.
    pub fn values(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(key_value_list::VALUES).map(KeyValue)
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

pub(crate) fn low_u32(value: u64) -> u32 {
    low_i32(value).cast_unsigned()
}
