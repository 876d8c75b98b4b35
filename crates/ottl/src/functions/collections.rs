//! Converters of lists and maps, and those that take a lambda.

use super::{Function, Kind, LIST, MAP, function, required};
use crate::program::{Arguments, Lambda};
use crate::scene::Scene;
use crate::value::{Entries, Failure, Value, compare};

const SOURCE: super::Parameter = required("source", Kind::Any);
const PREDICATE: super::Parameter = required("predicate", Kind::Lambda(2));

pub(super) const FUNCTIONS: &[Function] = &[
    function("Len", &[required("target", Kind::Any)], len),
    function("ContainsValue", &[required("target", LIST), required("item", Kind::Any)], contains_value),
    function("Keys", &[required("target", MAP)], |arguments, scene| {
        let entries = arguments.map(0, scene)?.into_entries();
        Ok(Value::list(entries.into_iter().map(|(key, _)| Value::String(key)).collect()))
    }),
    function("Values", &[required("target", MAP)], |arguments, scene| {
        let entries = arguments.map(0, scene)?.into_entries();
        Ok(Value::list(entries.into_iter().map(|(_, value)| value).collect()))
    }),
    function("Any", &[SOURCE, PREDICATE], |arguments, scene| quantifier(arguments, scene, true)),
    function("All", &[SOURCE, PREDICATE], |arguments, scene| quantifier(arguments, scene, false)),
    function("Filter", &[SOURCE, PREDICATE], filter),
    function("MapEach", &[SOURCE, required("mapper", Kind::Lambda(2))], map_each),
    function(
        "When",
        &[
            required("condition", Kind::Lambda(0)),
            required("true_value", Kind::Any),
            required("false_value", Kind::Any),
        ],
        |arguments, scene| {
            let holds = scene.call_lambda(arguments.lambda(0)?, [])?.into_bool()?;
            arguments.value(if holds { 1 } else { 2 }, scene)
        },
    ),
];

fn len<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let length = match arguments.value(0, scene)? {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Map(map) => map.len(),
        Value::List(list) => list.len(),
        Value::Messages(messages) if messages.repeated => messages.bodies.len(),
        other => return Err(Failure::new(format!("a {} has no length", other.type_name()))),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn contains_value<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let list = arguments.list(0, scene)?.into_values();
    let item = arguments.value(1, scene)?;
    Ok(Value::Bool(list.iter().any(|value| compare::equal(value, &item))))
}

/// Keys or indexes, and values.
fn pairs<'a>(source: Value<'a>) -> Result<Vec<(Value<'a>, Value<'a>)>, Failure> {
    match source {
        Value::Map(map) => Ok(map.into_entries().into_iter().map(|(key, value)| (Value::String(key), value)).collect()),
        Value::List(list) => {
            let values = list.into_values().into_iter();
            Ok((0..).zip(values).map(|(index, value)| (Value::Int(index), value)).collect())
        }
        other => Err(Failure::new(format!("expected a map or a list but got a {}", other.type_name()))),
    }
}

fn holds<'a>(scene: &mut Scene<'a>, lambda: &'a Lambda, (key, value): (Value<'a>, Value<'a>)) -> Result<bool, Failure> {
    scene.call_lambda(lambda, [key, value])?.into_bool()
}

/// Whether one element, or every one, is as the predicate wants it.
fn quantifier<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>, wanted: bool) -> Result<Value<'a>, Failure> {
    let lambda = arguments.lambda(1)?;
    for pair in pairs(arguments.value(0, scene)?)? {
        if holds(scene, lambda, pair)? == wanted {
            return Ok(Value::Bool(wanted));
        }
    }
    Ok(Value::Bool(!wanted))
}

/// Puts pairs together to what they were taken from.
fn rebuilt<'a>(is_map: bool, pairs: Vec<(Value<'a>, Value<'a>)>) -> Result<Value<'a>, Failure> {
    if !is_map {
        return Ok(Value::list(pairs.into_iter().map(|(_, value)| value).collect()));
    }
    let entries = pairs.into_iter().map(|(key, value)| Ok((key.into_text()?, value)));
    Ok(Value::map(entries.collect::<Result<Entries<'a>, Failure>>()?))
}

fn filter<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let source = arguments.value(0, scene)?;
    let is_map = matches!(source, Value::Map(_));
    let lambda = arguments.lambda(1)?;
    let mut kept = Vec::new();
    for pair in pairs(source)? {
        if holds(scene, lambda, pair.clone())? {
            kept.push(pair);
        }
    }
    rebuilt(is_map, kept)
}

fn map_each<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let source = arguments.value(0, scene)?;
    let is_map = matches!(source, Value::Map(_));
    let lambda = arguments.lambda(1)?;
    let mut mapped = Vec::new();
    for (key, value) in pairs(source)? {
        let value = scene.call_lambda(lambda, [key.clone(), value])?;
        mapped.push((key, value));
    }
    rebuilt(is_map, mapped)
}
