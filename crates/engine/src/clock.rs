//! The time that data is dated with.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Now, in nanoseconds since the Unix epoch.
pub fn unix_nanos() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Whole milliseconds, for the log.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Wall-clock time that never goes back while the process runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// Milliseconds since the Unix epoch at `started`.
    pub(crate) started_ms: u64,
    /// For times that are measured while the machine is awake. It stands still while the machine is suspended; the age
    /// of data does not.
    pub(crate) started: Instant,
    /// How long the machine had been up then; `None` where time is virtual.
    pub(crate) up_at_start: Option<Duration>,
}

impl Clock {
    /// A clock that is right now.
    pub(crate) fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_ms = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX / 2);
        Self { started_ms, started: Instant::now(), up_at_start: Some(uptime()) }
    }

    /// A clock that shows `started_ms`, and from now on virtual time.
    #[cfg(test)]
    pub(crate) fn simulated(started_ms: u64) -> Self {
        Self { started_ms, started: Instant::now(), up_at_start: None }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.started_ms + u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX / 2)
    }

    /// Since the start, suspended or not.
    pub(crate) fn elapsed(&self) -> Duration {
        self.up_at_start.map_or_else(|| self.started.elapsed(), |then| uptime().saturating_sub(then))
    }
}

/// How long the machine has been up, including the time that it was suspended.
fn uptime() -> Duration {
    clock_gettime(ClockId::Boottime).try_into().unwrap_or_default()
}

/// What this thread has used of a processor. However busy the machine is, it is the time of the work alone.
pub(crate) fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_goes_on_while_the_machine_is_suspended() {
        let hours = |n: u64| Duration::from_secs(n * 3600);
        // The time that the engine measures stands still. The machine has been up for longer than at the start.
        let clock = Clock { started_ms: 1000, started: Instant::now(), up_at_start: Some(Duration::ZERO) };
        let up = uptime();
        assert!(clock.elapsed() >= up && clock.elapsed() < up + hours(1), "{:?} of {up:?}", clock.elapsed());
        assert!(u128::from(clock.now_ms()) >= 1000 + up.as_millis());
        // Virtual time is all that a simulation knows.
        let clock = Clock::simulated(1000);
        tokio::time::advance(hours(25)).await;
        assert_eq!(clock.now_ms(), 1000 + 25 * 3_600_000);
    }
}
