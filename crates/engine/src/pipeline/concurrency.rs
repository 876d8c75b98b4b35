//! How many requests may be under way to one backend: found out by watching it, because nobody knows it beforehand.
//!
//! Pure arithmetic over answers and times that it is handed. It owns no request, and knows neither retries nor batches.
//!
//! - **Windows.** Answers are judged in windows of about `limit` answers, about one round trip. Only requests that were
//!   sent after the limit was last changed count, so that a window speaks of one limit.
//! - **Calm.** A window is not compared with a fixed number but with what this backend shows when it is calm: the share
//!   of requests that it takes, and its latency for requests of similar size. What is clearly better than known is
//!   believed at once. Because the best goes stale, one window in [`LOOK_EVERY`] is tried at a quarter of the limit, and
//!   what the backend shows then is its calm from there on.
//! - **Growth.** With each calm window that used the limit it doubles until the first congestion ("slow start"), and
//!   grows by one from then on.
//! - **Congestion** is a window in which clearly fewer requests were taken, or clearly later. The limit falls by three
//!   tenths, and that is an experiment: if load is the cause, then a request costs the less the fewer are under way. If
//!   after three such cuts it does not, load is not the cause. Then what the backend shows is its calm, and the limit
//!   returns to where it was. This keeps a backend that fails seven of ten requests, however few there are, from being
//!   offered one at a time, which would help nobody.
//! - **Silence.** A backend that takes nothing, for longer than chance explains, or that cannot be reached starts again
//!   from one request.

use std::time::Duration;

use tokio::time::Instant;

/// Where a backend starts of which nothing is known: enough for a fast one, not much for a slow one.
const INITIAL: usize = 16;
/// Answers that a window has at least, but for slow start.
const MIN_ANSWERS: usize = 16;
/// A backend that takes few requests gets windows up to this many times longer, until some were taken.
const MAX_WINDOWS: u32 = 16;
/// Requests taken without which nothing is said about latency.
const MIN_TAKEN: u32 = 8;
/// Answers that come this many times later than in calm are clearly late: half of their time is waiting.
const LATE: f64 = 2.0;
/// At a look, a request that costs less than this part of what it cost before is clearly better.
const BETTER: f64 = 0.7;
/// Shorter times do not differ: what a backend on the same machine needs depends on who else is busy there.
const SHORT: f64 = 0.005;
/// Less than this part of the usual share of requests is clearly less ...
const FEWER: f64 = 0.9;
/// ... if it is this many standard deviations away.
const CHANCE: f64 = 3.0;
/// No backend is expected to take more than this share of requests: one failure is no congestion.
const BEST_SHARE: f64 = 0.99;
/// How unlikely it must be that a backend that takes its usual share refuses this many in a row.
const BEYOND_CHANCE: f64 = 0.001;
/// After a cut by this factor, load would have shown itself as the cause: three times 0.7.
const DEEP: f64 = 2.5;
/// One window in this many that used the limit is tried at a quarter of it ...
const LOOK_EVERY: u32 = 64;
/// ... and sooner at first, and after a look at which the backend did clearly better: it may do better still.
const LOOK_AGAIN: u32 = 4;
/// Sizes of requests that are expected to take different times: a factor of four each, from 16 KiB to 4 MiB.
const CLASSES: usize = 6;

/// What a backend made of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Taken, or refused for good: it was worked on.
    Taken,
    /// It asked to try again.
    Refused,
    /// No answer in time.
    Silent,
}

/// The limit on requests under way to one backend.
#[derive(Debug)]
pub(super) struct Concurrency {
    max: usize,
    limit: usize,
    phase: Phase,
    calm: Calm,
    window: Window,
    /// Requests sent before this do not count for the window.
    opened: Option<Instant>,
    /// Failures since the last request that was taken ...
    failures: u32,
    /// ... which was then.
    taken_at: Option<Instant>,
    /// The longest time that an answer took of late.
    round_trip: Duration,
    /// Windows that use the limit until the next look.
    look_in: u32,
}

#[derive(Debug)]
enum Phase {
    SlowStart,
    Steady,
    /// The limit was cut because of what happened with `from` requests under way.
    Trial {
        from: usize,
        before: Window,
        since: Window,
    },
    /// A quarter of the limit is tried, which is `from`.
    Look {
        from: usize,
    },
}

