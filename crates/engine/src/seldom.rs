//! Logs a lasting condition only now and then; the metrics count each time.

use std::time::Duration;

use tokio::time::Instant;

/// Time between two log lines.
const EVERY: Duration = Duration::from_secs(30);

/// Something that is worth a log line, but not each time.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    last: Option<Instant>,
}

impl Seldom {
    /// Whether it is worth a line now. If so, it is not worth another one for a while.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.last.is_none_or(|last| now.duration_since(last) >= EVERY);
        if due {
            self.last = Some(now);
        }
        due
    }
}
