//! Converters of lists and maps, and those that take a lambda.

use super::{Function, Kind, LIST, MAP, function, optional, required};
use crate::program::{Arguments, Lambda};
use crate::scene::Scene;
use crate::value::places::Distinct;
use crate::value::{Entries, Failure, Value, compare};

const SOURCE: super::Parameter = required("source", Kind::Any);
const PREDICATE: super::Parameter = required("predicate", Kind::Lambda(2));
const TARGET: super::Parameter = required("target", Kind::Any);

pub(super) const FUNCTIONS: &[Function] = &[
    function("Coalesce", &[required("values", Kind::Values)], coalesce).checked(|arguments| {
        if arguments.expressions(0).is_empty() { Err("at least one value must be given".to_owned()) } else { Ok(()) }
    }),
    function("Index", &[TARGET, required("value", Kind::Any)], index),
    function("IsEmpty", &[TARGET], is_empty),
    function("Len", &[TARGET], len),
    function("ContainsValue", &[required("target", LIST), required("item", Kind::Any)], contains_value),
    function("Keys", &[required("target", MAP)], |arguments, scene| {
        let entries = arguments.entries(0, scene)?;
        Ok(Value::list(entries.into_iter().map(|(key, _)| Value::String(key)).collect()))
    }),
    function("Values", &[required("target", MAP)], |arguments, scene| {
        let entries = arguments.entries(0, scene)?;
        Ok(Value::list(entries.into_iter().map(|(_, value)| value).collect()))
    }),
    function("Any", &[SOURCE, PREDICATE], |arguments, scene| quantifier(arguments, scene, true)),
    function("All", &[SOURCE, PREDICATE], |arguments, scene| quantifier(arguments, scene, false)),
    function("Filter", &[SOURCE, PREDICATE], filter),
    function("Find", &[SOURCE, PREDICATE, optional("mapper", Kind::Lambda(2))], find),
    function("MapEach", &[SOURCE, required("mapper", Kind::Lambda(2))], map_each),
    function("MapKeys", &[required("source", MAP), required("key_mapper", Kind::Lambda(2))], map_keys),
    function("Reduce", &[SOURCE, required("seed", Kind::Any), required("accumulator", Kind::Lambda(3))], reduce),
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

fn coalesce<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    for expr in arguments.expressions(0) {
        let value = scene.eval(expr)?;
        if !value.is_nil() {
            return Ok(value);
        }
    }
    Ok(Value::Nil)
}

/// The place of a text in a text, or of a value in a list; -1 when it is not there.
fn index<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let (target, value) = (arguments.value(0, scene)?, arguments.value(1, scene)?);
    let position = match target {
        Value::String(text) => text.find(&*value.into_text()?),
        other => scene.elements(other)?.iter().position(|element| compare::equal(element, &value)),
    };
    Ok(Value::Int(position.map_or(-1, |position| i64::try_from(position).unwrap_or(i64::MAX))))
}

/// Whether a value is nothing, has no elements, or is what a field has that was never set.
fn is_empty<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    Ok(Value::Bool(match arguments.value(0, scene)? {
        Value::Nil => true,
        Value::Bool(value) => !value,
        Value::Int(value) | Value::Duration(value) => value == 0,
        Value::Double(value) => value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Map(map) => map.len() == 0,
        Value::List(list) => list.len() == 0,
        Value::TraceId(id) | Value::ProfileId(id) => id == [0; 16],
        Value::SpanId(id) => id == [0; 8],
        // The reference knows no empty time, and takes every list of messages for a value of its own.
        Value::Time(_) | Value::Messages(_) | Value::Unreadable => false,
    }))
}

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
    let list = arguments.elements(0, scene)?;
    let item = arguments.value(1, scene)?;
    Ok(Value::Bool(list.iter().any(|value| compare::equal(value, &item))))
}

/// A key or an index, and a value.
type Pair<'a> = (Value<'a>, Value<'a>);

