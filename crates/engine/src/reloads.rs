//! Counts new configurations, used and refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_legible::line;

/// What is kept of an error, in characters.
const MAX_ERROR: usize = 1000;

/// Configurations that were taken up, and those that were not. Starting is the first success.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadFigures {
    /// Taken up whole.
    pub successes: u64,
    /// Not taken up, or not whole: some pipeline cannot be set up.
    pub failures: u64,
    /// When the configuration that runs was taken up, in seconds since the Unix epoch.
    pub last_success: u64,
    /// What is wrong with the last configuration; `None` when it is the one that runs, whole.
    pub error: Option<String>,
}

/// Counts since the start.
#[derive(Debug)]
pub(crate) struct Reloads {
    successes: AtomicU64,
    failures: AtomicU64,
    last_success: AtomicU64,
    error: Mutex<Option<String>>,
}

impl Reloads {
    /// `error`: something could not be set up.
    pub(crate) fn starting(error: Option<String>) -> Self {
        let (successes, failures) = (AtomicU64::new(0), AtomicU64::new(0));
        let error = error.map(|error| line(&error, MAX_ERROR));
        Self { successes, failures, last_success: AtomicU64::new(now()), error: Mutex::new(error) }
    }

    pub(crate) fn succeeded(&self) {
        self.successes.fetch_add(1, Ordering::Relaxed);
        self.last_success.store(now(), Ordering::Relaxed);
        *self.error() = None;
    }

    pub(crate) fn failed(&self, error: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        *self.error() = Some(line(error, MAX_ERROR));
    }

    pub(crate) fn figures(&self) -> ReloadFigures {
        ReloadFigures {
            successes: self.successes.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            last_success: self.last_success.load(Ordering::Relaxed),
            error: self.error().clone(),
        }
    }

    fn error(&self) -> MutexGuard<'_, Option<String>> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every snapshot has a copy of it.
    #[test]
    fn of_an_error_only_so_much_is_kept() {
        let error = vec!["traces/shop: no such file"; 1000].join("; ");
        let reloads = Reloads::starting(Some(error.clone()));
        let at_start = reloads.figures().error.unwrap();
        assert!(at_start.starts_with("traces/shop: no such file; traces/shop"), "{at_start}");
        assert_eq!(at_start.chars().count(), MAX_ERROR);
        reloads.failed(&error);
        assert_eq!(reloads.figures().error, Some(at_start));
    }
}
