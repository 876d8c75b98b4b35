//! Converters of text.

use std::borrow::Cow;

use weir_re2::Regex;

use super::{Function, INT, Kind, STRING, function, optional, required};
use crate::program::{Arguments, Syntax};
use crate::scene::Scene;
use crate::value::places::Distinct;
use crate::value::text::{char_boundary, check_growing};
use crate::value::{Failure, Value, allocated};

const TARGET: super::Parameter = required("target", STRING);
const PATTERN: super::Parameter = required("pattern", Kind::Pattern(Syntax::Regex));

pub(super) const FUNCTIONS: &[Function] = &[
    function("IsMatch", &[required("target", Kind::Like), PATTERN], is_match),
    function("HasPrefix", &[TARGET, required("prefix", STRING)], |arguments, scene| {
        Ok(Value::Bool(arguments.text(0, scene)?.starts_with(&*arguments.text(1, scene)?)))
    }),
    function("HasSuffix", &[TARGET, required("suffix", STRING)], |arguments, scene| {
        Ok(Value::Bool(arguments.text(0, scene)?.ends_with(&*arguments.text(1, scene)?)))
    }),
    function("Concat", &[required("vals", Kind::Values), required("delimiter", STRING)], concat),
    function("Split", &[TARGET, required("delimiter", STRING)], split),
    function(
        "Substring",
        &[TARGET, required("start", INT), required("length", INT), optional("utf8_safe", Kind::Bool)],
        substring,
    ),
    function("ExtractPatterns", &[TARGET, PATTERN], extract_patterns).checked(|arguments| {
        match arguments.ready_pattern(1) {
            Some(pattern) if !has_named_groups(pattern) => Err(NO_GROUPS.to_owned()),
            _ => Ok(()),
        }
    }),
    function("IsValidLuhn", &[required("target", Kind::Like)], is_valid_luhn),
    function("Trim", &[TARGET, optional("replacement", Kind::Text)], |arguments, scene| {
        let text = arguments.text(0, scene)?;
        let chars = arguments.literal_text(1).unwrap_or(" ");
        scene.copy(text.trim_matches(|char| chars.contains(char)))
    }),
    function("TrimPrefix", &[TARGET, required("prefix", STRING)], |arguments, scene| {
        let (text, prefix) = (arguments.text(0, scene)?, arguments.text(1, scene)?);
        text.strip_prefix(&*prefix).map(|rest| scene.copy(rest)).unwrap_or_else(|| Ok(Value::String(text.clone())))
    }),
    function("TrimSuffix", &[TARGET, required("suffix", STRING)], |arguments, scene| {
        let (text, suffix) = (arguments.text(0, scene)?, arguments.text(1, scene)?);
        text.strip_suffix(&*suffix).map(|rest| scene.copy(rest)).unwrap_or_else(|| Ok(Value::String(text.clone())))
    }),
    function(
        "ConvertCase",
        &[TARGET, required("to_case", Kind::OneOf(&["lower", "upper", "snake", "camel"]))],
        |arguments, scene| convert_case(arguments, scene, arguments.literal_text(1).unwrap_or_default()),
    ),
    function("ToLowerCase", &[TARGET], |arguments, scene| convert_case(arguments, scene, "lower")),
    function("ToUpperCase", &[TARGET], |arguments, scene| convert_case(arguments, scene, "upper")),
    function("ToSnakeCase", &[TARGET], |arguments, scene| convert_case(arguments, scene, "snake")),
    function("ToCamelCase", &[TARGET], |arguments, scene| convert_case(arguments, scene, "camel")),
];

const NO_GROUPS: &str = "the pattern must have at least one named group";

fn is_match<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let pattern = arguments.pattern(1, scene)?;
    let target = arguments.text_like(0, scene)?;
    Ok(Value::Bool(target.is_some_and(|target| pattern.is_match(&target))))
}

fn concat<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let delimiter = arguments.text(1, scene)?;
    let mut text = String::new();
    for (index, expr) in arguments.expressions(0).iter().enumerate() {
        let part = scene.eval(expr)?.into_text_like(scene.room())?.unwrap_or(Cow::Borrowed("<nil>"));
        check_growing(text.len() + delimiter.len() + part.len(), scene.room())?;
        if index > 0 {
            text.push_str(&delimiter);
        }
        text.push_str(&part);
    }
    Ok(Value::text(text))
}

fn split<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let (text, delimiter) = (arguments.text(0, scene)?, arguments.text(1, scene)?);
    let parts = if delimiter.is_empty() { text.len() } else { text.matches(&*delimiter).count() };
    scene.check_length(parts.saturating_mul(2 * size_of::<Value<'_>>() + allocated(1)).saturating_add(text.len()))?;
    let parts: Vec<Value<'a>> = if delimiter.is_empty() {
        // Between characters, where Rust would also find empty parts at both ends.
        text.chars().map(|char| Value::text(char.to_string())).collect()
    } else {
        text.split(&*delimiter).map(|part| Value::text(part.to_owned())).collect()
    };
    Ok(Value::list(parts))
}

