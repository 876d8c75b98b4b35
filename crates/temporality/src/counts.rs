//! What became of the data points of a request, by reason. Plain numbers: whoever keeps books adds them up.

use crate::value::{Change, Value};

/// Data points of one request, and series forgotten while it was converted. Every point is in exactly one of
/// `converted`, `passed` and `dropped` (DELTA-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Now deltas.
    pub converted: u64,
    /// Sent on as they came.
    pub passed: Passed,
    /// Left out of the converted request.
    pub dropped: Dropped,
    /// Series that are no longer remembered.
    pub forgotten: Forgotten,
}

/// Data points sent on as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passed {
    /// Of gauges.
    pub gauge: u64,
    /// Of summaries, which have no temporality.
    pub summary: u64,
    /// With delta temporality already.
    pub delta: u64,
    /// Without a temporality.
    pub unspecified: u64,
    /// Sums that may go down. No backend takes these as deltas.
    pub non_monotonic: u64,
    /// Sums whose value is infinite or not a number, so that there is no difference to it.
    pub not_finite: u64,
}

/// Data points left out. What is in them is lost only where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// First of a series that may have been delivered before: the next one is counted from here.
    pub first: u64,
    /// As old as the last point of the series; the next one includes it.
    pub duplicate: u64,
    /// Older than the last point of the series; the next one includes it.
    pub out_of_order: u64,
    /// Lower than the last point of the series, with the same start time: the next one is counted from here, and
    /// what was added before this one is lost.
    pub reset: u64,
    /// Buckets that do not go with those of the last point: the next one is counted from here, and what was added
    /// before this one is lost.
    pub mismatched: u64,
    /// Without a value, or flagged as having none. The series goes on when it has one again.
    pub no_value: u64,
}

/// Series no longer remembered: their next point is a first one again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forgotten {
    /// Not seen for longer than `Limits::max_staleness`.
    pub stale: u64,
    /// Least recently seen when `Limits::max_bytes` was reached.
    pub memory: u64,
    /// Deltas of refused requests that were owed and will not be delivered, because their series was forgotten or its
    /// buckets have changed.
    pub owed: u64,
}

impl Counts {
    /// Adds the counts of another request.
    pub fn add(&mut self, other: &Self) {
        let Self { converted, passed, dropped, forgotten } = self;
        *converted += other.converted;
        passed.add(&other.passed);
        dropped.add(&other.dropped);
        forgotten.add(&other.forgotten);
    }

    /// Counts a point of a known series as converted or dropped, by how it differs from the one before.
    pub(crate) fn changed(&mut self, change: Change) -> Option<Value> {
        let count = match change {
            Change::Delta(delta) => {
                self.converted += 1;
                return Some(delta);
            }
            Change::Reset => &mut self.dropped.reset,
            Change::Mismatch => &mut self.dropped.mismatched,
        };
        *count += 1;
        None
    }
}

impl Passed {
    fn add(&mut self, other: &Self) {
        let Self { gauge, summary, delta, unspecified, non_monotonic, not_finite } = self;
        *gauge += other.gauge;
        *summary += other.summary;
        *delta += other.delta;
        *unspecified += other.unspecified;
        *non_monotonic += other.non_monotonic;
        *not_finite += other.not_finite;
    }

    /// The counts with a name for each reason.
    pub fn by_reason(&self) -> [(&'static str, u64); 6] {
        let Self { gauge, summary, delta, unspecified, non_monotonic, not_finite } = *self;
        [
            ("gauge", gauge),
            ("summary", summary),
            ("delta", delta),
            ("unspecified", unspecified),
            ("non_monotonic", non_monotonic),
            ("not_finite", not_finite),
        ]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }
}

impl Forgotten {
    /// Adds what was forgotten at another time.
    pub fn add(&mut self, other: &Self) {
        let Self { stale, memory, owed } = self;
        *stale += other.stale;
        *memory += other.memory;
        *owed += other.owed;
    }
}

impl Dropped {
    fn add(&mut self, other: &Self) {
        let Self { first, duplicate, out_of_order, reset, mismatched, no_value } = self;
        *first += other.first;
        *duplicate += other.duplicate;
        *out_of_order += other.out_of_order;
        *reset += other.reset;
        *mismatched += other.mismatched;
        *no_value += other.no_value;
    }

    /// The counts with a name for each reason.
    pub fn by_reason(&self) -> [(&'static str, u64); 6] {
        let Self { first, duplicate, out_of_order, reset, mismatched, no_value } = *self;
        [
            ("first", first),
            ("duplicate", duplicate),
            ("out_of_order", out_of_order),
            ("reset", reset),
            ("mismatched", mismatched),
            ("no_value", no_value),
        ]
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }
}
