//! Logs how something is that may come and go all the time: each of its first changes, then how it is now and then.

use std::time::{Duration, Instant};

/// So many changes have a line in a period.
const MOST: u32 = 4;

/// Something of which each change is worth a line, unless there are many.
#[derive(Debug, Default)]
pub struct Unsteady {
    /// When the first line of this period was written.
    began: Option<Instant>,
    said: u32,
    /// Changes since the last line.
    waiting: u64,
}

impl Unsteady {
    /// It has changed.
    pub fn changes(&mut self) {
        self.waiting += 1;
    }

    /// Whether it is worth a line now how it is; if so, how many changes before the last one had none. Ask again later:
    /// a change that has no line has one when the period is over.
    pub fn due(&mut self, period: Duration, now: impl Into<Instant>) -> Option<u64> {
        let now = now.into();
        if self.began.is_some_and(|began| now.duration_since(began) >= period) {
            (self.began, self.said) = (None, 0);
        }
        if self.waiting == 0 || self.said == MOST {
            return None;
        }
        self.began.get_or_insert(now);
        self.said += 1;
        Some(std::mem::take(&mut self.waiting) - 1)
    }

    /// As [`Self::due`], however many lines there were: it is worse than any of them said.
    pub fn due_at_once(&mut self, now: impl Into<Instant>) -> Option<u64> {
        let left_out = self.waiting.checked_sub(1)?;
        self.began.get_or_insert(now.into());
        self.waiting = 0;
        Some(left_out)
    }

    /// Whether it is like one that has never changed.
    pub fn is_calm(&self) -> bool {
        self.began.is_none() && self.waiting == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// LEGIBLE-4, LEGIBLE-5.
    #[test]
    fn what_comes_and_goes_has_a_few_lines_that_say_how_many_there_were_not() {
        let (mut unsteady, now) = (Unsteady::default(), Instant::now());
        let changes = (0..=14_u32).map(|minute| {
            unsteady.changes();
            unsteady.due(10 * MINUTE, now + minute * MINUTE)
        });
        let told: Vec<_> = changes.enumerate().filter_map(|(minute, due)| Some((minute, due?))).collect();
        assert_eq!(told, [(0, 0), (1, 0), (2, 0), (3, 0), (10, 6), (11, 0), (12, 0), (13, 0)]);
    }

    #[test]
    fn what_is_worse_is_said_at_once() {
        let (mut unsteady, now) = (Unsteady::default(), Instant::now());
        for _ in 0..6 {
            unsteady.changes();
            unsteady.due(MINUTE, now);
        }
        assert_eq!(unsteady.due_at_once(now), Some(1));
        assert_eq!(unsteady.due_at_once(now), None, "nothing has changed");
    }

    #[test]
    fn the_last_of_many_changes_has_a_line_when_the_period_is_over() {
        let (mut unsteady, now) = (Unsteady::default(), Instant::now());
        for _ in 0..6 {
            unsteady.changes();
            unsteady.due(MINUTE, now);
        }
        assert_eq!(unsteady.due(MINUTE, now + MINUTE / 2), None);
        assert_eq!(unsteady.due(MINUTE, now + MINUTE), Some(1));
        assert!(!unsteady.is_calm());
        assert_eq!(unsteady.due(MINUTE, now + 2 * MINUTE), None, "nothing has changed");
        assert!(unsteady.is_calm());
    }
}
