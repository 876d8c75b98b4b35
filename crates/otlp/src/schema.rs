//! OTLP's message definitions as data: what a field is called, how it is encoded, where it leads.
//!
//! Validation, JSON and error paths are written once against these tables; a signal is added by adding its tables.
//! Nothing here reads or writes data.
//!
//! Source: the `.proto` files of opentelemetry-proto 1.9 and the JSON rules of the OTLP specification.

use crate::cursor::{Cursor, Value, WireType};

pub(crate) mod common;
pub(crate) mod logs;
pub(crate) mod metrics;
#[cfg(test)]
mod tests;
pub(crate) mod traces;

/// Field numbers from here on are unknown to every OTLP message.
pub(crate) const NUMBERS: usize = 32;
const UNKNOWN: u8 = u8::MAX;
/// Keys from here on take more than a byte.
const KEYS: usize = 0x80;

/// What a field with a one-byte key is, as far as the key tells. The field may be repeated or is no message, and has
/// the wire type of its definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plain {
    /// Something else.
    Other,
    /// A number.
    Varint,
    /// Eight bytes.
    Fixed64,
    /// Four bytes.
    Fixed32,
    /// Any bytes.
    Bytes,
    /// Text.
    Text,
    /// One of many attributes.
    Attribute,
}

/// A message type.
#[derive(Debug)]
pub(crate) struct Message {
    /// What a message of this type counts as.
    pub(crate) role: Role,
    fields: &'static [Field],
    /// Field number to index in `fields`.
    index: [u8; NUMBERS],
    /// What a field is whose key is this byte.
    plain: [Plain; KEYS],
    /// Numbers of the fields that are the members of a oneof, a bit each. No message has two of them.
    oneof: u32,
}

/// What a message counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing.
    Part,
    /// The data of one resource.
    Resource,
    /// The data of one instrumentation scope.
    Scope,
    /// One item.
    Item,
    /// A key and a value. Attributes are not counted, but most bytes of a request belong to them.
    Attribute,
}

