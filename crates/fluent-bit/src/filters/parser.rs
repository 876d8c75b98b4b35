//! `parser`: reads the text of a field, and makes fields of what is in it.
//!
//! Fluent Bit reads the definitions of parsers from a file that its service names. Pipelines cannot name one, so there
//! are only those that are built in: `json` and `logfmt`.

use std::borrow::Cow;

use weir_plan::Section;

use super::accessor::Accessor;
use super::fields::{Field, Fields, Misfit, Value};
use super::keys::Keys;
use crate::members::{MOST_FIELDS, MOST_MEMBERS, Members};
use crate::text::Wrong;

pub(crate) struct Parser {
    key: Accessor,
    /// The first that can read the text.
    formats: Vec<Format>,
    preserve_key: bool,
    reserve_data: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Logfmt,
}

const FORMATS: [(&str, Format); 2] = [("json", Format::Json), ("logfmt", Format::Logfmt)];

impl Parser {
    pub(crate) fn compile(section: &Section) -> Result<Self, Vec<Wrong>> {
        let known = ["key_name", "parser", "preserve_key", "reserve_data"];
        let mut keys = Keys::new("parser", section, &known);
        let key = keys.required("key_name", "key_name log");
        let key = key.and_then(|line| keys.accessor(line, line.value.reveal()));
        keys.required("parser", "parser json");
        let mut formats = Vec::new();
        for line in keys.all("parser").collect::<Vec<_>>() {
            match FORMATS.iter().find(|(name, _)| *name == line.value.reveal()) {
                Some((_, format)) => formats.push(*format),
                None => keys.refuse(line, "names a parser that there is none of", "json or logfmt"),
            }
        }
        let (preserve_key, reserve_data) = (keys.flag("preserve_key"), keys.flag("reserve_data"));
        keys.done(key.map(|key| Self { key, formats, preserve_key, reserve_data }))
    }

    pub(crate) fn apply<'a>(&self, record: &mut Fields<'a>) -> Result<bool, Misfit> {
        let Some(mut parsed) = self.parsed(record)? else { return Ok(false) };
        // The field that a part was read from stays as it is.
        let is_source = |name: &str| name == self.key.name() && !self.key.is_nested();
        let stays = |field: &Field<'a>| if is_source(&field.name) { self.preserve_key } else { self.reserve_data };
        // What was there stands behind what was read, and counts if both have a name.
        parsed.list.retain(|field| !record.list.iter().any(|other| stays(other) && other.name == field.name));
        if parsed.list.len() + record.list.iter().filter(|field| stays(field)).count() > MOST_FIELDS {
            return Err(Misfit::Fields);
        }
        record.list.retain(stays);
        parsed.list.append(&mut record.list);
        *record = parsed;
        Ok(true)
    }

    /// What is read from the text; nothing if no parser can read it.
    fn parsed<'a>(&self, record: &Fields<'a>) -> Result<Option<Fields<'a>>, Misfit> {
        let value = self.key.get(record);
        let Some(text) = value.as_ref().and_then(|value| value.text()) else { return Ok(None) };
        for format in &self.formats {
            let mut parsed = Fields { list: Vec::new(), room: record.room };
            let is_read = match format {
                Format::Json => json(&text, &mut parsed)?,
                Format::Logfmt => logfmt(&text, &mut parsed)?,
            };
            if is_read {
                return Ok(Some(parsed));
            }
        }
        Ok(None)
    }
}

/// Reads an object. Returns whether it is one.
fn json(text: &str, parsed: &mut Fields<'_>) -> Result<bool, Misfit> {
    let mut members = Members::default();
    let text = text.trim_ascii();
    if members.read(text, MOST_MEMBERS).is_err() {
        return Ok(false);
    }
    for member in members.of(text) {
        parsed.take(member.key.len() + member.value.len())?;
        let value = Value::Json(Cow::Owned(member.value.to_owned()));
        parsed.list.push(Field { name: Cow::Owned(member.name().into_owned()), value });
    }
    Ok(true)
}

/// Reads pairs of a line: `key=value`, `key="value"`, `key`. Returns whether there is one.
fn logfmt(text: &str, parsed: &mut Fields<'_>) -> Result<bool, Misfit> {
    let is_word = |letter: char| letter > ' ' && letter != '=' && letter != '"';
    let mut rest = text.lines().next().unwrap_or_default();
    for _ in 0..=MOST_FIELDS {
        rest = rest.trim_start_matches(|letter| !is_word(letter));
        if rest.is_empty() {
            return Ok(!parsed.list.is_empty());
        }
        let (key, after) = rest.split_at(rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()));
        let (value, after) = match after.strip_prefix('=') {
            None => (Value::Json(Cow::Borrowed("true")), after),
            Some(after) => value_of(after, is_word),
        };
        parsed.take(key.len() + value.owned_bytes())?;
        parsed.put(key.to_owned(), value)?;
        rest = after;
    }
    // Even if they have few names: to find one takes a look at each.
    Err(Misfit::Fields)
}

fn value_of(text: &str, is_word: impl Fn(char) -> bool) -> (Value<'static>, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, after) = text.split_at(text.find(|letter| !is_word(letter)).unwrap_or(text.len()));
        let value = if value.is_empty() { Value::Json(Cow::Borrowed("true")) } else { text_value(value.to_owned()) };
        return (value, after);
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (text_value(value), &quoted[at + 1..]),
            '\\' => value.extend(letters.next().map(|(_, escaped)| match escaped {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            })),
            letter => value.push(letter),
        }
    }
    (text_value(value), "")
}

fn text_value(text: String) -> Value<'static> {
    Value::Text(Cow::Owned(text))
}
