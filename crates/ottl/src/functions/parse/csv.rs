//! `ParseCSV`: one row, as Go's `encoding/csv` reads it. A line break outside of quotes is part of its field.

use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Failure, Value, allocated};

pub(super) fn check(arguments: &Arguments) -> Result<(), String> {
    for (index, name) in [(2, "delimiter"), (3, "header delimiter")] {
        if arguments.literal_text(index).is_some_and(|text| text.chars().count() != 1) {
            return Err(format!("the {name} must be a single character"));
        }
    }
    let quotes_count = arguments.literal_text(4) != Some("ignoreQuotes");
    if quotes_count && matches!(arguments.literal_text(2), Some("\"" | "\r" | "\n")) {
        return Err("the delimiter must not be a quote or a line break".to_owned());
    }
    Ok(())
}

pub(super) fn parse_csv<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let delimiter = arguments.literal_text(2).unwrap_or(",");
    let (text, header) = (arguments.text(0, scene)?, arguments.text(1, scene)?);
    if header.is_empty() {
        return Err(Failure::text("the header must not be empty"));
    }
    let names = header.split(arguments.literal_text(3).unwrap_or(delimiter));
    let most = text.matches(delimiter).count() + 1;
    scene.check_length(most.saturating_mul(2 * size_of::<String>() + allocated(1)).saturating_add(2 * text.len()))?;
    let fields = match arguments.literal_text(4) {
        Some("ignoreQuotes") => text.split(delimiter).map(str::to_owned).collect(),
        mode => fields(&text, delimiter, mode == Some("lazyQuotes"))?,
    };
    let count = names.clone().count();
    if count != fields.len() {
        return Err(Failure::new(format!("the row has {} fields, but the header {count}", fields.len())));
    }
    super::map_of(scene, names.map(str::to_owned).zip(fields))
}

fn fields(text: &str, delimiter: &str, lazy: bool) -> Result<Vec<String>, Failure> {
    let mut fields: Vec<String> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        let mut rest = Some(line);
        let mut starts_line = true;
        while let Some(start) = rest {
            let (field, after) = match start.strip_prefix('"') {
                Some(quoted) => self::quoted(quoted, &mut lines, delimiter, lazy)?,
                None => plain(start, delimiter, lazy)?,
            };
            match fields.last_mut().filter(|_| starts_line) {
                Some(last) => last.extend(["\n", &field]),
                None => fields.push(field),
            }
            starts_line = false;
            rest = after;
        }
    }
    if fields.is_empty() { Err(Failure::text("there is no row")) } else { Ok(fields) }
}

/// A field and what comes after the delimiter behind it; nothing at the end of the line.
type Field<'t> = (String, Option<&'t str>);

fn plain<'t>(start: &'t str, delimiter: &str, lazy: bool) -> Result<Field<'t>, Failure> {
    let (field, after) = match start.split_once(delimiter) {
        Some((field, after)) => (field, Some(after)),
        None => (start, None),
    };
    if !lazy && field.contains('"') {
        return Err(Failure::text("a quote stands inside a field without quotes"));
    }
    Ok((field.to_owned(), after))
}

/// A field that starts after its quote, and may go on in the next lines.
fn quoted<'t>(
    mut rest: &'t str,
    lines: &mut std::str::Lines<'t>,
    delimiter: &str,
    lazy: bool,
) -> Result<Field<'t>, Failure> {
    let mut field = String::new();
    loop {
        let Some((before, after)) = rest.split_once('"') else {
            field.push_str(rest);
            match lines.next() {
                Some(line) => rest = line,
                None if lazy => return Ok((field, None)),
                None => return Err(Failure::text("a quoted field has no end")),
            }
            field.push('\n');
            continue;
        };
        field.push_str(before);
        if let Some(escaped) = after.strip_prefix('"') {
            field.push('"');
            rest = escaped;
        } else if let Some(next) = after.strip_prefix(delimiter) {
            return Ok((field, Some(next)));
        } else if after.is_empty() {
            return Ok((field, None));
        } else if lazy {
            field.push('"');
            rest = after;
        } else {
            return Err(Failure::text("something stands between the end of a quoted field and the delimiter"));
        }
    }
}
