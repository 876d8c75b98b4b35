//! Histograms: what of them is subtracted, and when it cannot be.

use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{ExponentialHistogramDataPoint, HistogramDataPoint};

use crate::model::{converted_to, converter, exponential, histogram};

/// A histogram that began at 101.
fn explicit(time: u64, counts: &[u64], bounds: &[f64]) -> HistogramDataPoint {
    let count: u64 = counts.iter().sum();
    HistogramDataPoint {
        start_time_unix_nano: 101,
        time_unix_nano: time,
        count,
        sum: Some(count as f64),
        bucket_counts: counts.to_vec(),
        explicit_bounds: bounds.to_vec(),
        min: Some(0.5),
        max: Some(1.5),
        ..HistogramDataPoint::default()
    }
}

fn histograms(points: &[(HistogramDataPoint, &str)]) {
    let mut converter = converter();
    for (point, expected) in points {
        assert_eq!(converted_to(&mut converter, &histogram(point.clone()), point.time_unix_nano), *expected);
    }
}

#[test]
fn counts_and_sum_are_subtracted_bucket_by_bucket() {
    histograms(&[
        (explicit(110, &[1, 2], &[1.0]), "101..110 +3 sum 3 [1, 2] at [1.0]"),
        (explicit(120, &[1, 5], &[1.0]), "110..120 +3 sum 3 [0, 3] at [1.0]"),
        (explicit(130, &[1, 5], &[1.0]), "120..130 +0 sum 0 [0, 0] at [1.0]"),
    ]);
}

#[test]
fn a_histogram_without_bounds_has_a_count_and_a_sum() {
    let count = |time, count| HistogramDataPoint { count, sum: Some(1.0), ..explicit(time, &[], &[]) };
    histograms(&[(count(110, 3), "101..110 +3 sum 1 [] at []"), (count(120, 5), "110..120 +2 sum 0 [] at []")]);
}

#[test]
fn a_sum_that_one_of_two_points_has_is_of_no_use() {
    let with_sum = |time, sum| HistogramDataPoint { sum, ..explicit(time, &[time], &[]) };
    histograms(&[
        (with_sum(110, Some(1.0)), "101..110 +110 sum 1 [110] at []"),
        (with_sum(120, None), "110..120 +10 [10] at []"),
        (with_sum(130, Some(2.0)), "120..130 +10 [10] at []"),
        (with_sum(140, Some(f64::NAN)), "130..140 +10 [10] at []"),
        // The sum may go down: values can be negative.
        (with_sum(150, Some(5.0)), "140..150 +10 [10] at []"),
        (with_sum(160, Some(4.0)), "150..160 +10 sum -1 [10] at []"),
    ]);
}

#[test]
fn buckets_that_do_not_fit_their_bounds_are_subtracted_all_the_same() {
    histograms(&[
        (explicit(110, &[1, 2, 3], &[1.0]), "101..110 +6 sum 6 [1, 2, 3] at [1.0]"),
        (explicit(120, &[1, 2, 4], &[1.0]), "110..120 +1 sum 1 [0, 0, 1] at [1.0]"),
    ]);
}

#[test]
fn histograms_with_other_buckets_have_no_difference() {
    histograms(&[
        (explicit(110, &[1, 2], &[1.0]), "101..110 +3 sum 3 [1, 2] at [1.0]"),
        (explicit(120, &[1, 3], &[2.0]), "mismatched"),
        (explicit(130, &[1, 3, 0], &[2.0]), "mismatched"),
        (explicit(140, &[1, 3, 2], &[2.0]), "130..140 +2 sum 2 [0, 0, 2] at [2.0]"),
        (explicit(150, &[0, 5, 2], &[2.0]), "mismatched"),
        (explicit(160, &[0, 1, 2], &[2.0]), "reset"),
        (explicit(170, &[0, 2, 2], &[2.0]), "160..170 +1 sum 1 [0, 1, 0] at [2.0]"),
    ]);
}

