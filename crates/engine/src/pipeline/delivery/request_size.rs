//! How large a request may be: what the backend's answers teach about it.

use std::time::Duration;

use tokio::time::Instant;

/// A backend is never offered less than this at once, whatever it says: so small a request is not refused for its size.
const MIN_BYTES: usize = 16 * 1024;

/// What was learned is tried again after this long: a limit may have been raised, or it was that of a proxy that is gone.
const RELEARN_AFTER: Duration = Duration::from_secs(600);

/// The largest request that a backend is offered, in uncompressed bytes.
#[derive(Debug)]
pub(super) struct RequestSize {
    /// As configured.
    most: usize,
    bytes: usize,
    learned_at: Option<Instant>,
    /// The largest request that was taken, unless something speaks against it by now.
    taken: usize,
}

impl RequestSize {
    /// Allows `most` bytes, until the backend finds that too large.
    pub(super) fn new(most: usize) -> Self {
        Self { most, bytes: most, learned_at: None, taken: 0 }
    }

    /// Another limit is configured; what the backend has taught stays.
    pub(super) fn adjust(&mut self, most: usize) {
        self.bytes = if self.learned_at.is_some() { self.bytes.min(most) } else { most };
        self.most = most;
    }

    /// The largest request to send.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A request of `bytes` was refused for its size. False when that is nothing new, or cannot be true because one as
    /// large was taken.
    pub(super) fn refused(&mut self, bytes: usize, now: Instant) -> bool {
        if bytes <= self.taken {
            // The second time it counts: the limit may be lower than it was.
            self.taken = bytes.saturating_sub(1);
            return false;
        }
        let learned = (bytes / 2).max(MIN_BYTES);
        let is_news = learned < self.bytes;
        if is_news {
            self.bytes = learned;
            self.learned_at = Some(now);
        }
        is_news
    }

    /// Whether a request of `bytes` may be too large, as far as is known.
    pub(super) fn may_be_too_large(&self, bytes: usize) -> bool {
        bytes > self.taken
    }

    /// A request of `bytes` was taken. True when larger ones are to be tried from now on.
    pub(super) fn taken(&mut self, bytes: usize, now: Instant) -> bool {
        self.taken = self.taken.max(bytes);
        let is_due = self.learned_at.is_some_and(|at| now.duration_since(at) >= RELEARN_AFTER);
        // Only a backend that is offered as much as was learned shows that it might take more.
        if !is_due || bytes <= self.bytes / 2 {
            return false;
        }
        self.bytes = (self.bytes * 2).min(self.most);
        self.learned_at = (self.bytes < self.most).then_some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_shrinks_at_refusals_and_is_tried_again_later() {
        let (start, most) = (Instant::now(), 4 << 20);
        let mut size = RequestSize::new(most);
        assert!(size.refused(3 << 20, start) && size.bytes() == 3 << 19);
        assert!(!size.refused(3 << 20, start), "it was sent before that was known");
        assert!(!size.taken(1 << 20, start));
        size.adjust(1 << 20);
        assert_eq!(size.bytes(), 1 << 20);
        size.adjust(most);
        assert!(size.taken(1 << 20, start + RELEARN_AFTER) && size.bytes() == 2 << 20);
        assert!(!size.taken(2 << 20, start + RELEARN_AFTER), "one step at a time");
        assert!(size.taken(2 << 20, start + 2 * RELEARN_AFTER) && size.bytes() == most);
        assert!(!size.taken(most, start + 9 * RELEARN_AFTER));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_taken_is_not_too_large() {
        let (now, mut size) = (Instant::now(), RequestSize::new(4 << 20));
        size.taken(1 << 20, now);
        assert!(!size.may_be_too_large(1 << 20) && size.may_be_too_large(2 << 20));
        assert!(!size.refused(1 << 20, now) && size.bytes() == 4 << 20);
        assert!(size.refused(1 << 20, now) && size.bytes() == 1 << 19, "said twice, it is so");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_makes_it_tiny() {
        let (now, mut size) = (Instant::now(), RequestSize::new(4 << 20));
        (0..40).for_each(|step| _ = size.refused((4 << 20) >> step, now));
        assert_eq!(size.bytes(), MIN_BYTES);
    }
}
