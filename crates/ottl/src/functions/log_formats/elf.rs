//! `ParseELF`: a block of the W3C Extended Log Format, directives and lines of data.
//!
//! As in the reference, a line with too few values gets `-` for the others, and values beyond the fields are left out.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::scene::{Meter, Scene};
use crate::value::{Entries, Failure, Value, allocated};

/// Directives that become entries.
const DIRECTIVES: [(&str, &str); 6] = [
    ("version", "elf.version"),
    ("software", "elf.software"),
    ("date", "elf.date"),
    ("start-date", "elf.start_date"),
    ("end-date", "elf.end_date"),
    ("remark", "elf.remark"),
];

/// A name of a field, its place in the table of each line, and the text that says what the fields are.
const NAME_BYTES: usize = 2 * size_of::<&str>() + 3 * size_of::<(&str, usize)>() + 2 * size_of::<Value<'_>>() + 32;

pub(super) fn parse<'a>(text: &str, scene: &Scene<'a>) -> Result<Entries<'a>, Failure> {
    let mut result: Entries<'a> = Vec::new();
    let mut fields: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    let mut meter = scene.meter();
    for line in text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()) {
        let Some(directive) = line.strip_prefix('#') else {
            if fields.is_empty() {
                return Err(Failure::text("the ELF block has data before its fields"));
            }
            meter.take(2 * size_of::<Value<'_>>())?;
            lines.push(Value::map(data(&fields, line, &mut meter)?));
            continue;
        };
        match directive.split_once(':') {
            Some((key, value)) if key.trim().eq_ignore_ascii_case("fields") => {
                let names = value.split_whitespace();
                meter.take(names.clone().count().saturating_mul(NAME_BYTES).saturating_add(value.len()))?;
                fields = names.collect();
            }
            Some((key, value)) => {
                let known = DIRECTIVES.iter().find(|(name, _)| key.trim().eq_ignore_ascii_case(name));
                if let Some((_, name)) = known {
                    meter.take(allocated(value.len()))?;
                    crate::scene::access::put(&mut result, Cow::Borrowed(name), Value::text(value.trim().to_owned()));
                }
            }
            None if directive.trim().get(..6).is_some_and(|key| key.eq_ignore_ascii_case("fields")) => {
                return Err(Failure::text("the fields of the ELF block lack a colon"));
            }
            None => {}
        }
    }
    if !result.iter().any(|(key, _)| key == "elf.version") {
        return Err(Failure::text("the ELF block lacks its version"));
    }
    let names = fields.into_iter().map(|field| Value::text(field.to_owned())).collect();
    result.push((Cow::Borrowed("elf.fields"), Value::list(names)));
    result.push((Cow::Borrowed("elf.entries"), Value::list(lines)));
    Ok(result)
}

/// The values of a line by the names of the fields. If a field occurs twice, the last one counts. Missing values take
/// memory, too, so short lines could ask for much.
fn data<'a>(fields: &[&str], line: &str, meter: &mut Meter) -> Result<Entries<'a>, Failure> {
    let mut values = Words { rest: line.trim_start_matches([' ', '\t']) };
    meter.take(fields.len().saturating_mul(size_of::<(Cow<'_, str>, Value<'_>)>()))?;
    let mut entries: Entries<'a> = Vec::with_capacity(fields.len());
    let mut known: HashMap<&str, usize> = HashMap::new();
    for field in fields {
        let value = values.next().transpose()?.unwrap_or_else(|| "-".to_owned());
        meter.take(allocated(field.len()) + 2 * allocated(value.len()))?;
        let value = Value::text(value);
        match known.get(field).and_then(|index| entries.get_mut(*index)) {
            Some((_, old)) => *old = value,
            None => {
                known.insert(field, entries.len());
                entries.push((Cow::Owned((*field).to_owned()), value));
            }
        }
    }
    // What is beyond the fields is left out, unless it is malformed.
    values.try_for_each(|value| value.map(drop))?;
    Ok(entries)
}

/// Words, and texts in quotes, in which two quotes stand for one.
struct Words<'t> {
    rest: &'t str,
}

impl<'t> Words<'t> {
    /// A word, and what comes after it.
    fn plain(rest: &'t str) -> (String, &'t str) {
        let (word, rest) = rest.split_at(rest.find([' ', '\t']).unwrap_or(rest.len()));
        (word.to_owned(), rest)
    }

    /// A text in quotes, from behind the first of them, and what comes after the last.
    fn quoted(mut rest: &'t str) -> Result<(String, &'t str), Failure> {
        let mut value = String::new();
        loop {
            let (before, after) = rest.split_once('"').ok_or(Failure::text("a quoted value has no end"))?;
            value.push_str(before);
            let Some(escaped) = after.strip_prefix('"') else { return Ok((value, after)) };
            value.push('"');
            rest = escaped;
        }
    }
}

impl Iterator for Words<'_> {
    type Item = Result<String, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let word = match self.rest.strip_prefix('"') {
            _ if self.rest.is_empty() => return None,
            Some(quoted) => Self::quoted(quoted),
            None => Ok(Self::plain(self.rest)),
        };
        let (word, rest) = match word {
            Ok(word) => word,
            Err(failure) => return Some(Err(failure)),
        };
        self.rest = rest.trim_start_matches([' ', '\t']);
        Some(Ok(word))
    }
}
