//! Converters of texts that are numbers, rows, pairs, levels or addresses.
//!
//! Source of the semantics: `pkg/ottl/ottlfuncs` and `internal/coreinternal/parseutils` of the reference, 0.158.

use super::{Function, INT, Kind, MAP, STRING, function, optional, required};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::places::Distinct;
use crate::value::{Failure, Value};

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
    mut pairs: impl Iterator<Item = (String, String)>,
) -> Result<Value<'a>, Failure> {
    let (mut map, mut meter) = (Distinct::default(), scene.meter());
    pairs.try_for_each(|(key, value)| map.put_within(&mut meter, key, Value::text(value)))?;
    Ok(Value::map(map.entries))
}

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
    let (mut map, mut meter) = (Distinct::default(), scene.meter());
    // A pair may be all of it.
    meter.take(2 * text.len())?;
    let mut parts = Unquoted { rest: &text, delimiter: pair_delimiter, escaped: false };
    while let Some(pair) = parts.next()? {
        let Some((key, value)) = pair.split_once(delimiter) else {
            return Err(Failure::about(&pair, "is no pair of a key and a value"));
        };
        map.put_within(&mut meter, key.trim().to_owned(), Value::text(value.trim().to_owned()))?;
    }
    Ok(Value::map(map.entries))
}

/// Parts of a text between delimiters that are not in quotes. Quotes are removed unless a backslash stands before them.
/// Empty parts are left out.
struct Unquoted<'t> {
    rest: &'t str,
    delimiter: &'t str,
    escaped: bool,
}

impl Unquoted<'_> {
    fn next(&mut self) -> Result<Option<String>, Failure> {
        let mut part = String::new();
        let mut quote = None;
        while let Some(char) = self.rest.chars().next() {
            if quote.is_none()
                && let Some(after) = self.rest.strip_prefix(self.delimiter)
            {
                self.rest = after;
                if part.is_empty() {
                    continue;
                }
                return Ok(Some(part));
            }
            self.rest = &self.rest[char.len_utf8()..];
            match (quote, char) {
                (None, '"' | '\'') if !self.escaped => quote = Some(char),
                (Some(open), _) if !self.escaped && open == char => quote = None,
                _ => {
                    self.escaped = !self.escaped && char == '\\';
                    part.push(char);
                }
            }
        }
        if quote.is_some() {
            return Err(Failure::text("a quoted value has no end"));
        }
        Ok((!part.is_empty()).then_some(part))
    }
}
