//! Promise P2 in memory: the part of the budget in which one pipeline may keep what its backend has not taken yet.
//!
//! It counts bytes that are held (client answered). Fan-out shares the bytes themselves, so the sum over pipelines can
//! be larger than what is in memory, never smaller.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A full pipeline whose backend took nothing for this long is not waited for.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// One pipeline's share, in bytes.
#[derive(Debug)]
pub(crate) struct Share {
    limit: AtomicUsize,
    held: AtomicUsize,
    epoch: Instant,
    /// When the backend last took something, in milliseconds after the epoch.
    progress_ms: AtomicU64,
}

impl Share {
    pub(crate) fn new(limit: usize, epoch: Instant) -> Self {
        Self { limit: AtomicUsize::new(limit), held: AtomicUsize::new(0), epoch, progress_ms: AtomicU64::new(0) }
    }

    /// The backend took something.
    pub(crate) fn progressed(&self) {
        let now = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.progress_ms.store(now, Ordering::Relaxed);
    }

    /// For how long the backend has taken nothing although it was offered something.
    pub(crate) fn without_progress(&self) -> Duration {
        let progress = Duration::from_millis(self.progress_ms.load(Ordering::Relaxed));
        self.epoch.elapsed().saturating_sub(progress)
    }

    /// The backend has taken nothing for a while.
    pub(crate) fn is_stalled(&self) -> bool {
        self.without_progress() > STALLED_AFTER
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// There are more pipelines now, or fewer.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// Whether `bytes` more would still be within the share.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.held().saturating_add(bytes) <= self.limit()
    }

    /// Takes `bytes` if they fit.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let fits = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.limit());
        self.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok()
    }

    /// Little is held: the pipeline could do with more.
    pub(crate) fn is_well(&self) -> bool {
        self.held() <= self.limit() / 8
    }

    /// The pipeline is behind: it holds data whose clients could not wait for its backend.
    pub(crate) fn is_behind(&self) -> bool {
        self.held() > 0
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Never goes below zero: parts of a split piece may be finished an instant before their overhead is added.
    pub(crate) fn remove(&self, bytes: usize) {
        let less = |held: usize| Some(held.saturating_sub(bytes));
        let _ = self.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }
}