/// What one exponential histogram has counted.
struct Shape {
    scale: i32,
    zero: u64,
    threshold: f64,
    positive: (i32, &'static [u64]),
    negative: (i32, &'static [u64]),
}

const EMPTY: Shape = Shape { scale: 0, zero: 0, threshold: 0.0, positive: (0, &[]), negative: (0, &[]) };

/// Two points of a series, and the delta that the second one is.
fn second(first: Shape, second: Shape) -> String {
    let mut converter = converter();
    converted_to(&mut converter, &exponential(point(110, &first)), 110);
    converted_to(&mut converter, &exponential(point(120, &second)), 120)
}

fn point(time: u64, shape: &Shape) -> ExponentialHistogramDataPoint {
    let buckets = |(offset, counts): (i32, &[u64])| {
        (!counts.is_empty()).then(|| Buckets { offset, bucket_counts: counts.to_vec() })
    };
    let counts = shape.positive.1.iter().chain(shape.negative.1);
    ExponentialHistogramDataPoint {
        start_time_unix_nano: 101,
        time_unix_nano: time,
        count: counts.sum::<u64>() + shape.zero,
        scale: shape.scale,
        zero_count: shape.zero,
        zero_threshold: shape.threshold,
        positive: buckets(shape.positive),
        negative: buckets(shape.negative),
        min: Some(0.0),
        max: Some(9.0),
        ..ExponentialHistogramDataPoint::default()
    }
}

#[test]
fn the_first_point_of_a_new_series_is_whole() {
    let shape = Shape { scale: 3, zero: 1, threshold: 0.25, positive: (-2, &[1, 0, 4]), negative: (7, &[2]) };
    assert_eq!(
        converted_to(&mut converter(), &exponential(point(110, &shape)), 110),
        "101..110 +8 scale 3 zero 1 within 0.25 positive -2[1, 0, 4] negative 7[2]"
    );
}

#[test]
fn buckets_are_subtracted_by_index() {
    assert_eq!(
        second(
            Shape { zero: 1, positive: (2, &[0, 3, 1]), negative: (0, &[1]), ..EMPTY },
            Shape { zero: 4, positive: (1, &[2, 0, 3, 6, 0, 1]), negative: (-1, &[1, 1]), ..EMPTY },
        ),
        "110..120 +12 scale 0 zero 3 within 0 positive 1[2, 0, 0, 5, 0, 1] negative -1[1]"
    );
}

#[test]
fn nothing_new_has_no_buckets() {
    let shape = || Shape { positive: (2, &[3, 1]), ..EMPTY };
    assert_eq!(second(shape(), shape()), "110..120 +0 scale 0 zero 0 within 0");
}

#[test]
fn the_finer_of_two_scales_is_lowered() {
    // Indexes -3..=2 at scale 2 are -1, -1, -1, 0, 0, 0 at scale 0.
    let fine = || Shape { scale: 2, positive: (-3, &[1, 2, 3, 4, 5, 6]), ..EMPTY };
    let coarse = |counts| Shape { positive: (-1, counts), ..EMPTY };
    assert_eq!(second(fine(), coarse(&[6, 18])), "110..120 +3 scale 0 zero 0 within 0 positive 0[3]");
    assert_eq!(second(coarse(&[6, 14]), fine()), "110..120 +1 scale 0 zero 0 within 0 positive 0[1]");
}

#[test]
fn the_narrower_of_two_zeros_is_widened() {
    // At scale 0, index -2 holds values up to 0.5, and -1 up to 1.
    let narrow = || Shape { zero: 1, threshold: 0.25, positive: (-2, &[2, 3]), negative: (-2, &[4]), ..EMPTY };
    let wide = |zero, counts| Shape { zero, threshold: 0.5, positive: (-1, counts), ..EMPTY };
    assert_eq!(second(narrow(), wide(8, &[5])), "110..120 +3 scale 0 zero 1 within 0.5 positive -1[2]");
    assert_eq!(second(wide(7, &[2]), narrow()), "110..120 +1 scale 0 zero 0 within 0.5 positive -1[1]");
}

#[test]
fn the_zero_is_widened_at_the_scale_it_was_counted_at() {
    // At scale 1, index -2 holds values up to sqrt(0.5), and -1 up to 1.
    let fine = Shape { scale: 1, positive: (-2, &[1, 10]), ..EMPTY };
    let coarse = Shape { zero: 1, threshold: 0.5f64.sqrt(), positive: (-1, &[11]), ..EMPTY };
    assert_eq!(second(fine, coarse), "110..120 +1 scale 0 zero 0 within 0.7071067811865476 positive -1[1]");
}

#[test]
fn buckets_that_went_down_have_no_difference() {
    let full = || Shape { positive: (0, &[3, 1]), ..EMPTY };
    assert_eq!(second(full(), Shape { positive: (0, &[2, 9]), ..EMPTY }), "mismatched");
    assert_eq!(second(full(), Shape { positive: (1, &[9]), ..EMPTY }), "mismatched");
    assert_eq!(second(full(), Shape { positive: (0, &[9]), ..EMPTY }), "mismatched");
    assert_eq!(second(Shape { zero: 3, ..full() }, Shape { zero: 2, positive: (0, &[9, 9]), ..EMPTY }), "mismatched");
    assert_eq!(second(full(), Shape { positive: (0, &[2, 1]), ..EMPTY }), "reset");
}

#[test]
fn the_ends_of_scale_and_offset_are_no_danger() {
    for first in [i32::MIN, -1, 0, i32::MAX] {
        for last in [i32::MIN, -1, 0, i32::MAX] {
            for threshold in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, 1e300] {
                let shape = |scale, offset| Shape {
                    scale,
                    positive: (offset, &[1, 1]),
                    negative: (offset, &[0, 0, 1]),
                    ..EMPTY
                };
                second(shape(first, last), Shape { zero: 2, threshold, ..shape(last, first) });
                second(Shape { threshold, ..shape(first, first) }, shape(last, last));
            }
        }
    }
}
