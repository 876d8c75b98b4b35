//! Whether a backend takes small requests where it refuses large ones. If so, the backend is well: it refuses something
//! in the large ones, and the data beside that only shares its fate. In small requests such data passes.
//!
//! A backend that fails at random, or that is asked too often, refuses small requests just as often as large ones. One
//! that fails for a while refuses all sizes at that time, so only answers of the same time are compared: counting begins
//! with a refusal, and what was counted when the backend took nothing hardly counts afterwards.
//!
//! This is pure arithmetic over answers and times that it is handed.

use std::time::Duration;

use tokio::time::Instant;

/// After this long, an answer counts half.
const HALF_LIFE: Duration = Duration::from_secs(30);
/// How much more of the small ones must be taken ...
const CLEARLY: f64 = 0.2;
/// ... and how many standard deviations that must be from chance.
const DEVIATIONS: f64 = 3.0;
/// Refusals of an outage that count when it is over.
const OF_OUTAGE: f64 = 4.0;
/// While requests are kept small, one in so many is not: the large ones may pass by now.
const TRY_LARGE: u32 = 16;
/// Requests are told apart by how often their number of items can be halved.
const CLASSES: usize = 24;

/// The requests that a backend answered lately, by size.
#[derive(Debug, Default)]
pub(super) struct PassRates {
    classes: [Tally; CLASSES],
    /// Requests count that left after so many others; `None` while nothing is refused.
    after: Option<u64>,
    counted: Option<Instant>,
    /// Requests that were kept small since the last that was not.
    kept_small: u32,
}

/// Answers, of which old ones count less.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    taken: f64,
    refused: f64,
}

impl Tally {
    fn all(self) -> f64 {
        self.taken + self.refused
    }

    fn rate(self) -> f64 {
        self.taken / self.all()
    }

    fn sum(tallies: &[Self]) -> Self {
        tallies.iter().fold(Self::default(), |sum, tally| Self {
            taken: sum.taken + tally.taken,
            refused: sum.refused + tally.refused,
        })
    }

    /// Whether more of these are taken than of `others`, and that is no chance.
    fn is_clearly_better_than(self, others: Self) -> bool {
        if self.all() < 0.5 || others.all() < 0.5 {
            return false;
        }
        let both = Self::sum(&[self, others]).rate();
        let deviation = (both * (1.0 - both) * (1.0 / self.all() + 1.0 / others.all())).sqrt();
        self.rate() - others.rate() >= CLEARLY.max(DEVIATIONS * deviation)
    }
}

impl PassRates {
    /// Request `number` with so many items, which were not sent before, was taken or not. `left` requests have left.
    pub(super) fn observe(&mut self, number: u64, items: u64, taken: bool, left: u64, now: Instant) {
        self.age(now);
        if !taken {
            self.after.get_or_insert(left);
        }
        if self.after.is_none_or(|after| number <= after && taken) {
            return;
        }
        let tally = &mut self.classes[class(items)];
        let side = if taken { &mut tally.taken } else { &mut tally.refused };
        *side += 1.0;
    }

    /// The backend takes something again after an outage.
    pub(super) fn recovered(&mut self) {
        let refused: f64 = self.classes.iter().map(|tally| tally.refused).sum();
        let part = (OF_OUTAGE / refused).min(1.0);
        self.classes.iter_mut().for_each(|tally| tally.refused *= part);
    }

