//! Converters of texts that are numbers, rows, pairs, levels or addresses.
//!
//! Source of the semantics: `pkg/ottl/ottlfuncs` and `internal/coreinternal/parseutils` of the reference, 0.158.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Function, INT, Kind, MAP, STRING, function, optional, required};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Entries, Failure, Value, allocated};

mod csv;
mod int;
mod severity;
mod url;

pub(super) const FUNCTIONS: &[Function] = &[
    function(
        "ParseCSV",
        &[
            required("target", STRING),
            required("header", STRING),
            optional("delimiter", Kind::Text),
            optional("header_delimiter", Kind::Text),
            optional("mode", Kind::OneOf(&["strict", "lazyQuotes", "ignoreQuotes"])),
        ],
        csv::parse_csv,
    )
    .checked(csv::check),
    function("ParseInt", &[required("target", STRING), required("base", INT)], int::parse_int).checked(int::check),
    function(
        "ParseKeyValue",
        &[required("target", STRING), optional("delimiter", Kind::Text), optional("pair_delimiter", Kind::Text)],
        parse_key_value,
    )
    .checked(|arguments| match delimiters(arguments) {
        ("", _) | (_, "") => Err("a delimiter must not be empty".to_owned()),
        (delimiter, pair_delimiter) if delimiter == pair_delimiter => {
            Err(format!("what is between pairs must differ from \"{delimiter}\", which is inside them"))
        }
        _ => Ok(()),
    }),
    function("ParseSeverity", &[required("target", Kind::Any), required("mapping", MAP)], severity::parse_severity)
        .checked(severity::check),
    function("URL", &[required("uri", STRING)], url::parse_url),
];

/// A map of texts; of a key that occurs twice the last value counts.
///
/// # Errors
/// When it would be longer than what may still be added to the request.
pub(super) fn map_of<'a>(
    scene: &Scene<'a>,
    pairs: impl Iterator<Item = (String, String)>,
) -> Result<Value<'a>, Failure> {
    let mut entries = Entries::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut taken = 0_usize;
    for (key, value) in pairs {
        match known.get(&key).and_then(|index| entries.get_mut(*index)) {
            Some((_, old)) => *old = Value::text(value),
            None => {
                taken += 2 * (PAIR_BYTES + allocated(key.len())) + allocated(value.len());
                scene.check_length(taken)?;
                known.insert(key.clone(), entries.len());
                entries.push((Cow::Owned(key), Value::text(value)));
            }
        }
    }
    Ok(Value::map(entries))
}

/// An entry of a map, and its key among those that are known.
const PAIR_BYTES: usize = size_of::<(Cow<'_, str>, Value<'_>)>() + size_of::<(String, usize)>();

/// Between key and value, and between pairs.
fn delimiters(arguments: &Arguments) -> (&str, &str) {
    (arguments.literal_text(1).unwrap_or("="), arguments.literal_text(2).unwrap_or(" "))
}

fn parse_key_value<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let (delimiter, pair_delimiter) = delimiters(arguments);
    let text = arguments.text(0, scene)?;
    if text.is_empty() {
        return Err(Failure::text("there are no pairs in an empty text"));
    }
    // Parts of the text, and pairs of them, in lists that may have twice the room that they need.
    let most = text.matches(pair_delimiter).count() + 1;
    let part = 2 * (size_of::<String>() + size_of::<(String, String)>()) + 3 * allocated(1);
    scene.check_length(most.saturating_mul(part).saturating_add(3 * text.len()))?;
    let mut pairs = Vec::new();
    for pair in split_unquoted(&text, pair_delimiter)? {
        let Some((key, value)) = pair.split_once(delimiter) else {
            return Err(Failure::about(&pair, "is no pair of a key and a value"));
        };
        pairs.push((key.trim().to_owned(), value.trim().to_owned()));
    }
    map_of(scene, pairs.into_iter())
}

/// Parts of a text between delimiters that are not in quotes. Quotes go away unless a backslash stands before them;
/// parts without anything in them are left out.
fn split_unquoted(text: &str, delimiter: &str) -> Result<Vec<String>, Failure> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut quote = None;
    let mut escaped = false;
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        if quote.is_none()
            && let Some(after) = rest.strip_prefix(delimiter)
        {
            if !part.is_empty() {
                parts.push(std::mem::take(&mut part));
            }
            rest = after;
            continue;
        }
        rest = &rest[char.len_utf8()..];
        match (quote, char) {
            (None, '"' | '\'') if !escaped => quote = Some(char),
            (Some(open), _) if !escaped && open == char => quote = None,
            _ => {
                escaped = !escaped && char == '\\';
                part.push(char);
            }
        }
    }
    if quote.is_some() {
        return Err(Failure::text("a quoted value has no end"));
    }
    if !part.is_empty() {
        parts.push(part);
    }
    Ok(parts)
}
