//! OTLP/protobuf to OTLP/JSON, in one pass over each message and into one buffer.
//!
//! It writes what the OTLP specification wants of senders: lowerCamelCase names, hexadecimal ids in lower case, enums
//! as numbers, 64-bit integers as strings, `NaN` and the infinities as words, other bytes as base64. What is on the
//! wire is written, defaults included. If a field occurs twice, or two members of a oneof, the last one counts.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use serde::Serialize;

use crate::cursor::{Cursor, Fields, Value, unzigzag};
use crate::error::Error;
use crate::limits::Limits;
use crate::schema::{self, Field, Kind, Message};
use crate::signal::Signal;
use crate::status::low_i32;
use crate::validate::validate;

/// A request in JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json {
    /// UTF-8 text, without line breaks.
    pub text: Vec<u8>,
    /// Fields that are missing in the text, because JSON names fields and these have no name here: they are of a newer
    /// OTLP than this program.
    pub unknown_fields: u64,
}

/// Translates an export request, or several of them one after the other, from protobuf to JSON.
///
/// [`crate::from_json`] reads it back to the same values.
///
/// # Errors
/// [`Error::Wire`] when [`crate::validate`] refuses the bytes.
pub fn to_json(signal: Signal, bytes: &[u8], limits: &Limits) -> Result<Json, Error> {
    // From here on every field is what its definition says, and nesting has an end.
    validate(signal, bytes, limits)?;
    let mut writer = Writer { out: Vec::with_capacity(bytes.len() * 2), unknown_fields: 0 };
    writer.message(signal.schema(), bytes);
    Ok(Json { text: writer.out, unknown_fields: writer.unknown_fields })
}

struct Writer {
    out: Vec<u8>,
    unknown_fields: u64,
}

impl Writer {
    fn message(&mut self, message: &'static Message, body: &[u8]) {
        let found = self.find(message, body);
        self.out.push(b'{');
        for (field, value) in message.fields().iter().zip(found) {
            let Some(value) = value else { continue };
            self.separate(b'{');
            self.out.push(b'"');
            self.out.extend_from_slice(field.json_name.as_bytes());
            self.out.extend_from_slice(b"\":");
            if field.repeated {
                self.array(field, body);
            } else {
                self.value(field.kind, value);
            }
        }
        self.out.push(b'}');
    }

    /// For every field, the value that counts, in the order of the definition. For a repeated field it is the last one,
    /// which only says that there is one.
    fn find<'a>(&mut self, message: &'static Message, body: &'a [u8]) -> [Option<Value<'a>>; schema::NUMBERS] {
        let mut found = [None; schema::NUMBERS];
        for field in Fields::new(body) {
            let Some(index) = message.index_of(field.number) else {
                self.unknown_fields += 1;
                continue;
            };
            let known = &message.fields()[index];
            for (other, value) in message.fields().iter().zip(&mut found) {
                if message.rivals(known) & 1 << other.number != 0 {
                    *value = None;
                }
            }
            found[index] = Some(field.value);
        }
        found
    }

    fn array(&mut self, field: &'static Field, body: &[u8]) {
        self.out.push(b'[');
        for element in Fields::new(body).filter(|element| element.number == field.number) {
            match element.value {
                Value::Len(numbers) if field.may_be_packed() => self.packed(field.kind, numbers),
                value => self.element(field.kind, value),
            }
        }
        self.out.push(b']');
    }

    fn packed(&mut self, kind: Kind, numbers: &[u8]) {
        let mut cursor = Cursor::new(numbers);
        while cursor.offset() < numbers.len() {
            // Not after validation.
            let Ok(value) = cursor.value(kind.wire()) else { return };
            self.element(kind, value);
        }
    }

    fn element(&mut self, kind: Kind, value: Value<'_>) {
        self.separate(b'[');
        self.value(kind, value);
    }

    /// A comma, unless this is the first value after `open`. No value ends with an opening bracket.
    fn separate(&mut self, open: u8) {
        if self.out.last() != Some(&open) {
            self.out.push(b',');
        }
    }

    fn value(&mut self, kind: Kind, value: Value<'_>) {
        match (kind, value) {
            (Kind::Message(message), Value::Len(body)) => self.message(message, body),
            (Kind::String, Value::Len(text)) => self.serialize(&String::from_utf8_lossy(text)),
            (Kind::Bytes, Value::Len(bytes)) => self.quoted(BASE64_STANDARD.encode(bytes).as_bytes()),
            (Kind::Id, Value::Len(bytes)) => self.hex(bytes),
            (Kind::Bool, Value::Varint(value)) => self.serialize(&(value != 0)),
            (Kind::Int32 | Kind::Enum(_), Value::Varint(value)) => self.serialize(&low_i32(value)),
            (Kind::Uint32, Value::Varint(value)) => self.serialize(&low_i32(value).cast_unsigned()),
            (Kind::Sint32, Value::Varint(value)) => self.serialize(&unzigzag(value)),
            (Kind::Int64, Value::Varint(value)) => self.quoted(value.cast_signed().to_string().as_bytes()),
            (Kind::Uint64, Value::Varint(value)) => self.quoted(value.to_string().as_bytes()),
            (Kind::Sfixed64, Value::Fixed64(bits)) => self.quoted(bits.cast_signed().to_string().as_bytes()),
            (Kind::Fixed32, Value::Fixed32(value)) => self.serialize(&value),
            (Kind::Fixed64, Value::Fixed64(value)) => self.quoted(value.to_string().as_bytes()),
            (Kind::Double, Value::Fixed64(bits)) => self.double(f64::from_bits(bits)),
            // Not after validation, which knows the wire type of every field. It reads as absent.
            _ => self.out.extend_from_slice(b"null"),
        }
    }

    fn double(&mut self, value: f64) {
        match value {
            _ if value.is_nan() => self.quoted(b"NaN"),
            f64::INFINITY => self.quoted(b"Infinity"),
            f64::NEG_INFINITY => self.quoted(b"-Infinity"),
            _ => self.serialize(&value),
        }
    }

    fn hex(&mut self, bytes: &[u8]) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.out.push(b'"');
        for byte in bytes {
            self.out.push(DIGITS[usize::from(byte >> 4)]);
            self.out.push(DIGITS[usize::from(byte & 0xf)]);
        }
        self.out.push(b'"');
    }

    /// A string that needs no escapes.
    fn quoted(&mut self, text: &[u8]) {
        self.out.push(b'"');
        self.out.extend_from_slice(text);
        self.out.push(b'"');
    }

    /// A number, a truth value, or a string with its escapes.
    fn serialize(&mut self, value: &impl Serialize) {
        serde_json::to_writer(&mut self.out, value).expect("scalars have a JSON form, and a Vec takes all bytes");
    }
}
