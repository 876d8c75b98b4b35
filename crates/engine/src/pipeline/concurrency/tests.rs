//! The limit against scripted backends, in virtual time.
//!
//! There is always more to send, so a request leaves whenever the limit allows it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// What a backend answers to a request: how long it takes, and what it says.
type Answer = (Duration, Verdict);

/// A backend decides when a request arrives, knowing the time and the requests that are there already.
trait Model {
    fn answer(&mut self, now: Duration, in_flight: usize, random: &mut fastrand::Rng) -> Answer;
}

impl<F: FnMut(Duration, usize, &mut fastrand::Rng) -> Answer> Model for F {
    fn answer(&mut self, now: Duration, in_flight: usize, random: &mut fastrand::Rng) -> Answer {
        self(now, in_flight, random)
    }
}

/// A number of workers, each busy with one request for a random time around `service`; the rest waits its turn.
struct Workers {
    free: BinaryHeap<Reverse<Duration>>,
    service: Duration,
}

impl Workers {
    fn new(workers: usize, service: Duration) -> Self {
        Self { free: vec![Reverse(Duration::ZERO); workers].into(), service }
    }
}

impl Model for Workers {
    fn answer(&mut self, now: Duration, _: usize, random: &mut fastrand::Rng) -> Answer {
        let Reverse(free) = self.free.pop().unwrap();
        let done = free.max(now) + self.service.mul_f64(0.5 + random.f64());
        self.free.push(Reverse(done));
        (done - now, Verdict::Taken)
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
}

/// A request under way, in order of its answer.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    answered: Duration,
    sent: Duration,
    taken: bool,
    silent: bool,
    beside: usize,
}

/// What was seen in a part of a run.
#[derive(Debug)]
struct Seen {
    /// Requests taken per second.
    goodput: f64,
    /// Requests refused per second.
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
        }
    }

    fn fill(&mut self) {
        while self.under_way.len() < self.concurrency.limit().min(self.offered) {
            let beside = self.under_way.len() + 1;
            let (latency, verdict) = self.model.answer(self.now, beside - 1, &mut self.random);
            let (taken, silent) = (verdict == Verdict::Taken, verdict == Verdict::Silent);
            self.under_way.push(Reverse(Flight {
                answered: self.now + latency,
                sent: self.now,
                taken,
                silent,
                beside,
            }));
        }
    }

    /// Runs on until `end`, counted from the start of the run.
    fn until(&mut self, end: Duration) -> Seen {
        let began = self.now;
        let (mut taken, mut refused, mut weighted) = (0, 0, 0.0);
        let (mut min, mut max) = (usize::MAX, 0);
        loop {
            self.fill();
            let limit = self.concurrency.limit();
            (min, max) = (min.min(limit), max.max(limit));
            let next = self.under_way.peek().map_or(end, |Reverse(flight)| flight.answered);
            weighted += limit as f64 * (next.min(end) - self.now).as_secs_f64();
            self.now = next.min(end);
            if next >= end {
                break;
            }
            let Some(Reverse(flight)) = self.under_way.pop() else { break };
            let verdict = match flight {
                Flight { taken: true, .. } => Verdict::Taken,
                Flight { silent: true, .. } => Verdict::Silent,
                Flight { .. } => Verdict::Refused,
            };
            taken += u32::from(flight.taken);
            refused += u32::from(!flight.taken);
            let (sent, now) = (self.start + flight.sent, self.start + flight.answered);
            self.concurrency.answered(sent, now, verdict, flight.beside, 1 << 20);
        }
        let seconds = (end - began).as_secs_f64();
        let (goodput, refused) = (f64::from(taken) / seconds, f64::from(refused) / seconds);
        Seen { goodput, refused, min, mean: weighted / seconds, max }
    }
}

fn sweep(name: &str, optimum: f64, mut model: impl FnMut() -> Box<dyn Model>) {
    for seed in 0..4 {
        struct B(Box<dyn Model>);
        impl Model for B {
            fn answer(&mut self, now: Duration, in_flight: usize, random: &mut fastrand::Rng) -> Answer {
                self.0.answer(now, in_flight, random)
            }
        }
        let mut run = Run::new(seed, B(model()));
        let a = run.until(10 * SECOND);
        let b = run.until(60 * SECOND);
        let c = run.until(300 * SECOND);
        println!(
            "{name:20} {seed} 10s {:4.2} ({:2} {:4.1} {:2})  60s {:4.2} ({:2} {:4.1} {:2}) 300s {:4.2} ({:2} {:4.1} {:2}) refused/taken {:.2} calm {:?}",
            a.goodput / optimum,
            a.min,
            a.mean,
            a.max,
            b.goodput / optimum,
            b.min,
            b.mean,
            b.max,
            c.goodput / optimum,
            c.min,
            c.mean,
            c.max,
            c.refused / c.goodput,
            (run.concurrency.calm.share, run.concurrency.calm.latency[3].mean())
        );
    }
}

fn random(share: f64, slow: bool) -> impl Model {
    move |_: Duration, _: usize, random: &mut fastrand::Rng| {
        let late = !slow || random.f64() < 0.7;
        let verdict = if random.f64() < share { Verdict::Refused } else { Verdict::Taken };
        (if late { SECOND } else { MILLISECOND }, verdict)
    }
}

fn refuses_beyond(n: usize, quick: bool) -> impl Model {
    let mut busy: Vec<Duration> = Vec::new();
    move |now: Duration, _: usize, _: &mut fastrand::Rng| {
        busy.retain(|end| *end > now);
        if busy.len() >= n {
            return (if quick { 2 * MILLISECOND } else { 100 * MILLISECOND }, Verdict::Refused);
        }
        busy.push(now + 100 * MILLISECOND);
        (100 * MILLISECOND, Verdict::Taken)
    }
}

#[test]
fn explore() {
    for c in [1, 2, 4, 16, 40, 64] {
        sweep(&format!("workers {c}"), c as f64 * 10.0, || Box::new(Workers::new(c, 100 * MILLISECOND)));
    }
    sweep("random 70 slow", 64.0 * 0.3 / 0.7, || Box::new(random(0.7, true)));
    sweep("random 70 1s", 64.0 * 0.3, || Box::new(random(0.7, false)));
    sweep("random 95 1s", 64.0 * 0.05, || Box::new(random(0.95, false)));
    sweep("random 20 1s", 64.0 * 0.8, || Box::new(random(0.2, false)));
    for n in [1, 3, 10, 30] {
        sweep(&format!("beyond {n} quick"), n as f64 * 10.0, || Box::new(refuses_beyond(n, true)));
        sweep(&format!("beyond {n} slow"), n as f64 * 10.0, || Box::new(refuses_beyond(n, false)));
    }
}
