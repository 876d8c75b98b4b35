//! Scalars of proto3 JSON: each accepted spelling of a value, written as one protobuf field.
//!
//! A number may stand in a string and a string of digits for a number; precision is never lost silently: what does
//! not fit its type is refused.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{Error, Unexpected, Visitor};

use super::Writer;
use crate::schema::{Field, Kind};

const BASE64: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const BASE64_STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, BASE64);
const BASE64_URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, BASE64);

/// Writes one scalar as a field.
pub(super) struct ScalarVisitor<'w> {
    pub(super) writer: &'w mut Writer,
    pub(super) field: &'static Field,
}

impl ScalarVisitor<'_> {
    /// Writes an integer if it fits the type of the field.
    fn integer(&mut self, value: i128) -> Option<()> {
        let number = self.field.number;
        match self.field.kind {
            Kind::Int32 | Kind::Enum(_) => {
                self.writer.out.varint(number, i64::from(i32::try_from(value).ok()?).cast_unsigned());
            }
            Kind::Uint32 => self.writer.out.varint(number, u64::from(u32::try_from(value).ok()?)),
            Kind::Int64 => self.writer.out.varint(number, i64::try_from(value).ok()?.cast_unsigned()),
            Kind::Uint64 => self.writer.out.varint(number, u64::try_from(value).ok()?),
            Kind::Sint32 => self.writer.out.sint32(number, i32::try_from(value).ok()?),
            Kind::Sfixed64 => self.writer.out.fixed64(number, i64::try_from(value).ok()?.cast_unsigned()),
            Kind::Fixed32 => self.writer.out.fixed32(number, u32::try_from(value).ok()?),
            Kind::Fixed64 => self.writer.out.fixed64(number, u64::try_from(value).ok()?),
            Kind::Bool | Kind::Double | Kind::String | Kind::Bytes | Kind::Id | Kind::Message(_) => return None,
        }
        Some(())
    }

    /// Writes a number with a fraction or an exponent, which may stand for an integer: `1e3`, `5.0`.
    fn float(&mut self, value: f64) -> Option<()> {
        if matches!(self.field.kind, Kind::Double) {
            self.writer.out.fixed64(self.field.number, value.to_bits());
            return Some(());
        }
        // Beyond 2^64 no type fits, and every such float fits an i128.
        if value.fract() != 0.0 || value.abs() > 18_446_744_073_709_551_616.0 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "integral and within 64 bits, checked above")]
        self.integer(value as i128)
    }

    fn text(&mut self, text: &str) -> Option<()> {
        match self.field.kind {
            Kind::String => self.writer.out.bytes(self.field.number, text.as_bytes()),
            Kind::Id => return self.hex(text.as_bytes()),
            Kind::Bytes => {
                let url_safe = text.bytes().any(|byte| matches!(byte, b'-' | b'_'));
                let engine = if url_safe { BASE64_URL_SAFE } else { BASE64_STANDARD };
                let most = base64::decoded_len_estimate(text.len());
                let decode = |room: &mut [u8]| engine.decode_slice(text, room).ok();
                return self.writer.out.fill(self.field.number, most, decode);
            }
            Kind::Double => return self.float(double(text)?),
            Kind::Enum(names) => {
                let value = names.iter().position(|name| *name == text).and_then(|value| i128::try_from(value).ok());
                return value.or_else(|| text.parse().ok()).and_then(|value| self.integer(value));
            }
            Kind::Int32
            | Kind::Uint32
            | Kind::Sint32
            | Kind::Int64
            | Kind::Uint64
            | Kind::Fixed32
            | Kind::Fixed64
            | Kind::Sfixed64 => {
                return match text.parse() {
                    Ok(value) => self.integer(value),
                    Err(_) => self.float(double(text)?),
                };
            }
            Kind::Bool | Kind::Message(_) => return None,
        }
        Some(())
    }

    fn hex(&mut self, digits: &[u8]) -> Option<()> {
        let (pairs, rest) = digits.as_chunks::<2>();
        let open = self.writer.out.open(self.field.number, pairs.len());
        for [high, low] in pairs {
            self.writer.out.raw(&[hex_digit(*high)? << 4 | hex_digit(*low)?]);
        }
        self.writer.out.close(open);
        rest.is_empty().then_some(())
    }
}

impl Visitor<'_> for ScalarVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.field.kind {
            Kind::Bool => "true or false",
            Kind::Int32 | Kind::Sint32 => "a 32-bit integer",
            Kind::Uint32 | Kind::Fixed32 => "an unsigned 32-bit integer",
            Kind::Int64 | Kind::Sfixed64 => "a 64-bit integer",
            Kind::Uint64 | Kind::Fixed64 => "an unsigned 64-bit integer",
            Kind::Enum(_) => "the number or name of an enum value",
            Kind::Double => "a number",
            Kind::String => "a string",
            Kind::Bytes => "a base64 string",
            Kind::Id => "a string of hexadecimal digit pairs",
            Kind::Message(_) => "an object",
        })
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        if !matches!(self.field.kind, Kind::Bool) {
            return Err(E::invalid_type(Unexpected::Bool(value), &self));
        }
        self.writer.out.varint(self.field.number, u64::from(value));
        Ok(())
    }

    fn visit_i64<E: Error>(mut self, value: i64) -> Result<(), E> {
        let written = if matches!(self.field.kind, Kind::Double) {
            self.float(value as f64)
        } else {
            self.integer(i128::from(value))
        };
        written.ok_or_else(|| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: Error>(mut self, value: u64) -> Result<(), E> {
        let written = if matches!(self.field.kind, Kind::Double) {
            self.float(value as f64)
        } else {
            self.integer(i128::from(value))
        };
        written.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_f64<E: Error>(mut self, value: f64) -> Result<(), E> {
        self.float(value).ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.writer.check_size(text.len())?;
        // The text itself may be secret or huge: it is not repeated in the error.
        self.text(text).ok_or_else(|| E::invalid_value(Unexpected::Other("string"), &self))
    }
}

/// A double in a string. Rust reads many words as infinity and "not a number"; only those of proto3 JSON are right.
fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|value: &f64| value.is_finite()),
    }
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
