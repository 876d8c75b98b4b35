//! Converters of lists and maps as a whole: into another order, another form, or text.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::{Function, Kind, LIST, MAP, function, optional, required};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::places::Distinct;
use crate::value::{Failure, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function(
        "SliceToMap",
        &[required("target", LIST), optional("key_path", Kind::Texts), optional("value_path", Kind::Texts)],
        slice_to_map,
    )
    .checked(|arguments| {
        let is_empty = |index| arguments.has(index) && arguments.literal_texts(index).is_empty();
        if is_empty(1) || is_empty(2) { Err("a path must have at least one key".to_owned()) } else { Ok(()) }
    }),
    function("Sort", &[required("target", Kind::Any), optional("order", Kind::OneOf(&["asc", "desc"]))], sort),
    function(
        "ToKeyValueString",
        &[
            required("target", MAP),
            optional("delimiter", Kind::Text),
            optional("pair_delimiter", Kind::Text),
            optional("sort_output", Kind::Bool),
        ],
        to_key_value_string,
    )
    .checked(|arguments| match delimiters(arguments) {
        ("", _) | (_, "") => Err("a delimiter must not be empty".to_owned()),
        (delimiter, pair_delimiter) if delimiter == pair_delimiter => {
            Err("the delimiter and the pair delimiter must not be the same".to_owned())
        }
        _ => Ok(()),
    }),
];

fn slice_to_map<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let values = arguments.elements(0, scene)?;
    let (mut map, mut meter) = (Distinct::with_capacity(values.len()), scene.meter());
    for (index, element) in values.into_iter().enumerate() {
        let key = if arguments.has(1) {
            walk(&element, arguments.literal_texts(1))?.into_text()?.into_owned()
        } else {
            index.to_string()
        };
        let value = if arguments.has(2) { walk(&element, arguments.literal_texts(2))? } else { element };
        map.put_within(&mut meter, key, value)?;
    }
    Ok(Value::map(map.entries))
}

/// What a path of keys leads to.
fn walk<'a>(element: &Value<'a>, path: &[String]) -> Result<Value<'a>, Failure> {
    path.iter().try_fold(element.clone(), |value, key| match value {
        Value::Map(map) => map.get(key).ok_or_else(|| Failure::new(format!("an element has no key \"{key}\""))),
        other => Err(Failure::new(format!("an element is a {} and has no key \"{key}\"", other.type_name()))),
    })
}

/// What the elements of a list are compared by.
#[derive(Clone, Copy, PartialEq)]
enum Common {
    Int,
    Double,
    Text,
}

/// The most bytes of a number as text; longer ones are rare.
const MOST_NUMBER_BYTES: usize = 48;

fn sort<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let mut values = arguments.elements(0, scene)?;
    let Some(common) = common(&values)? else { return Ok(Value::list(values)) };
    let descending = arguments.literal_text(1) == Some("desc");
    let order = |left: Ordering| if descending { left.reverse() } else { left };
    match common {
        Common::Int | Common::Double => values.sort_by(|left, right| order(numbers(left, right))),
        Common::Text => {
            let texts = values.iter().map(Value::heap).sum::<usize>();
            let each = 2 * size_of::<(Cow<'_, str>, Value<'_>)>() + MOST_NUMBER_BYTES;
            scene.check_length(values.len().saturating_mul(each).saturating_add(2 * texts))?;
            let mut keyed = Vec::with_capacity(values.len());
            for value in values {
                keyed.push((value.clone().into_any_text(scene.room())?, value));
            }
            keyed.sort_by(|(left, _), (right, _)| order(left.cmp(right)));
            values = keyed.into_iter().map(|(_, value)| value).collect();
        }
    }
    Ok(Value::list(values))
}

/// Numbers are compared as numbers, everything else as text; a list with bytes, lists or maps is in no order.
fn common(values: &[Value<'_>]) -> Result<Option<Common>, Failure> {
    let mut common = None;
    for value in values {
        let next = match value {
            Value::Int(_) => Common::Int,
            Value::Double(_) => Common::Double,
            Value::String(_) | Value::Bool(_) | Value::Nil => Common::Text,
            Value::Bytes(_) | Value::List(_) | Value::Map(_) | Value::Unreadable => return Ok(None),
            other => return Err(Failure::new(format!("a list with a {} cannot be sorted", other.type_name()))),
        };
        common = Some(match common {
            None => next,
            Some(before) if before == next => next,
            Some(Common::Text) => Common::Text,
            Some(_) if next == Common::Text => Common::Text,
            Some(_) => Common::Double,
        });
    }
    Ok(common)
}

/// Integers are compared with each other exactly, everything else as doubles. What is not a number comes first.
fn numbers(left: &Value<'_>, right: &Value<'_>) -> Ordering {
    #[expect(clippy::cast_precision_loss, reason = "the language compares int and double as doubles")]
    let double = |value: &Value<'_>| match value {
        Value::Int(value) => *value as f64,
        Value::Double(value) => *value,
        _ => f64::NAN,
    };
    if let (Value::Int(left), Value::Int(right)) = (left, right) {
        return left.cmp(right);
    }
    let (left, right) = (double(left), double(right));
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

/// What stands between a key and its value, and between two of these.
fn delimiters(arguments: &Arguments) -> (&str, &str) {
    (arguments.literal_text(1).unwrap_or("="), arguments.literal_text(2).unwrap_or(" "))
}

fn to_key_value_string<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let (delimiter, pair_delimiter) = delimiters(arguments);
    let mut entries = arguments.entries(0, scene)?;
    if arguments.literal_bool(3) == Some(true) {
        entries.sort_by(|(left, _), (right, _)| left.cmp(right));
    }
    let mut out = String::new();
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            out.push_str(pair_delimiter);
        }
        quoted(&key, (delimiter, pair_delimiter), &mut out);
        out.push_str(delimiter);
        quoted(&value.readable()?.into_any_text(scene.room())?, (delimiter, pair_delimiter), &mut out);
        scene.check_length(out.len())?;
    }
    Ok(Value::text(out))
}

/// Appends a key or a value, in quotes when a delimiter is in it.
fn quoted(text: &str, (delimiter, pair_delimiter): (&str, &str), out: &mut String) {
    // The delimiters are looked for in what is written, which has a backslash before each quote.
    let start = out.len();
    for part in text.split_inclusive('"') {
        match part.strip_suffix('"') {
            Some(before) => out.extend([before, "\\\""]),
            None => out.push_str(part),
        }
    }
    let escaped = &out[start..];
    if escaped.contains(delimiter) || escaped.contains(pair_delimiter) {
        out.insert(start, '"');
        out.push('"');
    }
}