/// The elements of a map or a list, if there is memory for so many copies of them.
fn pairs<'a>(source: Value<'a>, copies: usize, scene: &Scene<'a>) -> Result<Vec<Pair<'a>>, Failure> {
    let count = match &source {
        Value::Map(map) => map.len(),
        Value::List(list) => list.len(),
        _ => 0,
    };
    scene.check_length(copies * count * size_of::<Pair<'_>>())?;
    match source {
        Value::Map(map) => Ok(map.into_entries().into_iter().map(|(key, value)| (Value::String(key), value)).collect()),
        Value::List(list) => {
            let values = list.into_values().into_iter();
            Ok((0..).zip(values).map(|(index, value)| (Value::Int(index), value)).collect())
        }
        other => Err(Failure::new(format!("expected a map or a list but got a {}", other.type_name()))),
    }
}

fn holds<'a>(scene: &mut Scene<'a>, lambda: &'a Lambda, (key, value): Pair<'a>) -> Result<bool, Failure> {
    scene.call_lambda(lambda, [key, value])?.into_bool()
}

/// Whether one element, or every one, is as the predicate wants it.
fn quantifier<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>, wanted: bool) -> Result<Value<'a>, Failure> {
    let lambda = arguments.lambda(1)?;
    for pair in pairs(arguments.value(0, scene)?, 1, scene)? {
        if holds(scene, lambda, pair)? == wanted {
            return Ok(Value::Bool(wanted));
        }
    }
    Ok(Value::Bool(!wanted))
}

/// Puts pairs together again as what they were taken from.
fn rebuilt<'a>(is_map: bool, pairs: Vec<Pair<'a>>) -> Result<Value<'a>, Failure> {
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
    let pairs = pairs(source, 2, scene)?;
    let mut kept = Vec::with_capacity(pairs.len());
    for pair in pairs {
        if holds(scene, lambda, pair.clone())? {
            kept.push(pair);
        }
    }
    rebuilt(is_map, kept)
}

/// What a lambda returns, unless it is nothing.
fn returned(value: Value<'_>) -> Result<Value<'_>, Failure> {
    if value.is_nil() { Err(Failure::text("the lambda returned nothing")) } else { Ok(value) }
}

/// The first element that the predicate holds for, or what the mapper makes of it; nothing when there is none.
fn find<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let lambda = arguments.lambda(1)?;
    for (key, value) in pairs(arguments.value(0, scene)?, 1, scene)? {
        if holds(scene, lambda, (key.clone(), value.clone()))? {
            return match arguments.optional_lambda(2) {
                Some(mapper) => returned(scene.call_lambda(mapper, [key, value])?),
                None => Ok(value),
            };
        }
    }
    Ok(Value::Nil)
}

fn map_each<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let source = arguments.value(0, scene)?;
    let is_map = matches!(source, Value::Map(_));
    let lambda = arguments.lambda(1)?;
    let pairs = pairs(source, 2, scene)?;
    let mut mapped = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        let value = scene.call_lambda(lambda, [key.clone(), value])?;
        mapped.push((key, value));
    }
    rebuilt(is_map, mapped)
}

/// A map with other keys. If several values get the same key, the last one stays.
fn map_keys<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let lambda = arguments.lambda(1)?;
    let source = arguments.entries(0, scene)?;
    let mut map = Distinct::with_capacity(source.len());
    let mut length = 0;
    for (key, value) in source {
        let key = scene.call_lambda(lambda, [Value::String(key), value.clone()])?.into_text()?;
        length += key.len();
        scene.check_length(length)?;
        map.put(key, value);
    }
    Ok(Value::map(map.entries))
}

fn reduce<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let source = pairs(arguments.value(0, scene)?, 1, scene)?;
    let lambda = arguments.lambda(2)?;
    let mut result = arguments.value(1, scene)?;
    for (key, value) in source {
        let before = result.heap();
        result = returned(scene.call_lambda(lambda, [result, key, value])?)?;
        scene.release(before);
        // What nests with every element must have its end here, not only where it is stored.
        if matches!(result, Value::List(_) | Value::Map(_)) {
            result.encoded_len()?;
        }
    }
    Ok(result)
}
