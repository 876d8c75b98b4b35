//! How the requests to a backend ended, to be shown: nothing is decided by it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::unix_nanos;
use crate::export::{Outcome, RetryKind};

/// How a request to a backend ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All of it was taken.
    Delivered,
    /// It was taken but for some items (OTLP partial success).
    PartlyRejected,
    /// The backend asked to try again.
    TryAgain,
    /// The backend refused it.
    Refused,
    /// There was no answer in time.
    Silent,
    /// There was no connection.
    Unreachable,
    /// It never left: no memory, no token.
    Unsent,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Delivered,
        Self::PartlyRejected,
        Self::TryAgain,
        Self::Refused,
        Self::Silent,
        Self::Unreachable,
        Self::Unsent,
    ];

    /// As metrics and pages call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::PartlyRejected => "partly_rejected",
            Self::TryAgain => "try_again",
            Self::Refused => "refused",
            Self::Silent => "silent",
            Self::Unreachable => "unreachable",
            Self::Unsent => "unsent",
        }
    }

    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Delivered { rejected: 0, .. } => Self::Delivered,
            Outcome::Delivered { .. } => Self::PartlyRejected,
            Outcome::Retry { kind: RetryKind::Answered, .. } => Self::TryAgain,
            Outcome::Retry { kind: RetryKind::Silent, .. } => Self::Silent,
            Outcome::Retry { kind: RetryKind::Unreachable, .. } => Self::Unreachable,
            Outcome::Retry { kind: RetryKind::Ours, .. } => Self::Unsent,
            Outcome::Refused(_) => Self::Refused,
        }
    }
}

/// How many requests ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnswerFigures {
    counts: [u64; Ending::ALL.len()],
    /// When the backend last took a request, in milliseconds since the Unix epoch; 0 if never.
    pub last_taken_unix_ms: u64,
}

impl AnswerFigures {
    /// Requests that ended so.
    pub fn of(&self, ending: Ending) -> u64 {
        self.counts[ending as usize]
    }
}

/// Counts since the pipeline began.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    counts: [AtomicU64; Ending::ALL.len()],
    last_taken_unix_ms: AtomicU64,
}

impl Answers {
    pub(super) fn count(&self, outcome: &Outcome) {
        let ending = Ending::of(outcome);
        self.counts[ending as usize].fetch_add(1, Ordering::Relaxed);
        if matches!(ending, Ending::Delivered | Ending::PartlyRejected) {
            self.last_taken_unix_ms.store(unix_nanos() / 1_000_000, Ordering::Relaxed);
        }
    }

    pub(crate) fn figures(&self) -> AnswerFigures {
        let counts = Ending::ALL.map(|ending| self.counts[ending as usize].load(Ordering::Relaxed));
        AnswerFigures { counts, last_taken_unix_ms: self.last_taken_unix_ms.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_ends_in_one_way() {
        let answers = Answers::default();
        for (index, ending) in Ending::ALL.into_iter().enumerate() {
            assert_eq!(ending as usize, index);
        }
        answers.count(&Outcome::retry("busy"));
        assert_eq!(answers.figures().last_taken_unix_ms, 0);
        answers.count(&Outcome::Delivered { rejected: 0, message: String::new() });
        answers.count(&Outcome::Delivered { rejected: 1, message: String::new() });
        let figures = answers.figures();
        assert_eq!([Ending::TryAgain, Ending::Delivered, Ending::PartlyRejected].map(|of| figures.of(of)), [1; 3]);
        assert!(figures.last_taken_unix_ms > 0 && figures.of(Ending::Refused) == 0);
    }
}
