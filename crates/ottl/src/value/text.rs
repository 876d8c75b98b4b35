//! Values as text: hexadecimal digits, JSON.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::Value;

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

/// Appends a value as JSON: keys in order, bytes in base64, as Go marshals the raw form of an `AnyValue`.
pub(crate) fn json(value: &Value<'_>, out: &mut String) {
    write(value, Dialect::Standard, out);
}

/// Appends a value as JSON, as a parameter that wants text sees it.
pub(crate) fn argument_json(value: &Value<'_>, out: &mut String) {
    write(value, Dialect::Arguments, out);
}

fn write(value: &Value<'_>, dialect: Dialect, out: &mut String) {
    match value {
        Value::Nil => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) | Value::Duration(value) => out.push_str(&value.to_string()),
        Value::Double(value) => out.push_str(&match (double(*value), dialect) {
            (text, Dialect::Arguments) => two_digits(text),
            (text, Dialect::Standard) => text,
        }),
        Value::String(text) => quoted(text, dialect, out),
        // Go has no empty slice of bytes here, but a nil one.
        Value::Bytes(bytes) if bytes.is_empty() => out.push_str("null"),
        Value::Bytes(bytes) => quoted(&to_base64(bytes), dialect, out),
        Value::Map(map) => {
            let mut entries = map.clone().into_entries();
            entries.sort_by(|(left, _), (right, _)| left.cmp(right));
            let each = |(key, value): (_, _), out: &mut String| {
                quoted(key, dialect, out);
                out.push(':');
                write(value, dialect, out);
            };
            joined(entries.iter().map(|(key, value)| (key.as_ref(), value)), ('{', '}'), out, each);
        }
        Value::List(list) => {
            joined(list.clone().into_values().iter(), ('[', ']'), out, |value, out| write(value, dialect, out));
        }
        Value::Time(time) => quoted(&time.rfc3339(), dialect, out),
        Value::TraceId(id) | Value::ProfileId(id) => {
            joined(id.iter(), ('[', ']'), out, |byte, out| out.push_str(&byte.to_string()))
        }
        Value::SpanId(id) => joined(id.iter(), ('[', ']'), out, |byte, out| out.push_str(&byte.to_string())),
        Value::Messages(_) | Value::Unreadable => out.push_str("{}"),
    }
}

/// A number with at least two digits in its exponent.
fn two_digits(text: String) -> String {
    match text.split_once("e-") {
        Some((mantissa, exponent)) if exponent.len() == 1 => format!("{mantissa}e-0{exponent}"),
        _ => text,
    }
}

fn joined<T>(items: impl Iterator<Item = T>, marks: (char, char), out: &mut String, each: impl Fn(T, &mut String)) {
    out.push(marks.0);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        each(item, out);
    }
    out.push(marks.1);
}

fn quoted(text: &str, dialect: Dialect, out: &mut String) {
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
