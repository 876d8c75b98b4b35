//! The fields of a message that lies in one piece.

use bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::Malformed;

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

/// Calls `visit` with each field; groups and 32 bits are stepped over.
pub(super) fn each_field<'a>(
    mut message: &'a [u8],
    visit: &mut impl FnMut(u32, Value<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while !message.is_empty() {
        let (field, wire_type) = decode_key(&mut message)?;
        let value = match wire_type {
            WireType::Varint => Value::Varint(decode_varint(&mut message)?),
            WireType::SixtyFourBit => Value::Fixed64(message.try_get_u64_le().map_err(|_| Malformed::TooLong)?),
            WireType::LengthDelimited => Value::Bytes(take(&mut message)?),
            WireType::StartGroup | WireType::EndGroup | WireType::ThirtyTwoBit => {
                skip_field(wire_type, field, &mut message, DecodeContext::default())?;
                continue;
            }
        };
        visit(field, value)?;
    }
    Ok(())
}

/// Calls `visit` with each length-delimited field of this number.
pub(super) fn each_bytes<'a>(
    message: &'a [u8],
    number: u32,
    visit: &mut impl FnMut(&'a [u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    each_field(message, &mut |field, value| match value {
        Value::Bytes(bytes) if field == number => visit(bytes),
        _ => Ok(()),
    })
}

fn take<'a>(message: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let length = usize::try_from(decode_varint(message)?).map_err(|_| Malformed::TooLong)?;
    let (bytes, rest) = message.split_at_checked(length).ok_or(Malformed::TooLong)?;
    *message = rest;
    Ok(bytes)
}
