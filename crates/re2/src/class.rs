//! Classes in brackets.

use std::ops::RangeInclusive;

use crate::Error;
use crate::escape;

/// Members of a class in the syntax of the `regex` crate that match no character.
pub(crate) const NOTHING: &str = "[^\\x{0}-\\x{10FFFF}]";

const SURROGATES: RangeInclusive<u32> = 0xd800..=0xdfff;

const NAMED: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// Writes a class in the syntax of the `regex` crate.
pub(crate) fn push_set(out: &mut String, members: &str, negated: bool) {
    out.extend([if negated { "[^" } else { "[" }, members, "]"]);
}

/// Writes a character that stands for itself. A surrogate matches nothing: no text has one.
pub(crate) fn push_literal(out: &mut String, code: u32) {
    match char::from_u32(code) {
        Some(char) => {
            if "\\.+*?()|[]{}^$#&-~".contains(char) {
                out.push('\\');
            }
            out.push(char);
        }
        None => out.push_str(NOTHING),
    }
}

/// The class at the start of a text, in the syntax of the `regex` crate, and its length.
pub(crate) fn class(text: &str) -> Result<(String, usize), Error> {
    let negated = text[1..].starts_with('^');
    let mut rest = &text[if negated { 2 } else { 1 }..];
    let mut members = String::new();
    let mut is_first = true;
    while is_first || !rest.starts_with(']') {
        is_first = false;
        rest = member(text, rest, &mut members)?;
    }
    if members.is_empty() {
        members.push_str(NOTHING);
    }
    let mut out = String::with_capacity(members.len() + 3);
    push_set(&mut out, &members, negated);
    Ok((out, text.len() - rest.len() + 1))
}

/// Writes the next member of a class; what follows it.
fn member<'t>(class: &str, rest: &'t str, out: &mut String) -> Result<&'t str, Error> {
    if let Some((name, length)) = named(rest)? {
        out.push_str(name);
        return Ok(&rest[length..]);
    }
    if rest.starts_with('\\')
        && let Some((set, length)) = escape::class(rest)?
    {
        out.push_str(&set);
        return Ok(&rest[length..]);
    }
    let (first, after) = character(class, rest)?;
    // A hyphen before the closing bracket stands for itself, as one does that is no range otherwise.
    let (last, after) = match after.strip_prefix('-') {
        Some(after) if !after.is_empty() && !after.starts_with(']') => character(class, after)?,
        _ => (first, after),
    };
    if last < first {
        let range = &rest[..rest.len() - after.len()];
        return Err(Error::invalid(format!("the range \"{range}\" ends before it starts")));
    }
    push_range(out, first, last);
    Ok(after)
}

/// A class like `[:alpha:]` at the start of a text, and its length.
fn named(text: &str) -> Result<Option<(&str, usize)>, Error> {
    let Some(inner) = text.strip_prefix("[:") else { return Ok(None) };
    let Some(end) = inner.find(":]") else { return Ok(None) };
    let whole = &text[..end + 4];
    let name = inner[..end].strip_prefix('^').unwrap_or(&inner[..end]);
    match NAMED.contains(&name) {
        true => Ok(Some((whole, whole.len()))),
        false => Err(Error::invalid(format!("unknown class \"{whole}\""))),
    }
}

/// The code of the character that a text starts with, and what follows.
fn character<'t>(class: &str, text: &'t str) -> Result<(u32, &'t str), Error> {
    let Some(char) = text.chars().next() else {
        return Err(Error::invalid(format!("\"{class}\" lacks a closing bracket")));
    };
    if char == '\\' {
        let (code, length) = escape::character(text)?;
        return Ok((code, &text[length..]));
    }
    Ok((u32::from(char), &text[char.len_utf8()..]))
}

fn push_range(out: &mut String, first: u32, last: u32) {
    let first = if SURROGATES.contains(&first) { SURROGATES.end() + 1 } else { first };
    let last = if SURROGATES.contains(&last) { SURROGATES.start() - 1 } else { last };
    if first > last {
        return;
    }
    push_literal(out, first);
    if first < last {
        out.push('-');
        push_literal(out, last);
    }
}
