//! The limit against scripted backends, in virtual time.
//!
//! There is always more to send, so a request leaves whenever the limit allows it. What the asserts state is true of
//! each of the seeds; `docs/decisions/006-send-concurrency.md` cites the figures.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const SEEDS: u64 = 8;

/// What a backend answers to a request: how long it takes, and what it says.
type Answer = (Duration, Feedback);

/// A backend decides when a request arrives.
trait Model {
    fn answer(&mut self, now: Duration, random: &mut fastrand::Rng) -> Answer;
}

impl<F: FnMut(Duration, &mut fastrand::Rng) -> Answer> Model for F {
    fn answer(&mut self, now: Duration, random: &mut fastrand::Rng) -> Answer {
        self(now, random)
    }
}

/// Workers that are busy with one request each, for half to one and a half times `service`; the rest waits its turn.
fn workers(count: usize, service: Duration) -> impl Model {
    let mut free: BinaryHeap<_> = vec![Reverse(Duration::ZERO); count].into();
    move |now: Duration, random: &mut fastrand::Rng| {
        let Reverse(idle_since) = free.pop().unwrap();
        let done = idle_since.max(now) + service.mul_f64(0.5 + random.f64());
        free.push(Reverse(done));
        (done - now, Feedback::Taken)
    }
}

/// Refuses and delays requests at random, however few there are.
fn moody(refused: f64, delayed: f64) -> impl Model {
    move |_: Duration, random: &mut fastrand::Rng| {
        let delay = if random.f64() < delayed { SECOND } else { MILLISECOND };
        (delay, if random.f64() < refused { Feedback::Refused } else { Feedback::Taken })
    }
}

/// Refuses, after `refusal`, what arrives while `most` requests are there; takes the others in 100 ms.
fn refuses_beyond(most: usize, refusal: Duration) -> impl Model {
    let mut there: Vec<Duration> = Vec::new();
    move |now: Duration, _: &mut fastrand::Rng| {
        there.retain(|leaves| *leaves > now);
        if there.len() >= most {
            return (refusal, Feedback::Refused);
        }
        there.push(now + 100 * MILLISECOND);
        (100 * MILLISECOND, Feedback::Taken)
    }
}

/// One model until a time, another one from then on.
fn then(mut first: impl Model, until: Duration, mut second: impl Model) -> impl Model {
    move |now: Duration, random: &mut fastrand::Rng| {
        if now < until { first.answer(now, random) } else { second.answer(now, random) }
    }
}

/// A run against one backend.
struct Run<'a> {
    model: Box<dyn Model + 'a>,
    concurrency: Concurrency,
    random: fastrand::Rng,
    start: Instant,
    now: Duration,
    under_way: BinaryHeap<Reverse<Flight>>,
    /// Requests are sent only while there are fewer than this.
    offered: usize,
    /// Sizes that requests have, at random.
    sizes: Vec<usize>,
}

/// A request under way, in order of its answer.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    answered: Duration,
    sent: Duration,
    taken: bool,
    silent: bool,
    beside: usize,
    bytes: usize,
}

/// What was seen in a part of a run.
#[derive(Debug)]
struct Seen {
    /// Requests taken per second.
    goodput: f64,
    /// Requests refused for each that was taken.
    refused: f64,
    /// Smallest, mean (over time) and largest limit.
    min: usize,
    mean: f64,
    max: usize,
}

impl<'a> Run<'a> {
    fn new(seed: u64, model: impl Model + 'a) -> Self {
        Self {
            model: Box::new(model),
            concurrency: Concurrency::new(64),
            random: fastrand::Rng::with_seed(seed),
            start: Instant::now(),
            now: Duration::ZERO,
            under_way: BinaryHeap::new(),
            offered: usize::MAX,
            sizes: vec![1 << 20],
        }
    }

    fn fill(&mut self) {
        while self.under_way.len() < self.concurrency.limit().min(self.offered) {
            // Nothing happens in no time.
            let sent = self.now + Duration::from_micros(1);
            let beside = self.under_way.len() + 1;
            let (latency, feedback) = self.model.answer(sent, &mut self.random);
            let (taken, silent) = (feedback == Feedback::Taken, feedback == Feedback::Silent);
            let bytes = self.sizes[self.random.usize(..self.sizes.len())];
            let latency = latency.mul_f64(bytes as f64 / f64::from(1 << 20));
            self.under_way.push(Reverse(Flight { answered: sent + latency, sent, taken, silent, beside, bytes }));
        }
    }