    fn age(&mut self, now: Instant) {
        let past = self.counted.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.counted = Some(now);
        let left = (-past.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2();
        for tally in &mut self.classes {
            tally.taken *= left;
            tally.refused *= left;
        }
        if self.classes.iter().map(|tally| tally.refused).sum::<f64>() < 0.5 {
            *self = Self { counted: self.counted, ..Self::default() };
        }
    }

    /// How often a request is sent before it is taken, by what became of those that were sent for the first time.
    pub(super) fn attempts_per_success(&mut self, now: Instant) -> f64 {
        self.age(now);
        let all = Tally::sum(&self.classes);
        // One more is thought to be taken: a few answers say little.
        (all.all() + 1.0) / (all.taken + 1.0)
    }

    /// Whether smaller requests are taken where those of this size, or larger ones, are not.
    pub(super) fn smaller_pass(&mut self, items: u64, now: Instant) -> bool {
        self.age(now);
        self.is_better_below(class(items))
    }

    /// Whether size makes a difference, so that what is refused is refused for what is in it.
    pub(super) fn is_of_data(&mut self, now: Instant) -> bool {
        self.age(now);
        (1..CLASSES).any(|class| self.is_better_below(class))
    }

    /// How many items the next request may have so that it is of a size that passes; `None` when size makes no
    /// difference, and when it is time to see whether it still does.
    pub(super) fn most_items(&mut self, now: Instant) -> Option<u64> {
        self.age(now);
        let first = (1..CLASSES).find(|class| self.is_better_below(*class))?;
        self.kept_small = (self.kept_small + 1) % TRY_LARGE;
        (self.kept_small > 0).then_some((1 << first) - 1)
    }

    fn is_better_below(&self, class: usize) -> bool {
        let (below, others) = self.classes.split_at(class);
        Tally::sum(below).is_clearly_better_than(Tally::sum(others))
    }
}

fn class(items: u64) -> usize {
    usize::try_from(items.max(1).ilog2()).map_or(CLASSES - 1, |class| class.min(CLASSES - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTAGE: u64 = 24;

    /// Requests of these many items, each of which is refused with this chance or, if `of_items`, for each item.
    fn rates(chance: f64, of_items: bool, sizes: &[u64]) -> PassRates {
        let (mut rates, now, mut number) = (PassRates::default(), Instant::now(), 0);
        for at in 0..40 {
            for items in sizes {
                let tries = if of_items { *items } else { 1 };
                let taken = (0..tries).all(|_| fastrand::f64() >= chance);
                number += 1;
                rates.observe(number, *items, taken, number, now + Duration::from_millis(100) * at);
            }
        }
        rates
    }

    #[test]
    fn items_that_are_refused_are_told_from_a_backend_that_refuses() {
        fastrand::seed(7);
        let now = Instant::now();
        for chance in [0.02, 0.1, 0.3] {
            let mut rates = rates(chance, true, &[1, 400]);
            assert!(rates.smaller_pass(400, now) && !rates.smaller_pass(1, now), "{chance}: {rates:?}");
            let most: Vec<Option<u64>> = (0..TRY_LARGE).map(|_| rates.most_items(now)).collect();
            assert!(most.iter().flatten().all(|most| *most < 400), "{chance}: {most:?}");
            assert_eq!(most.iter().filter(|most| most.is_none()).count(), 1, "{chance}: {most:?}");
        }
        let mistaken =
            |chance| (0..200).filter(|_| rates(chance, false, &[1, 5, 50, 400]).smaller_pass(400, now)).count();
        let mistaken = [0.0, 0.3, 0.7, 0.95].map(mistaken);
        assert!(mistaken.iter().all(|times| *times <= 3), "{mistaken:?} of 200");
    }

    /// However much small data passed before, and whatever passes first afterwards.
    #[test]
    fn an_outage_says_nothing_about_sizes() {
        let (mut rates, now) = (PassRates::default(), Instant::now());
        (1..=1000).for_each(|number| rates.observe(number, 5, true, number, now));
        for number in 1001..=1000 + OUTAGE {
            rates.observe(number, 400, false, number, now);
            assert!(!rates.smaller_pass(400, now));
        }
        rates.recovered();
        rates.observe(1100, 5, true, 1100, now);
        assert!(!rates.smaller_pass(400, now), "large ones may pass as well");
        let refused = (1101..1110).find(|number| {
            rates.observe(*number, 400, false, *number, now);
            rates.smaller_pass(400, now)
        });
        assert!(refused.is_some_and(|number| number < 1106), "they do not: {refused:?}");
        assert!(rates.smaller_pass(8, now) && !rates.smaller_pass(7, now));
        assert_eq!(rates.most_items(now), Some(7));
        rates.observe(1111, 1, true, 1111, now + 10 * HALF_LIFE);
        assert_eq!(rates.most_items(now + 10 * HALF_LIFE), None);
    }
}
