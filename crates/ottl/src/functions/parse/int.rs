//! `ParseInt`: as Go's `strconv.ParseInt` for 64 bits.

use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Failure, Value};

pub(super) fn check(arguments: &Arguments) -> Result<(), String> {
    match arguments.literal(1) {
        Some(Value::Int(base)) if radix(*base).is_none() => Err(format!("{NO_BASE}, not {base}")),
        _ => Ok(()),
    }
}

const NO_BASE: &str = "the base must be 0 or 2 to 36";

/// The base as a radix; 0 when the text says it.
fn radix(base: i64) -> Option<u32> {
    u32::try_from(base).ok().filter(|base| *base == 0 || (2..=36).contains(base))
}

pub(super) fn parse_int<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let text = arguments.text(0, scene)?;
    let radix = radix(arguments.int(1, scene)?).ok_or(Failure::text(NO_BASE))?;
    let value = integer(&text, radix);
    value.map(Value::Int).ok_or_else(|| Failure::about(&text, "is not an integer of 64 bits in that base"))
}

fn integer(text: &str, radix: u32) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = match radix {
        0 => prefixed(digits)?,
        radix => magnitude(digits, radix)?,
    };
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

fn magnitude(digits: &str, radix: u32) -> Option<u64> {
    let add = |sum: u64, digit: char| sum.checked_mul(u64::from(radix))?.checked_add(u64::from(digit.to_digit(radix)?));
    if digits.is_empty() { None } else { digits.chars().try_fold(0, add) }
}

/// Digits whose prefix gives the base; underscores may stand between them.
fn prefixed(text: &str) -> Option<u64> {
    let lower = text.as_bytes().get(1).map(u8::to_ascii_lowercase);
    let (radix, digits) = match (text.strip_prefix('0'), lower) {
        (None, _) => (10, text),
        (Some(""), _) => return Some(0),
        (Some(_), Some(b'b')) if text.len() > 2 => (2, &text[2..]),
        (Some(_), Some(b'o')) if text.len() > 2 => (8, &text[2..]),
        (Some(_), Some(b'x')) if text.len() > 2 => (16, &text[2..]),
        (Some(rest), _) => (8, rest),
    };
    // One underscore may follow a prefix, for which the leading zero of an octal number counts.
    let digits = if radix == 10 { digits } else { digits.strip_prefix('_').unwrap_or(digits) };
    let misplaced = digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
    if misplaced { None } else { magnitude(&digits.replace('_', ""), radix) }
}
