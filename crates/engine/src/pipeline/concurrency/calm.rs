//! What a backend shows in a window of answers, and what it shows when it is calm.
//!
//! This counts and compares; `concurrency` decides what follows for the limit.

use std::time::Duration;

use super::{BETTER, Feedback, ratio};

/// With fewer requests taken than this, nothing is said about latency.
const MIN_TAKEN: u32 = 8;
/// Answers that come this many times later than in calm are clearly late: half of their time is waiting.
const LATE: f64 = 2.0;
/// Shorter times count as equal: how fast a backend on the same machine is depends on who else is busy there.
const SHORT: f64 = 0.005;
/// Less than this part of the usual share of requests is clearly less ...
const FEWER: f64 = 0.9;
/// ... if it is this many standard deviations away.
const CHANCE: f64 = 3.0;
/// No backend is expected to take more than this share of requests: one failure is no congestion.
const BEST_SHARE: f64 = 0.99;
/// A backend that takes hardly anything is watched at most this many times as long as others.
const MAX_TIMES: usize = 16;
/// Answers after which the knowledge of calm begins anew, so that it follows a backend that changes slowly.
const MAX_KNOWN: usize = 512;
/// Sizes of requests that are expected to take different times: a factor of four each, from 16 KiB to 4 MiB.
const CLASSES: usize = 6;

/// Answers of one window.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The most requests under way when one of these was sent.
    pub(super) used: usize,
    /// The longest time until an answer of any kind.
    pub(super) longest: Duration,
    pub(super) answers: usize,
    taken: usize,
    /// Of requests that were taken, by size.
    latency: [Latency; CLASSES],
}

/// Latencies in seconds of requests of similar size.
#[derive(Debug, Default, Clone, Copy)]
struct Latency {
    count: u32,
    sum: f64,
}

impl Latency {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.sum += other.sum;
    }

    /// The time of an answer, if there are enough answers to tell.
    fn mean(self) -> Option<f64> {
        (self.count >= MIN_TAKEN).then(|| self.sum / f64::from(self.count))
    }
}

impl Window {
    /// One more answer.
    pub(super) fn add(&mut self, latency: Duration, feedback: Feedback, in_flight_when_sent: usize, bytes: usize) {
        self.used = self.used.max(in_flight_when_sent);
        self.answers += 1;
        if feedback != Feedback::Silent {
            self.longest = self.longest.max(latency);
        }
        if feedback == Feedback::Taken {
            self.taken += 1;
            let class = (0..CLASSES - 1).find(|class| bytes <= (16 * 1024) << (2 * class));
            self.latency[class.unwrap_or(CLASSES - 1)].add(Latency { count: 1, sum: latency.as_secs_f64().max(SHORT) });
        }
    }

    /// Counts the answers of another window as well.
    pub(super) fn pool(&mut self, other: &Self) {
        self.answers += other.answers;
        self.taken += other.taken;
        self.latency.iter_mut().zip(other.latency).for_each(|(latency, other)| latency.add(other));
    }

    fn share_taken(&self) -> f64 {
        // Half a request more: if none of a few was taken, that does not mean that none will be.
        (self.taken as f64 + 0.5) / (self.answers as f64 + 0.5)
    }

    /// How many times later than in calm answers came.
    fn lateness(&self, calm: &Calm) -> f64 {
        let mut seen = Latency::default();
        let mut expected = 0.0;
        for (latency, calm) in self.latency.iter().zip(calm.seen.latency) {
            if let Some(calm) = calm.mean() {
                seen.add(*latency);
                expected += calm * f64::from(latency.count);
            }
        }
        if seen.count < MIN_TAKEN { 1.0 } else { seen.sum / expected }
    }

    /// Clearly fewer requests were taken than in calm, or clearly later.
    pub(super) fn is_congested(&self, calm: &Calm) -> bool {
        self.has_fewer(calm) || self.lateness(calm) > LATE
    }

    /// Clearly fewer requests were taken than in calm.
    pub(super) fn has_fewer(&self, calm: &Calm) -> bool {
        self.share_taken() < FEWER * calm.share_taken() - calm.chance(self)
    }

    /// Time of the backend's slots for each request taken, in multiples of what it costs in calm.
    pub(super) fn cost(&self, calm: &Calm) -> f64 {
        calm.share_taken() / self.share_taken() * self.lateness(calm)
    }
}

/// What a backend shows without load: everything seen of it, or nothing.
#[derive(Debug, Default)]
pub(super) struct Calm {
    seen: Window,
}

impl Calm {
    /// Requests taken of all answered.
    pub(super) fn share_taken(&self) -> f64 {
        if self.seen.answers == 0 { BEST_SHARE } else { self.seen.share_taken().min(BEST_SHARE) }
    }

    /// How many answers it takes for about `taken` requests to be taken, or [`MAX_TIMES`] as many if that is not
    /// enough.
    pub(super) fn answers_for(&self, taken: usize) -> usize {
        let times = (1..MAX_TIMES).find(|times| ratio(*times, 1) * self.share_taken() >= FEWER);
        taken * times.unwrap_or(MAX_TIMES)
    }

    /// How far the share of a window may be from this one by chance.
    fn chance(&self, window: &Window) -> f64 {
        let share = self.share_taken();
        let known = if self.is_unknown() { 0.0 } else { 1.0 / self.seen.answers as f64 };
        CHANCE * (share * (1.0 - share) * (1.0 / window.answers as f64 + known)).sqrt()
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.seen.answers == 0
    }

    /// Takes over what is not known yet.
    pub(super) fn learn(&mut self, window: &Window) {
        if self.is_unknown() {
            return self.seen.pool(window);
        }
        for (known, latency) in self.seen.latency.iter_mut().zip(window.latency) {
            if known.count < MIN_TAKEN {
                known.add(latency);
            }
        }
    }

    /// Takes over what a window without much load shows. What agrees with the known calm makes it more exact.
    pub(super) fn update(&mut self, window: Window) {
        let difference = (window.share_taken() - self.share_taken()).abs();
        let agrees = difference < self.chance(&window) && (BETTER..1.0 / BETTER).contains(&window.lateness(self));
        if agrees && self.seen.answers < MAX_KNOWN {
            self.seen.pool(&window);
        } else {
            self.replace(window);
        }
    }

    /// Takes over what a window shows, better or worse. Sizes that it hardly has are expected to have changed as much.
    pub(super) fn replace(&mut self, window: Window) {
        let lateness = window.lateness(self);
        let known = std::mem::replace(&mut self.seen, window).latency;
        for (latency, known) in self.seen.latency.iter_mut().zip(known) {
            if latency.count < MIN_TAKEN {
                *latency = Latency { sum: known.sum * lateness, ..known };
            }
        }
    }
}
