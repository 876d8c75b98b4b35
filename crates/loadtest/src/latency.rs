//! Latencies in nanoseconds, reported in milliseconds.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Records latencies up to an hour with three significant digits.
#[derive(Debug, Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

/// Longest latency told apart from a longer one: one hour.
const LONGEST_NANOS: u64 = 3_600_000_000_000;

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NANOS, 3).expect("the bounds are constants and valid");
        Self { histogram }
    }
}

impl Latencies {
    /// Records `count` observations of the same latency.
    pub fn record(&mut self, nanos: u64, count: u64) {
        self.histogram.saturating_record_n(nanos.max(1), count);
    }

    /// Adds what `other` recorded.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both histograms have the same bounds");
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.histogram.reset();
    }

    /// The percentiles.
    pub fn summary(&self) -> LatencySummary {
        let at = |percentile: f64| millis(self.histogram.value_at_percentile(percentile));
        if self.histogram.is_empty() {
            return LatencySummary::default();
        }
        LatencySummary {
            count: self.histogram.len(),
            mean: self.histogram.mean() / 1e6,
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p999: at(99.9),
            max: millis(self.histogram.max()),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 nanoseconds")]
fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Percentiles of a set of latencies in milliseconds; all zero when there were none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Number of observations.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest observation.
    pub max: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_in_milliseconds() {
        let mut latencies = Latencies::default();
        for value in 1..=1000_u64 {
            latencies.record(value * 1_000_000, 1);
        }
        let summary = latencies.summary();
        assert_eq!(summary.count, 1000);
        assert!((summary.p50 - 500.0).abs() < 1.0, "{summary:?}");
        assert!((summary.p99 - 990.0).abs() < 2.0, "{summary:?}");
        assert!((summary.max - 1000.0).abs() < 2.0, "{summary:?}");
    }

    #[test]
    fn out_of_range_values_saturate_and_an_empty_set_is_zero() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.summary(), LatencySummary::default());
        latencies.record(u64::MAX, 2);
        latencies.record(0, 1);
        assert_eq!(latencies.summary().count, 3);
    }
}
