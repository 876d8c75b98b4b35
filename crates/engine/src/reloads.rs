//! How taking up new configurations went, for the metrics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Counts since the start; starting is the first success.
#[derive(Debug)]
pub(crate) struct Reloads {
    pub(crate) successes: AtomicU64,
    pub(crate) failures: AtomicU64,
    last_failed: AtomicBool,
    /// Seconds since the Unix epoch.
    pub(crate) last_success: AtomicU64,
}

impl Reloads {
    /// `whole`: everything could be set up.
    pub(crate) fn starting(whole: bool) -> Self {
        let (successes, failures, last_failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(!whole));
        Self { successes, failures, last_failed, last_success: AtomicU64::new(now()) }
    }

    pub(crate) fn succeeded(&self) {
        self.successes.fetch_add(1, Ordering::Relaxed);
        self.last_success.store(now(), Ordering::Relaxed);
        self.last_failed.store(false, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.last_failed.store(true, Ordering::Relaxed);
    }

    /// Whether what runs is what the files said last.
    pub(crate) fn is_current(&self) -> bool {
        !self.last_failed.load(Ordering::Relaxed)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
