//! How a run went over time: `series.json`, and the plots of the report.

use std::collections::BTreeMap;

use serde::Serialize;

use super::readings::Readings;
use crate::sink::SinkReport;
use crate::timeline::Interval;

/// Figures by the seconds since the measured time began, until everything had settled.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Course {
    /// When the load ended.
    pub(crate) load_ends: f64,
    /// From when to when all backends were away.
    pub(crate) away: Option<(f64, f64)>,
    /// By the clients' count; of agents, by their own.
    pub(crate) accepted_per_s: Points,
    /// By the sinks' count, summed.
    pub(crate) delivered_per_s: Points,
    /// Of the slowest sink in each second.
    pub(crate) latency_ms_p50: Points,
    /// See `latency_ms_p50`.
    pub(crate) latency_ms_p99: Points,
    pub(crate) memory_mb: Points,
    pub(crate) cpu_cores: Points,
    /// Items that the system said it held.
    pub(crate) pending: Points,
    pub(crate) disk_mb: Points,
}

/// Points by time.
pub(crate) type Points = Vec<(f64, f64)>;

/// When a run was measured, in seconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Window {
    pub(crate) began: f64,
    pub(crate) ended: f64,
}

const MIB: f64 = 1_048_576.0;

impl Course {
    /// From what clients saw acknowledged, if there were any, what sinks saw arrive, and readings in between.
    pub(crate) fn of<'a>(
        window: Window,
        readings: &Readings,
        acknowledged: Option<&[Interval]>,
        sinks: impl Iterator<Item = &'a SinkReport> + Clone,
    ) -> Self {
        let origin = window.began;
        let tracks = &readings.tracks;
        let arrived = || sinks.clone().flat_map(|sink| &sink.timeline);
        let in_mib = |points: Points| points.into_iter().map(|(at, bytes)| (at, bytes / MIB)).collect();
        Self {
            load_ends: window.ended - origin,
            away: None,
            accepted_per_s: acknowledged
                .map_or_else(|| tracks.accepted.rate_since(origin), |intervals| per_second(intervals.iter(), window)),
            delivered_per_s: per_second(arrived(), window),
            latency_ms_p50: slowest(arrived(), origin, |interval| interval.p50),
            latency_ms_p99: slowest(arrived(), origin, |interval| interval.p99),
            memory_mb: in_mib(tracks.memory_bytes.since(origin)),
            cpu_cores: tracks.cpu_seconds.rate_since(origin),
            pending: tracks.held.since(origin),
            disk_mb: in_mib(tracks.disk_bytes.since(origin)),
        }
    }
}

/// Items of each second from the window's begin to the last one in which there were any.
#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
fn per_second<'a>(intervals: impl Iterator<Item = &'a Interval>, window: Window) -> Points {
    let mut by_second: BTreeMap<u64, f64> = BTreeMap::new();
    for interval in intervals {
        let each = interval.items as f64 / interval.seconds.max(1) as f64;
        for second in interval.at..interval.at + interval.seconds.max(1) {
            *by_second.entry(second).or_default() += each;
        }
    }
    let Some((&last, _)) = by_second.last_key_value() else { return Vec::new() };
    let first = first_second(window.began);
    // A second in which the load ended, and everything with it, has fewer items and not a lower rate.
    let is_cut = last as f64 <= window.ended && window.ended < (last + 1) as f64 && last > first + 1;
    let whole = if is_cut { last - 1 } else { last };
    let items = |at: &u64| by_second.get(at).copied().unwrap_or(0.0);
    (first..=whole).map(|at| (middle(at, window.began), items(&at))).collect()
}

fn slowest<'a>(
    intervals: impl Iterator<Item = &'a Interval>,
    origin: f64,
    latency: fn(&Interval) -> Option<f64>,
) -> Points {
    let mut by_second: BTreeMap<u64, f64> = BTreeMap::new();
    for interval in intervals.filter(|interval| interval.at >= first_second(origin)) {
        if let Some(millis) = latency(interval) {
            let worst = by_second.entry(interval.at).or_default();
            *worst = worst.max(millis);
        }
    }
    by_second.into_iter().map(|(at, millis)| (middle(at, origin), millis)).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds since the epoch are positive")]
fn first_second(origin: f64) -> u64 {
    origin.ceil() as u64
}

#[expect(clippy::cast_precision_loss, reason = "seconds since the epoch are far below 2^53")]
fn middle(second: u64, origin: f64) -> f64 {
    second as f64 + 0.5 - origin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(at: u64, seconds: u64, items: u64, p99: f64) -> Interval {
        Interval { at, seconds, items, p50: None, p99: Some(p99) }
    }

    #[test]
    fn sinks_are_summed_and_seconds_without_arrivals_are_zero() {
        let sink = |timeline: &[Interval]| SinkReport { timeline: timeline.to_vec(), ..SinkReport::default() };
        let sinks = [
            sink(&[interval(99, 1, 7, 1.0), interval(101, 1, 10, 2.0), interval(103, 1, 5, 9.0)]),
            sink(&[interval(100, 2, 8, 4.0)]),
        ];
        let window = Window { began: 100.0, ended: 102.0 };
        let course = Course::of(window, &Readings::default(), None, sinks.iter());
        assert_eq!(
            course.delivered_per_s,
            [(0.5, 4.0), (1.5, 14.0), (2.5, 0.0), (3.5, 5.0)],
            "the warm-up is not there"
        );
        assert_eq!(course.latency_ms_p99, [(0.5, 4.0), (1.5, 2.0), (3.5, 9.0)]);
        assert_eq!((course.load_ends, course.latency_ms_p50), (2.0, Vec::new()));
    }

    #[test]
    fn clients_count_what_was_accepted() {
        let acknowledged = [interval(10, 1, 3, 0.0)];
        let window = Window { began: 9.5, ended: 12.0 };
        let course = Course::of(window, &Readings::default(), Some(&acknowledged), std::iter::empty());
        assert_eq!(course.accepted_per_s, [(1.0, 3.0)]);
        let acknowledged = [10, 11, 12, 13].map(|at| interval(at, 1, 3, 0.0));
        let window = Window { began: 10.0, ended: 13.2 };
        let course = Course::of(window, &Readings::default(), Some(&acknowledged), std::iter::empty());
        assert_eq!(course.accepted_per_s.len(), 3, "of the last second there was a fifth");
    }
}