impl Concurrency {
    /// A limit that never passes `max`.
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            limit: INITIAL.min(max),
            phase: Phase::SlowStart,
            calm: Calm::default(),
            window: Window::default(),
            opened: None,
            failures: 0,
            taken_at: None,
            round_trip: Duration::ZERO,
            look_in: LOOK_AGAIN,
        }
    }

    /// Requests that may be under way at once.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// A request of `bytes` was answered. When it was `sent`, so many were `in_flight_when_sent`, itself included.
    pub(super) fn answered(
        &mut self,
        sent: Instant,
        now: Instant,
        verdict: Verdict,
        in_flight_when_sent: usize,
        bytes: usize,
    ) {
        if verdict == Verdict::Taken {
            self.failures = 0;
            self.taken_at = Some(now);
        } else {
            self.failures = self.failures.saturating_add(1);
            if self.takes_nothing(now) {
                return self.restart(Some(now));
            }
        }
        if self.opened.is_some_and(|opened| sent <= opened) {
            return;
        }
        let latency = now.saturating_duration_since(sent);
        self.window.add(latency, verdict, in_flight_when_sent, bytes);
        if self.window.answers >= self.answers_wanted() && self.has_seen_the_slow(now) {
            self.judge();
            self.opened = Some(now);
        }
    }

    /// The backend cannot be reached: when it returns it is met with one request.
    pub(super) fn unreachable(&mut self) {
        self.restart(None);
    }

    fn restart(&mut self, now: Option<Instant>) {
        self.limit = 1;
        self.phase = Phase::SlowStart;
        self.window = Window::default();
        self.opened = now;
    }

    /// The backend has refused so many requests in a row, for so long, that its usual share does not explain it.
    fn takes_nothing(&self, now: Instant) -> bool {
        let row = usize::try_from(self.failures).unwrap_or(usize::MAX);
        let chance = (1.0 - self.calm.share).powi(i32::try_from(self.failures).unwrap_or(i32::MAX));
        let waited = self.taken_at.is_none_or(|at| now >= at + 2 * self.round_trip);
        row >= self.limit.max(MIN_ANSWERS) && chance < BEYOND_CHANCE && waited
    }

    /// Quick answers come first, above all refusals: a short window would hold nothing else.
    fn has_seen_the_slow(&self, now: Instant) -> bool {
        let round_trips = if matches!(self.phase, Phase::SlowStart) { 1 } else { 2 };
        let longest = self.round_trip.max(self.window.longest);
        self.opened.is_none_or(|opened| now >= opened + longest * round_trips)
    }

    /// How long the window is: in slow start a round trip, then enough to tell a change from chance.
    fn answers_wanted(&self) -> usize {
        if matches!(self.phase, Phase::SlowStart) {
            return self.limit;
        }
        let windows = (1..MAX_WINDOWS).find(|windows| self.calm.share * f64::from(*windows) >= FEWER);
        self.limit.max(MIN_ANSWERS * windows.unwrap_or(MAX_WINDOWS) as usize)
    }

    /// Draws the consequences of a full window.
    fn judge(&mut self) {
        let window = std::mem::take(&mut self.window);
        // One answer that came very late is not waited for for long.
        self.round_trip = window.longest.max(self.round_trip / 2);
        match std::mem::replace(&mut self.phase, Phase::Steady) {
            Phase::Look { from } => {
                self.look_in = if window.cost(&self.calm) < BETTER { LOOK_AGAIN } else { LOOK_EVERY };
                self.calm.replace(&window);
                self.limit = from;
            }
            Phase::Trial { from, before, mut since } => {
                since.pool(&window);
                self.compare(from, before, window, since);
            }
            Phase::SlowStart | Phase::Steady if window.is_congested(&self.calm) => self.begin_trial(window),
            phase => {
                self.calm.learn(&window);
                if window.used >= self.limit {
                    self.grow(phase);
                }
            }
        }
    }

    fn grow(&mut self, phase: Phase) {
        self.look_in = self.look_in.saturating_sub(1);
        if matches!(phase, Phase::SlowStart) && self.limit < self.max {
            self.phase = Phase::SlowStart;
            self.limit = (self.limit * 2).min(self.max);
        } else if self.look_in == 0 && self.limit > 1 {
            self.phase = Phase::Look { from: self.limit };
            self.limit = (self.limit / 4).max(1);
        } else {
            self.limit = (self.limit + 1).min(self.max);
        }
    }

    fn begin_trial(&mut self, before: Window) {
        let from = before.used.clamp(1, self.limit);
        self.limit = cut(from);
        self.phase = Phase::Trial { from, before, since: Window::default() };
    }

    /// The window after a cut, and all windows since the first cut.
    fn compare(&mut self, from: usize, before: Window, window: Window, since: Window) {
        let depth = from as f64 / self.limit as f64;
        // In proportion would be as deep as the cut; no relief at all would be 1. This is half way between the two.
        let helped = before.cost(&self.calm) / window.cost(&self.calm) > depth.sqrt() && depth > 1.0;
        let congested = window.is_congested(&self.calm);
        if helped && !congested {
            self.calm.learn(&window);
        } else if depth < DEEP && self.limit > 1 {
            self.limit = cut(self.limit);
            self.phase = Phase::Trial { from, before, since };
        } else if helped {
            self.begin_trial(window);
        } else {
            self.calm.replace(&since);
            self.limit = from;
            self.phase = Phase::SlowStart;
        }
    }
}

