//! `ParseELF`: a block of the W3C Extended Log Format, directives and lines of data.
//!
//! As in the reference, a line with too few values gets `-` for the others, and values beyond the fields are left out.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::scene::Scene;
use crate::value::{Entries, Failure, Value};

/// Directives that become entries.
const DIRECTIVES: [(&str, &str); 6] = [
    ("version", "elf.version"),
    ("software", "elf.software"),
    ("date", "elf.date"),
    ("start-date", "elf.start_date"),
    ("end-date", "elf.end_date"),
    ("remark", "elf.remark"),
];

pub(super) fn parse<'a>(text: &str, scene: &Scene<'a>) -> Result<Entries<'a>, Failure> {
    let mut result: Entries<'a> = Vec::new();
    let mut fields: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    let mut cells = 0usize;
    for line in text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()) {
        let Some(directive) = line.strip_prefix('#') else {
            if fields.is_empty() {
                return Err(Failure::text("the ELF block has data before its fields"));
            }
            // Missing values take room too, so that short lines could ask for much.
            cells = cells.saturating_add(fields.len());
            scene.check_length(cells.saturating_mul(size_of::<(Cow<'_, str>, Value<'_>)>()))?;
            lines.push(Value::map(data(&fields, line)?));
            continue;
        };
        match directive.split_once(':') {
            Some((key, value)) if key.trim().eq_ignore_ascii_case("fields") => {
                fields = value.split_whitespace().collect();
            }
            Some((key, value)) => {
                let known = DIRECTIVES.iter().find(|(name, _)| key.trim().eq_ignore_ascii_case(name));
                if let Some((_, name)) = known {
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

/// The values of a line by the names of the fields; of a field that occurs twice the last counts.
fn data<'a>(fields: &[&str], line: &str) -> Result<Entries<'a>, Failure> {
    let mut values = values(line)?.into_iter();
    let mut entries: Entries<'a> = Vec::with_capacity(fields.len());
    let mut known: HashMap<&str, usize> = HashMap::new();
    for field in fields {
        let value = Value::text(values.next().unwrap_or_else(|| "-".to_owned()));
        match known.get(field).and_then(|index| entries.get_mut(*index)) {
            Some((_, old)) => *old = value,
            None => {
                known.insert(field, entries.len());
                entries.push((Cow::Owned((*field).to_owned()), value));
            }
        }
    }
    Ok(entries)
}

/// Words, and texts in quotes, in which two quotes stand for one.
fn values(line: &str) -> Result<Vec<String>, Failure> {
    let mut values = Vec::new();
    let mut rest = line.trim_start_matches([' ', '\t']);
    while !rest.is_empty() {
        let Some(mut quoted) = rest.strip_prefix('"') else {
            let end = rest.find([' ', '\t']).unwrap_or(rest.len());
            values.push(rest[..end].to_owned());
            rest = rest[end..].trim_start_matches([' ', '\t']);
            continue;
        };
        let mut value = String::new();
        loop {
            let (before, after) = quoted.split_once('"').ok_or(Failure::text("a quoted value has no end"))?;
            value.push_str(before);
            let Some(escaped) = after.strip_prefix('"') else {
                rest = after.trim_start_matches([' ', '\t']);
                break;
            };
            value.push('"');
            quoted = escaped;
        }
        values.push(value);
    }
    Ok(values)
}
