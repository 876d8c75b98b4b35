//! Metrics of the journal: each pipeline's backlog in it, then its own figures.

use super::Kind::{Counter, Gauge, Histogram};
use super::{Metric, PIPELINE, Samples, Value, of, one};
use crate::view::{BacklogFigures, JournalFigures, OrphanFigures, Snapshot};

pub(super) const METRICS: [Metric; 23] = [
    Metric {
        name: "weir_pipeline_backlog_bytes",
        kind: Gauge,
        labels: PIPELINE,
        help: "Bytes in the journal that the backend has not taken",
        samples: |snapshot| backlogs(snapshot, |backlog| backlog.bytes.into()),
    },
    Metric {
        name: "weir_pipeline_backlog_items",
        kind: Gauge,
        labels: PIPELINE,
        help: "Items in the journal that the backend has not taken",
        samples: |snapshot| backlogs(snapshot, |backlog| backlog.items.into()),
    },
    Metric {
        name: "weir_pipeline_backlog_limit_bytes",
        kind: Gauge,
        labels: PIPELINE,
        help: "What the backlog may hold",
        samples: |snapshot| backlogs(snapshot, |backlog| backlog.limit_bytes.into()),
    },
    Metric {
        name: "weir_pipeline_backlog_oldest_age_seconds",
        kind: Gauge,
        labels: PIPELINE,
        help: "Age of the oldest data in the backlog",
        samples: |snapshot| backlogs(snapshot, |backlog| backlog.oldest_age.into()),
    },
    Metric {
        name: "weir_journal_orphaned_items",
        kind: Gauge,
        labels: QUEUE,
        help: "Items in the journal whose pipeline is not configured",
        samples: |snapshot| orphans(snapshot, |orphan| orphan.backlog.map_or(0, |backlog| backlog.items)),
    },
    Metric {
        name: "weir_journal_orphaned_dropped_items_total",
        kind: Counter,
        labels: QUEUE,
        help: "Of these, items that were given up",
        samples: |snapshot| orphans(snapshot, |orphan| orphan.books.dropped.values().sum()),
    },
    Metric {
        name: "weir_journal_spilled_bytes_total",
        kind: Counter,
        labels: &[],
        help: "Payload bytes written to the journal",
        samples: |snapshot| whole(snapshot, |journal| journal.spilled_bytes),
    },
    Metric {
        name: "weir_journal_read_back_bytes_total",
        kind: Counter,
        labels: &[],
        help: "Payload bytes read back from the journal",
        samples: |snapshot| whole(snapshot, |journal| journal.read_back_bytes),
    },
    Metric {
        name: "weir_journal_commit_seconds",
        kind: Histogram,
        labels: &[],
        help: "Time to write a group of requests and, with fsync always, to force it to the disk",
        samples: |snapshot| whole(snapshot, |journal| &journal.commits),
    },
    Metric {
        name: "weir_journal_sync_seconds",
        kind: Histogram,
        labels: &[],
        help: "With fsync interval, time to force to the disk what was written since the last time",
        samples: |snapshot| whole(snapshot, |journal| &journal.syncs),
    },
    Metric {
        name: "weir_journal_write_failures_total",
        kind: Counter,
        labels: &[],
        help: "Groups of requests that could not be written",
        samples: |snapshot| whole(snapshot, |journal| journal.write_failures),
    },
    Metric {
        name: "weir_journal_tidy_failures_total",
        kind: Counter,
        labels: &[],
        help: "Times that what was delivered could not be written down, or files not be deleted",
        samples: |snapshot| whole(snapshot, |journal| journal.tidy_failures),
    },
    Metric {
        name: "weir_journal_failed",
        kind: Gauge,
        labels: &[],
        help: "1 while the journal cannot be written to",
        samples: |snapshot| whole(snapshot, |journal| journal.failed),
    },
    Metric {
        name: "weir_journal_busy_seconds",
        kind: Gauge,
        labels: &[],
        help: "How long the disk has been at what it does now",
        samples: |snapshot| whole(snapshot, |journal| journal.busy),
    },
    Metric {
        name: "weir_journal_reading_seconds",
        kind: Gauge,
        labels: &[],
        help: "How long the disk has been at the oldest read that is under way",
        samples: |snapshot| whole(snapshot, |journal| journal.reading),
    },
    Metric {
        name: "weir_journal_segments",
        kind: Gauge,
        labels: &[],
        help: "Files that hold data",
        samples: |snapshot| whole(snapshot, |journal| journal.segments),
    },
    Metric {
        name: "weir_journal_disk_bytes",
        kind: Gauge,
        labels: &[],
        help: "Space that these files take",
        samples: |snapshot| whole(snapshot, |journal| journal.disk_bytes),
    },
    Metric {
        name: "weir_journal_disk_free_bytes",
        kind: Gauge,
        labels: &[],
        help: "Space that the journal may still take on the disk",
        samples: |snapshot| match snapshot.journal.as_ref().and_then(|journal| journal.disk_free_bytes) {
            Some(bytes) => one(bytes),
            None => Box::new(std::iter::empty()),
        },
    },
    Metric {
        name: "weir_journal_damaged_bytes_total",
        kind: Counter,
        labels: &[],
        help: "Bytes in the journal that are not what was written",
        samples: |snapshot| whole(snapshot, |journal| journal.damaged_bytes),
    },
    Metric {
        name: "weir_journal_damaged_items_total",
        kind: Counter,
        labels: &[],
        help: "Items lost to damage of the journal, where their number is known",
        samples: |snapshot| whole(snapshot, |journal| journal.damaged_items),
    },
    Metric {
        name: "weir_journal_recovery_seconds",
        kind: Gauge,
        labels: &[],
        help: "Time to read the journal at the start",
        samples: |snapshot| whole(snapshot, |journal| journal.recovery),
    },
    Metric {
        name: "weir_journal_recovery_truncated_bytes",
        kind: Gauge,
        labels: &[],
        help: "Bytes removed at the start: an unfinished write, or damage that cannot be told from one",
        samples: |snapshot| whole(snapshot, |journal| journal.truncated_bytes),
    },
    Metric {
        name: "weir_pipeline_recovered_items_total",
        kind: Counter,
        labels: PIPELINE,
        help: "Items found in the journal at the start",
        samples: |snapshot| match snapshot.journal {
            Some(_) => super::pipelines::books(snapshot, |books| books.recovered),
            None => Box::new(std::iter::empty()),
        },
    },
];

const QUEUE: &[&str] = &["queue"];

fn backlogs<'a>(snapshot: &'a Snapshot, read: fn(BacklogFigures) -> Value<'a>) -> Samples<'a> {
    let backlogs = snapshot.pipelines.iter().filter_map(|pipeline| Some((pipeline, pipeline.backlog?)));
    Box::new(backlogs.map(move |(pipeline, backlog)| (of(&pipeline.id, []), read(backlog))))
}

fn orphans<'a>(snapshot: &'a Snapshot, read: fn(&OrphanFigures) -> u64) -> Samples<'a> {
    let orphans = snapshot.orphans.iter().filter(|orphan| orphan.backlog.is_some());
    Box::new(orphans.map(move |orphan| (vec![orphan.id.to_string().into()], read(orphan).into())))
}

/// A figure of the journal as a whole; none without a journal.
fn whole<'a, V: Into<Value<'a>>>(snapshot: &'a Snapshot, read: fn(&'a JournalFigures) -> V) -> Samples<'a> {
    match &snapshot.journal {
        Some(journal) => one(read(journal)),
        None => Box::new(std::iter::empty()),
    }
}
