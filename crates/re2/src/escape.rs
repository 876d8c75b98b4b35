//! What a backslash starts: a class of characters, or one character.

use crate::Error;
use crate::class::{NOTHING, push_set};
use crate::unicode;

/// The class in the syntax of the `regex` crate that an escape like `\d` or `\p{Greek}` at the start of a text stands
/// for, and the length of the escape; nothing when it is no class.
pub(crate) fn class(text: &str) -> Result<Option<(String, usize)>, Error> {
    let (members, negated) = match text.as_bytes().get(1) {
        Some(b'd') => ("0-9", false),
        Some(b'D') => ("0-9", true),
        Some(b's') => ("\\t\\n\\f\\r ", false),
        Some(b'S') => ("\\t\\n\\f\\r ", true),
        Some(b'w') => ("0-9A-Za-z_", false),
        Some(b'W') => ("0-9A-Za-z_", true),
        Some(b'p') => return unicode_class(text, false).map(Some),
        Some(b'P') => return unicode_class(text, true).map(Some),
        _ => return Ok(None),
    };
    let mut set = String::new();
    push_set(&mut set, members, negated);
    Ok(Some((set, 2)))
}

/// `\pL`, `\p{Greek}` or `\p{^Greek}`; `\P` for the opposite.
fn unicode_class(text: &str, negated: bool) -> Result<(String, usize), Error> {
    let after = &text[2..];
    let (name, length) = match after.strip_prefix('{') {
        Some(inner) => {
            let end = inner.find('}').ok_or_else(|| Error::invalid(format!("\"{text}\" lacks a closing brace")))?;
            (&inner[..end], end + 4)
        }
        None => {
            let width = after.chars().next().map_or(0, char::len_utf8);
            (&after[..width], width + 2)
        }
    };
    let (name, negated) = match name.strip_prefix('^') {
        Some(name) => (name, !negated),
        None => (name, negated),
    };
    let unknown = || Error::invalid(format!("\"{}\" is no class of Unicode", &text[..length]));
    let class = unicode::class(name).ok_or_else(unknown)?;
    let mut set = String::new();
    match unicode::is_surrogates(&class) {
        true => push_set(&mut set, NOTHING, negated),
        false => push_set(&mut set, &format!("\\p{{{class}}}"), negated),
    }
    Ok((set, length))
}

/// The code of the character that an escape at the start of a text stands for, and the length of the escape. The code
/// may be that of a surrogate.
pub(crate) fn character(text: &str) -> Result<(u32, usize), Error> {
    let unknown = |length: usize| {
        let end = text.char_indices().nth(length).map_or(text.len(), |(end, _)| end);
        Error::invalid(format!("unknown escape \"{}\"", &text[..end]))
    };
    let Some(char) = text[1..].chars().next() else {
        return Err(Error::invalid("a backslash at the end escapes nothing"));
    };
    let code = match char {
        'a' => 0x07,
        'f' => 0x0c,
        'n' => 0x0a,
        'r' => 0x0d,
        't' => 0x09,
        'v' => 0x0b,
        'x' => return hexadecimal(text).ok_or_else(|| unknown(4)),
        '0'..='7' => {
            let digits = text[1..].bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
            if digits == 1 && char != '0' {
                return Err(Error::invalid(format!("references to groups, like \"\\{char}\", are not supported")));
            }
            let code = text[1..=digits].bytes().fold(0, |code, digit| code * 8 + u32::from(digit - b'0'));
            return Ok((code, 1 + digits));
        }
        char if char.is_ascii() && !char.is_ascii_alphanumeric() => u32::from(char),
        _ => return Err(unknown(2)),
    };
    Ok((code, 2))
}

/// `\x41` or `\x{41}`
fn hexadecimal(text: &str) -> Option<(u32, usize)> {
    let after = &text[2..];
    let (digits, length) = match after.strip_prefix('{') {
        Some(inner) => {
            let end = inner.find('}')?;
            (&inner[..end], end + 4)
        }
        None => (after.get(..2)?, 4),
    };
    let mut code = 0u32;
    for digit in digits.chars() {
        code = code * 16 + digit.to_digit(16)?;
        if code > u32::from(char::MAX) {
            return None;
        }
    }
    (!digits.is_empty()).then_some((code, length))
}