/// A field of a message type.
#[derive(Debug)]
pub(crate) struct Field {
    /// Field number, below 32.
    pub(crate) number: u32,
    /// Name in the `.proto` file.
    pub(crate) name: &'static str,
    /// Name in JSON.
    pub(crate) json_name: &'static str,
    /// Type.
    pub(crate) kind: Kind,
    /// Whether it may occur more than once.
    pub(crate) repeated: bool,
}

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// `bool`
    Bool,
    /// `int32`
    Int32,
    /// `uint32`
    Uint32,
    /// `int64`
    Int64,
    /// `uint64`
    Uint64,
    /// `sint32`: zigzag
    Sint32,
    /// An enum and the names of its values, in the order of their numbers from 0.
    Enum(&'static [&'static str]),
    /// `fixed32`
    Fixed32,
    /// `fixed64`
    Fixed64,
    /// `sfixed64`
    Sfixed64,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`, base64 in JSON
    Bytes,
    /// `bytes` that OTLP/JSON writes as hexadecimal digits: trace and span ids
    Id,
    /// A message
    Message(&'static Message),
}

impl Kind {
    /// How values of this type stand on the wire.
    #[inline]
    pub(crate) const fn wire(self) -> WireType {
        match self {
            Self::Bool | Self::Int32 | Self::Uint32 | Self::Int64 | Self::Uint64 | Self::Sint32 | Self::Enum(_) => {
                WireType::Varint
            }
            Self::Fixed64 | Self::Sfixed64 | Self::Double => WireType::Fixed64,
            Self::Fixed32 => WireType::Fixed32,
            Self::String | Self::Bytes | Self::Id | Self::Message(_) => WireType::Len,
        }
    }
}

impl Field {
    const fn new(number: u32, name: &'static str, json_name: &'static str, kind: Kind) -> Self {
        Self { number, name, json_name, kind, repeated: false }
    }

    const fn repeated(self) -> Self {
        Self { repeated: true, ..self }
    }

    /// Its key: number and wire type.
    const fn key(&self) -> u32 {
        self.number << 3 | self.kind.wire().tag() as u32
    }

    const fn plain(&self) -> Plain {
        match (self.kind.wire(), self.kind) {
            (WireType::Varint, _) => Plain::Varint,
            (WireType::Fixed64, _) => Plain::Fixed64,
            (WireType::Fixed32, _) => Plain::Fixed32,
            (WireType::Len, Kind::Message(inner)) => {
                if self.repeated && matches!(inner.role, Role::Attribute) {
                    Plain::Attribute
                } else {
                    Plain::Other
                }
            }
            (WireType::Len, Kind::String) => Plain::Text,
            (WireType::Len, _) => Plain::Bytes,
        }
    }

    /// Whether its values may be packed in one length-delimited field: repeated numbers. Protobuf demands that readers
    /// take both forms.
    #[inline]
    pub(crate) fn may_be_packed(&self) -> bool {
        self.repeated && !matches!(self.kind.wire(), WireType::Len)
    }
}

impl Message {
    const fn new(role: Role, fields: &'static [Field]) -> Self {
        let mut index = [UNKNOWN; NUMBERS];
        let mut plain = [Plain::Other; KEYS];
        let mut at = 0;
        while at < fields.len() {
            let key = fields[at].key() as usize;
            if key < KEYS {
                plain[key] = fields[at].plain();
            }
            assert!(at < UNKNOWN as usize, "message has too many fields");
            #[expect(clippy::cast_possible_truncation, reason = "checked one line above, at compile time")]
            let entry = at as u8;
            index[fields[at].number as usize] = entry;
            at += 1;
        }
        Self { role, fields, index, plain, oneof: 0 }
    }

    const fn oneof(self, members: &[u32]) -> Self {
        let mut oneof = 0;
        let mut at = 0;
        while at < members.len() {
            oneof |= 1 << members[at];
            at += 1;
        }
        Self { oneof, ..self }
    }

    /// The fields, at most [`NUMBERS`].
    pub(crate) fn fields(&self) -> &'static [Field] {
        self.fields
    }

    /// Where the field with this number is in [`fields`](Self::fields).
    pub(crate) fn index_of(&self, number: u32) -> Option<usize> {
        self.index.get(number as usize).map(|entry| usize::from(*entry)).filter(|index| *index < self.fields.len())
    }

    /// The fields, a bit each, that cannot have a value beside `field`, itself included. They are the members of its
    /// oneof, of which the last one on the wire counts.
    #[inline]
    pub(crate) fn rivals(&self, field: &Field) -> u32 {
        let own = 1 << field.number;
        if self.oneof & own == 0 { own } else { self.oneof }
    }

    /// What a field with this key is.
    #[inline]
    pub(crate) fn plain(&self, key: u8) -> Plain {
        self.plain.get(usize::from(key)).copied().unwrap_or(Plain::Other)
    }

    /// The field with this number.
    #[inline]
    pub(crate) fn field(&'static self, number: u32) -> Option<&'static Field> {
        let entry = *self.index.get(number as usize)?;
        self.fields.get(usize::from(entry))
    }

    /// The field with this JSON name or, as proto3 JSON demands of parsers, this original name.
    pub(crate) fn field_named(&'static self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.json_name == name || field.name == name)
    }

    /// The names of the fields that lead to `offset`, joined by dots; as far as the bytes can be read.
    pub(crate) fn path_to(&'static self, bytes: &[u8], offset: usize) -> String {
        let mut path = vec!["request"];
        let mut next = Some((self, 0, bytes));
        while let Some((message, start, bytes)) = next {
            next = step_towards(message, Cursor::starting_at(bytes, start), offset).and_then(|(name, deeper)| {
                path.push(name);
                deeper.map(|(message, body)| (message, body.start, &bytes[..body.end]))
            });
        }
        if path.len() > 1 {
            path.remove(0);
        }
        path.join(".")
    }
}

type Deeper = Option<(&'static Message, std::ops::Range<usize>)>;

/// The field that covers `offset` and, if that is a message whose body covers it, the body.
fn step_towards(message: &'static Message, mut cursor: Cursor<'_>, offset: usize) -> Option<(&'static str, Deeper)> {
    loop {
        let key = cursor.key().ok()??;
        let field = message.field(key.number);
        let name = field.map_or("unknown", |field| field.name);
        let Ok(value) = cursor.value(key.wire) else { return Some((name, None)) };
        let end = cursor.offset();
        if offset >= end {
            continue;
        }
        let deeper = match (field.map(|field| field.kind), value) {
            (Some(Kind::Message(inner)), Value::Len(body)) if offset >= end - body.len() => {
                Some((inner, end - body.len()..end))
            }
            _ => None,
        };
        return Some((name, deeper));
    }
}