    /// Runs on until `end`, counted from the start of the run.
    fn until(&mut self, end: Duration) -> Seen {
        let began = self.now;
        let (mut taken, mut refused, mut area) = (0, 0, 0.0);
        let (mut min, mut max) = (usize::MAX, 0);
        while self.now < end {
            self.fill();
            let limit = self.concurrency.limit();
            (min, max) = (min.min(limit), max.max(limit));
            let next = self.under_way.peek().map_or(end, |Reverse(flight)| flight.answered.min(end));
            area += limit as f64 * (next - self.now).as_secs_f64();
            self.now = next;
            if self.under_way.peek().is_some_and(|Reverse(flight)| flight.answered <= next) {
                let Some(Reverse(flight)) = self.under_way.pop() else { continue };
                taken += u32::from(flight.taken);
                refused += u32::from(!flight.taken);
                self.land(&flight);
            }
        }
        let seconds = (end - began).as_secs_f64();
        let goodput = f64::from(taken) / seconds;
        Seen { goodput, refused: f64::from(refused) / f64::from(taken), min, mean: area / seconds, max }
    }

    fn land(&mut self, flight: &Flight) {
        let feedback = match flight {
            Flight { taken: true, .. } => Feedback::Taken,
            Flight { silent: true, .. } => Feedback::Silent,
            Flight { .. } => Feedback::Refused,
        };
        let (sent, answered) = (self.start + flight.sent, self.start + flight.answered);
        self.concurrency.answered(sent, answered, feedback, flight.beside, flight.bytes);
    }
}

/// Runs a minute to settle, and shows the four minutes after it, one for each seed.
fn settled<M: Model + 'static>(model: impl Fn() -> M) -> Vec<Seen> {
    let run = |seed| {
        let mut run = Run::new(seed, model());
        run.until(60 * SECOND);
        run.until(300 * SECOND)
    };
    (0..SEEDS).map(run).collect()
}

#[test]
fn a_fast_backend_has_the_full_limit_within_a_blink() {
    let mut run = Run::new(1, workers(64, 5 * MILLISECOND));
    let seen = run.until(SECOND / 10);
    assert!(seen.max == 64 && seen.goodput > 0.7 * 64.0 * 200.0, "{seen:?}");
    let seen = run.until(60 * SECOND);
    assert!(seen.goodput > 0.97 * 64.0 * 200.0, "{seen:?}");
}

#[test]
fn a_backend_with_few_workers_is_kept_busy_with_short_queues() {
    for count in [1, 2, 4, 16, 40] {
        for seen in settled(|| workers(count, 100 * MILLISECOND)) {
            assert!(seen.goodput > 0.96 * 10.0 * count as f64, "{count}: {seen:?}");
            assert!(seen.mean < 2.5 * count as f64, "{count}: {seen:?}");
        }
    }
}

/// Seven of ten requests are answered 503, and seven of ten after a second.
#[test]
fn a_backend_that_fails_at_random_is_not_given_less() {
    for (refused, delayed, part) in
        [(0.7, 0.7, 0.9), (0.7, 1.0, 0.9), (0.2, 1.0, 0.9), (0.05, 0.5, 0.9), (0.95, 1.0, 0.6)]
    {
        let with_64 = 64.0 * (1.0 - refused) / delayed;
        for seen in settled(|| moody(refused, delayed)) {
            assert!(seen.goodput > part * with_64, "{refused}, {delayed}: {seen:?} of {with_64}");
        }
    }
}

#[test]
fn a_backend_that_fails_at_random_is_known_within_a_minute() {
    for seed in 0..SEEDS {
        let seen = Run::new(seed, moody(0.7, 0.7)).until(60 * SECOND);
        assert!(seen.goodput > 0.65 * 64.0 * 0.3 / 0.7, "{seen:?}");
    }
}

#[test]
fn a_backend_that_refuses_by_load_is_given_what_it_takes() {
    for most in [1, 3, 10, 30] {
        for (refusal, few) in [(100 * MILLISECOND, 0.5), (2 * MILLISECOND, 3.0)] {
            for seen in settled(|| refuses_beyond(most, refusal)) {
                assert!(seen.goodput > 0.83 * 10.0 * most as f64, "{most}, {refusal:?}: {seen:?}");
                assert!(seen.refused < few && seen.max <= most + most / 2 + 2, "{most}, {refusal:?}: {seen:?}");
            }
        }
    }
}

#[test]
fn a_backend_that_was_gone_is_met_with_one_request_then_two_then_four() {
    let mut run = Run::new(1, |_: Duration, _: &mut fastrand::Rng| (100 * MILLISECOND, Feedback::Taken));
    run.until(10 * SECOND);
    run.concurrency.unreachable();
    run.concurrency.unreachable();
    run.under_way.clear();
    let limits = (0..8).map(|trip| {
        let limit = run.concurrency.limit();
        run.until(10 * SECOND + 101 * MILLISECOND * (trip + 1));
        limit
    });
    assert_eq!(limits.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 64]);
}

#[test]
fn a_backend_that_takes_nothing_sees_little_until_it_takes_something() {
    let refuses = |_: Duration, _: &mut fastrand::Rng| (50 * MILLISECOND, Feedback::Refused);
    for seed in 0..SEEDS {
        let down = then(refuses, 60 * SECOND, workers(32, 100 * MILLISECOND));
        let mut run = Run::new(seed, then(workers(32, 100 * MILLISECOND), 20 * SECOND, down));
        run.until(22 * SECOND);
        let seen = run.until(60 * SECOND);
        assert!(seen.max == 1 && seen.goodput == 0.0, "{seen:?}");
        let seen = run.until(70 * SECOND);
        assert!(seen.goodput > 0.85 * 320.0, "{seen:?}");
    }
}

