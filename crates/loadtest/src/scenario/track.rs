//! A value over time, however long, in a bounded number of points.

use crate::runtime::unix_nanos;
use crate::timeline::MOST_INTERVALS;

/// Points by the seconds since the Unix epoch: as the sinks and the generator have them, which are other processes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Track {
    points: Vec<(f64, f64)>,
    /// Of so many values one is kept.
    stride: usize,
    skipped: usize,
}

impl Track {
    /// A value now.
    pub(crate) fn push(&mut self, value: f64) {
        self.push_at(seconds_now(), value);
    }

    fn push_at(&mut self, at: f64, value: f64) {
        if self.skipped + 1 < self.stride {
            self.skipped += 1;
            return;
        }
        self.skipped = 0;
        self.points.push((at, value));
        if self.points.len() >= MOST_INTERVALS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride = self.stride.max(1) * 2;
        }
    }

    /// The points from `origin` on, which is 0.
    pub(crate) fn since(&self, origin: f64) -> Vec<(f64, f64)> {
        self.points.iter().filter(|(at, _)| *at >= origin).map(|&(at, value)| (at - origin, value)).collect()
    }

    /// By how much a counter rose each second: between points that are a second apart at least, since a counter of CPU time
    /// has coarse steps. A counter that falls belongs to a new process.
    pub(crate) fn rate_since(&self, origin: f64) -> Vec<(f64, f64)> {
        let points = self.since(origin);
        let Some((&first, rest)) = points.split_first() else { return Vec::new() };
        let mut last = first;
        let mut rates = Vec::new();
        for &(at, value) in rest {
            if value < last.1 {
                last = (at, value);
            } else if at - last.0 >= SHORTEST_STEP {
                rates.push(((at + last.0) / 2.0, (value - last.1) / (at - last.0)));
                last = (at, value);
            }
        }
        rates
    }
}

/// A second, but for the timer.
const SHORTEST_STEP: f64 = 0.9;

/// Seconds since the Unix epoch.
#[expect(clippy::cast_precision_loss, reason = "microseconds of this century have 53 bits")]
pub(crate) fn seconds_now() -> f64 {
    unix_nanos() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_keeps_its_first_and_its_latest_points() {
        let mut track = Track::default();
        for second in 0..20_000 {
            track.push_at(f64::from(second), f64::from(second));
        }
        let points = track.since(0.0);
        assert!(points.len() < MOST_INTERVALS && points.len() > MOST_INTERVALS / 3, "{}", points.len());
        assert_eq!(points[0], (0.0, 0.0));
        assert!(points.last().is_some_and(|point| point.0 > 19_900.0));
        assert!(points.windows(2).all(|pair| pair[1].0 > pair[0].0));
    }

    #[test]
    fn a_rate_is_what_a_counter_rose_and_a_restart_is_none() {
        let mut track = Track::default();
        for (at, value) in [(0.0, 0.0), (0.5, 1.0), (1.0, 3.0), (2.0, 4.0), (3.0, 0.0), (4.0, 7.0)] {
            track.push_at(at, value);
        }
        assert_eq!(track.rate_since(0.0), [(0.5, 3.0), (1.5, 1.0), (3.5, 7.0)]);
        assert_eq!(track.rate_since(2.0), [(1.5, 7.0)]);
    }
}
