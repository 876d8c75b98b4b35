//! A latency histogram that costs two atomic additions per observation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

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

    /// What was observed since the histogram was as `before`.
    fn since(&self, before: &Self) -> Self {
        let mut grown = *self;
        grown.sum = (self.sum - before.sum).max(0.0);
        for ((_, count), (_, old)) in grown.buckets.iter_mut().zip(before.buckets) {
            *count = count.saturating_sub(old);
        }
        grown
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

/// Lately is so long at least, and twice that at most while somebody looks every second.
const LATELY: Duration = Duration::from_secs(30);

/// Latencies since the start, and lately.
#[derive(Debug)]
pub(crate) struct Latencies {
    all: Histogram,
    marks: Mutex<Marks>,
}

/// What the histogram was at two times. Lately is since the earlier one.
#[derive(Debug)]
struct Marks {
    earlier: HistogramFigures,
    later: HistogramFigures,
    /// When the later one was.
    at: Instant,
}

impl Latencies {
    pub(crate) fn new(now: Instant) -> Self {
        let all = Histogram::default();
        let none = all.figures();
        Self { all, marks: Mutex::new(Marks { earlier: none, later: none, at: now }) }
    }

    /// Counts a time.
    pub(crate) fn observe(&self, value: Duration, now: Instant) {
        // Before it is counted: it is part of what comes after the marks.
        drop(self.marks(now));
        self.all.observe(value);
    }

    /// Everything since the start, and lately.
    pub(crate) fn figures(&self, now: Instant) -> (HistogramFigures, HistogramFigures) {
        let marks = self.marks(now);
        let all = self.all.figures();
        (all, all.since(&marks.earlier))
    }

    /// The marks, moved on when it is time.
    fn marks(&self, now: Instant) -> MutexGuard<'_, Marks> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let past = now.saturating_duration_since(marks.at);
        if past >= LATELY {
            let all = self.all.figures();
            // What came after the later mark came soon after it: anything else would have moved the marks on.
            marks.earlier = if past < 2 * LATELY { marks.later } else { all };
            marks.later = all;
            marks.at = now;
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lately_is_forgotten_and_the_rest_is_not() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let latencies = Latencies::new(start);
        let counts = |seconds| {
            let (all, lately) = latencies.figures(at(seconds));
            (all.count(), lately.count())
        };
        latencies.observe(Duration::from_secs(2), at(1));
        latencies.observe(Duration::from_millis(2), at(29));
        assert_eq!(counts(29), (2, 2));
        assert_eq!(counts(31), (2, 2), "half a minute is lately");
        latencies.observe(Duration::from_millis(3), at(40));
        assert_eq!(counts(60), (3, 3));
        assert_eq!(counts(62), (3, 1), "the first two are more than half a minute old");
        let (all, lately) = latencies.figures(at(62));
        assert_eq!(lately.buckets.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(), [&(0.005, 1)]);
        assert!((all.sum - 2.005).abs() < 1e-6 && (lately.sum - 0.003).abs() < 1e-6, "{all:?} {lately:?}");
        assert_eq!(counts(500), (3, 0), "nobody looked meanwhile");
        latencies.observe(Duration::from_millis(3), at(1000));
        assert_eq!(counts(1001), (4, 1), "what came before the pause was not lately");
    }
}
