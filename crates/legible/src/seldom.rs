//! Logs a lasting condition only now and then; the metrics count each time.

use std::time::{Duration, Instant};

/// Time between two log lines.
const EVERY: Duration = Duration::from_secs(30);

/// Something that is worth a log line, but not each time.
#[derive(Debug, Default)]
pub struct Seldom {
    last: Option<Instant>,
    /// How often it was not worth a line since then.
    left_out: u64,
}

impl Seldom {
    /// Nothing was said yet.
    pub const fn new() -> Self {
        Self { last: None, left_out: 0 }
    }

    /// Whether it is worth a line now; if so, how often it happened without one since the last. It is not worth another
    /// one for a while then.
    pub fn due(&mut self, now: impl Into<Instant>) -> Option<u64> {
        let now = now.into();
        if self.last.is_some_and(|last| now.duration_since(last) < EVERY) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LEGIBLE-4, LEGIBLE-5.
    #[test]
    fn a_line_says_how_often_there_was_none() {
        let (mut seldom, now) = (Seldom::default(), Instant::now());
        let due: Vec<_> = [0, 1, 29, 30, 31, 61].map(|second| seldom.due(now + Duration::from_secs(second))).into();
        assert_eq!(due, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
