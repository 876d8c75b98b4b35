//! How large a request to a backend may be: what is configured, and what the backend's answers teach about it. Requests
//! are cut by it, pieces joined by it, and entries of the journal written by it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A backend is never offered less than this at once, whatever it says: so small a request is not refused for its size.
const MIN_BYTES: usize = 16 * 1024;

/// What was learned is tried again after this long: a limit may have been raised, or it was that of a proxy that is gone.
const RELEARN_AFTER: Duration = Duration::from_secs(600);

/// The largest request that a pipeline's backend is offered, in uncompressed bytes.
#[derive(Debug)]
pub(crate) struct RequestSize(Mutex<Known>);

/// The present limits.
#[derive(Debug)]
struct Known {
    /// As configured.
    most: usize,
    bytes: usize,
    learned_at: Option<Instant>,
    /// The largest request that was taken, unless something speaks against it by now.
    taken: usize,
}

impl RequestSize {
    /// Allows `most` bytes, until the backend finds that too large.
    pub(crate) fn new(most: usize) -> Self {
        Self(Mutex::new(Known { most, bytes: most, learned_at: None, taken: 0 }))
    }

    /// Another limit is configured; what the backend has taught stays.
    pub(crate) fn adjust(&self, most: usize) {
        let mut known = self.lock();
        known.bytes = if known.learned_at.is_some() { known.bytes.min(most) } else { most };
        known.most = most;
    }

    /// Another backend has taught nothing yet.
    pub(crate) fn forget(&self) {
        let mut known = self.lock();
        *known = Known { most: known.most, bytes: known.most, learned_at: None, taken: 0 };
    }

    /// The largest request to send.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// The largest request to send to a backend that has taught nothing.
    pub(crate) fn configured(&self) -> usize {
        self.lock().most
    }

    /// A request of `bytes` was refused for its size. Returns the new limit; `None` when that is nothing new, or cannot be
    /// true because one as large was taken.
    pub(crate) fn refused(&self, bytes: usize, now: Instant) -> Option<usize> {
        let mut known = self.lock();
        if bytes <= known.taken {
            // It counts from the second time on, because the limit may be lower than it was.
            known.taken = bytes.saturating_sub(1);
            return None;
        }
        let learned = (bytes / 2).max(MIN_BYTES);
        if learned >= known.bytes {
            return None;
        }
        (known.bytes, known.learned_at) = (learned, Some(now));
        Some(learned)
    }

    /// Whether a request of `bytes` may be too large, as far as is known.
    pub(crate) fn may_be_too_large(&self, bytes: usize) -> bool {
        bytes > self.lock().taken
    }

    /// A request of `bytes` was taken: it may be time to try larger ones.
    pub(crate) fn taken(&self, bytes: usize, now: Instant) {
        let mut known = self.lock();
        known.taken = known.taken.max(bytes);
        let is_due = known.learned_at.is_some_and(|at| now.duration_since(at) >= RELEARN_AFTER);
        // Only a backend that is offered as much as was learned can show that it takes more.
        if is_due && bytes > known.bytes / 2 {
            known.bytes = (known.bytes * 2).min(known.most);
            known.learned_at = (known.bytes < known.most).then_some(now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_shrinks_at_refusals_and_is_tried_again_later() {
        let (start, most) = (Instant::now(), 4 << 20);
        let size = RequestSize::new(most);
        let after_taking = |bytes, at| {
            size.taken(bytes, at);
            size.bytes()
        };
        assert_eq!((size.refused(3 << 20, start), size.bytes()), (Some(3 << 19), 3 << 19));
        assert_eq!(size.refused(3 << 20, start), None, "it was sent before that was known");
        assert_eq!(after_taking(1 << 20, start), 3 << 19);
        size.adjust(1 << 20);
        assert_eq!((size.bytes(), size.configured()), (1 << 20, 1 << 20));
        size.adjust(most);
        assert_eq!(after_taking(1 << 20, start + RELEARN_AFTER), 2 << 20);
        assert_eq!(after_taking(2 << 20, start + RELEARN_AFTER), 2 << 20, "one step at a time");
        assert_eq!(after_taking(2 << 20, start + 2 * RELEARN_AFTER), most);
        assert_eq!(after_taking(most, start + 9 * RELEARN_AFTER), most);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_taken_is_not_too_large() {
        let (now, size) = (Instant::now(), RequestSize::new(4 << 20));
        size.taken(1 << 20, now);
        assert!(!size.may_be_too_large(1 << 20) && size.may_be_too_large(2 << 20));
        assert_eq!((size.refused(1 << 20, now), size.bytes()), (None, 4 << 20));
        assert_eq!(size.refused(1 << 20, now), Some(1 << 19), "said twice, it is so");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_makes_it_tiny() {
        let (now, size) = (Instant::now(), RequestSize::new(4 << 20));
        (0..40).for_each(|step| _ = size.refused((4 << 20) >> step, now));
        assert_eq!(size.bytes(), MIN_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn another_backend_has_taught_nothing() {
        let (now, size) = (Instant::now(), RequestSize::new(4 << 20));
        size.taken(1 << 20, now);
        size.refused(3 << 20, now);
        size.forget();
        assert!(size.bytes() == 4 << 20 && size.may_be_too_large(1));
    }
}
