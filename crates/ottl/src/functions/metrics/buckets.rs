//! `merge_histogram_buckets`: fewer buckets in a histogram.

use super::point::packed;
use crate::context::{Level, PointKind};
use crate::draft::Scalar;
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Failure, Value};
use weir_otlp::field::histogram_data_point;

const BUCKET_COUNTS: u32 = histogram_data_point::BUCKET_COUNTS;
const EXPLICIT_BOUNDS: u32 = histogram_data_point::EXPLICIT_BOUNDS;

/// A bound this close to the one that is named is the one that is meant.
const EPSILON: f64 = 1e-12;

const NO_TARGET: &str = "the target value must not be nil";
const NO_NUMBER: &str = "the target value must be a positive integer to limit buckets";

fn limits_buckets(arguments: &Arguments) -> bool {
    arguments.literal_text(1) == Some("limit_buckets")
}

/// What is wrong with a target value that is a literal.
pub(super) fn check(arguments: &Arguments) -> Result<(), String> {
    let Some(literal) = arguments.literal(0) else { return Ok(()) };
    let target = literal.lend().into_double_like().map_err(|failure| failure.to_string())?;
    let target = target.ok_or_else(|| NO_TARGET.to_owned())?;
    if limits_buckets(arguments) && most_buckets(target).is_none() {
        return Err(format!("{NO_NUMBER}, not {target}"));
    }
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the number has no fraction; a larger one than fits limits nothing"
)]
#[expect(clippy::cast_sign_loss, reason = "the number is positive")]
fn most_buckets(target: f64) -> Option<usize> {
    (target >= 1.0 && target.fract() == 0.0).then_some(target as usize)
}

pub(super) fn merge_buckets<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    if scene.point != PointKind::Histogram {
        return Ok(Value::Nil);
    }
    let target = arguments.value(0, scene)?.into_double_like()?.ok_or(Failure::text(NO_TARGET))?;
    let most =
        if limits_buckets(arguments) { Some(most_buckets(target).ok_or(Failure::text(NO_NUMBER))?) } else { None };
    let counts = fixed64s(&scene.draft(Level::Point).repeated(BUCKET_COUNTS));
    let bounds = fixed64s(&scene.draft(Level::Point).repeated(EXPLICIT_BOUNDS));
    let bounds: Vec<f64> = bounds.into_iter().map(f64::from_bits).collect();
    // Buckets that do not fit their bounds are left alone, and so is a single one.
    if bounds.len() + 1 != counts.len() || counts.len() == 1 {
        return Ok(Value::Nil);
    }
    let merged = match most {
        Some(most) => compacted(&bounds, &counts, most),
        None => without_bound(bounds, counts, target),
    };
    if let Some((bounds, counts)) = merged {
        let bounds = packed(bounds.into_iter().map(f64::to_bits));
        scene.set_scalars(Level::Point, [(EXPLICIT_BOUNDS, bounds), (BUCKET_COUNTS, packed(counts))])?;
    }
    Ok(Value::Nil)
}

/// The bits of repeated numbers of eight bytes, packed or not.
fn fixed64s(scalars: &[Scalar<'_>]) -> Vec<u64> {
    let mut all = Vec::new();
    for scalar in scalars {
        match scalar {
            Scalar::Fixed64(bits) => all.push(*bits),
            Scalar::Len(body) => all.extend(body.as_chunks().0.iter().map(|chunk| u64::from_le_bytes(*chunk))),
            Scalar::Varint(_) | Scalar::Fixed32(_) | Scalar::Repeated(_) => {}
        }
    }
    all
}

type Buckets = (Vec<f64>, Vec<u64>);

/// The bucket that ends at the bound becomes part of the next one.
fn without_bound(mut bounds: Vec<f64>, mut counts: Vec<u64>, target: f64) -> Option<Buckets> {
    let index = bounds.iter().position(|bound| (bound - target).abs() < EPSILON)?;
    bounds.remove(index);
    let merged = counts.remove(index);
    let next = counts.get_mut(index)?;
    *next = next.wrapping_add(merged);
    Some((bounds, counts))
}

/// Joins as many neighbours as it takes to leave at most `most` buckets.
fn compacted(bounds: &[f64], counts: &[u64], most: usize) -> Option<Buckets> {
    if counts.len() <= most || !bounds.is_sorted_by(|left, right| left < right) {
        return None;
    }
    let together = counts.len().div_ceil(most);
    let counts = counts.chunks(together).map(|part| part.iter().fold(0, |sum: u64, count| sum.wrapping_add(*count)));
    let bounds = bounds.iter().skip(together - 1).step_by(together).copied();
    Some((bounds.collect(), counts.collect()))
}
