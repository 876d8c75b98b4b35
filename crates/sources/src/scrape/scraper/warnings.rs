//! How much the log says of targets: thousands of them may fail at once, for one reason.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So many messages are written in a [`PERIOD`]; the others are counted.
const MOST: u32 = 50;

const PERIOD: Duration = Duration::from_secs(60);

/// Counts messages about targets.
#[derive(Debug, Default)]
pub(super) struct Warnings(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// When the first message of this period was written.
    began: Option<Instant>,
    said: u32,
    unsaid: u64,
}

impl Warnings {
    /// Whether a message may be written. If not, it is counted.
    pub(super) fn may_say(&self) -> bool {
        let mut counts = self.counts();
        if counts.began.is_none_or(|began| began.elapsed() >= PERIOD) {
            (counts.began, counts.said) = (Some(Instant::now()), 0);
        }
        if counts.said < MOST {
            counts.said += 1;
            return true;
        }
        counts.unsaid += 1;
        false
    }

    /// How many messages were not written, at the end of the period. Says it once.
    pub(super) fn unsaid(&self) -> Option<u64> {
        let mut counts = self.counts();
        let is_over = counts.began.is_none_or(|began| began.elapsed() >= PERIOD);
        (is_over && counts.unsaid > 0).then(|| mem::take(&mut counts.unsaid))
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_too_much_is_counted_and_said_once() {
        let warnings = Warnings::default();
        assert_eq!((0..80).filter(|_| warnings.may_say()).count(), 50);
        assert_eq!(warnings.unsaid(), None, "there may be more");
        advance(PERIOD).await;
        assert_eq!([warnings.unsaid(), warnings.unsaid()], [Some(30), None]);
        assert!(warnings.may_say());
    }
}
