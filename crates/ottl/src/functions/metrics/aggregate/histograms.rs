//! Histograms merged, whatever the function: counts and sums add up.

use std::borrow::Cow;

use super::super::point::{COUNT, Point, START_TIME, SUM, packed};
use crate::draft::Scalar;
use crate::value::Failure;
use weir_otlp::field::{buckets, exponential_histogram_data_point, histogram_data_point};

/// Numbers of fields that the points of both kinds of histograms have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    flags: u32,
    min: u32,
    max: u32,
    exemplars: u32,
    /// Explicit bounds; 0 where there is a scale.
    bounds: u32,
    /// Scale; 0 where there are bounds.
    scale: u32,
}

pub(super) const PLAIN: Shape = Shape { flags: 10, min: 11, max: 12, exemplars: 8, bounds: 7, scale: 0 };
pub(super) const EXPONENTIAL: Shape = Shape { flags: 10, min: 12, max: 13, exemplars: 11, bounds: 0, scale: 6 };

/// Numbers of the buckets.
const BUCKET_COUNTS: u32 = histogram_data_point::BUCKET_COUNTS;
const ZERO_COUNT: u32 = exponential_histogram_data_point::ZERO_COUNT;
const POSITIVE: u32 = exponential_histogram_data_point::POSITIVE;
const NEGATIVE: u32 = exponential_histogram_data_point::NEGATIVE;

/// The most buckets of a merged exponential histogram, whatever lies between the offsets. SDKs use 160.
const MAX_BUCKETS: i64 = 1 << 14;

impl Shape {
    /// What histograms must have in common to be merged.
    pub(super) fn key(self, point: Point<'_>) -> Vec<u64> {
        let mut key = match self.bounds {
            0 => vec![point.varint(self.scale)],
            bounds => point.fixed64s(bounds),
        };
        let has = |number: u32| u64::from(point.fixed64(number).is_some());
        key.extend([has(self.min), has(self.max), point.varint(self.flags)]);
        key
    }

    /// What changes in the first point when the others are merged into it, except for the buckets.
    fn common<'p>(self, points: &[Point<'p>]) -> Vec<(u32, Option<Scalar<'p>>)> {
        let Some(first) = points.first() else { return Vec::new() };
        let count = points.iter().fold(0u64, |count, point| count.wrapping_add(counted(*point)));
        let sum: f64 = points.iter().map(|point| point.double(SUM).unwrap_or_default()).sum();
        let start_time = points.iter().map(|point| point.fixed64(START_TIME).unwrap_or_default()).min();
        let exemplars: Vec<_> =
            points.iter().flat_map(|point| point.bodies(self.exemplars)).map(Cow::Borrowed).collect();
        let extreme = |number: u32, other: fn(f64, f64) -> f64| {
            let least = first.double(number)?;
            let rest = points.iter().skip(1).map(|point| point.double(number).unwrap_or_default());
            Some(Scalar::Fixed64(rest.fold(least, other).to_bits()))
        };
        vec![
            (COUNT, Some(Scalar::Fixed64(count))),
            (SUM, Some(Scalar::Fixed64(sum.to_bits()))),
            (START_TIME, start_time.filter(|time| *time != 0).map(Scalar::Fixed64)),
            (self.exemplars, Some(Scalar::Repeated(exemplars))),
            (self.min, extreme(self.min, f64::min)),
            (self.max, extreme(self.max, f64::max)),
        ]
    }
}

fn counted(point: Point<'_>) -> u64 {
    point.fixed64(COUNT).unwrap_or_default()
}

/// The points that matter: the first, and those after it that have a count.
fn significant(group: &[Vec<u8>]) -> Vec<Point<'_>> {
    let points = group.iter().map(|point| Point(point)).enumerate();
    points.filter(|(index, point)| *index == 0 || counted(*point) > 0).map(|(_, point)| point).collect()
}

/// Histograms with the same bounds as one.
pub(super) fn merged(group: &[Vec<u8>]) -> Result<Vec<u8>, Failure> {
    let points = significant(group);
    let [first, others @ ..] = &points[..] else { return Ok(Vec::new()) };
    if others.is_empty() {
        return Ok(first.0.to_vec());
    }
    let mut buckets = first.fixed64s(BUCKET_COUNTS);
    for point in others {
        let counts = point.fixed64s(BUCKET_COUNTS);
        buckets.resize(buckets.len().max(counts.len()), 0);
        buckets.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.wrapping_add(count));
    }
    let mut changes = PLAIN.common(&points);
    changes.push((BUCKET_COUNTS, packed(buckets)));
    Ok(first.with(&changes))
}

/// Exponential histograms with the same scale as one.
///
/// # Errors
/// When their buckets lie too far apart.
pub(super) fn merged_exponential(group: &[Vec<u8>]) -> Result<Vec<u8>, Failure> {
    let points = significant(group);
    let [first, others @ ..] = &points[..] else { return Ok(Vec::new()) };
    if others.is_empty() {
        return Ok(first.0.to_vec());
    }
    let zeros = points.iter().fold(0u64, |sum, point| sum.wrapping_add(point.fixed64(ZERO_COUNT).unwrap_or_default()));
    let mut changes = EXPONENTIAL.common(&points);
    changes.push((ZERO_COUNT, (zeros != 0).then_some(Scalar::Fixed64(zeros))));
    for number in [POSITIVE, NEGATIVE] {
        changes.push((number, merged_buckets(points.iter().map(|point| point.message(number)).collect())?));
    }
    Ok(first.with(&changes))
}

/// Counts added up by index. The reference does the same for buckets that do not overlap, but goes wrong for some that
/// do.
fn merged_buckets<'a>(all: Vec<Point<'_>>) -> Result<Option<Scalar<'a>>, Failure> {
    const OFFSET: u32 = buckets::OFFSET;
    const COUNTS: u32 = buckets::BUCKET_COUNTS;
    let all = all.into_iter().map(|buckets| (i64::from(buckets.sint32(OFFSET)), buckets.varints(COUNTS)));
    let all: Vec<(i64, Vec<u64>)> = all.filter(|(_, counts)| !counts.is_empty()).collect();
    let length = |counts: &[u64]| i64::try_from(counts.len()).unwrap_or(i64::MAX);
    let Some(start) = all.iter().map(|(offset, _)| *offset).min() else { return Ok(None) };
    let end = all.iter().map(|(offset, counts)| offset.saturating_add(length(counts))).max().unwrap_or(start);
    if end - start > MAX_BUCKETS {
        return Err(Failure::text("the buckets of exponential histograms lie too far apart to be merged"));
    }
    let mut sums = vec![0u64; usize::try_from(end - start).unwrap_or_default()];
    for (offset, counts) in all {
        let first = usize::try_from(offset - start).unwrap_or_default();
        sums.iter_mut().skip(first).zip(counts).for_each(|(sum, count)| *sum = sum.wrapping_add(count));
    }
    let mut out = weir_otlp::build::Encoder::default();
    if start != 0 {
        out.sint32(OFFSET, i32::try_from(start).unwrap_or_default());
    }
    let open = out.open(COUNTS, sums.len());
    sums.iter().for_each(|sum| out.element(*sum));
    out.close(open);
    Ok(Some(Scalar::Len(Cow::Owned(out.into_bytes()))))
}