#[test]
fn a_backend_that_does_not_answer_is_offered_one_request_at_a_time() {
    let silent = |_: Duration, _: &mut fastrand::Rng| (30 * SECOND, Feedback::Silent);
    let mut run = Run::new(1, then(workers(64, 100 * MILLISECOND), 20 * SECOND, silent));
    // Two timeouts, because the first may have met a look.
    run.until(82 * SECOND);
    assert_eq!(run.until(200 * SECOND).max, 1);
}

#[test]
fn latency_that_has_nothing_to_do_with_load_costs_a_moment() {
    let far = |_: Duration, random: &mut fastrand::Rng| (SECOND.mul_f64(0.5 + random.f64() * 0.2), Feedback::Taken);
    let near = |_: Duration, random: &mut fastrand::Rng| (SECOND.mul_f64(0.05 + random.f64() * 0.02), Feedback::Taken);
    for seed in 0..SEEDS {
        let mut run = Run::new(seed, then(near, 30 * SECOND, then(far, 90 * SECOND, near)));
        for (end, latency) in [(30, 0.06), (90, 0.6), (150, 0.06)] {
            run.until((end - 15) * SECOND);
            let seen = run.until(end * SECOND);
            assert!(seen.goodput > 0.9 * 64.0 / latency, "{end}: {seen:?}");
        }
    }
}

#[test]
fn a_backend_that_loses_its_workers_and_gets_them_back_is_followed() {
    for seed in 0..SEEDS {
        let few = then(workers(4, 100 * MILLISECOND), 120 * SECOND, workers(40, 100 * MILLISECOND));
        let mut run = Run::new(seed, then(workers(40, 100 * MILLISECOND), 30 * SECOND, few));
        run.until(60 * SECOND);
        let seen = run.until(120 * SECOND);
        assert!(seen.mean < 16.0 && seen.goodput > 0.95 * 40.0, "{seen:?}");
        run.until(150 * SECOND);
        let seen = run.until(200 * SECOND);
        assert!(seen.goodput > 0.95 * 400.0, "{seen:?}");
    }
}

#[test]
fn large_requests_may_take_longer_than_small_ones() {
    for seed in 0..SEEDS {
        let mut run = Run::new(seed, |_: Duration, random: &mut fastrand::Rng| {
            (SECOND.mul_f64(0.5 + random.f64()), Feedback::Taken)
        });
        run.sizes = vec![64 << 10, 4 << 20];
        run.until(60 * SECOND);
        run.sizes = vec![64 << 10];
        run.until(65 * SECOND);
        run.sizes = vec![4 << 20];
        let seen = run.until(120 * SECOND);
        assert!(seen.mean > 55.0, "{seen:?}");
    }
}

#[test]
fn a_limit_that_is_not_used_does_not_grow() {
    let mut run = Run::new(1, workers(64, 100 * MILLISECOND));
    run.offered = 4;
    let seen = run.until(600 * SECOND);
    assert!(seen.max == INITIAL && seen.min == INITIAL, "{seen:?}");
}

#[test]
fn what_was_sent_before_the_cut_says_nothing_about_it() {
    let mut run = Run::new(1, then(workers(64, 100 * MILLISECOND), 10 * SECOND, workers(1, SECOND)));
    run.until(10 * SECOND);
    let stale: Vec<_> = run.under_way.drain().collect();
    let (now, sent) = (run.start + 20 * SECOND, run.start + 11 * SECOND);
    run.concurrency.opened = Some(run.start + 12 * SECOND);
    let seen = |concurrency: &Concurrency| (concurrency.limit(), concurrency.window.answers);
    let before = seen(&run.concurrency);
    for _ in stale {
        run.concurrency.answered(sent, now, Feedback::Taken, 64, 1 << 20);
    }
    assert_eq!(seen(&run.concurrency), before);
}

#[test]
fn whatever_is_answered_the_limit_stays_between_one_and_the_most() {
    let start = Instant::now();
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let max = random.usize(1..100);
        let mut concurrency = Concurrency::new(max);
        for at in 0..2000 {
            let now = start + MILLISECOND * at;
            let sent = start + MILLISECOND * random.u32(..=2 * at);
            let feedback = [Feedback::Taken, Feedback::Refused, Feedback::Silent][random.usize(..3)];
            match random.u32(..500) {
                0 => concurrency.unreachable(),
                _ => concurrency.answered(sent, now, feedback, random.usize(..200), random.usize(..8 << 20)),
            }
            assert!((1..=max).contains(&concurrency.limit()), "seed {seed}");
        }
    }
}
