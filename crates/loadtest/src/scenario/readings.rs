//! What was read of the resources of a running trial, and the figures from them.

use std::time::Duration;

use tokio::time::Instant;

use super::gateway::Gateway;
use super::metrics::SelfView;
use super::track::Track;
use crate::cpu::Memory;

/// Readings of the measured time; the backlog also of the time until everything has settled.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readings {
    pub(crate) memory_bytes: Vec<u64>,
    pub(crate) memory_peak_bytes: u64,
    pub(crate) queue_size: Vec<f64>,
    pub(crate) disk_peak_bytes: u64,
    /// Items the gateway said it held, by time.
    pub(crate) backlog: Vec<(Instant, f64)>,
    /// Most mismatches in its books and damaged bytes in its journal that a process of the gateway admitted.
    pub(crate) mismatches: f64,
    pub(crate) damaged_bytes: f64,
    /// Most errors of rules.
    pub(crate) rule_errors: f64,
    pub(crate) tracks: Tracks,
}

/// How readings went over time, until everything has settled.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tracks {
    pub(crate) memory_bytes: Track,
    pub(crate) cpu_seconds: Track,
    pub(crate) disk_bytes: Track,
    /// Items it said it held.
    pub(crate) held: Track,
    /// Items it said it had accepted since it was started, summed over pipelines if it counts them so.
    pub(crate) accepted: Track,
}

impl Readings {
    /// One look at the resources of a gateway in the measured time.
    pub(crate) fn read(&mut self, gateway: &Gateway<'_>) -> anyhow::Result<()> {
        let memory = gateway.memory()?;
        self.add_memory(memory);
        self.follow(gateway, memory)
    }

    /// The same when the load is over: for the averages it does not count.
    pub(crate) fn read_settling(&mut self, gateway: &Gateway<'_>) -> anyhow::Result<()> {
        let memory = gateway.memory()?;
        self.follow(gateway, memory)
    }

    fn follow(&mut self, gateway: &Gateway<'_>, memory: Memory) -> anyhow::Result<()> {
        let disk = gateway.disk_bytes()?;
        self.note_disk(disk);
        self.tracks.memory_bytes.push(memory.now as f64);
        self.tracks.cpu_seconds.push(gateway.cpu_seconds()?);
        self.tracks.disk_bytes.push(disk as f64);
        Ok(())
    }

    /// Memory in the measured time.
    pub(crate) fn add_memory(&mut self, memory: Memory) {
        self.memory_bytes.push(memory.now);
        self.note_peak(memory);
    }

    /// Average memory in bytes.
    pub(crate) fn memory_average(&self) -> f64 {
        let all: f64 = self.memory_bytes.iter().map(|&bytes| bytes as f64).sum();
        all / self.memory_bytes.len().max(1) as f64
    }

    /// Memory at another time, of which only the peak counts.
    pub(crate) fn note_peak(&mut self, memory: Memory) {
        self.memory_peak_bytes = self.memory_peak_bytes.max(memory.peak);
    }

    /// Disk space in use.
    pub(crate) fn note_disk(&mut self, bytes: u64) {
        self.disk_peak_bytes = self.disk_peak_bytes.max(bytes);
    }

    /// What the gateway admits, and what it counts.
    pub(crate) fn note_view(&mut self, view: &SelfView) {
        if let Some(accepted) = view.taken.or(view.accepted) {
            self.tracks.accepted.push(accepted);
        }
        self.mismatches = self.mismatches.max(view.mismatches.unwrap_or(0.0));
        self.damaged_bytes = self.damaged_bytes.max(view.damaged_bytes.unwrap_or(0.0));
        self.rule_errors = self.rule_errors.max(view.rule_errors.unwrap_or(0.0));
    }

    /// What the gateway holds.
    pub(crate) fn note_backlog(&mut self, at: Instant, items: f64) {
        self.backlog.push((at, items));
        self.tracks.held.push(items);
    }

    /// Most items held at a moment when it was read.
    pub(crate) fn backlog_peak(&self) -> f64 {
        self.backlog.iter().map(|(_, items)| *items).fold(0.0, f64::max)
    }

    /// How long after `since` the gateway held at most `items` for the first time; none when it never did.
    pub(crate) fn drained(&self, since: Instant, items: f64) -> Option<Duration> {
        let after = self.backlog.iter().filter(|(at, _)| *at >= since);
        let (at, _) = after.into_iter().find(|(_, held)| *held <= items)?;
        Some(*at - since)
    }
}

/// Items a system says it holds; a queue that counts requests holds a batch in each.
pub(crate) fn held(view: &SelfView, batch: u32) -> f64 {
    let queued = view.queue_size.unwrap_or(0.0) * f64::from(batch);
    view.pending.unwrap_or(queued)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_has_a_peak_and_an_end() {
        let start = Instant::now();
        let mut readings = Readings::default();
        for (second, spans) in [(0, 10.0), (1, 900.0), (2, 1000.0), (3, 400.0), (4, 20.0), (5, 0.0)] {
            readings.note_backlog(start + Duration::from_secs(second), spans);
        }
        assert_eq!(readings.backlog_peak(), 1000.0);
        let mended = start + Duration::from_secs(2);
        assert_eq!(readings.drained(mended, 50.0), Some(Duration::from_secs(2)), "what was before does not count");
        assert_eq!(readings.drained(mended, 0.0), Some(Duration::from_secs(3)));
        assert_eq!(readings.drained(mended + Duration::from_secs(4), 50.0), None);
    }

    #[test]
    fn requests_in_a_queue_stand_for_a_batch_each() {
        let collector = SelfView { queue_size: Some(3.0), ..SelfView::default() };
        assert_eq!(held(&collector, 512), 1536.0);
        let weir = SelfView { queue_size: Some(1e9), pending: Some(7.0), ..SelfView::default() };
        assert_eq!(held(&weir, 512), 7.0);
    }
}
