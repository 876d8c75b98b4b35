//! How many requests may be under way to one backend. Nobody knows this beforehand, so it is found out by watching the
//! backend.
//!
//! This is pure arithmetic over answers and times that it is handed. It owns no request, and knows neither retries nor
//! batches.
//!
//! - **Windows.** Answers are judged in windows of about `limit` answers, about one round trip. Only requests that were
//!   sent after the last change of the limit count, so that a window is about one limit.
//! - **Calm.** A window is not compared with a fixed number but with what this backend shows when it is calm: the share
//!   of requests that it takes, and its latency for requests of similar size. To know that, one window in
//!   [`LOOK_EVERY`] is tried at a quarter of the limit: a look at the backend without much load.
//! - **Growth.** With each calm window that used the limit, the limit doubles until the first congestion ("slow
//!   start"), and grows by one from then on.
//! - **Congestion** is a window in which the backend took clearly fewer requests, or took them clearly later. The limit
//!   falls by three tenths, and that is an experiment: if load is the cause, fewer requests at a time make each of them
//!   cheaper. If three such cuts do not, load is not the cause. Then what the backend shows is its calm, and the limit
//!   returns to where it was. Without this, a backend that fails seven of ten requests, however few there are, would be
//!   offered one at a time, which would help nobody.
//! - **Silence.** A backend that takes nothing for longer than chance explains, or that cannot be reached, starts again
//!   from one request.

mod calm;

use std::time::Duration;

use tokio::time::Instant;

use calm::{Calm, Window};

/// The first limit for a backend of which nothing is known: enough for a fast one, not much for a slow one.
const INITIAL: usize = 16;
/// Except in slow start, a window has as many answers as it takes for about this many requests to be taken.
const MIN_TAKEN: usize = 16;
/// Refusals in a row that say nothing yet, however unlikely they are.
const MIN_ROW: usize = 32;
/// A request that costs less than this many times as much as in calm is calm.
const NO_COST: f64 = 1.1;
/// At a look, a request that costs less than this part of what it cost before is clearly better.
const BETTER: f64 = 0.7;
/// How unlikely it must be that a backend that takes its usual share refuses this many in a row.
const BEYOND_CHANCE: f64 = 0.001;
/// After a cut by this factor, load would have shown itself as the cause: three times 0.7.
const DEEP: f64 = 2.5;
/// One window in this many that used the limit is tried at a quarter of it ...
const LOOK_EVERY: u32 = 64;
/// ... and sooner at first, and sooner after a look at which the backend did clearly better: it may do better still.
const LOOK_AGAIN: u32 = 2;

/// What a backend made of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feedback {
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
    /// The limit was cut, to see whether that helps.
    Experiment(Experiment),
    /// A quarter of the limit is tried, to see what the backend shows without much load.
    Look(Experiment),
}

#[derive(Debug)]
struct Experiment {
    /// Requests that were under way before the cut ...
    from: usize,
    /// ... and how many times as much as in calm each of them cost.
    cost: f64,
    /// All that was seen since.
    since: Window,
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

    /// From now on there are never more than `max`.
    pub(super) fn adjust(&mut self, max: usize) {
        self.max = max;
    }

    /// Requests that may be under way at once.
    pub(super) fn limit(&self) -> usize {
        self.limit.min(self.max)
    }

    /// A request of `bytes` was answered. When it was `sent`, `in_flight_when_sent` requests were under way, itself
    /// included.
    pub(super) fn answered(
        &mut self,
        sent: Instant,
        now: Instant,
        feedback: Feedback,
        in_flight_when_sent: usize,
        bytes: usize,
    ) {
        if feedback == Feedback::Taken {
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
        self.window.add(latency, feedback, in_flight_when_sent, bytes);
        if self.window.answers >= self.answers_wanted() && self.has_seen_the_slow(now) {
            self.judge();
            self.opened = Some(now);
        }
    }

    /// The backend cannot be reached. When it returns, it is met with one request.
    pub(super) fn unreachable(&mut self) {
        self.restart(None);
    }

    fn restart(&mut self, now: Option<Instant>) {
        self.limit = 1;
        self.phase = Phase::SlowStart;
        self.window = Window::default();
        self.opened = now;
    }

    /// Whether the backend has refused so many requests in a row, for so long, that its usual share does not explain
    /// it.
    fn takes_nothing(&self, now: Instant) -> bool {
        let row = usize::try_from(self.failures).unwrap_or(usize::MAX);
        let chance = (1.0 - self.calm.share_taken()).powi(i32::try_from(self.failures).unwrap_or(i32::MAX));
        let waited = self.taken_at.is_none_or(|at| now >= at + 2 * self.round_trip);
        row >= self.limit.max(MIN_ROW) && chance < BEYOND_CHANCE && waited
    }

    /// Quick answers come first, above all refusals, and a short window would hold nothing else.
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
        self.limit.max(self.calm.answers_for(MIN_TAKEN))
    }

