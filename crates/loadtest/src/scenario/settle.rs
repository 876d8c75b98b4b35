//! When a gateway can be expected to deliver nothing more after the load has ended.

use std::time::Duration;

use tokio::time::Instant;

use super::metrics::SelfView;

/// For a system that does not count what it holds, as long as this without an arrival, which is more than the longest
/// pause between two of its retries (30 s and half of that).
const QUIET: Duration = Duration::from_secs(50);
/// A gateway that just started, or hands something over at this moment, could say "nothing" once by chance.
const LOOKS: u32 = 2;

/// Watches for the end.
#[derive(Debug)]
pub(crate) struct Settling {
    empty_looks: u32,
    arrived: u64,
    last_arrival: Instant,
}

impl Settling {
    pub(crate) fn new(now: Instant) -> Self {
        Self { empty_looks: 0, arrived: 0, last_arrival: now }
    }

    /// Whether it holds nothing any more, by its own account (`None` when it gave none) and by what has `arrived` so
    /// far.
    pub(crate) fn is_over(&mut self, now: Instant, view: Option<&SelfView>, arrived: u64) -> bool {
        if arrived != self.arrived {
            self.arrived = arrived;
            self.last_arrival = now;
        }
        let Some(view) = view else { return false };
        let empty = match view.pending {
            Some(pending) => pending == 0.0,
            None => view.queue_size.unwrap_or(0.0) == 0.0 && now - self.last_arrival >= QUIET,
        };
        self.empty_looks = if empty { self.empty_looks + 1 } else { 0 };
        self.empty_looks >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weir_is_done_when_it_says_twice_that_it_holds_nothing() {
        let now = Instant::now();
        let mut settling = Settling::new(now);
        let view = |pending| SelfView { pending: Some(pending), ..SelfView::default() };
        let mut look = |view: Option<SelfView>| settling.is_over(now, view.as_ref(), 1);
        assert!(!look(Some(view(5.0))));
        assert!(!look(Some(view(0.0))));
        assert!(!look(Some(view(5.0))), "it was a moment between two");
        assert!(!look(Some(view(0.0))));
        assert!(!look(None), "no answer says nothing");
        assert!(look(Some(view(0.0))));
    }

    #[test]
    fn a_collector_is_done_when_its_queue_is_empty_and_nothing_arrives_for_long() {
        let start = Instant::now();
        let mut settling = Settling::new(start);
        let view = SelfView { queue_size: Some(0.0), ..SelfView::default() };
        let mut look = |second, arrived| settling.is_over(start + Duration::from_secs(second), Some(&view), arrived);
        assert!(!look(0, 10));
        assert!(!look(49, 10));
        assert!(!look(51, 11), "it was only waiting");
        assert!(!look(100, 11));
        assert!(!look(101, 11));
        assert!(look(102, 11));
    }
}
