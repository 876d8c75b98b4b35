//! Who has what is taken of the memory for payloads.

/// Somebody who has some of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Clients: their connections, and what they have pushed, until the last pipeline is done with it.
    Clients,
    /// Sources in the same process: what they have collected, in the same way, and what they remember.
    Sources,
    /// Pipelines, beside that: what they read back, take apart or write anew to send what they have.
    Delivery,
    /// Whoever looks: taps, talkers, samples while they are made, and pages that their own part has no room for.
    Onlookers,
}

impl Holder {
    pub(crate) const ALL: [Self; 4] = [Self::Clients, Self::Sources, Self::Delivery, Self::Onlookers];

    /// In one word, for metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Sources => "sources",
            Self::Delivery => "delivery",
            Self::Onlookers => "onlookers",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Budget, Paid, Permit};
    use super::*;

    const CAPACITY: usize = 100_000;
    /// Of one payment.
    const MOST: usize = 20_000;

    /// What of a budget is taken, and by whom, as tests add it up.
    #[derive(Default)]
    struct Holdings {
        permits: Vec<(Holder, Permit)>,
        paid: Vec<(Holder, usize, Paid)>,
    }

    impl Holdings {
        fn of(&self, holder: Holder) -> usize {
            let permits = self.permits.iter().filter(|(of, _)| *of == holder).map(|(_, permit)| permit.bytes());
            let paid = self.paid.iter().filter(|(of, ..)| *of == holder).map(|(_, bytes, _)| bytes);
            permits.sum::<usize>() + paid.sum::<usize>()
        }

        /// One step of many: takes something, or changes or ends something that was taken.
        async fn step(&mut self, dice: &mut fastrand::Rng, budgets: &[Budget]) {
            if self.permits.is_empty() || dice.u8(..3) == 0 {
                let budget = &budgets[dice.usize(..budgets.len())];
                let taken = take(dice, budget).await;
                self.permits.extend(taken.map(|permit| (budget.holder, permit)));
            } else {
                self.change(dice).await;
            }
        }

        async fn change(&mut self, dice: &mut fastrand::Rng) {
            let (at, bytes) = (dice.usize(..self.permits.len()), dice.usize(..MOST));
            let (holder, permit) = (self.permits[at].0, &mut self.permits[at].1);
            match dice.u8(..8) {
                0 => _ = permit.grow(bytes),
                1 => _ = permit.grow_within(bytes, a_while(dice)).await,
                2 => permit.shrink_to(bytes),
                3 => permit.give_back(bytes),
                4 => {
                    let part = permit.part(bytes);
                    self.permits.extend(part.map(|part| (holder, part)));
                }
                5 => {
                    let paid = permit.pay(bytes);
                    self.paid.extend(paid.map(|paid| (holder, bytes, paid)));
                }
                6 => self.paid.truncate(self.paid.len() / 2),
                _ => drop(self.permits.swap_remove(at)),
            }
        }
    }

    fn bytes(budget: &Budget) -> [usize; 4] {
        budget.held().map(|(_, bytes)| bytes)
    }

    fn a_while(dice: &mut fastrand::Rng) -> Duration {
        Duration::from_millis(dice.u64(..20))
    }

    /// Nobody gives anything back meanwhile: whoever waits loses patience, or is cancelled.
    async fn take(dice: &mut fastrand::Rng, budget: &Budget) -> Option<Permit> {
        let bytes = dice.usize(..MOST);
        match dice.u8(..3) {
            0 => budget.try_take(bytes),
            1 => budget.take(bytes, a_while(dice)).await,
            _ => tokio::time::timeout(a_while(dice), budget.clone().take_in_turn(bytes)).await.ok().flatten(),
        }
    }

    /// After every step, each holder has what it took and did not give back, and together they have all that is used.
    #[tokio::test(start_paused = true)]
    async fn what_holders_have_is_what_is_used() {
        for seed in 0..50 {
            let mut dice = fastrand::Rng::with_seed(seed);
            let whole = Budget::new(CAPACITY);
            let all = Holder::ALL.map(|holder| whole.held_by(holder));
            // Each part has less than the whole, and together they have more.
            let parts = all.clone().map(|budget| budget.within(CAPACITY / 3));
            let (budgets, mut holdings) = ([all, parts].concat(), Holdings::default());
            for step in 0..300 {
                holdings.step(&mut dice, &budgets).await;
                let expected = Holder::ALL.map(|holder| (holder, holdings.of(holder)));
                assert_eq!(whole.held(), expected, "seed {seed}, step {step}");
                let sum: usize = expected.iter().map(|(_, bytes)| bytes).sum();
                assert_eq!(whole.used(), sum, "seed {seed}, step {step}");
            }
            drop(holdings);
            assert_eq!((whole.used(), bytes(&whole)), (0, [0; 4]));
        }
    }

    /// What is gathered for somebody who waits is taken from the others, and is not the holder's before it is enough.
    #[tokio::test(start_paused = true)]
    async fn what_is_gathered_for_those_who_wait_is_nobodys_yet() {
        let whole = Budget::new(CAPACITY);
        let first = whole.try_take(70_000).unwrap();
        let waits = tokio::spawn({
            let sources = whole.held_by(Holder::Sources);
            async move { sources.take(60_000, Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(whole.used(), CAPACITY, "all that was free is gathered");
        assert_eq!(bytes(&whole), [71_024, 0, 0, 0]);
        drop(first);
        let second = waits.await.unwrap();
        assert_eq!((whole.used(), bytes(&whole)), (61_024, [0, 61_024, 0, 0]));
        drop(second);
        assert_eq!(bytes(&whole), [0; 4]);
    }
}