    /// Draws the consequences of a full window.
    fn judge(&mut self) {
        let window = std::mem::take(&mut self.window);
        // A single answer that comes very late is not waited for.
        self.round_trip = window.longest.max(self.round_trip / 2);
        match std::mem::replace(&mut self.phase, Phase::Steady) {
            Phase::Look(experiment) => self.look(experiment, window),
            Phase::Experiment(experiment) => self.compare(experiment, &window),
            Phase::SlowStart | Phase::Steady if window.is_congested(&self.calm) => self.begin_experiment(&window),
            phase => {
                self.calm.learn(&window);
                if window.used >= self.limit {
                    self.grow(phase, &window);
                }
            }
        }
    }

    fn grow(&mut self, phase: Phase, window: &Window) {
        self.look_in = self.look_in.saturating_sub(1);
        if matches!(phase, Phase::SlowStart) && self.limit < self.max {
            self.phase = Phase::SlowStart;
            self.limit = (self.limit * 2).min(self.max);
        } else if self.look_in == 0 && self.limit > 1 {
            self.phase = Phase::Look(Experiment::new(self.limit, window.cost(&self.calm)));
            self.limit = (self.limit / 4).max(1);
        } else {
            self.limit = (self.limit + 1).min(self.max);
        }
    }

    /// What the window at a quarter of the limit says.
    fn look(&mut self, experiment: Experiment, window: Window) {
        let helped = experiment.helped(&window, &self.calm, self.limit);
        self.look_in = if helped { LOOK_AGAIN } else { LOOK_EVERY };
        self.limit = if helped { cut(experiment.from) } else { experiment.from };
        // Fewer requests taken with less load: that is not calm but a change, and the next window will show it.
        if !window.has_fewer(&self.calm) {
            self.calm.update(window);
        }
    }

    fn begin_experiment(&mut self, window: &Window) {
        let from = window.used.clamp(1, self.limit);
        self.limit = cut(from);
        // About an unknown backend the answer is wanted at once.
        while self.calm.is_unknown() && ratio(from, self.limit) < DEEP && self.limit > 1 {
            self.limit = cut(self.limit);
        }
        self.phase = Phase::Experiment(Experiment::new(from, window.cost(&self.calm)));
    }

    /// What the window after a cut says about its cause.
    fn compare(&mut self, mut experiment: Experiment, window: &Window) {
        experiment.since.pool(window);
        // No more than the whole cost can go away.
        let helped = experiment.helped(window, &self.calm, self.limit) || window.cost(&self.calm) < NO_COST;
        if helped && !window.is_congested(&self.calm) {
            self.calm.learn(window);
        } else if ratio(experiment.from, self.limit) < DEEP && self.limit > 1 {
            self.limit = cut(self.limit);
            self.phase = Phase::Experiment(experiment);
        } else if helped {
            self.begin_experiment(window);
        } else {
            self.calm.replace(experiment.since);
            self.limit = experiment.from;
            self.phase = Phase::SlowStart;
            self.look_in = LOOK_AGAIN;
        }
    }
}

impl Experiment {
    fn new(from: usize, cost: f64) -> Self {
        Self { from, cost, since: Window::default() }
    }

    /// Whether fewer requests under way make each of them cheaper, to judge by a window with no more than `limit`.
    fn helped(&self, window: &Window, calm: &Calm, limit: usize) -> bool {
        // In proportion, the cost would be divided by the depth of the cut; without any relief, by one. This is half
        // way.
        let enough = self.cost / ratio(self.from, limit).sqrt();
        limit < self.from && window.cost(calm) < enough
    }
}

fn ratio(from: usize, to: usize) -> f64 {
    from as f64 / to as f64
}

/// Three tenths less, but not nothing.
fn cut(limit: usize) -> usize {
    ((limit * 7 + 5) / 10).clamp(1, limit.saturating_sub(1).max(1))
}

#[cfg(test)]
mod tests;
