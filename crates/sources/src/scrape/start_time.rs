//! When what is counted began, where no page says so: when it was first seen, and again each time it falls. Nothing begins
//! later than it is seen, whatever becomes of the clock.

/// The start time of a counter, a histogram or a summary.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StartTime<N> {
    /// The value of a counter, or the count of another point, on the last page.
    last: N,
    /// In nanoseconds since the epoch. 0: it was not seen yet.
    start: u64,
}

impl<N: Copy + PartialOrd> StartTime<N> {
    /// A page says when it began.
    pub(super) fn created(start: u64, value: N) -> Self {
        Self { last: value, start }
    }

    /// When it began, now that it has this value.
    #[inline]
    pub(super) fn observe(&mut self, value: N, time: u64) -> u64 {
        if self.start == 0 || value < self.last || time < self.start {
            self.start = time;
        }
        // Nothing is less than NaN, or more.
        if value.partial_cmp(&value).is_some() {
            self.last = value;
        }
        self.start
    }

    /// Whether it was seen before.
    pub(super) fn is_known(&self) -> bool {
        self.start != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_begins_anew() {
        let mut start = StartTime::default();
        let observed = [(5.0, 1), (5.0, 2), (7.0, 3), (6.0, 4), (f64::NAN, 5), (1.0, 6), (2.0, 3)];
        assert_eq!(observed.map(|(value, time)| start.observe(value, time)), [1, 1, 1, 4, 4, 6, 3]);
        let mut start = StartTime::created(9, 5_u64);
        assert_eq!([(5, 20), (4, 30)].map(|(value, time)| start.observe(value, time)), [9, 30]);
    }
}
