//! Converters that ask for a type or convert to one.

use super::{Function, Kind, function, required};
use crate::context::{Context, Level};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Failure, Value};

const TARGET: &[super::Parameter] = &[required("target", Kind::Any)];
const LIKE: &[super::Parameter] = &[required("target", Kind::Like)];

pub(super) const FUNCTIONS: &[Function] = &[
    function("IsString", TARGET, |arguments, scene| is(arguments, scene, |value| matches!(value, Value::String(_))))
        .checked(|arguments| literal_is(arguments, "string")),
    function("IsInt", TARGET, |arguments, scene| is(arguments, scene, |value| matches!(value, Value::Int(_))))
        .checked(|arguments| literal_is(arguments, "int")),
    function("IsBool", TARGET, |arguments, scene| is(arguments, scene, |value| matches!(value, Value::Bool(_))))
        .checked(|arguments| literal_is(arguments, "bool")),
    function("IsDouble", TARGET, |arguments, scene| is(arguments, scene, |value| matches!(value, Value::Double(_))))
        .checked(|arguments| literal_is(arguments, "double")),
    function("IsMap", TARGET, |arguments, scene| is(arguments, scene, |value| matches!(value, Value::Map(_))))
        .checked(|arguments| literal_is(arguments, "map")),
    function("IsList", TARGET, |arguments, scene| {
        is(arguments, scene, |value| match value {
            Value::List(_) => true,
            Value::Messages(messages) => messages.repeated,
            _ => false,
        })
    }),
    function("IsRootSpan", &[], is_root_span).only_in(&[Context::Span]),
    function("Int", LIKE, |arguments, scene| {
        Ok(arguments.value(0, scene)?.into_int_like()?.map_or(Value::Nil, Value::Int))
    }),
    function("Double", LIKE, |arguments, scene| {
        Ok(arguments.value(0, scene)?.into_double_like()?.map_or(Value::Nil, Value::Double))
    }),
    function("Log", LIKE, |arguments, scene| match arguments.value(0, scene)?.into_double_like()? {
        Some(value) if value > 0.0 || value.is_nan() => Ok(Value::Double(value.ln())),
        _ => Err(Failure::text("expected a number greater than 0")),
    }),
    function("Bool", LIKE, |arguments, scene| {
        Ok(arguments.value(0, scene)?.into_bool_like()?.map_or(Value::Nil, Value::Bool))
    }),
    function("String", LIKE, |arguments, scene| Ok(arguments.text_like(0, scene)?.map_or(Value::Nil, Value::String))),
];

fn is<'a>(
    arguments: &'a Arguments,
    scene: &mut Scene<'a>,
    matches: fn(&Value<'_>) -> bool,
) -> Result<Value<'a>, Failure> {
    Ok(Value::Bool(matches(&arguments.value(0, scene)?)))
}

/// To ask for the type of a literal of another type is a mistake, which the reference refuses, too.
fn literal_is(arguments: &Arguments, kind: &str) -> Result<(), String> {
    match arguments.literal(0) {
        Some(value) if value.type_name() != kind => Err(format!("a {} is never a {kind}", value.type_name())),
        _ => Ok(()),
    }
}

fn is_root_span<'a>(_: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    const PARENT_SPAN_ID: u32 = weir_otlp::field::span::PARENT_SPAN_ID;
    let parent = scene.draft(Level::Item).scalar(PARENT_SPAN_ID);
    let is_set = |scalar| matches!(scalar, crate::draft::Scalar::Len(id) if id.iter().any(|byte| *byte != 0));
    Ok(Value::Bool(!parent.is_some_and(is_set)))
}
