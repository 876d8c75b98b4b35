//! What to do with a batch that a backend refused: wait, take it apart to find the items at fault, or give it up.
//!
//! This is pure planning: it owns no batch and splits none. One rule stands above all others: **nothing is given up
//! unless the backend takes something else.** A tenant that does not exist, a missing header, or a proxy that is being
//! deployed makes a backend refuse everything, in whatever words. Then nothing is known about any item, and everything
//! waits. A batch that is refused again is *proven* to be the cause if in between the backend took other data, and that
//! data left after the earlier refusal: data that left before it may have met a backend that was still well. Such a
//! second refusal is a *proof*. While the backend refuses something against which there is no proof, it is in *doubt*.
//!
//! Time is counted in requests: each that leaves has the next number.
//!
//! How many proofs it takes follows from what the answer speaks of (decision 012):
//!
//! | answer | taken apart after | an item that is refused alone is given up after |
//! |---|---|---|
//! | about the data | the first | [`CLEAR`] proofs, of which its batch may have given some, and as many refusals alone |
//! | about the size | the first | the same, if it is larger than what was taken |
//! | unclear | many | many of its own in such words |
//! | about access, or "try again" | many | never |
//!
//! When a batch was taken apart after many proofs, its parts are taken apart after [`CLEAR`] proofs. That costs
//! requests but no item, and frees the neighbours of the item at fault.
//!
//! *Many* is so many that a backend that fails at random, as often as this one does, hardly ever gets there.

use crate::export::About;

/// How many proofs it takes against an item whose refusal is about the data, and how many refusals of it alone.
const CLEAR: u32 = 2;
/// How many proofs it takes against a batch at a backend that never fails otherwise, when its answer does not say what
/// it is about ...
const MANY: f64 = 8.0;
/// ... and at a backend that fails as often as is counted: 24 times before each success.
const MOST: u32 = 200;

/// What the refusals of a batch have shown so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Suspicion {
    /// How many requests had left when it was last refused.
    left_before: Option<u64>,
    proofs: u32,
    /// How many of the proofs were in words that may be about an item.
    blames: u32,
    /// It, or the batch that it is a part of, was taken apart after many proofs.
    shown: bool,
    /// How often it was refused when it could not be taken apart any more.
    alone: u32,
    /// The refusals were about the data or the size. Refusals of another kind that came before prove nothing about
    /// these.
    clear: bool,
    /// It gave a proof itself; other proofs are of a batch that it was part of.
    own: bool,
}

/// The requests to one backend so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traffic {
    /// How many have left.
    pub(super) left: u64,
    /// The number of the latest request of which the backend took something; 0 when there is none.
    pub(super) taken: u64,
    /// How many had left when the backend last refused something against which there is no proof.
    doubted: u64,
}

impl Traffic {
    /// Another one leaves; its number.
    pub(super) fn leaves(&mut self) -> u64 {
        self.left += 1;
        self.left
    }

    /// Request number `number` was taken.
    pub(super) fn takes(&mut self, number: u64) {
        self.taken = self.taken.max(number);
    }

    /// Something was refused against which there is no proof.
    pub(super) fn doubt(&mut self) {
        self.doubted = self.left;
    }

    /// Whether nothing was taken that left since then.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubted > 0 && self.taken <= self.doubted
    }
}

/// What a refusal is judged by, besides what is known of the batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence {
    /// What the answer is about; `None` when the backend asked to try again.
    pub(super) about: Option<About>,
    pub(super) can_be_split: bool,
    /// [`Traffic::is_in_doubt`].
    pub(super) doubt: bool,
    /// How often the backend usually fails before it takes something.
    pub(super) usual_streak: f64,
}

/// What happens to a refused batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is sent again later, as it is.
    Wait,
    /// It is sent again in two halves.
    Halve,
    /// It is given up.
    Reject,
}

impl Suspicion {
    /// The backend refused the batch with an answer that is `about` something.
    pub(super) fn refused(&mut self, about: Option<About>, traffic: Traffic) {
        if self.clear != is_clear(about) {
            *self = Self { clear: is_clear(about), ..Self::default() };
        }
        if self.left_before.is_some_and(|before| traffic.taken > before) {
            self.proofs = self.proofs.saturating_add(1);
            self.blames = self.blames.saturating_add(u32::from(may_blame(about)));
            self.own = true;
        }
        self.left_before = Some(traffic.left);
    }

    /// Whether something speaks against the batch.
    pub(super) fn is_grounded(&self) -> bool {
        self.own
    }

