//! When to send: natural batching, backoff, and probes of a backend that cannot be reached or takes nothing.
//!
//! This is pure arithmetic over times that it is handed; it owns no batch.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use weir_legible::Seldom;

/// While a request is under way, the next one leaves when at least this much waits for it, or when it is full ...
const WORTHWHILE_BYTES: usize = 256 * 1024;
/// ... or when the oldest has waited this long for each request under way. So small requests merge while the backend
/// is busy, and a stalled request delays the ones behind it by milliseconds.
const PATIENCE_PER_REQUEST: Duration = Duration::from_millis(2);

/// First retry delay; doubles with each attempt.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
/// Longest retry delay, unless the backend asks for more.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// How many steps of backoff a batch may be ahead of its backend. A batch at a backend that takes other data waits this
/// much less than the longest delay.
const STEPS_AHEAD_OF_BACKEND: f64 = 1.0;
/// Successes over which the usual number of failures before one is averaged.
const USUAL_OVER: f64 = 8.0;
/// No retry follows its failure faster than this.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// Longest pause between attempts to reach a backend, and longest backoff while the process drains.
const REACH_MAX: Duration = Duration::from_secs(5);

/// Longest pause before a probe, whatever the backend asks for. What it refused with such a wish waits as long as it
/// asked; only what was not sent before finds out whether the wish is for everything.
const PROBE_MAX: Duration = Duration::from_secs(60);

/// A hint beyond this is cut: a mistake of the backend must not stop a pipeline for days.
const HINT_MAX: Duration = Duration::from_secs(600);

/// After so many failures in a row a backend counts as down. A backend that fails seven of ten requests by chance gets
/// there once in five thousand answers, and then rests for half a second.
const DOWN_AFTER: u32 = 24;

/// After so many, what was refused lately may be what the backend never takes, and something else is tried.
const OFTEN: u32 = 4;

/// State of one backend's pacing.
#[derive(Debug, Default)]
pub(super) struct Pace {
    outage: Option<Outage>,
    /// Failures of any batch since the backend last took one.
    streak: u32,
    /// Those of them that speak against the backend.
    telling: u32,
    /// Failures before a success, on average. Only a longer streak means something.
    usual_streak: f64,
    /// The same of those that speak against the backend.
    usual_telling: f64,
    /// When the log was told what, for each reason apart, so that no kind of line hides another.
    pub(super) reported: BTreeMap<&'static str, Seldom>,
    /// When the backend last took something.
    taken_at: Option<Instant>,
    /// The process drains: nothing waits long.
    hurries: bool,
}

/// A backend cannot be reached, or takes nothing. To offer it more data would only read the backlog in vain.
#[derive(Debug, Clone, Copy)]
struct Outage {
    failures: u32,
    probe_at: Instant,
    /// There is no connection; otherwise the backend is there and takes nothing.
    unreachable: bool,
}

impl Pace {
    /// Whether one more request may be under way beside `in_flight` others, of `limit` in all.
    pub(super) fn allows(&self, in_flight: usize, limit: usize, now: Instant) -> bool {
        match self.outage {
            // One probe at a time finds out whether the backend is back.
            Some(outage) => in_flight == 0 && outage.probe_at <= now,
            None => in_flight < limit,
        }
    }

