//! What happens to backends and gateway while the load runs: faults come and go, the gateway is killed and started again.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::backend::Backend;
use super::gateway::{Gateway, READY_POLL};
use super::script::{Ending, HEALTHY, KillPlan, Script};

/// Carries out a script; it is asked when it wants to act next.
pub(crate) struct Director {
    deeds: VecDeque<(Instant, String)>,
    kills: Option<Killer>,
    mended_at: Option<Instant>,
}

impl Director {
    /// A director who does nothing.
    pub(crate) fn idle() -> Self {
        Self { deeds: VecDeque::new(), kills: None, mended_at: None }
    }

    /// One who follows `script` from `start` on.
    pub(crate) fn new(script: &Script, start: Instant) -> Self {
        let deeds = script.deeds.iter().map(|deed| (start + deed.at, deed.faults.clone())).collect();
        Self { deeds, kills: script.kills.map(|plan| Killer::new(plan, start)), mended_at: None }
    }

    /// When something is to be done next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let deed = self.deeds.front().map(|(at, _)| *at);
        let kill = self.kills.as_ref().map(Killer::next);
        deed.into_iter().chain(kill).min()
    }

    /// Does what is due.
    pub(crate) async fn act(&mut self, backends: &[Backend], gateway: &mut Gateway<'_>) -> anyhow::Result<()> {
        while let Some(faults) = self.due_faults() {
            self.set_faults(backends, &faults).await?;
        }
        if let Some(killer) = &mut self.kills {
            killer.act(gateway).await?;
        }
        Ok(())
    }

    /// The load has ended: nothing happens any more, and a gateway that was just started gets ready.
    pub(crate) async fn finish(&mut self, gateway: &mut Gateway<'_>) -> anyhow::Result<Option<Kills>> {
        self.deeds.clear();
        let Some(mut killer) = self.kills.take() else { return Ok(None) };
        if killer.starting {
            gateway.until_ready().await?;
            killer.note_ready(gateway.age());
        }
        Ok(Some(killer.kills))
    }

    /// Turns all backends healthy.
    pub(crate) async fn mend(&mut self, backends: &[Backend]) -> anyhow::Result<()> {
        self.set_faults(backends, HEALTHY).await
    }

    /// When backends that were sick turned healthy.
    pub(crate) fn mended_at(&self) -> Option<Instant> {
        self.mended_at
    }

    fn due_faults(&mut self) -> Option<String> {
        let (at, _) = self.deeds.front()?;
        if *at > Instant::now() {
            return None;
        }
        self.deeds.pop_front().map(|(_, faults)| faults)
    }

    async fn set_faults(&mut self, backends: &[Backend], faults: &str) -> anyhow::Result<()> {
        for backend in backends {
            backend.set_faults(faults).await?;
        }
        if faults == HEALTHY {
            self.mended_at = Some(Instant::now());
        }
        Ok(())
    }
}

/// What killing the gateway showed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Kills {
    pub(crate) ending: Ending,
    pub(crate) count: u64,
    /// Kills of a gateway that was not ready again since the kill before.
    pub(crate) before_ready: u64,
    /// Time from each start until the gateway was ready.
    pub(crate) recoveries: Vec<Duration>,
}

impl Kills {
    /// Median and longest recovery.
    pub(crate) fn recovery(&self) -> Option<(Duration, Duration)> {
        let mut sorted = self.recoveries.clone();
        sorted.sort_unstable();
        Some((*sorted.get(sorted.len() / 2)?, *sorted.last()?))
    }
}

/// Kills at irregular intervals, so that a crash meets the gateway in every state, the start included.
struct Killer {
    every: Duration,
    random: fastrand::Rng,
    due: Instant,
    starting: bool,
    kills: Kills,
}

impl Killer {
    fn new(plan: KillPlan, start: Instant) -> Self {
        let mut random = fastrand::Rng::with_seed(plan.seed);
        let due = start + pause(plan.every, &mut random);
        let kills = Kills { ending: plan.ending, ..Kills::default() };
        Self { every: plan.every, random, due, starting: false, kills }
    }

    fn next(&self) -> Instant {
        if self.starting { self.due.min(Instant::now() + READY_POLL) } else { self.due }
    }

    async fn act(&mut self, gateway: &mut Gateway<'_>) -> anyhow::Result<()> {
        if self.starting && gateway.is_ready().await? {
            self.note_ready(gateway.age());
        }
        if Instant::now() < self.due {
            return Ok(());
        }
        gateway.replace(self.kills.ending).await?;
        self.kills.count += 1;
        self.kills.before_ready += u64::from(self.starting);
        self.starting = true;
        self.due = Instant::now() + pause(self.every, &mut self.random);
        Ok(())
    }

    fn note_ready(&mut self, after: Duration) {
        self.kills.recoveries.push(after);
        self.starting = false;
    }
}

/// Half to one and a half times `every`.
fn pause(every: Duration, random: &mut fastrand::Rng) -> Duration {
    every.mul_f64(0.5 + random.f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Test;
    use crate::scenario::script::{self, Absence};

    #[test]
    fn pauses_are_irregular_right_on_average_and_the_same_for_a_seed() {
        let every = Duration::from_secs(3);
        let draw = || {
            let mut random = fastrand::Rng::with_seed(7);
            (0..1000).map(|_| pause(every, &mut random)).collect::<Vec<_>>()
        };
        let pauses = draw();
        assert!(pauses.iter().all(|&pause| every / 2 <= pause && pause <= every * 3 / 2));
        let mean = pauses.iter().sum::<Duration>() / 1000;
        assert!(mean > every * 9 / 10 && mean < every * 11 / 10, "{mean:?}");
        assert_eq!(pauses, draw());
    }

    #[test]
    fn deeds_are_due_in_order_and_a_start_is_watched_closely() {
        let start = Instant::now();
        let outage = script::outage(Test::Traces, Absence::Refused, false, Duration::from_secs(40));
        assert_eq!(Director::new(&outage, start).next(), Some(start + Duration::from_secs(10)));
        assert_eq!(Director::idle().next(), None);
        let mut killer = Killer::new(KillPlan { every: Duration::from_secs(3), seed: 1, ending: Ending::Crash }, start);
        assert!(killer.next() >= start + Duration::from_millis(1500));
        killer.starting = true;
        assert!(killer.next() <= Instant::now() + READY_POLL);
    }

    #[test]
    fn recovery_is_a_median_and_a_maximum() {
        let recoveries = [40, 10, 30].map(Duration::from_millis).to_vec();
        let kills = Kills { recoveries, ..Kills::default() };
        assert_eq!(kills.recovery(), Some((Duration::from_millis(30), Duration::from_millis(40))));
        assert_eq!(Kills::default().recovery(), None);
    }
}