    /// What to do after a refusal.
    pub(super) fn step(&mut self, evidence: Evidence) -> Step {
        let Evidence { about, can_be_split, doubt, usual_streak } = evidence;
        if can_be_split {
            self.shown |= self.is_shown(usual_streak);
            let is_enough = is_clear(about) || (self.shown && self.proofs >= CLEAR);
            return if is_enough { Step::Halve } else { Step::Wait };
        }
        self.alone = self.alone.saturating_add(1);
        let is_to_blame = match about {
            Some(About::Data | About::Size) => self.proofs >= CLEAR && self.alone >= CLEAR && !doubt,
            Some(About::Unclear) => self.blames.min(self.alone) >= many(usual_streak) && !doubt,
            Some(About::Access) | None => false,
        };
        if is_to_blame { Step::Reject } else { Step::Wait }
    }

    /// What is known of the parts of a batch that is taken apart.
    pub(super) fn of_parts(&self) -> Self {
        // One of two parts fails easily by chance alone, so what was shown of the whole says little about them.
        let proofs = if self.clear { self.proofs } else { 0 };
        // Blames count if the words turn out to be unclear.
        Self { proofs, blames: 0, alone: 0, own: false, ..*self }
    }

    /// Whether there is so much proof against the batch that there is no hurry to send it again.
    pub(super) fn is_shown(&self, usual_streak: f64) -> bool {
        self.proofs >= many(usual_streak)
    }
}

fn is_clear(about: Option<About>) -> bool {
    matches!(about, Some(About::Data | About::Size))
}

fn may_blame(about: Option<About>) -> bool {
    matches!(about, Some(About::Data | About::Size | About::Unclear))
}

