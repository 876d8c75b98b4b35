//! Editors of values and lists: `set`, `append`, `delete_index`.

use super::{Function, INT, Kind, function, optional, required};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Failure, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function("set", &[required("target", Kind::Path), required("value", Kind::Any)], set),
    function(
        "append",
        &[required("target", Kind::Path), optional("value", Kind::Any), optional("values", Kind::Values)],
        append,
    )
    .checked(|arguments| {
        if arguments.has(1) || arguments.has(2) {
            Ok(())
        } else {
            Err("one of value and values must be given".to_owned())
        }
    }),
    function(
        "delete_index",
        &[required("target", Kind::ListPath), required("start_index", INT), optional("end_index", INT)],
        delete_index,
    ),
];

const MAP_IN_LIST: Failure = Failure::text("a map cannot be appended, nor can anything be appended to one");

/// A value of nil leaves the target as it is.
fn set<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    match arguments.value(1, scene)? {
        Value::Nil => {}
        value => scene.set(arguments.path(0)?, value)?,
    }
    Ok(Value::Nil)
}

fn append<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let target = arguments.path(0)?;
    let value = scene.get(target)?;
    let mut values = match scene.unfold(value)? {
        Value::Nil => Vec::new(),
        Value::List(list) => list.into_values(),
        Value::Map(_) => return Err(MAP_IN_LIST),
        scalar => vec![scalar],
    };
    let before = values.len();
    if arguments.has(1) {
        values.push(arguments.value(1, scene)?);
    }
    values.extend(arguments.values(2, scene)?);
    if values[before..].iter().any(|value| matches!(value, Value::Map(_))) {
        return Err(MAP_IN_LIST);
    }
    scene.set(target, Value::list(values))?;
    Ok(Value::Nil)
}

fn delete_index<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let target = arguments.path(0)?;
    let value = scene.get(target)?;
    let mut values = scene.elements(value)?;
    let start = arguments.int(1, scene)?;
    let end = if arguments.has(2) { arguments.int(2, scene)? } else { start.saturating_add(1) };
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let in_bounds = |(start, end): &(usize, usize)| {
        start <= end && *end <= values.len() && (*start < values.len() || (*start, *end) == (0, 0))
    };
    let Some((start, end)) = range.filter(in_bounds) else {
        return Err(Failure::new(format!("the range is out of bounds for a list of {}", values.len())));
    };
    values.drain(start..end);
    scene.set(target, Value::list(values))?;
    Ok(Value::Nil)
}
