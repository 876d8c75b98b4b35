//! Files, watched while the gateway runs: those of the configuration, and those with certificates and tokens.
//!
//! They are looked at a few times a second rather than subscribed to. That works the same for editors that replace
//! files, for mounted Secrets and ConfigMaps, and on network file systems. A change is taken up when the files are the
//! same at two looks in a row, so that a file is not read while it is being written.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use weir_resources::Stamp;

use crate::host::Trigger;

/// A change takes twice this, and the time to read the files, to have an effect.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Watches files.
pub(crate) struct Watch {
    paths: Vec<PathBuf>,
    /// When they were read last.
    read: Stamp,
    /// When they were looked at last.
    seen: Stamp,
    ticks: Interval,
    hangup: Signal,
    /// Somebody asked for it, and has not been served yet.
    asked: bool,
    /// When to read the files again even if nothing changed: certificates in them expire.
    read_again: Instant,
}

/// See [`Watch::read_again`].
const READ_EVERY: Duration = Duration::from_secs(24 * 3600);

impl Watch {
    /// Watches from now on. Call this before the files are read, so that no change is missed.
    pub(crate) fn new(paths: Vec<PathBuf>) -> anyhow::Result<Self> {
        let stamp = weir_resources::stamp(&paths);
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
        Ok(Self {
            paths,
            read: stamp.clone(),
            seen: stamp,
            ticks,
            hangup,
            asked: false,
            read_again: Instant::now() + READ_EVERY,
        })
    }

    /// Resolves when the files have to be read again, and says why: somebody asks for it with SIGHUP, they changed, or a
    /// day has passed. May be dropped and called again.
    pub(crate) async fn changed(&mut self) -> Trigger {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => self.asked = true,
                _ = self.ticks.tick() => {}
            }
            let now = self.look().await;
            let rests = now == self.seen;
            self.seen = now;
            let reasons = [
                (self.asked, Trigger::Hangup),
                (rests && self.seen != self.read, Trigger::FilesChanged),
                (Instant::now() >= self.read_again, Trigger::Daily),
            ];
            if let Some((_, trigger)) = reasons.into_iter().find(|(is_so, _)| *is_so) {
                self.asked = false;
                self.read_again = Instant::now() + READ_EVERY;
                self.read = self.seen.clone();
                return trigger;
            }
        }
    }

    /// What the files are.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// A file system that hangs keeps no other task waiting.
    async fn look(&self) -> Stamp {
        let paths = self.paths.clone();
        let look = tokio::task::spawn_blocking(move || weir_resources::stamp(&paths)).await;
        look.unwrap_or_else(|_| self.seen.clone())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    /// Nobody touches the files, but time passes: a certificate may have expired.
    #[tokio::test(start_paused = true)]
    async fn files_that_stay_as_they_are_are_read_again_once_a_day() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut watch = Watch::new(vec![file.path().to_owned()]).unwrap();
        for day in 0..3 {
            assert!(timeout(10 * LOOK_EVERY, watch.changed()).await.is_err(), "day {day}");
            advance(READ_EVERY / 2).await;
            assert!(timeout(10 * LOOK_EVERY, watch.changed()).await.is_err(), "day {day}");
            advance(READ_EVERY / 2).await;
            let trigger = timeout(10 * LOOK_EVERY, watch.changed()).await.unwrap();
            assert_eq!(trigger, Trigger::Daily);
        }
    }
}
