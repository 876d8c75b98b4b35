//! `extract_percentile_metric`: the value below which a part of a histogram lies, estimated inside its bucket.

use super::extract::texts;
use super::point::{AS_DOUBLE, COUNT, Point, number_point};
use super::{EXPONENTIAL_HISTOGRAM, GAUGE, HISTOGRAM};
use crate::program::Arguments;
use crate::scene::{Scene, metrics};
use crate::value::{Failure, Value};
use weir_otlp::field::{exponential_histogram_data_point, histogram_data_point};

pub(super) fn extract_percentile<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let estimate: Estimate = match scene.data {
        HISTOGRAM => of_histogram,
        EXPONENTIAL_HISTOGRAM => of_exponential,
        _ => return Ok(Value::Nil),
    };
    let percentile = arguments.literal_double(0).unwrap_or_default();
    let (points, kind) = (scene.points()?, scene.point);
    let mut estimates = Vec::new();
    for point in &points {
        let point = Point(point);
        if let Some(value) = estimate(point, percentile)? {
            estimates.push((point, value));
        }
    }
    if estimates.is_empty() {
        return Ok(Value::Nil);
    }
    let [mut name, description, unit] = texts(scene);
    match arguments.literal_text(1) {
        Some(suffix) if !suffix.is_empty() => name.push_str(suffix),
        _ => name.push_str(&format!("_p{percentile}")),
    }
    let description =
        if description.is_empty() { format!("p{percentile}") } else { format!("{description} (p{percentile})") };
    let metric = metrics::build([&name, &description, &unit], GAUGE, None, |out| {
        for (point, value) in estimates {
            number_point(point, kind, out, |out| out.fixed64(AS_DOUBLE, value.to_bits()));
        }
    });
    scene.add_metric(&metric)?;
    Ok(Value::Nil)
}

/// The value at a percentile; none for a point that says nothing about it.
type Estimate = fn(Point<'_>, f64) -> Result<Option<f64>, Failure>;

/// How many of the values of a point lie at or below the percentile.
#[expect(clippy::cast_precision_loss, reason = "a percentile is an estimate")]
#[expect(clippy::cast_possible_truncation, reason = "the number has no fraction")]
#[expect(clippy::cast_sign_loss, reason = "counts and percentiles are positive")]
fn rank(count: u64, percentile: f64) -> u64 {
    (count as f64 * (percentile / 100.0)).ceil() as u64
}

const TOO_FEW: Failure = Failure::text("the buckets of the histogram hold less than its count");

fn of_histogram(point: Point<'_>, percentile: f64) -> Result<Option<f64>, Failure> {
    const MIN: u32 = histogram_data_point::MIN;
    const MAX: u32 = histogram_data_point::MAX;
    let (counts, bounds) = (point.fixed64s(6), point.doubles(7));
    let count = point.fixed64(COUNT).unwrap_or_default();
    if count == 0 || counts.is_empty() {
        return Ok(None);
    }
    if counts.len() != bounds.len() + 1 {
        return Err(Failure::new(format!("{} buckets do not fit {} bounds", counts.len(), bounds.len())));
    }
    let rank = rank(count, percentile);
    let (min, max) = (point.double(MIN), point.double(MAX));
    if bounds.is_empty() {
        let Some((min, max)) = min.zip(max) else { return Ok(None) };
        return Ok(Some(linear(min, max, ratio(rank, counts[0])?)));
    }
    let (bucket, before) = find(counts.iter().copied(), 0, rank).ok_or(TOO_FEW)?;
    let (lower, upper) = match bucket {
        0 => match min.filter(|min| *min < bounds[0]) {
            Some(min) => (min, bounds[0]),
            // Nothing says where the bucket starts.
            None if bounds[0] < 0.0 => return Ok(Some(bounds[0])),
            None => (0.0, bounds[0]),
        },
        _ if bucket < bounds.len() => (bounds[bucket - 1], bounds[bucket]),
        _ => match max.filter(|max| *max > bounds[bucket - 1]) {
            Some(max) => (bounds[bucket - 1], max),
            None => return Ok(Some(bounds[bucket - 1])),
        },
    };
    Ok(Some(linear(lower, upper, ratio(rank - before, counts[bucket])?)))
}

/// The bucket in which the value with a rank lies, and how many values lie before that bucket.
fn find(counts: impl Iterator<Item = u64>, mut before: u64, rank: u64) -> Option<(usize, u64)> {
    for (bucket, count) in counts.enumerate() {
        let after = before.saturating_add(count);
        if after >= rank {
            return Some((bucket, before));
        }
        before = after;
    }
    None
}

fn of_exponential(point: Point<'_>, percentile: f64) -> Result<Option<f64>, Failure> {
    let count = point.fixed64(COUNT).unwrap_or_default();
    let zeros = point.fixed64(exponential_histogram_data_point::ZERO_COUNT).unwrap_or_default();
    let buckets = |number: u32| (point.message(number).sint32(1), point.message(number).varints(2));
    let ((positive_offset, positive), (negative_offset, negative)) = (buckets(8), buckets(9));
    if count == 0 || (positive.is_empty() && negative.is_empty() && zeros == 0) {
        return Ok(None);
    }
    let (rank, scale) = (rank(count, percentile), point.sint32(6));
    let bounds = |offset: i32, bucket: usize| {
        let index = f64::from(offset) + bucket as f64;
        (bound(index, scale), bound(index + 1.0, scale))
    };
    if let Some((position, before)) = find(negative.iter().rev().copied(), 0, rank) {
        let bucket = negative.len() - 1 - position;
        let (lower, upper) = bounds(negative_offset, bucket);
        // The most negative value of a bucket is the one with the greatest distance from zero.
        return logarithmic(lower, upper, 1.0 - ratio(rank - before, negative[bucket])?).map(|value| Some(-value));
    }
    let before = negative.iter().copied().fold(0, u64::saturating_add);
    if before.saturating_add(zeros) >= rank {
        let threshold = point.double(14).unwrap_or_default();
        // Values on one side of zero only are not on the other side of it either.
        let lower = if negative.is_empty() && !positive.is_empty() { 0.0 } else { -threshold };
        let upper = if positive.is_empty() && !negative.is_empty() { 0.0 } else { threshold };
        return Ok(Some(linear(lower, upper, ratio(rank - before, zeros)?)));
    }
    let (bucket, before) = find(positive.iter().copied(), before.saturating_add(zeros), rank).ok_or(TOO_FEW)?;
    let (lower, upper) = bounds(positive_offset, bucket);
    logarithmic(lower, upper, ratio(rank - before, positive[bucket])?).map(Some)
}

/// The lower bound of a bucket of an exponential histogram.
fn bound(index: f64, scale: i32) -> f64 {
    (index * (-f64::from(scale)).exp2()).exp2()
}

#[expect(clippy::cast_precision_loss, reason = "a percentile is an estimate")]
fn ratio(part: u64, whole: u64) -> Result<f64, Failure> {
    if part > whole || whole == 0 {
        return Err(TOO_FEW);
    }
    Ok(part as f64 / whole as f64)
}

fn linear(lower: f64, upper: f64, ratio: f64) -> f64 {
    lower + ratio * (upper - lower)
}

fn logarithmic(lower: f64, upper: f64, ratio: f64) -> Result<f64, Failure> {
    if lower <= 0.0 || upper <= 0.0 || lower >= upper {
        return Err(Failure::text("the bounds of the bucket are out of range"));
    }
    let (lower, upper) = (lower.log2(), upper.log2());
    Ok((lower + (upper - lower) * ratio).exp2())
}
