//! Comparison rules: `pkg/ottl/compare.go`.
//!
//! Values of different kinds differ and have no order; int and double count as one kind. Nothing equals only nothing.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::{Map, Value};
use crate::ast::Comparison;

/// Whether the values relate as the operator demands.
pub(crate) fn compare(left: &Value<'_>, operator: Comparison, right: &Value<'_>) -> bool {
    // Most conditions compare a text with a literal for equality, which needs no order.
    if let (Value::String(left), Value::String(right)) = (left, right) {
        return match operator {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            _ => holds(operator, left.as_ref().cmp(right.as_ref())),
        };
    }
    match order(present(left), present(right)) {
        Relation::Ordered(ordering) => holds(operator, ordering),
        Relation::Equal(equal) => match operator {
            Comparison::Equal => equal,
            Comparison::NotEqual => !equal,
            _ => false,
        },
        Relation::Number(left, right) => numbers(left, operator, right),
        Relation::None => operator == Comparison::NotEqual,
    }
}

/// Whether two values are equal by the rules of the language.
pub(crate) fn equal(left: &Value<'_>, right: &Value<'_>) -> bool {
    compare(left, Comparison::Equal, right)
}

/// A value as it is compared: empty bytes are nothing, like a nil slice in Go.
fn present<'v, 'a>(value: &'v Value<'a>) -> &'v Value<'a> {
    match value {
        Value::Bytes(bytes) if bytes.is_empty() => &Value::Nil,
        value => value,
    }
}

/// How two values can be compared.
enum Relation {
    /// In every way.
    Ordered(Ordering),
    /// For equality only.
    Equal(bool),
    /// As floating point numbers.
    Number(f64, f64),
    /// Not at all.
    None,
}

#[expect(clippy::cast_precision_loss, reason = "the language compares int and double as doubles")]
fn order(left: &Value<'_>, right: &Value<'_>) -> Relation {
    Relation::Ordered(match (left, right) {
        (Value::Nil, Value::Nil) => Ordering::Equal,
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Int(left), Value::Int(right)) | (Value::Duration(left), Value::Duration(right)) => left.cmp(right),
        (Value::Int(left), Value::Double(right)) => return Relation::Number(*left as f64, *right),
        (Value::Double(left), Value::Int(right)) => return Relation::Number(*left, *right as f64),
        (Value::Double(left), Value::Double(right)) => return Relation::Number(*left, *right),
        (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
        (Value::Time(left), Value::Time(right)) => left.unix_nano.cmp(&right.unix_nano),
        (Value::Map(_), Value::Map(_))
        | (Value::List(_), Value::List(_))
        | (Value::TraceId(_), Value::TraceId(_))
        | (Value::SpanId(_), Value::SpanId(_))
        | (Value::ProfileId(_), Value::ProfileId(_)) => return Relation::Equal(same(left, right)),
        _ => return Relation::None,
    })
}

fn holds(operator: Comparison, ordering: Ordering) -> bool {
    match operator {
        Comparison::Equal => ordering.is_eq(),
        Comparison::NotEqual => ordering.is_ne(),
        Comparison::Less => ordering.is_lt(),
        Comparison::LessOrEqual => ordering.is_le(),
        Comparison::Greater => ordering.is_gt(),
        Comparison::GreaterOrEqual => ordering.is_ge(),
    }
}

#[expect(clippy::float_cmp, reason = "the language compares numbers exactly")]
fn numbers(left: f64, operator: Comparison, right: f64) -> bool {
    match operator {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
    }
}

/// Whether two values are the same inside a list or a map. There, int and double are two kinds.
#[expect(clippy::float_cmp, reason = "the language compares numbers exactly")]
fn same(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left, right) {
        (Value::Double(left), Value::Double(right)) => left == right,
        (Value::Int(_), Value::Double(_)) | (Value::Double(_), Value::Int(_)) => false,
        (Value::TraceId(left), Value::TraceId(right)) => left == right,
        (Value::SpanId(left), Value::SpanId(right)) => left == right,
        (Value::ProfileId(left), Value::ProfileId(right)) => left == right,
        (Value::Map(left), Value::Map(right)) => {
            // Maps of different length are not looked at beyond the shorter one: one may be compared with many.
            pairwise(left.iter(), right.iter(), |_, _| true) && same_entries(left, right)
        }
        (Value::List(left), Value::List(right)) => pairwise(left.iter(), right.iter(), same),
        _ => equal(left, right),
    }
}

/// Whether both sides have the same number of values, and each value is the same as the one beside it.
fn pairwise<T>(
    left: impl Iterator<Item = T>,
    mut right: impl Iterator<Item = T>,
    same: impl Fn(&T, &T) -> bool,
) -> bool {
    for left in left {
        match right.next() {
            Some(right) if same(&left, &right) => {}
            _ => return false,
        }
    }
    right.next().is_none()
}

/// Whether every key of one map has the same value in the other. If a key occurs twice, the first one counts.
fn same_entries(left: &Map<'_>, right: &Map<'_>) -> bool {
    let mut others = HashMap::new();
    for (key, value) in right.iter() {
        others.entry(key).or_insert(value);
    }
    left.iter().all(|(key, value)| others.get(&key).is_some_and(|other| same(&value, other)))
}
