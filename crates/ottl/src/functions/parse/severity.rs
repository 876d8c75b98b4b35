//! `ParseSeverity`: a level by the texts and ranges of numbers that mean it.

use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Failure, List, Map, Value};

/// Words for ranges of HTTP status codes.
const STATUS_CODES: [(&str, i64); 4] = [("2xx", 200), ("3xx", 300), ("4xx", 400), ("5xx", 500)];

type Literal = Value<'static>;

/// The levels of a mapping and what means each of them.
fn levels(mapping: &Literal) -> impl Iterator<Item = (&str, &Literal)> {
    let entries = match mapping {
        Value::Map(Map::Tree(entries)) => &entries[..],
        _ => &[],
    };
    entries.iter().map(|(key, value)| (key.as_ref(), value))
}

fn elements(value: &Literal) -> Option<&[Literal]> {
    match value {
        Value::List(List::Tree(values)) => Some(values),
        _ => None,
    }
}

fn entry<'v>(map: &'v Literal, key: &str) -> Option<&'v Literal> {
    levels(map).find(|(other, _)| *other == key).map(|(_, value)| value)
}

pub(super) fn check(arguments: &Arguments) -> Result<(), String> {
    let mapping = arguments.literal(1).ok_or("the mapping must be a literal")?;
    for (level, criteria) in levels(mapping) {
        let criteria = elements(criteria).ok_or_else(|| format!("what means \"{level}\" must be a list"))?;
        criteria.iter().try_for_each(|criterion| check_criterion(level, criterion))?;
    }
    Ok(())
}

fn check_criterion(level: &str, criterion: &Literal) -> Result<(), String> {
    if !matches!(criterion, Value::Map(_)) {
        return Err(format!("what means \"{level}\" must be maps with \"equals\" or \"range\""));
    }
    if let Some(equals) = entry(criterion, "equals") {
        let texts = elements(equals).filter(|texts| texts.iter().all(|text| matches!(text, Value::String(_))));
        texts.ok_or_else(|| format!("\"equals\" of \"{level}\" must be a list of strings"))?;
    }
    if let Some(range) = entry(criterion, "range") {
        bounds(range).ok_or_else(|| {
            format!(
                "\"range\" of \"{level}\" must be a map with the ints \"min\" and \"max\", or one of 2xx, 3xx, 4xx, 5xx"
            )
        })?;
    }
    Ok(())
}

/// Least and greatest number of a range.
fn bounds(range: &Literal) -> Option<(i64, i64)> {
    match range {
        Value::String(word) => {
            let found = STATUS_CODES.iter().find(|(other, _)| word == other);
            found.map(|(_, first)| (*first, first + 99))
        }
        range => match (entry(range, "min"), entry(range, "max")) {
            (Some(Value::Int(min)), Some(Value::Int(max))) => Some((*min, *max)),
            _ => None,
        },
    }
}

pub(super) fn parse_severity<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let value = arguments.value(0, scene)?;
    if !matches!(value, Value::String(_) | Value::Int(_)) {
        return Err(Failure::new(format!("a {} cannot be a level", value.type_name())));
    }
    let means = |criterion: &Literal| match &value {
        Value::String(text) => {
            let texts = entry(criterion, "equals").and_then(elements).unwrap_or_default();
            texts.iter().any(|other| matches!(other, Value::String(other) if other == text))
        }
        Value::Int(number) => {
            let range = entry(criterion, "range").and_then(bounds);
            range.is_some_and(|(min, max)| (min..=max).contains(number))
        }
        _ => false,
    };
    let mut levels = arguments.literal(1).into_iter().flat_map(levels);
    match levels.find(|(_, criteria)| elements(criteria).unwrap_or_default().iter().any(means)) {
        Some((level, _)) => Ok(Value::text(level)),
        None => Err(Failure::text("no level is given for the value")),
    }
}
