//! The journal as a whole; what each pipeline has in it is among the figures of the pipeline.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::histogram::HistogramFigures;
use crate::store::Store;

/// The journal and its disk. Counts are since the start.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalFigures {
    /// Payload bytes written.
    pub spilled_bytes: u64,
    /// Payload bytes read back.
    pub read_back_bytes: u64,
    /// Time to write a group of requests, including its fsync if it has one.
    pub commits: HistogramFigures,
    /// Time of an fsync between groups.
    pub syncs: HistogramFigures,
    /// Groups of requests that could not be written.
    pub write_failures: u64,
    /// Number of failures to write down what was delivered, or to delete files.
    pub tidy_failures: u64,
    /// The journal cannot be written to now, or the disk does not answer.
    pub failed: bool,
    /// How long the disk has been busy with its present work.
    pub busy: Duration,
    /// How long the disk has been busy with the oldest read under way.
    pub reading: Duration,
    /// Files that hold data now.
    pub segments: u64,
    /// Bytes that these files take.
    pub disk_bytes: u64,
    /// Bytes that the disk still has room for, beside what is always left free; `None` if it does not say.
    pub disk_free_bytes: Option<u64>,
    /// Bytes that are not what was written.
    pub damaged_bytes: u64,
    /// Items that were lost through damage, where their number is known.
    pub damaged_items: u64,
    /// Time to read the journal at the start.
    pub recovery: Duration,
    /// Bytes removed at the start.
    pub truncated_bytes: u64,
}

impl JournalFigures {
    pub(super) fn of(store: &Store) -> Self {
        let (stats, journal, recovered) = (&store.stats, store.journal.stats(), &store.recovered);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            spilled_bytes: load(&stats.spilled_bytes),
            read_back_bytes: load(&stats.read_back_bytes),
            commits: stats.commits.figures(),
            syncs: stats.syncs.figures(),
            write_failures: load(&stats.failures),
            tidy_failures: load(&stats.tidy_failures),
            failed: store.has_failed() || store.hangs(),
            busy: stats.busy(&store.clock),
            reading: store.reads.busy(),
            segments: journal.segments,
            disk_bytes: journal.disk_bytes,
            disk_free_bytes: stats.room(),
            damaged_bytes: journal.damage.bytes,
            damaged_items: journal.damage.items,
            recovery: recovered.took,
            truncated_bytes: recovered.truncated_bytes,
        }
    }
}