/// Three tenths less, but not nothing.
fn cut(limit: usize) -> usize {
    ((limit * 7 + 5) / 10).clamp(1, limit.saturating_sub(1).max(1))
}

/// Answers of one window.
#[derive(Debug, Default)]
struct Window {
    /// Most requests under way when one of these was sent.
    used: usize,
    /// The longest time until an answer of any kind.
    longest: Duration,
    answers: usize,
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

    /// What an answer takes, if there are enough to tell.
    fn mean(self) -> Option<f64> {
        (self.count >= MIN_TAKEN).then(|| (self.sum / f64::from(self.count)).max(SHORT))
    }
}

impl Window {
    fn add(&mut self, latency: Duration, verdict: Verdict, in_flight_when_sent: usize, bytes: usize) {
        self.used = self.used.max(in_flight_when_sent);
        self.answers += 1;
        if verdict != Verdict::Silent {
            self.longest = self.longest.max(latency);
        }
        if verdict == Verdict::Taken {
            self.taken += 1;
            let class = (0..CLASSES - 1).find(|class| bytes <= (16 * 1024) << (2 * class));
            self.latency[class.unwrap_or(CLASSES - 1)].add(Latency { count: 1, sum: latency.as_secs_f64() });
        }
    }

    fn pool(&mut self, other: &Self) {
        self.answers += other.answers;
        self.taken += other.taken;
        self.latency.iter_mut().zip(other.latency).for_each(|(latency, other)| latency.add(other));
    }

    fn share(&self) -> f64 {
        // Half a request more: not having taken one of a few does not mean that none will be.
        (self.taken as f64 + 0.5) / (self.answers as f64 + 0.5)
    }

    /// How many times later than in calm answers came.
    fn lateness(&self, calm: &Calm) -> f64 {
        let mut seen = Latency::default();
        let mut expected = 0.0;
        for (latency, calm) in self.latency.iter().zip(calm.latency) {
            if let Some(calm) = calm.mean() {
                seen.add(*latency);
                expected += calm * f64::from(latency.count);
            }
        }
        if seen.count < MIN_TAKEN { 1.0 } else { seen.sum / expected }
    }

    fn is_congested(&self, calm: &Calm) -> bool {
        self.share() < FEWER * calm.share - calm.chance(self) || self.lateness(calm) > LATE
    }

    /// Time of the backend's slots for each request taken, in multiples of what it costs in calm.
    fn cost(&self, calm: &Calm) -> f64 {
        calm.share / self.share() * self.lateness(calm)
    }
}

/// What a backend shows without load.
#[derive(Debug)]
struct Calm {
    /// Requests taken of all answered.
    share: f64,
    /// Of requests that were taken, by size.
    latency: [Latency; CLASSES],
}

impl Default for Calm {
    fn default() -> Self {
        Self { share: BEST_SHARE, latency: Default::default() }
    }
}

impl Calm {
    /// How far the share of a window is from the usual one by chance.
    fn chance(&self, window: &Window) -> f64 {
        CHANCE * (self.share * (1.0 - self.share) / window.answers as f64).sqrt()
    }

    /// Takes over what is clearly better than known, and what is not known yet.
    fn learn(&mut self, window: &Window) {
        if window.share() > self.share + self.chance(window) {
            self.share = window.share().min(BEST_SHARE);
        }
        let sooner = window.lateness(self) < 1.0 / LATE;
        for (calm, latency) in self.latency.iter_mut().zip(window.latency) {
            if calm.count < MIN_TAKEN {
                calm.add(latency);
            } else if sooner && latency.count >= MIN_TAKEN {
                *calm = latency;
            }
        }
    }

    /// Takes over what the window shows, better or worse.
    fn replace(&mut self, window: &Window) {
        let lateness = window.lateness(self);
        self.share = window.share().min(BEST_SHARE);
        for (calm, latency) in self.latency.iter_mut().zip(window.latency) {
            if latency.count >= MIN_TAKEN {
                *calm = latency;
            } else {
                calm.sum *= lateness;
            }
        }
    }
}

#[cfg(test)]
mod tests;