/// A backend that fails `usual_streak` times on average before each success fails this often in a row once in 3,000
/// times.
fn many(usual_streak: f64) -> u32 {
    let wanted = MANY * (1.0 + usual_streak.max(0.0));
    (1..MOST).find(|proofs| f64::from(*proofs) >= wanted).unwrap_or(MOST)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// What became of items that were sent as delivery sends them: halves join the end of the line.
    #[derive(Debug, Default, PartialEq)]
    struct Sent {
        requests: u64,
        taken: u64,
        rejected: u64,
        /// The items that still wait when as many requests were sent as the test allows.
        waiting: u64,
    }

    /// Sends batches of items, each one a piece, to a backend that answers about `about` when `refuses` says so.
    fn send(
        about: Option<About>,
        batches: Vec<Vec<u32>>,
        most: u64,
        mut refuses: impl FnMut(u64, &[u32]) -> bool,
    ) -> Sent {
        let fresh = batches.into_iter().map(|batch| (batch, Suspicion::default()));
        let mut line: VecDeque<_> = fresh.collect();
        let (mut sent, mut traffic) = (Sent::default(), Traffic::default());
        while let Some((mut batch, mut suspicion)) = line.pop_front() {
            if sent.requests == most {
                sent.waiting += batch.len() as u64;
                continue;
            }
            sent.requests += 1;
            let number = traffic.leaves();
            if !refuses(sent.requests, &batch) {
                traffic.takes(number);
                sent.taken += batch.len() as u64;
                continue;
            }
            suspicion.refused(about, traffic);
            if !suspicion.is_grounded() {
                traffic.doubt();
            }
            let (can_be_split, doubt) = (batch.len() > 1, traffic.is_in_doubt());
            match suspicion.step(Evidence { about, can_be_split, doubt, usual_streak: 0.0 }) {
                Step::Wait => line.push_back((batch, suspicion)),
                Step::Reject => sent.rejected += batch.len() as u64,
                Step::Halve => {
                    let second = batch.split_off(batch.len() / 2);
                    let halves = suspicion.of_parts();
                    line.extend([(batch, halves), (second, halves)]);
                }
            }
        }
        sent
    }

    fn batch(from: u32, items: u32) -> Vec<u32> {
        (from..from + items).collect()
    }

    #[test]
    fn one_bad_item_costs_itself_and_a_few_requests() {
        for about in [About::Data, About::Size] {
            let sent = send(Some(about), vec![batch(0, 512)], 100, |_, batch| batch.contains(&77));
            assert_eq!(sent, Sent { requests: 20, taken: 511, rejected: 1, waiting: 0 }, "{about:?}");
        }
    }

    #[test]
    fn the_neighbours_of_what_is_refused_in_unclear_words_are_free_soon() {
        for about in [Some(About::Unclear), Some(About::Access), None] {
            let mut line = VecDeque::from([(batch(0, 512), Suspicion::default())]);
            let (mut number, mut taken) = (0, 0);
            while let Some((mut batch, mut suspicion)) = line.pop_front()
                && taken < 511
            {
                // Something else is taken before each of them.
                number += 1;
                if !batch.contains(&77) {
                    taken += batch.len();
                    continue;
                }
                suspicion.refused(about, after(number));
                match suspicion.step(Evidence { about, can_be_split: batch.len() > 1, doubt: false, usual_streak: 0.0 })
                {
                    Step::Halve => {
                        let (second, parts) = (batch.split_off(batch.len() / 2), suspicion.of_parts());
                        line.extend([(batch, parts), (second, parts)]);
                    }
                    Step::Wait | Step::Reject => line.push_back((batch, suspicion)),
                }
            }
            assert!(taken == 511 && number <= 50, "{about:?}: {number} requests");
        }
    }

    #[test]
    fn answers_about_access_are_not_held_against_an_item_that_is_refused_in_unclear_words_once() {
        let mut suspicion = Suspicion::default();
        let unclear = Evidence { about: Some(About::Unclear), can_be_split: false, doubt: false, usual_streak: 0.0 };
        for number in 0..100 {
            suspicion.refused([Some(About::Access), None][number % 2], after(number as u64));
        }
        let steps = (100..110).map(|number| {
            suspicion.refused(Some(About::Unclear), after(number));
            suspicion.step(unclear)
        });
        assert_eq!(steps.collect::<Vec<_>>().iter().position(|step| *step == Step::Reject), Some(7));
    }

    #[test]
    fn many_bad_items_are_all_found() {
        let mut random = fastrand::Rng::with_seed(7);
        for share in [2, 5, 50] {
            let bad: Vec<u32> = (0..5000).filter(|_| random.usize(..share) == 0).collect();
            let batches = (0..5).map(|n| batch(n * 1000, 1000)).collect();
            let refuses = |_, batch: &[u32]| batch.iter().any(|item| bad.binary_search(item).is_ok());
            let sent = send(Some(About::Data), batches, 100_000, refuses);
            assert_eq!((sent.rejected, sent.waiting), (bad.len() as u64, 0), "one in {share}: {sent:?}");
        }
    }

    #[test]
    fn a_backend_that_refuses_everything_costs_nothing() {
        for about in [None, Some(About::Data), Some(About::Size), Some(About::Unclear), Some(About::Access)] {
            let sent = send(about, vec![batch(0, 256), batch(256, 256)], 10_000, |_, _| true);
            assert_eq!((sent.rejected, sent.waiting), (0, 512), "{about:?}");
        }
    }

    #[test]
    fn a_backend_that_begins_to_refuse_everything_in_the_middle_of_a_search_costs_one_good_item_at_most() {
        // The last one beside the bad one: it is refused for the first time just after others were taken.
        for at in 2..20 {
            let sent = send(Some(About::Data), vec![batch(0, 512)], 10_000, |n, batch| n > at || batch.contains(&77));
            assert!(sent.rejected <= 2, "after request {at}: {sent:?}");
        }
    }

    #[test]
    fn what_was_refused_during_an_outage_is_taken_after_it() {
        for about in [None, Some(About::Data), Some(About::Size), Some(About::Unclear), Some(About::Access)] {
            let sent = send(about, vec![batch(0, 256), batch(256, 256)], 10_000, |number, _| number <= 2_000);
            assert_eq!((sent.taken, sent.rejected, sent.waiting), (512, 0, 0), "{about:?}");
        }
    }

    /// So many requests have left, and the last was taken.
    fn after(number: u64) -> Traffic {
        Traffic { left: number, taken: number, doubted: 0 }
    }

    /// The steps after refusals of a batch. Each of these refusals but the first is a proof.
    fn steps(about: Option<About>, can_be_split: bool, doubt: bool) -> Vec<Step> {
        let mut suspicion = Suspicion::default();
        let steps = (0..200).map(|number| {
            suspicion.refused(about, after(number));
            suspicion.step(Evidence { about, can_be_split, doubt, usual_streak: 0.0 })
        });
        steps.collect()
    }

    #[test]
    fn only_answers_that_may_be_about_the_data_reject_an_item_alone() {
        let first = |steps: Vec<Step>, wanted| steps.iter().position(|step| *step == wanted);
        for (about, halves_after, rejects_after) in [
            (Some(About::Data), Some(0), Some(2)),
            (Some(About::Size), Some(0), Some(2)),
            (Some(About::Unclear), Some(8), Some(8)),
            (Some(About::Access), Some(8), None),
            (None, Some(8), None),
        ] {
            assert_eq!(first(steps(about, true, false), Step::Halve), halves_after, "{about:?}");
            assert_eq!(first(steps(about, false, false), Step::Reject), rejects_after, "{about:?}");
            assert_eq!(first(steps(about, false, true), Step::Reject), None, "{about:?}");
        }
    }

    #[test]
    fn what_was_shown_of_a_batch_is_not_held_against_its_items_once_everything_is_refused() {
        let mut suspicion = Suspicion::default();
        (0..5).for_each(|number| suspicion.refused(Some(About::Data), after(number)));
        let mut item = suspicion.of_parts();
        for _ in 0..10 {
            item.refused(Some(About::Data), after(5));
            let doubt = Evidence { about: Some(About::Data), can_be_split: false, doubt: true, usual_streak: 0.0 };
            assert_eq!(item.step(doubt), Step::Wait);
        }
    }

    #[test]
    fn what_unclear_refusals_showed_of_a_batch_says_nothing_of_its_parts() {
        for (about, proofs) in [(Some(About::Data), 4), (Some(About::Unclear), 0), (None, 0)] {
            let mut suspicion = Suspicion::default();
            (0..5).for_each(|number| suspicion.refused(about, after(number)));
            let part = suspicion.of_parts();
            assert_eq!((part.proofs, part.own), (proofs, false), "{about:?}");
        }
    }

    /// A size that was named counts for nothing once as much was taken. What is left are words that are not clear.
    #[test]
    fn what_is_refused_for_a_size_that_was_taken_is_given_up_for_its_own_proofs_alone() {
        let unclear =
            |can_be_split| Evidence { about: Some(About::Unclear), can_be_split, doubt: false, usual_streak: 0.0 };
        let mut pair = Suspicion::default();
        let halved = (0..20).position(|number| {
            pair.refused(Some(About::Size), after(number));
            pair.step(unclear(true)) == Step::Halve
        });
        assert_eq!(halved, Some(8));
        // One of two that were taken apart, and one whose neighbour has left.
        for (mut item, proofs) in [(pair.of_parts(), 8), (pair, 8)] {
            let rejected = (20..40).position(|number| {
                item.refused(Some(About::Size), after(number));
                item.step(unclear(false)) == Step::Reject
            });
            assert_eq!(rejected, Some(proofs - 1), "the last of so many");
        }
    }

    #[test]
    fn what_left_before_a_refusal_proves_nothing_when_it_is_taken_after_it() {
        let (mut traffic, mut suspicion) = (Traffic::default(), Suspicion::default());
        let early: Vec<u64> = (0..9).map(|_| traffic.leaves()).collect();
        for number in early {
            suspicion.refused(Some(About::Data), traffic);
            traffic.doubt();
            traffic.takes(number);
            assert!(!suspicion.is_grounded() && traffic.is_in_doubt());
        }
        let late = traffic.leaves();
        traffic.takes(late);
        suspicion.refused(Some(About::Data), traffic);
        assert!(suspicion.is_grounded() && !traffic.is_in_doubt());
    }

    #[test]
    fn failures_prove_nothing_about_the_data() {
        let mut suspicion = Suspicion::default();
        (0..50).for_each(|number| suspicion.refused(None, after(number)));
        suspicion.refused(Some(About::Data), after(51));
        assert!(!suspicion.is_grounded());
    }

    /// Whether an item is given up that a backend refuses by chance, this often, until it takes it.
    fn is_lost(fails: f64, random: &mut fastrand::Rng) -> bool {
        let (mut suspicion, mut number) = (Suspicion::default(), 0);
        let (about, usual_streak) = (Some(About::Unclear), fails / (1.0 - fails));
        while random.f64() < fails {
            suspicion.refused(about, after(number));
            number += 1;
            if suspicion.step(Evidence { about, can_be_split: false, doubt: false, usual_streak }) == Step::Reject {
                return true;
            }
        }
        false
    }

    #[test]
    fn a_backend_that_fails_at_random_hardly_ever_costs_an_item() {
        let mut random = fastrand::Rng::with_seed(11);
        for fails in [0.3, 0.7, 0.9] {
            let lost = (0..20_000).filter(|_| is_lost(fails, &mut random)).count();
            assert!(lost <= 20_000 / 1000, "{fails}: {lost} of 20000 single items");
        }
    }
}