fn substring<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let (start, length) = (arguments.int(1, scene)?, arguments.int(2, scene)?);
    let text = arguments.text(0, scene)?;
    let bounds = usize::try_from(start).ok().zip(usize::try_from(length).ok().filter(|length| *length > 0));
    let range = bounds.and_then(|(start, length)| Some(start..start.checked_add(length)?));
    let Some(range) = range.filter(|range| range.end <= text.len()) else {
        return Err(Failure::about(&text, "does not have the bytes that start and length ask for"));
    };
    // The reference may return half a character; text is UTF-8 here, so that halves at the ends are left out.
    let end = char_boundary(&text, range.end);
    let starts = (range.start..=end).find(|index| text.is_char_boundary(*index));
    let start = starts.unwrap_or(end);
    scene.copy(&text[start..end])
}

fn extract_patterns<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let pattern = arguments.pattern(1, scene)?;
    if !has_named_groups(&pattern) {
        return Err(Failure::text(NO_GROUPS));
    }
    let text = arguments.text(0, scene)?;
    let Some(captures) = pattern.captures(&text) else { return Ok(Value::map(Vec::new())) };
    let mut extracted = Distinct::default();
    // Of groups with the same name the last one counts, as in the reference.
    for (number, name) in pattern.group_names().iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        let value = captures.get(number).map_or("", |group| group.as_str());
        extracted.put(Cow::Owned(name.clone()), Value::text(value.to_owned()));
    }
    Ok(Value::map(extracted.entries))
}

fn has_named_groups(pattern: &Regex) -> bool {
    pattern.group_names().iter().any(|name| !name.is_empty())
}

/// Whether the last digit is the check digit of those before it, by the Luhn algorithm. Spaces do not count.
fn is_valid_luhn<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    const NOT_DIGITS: Failure = Failure::text("the value must consist of digits");
    let text = arguments.text_like(0, scene)?.ok_or(NOT_DIGITS)?;
    let mut digits = 0;
    let mut sum = 0;
    for char in text.chars().rev().filter(|char| *char != ' ') {
        let digit = char.to_digit(10).ok_or(NOT_DIGITS)?;
        let doubled = if digits % 2 == 1 { digit * 2 } else { digit };
        sum += if doubled > 9 { doubled - 9 } else { doubled };
        digits += 1;
        sum %= 10;
    }
    Ok(Value::Bool(digits > 0 && sum == 0))
}

fn convert_case<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>, case: &str) -> Result<Value<'a>, Failure> {
    let text = arguments.text(0, scene)?;
    match case {
        "lower" => each(&text, lower, scene),
        "upper" => each(&text, upper, scene),
        "snake" => snake(&text, scene),
        _ => camel(&text, scene),
    }
}

/// A text with each letter replaced by another one, which may take more bytes.
fn each<'a>(text: &str, other: fn(char) -> char, scene: &Scene<'a>) -> Result<Value<'a>, Failure> {
    let length = text.chars().map(|char| other(char).len_utf8()).sum();
    scene.check_length(length)?;
    let mut out = String::with_capacity(length);
    out.extend(text.chars().map(other));
    Ok(Value::text(out))
}

/// Words joined by underscores; a word starts where the case changes, at a number, and after space, dot and dash.
fn snake<'a>(text: &str, scene: &Scene<'a>) -> Result<Value<'a>, Failure> {
    // An underscore at most after each letter, in a buffer that has to double for them.
    scene.check_length(3 * text.len())?;
    let mut out = String::with_capacity(text.len() + 4);
    let mut chars = text.trim().chars();
    while let Some(char) = chars.next() {
        let mut ahead = chars.clone();
        let is_separator = matches!(char, ' ' | '_' | '-' | '.');
        out.push(if is_separator { '_' } else { char.to_ascii_lowercase() });
        let Some(next) = ahead.next().filter(|_| !is_separator) else { continue };
        let changes = (char.is_ascii_lowercase() && (next.is_ascii_uppercase() || next.is_ascii_digit()))
            || (char.is_ascii_uppercase() && next.is_ascii_digit())
            || (char.is_ascii_digit() && next.is_ascii_alphabetic());
        let acronym_ends = char.is_ascii_uppercase()
            && next.is_ascii_uppercase()
            && ahead.next().is_some_and(|after| after.is_ascii_lowercase());
        if changes || acronym_ends {
            out.push('_');
        }
    }
    Ok(Value::text(out))
}

/// The single lower-case letter for a letter, as in Go: without regard to the letters around it.
fn lower(char: char) -> char {
    char.to_lowercase().next().unwrap_or(char)
}

/// The single upper-case letter for a letter. A letter that would become several stays as it is.
fn upper(char: char) -> char {
    let mut upper = char.to_uppercase();
    upper.next().filter(|_| upper.next().is_none()).unwrap_or(char)
}

/// Words joined without separators, each with a capital letter in front. Only letters and digits of ASCII remain.
fn camel<'a>(text: &str, scene: &Scene<'a>) -> Result<Value<'a>, Failure> {
    scene.check_length(text.len())?;
    let text = text.trim();
    let mut out = String::with_capacity(text.len());
    let (mut capital, mut after_capital) = (true, false);
    for char in text.chars() {
        match char {
            'A'..='Z' if after_capital && !capital => out.push(char.to_ascii_lowercase()),
            'a'..='z' if capital => out.push(char.to_ascii_uppercase()),
            _ if char.is_ascii_alphanumeric() => out.push(char),
            _ => {}
        }
        after_capital = char.is_ascii_uppercase();
        capital = char.is_ascii_digit() || matches!(char, '_' | ' ' | '-' | '.');
    }
    Ok(Value::text(out))
}