    /// When the backend is probed next; `None` while there is no outage.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        self.outage.map(|outage| outage.probe_at)
    }

    /// There is not much time left: from now on no pause is longer than [`REACH_MAX`], and pauses that have begun end.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.hurries = true;
        self.outage.iter_mut().for_each(|outage| outage.probe_at = now);
    }

    /// What to start from with another backend.
    pub(super) fn of_another(&self) -> Self {
        Self { hurries: self.hurries, ..Self::default() }
    }

    /// As long as a backend asks for, within reason.
    pub(super) fn asked(&self, hint: Duration) -> Duration {
        hint.min(if self.hurries { REACH_MAX } else { HINT_MAX })
    }

    /// The backend could not be reached; returns true when that is news.
    pub(super) fn cannot_reach(&mut self, now: Instant) -> bool {
        let news = !self.outage.is_some_and(|outage| outage.unreachable);
        self.begin_outage(true, Duration::ZERO, now);
        news
    }

    /// A request has to be tried again, not before `hint`. If that `says_nothing_of_backend`, because the backend took
    /// others, it is no sign of an outage, and the hint is for this request alone.
    pub(super) fn failed(&mut self, says_nothing_of_backend: bool, hint: Option<Duration>, now: Instant) {
        self.streak = self.streak.saturating_add(1);
        if says_nothing_of_backend {
            return;
        }
        self.telling = self.telling.saturating_add(1);
        if self.telling >= DOWN_AFTER {
            self.begin_outage(false, self.asked(hint.unwrap_or_default()), now);
        }
    }

    /// The backend does not let us in. More requests could only annoy it.
    pub(super) fn shut_out(&mut self, hint: Option<Duration>, now: Instant) {
        self.begin_outage(false, self.asked(hint.unwrap_or_default()), now);
    }

    /// Whether the backend took nothing since `sent`. Then what it says of a request of that time, it says of all.
    pub(super) fn took_nothing_since(&self, sent: Instant) -> bool {
        self.taken_at.is_none_or(|at| at <= sent)
    }

    /// Whether one request at a time finds out if the backend is well again.
    pub(super) fn is_probing(&self) -> bool {
        self.outage.is_some()
    }

    /// Failures before a success, on average.
    pub(super) fn usual_streak(&self) -> f64 {
        self.usual_streak
    }

    /// Whether some failures in a row make it likely that it is the data that is refused.
    pub(super) fn has_failed_often(&self) -> bool {
        self.streak >= OFTEN
    }

    /// The same of failures that speak against the backend. Data that it never takes does not count, however often it is
    /// tried.
    pub(super) fn usual_telling(&self) -> f64 {
        self.usual_telling
    }

    fn begin_outage(&mut self, unreachable: bool, pause: Duration, now: Instant) {
        // Requests that were under way together fail together: that is one failure.
        if self.outage.is_some_and(|outage| now < outage.probe_at) {
            return;
        }
        let failures = self.outage.map_or(1, |outage| outage.failures.saturating_add(1));
        // Only an answer shows that it can be reached again.
        let unreachable = unreachable || self.outage.is_some_and(|outage| outage.unreachable);
        let probe_at = now + backoff(f64::from(failures)).min(REACH_MAX).max(pause.min(PROBE_MAX));
        self.outage = Some(Outage { failures, probe_at, unreachable });
    }

    /// The backend took a request.
    pub(super) fn succeeded(&mut self, now: Instant) {
        self.taken_at = Some(now);
        self.usual_streak += (f64::from(self.streak.min(DOWN_AFTER)) - self.usual_streak) / USUAL_OVER;
        self.usual_telling += (f64::from(self.telling) - self.usual_telling) / USUAL_OVER;
        (self.streak, self.telling) = (0, 0);
        self.outage = self.outage.filter(|outage| outage.unreachable);
    }

    /// Delay before the next attempt of a batch that failed `attempts` times, honouring the backend's own hint. The
    /// longest delays are for a backend that takes nothing. A batch that had bad luck with a backend that takes others
    /// is tried again within seconds.
    pub(super) fn retry_delay(&self, attempts: u32, hint: Option<Duration>) -> Duration {
        let delay = backoff(f64::from(attempts).min(self.steps()));
        let delay = if self.hurries { delay.min(REACH_MAX) } else { delay };
        delay.max(self.asked(hint.unwrap_or_default()))
    }

    /// The same for a batch that is refused again and again while others are taken: hurry would gain nothing.
    pub(super) fn suspect_delay(attempts: u32) -> Duration {
        backoff(f64::from(attempts))
    }

    /// Steps of backoff that the backend's state justifies.
    fn steps(&self) -> f64 {
        1.0 + STEPS_AHEAD_OF_BACKEND + f64::from(self.streak) / (1.0 + self.usual_streak)
    }

    /// The backend answered; returns true when it had been out of reach.
    pub(super) fn reached(&mut self) -> bool {
        self.outage.take_if(|outage| outage.unreachable).is_some()
    }
}

/// When data may leave that began to wait at `oldest`. `bytes` are waiting, requests have at most `request_bytes`, and
/// `in_flight` of them are under way.
pub(super) fn leaves_at(oldest: Instant, bytes: usize, request_bytes: usize, in_flight: usize) -> Instant {
    if in_flight == 0 || bytes >= WORTHWHILE_BYTES.min(request_bytes) {
        return oldest;
    }
    oldest + PATIENCE_PER_REQUEST * u32::try_from(in_flight).unwrap_or(u32::MAX)
}

