//! One walk that decides whether bytes may enter a queue, and counts what they hold.
//!
//! It checks the wire type of every known field, every length, the UTF-8 of every string, nesting and counts, and
//! it refuses what protobuf runtimes would have to merge (WIRE-4). It does not judge meaning: an empty trace id or an
//! end before its start is the business of whoever reads the span, and so are buckets that do not match their bounds.

use crate::cursor::{Cursor, Key, WireType, fault};
use crate::error::{Error, Fault, Problem};
use crate::field::{any_value, key_value, short_key};
use crate::limits::{Counts, Limits, Tally};
use crate::schema::{Field, Kind, Message, Plain};
use crate::signal::Signal;

/// Validates an export request, or several of them one after the other, and counts what is in it.
///
/// # Errors
/// [`Error::Wire`] with the offset and the field path of the first problem.
pub fn validate(signal: Signal, bytes: &[u8], limits: &Limits) -> Result<Counts, Error> {
    let root = signal.schema();
    let mut walk = Walk { bytes, tally: Tally::new(limits) };
    match walk.message(root, 0..bytes.len(), 0) {
        Ok(()) => Ok(walk.tally.counts),
        Err(Fault { problem, offset }) => Err(Error::Wire { problem, offset, path: root.path_to(bytes, offset) }),
    }
}

struct Walk<'a> {
    bytes: &'a [u8],
    tally: Tally,
}

impl Walk<'_> {
    fn message(&mut self, message: &'static Message, range: std::ops::Range<usize>, depth: u32) -> Result<(), Fault> {
        let bytes = &self.bytes[..range.end];
        let mut cursor = Cursor::starting_at(bytes, range.start);
        let attributes = self.tally.allows(depth, 2);
        // Singular message fields seen so far, a bit per field number.
        let mut seen = 0u32;
        loop {
            let start = after_plain_fields(message, bytes, cursor.offset(), attributes);
            cursor = Cursor::starting_at(bytes, start);
            let Some(key) = cursor.key()? else { return Ok(()) };
            let Some(field) = message.field(key.number) else {
                cursor.value(key.wire)?;
                continue;
            };
            if field.kind.wire() != key.wire {
                if !(field.may_be_packed() && key.wire == WireType::Len) {
                    return Err(fault(Problem::WireType, start));
                }
                packed(field, &mut cursor, self.bytes)?;
                continue;
            }
            let Kind::Message(inner) = field.kind else {
                scalar(field.kind, key, &mut cursor)?;
                continue;
            };
            if !field.repeated {
                if seen & message.rivals(field) != 0 {
                    return Err(fault(Problem::Duplicate, start));
                }
                seen |= 1 << field.number;
            }
            let body = cursor.len_delimited()?;
            self.tally.enter(inner.role, depth).map_err(|problem| fault(problem, start))?;
            self.message(inner, cursor.offset() - body.len()..cursor.offset(), depth + 1)?;
        }
    }
}

/// Checks fields of the most common forms, and returns where the first other field begins, or where the message ends.
///
/// It accepts fields whose key is one byte and whose length or number is one byte or of fixed width, text that is ASCII,
/// and attributes with such a key and such a text. All other fields, right or wrong, are checked one by one in
/// [`Walk::message`].
#[inline]
fn after_plain_fields(message: &Message, bytes: &[u8], mut at: usize, attributes: bool) -> usize {
    while let Some(&[key, first, ..]) = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>()) {
        let body = at + 2;
        let text = bytes.get(body..body + usize::from(first));
        let end = match message.plain(key) {
            Plain::Fixed64 => at + 9,
            Plain::Fixed32 => at + 5,
            _ if first >= 0x80 => return at,
            Plain::Varint => body,
            Plain::Bytes => body + usize::from(first),
            Plain::Text if text.is_some_and(is_ascii) => body + usize::from(first),
            Plain::Attribute if attributes && text.is_some_and(is_plain_attribute) => body + usize::from(first),
            Plain::Text | Plain::Attribute | Plain::Other => return at,
        };
        if end > bytes.len() {
            return at;
        }
        at = end;
    }
    at
}

/// Checks packed numbers: each has to be whole, up to the end.
fn packed(field: &Field, cursor: &mut Cursor<'_>, bytes: &[u8]) -> Result<(), Fault> {
    let length = cursor.len_delimited()?.len();
    let are_whole = match field.kind.wire() {
        WireType::Fixed64 => length.is_multiple_of(8),
        WireType::Fixed32 => length.is_multiple_of(4),
        WireType::Varint | WireType::Len => false,
    };
    let mut numbers = Cursor::starting_at(&bytes[..cursor.offset()], cursor.offset() - length);
    while !are_whole && numbers.offset() < cursor.offset() {
        numbers.value(field.kind.wire())?;
    }
    Ok(())
}

#[inline]
fn scalar(kind: Kind, key: Key, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    if !matches!(kind, Kind::String) {
        cursor.value(key.wire)?;
        return Ok(());
    }
    let text = cursor.len_delimited()?;
    if is_ascii(text) {
        return Ok(());
    }
    match std::str::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(fault(Problem::Utf8, cursor.offset() - text.len() + error.valid_up_to())),
    }
}

/// Whether this is an attribute with a key and a string value, both ASCII and short: the shape of nearly every
/// attribute there is, recognised here without a second and a third level of walking.
///
/// One look at all bytes settles two things: the text is ASCII, and tags and lengths are one byte each.
#[inline]
fn is_plain_attribute(body: &[u8]) -> bool {
    let [KEY, key_length, rest @ ..] = body else { return false };
    let Some([VALUE, value_length, STRING, text_length, text @ ..]) = rest.get(usize::from(*key_length)..) else {
        return false;
    };
    usize::from(*value_length) == text.len() + 2 && usize::from(*text_length) == text.len() && is_ascii(body)
}

/// Key bytes of such an attribute.
const KEY: u8 = short_key(key_value::KEY, WireType::Len);
const VALUE: u8 = short_key(key_value::VALUE, WireType::Len);
const STRING: u8 = short_key(any_value::STRING_VALUE, WireType::Len);

/// `<[u8]>::is_ascii`, made for strings of some tens of bytes: whole words, the last one overlapping.
#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk::<16>() else { return is_short_ascii(bytes) };
    let (words, _) = bytes.as_chunks::<16>();
    let all = words.iter().fold(u128::from_ne_bytes(*last), |all, word| all | u128::from_ne_bytes(*word));
    all & u128::from_ne_bytes([0x80; 16]) == 0
}

/// The same for less than 16 bytes: two words, which may overlap.
#[inline]
fn is_short_ascii(bytes: &[u8]) -> bool {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        return (u64::from_ne_bytes(*first) | u64::from_ne_bytes(*last)) & u64::from_ne_bytes([0x80; 8]) == 0;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return (u32::from_ne_bytes(*first) | u32::from_ne_bytes(*last)) & u32::from_ne_bytes([0x80; 4]) == 0;
    }
    bytes.iter().fold(0, |all, byte| all | byte) < 0x80
}

#[cfg(test)]
mod tests;
