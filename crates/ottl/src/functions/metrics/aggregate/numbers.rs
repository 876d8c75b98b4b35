//! Number points merged. The first point decides whether integers or doubles are calculated with.

use super::super::point::{AS_DOUBLE, AS_INT, Point, START_TIME};
use crate::draft::Scalar;

/// The first point with the result of the function as its value, and the earliest start time.
pub(super) fn merged(group: &[Vec<u8>], function: &str) -> Vec<u8> {
    let points = || group.iter().map(|point| Point(point));
    let Some(first) = points().next() else { return Vec::new() };
    let value = match (first.double(AS_DOUBLE), first.fixed64(AS_INT)) {
        _ if group.len() == 1 => return first.0.to_vec(),
        (_, Some(_)) => {
            let result = ints(points().map(int).collect(), points().map(raw_int), function);
            (AS_INT, result.cast_unsigned())
        }
        (Some(_), None) => (AS_DOUBLE, doubles(points().map(double).collect(), function).to_bits()),
        (None, None) => return first.0.to_vec(),
    };
    let start_time = points().map(|point| point.fixed64(START_TIME).unwrap_or_default()).min().unwrap_or_default();
    first.with(&[
        (START_TIME, (start_time != 0).then_some(Scalar::Fixed64(start_time))),
        (AS_DOUBLE, None),
        (AS_INT, None),
        (value.0, Some(Scalar::Fixed64(value.1))),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "the reference adds integers to doubles so")]
fn double(point: Point<'_>) -> f64 {
    let int = point.fixed64(AS_INT).map(|bits| bits.cast_signed() as f64);
    int.or(point.double(AS_DOUBLE)).unwrap_or_default()
}

#[expect(clippy::cast_possible_truncation, reason = "the fraction is what the reference drops")]
fn int(point: Point<'_>) -> i64 {
    match point.double(AS_DOUBLE) {
        Some(value) if point.fixed64(AS_INT).is_none() => value as i64,
        _ => raw_int(point),
    }
}

/// The integer value; 0 for a point with a double, which sums of the reference leave out.
fn raw_int(point: Point<'_>) -> i64 {
    point.fixed64(AS_INT).unwrap_or_default().cast_signed()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of points are small")]
fn doubles(mut values: Vec<f64>, function: &str) -> f64 {
    let count = values.len() as f64;
    match function {
        "sum" => values.iter().sum(),
        "mean" => values.iter().sum::<f64>() / count,
        "min" => extreme(values, |value, least| value < least),
        "max" => extreme(values, |value, most| value > most),
        "median" => {
            values.sort_by(f64::total_cmp);
            let middle = values.len() / 2;
            match values.len() % 2 {
                0 => f64::midpoint(values[middle - 1], values[middle]),
                _ => values[middle],
            }
        }
        _ => count,
    }
}

/// The value that goes before all others; NaN when one of them is NaN.
fn extreme(values: Vec<f64>, goes_before: fn(f64, f64) -> bool) -> f64 {
    let chosen = |best: f64, value: f64| {
        if best.is_nan() || !(value.is_nan() || goes_before(value, best)) { best } else { value }
    };
    values.into_iter().reduce(chosen).unwrap_or_default()
}

fn ints(mut values: Vec<i64>, raw: impl Iterator<Item = i64>, function: &str) -> i64 {
    let count = i64::try_from(values.len()).unwrap_or(i64::MAX);
    match function {
        "sum" => raw.fold(0, i64::wrapping_add),
        "mean" => raw.fold(0, i64::wrapping_add) / count,
        "min" => values.into_iter().min().unwrap_or_default(),
        "max" => values.into_iter().max().unwrap_or_default(),
        "median" => {
            values.sort_unstable();
            let middle = values.len() / 2;
            match values.len() % 2 {
                0 => values[middle - 1].wrapping_add(values[middle]) / 2,
                _ => values[middle],
            }
        }
        _ => count,
    }
}
