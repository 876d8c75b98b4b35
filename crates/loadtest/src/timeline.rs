//! What happened second by second, however long it lasts in a bounded number of intervals.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Most intervals that are kept: an hour of seconds. A longer time has wider ones.
pub(crate) const MOST_INTERVALS: usize = 3600;

/// Longest latency told apart from a longer one: one hour.
const LONGEST_NANOS: u64 = 3_600_000_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// What happened in an interval. Those in which nothing happened are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// When it began, in seconds since the Unix epoch.
    pub at: u64,
    /// How long it is.
    pub seconds: u64,
    /// Items counted in it.
    pub items: u64,
    /// Median and 99th percentile of the latencies in milliseconds; none where none was recorded. Of intervals that were
    /// joined it is the worse one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// See `p50`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

/// Counts items and latencies by the second.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// Width of an interval in seconds.
    width: u64,
    done: Vec<Interval>,
    current: Option<Interval>,
    /// Of the current interval.
    latencies: Histogram<u64>,
}

impl Default for Timeline {
    fn default() -> Self {
        // Two digits are enough for a plot, and quick to clear.
        let latencies = Histogram::new_with_bounds(1, LONGEST_NANOS, 2).expect("the bounds are constants and valid");
        Self { width: 1, done: Vec::new(), current: None, latencies }
    }
}

impl Timeline {
    /// Counts items at `now`, in nanoseconds since the Unix epoch. A clock that was set back counts for the current interval.
    pub(crate) fn record(&mut self, now: u64, items: u64) {
        let at = now / NANOS_PER_SECOND / self.width * self.width;
        if self.current.is_none_or(|current| at >= current.at + current.seconds) {
            self.finish();
            self.current = Some(Interval { at, seconds: self.width, ..Interval::default() });
        }
        if let Some(current) = &mut self.current {
            current.items += items;
        }
    }

    /// Adds a latency to the interval of the items that were counted last.
    pub(crate) fn record_latency(&mut self, nanos: u64) {
        self.latencies.saturating_record(nanos.max(1));
    }

    /// All intervals so far, in order.
    pub(crate) fn intervals(&self) -> Vec<Interval> {
        self.done.iter().copied().chain(self.measured()).collect()
    }

    /// The current interval, with its latencies.
    #[expect(clippy::cast_precision_loss, reason = "latencies are far below 2^53 nanoseconds")]
    fn measured(&self) -> Option<Interval> {
        let at = |percentile: f64| {
            (!self.latencies.is_empty()).then(|| self.latencies.value_at_percentile(percentile) as f64 / 1e6)
        };
        self.current.map(|current| Interval { p50: at(50.0), p99: at(99.0), ..current })
    }

    fn finish(&mut self) {
        self.done.extend(self.measured());
        self.current = None;
        self.latencies.reset();
        if self.done.len() >= MOST_INTERVALS {
            self.width *= 2;
            self.done = joined(&self.done, self.width);
        }
    }
}

/// The same in intervals of `width` seconds.
fn joined(intervals: &[Interval], width: u64) -> Vec<Interval> {
    let start = |interval: &Interval| interval.at / width * width;
    let worse = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
    let join = |group: &[Interval]| {
        let first = Interval { at: start(&group[0]), seconds: width, ..Interval::default() };
        group.iter().fold(first, |sum, next| Interval {
            items: sum.items + next.items,
            p50: worse(sum.p50, next.p50),
            p99: worse(sum.p99, next.p99),
            ..sum
        })
    };
    intervals.chunk_by(|a, b| start(a) == start(b)).map(join).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: u64) -> u64 {
        at * NANOS_PER_SECOND + 5
    }

    #[test]
    fn items_and_latencies_belong_to_their_second() {
        let mut timeline = Timeline::default();
        for (at, items, latency) in [(100, 1, 1_000_000), (100, 2, 3_000_000), (102, 4, 9_000_000)] {
            timeline.record(second(at), items);
            timeline.record_latency(latency);
        }
        let intervals = timeline.intervals();
        let seen: Vec<_> = intervals.iter().map(|interval| (interval.at, interval.items)).collect();
        assert_eq!(seen, [(100, 3), (102, 4)]);
        let [first, last] = [0, 1].map(|index: usize| intervals[index].p99.unwrap());
        assert!((first - 3.0).abs() < 0.1 && (last - 9.0).abs() < 0.2, "{intervals:?}");
        timeline.record(second(99), 1);
        assert_eq!(timeline.intervals()[1].items, 5, "the clock was set back");
    }

    #[test]
    fn a_long_time_has_wider_intervals_and_loses_no_item() {
        let mut timeline = Timeline::default();
        let seconds = 10_000;
        for at in 0..seconds {
            timeline.record(second(at), 1);
            timeline.record_latency(if at == 1 { 50_000_000 } else { 1_000_000 });
        }
        let intervals = timeline.intervals();
        assert!(intervals.len() <= MOST_INTERVALS && intervals.len() > MOST_INTERVALS / 2, "{}", intervals.len());
        assert_eq!(intervals.iter().map(|interval| interval.items).sum::<u64>(), seconds);
        assert!(intervals[0].p99 > Some(45.0), "the worse of both stays: {:?}", intervals[0]);
        assert!(intervals.windows(2).all(|pair| pair[0].at + pair[0].seconds == pair[1].at));
    }
}
