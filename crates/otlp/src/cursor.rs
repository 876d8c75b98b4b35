//! A zero-copy scanner over protobuf fields: keys, varints, fixed-width values and length-delimited ranges.
//!
//! It knows the wire format and nothing of OTLP: the caller decides which field is a message. Groups are refused. It
//! never panics and never allocates (WIRE-1); every length is checked before it is used (WIRE-5).

use crate::common::low_u32;
use crate::error::{Fault, Problem};

/// How a field is encoded on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireType {
    /// Base-128 variable length integer.
    Varint,
    /// Eight bytes, little endian.
    Fixed64,
    /// A length and that many bytes: strings, bytes, messages.
    Len,
    /// Four bytes, little endian.
    Fixed32,
}

impl WireType {
    /// The low three bits of a key.
    pub(crate) const fn tag(self) -> u8 {
        match self {
            Self::Varint => 0,
            Self::Fixed64 => 1,
            Self::Len => 2,
            Self::Fixed32 => 5,
        }
    }
}

/// A field key: number and wire type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Field number, at least 1.
    pub number: u32,
    /// Wire type.
    pub wire: WireType,
}

/// The value of a field as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A varint; signed types are its two's complement.
    Varint(u64),
    /// Bits of a `fixed64`, `sfixed64` or `double`.
    Fixed64(u64),
    /// Body of a string, bytes or message field.
    Len(&'a [u8]),
    /// Bits of a `fixed32`, `sfixed32` or `float`.
    Fixed32(u32),
}

/// One field with its place in the scanned bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Field number.
    pub number: u32,
    /// Its value.
    pub value: Value<'a>,
    /// Offset of the first byte of the key.
    pub start: usize,
    /// Offset one past the last byte of the value.
    pub end: usize,
}

impl<'a> Field<'a> {
    /// Offset of the body of a length-delimited field; `end` for the other wire types.
    pub fn body_start(&self) -> usize {
        self.end - self.body().map_or(0, <[u8]>::len)
    }

    /// The body, when the field is length-delimited.
    pub fn body(&self) -> Option<&'a [u8]> {
        match self.value {
            Value::Len(body) => Some(body),
            _ => None,
        }
    }
}

/// A position in a message. Offsets are positions in the slice it was made from, so that a cursor over
/// `&request[..end]` starting inside it reports offsets in the request.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor over a whole message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// A cursor over the message that starts at `start` and ends where `bytes` ends. A start beyond the end is the
    /// end.
    pub fn starting_at(bytes: &'a [u8], start: usize) -> Self {
        Self { bytes, offset: start.min(bytes.len()) }
    }

    /// Offset of the next byte to read.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Reads the next field; `None` at the end of the message. After an error the cursor must not be used further.
    #[inline]
    pub fn next_field(&mut self) -> Result<Option<Field<'a>>, Fault> {
        let start = self.offset;
        let Some(key) = self.key()? else { return Ok(None) };
        let value = self.value(key.wire)?;
        Ok(Some(Field { number: key.number, value, start, end: self.offset }))
    }

    /// Reads the next key; `None` at the end of the message.
    #[inline]
    pub fn key(&mut self) -> Result<Option<Key>, Fault> {
        let start = self.offset;
        let Some(&first) = self.bytes.get(start) else { return Ok(None) };
        let key = if first < 0x80 {
            self.offset += 1;
            u32::from(first)
        } else {
            u32::try_from(self.varint()?).map_err(|_| fault(Problem::FieldKey, start))?
        };
        let wire = match key & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Len,
            5 => WireType::Fixed32,
            3 | 4 => return Err(fault(Problem::Group, start)),
            _ => return Err(fault(Problem::UnknownWireType, start)),
        };
        if key < 8 {
            return Err(fault(Problem::FieldZero, start));
        }
        Ok(Some(Key { number: key >> 3, wire }))
    }

    /// Reads a value of the given wire type.
    #[inline]
    pub fn value(&mut self, wire: WireType) -> Result<Value<'a>, Fault> {
        Ok(match wire {
            WireType::Varint => Value::Varint(self.varint()?),
            WireType::Fixed64 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            WireType::Len => Value::Len(self.len_delimited()?),
            WireType::Fixed32 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
        })
    }

    /// Reads a length and that many bytes.
    #[inline]
    pub fn len_delimited(&mut self) -> Result<&'a [u8], Fault> {
        let start = self.offset;
        let length = self.varint()?;
        let rest = &self.bytes[self.offset..];
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(body) => {
                self.offset += body.len();
                Ok(body)
            }
            None => Err(fault(Problem::Truncated, start)),
        }
    }

    /// Reads a varint.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Fault> {
        match self.bytes.get(self.offset) {
            Some(&byte) if byte < 0x80 => {
                self.offset += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Fault> {
        let start = self.offset;
        if start == self.bytes.len() {
            return Err(self.ends_early());
        }
        let mut value = 0;
        for (index, &byte) in self.bytes[start..].iter().take(10).enumerate() {
            // The tenth byte holds bit 63 alone.
            if index == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.offset = start + index + 1;
                return Ok(value);
            }
        }
        let short = self.bytes.len() - start < 10;
        Err(fault(if short { Problem::Truncated } else { Problem::Varint }, start))
    }

    /// The message ends where a value should start: blames its last byte, which lies inside the message.
    #[cold]
    fn ends_early(&self) -> Fault {
        fault(Problem::Truncated, self.bytes.len().saturating_sub(1))
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let Some(&array) = self.bytes[self.offset..].first_chunk() else {
            return Err(self.ends_early());
        };
        self.offset += N;
        Ok(array)
    }
}

/// The number in the varint of a `sint32`.
pub fn unzigzag(value: u64) -> i32 {
    let value = low_u32(value);
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cold]
pub(crate) fn fault(problem: Problem, offset: usize) -> Fault {
    Fault { problem, offset }
}

/// The well-formed fields of a message in wire order; stops silently at the first malformed one, which validated
/// bytes do not have.
#[derive(Debug, Clone)]
pub struct Fields<'a>(Cursor<'a>);

impl<'a> Fields<'a> {
    /// The fields of a whole message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(Cursor::new(bytes))
    }

    /// The fields of the message from `start` to the end of `bytes`, with offsets in `bytes`.
    pub fn starting_at(bytes: &'a [u8], start: usize) -> Self {
        Self(Cursor::starting_at(bytes, start))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        match self.0.next_field() {
            Ok(field) => field,
            Err(_) => {
                self.0.offset = self.0.bytes.len();
                None
            }
        }
    }
}
