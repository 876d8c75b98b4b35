//! A latency histogram that costs two atomic additions per observation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in seconds; one more bucket takes the rest.
pub(crate) const BOUNDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// A copy of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistogramFigures {
    /// Sum of all that was observed, in seconds.
    pub sum: f64,
    /// Upper bound in seconds of each bucket, the last one infinite, and how many observations are in it alone.
    pub buckets: [(f64, u64); BOUNDS.len() + 1],
}

impl HistogramFigures {
    /// How much was observed.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

/// Counts per bucket and the sum of what was observed.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_micros: AtomicU64,
}

impl Histogram {
    /// Counts a time.
    pub fn observe(&self, value: Duration) {
        let seconds = value.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(value.as_micros()).unwrap_or(u64::MAX);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Everything as it is now.
    pub fn figures(&self) -> HistogramFigures {
        let bounds = |bucket: usize| BOUNDS.get(bucket).copied().unwrap_or(f64::INFINITY);
        let count = |bucket: usize| self.buckets[bucket].load(Ordering::Relaxed);
        HistogramFigures {
            sum: Duration::from_micros(self.sum_micros.load(Ordering::Relaxed)).as_secs_f64(),
            buckets: std::array::from_fn(|bucket| (bounds(bucket), count(bucket))),
        }
    }
}
