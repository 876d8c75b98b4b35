//! How long lines are kept back because a stack trace may go on.

use std::time::{Duration, Instant};

use crate::tail::join::Spot;

/// A stack trace is complete when no more of it came for so long.
const QUIET: Duration = Duration::from_secs(1);

/// No line is kept back for longer, whatever comes.
const LONGEST: Duration = Duration::from_secs(10);

/// The lines that are kept back. Each turn reads them again, so only their beginning and times are remembered.
#[derive(Debug, Default)]
pub(in crate::tail) struct KeptBack(Option<Kept>);

#[derive(Debug)]
struct Kept {
    from: Spot,
    since: Instant,
    /// Lines of stack traces.
    lines: u64,
    changed: Instant,
}

impl KeptBack {
    /// How much longer the lines from `from` on are kept back; `lines` of them are of stack traces. `is_quiet`: no
    /// further output waits to be read.
    pub(in crate::tail) fn left(&mut self, from: Spot, lines: u64, is_quiet: bool) -> Duration {
        self.left_at(from, lines, is_quiet, Instant::now())
    }

    fn left_at(&mut self, from: Spot, lines: u64, is_quiet: bool, now: Instant) -> Duration {
        let kept = self.0.take().filter(|kept| kept.from == from);
        let mut kept = kept.unwrap_or(Kept { from, since: now, lines, changed: now });
        if kept.lines != lines || !is_quiet {
            (kept.lines, kept.changed) = (lines, now);
        }
        let left = |since: Instant, limit: Duration| limit.saturating_sub(now.saturating_duration_since(since));
        let left = left(kept.changed, QUIET).min(left(kept.since, LONGEST));
        self.0 = Some(kept);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_over_when_nothing_came_for_a_second_or_after_ten() {
        let (mut kept_back, start) = (KeptBack::default(), Instant::now());
        let from = |offset| Spot { file: 0, offset };
        let mut left = |offset, lines, ms: u64| {
            kept_back.left_at(from(offset), lines, ms.is_multiple_of(2), start + Duration::from_millis(ms))
        };
        assert_eq!(left(0, 1, 0), QUIET);
        assert_eq!(left(0, 1, 400), Duration::from_millis(600));
        assert_eq!(left(0, 2, 900), QUIET, "another line came");
        assert_eq!(left(0, 2, 1900), Duration::ZERO);
        assert_eq!(left(0, 2, 2000), Duration::ZERO, "for as long as it is not safe");
        assert_eq!(left(7, 2, 2000), QUIET, "another one");
        assert_eq!((3..=11).map(|second| left(7, second, second * 1000)).max(), Some(QUIET));
        assert_eq!(left(7, 12, 12_000), Duration::ZERO, "it goes on and on");
        assert_eq!((left(9, 1, 20_000), left(9, 1, 21_001)), (QUIET, QUIET), "the next file is there");
        assert_eq!(left(9, 1, 22_002), Duration::ZERO);
    }
}
