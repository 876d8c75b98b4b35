//! Values as text: hexadecimal digits, JSON.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{Failure, List, Value, wire};
use crate::scene::TOO_LARGE;

/// Bytes from hexadecimal digits of either case; `None` when a character is not a digit or their number is odd.
pub(crate) fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let nibble = |digit: u8| u8::try_from(char::from(digit).to_digit(16)?).ok();
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?)).collect()
}

/// Bytes as hexadecimal digits in lower case.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Bytes in base64, with padding.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// The last place at or before `index` where no character is cut.
pub(crate) fn char_boundary(text: &str, index: usize) -> usize {
    (0..=index.min(text.len())).rev().find(|index| text.is_char_boundary(*index)).unwrap_or_default()
}

/// A floating point number as Go's `strconv.ParseFloat` reads it, except hexadecimal ones. Underscores may stand
/// between digits, and a number that is too large is refused.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let is_digit =
        |index: Option<usize>| index.and_then(|index| text.as_bytes().get(index)).is_some_and(u8::is_ascii_digit);
    let between = |(index, _): (usize, &str)| is_digit(index.checked_sub(1)) && is_digit(Some(index + 1));
    if !text.match_indices('_').all(between) {
        return None;
    }
    let value: f64 = text.replace('_', "").parse().ok()?;
    (value.is_finite() || !text.contains(|char: char| char.is_ascii_digit())).then_some(value)
}

/// A floating point number as Go's `encoding/json` writes it.
pub(crate) fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Inf" } else { "+Inf" }.to_owned();
    }
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !exponent.starts_with('-') => format!("{mantissa}e+{exponent}"),
        _ => text,
    }
}

/// Which of its two JSON libraries the reference writes a value with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// Go's own, for the text of an `AnyValue`.
    Standard,
    /// The library that makes text of arguments: exponents have two digits, fewer characters have short escapes, and
    /// characters that mean something in HTML are escaped.
    Arguments,
}

/// A value as JSON: keys in order, bytes in base64, as Go marshals the raw form of an `AnyValue`.
///
/// # Errors
/// When that takes more than `room` bytes of memory.
pub(crate) fn json(value: &Value<'_>, room: usize) -> Result<String, Failure> {
    let mut out = String::new();
    write(value, Dialect::Standard, room, &mut out)?;
    Ok(out)
}

/// A value as JSON, as a parameter that wants text sees it.
///
/// # Errors
/// As [`json`].
pub(crate) fn argument_json(value: &Value<'_>, room: usize) -> Result<String, Failure> {
    let mut out = String::new();
    write(value, Dialect::Arguments, room, &mut out)?;
    Ok(out)
}

/// Fails when there is no room for so much text, which moves to a buffer twice as large as it grows.
pub(crate) fn check_growing(length: usize, room: usize) -> Result<(), Failure> {
    if length > room / 3 { Err(TOO_LARGE) } else { Ok(()) }
}

fn write(value: &Value<'_>, dialect: Dialect, room: usize, out: &mut String) -> Result<(), Failure> {
    match value {
        Value::Nil => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) | Value::Duration(value) => out.push_str(&value.to_string()),
        Value::Double(value) => out.push_str(&match (double(*value), dialect) {
            (text, Dialect::Arguments) => two_digits(text),
            (text, Dialect::Standard) => text,
        }),
        Value::String(text) => quoted(text, dialect, room, out)?,
        // Go has no empty slice of bytes here, but a nil one.
        Value::Bytes(bytes) if bytes.is_empty() => out.push_str("null"),
        Value::Bytes(bytes) => {
            check_growing(out.len() + 2 * bytes.len(), room)?;
            quoted(&to_base64(bytes), dialect, room, out)?;
        }
        Value::Map(map) => {
            let (entries, room) = map.sorted(room)?;
            joined(entries.iter(), ('{', '}'), room, out, |(key, value), out| {
                quoted(key, dialect, room, out)?;
                out.push(':');
                write(value, dialect, room, out)
            })?;
        }
        Value::List(List::Wire(body)) => {
            let each = |value, out: &mut String| write(&value, dialect, room, out);
            joined(wire::elements(body), ('[', ']'), room, out, each)?;
        }
        Value::List(List::Tree(values)) => {
            joined(values.iter(), ('[', ']'), room, out, |value, out| write(value, dialect, room, out))?;
        }
        Value::Time(time) => quoted(&time.rfc3339(), dialect, room, out)?,
        Value::TraceId(id) | Value::ProfileId(id) => numbers(id, room, out)?,
        Value::SpanId(id) => numbers(id, room, out)?,
        Value::Messages(_) | Value::Unreadable => out.push_str("{}"),
    }
    Ok(())
}

fn numbers(bytes: &[u8], room: usize, out: &mut String) -> Result<(), Failure> {
    joined(bytes.iter(), ('[', ']'), room, out, |byte, out| {
        out.push_str(&byte.to_string());
        Ok(())
    })
}

/// A number with at least two digits in its exponent.
fn two_digits(text: String) -> String {
    match text.split_once("e-") {
        Some((mantissa, exponent)) if exponent.len() == 1 => format!("{mantissa}e-0{exponent}"),
        _ => text,
    }
}

fn joined<T>(
    items: impl Iterator<Item = T>,
    marks: (char, char),
    room: usize,
    out: &mut String,
    each: impl Fn(T, &mut String) -> Result<(), Failure>,
) -> Result<(), Failure> {
    out.push(marks.0);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        each(item, out)?;
        check_growing(out.len(), room)?;
    }
    out.push(marks.1);
    Ok(())
}

fn quoted(text: &str, dialect: Dialect, room: usize, out: &mut String) -> Result<(), Failure> {
    let escapes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        // The last begins U+2028.
        ..b' ' | b'<' | b'>' | b'&' | 0xe2 => 5,
        _ => 0,
    });
    check_growing(out.len() + text.len() + escapes.sum::<usize>(), room)?;
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' if dialect == Dialect::Standard => out.push_str("\\b"),
            '\u{c}' if dialect == Dialect::Standard => out.push_str("\\f"),
            // What HTML means something by.
            '<' | '>' | '&' if dialect == Dialect::Standard => out.push(char),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(char)));
            }
            _ => out.push(char),
        }
    }
    out.push('"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_does() {
        let check = |value, text| assert_eq!(double(value), text);
        check(1.0, "1");
        check(0.1, "0.1");
        check(-2.5e20, "-250000000000000000000");
        check(1e21, "1e+21");
        check(1.5e-7, "1.5e-7");
        check(0.0, "0");
    }
}
