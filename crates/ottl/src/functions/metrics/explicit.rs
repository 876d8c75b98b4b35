//! `convert_exponential_histogram_to_histogram`: counts distributed over explicit bounds.
//!
//! As in the reference there are as many buckets as bounds, and negative values are left out.

use std::borrow::Cow;

use weir_otlp::build::Encoder;
use weir_otlp::field::exponential_histogram_data_point;

use super::point::{COUNT, Point, START_TIME, SUM, TIME};
use super::{EXPONENTIAL_HISTOGRAM, HISTOGRAM};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Failure, Value};

/// Spreads a count over the buckets that a range of values touches.
type Distribution = fn(u64, Range, &[f64], &mut [u64]);

/// The values of a bucket of an exponential histogram.
#[derive(Debug, Clone, Copy)]
struct Range {
    lower: f64,
    upper: f64,
}

pub(super) fn to_histogram<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    if scene.data != EXPONENTIAL_HISTOGRAM {
        return Ok(Value::Nil);
    }
    let distribution: Distribution = match arguments.literal_text(0) {
        Some("upper") => upper,
        Some("midpoint") => midpoint,
        Some("uniform") => uniform,
        _ => random,
    };
    let bounds = arguments.literal_doubles(1);
    let temporality = scene.temporality();
    let points = scene.points()?;
    scene.check_length(points.len().saturating_mul(bounds.len().saturating_mul(2 * size_of::<u64>())))?;
    let converted = points.iter().map(|point| Cow::Owned(histogram_point(Point(point), bounds, distribution)));
    let converted = converted.collect();
    scene.convert(HISTOGRAM, (temporality, false), converted)?;
    Ok(Value::Nil)
}

fn histogram_point(point: Point<'_>, bounds: &[f64], distribution: Distribution) -> Vec<u8> {
    /// Numbers of fields of the two kinds of points: minimum and maximum; exemplars and attributes.
    const EXTREMES: [(u32, u32); 2] = [(12, 11), (13, 12)];
    const COPIED: [(u32, u32); 2] = [(11, 8), (1, 9)];
    let mut out = Encoder::with_capacity(point.0.len() + 16 * bounds.len());
    for number in [START_TIME, TIME, COUNT] {
        if let Some(bits) = point.fixed64(number) {
            out.fixed64(number, bits);
        }
    }
    for (from, to) in [(SUM, SUM)].into_iter().chain(EXTREMES) {
        out.fixed64(to, point.fixed64(from).unwrap_or_default());
    }
    let packed = |out: &mut Encoder, number: u32, values: &mut dyn Iterator<Item = u64>| {
        let open = out.open(number, bounds.len() * size_of::<u64>());
        values.for_each(|value| out.raw(&value.to_le_bytes()));
        out.close(open);
    };
    packed(&mut out, 6, &mut bucket_counts(point, bounds, distribution).into_iter());
    packed(&mut out, 7, &mut bounds.iter().map(|bound| bound.to_bits()));
    for (from, to) in COPIED {
        point.bodies(from).for_each(|body| out.bytes(to, body));
    }
    out.into_bytes()
}

fn bucket_counts(point: Point<'_>, bounds: &[f64], distribution: Distribution) -> Vec<u64> {
    let mut counts = vec![0u64; bounds.len()];
    let ([first, ..], Some(last)) = (bounds, bounds.last()) else { return counts };
    if *first == 0.0 {
        counts[0] = point.fixed64(exponential_histogram_data_point::ZERO_COUNT).unwrap_or_default();
    }
    let factor = std::f64::consts::LN_2 * (-f64::from(point.sint32(6))).exp2();
    let positive = point.message(exponential_histogram_data_point::POSITIVE);
    let mut index = f64::from(positive.sint32(1));
    for count in positive.varints(2) {
        let range = Range { lower: (index * factor).exp(), upper: ((index + 1.0) * factor).exp() };
        index += 1.0;
        if range.lower > *last {
            add(&mut counts, bounds.len() - 1, count);
            continue;
        }
        let inside = bounds.windows(2).position(|pair| range.lower > pair[0] && range.upper <= pair[1]);
        match inside {
            Some(bucket) => add(&mut counts, bucket, count),
            None => distribution(count, range, bounds, &mut counts),
        }
    }
    counts
}

fn add(counts: &mut [u64], bucket: usize, count: u64) {
    let last = counts.len().saturating_sub(1);
    if let Some(sum) = counts.get_mut(bucket.min(last)) {
        *sum = sum.wrapping_add(count);
    }
}

/// The bucket of the largest value.
fn upper(count: u64, range: Range, bounds: &[f64], counts: &mut [u64]) {
    let bucket = bounds.iter().position(|bound| range.upper <= *bound);
    add(counts, bucket.unwrap_or(bounds.len()), count);
}

/// The bucket before the first bound that is not below the middle.
fn midpoint(count: u64, range: Range, bounds: &[f64], counts: &mut [u64]) {
    let middle = f64::midpoint(range.lower, range.upper);
    let bucket = bounds.iter().position(|bound| middle <= *bound).map(|bucket| bucket.saturating_sub(1));
    add(counts, bucket.unwrap_or(bounds.len()), count);
}

/// The buckets that a range touches, first and last.
fn touched(range: Range, bounds: &[f64]) -> (usize, usize) {
    let last = bounds.len() - 1;
    let start = bounds.iter().position(|bound| range.lower <= *bound).unwrap_or(last);
    let end = bounds.iter().skip(start).position(|bound| range.upper <= *bound);
    (start, end.map_or(last, |end| start + end))
}

/// Equal parts for all buckets; the remainder goes to the first ones.
fn uniform(count: u64, range: Range, bounds: &[f64], counts: &mut [u64]) {
    let (start, end) = touched(range, bounds);
    spread(count, start..=end, counts);
}

fn spread(count: u64, buckets: std::ops::RangeInclusive<usize>, counts: &mut [u64]) {
    let number = (buckets.end() - buckets.start() + 1) as u64;
    for (bucket, position) in buckets.zip(0..) {
        add(counts, bucket, count / number + u64::from(position < count % number));
    }
}

/// A random part of what a bucket would get for its width. The rest is spread in equal parts, with the remainder at a
/// random place. The reference throws dice for every single value of the rest, which takes longer the larger the count
/// is.
#[expect(clippy::cast_precision_loss, reason = "parts of counts are no exact numbers")]
#[expect(clippy::cast_possible_truncation, reason = "the fraction of a count is left to the rest")]
#[expect(clippy::cast_sign_loss, reason = "widths and parts are positive")]
fn random(count: u64, range: Range, bounds: &[f64], counts: &mut [u64]) {
    let (start, end) = touched(range, bounds);
    let width = range.upper - range.lower;
    let mut rest = count;
    for bucket in start..=end {
        let from = if bucket == 0 { range.lower } else { bounds[bucket - 1].max(range.lower) };
        let part = (bounds[bucket].min(range.upper) - from) / width;
        let most = (count as f64 * part) as u64;
        let given = ((fastrand::f64() * most as f64) as u64).min(rest);
        add(counts, bucket, given);
        rest -= given;
    }
    let number = (end - start + 1) as u64;
    spread(rest - rest % number, start..=end, counts);
    add(counts, start + fastrand::usize(0..=end - start), rest % number);
}
