//! OTLP/JSON to OTLP/protobuf, in one pass and without a tree in between. The way back is in `write`.
//!
//! This is the proto3 JSON mapping with OTLP's exceptions: trace and span ids are hexadecimal, and enums are numbers
//! (names are accepted, too). Names come in lowerCamelCase or as in the `.proto` file, unknown names are ignored, and
//! `null` is the default. The tables in `schema` say what a field is and how it is written; nothing here knows a
//! signal.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};

use crate::build::Encoder;
use crate::error::{Error, Problem};
use crate::limits::{Limits, Tally};
use crate::schema::{Field, Kind, Message, Role};
use crate::signal::Signal;

mod scalar;
mod write;

pub use write::{Json, to_json};

/// Translates an export request from JSON to protobuf that passes [`crate::validate`] with the same limits.
///
/// The result takes at most `max_output` bytes, and no more while it grows. Besides, a string with escapes is there
/// once more while it is read.
///
/// # Errors
/// [`Error::Json`] with line, column and JSON path of the first problem.
pub fn from_json(signal: Signal, input: &[u8], limits: &Limits, max_output: usize) -> Result<Vec<u8>, Error> {
    // What is not written to takes no memory; what has to grow is there twice.
    let room = input.len().saturating_add(input.len() / 4).min(max_output).saturating_add(SLACK);
    let mut writer = Writer {
        out: Encoder::with_capacity(room),
        max_output,
        tally: Tally::new(limits),
        depth: 0,
        path: Vec::new(),
        is_too_much: false,
    };
    let mut json = serde_json::Deserializer::from_slice(input);
    let read =
        MessageSeed { writer: &mut writer, message: signal.schema() }.deserialize(&mut json).and_then(|()| json.end());
    match read {
        Ok(()) => Ok(writer.out.into_bytes()),
        Err(error) => Err(writer.error(&error)),
    }
}

/// What is written before it is known whether there is room: a number, and the lengths of the messages around it.
const SLACK: usize = 1 << 10;

/// Where in the JSON text we are.
#[derive(Debug)]
enum Step {
    Field(&'static str),
    Index(usize),
}

struct Writer {
    out: Encoder,
    max_output: usize,
    tally: Tally,
    depth: u32,
    path: Vec<Step>,
    /// The error is that there is more than a limit allows.
    is_too_much: bool,
}

impl Writer {
    /// Whether there is room for so many bytes more.
    fn check_size<E: serde::de::Error>(&mut self, more: usize) -> Result<(), E> {
        if self.out.len().saturating_add(more) > self.max_output {
            self.is_too_much = true;
            return Err(E::custom(format_args!("more than {} bytes as protobuf", self.max_output)));
        }
        Ok(())
    }

    /// Counts a message that begins.
    fn enter<E: serde::de::Error>(&mut self, role: Role) -> Result<(), E> {
        self.tally.enter(role, self.depth).map_err(|problem| {
            self.is_too_much = matches!(problem, Problem::Items(_));
            E::custom(problem)
        })
    }

    fn error(&self, error: &serde_json::Error) -> Error {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) if path.is_empty() => path.push_str(name),
                Step::Field(name) => path.extend([".", name]),
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        if path.is_empty() {
            path.push_str("request");
        }
        let error = Error::json(error, path);
        if self.is_too_much { error.beyond_limits() } else { error }
    }
}

/// Reads a JSON object as the body of a message.
struct MessageSeed<'w> {
    writer: &'w mut Writer,
    message: &'static Message,
}

impl<'de> DeserializeSeed<'de> for MessageSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // As it comes: asked for a map, the parser would repeat a text that stands in its place.
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MessageSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        Err(E::invalid_type(Unexpected::Other("string"), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // Fields seen so far, a bit per field number; and messages written, which nothing else of a oneof may follow.
        let (mut seen, mut written) = (0u32, 0u32);
        while let Some(name) = map.next_key_seed(NameSeed(self.message))? {
            let Some(field) = name else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            self.writer.path.push(Step::Field(field.json_name));
            if seen & 1 << field.number != 0 {
                return Err(A::Error::custom("second occurrence of a field"));
            }
            seen |= 1 << field.number;
            let has_value = map.next_value_seed(FieldSeed { writer: &mut *self.writer, field })?;
            if has_value && !field.repeated && matches!(field.kind, Kind::Message(_)) {
                if written & self.message.rivals(field) != 0 {
                    return Err(A::Error::custom("second member of a oneof"));
                }
                written |= 1 << field.number;
            }
            self.writer.path.pop();
        }
        Ok(())
    }
}

/// Reads the name of a field; `None` when the message has no such field.
struct NameSeed(&'static Message);

impl<'de> DeserializeSeed<'de> for NameSeed {
    type Value = Option<&'static Field>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameSeed {
    type Value = Option<&'static Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.field_named(name))
    }
}

/// Reads what follows a field name: null, a value, or an array of values. Tells whether it was anything but null.
struct FieldSeed<'w> {
    writer: &'w mut Writer,
    field: &'static Field,
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.field.repeated { "an array" } else { "a value" })
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<bool, E> {
        Err(E::invalid_type(Unexpected::Other("string"), &self))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        if self.field.repeated {
            // As above.
            return deserializer.deserialize_any(self);
        }
        ValueSeed { writer: self.writer, field: self.field }.deserialize(deserializer).map(|()| true)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<bool, A::Error> {
        for index in 0.. {
            self.writer.path.push(Step::Index(index));
            let value = ValueSeed { writer: &mut *self.writer, field: self.field };
            let more = array.next_element_seed(value)?.is_some();
            self.writer.path.pop();
            if !more {
                break;
            }
        }
        Ok(true)
    }
}

/// Reads one value and writes it as one field.
struct ValueSeed<'w> {
    writer: &'w mut Writer,
    field: &'static Field,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { writer, field } = self;
        let Kind::Message(message) = field.kind else {
            deserializer.deserialize_any(scalar::ScalarVisitor { writer: &mut *writer, field })?;
            return writer.check_size(0);
        };
        writer.enter(message.role)?;
        writer.depth += 1;
        let open = writer.out.open(field.number, 0);
        MessageSeed { writer: &mut *writer, message }.deserialize(deserializer)?;
        writer.out.close(open);
        writer.depth -= 1;
        writer.check_size(0)
    }
}
