//! Converters of log lines in well-known formats; they exist in the statements of transforms of logs.
//!
//! Source of the semantics: `processor/transformprocessor/internal/logparsingfuncs` of the reference, version 0.158.

use std::borrow::Cow;

use super::{Function, Kind, STRING, function, optional, required};
use crate::context::Context;
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Entries, Failure, Value};

mod cef;
mod clf;
mod elf;
mod leef;

const LOG: &[Context] = &[Context::Log];
const TARGET: super::Parameter = required("target", STRING);

pub(super) const FUNCTIONS: &[Function] = &[
    function("ParseCEF", &[TARGET], |arguments, scene| parse(arguments, scene, cef::parse)).only_in_statements(LOG),
    function("ParseCLF", &[TARGET, optional("format", Kind::OneOf(&["clf", "combined"]))], |arguments, scene| {
        let format = if arguments.literal_text(1) == Some("combined") { clf::parse_combined } else { clf::parse };
        parse(arguments, scene, format)
    })
    .only_in_statements(LOG),
    function("ParseELF", &[TARGET], |arguments, scene| parse(arguments, scene, elf::parse)).only_in_statements(LOG),
    function("ParseLEEF", &[TARGET], |arguments, scene| parse(arguments, scene, leef::parse)).only_in_statements(LOG),
];

/// What reads one format.
type Format = for<'a> fn(&str, &Scene<'a>) -> Result<Entries<'a>, Failure>;

fn parse<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>, format: Format) -> Result<Value<'a>, Failure> {
    let text = arguments.text(0, scene)?;
    scene.check_length(text.len())?;
    if text.is_empty() {
        return Err(Failure::text("there is nothing to parse in an empty text"));
    }
    format(&text, scene).map(Value::map)
}

/// An entry of the result.
fn entry<'a>(key: &'static str, value: impl Into<String>) -> (Cow<'a, str>, Value<'a>) {
    (Cow::Borrowed(key), Value::text(value.into()))
}

/// A text in which a backslash and one of these characters stand for another one.
fn unescaped(text: &str, escapes: &[(char, char)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let meant = escapes.iter().find(|(escape, _)| after.starts_with(*escape));
        match meant {
            Some((escape, char)) => {
                out.push(*char);
                rest = &after[escape.len_utf8()..];
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}