/// Delay after so many steps: exponential with full jitter.
fn backoff(steps: f64) -> Duration {
    let ceiling = BACKOFF_FIRST.mul_f64((steps - 1.0).clamp(0.0, 10.0).exp2()).min(BACKOFF_MAX);
    ceiling.mul_f64(fastrand::f64()).max(BACKOFF_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_to_its_cap_and_obeys_hints() {
        for attempts in 1..200 {
            let delay = backoff(f64::from(attempts));
            assert!((BACKOFF_MIN..=BACKOFF_MAX).contains(&delay), "{attempts}: {delay:?}");
        }
        assert!((0..100).all(|_| backoff(1.0) <= BACKOFF_FIRST));
        assert!((0..100).any(|_| backoff(12.0) > Duration::from_secs(5)));
        let pace = Pace::default();
        assert!(pace.retry_delay(1, Some(Duration::from_secs(60))) >= Duration::from_secs(60));
        assert_eq!(pace.retry_delay(1, Some(Duration::MAX)), HINT_MAX);
        let hurries = Pace { hurries: true, ..pace };
        assert_eq!(hurries.retry_delay(1, Some(Duration::MAX)), REACH_MAX);
    }

    /// The longest and the mean of many delays of a batch that failed 20 times.
    fn delays(pace: &Pace) -> (Duration, Duration) {
        let delays: Vec<Duration> = (0..1000).map(|_| pace.retry_delay(20, None)).collect();
        (delays.iter().copied().max().unwrap(), delays.iter().sum::<Duration>() / 1000)
    }

    #[test]
    fn an_unlucky_batch_is_tried_again_soon_while_the_backend_takes_others() {
        fastrand::seed(6);
        let mut pace = Pace::default();
        let (longest, mean) = delays(&pace);
        assert!(longest <= Duration::from_secs(1) && mean >= Duration::from_millis(250), "{longest:?}, {mean:?}");
        // For a backend that takes everything, three failures in a row are news.
        (0..3).for_each(|_| pace.failed(false, None, Instant::now()));
        let (longest, mean) = delays(&pace);
        assert!(longest > Duration::from_secs(7) && mean > Duration::from_secs(3), "{longest:?}, {mean:?}");
        // One in four gets through: three failures in a row are ordinary.
        for _ in 0..50 {
            pace.succeeded(Instant::now());
            (0..3).for_each(|_| pace.failed(false, None, Instant::now()));
        }
        let (longest, mean) = delays(&pace);
        assert!(longest <= Duration::from_secs(2) && mean >= Duration::from_millis(500), "{longest:?}, {mean:?}");
        (0..50).for_each(|_| pace.failed(false, None, Instant::now()));
        let (longest, mean) = delays(&pace);
        assert!(longest > Duration::from_secs(28) && mean > Duration::from_secs(12), "{longest:?}, {mean:?}");
        pace.succeeded(Instant::now());
        assert!(delays(&pace).0 <= Duration::from_secs(1), "a success ends the streak");
    }

    #[test]
    fn a_first_failure_is_tried_again_soon_however_long_the_streak() {
        let mut pace = Pace::default();
        (0..50).for_each(|_| pace.failed(false, None, Instant::now()));
        assert!((0..100).all(|_| pace.retry_delay(1, None) <= BACKOFF_FIRST));
    }

    #[tokio::test(start_paused = true)]
    async fn small_data_waits_for_a_busy_backend_but_not_long() {
        let now = Instant::now();
        assert_eq!(leaves_at(now, 1, usize::MAX, 0), now);
        assert_eq!(leaves_at(now, WORTHWHILE_BYTES, usize::MAX, 5), now);
        assert_eq!(leaves_at(now, 1000, 1000, 5), now, "more would not fit into the request");
        assert_eq!(leaves_at(now, 1, usize::MAX, 2), now + 2 * PATIENCE_PER_REQUEST);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreachable_backend_is_probed_one_request_at_a_time() {
        let mut pace = Pace::default();
        let now = Instant::now();
        assert!(pace.allows(63, 64, now) && !pace.allows(64, 64, now));
        assert!(pace.cannot_reach(now), "the first failure is news");
        let probe_at = pace.probe_at().unwrap();
        assert!(!pace.cannot_reach(now), "the second is not");
        assert_eq!(pace.probe_at(), Some(probe_at), "nor does it make the pause longer");
        assert!(!pace.allows(0, 64, now) && pace.allows(0, 64, probe_at) && !pace.allows(1, 64, probe_at));
        assert!(pace.reached() && pace.allows(1, 64, now));
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_takes_nothing_is_probed_as_well_and_its_hint_obeyed() {
        let mut pace = Pace::default();
        let now = Instant::now();
        (1..DOWN_AFTER).for_each(|_| pace.failed(false, None, now));
        assert!(pace.probe_at().is_none(), "it may be chance");
        let hint = Duration::from_secs(60);
        pace.failed(false, Some(hint), now);
        assert_eq!(pace.probe_at(), Some(now + hint));
        pace.failed(false, None, now);
        assert!(!pace.reached(), "it was there all the time");
        assert!(!pace.allows(0, 64, now) && pace.allows(0, 64, now + hint) && !pace.allows(1, 64, now + hint));
        pace.succeeded(Instant::now());
        assert!(pace.allows(1, 64, now));
    }

    /// However many there are, and whatever it asks for when it refuses them.
    #[tokio::test(start_paused = true)]
    async fn a_backend_that_takes_others_is_not_down() {
        let (mut pace, now, hint) = (Pace::default(), Instant::now(), Some(HINT_MAX));
        (0..10 * DOWN_AFTER).for_each(|_| pace.failed(true, hint, now));
        assert!(!pace.is_probing());
        (0..DOWN_AFTER).for_each(|_| pace.failed(false, hint, now));
        assert!(pace.is_probing());
    }

    #[tokio::test(start_paused = true)]
    async fn who_hurries_waits_out_no_hint() {
        let (mut pace, now, hint) = (Pace::default(), Instant::now(), Some(HINT_MAX));
        pace.shut_out(hint, now);
        pace.hurry(now);
        assert!(pace.allows(0, 64, now) && !pace.allows(1, 64, now), "one finds out");
        pace.shut_out(hint, now);
        assert_eq!(pace.probe_at(), Some(now + REACH_MAX));
    }
}
