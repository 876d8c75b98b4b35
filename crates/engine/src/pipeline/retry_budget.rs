//! How many retries a backend is owed: a bound on what a struggling backend sees beside new data.
//!
//! This is a token bucket. Each first attempt puts [`RETRIES_PER_REQUEST`] tokens in, each request that the backend
//! takes puts as many in, time puts [`FLOOR_PER_SECOND`] in, and a retry takes one out. So in the long run
//!
//! > requests ≤ 5 × first attempts + 4 × requests taken + 2 per second.
//!
//! That is, a backend that takes nothing sees at most five times the rate at which new data is offered to it. A backend
//! that takes at least every fourth retry is never held back by its budget: it can be slow, but it is not drowning, and
//! `concurrency` decides how much it gets at once. Without the tokens for requests taken, a backend that has returned
//! would be paid its backlog at the rate of new data, or at two batches a second when there is none.
//!
//! It knows neither batches nor delays: `pace` decides when a batch is due.

use std::time::Duration;

use tokio::time::Instant;

/// Tokens for each first attempt, and for each request taken.
const RETRIES_PER_REQUEST: f64 = 4.0;
/// Tokens that come with time, so that a backend without new data is still probed.
const FLOOR_PER_SECOND: f64 = 2.0;
/// Tokens at most: what a backend that begins to fail after a calm time may see at once.
const CAPACITY: f64 = 128.0;

/// The retry budget of one backend.
#[derive(Debug)]
pub(super) struct RetryBudget {
    tokens: f64,
    counted: Instant,
}

/// What is left of a retry budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryFigures {
    /// Retries that may be made at once. Of the next one, a part may be there.
    pub left: f64,
    /// What these may come to.
    pub most: f64,
}

impl RetryFigures {
    /// Of a budget that time alone would fill in so much of it.
    pub(super) fn full_in(time: Duration) -> Self {
        Self { left: (CAPACITY - time.as_secs_f64() * FLOOR_PER_SECOND).max(0.0), most: CAPACITY }
    }
}

impl RetryBudget {
    /// A full budget.
    pub(super) fn new(now: Instant) -> Self {
        Self { tokens: CAPACITY, counted: now }
    }

    /// Something was sent for the first time.
    pub(super) fn first_attempt(&mut self, now: Instant) {
        self.deposit(RETRIES_PER_REQUEST, now);
    }

    /// The backend took a request, or said that it never will.
    pub(super) fn taken(&mut self, now: Instant) {
        self.deposit(RETRIES_PER_REQUEST, now);
    }

    /// Takes the token for a retry, if there is one.
    pub(super) fn try_retry(&mut self, now: Instant) -> bool {
        self.deposit(0.0, now);
        let enough = self.tokens >= 1.0;
        if enough {
            self.tokens -= 1.0;
        }
        enough
    }

    /// When there is the next token if only time brings one; `now` when there is one already.
    pub(super) fn next_token(&self, now: Instant) -> Instant {
        let missing = (1.0 - self.tokens_at(now)).max(0.0);
        // Rounded up: at that time the token is there.
        let wait = Duration::from_secs_f64(missing / FLOOR_PER_SECOND);
        if wait.is_zero() { now } else { now + wait + Duration::from_micros(1) }
    }

    /// When it is full if only time fills it. What there is at a later time follows from this alone.
    pub(super) fn full_at(&self) -> Instant {
        let missing = (CAPACITY - self.tokens).max(0.0);
        self.counted + Duration::from_secs_f64(missing / FLOOR_PER_SECOND)
    }

    fn deposit(&mut self, tokens: f64, now: Instant) {
        self.tokens = (self.tokens_at(now) + tokens).min(CAPACITY);
        self.counted = self.counted.max(now);
    }

    fn tokens_at(&self, now: Instant) -> f64 {
        let waited = now.saturating_duration_since(self.counted);
        self.tokens + waited.as_secs_f64() * FLOOR_PER_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Retries that the budget grants at once.
    fn spend(budget: &mut RetryBudget, now: Instant) -> u32 {
        (0..10_000).map_while(|_| budget.try_retry(now).then_some(1)).sum()
    }

    fn empty(now: Instant) -> RetryBudget {
        let mut budget = RetryBudget::new(now);
        spend(&mut budget, now);
        budget
    }

    #[test]
    fn a_backend_that_takes_nothing_sees_five_times_the_first_attempts() {
        let start = Instant::now();
        let mut budget = empty(start);
        let mut sent = 0;
        for tenth in 0..1000 {
            let now = start + SECOND / 10 * tenth;
            budget.first_attempt(now);
            sent += 1 + spend(&mut budget, now);
        }
        // 100 s: ten first attempts a second, four retries for each, and the floor.
        assert!((5190..=5200).contains(&sent), "{sent}");
    }

    #[test]
    fn probing_never_stops() {
        let mut now = Instant::now();
        let mut budget = empty(now);
        for _ in 0..100 {
            assert!(!budget.try_retry(now));
            let next = budget.next_token(now);
            assert!(next > now && next <= now + SECOND / 2 + Duration::from_micros(2));
            now = next;
            assert!(budget.try_retry(now), "the token is there when it was said to be");
        }
        let calm = RetryBudget::new(now);
        assert_eq!(calm.next_token(now), now);
    }

    #[test]
    fn what_is_left_grows_until_it_is_full() {
        let now = Instant::now();
        let mut budget = RetryBudget::new(now);
        (0..28).for_each(|_| assert!(budget.try_retry(now)));
        let left =
            |after: u32| RetryFigures::full_in(budget.full_at().saturating_duration_since(now + SECOND * after)).left;
        assert_eq!([0, 4, 14, 99].map(left), [100.0, 108.0, 128.0, 128.0]);
        spend(&mut budget, now);
        assert_eq!(RetryFigures::full_in(budget.full_at() - now).left, 0.0);
    }

    #[test]
    fn calm_does_not_save_up_for_a_storm() {
        let now = Instant::now();
        let mut budget = RetryBudget::new(now);
        (0..10_000).for_each(|_| budget.first_attempt(now));
        assert_eq!(spend(&mut budget, now + 3600 * SECOND), 128);
    }

    /// Tokens left after 10,000 retries without new data at a backend that takes one in `n`, and the retries made.
    fn retries_at_a_backend_that_takes_one_in(n: u32) -> u32 {
        let now = Instant::now();
        let mut budget = RetryBudget::new(now);
        let mut retries = 0;
        while retries < 10_000 && budget.try_retry(now) {
            retries += 1;
            if retries % n == 0 {
                budget.taken(now);
            }
        }
        retries
    }

    #[test]
    fn a_backend_that_takes_every_fourth_retry_is_not_held_back() {
        assert_eq!(retries_at_a_backend_that_takes_one_in(1), 10_000);
        assert_eq!(retries_at_a_backend_that_takes_one_in(4), 10_000);
        assert!(retries_at_a_backend_that_takes_one_in(8) < 300);
    }

    #[test]
    fn a_clock_that_was_read_earlier_brings_nothing() {
        let now = Instant::now() + SECOND;
        let mut budget = empty(now);
        budget.first_attempt(now - SECOND);
        assert_eq!(spend(&mut budget, now), 4);
    }
}
