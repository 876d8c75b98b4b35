//! Arithmetic rules: `pkg/ottl/math.go`. Integers wrap as they do in Go.

use super::{Failure, Time, Value};
use crate::ast::MathOperator;

/// The result of an operator.
///
/// # Errors
/// When a value is no number, time or duration, or when something is divided by 0.
#[expect(clippy::cast_precision_loss, reason = "the language calculates with int and double as doubles")]
pub(crate) fn calculate<'a>(left: &Value<'_>, operator: MathOperator, right: &Value<'_>) -> Result<Value<'a>, Failure> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => integers(*left, operator, *right).map(Value::Int),
        (Value::Int(left), Value::Double(right)) => doubles(*left as f64, operator, *right),
        (Value::Double(left), Value::Int(right)) => doubles(*left, operator, *right as f64),
        (Value::Double(left), Value::Double(right)) => doubles(*left, operator, *right),
        (Value::Time(_) | Value::Duration(_), _) => times(left, operator, right),
        (Value::Int(_) | Value::Double(_), other) | (other, _) => {
            Err(Failure::new(format!("cannot calculate with a {}", other.type_name())))
        }
    }
}

/// The negative of a number.
///
/// # Errors
/// When the value is no number.
pub(crate) fn negate<'a>(value: &Value<'_>) -> Result<Value<'a>, Failure> {
    match value {
        Value::Int(value) => Ok(Value::Int(value.wrapping_neg())),
        Value::Double(value) => Ok(Value::Double(-value)),
        other => Err(Failure::new(format!("cannot negate a {}", other.type_name()))),
    }
}

const BY_ZERO: Failure = Failure::text("division by 0");

fn integers(left: i64, operator: MathOperator, right: i64) -> Result<i64, Failure> {
    Ok(match operator {
        MathOperator::Add => left.wrapping_add(right),
        MathOperator::Subtract => left.wrapping_sub(right),
        MathOperator::Multiply => left.wrapping_mul(right),
        MathOperator::Divide if right == 0 => return Err(BY_ZERO),
        MathOperator::Divide => left.wrapping_div(right),
    })
}

fn doubles<'a>(left: f64, operator: MathOperator, right: f64) -> Result<Value<'a>, Failure> {
    Ok(Value::Double(match operator {
        MathOperator::Add => left + right,
        MathOperator::Subtract => left - right,
        MathOperator::Multiply => left * right,
        MathOperator::Divide if right == 0.0 => return Err(BY_ZERO),
        MathOperator::Divide => left / right,
    }))
}

fn times<'a>(left: &Value<'_>, operator: MathOperator, right: &Value<'_>) -> Result<Value<'a>, Failure> {
    let shifted = |time: &Time, by: i64| {
        Value::Time(Time { unix_nano: time.unix_nano + i128::from(by), zone: time.zone.clone() })
    };
    Ok(match (left, operator, right) {
        (Value::Time(time), MathOperator::Add, Value::Duration(by))
        | (Value::Duration(by), MathOperator::Add, Value::Time(time)) => shifted(time, *by),
        (Value::Time(time), MathOperator::Subtract, Value::Duration(by)) => shifted(time, by.wrapping_neg()),
        (Value::Time(left), MathOperator::Subtract, Value::Time(right)) => {
            Value::Duration(clamped(left.unix_nano - right.unix_nano))
        }
        (Value::Duration(left), MathOperator::Add, Value::Duration(right)) => {
            Value::Duration(left.wrapping_add(*right))
        }
        (Value::Duration(left), MathOperator::Subtract, Value::Duration(right)) => {
            Value::Duration(left.wrapping_sub(*right))
        }
        (_, MathOperator::Multiply | MathOperator::Divide, _) => {
            return Err(Failure::text("times and durations can be added and subtracted only"));
        }
        _ => {
            let (left, right) = (left.type_name(), right.type_name());
            return Err(Failure::new(format!("cannot add or subtract a {left} and a {right}")));
        }
    })
}

/// As 64 bits. A number that does not fit becomes the nearest that does, as in Go's `time.Time.Sub`.
pub(crate) fn clamped(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}
