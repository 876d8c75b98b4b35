//! What there is to know of the journal.

use std::fmt;

use super::{Books, Labels, PENDING_BYTES, Row, Writer, load, pipeline_labels, queue_labels};
use crate::account::Account;
use crate::store::Store;

/// The journal's own figures, and each pipeline's backlog in it.
pub(super) fn journal(writer: &mut Writer<'_>, store: &Store, rows: &[Row<'_>], books: &[Books]) -> fmt::Result {
    backlogs(writer, store, rows)?;
    let recovered = books.iter().map(|(labels, books)| (labels.clone(), books.recovered));
    writer.counters("weir_pipeline_recovered_items", "Items found in the journal at the start", recovered)?;
    disk(writer, store)?;
    recovery(writer, store)
}

fn backlogs(writer: &mut Writer<'_>, store: &Store, rows: &[Row<'_>]) -> fmt::Result {
    let gauge = |read: &dyn Fn(&Account) -> f64| -> Vec<(Labels, f64)> {
        rows.iter().map(|(pipeline, _)| (pipeline_labels(pipeline), read(&pipeline.account))).collect()
    };
    let bytes = gauge(&|account| account.backlog().bytes as f64);
    writer.gauges("weir_pipeline_backlog_bytes", "Bytes in the journal that the backend has not taken", bytes)?;
    let items = gauge(&|account| account.backlog().items as f64);
    writer.gauges("weir_pipeline_backlog_items", "Items in the journal that the backend has not taken", items)?;
    let limit = gauge(&|account| account.queue.as_ref().map_or(0.0, |queue| queue.limits().max_bytes as f64));
    writer.gauges("weir_pipeline_backlog_limit_bytes", "What the backlog may hold", limit)?;
    let now_ms = store.clock.now_ms();
    let age = |account: &Account| account.backlog_age(now_ms).as_secs_f64();
    let help = "Age of the oldest data in the backlog";
    writer.gauges("weir_pipeline_backlog_oldest_age_seconds", help, gauge(&age))?;
    let orphans = store.accounts.orphans();
    let orphaned = orphans.iter().map(|orphan| (vec![("queue", orphan.id.to_string())], orphan.backlog().items as f64));
    let help = "Items in the journal whose pipeline is not configured";
    writer.gauges("weir_journal_orphaned_items", help, orphaned)?;
    let dropped = orphans
        .iter()
        .map(|orphan| (vec![("queue", orphan.id.to_string())], orphan.books.figures().dropped.values().sum::<u64>()));
    writer.counters("weir_journal_orphaned_dropped_items", "Of these, items that were given up", dropped)
}

fn disk(writer: &mut Writer<'_>, store: &Store) -> fmt::Result {
    let one = |value: f64| [(Labels::new(), value)];
    let (stats, journal) = (&store.stats, store.journal.stats());
    let spilled = load(&stats.spilled_bytes) as f64;
    writer.float_counter("weir_journal_spilled_bytes", "Payload bytes written to the journal", spilled)?;
    let read = load(&stats.read_back_bytes) as f64;
    writer.float_counter("weir_journal_read_back_bytes", "Payload bytes read back from the journal", read)?;
    let help = "Time to write a group of requests and, with fsync always, to force it to the disk";
    writer.histograms("weir_journal_commit_seconds", help, [(Labels::new(), &stats.commits)])?;
    let help = "With fsync interval, time to force to the disk what was written since the last time";
    writer.histograms("weir_journal_sync_seconds", help, [(Labels::new(), &stats.syncs)])?;
    let failures = load(&stats.failures) as f64;
    writer.float_counter("weir_journal_write_failures", "Groups of requests that could not be written", failures)?;
    let untidy = load(&stats.tidy_failures) as f64;
    let help = "Times that what was delivered could not be written down, or files not be deleted";
    writer.float_counter("weir_journal_tidy_failures", help, untidy)?;
    let failed = f64::from(u8::from(store.has_failed() || store.hangs()));
    writer.gauges("weir_journal_failed", "1 while the journal cannot be written to", one(failed))?;
    let busy = stats.busy(&store.clock).as_secs_f64();
    writer.gauges("weir_journal_busy_seconds", "How long the disk has been at what it does now", one(busy))?;
    let reading = store.reads.busy().as_secs_f64();
    let help = "How long the disk has been at the oldest read that is under way";
    writer.gauges("weir_journal_reading_seconds", help, one(reading))?;
    writer.gauges("weir_journal_segments", "Files that hold data", one(journal.segments as f64))?;
    writer.gauges("weir_journal_disk_bytes", "Space that these files take", one(journal.disk_bytes as f64))?;
    let damage = journal.damage;
    let help = "Bytes in the journal that are not what was written";
    writer.float_counter("weir_journal_damaged_bytes", help, damage.bytes as f64)?;
    let help = "Items that were lost by that, where their number is known";
    writer.float_counter("weir_journal_damaged_items", help, damage.items as f64)
}

fn recovery(writer: &mut Writer<'_>, store: &Store) -> fmt::Result {
    let one = |value: f64| [(Labels::new(), value)];
    let took = store.recovered.took.as_secs_f64();
    writer.gauges("weir_journal_recovery_seconds", "Time to read the journal at the start", one(took))?;
    let truncated = store.recovered.truncated_bytes as f64;
    let help = "Bytes removed at the start: an unfinished write, or damage that cannot be told from one";
    writer.gauges("weir_journal_recovery_truncated_bytes", help, one(truncated))
}

/// Size and capacity of the queue as the field's dashboards know it.
pub(super) fn queue(writer: &mut Writer<'_>, rows: &[Row<'_>]) -> fmt::Result {
    let size = rows.iter().map(|(pipeline, _)| (queue_labels(pipeline), pipeline.pending_bytes() as f64));
    writer.gauges("otelcol_exporter_queue_size", PENDING_BYTES, size)?;
    let capacity = rows.iter().map(|(pipeline, _)| {
        let limit = pipeline.account.queue.as_ref().map(|queue| queue.limits().max_bytes as f64);
        (queue_labels(pipeline), limit.unwrap_or(pipeline.account.share.limit() as f64))
    });
    writer.gauges("otelcol_exporter_queue_capacity", "Bytes the pipeline may hold", capacity)
}
