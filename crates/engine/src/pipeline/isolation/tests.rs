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
fn send(about: Option<About>, batches: Vec<Vec<u32>>, most: u64, mut refuses: impl FnMut(u64, &[u32]) -> bool) -> Sent {
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
        if !suspicion.has_own_proof() {
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
            match suspicion.step(Evidence { about, can_be_split: batch.len() > 1, doubt: false, usual_streak: 0.0 }) {
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
        assert!(!suspicion.has_own_proof() && traffic.is_in_doubt());
    }
    let late = traffic.leaves();
    traffic.takes(late);
    suspicion.refused(Some(About::Data), traffic);
    assert!(suspicion.has_own_proof() && !traffic.is_in_doubt());
}

#[test]
fn failures_prove_nothing_about_the_data() {
    let mut suspicion = Suspicion::default();
    (0..50).for_each(|number| suspicion.refused(None, after(number)));
    suspicion.refused(Some(About::Data), after(51));
    assert!(!suspicion.has_own_proof());
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
