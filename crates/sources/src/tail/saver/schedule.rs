//! When the positions of containers are saved.

use std::time::{Duration, Instant};

/// What was read is saved this often ...
const SAVE_EVERY: Duration = Duration::from_millis(250);
/// ... and forced to the disk this often. What is lost with the power is read again.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What is saved of a container is forgotten after a day, unless it is saved again. Who did not change for hours is looked
/// for this often.
const RENEW_EVERY: Duration = Duration::from_secs(60 * 60);

/// When positions are saved.
pub(super) struct Schedule {
    saved: Instant,
    synced: Instant,
    renewed: Instant,
}

/// What is due beside saving what is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    /// Forcing it to the disk.
    pub(super) sync: bool,
    /// Saving again what is old.
    pub(super) renewal: bool,
}

impl Schedule {
    pub(super) fn new(now: Instant) -> Self {
        Self { saved: now, synced: now, renewed: now }
    }

    pub(super) fn due(&mut self, now: Instant, ends: bool) -> Option<Due> {
        let is_over = |last: &mut Instant, every: Duration| {
            let is_over = now.saturating_duration_since(*last) >= every;
            if is_over {
                *last = now;
            }
            is_over
        };
        let is_saved = is_over(&mut self.saved, SAVE_EVERY) || ends;
        is_saved.then(|| Due {
            sync: is_over(&mut self.synced, SYNC_EVERY) || ends,
            renewal: is_over(&mut self.renewed, RENEW_EVERY),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-24: who does not change for a day is not forgotten.
    #[test]
    fn positions_are_saved_four_times_a_second_and_renewed_every_hour() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start);
        let mut due = |ms: u64, ends| schedule.due(start + Duration::from_millis(ms), ends);
        let [saved, synced, renewed] =
            [(false, false), (true, false), (true, true)].map(|(sync, renewal)| Some(Due { sync, renewal }));
        assert_eq!([due(0, false), due(249, false)], [None; 2]);
        assert_eq!([due(250, false), due(300, false), due(300, true)], [saved, None, synced]);
        assert_eq!([due(1_000, false), due(1_250, false), due(2_000, false)], [synced, saved, synced]);
        let hour = 60 * 60 * 1_000;
        assert_eq!([due(hour, false), due(hour + 1_000, false), due(2 * hour, false)], [renewed, synced, renewed]);
    }
}
