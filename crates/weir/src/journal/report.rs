//! What was found in a journal, for people and for programs.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};
use weir_journal::{DamageReport, Inspection, QueueReport, SegmentReport};

use crate::tables::{age, bytes, count, now_ms, table};

/// Prints everything as tables.
pub(super) fn text(out: &mut impl Write, path: &Path, inspection: &Inspection) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let Inspection { segments, queues, truncated_bytes, damage } = inspection;
    let now_ms = now_ms();
    writeln!(
        out,
        "{}: {} on disk in {}",
        path.display(),
        bytes(disk_bytes(segments)),
        count(segments.len(), "segment")
    )?;
    if queues.is_empty() {
        writeln!(out, "\nnothing waits for any pipeline")?;
    } else {
        let row = |QueueReport { name, backlog }: &QueueReport| {
            let oldest = age(backlog.oldest_ms, now_ms);
            [name.clone(), backlog.entries.to_string(), backlog.items.to_string(), bytes(backlog.bytes), oldest]
        };
        table(&mut out, ["pipeline", "entries", "items", "size", "oldest"], queues.iter().map(row))?;
    }
    if !segments.is_empty() {
        let row = |segment: &SegmentReport| {
            let SegmentReport { file, bytes: length, entries, owed_entries, oldest_ms, newest_ms } = segment;
            let (oldest, newest) = (age(*oldest_ms, now_ms), age(*newest_ms, now_ms));
            [file.clone(), bytes(*length), entries.to_string(), owed_entries.to_string(), oldest, newest]
        };
        table(&mut out, ["segment", "size", "entries", "owed", "oldest", "newest"], segments.iter().map(row))?;
    }
    writeln!(out)?;
    note_truncated(&mut out, *truncated_bytes)?;
    list_damage(&mut out, damage)?;
    out.flush()
}

/// Prints everything as one JSON object.
pub(super) fn json(out: &mut impl Write, path: &Path, inspection: &Inspection) -> io::Result<()> {
    let Inspection { segments, queues, truncated_bytes, damage } = inspection;
    let now_ms = now_ms();
    let pipeline = |QueueReport { name, backlog }: &QueueReport| {
        let age_ms = backlog.oldest_ms.map(|oldest_ms| now_ms.saturating_sub(oldest_ms));
        json!({
            "name": name, "entries": backlog.entries, "items": backlog.items, "bytes": backlog.bytes,
            "oldest_unix_ms": backlog.oldest_ms, "oldest_age_ms": age_ms,
        })
    };
    let segment = |segment: &SegmentReport| {
        let SegmentReport { file, bytes, entries, owed_entries, oldest_ms, newest_ms } = segment;
        json!({
            "file": file, "bytes": bytes, "entries": entries, "owed_entries": owed_entries,
            "oldest_unix_ms": oldest_ms, "newest_unix_ms": newest_ms,
        })
    };
    let report = json!({
        "journal": path.display().to_string(),
        "disk_bytes": disk_bytes(segments),
        "pipelines": queues.iter().map(pipeline).collect::<Vec<_>>(),
        "segments": segments.iter().map(segment).collect::<Vec<_>>(),
        "truncated_bytes": truncated_bytes,
        "damage": damage.iter().map(damage_json).collect::<Vec<_>>(),
    });
    writeln!(out, "{report:#}")
}

/// Prints what the checksums say.
pub(super) fn verdict(out: &mut impl Write, path: &Path, inspection: &Inspection) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let Inspection { segments, queues: _, truncated_bytes, damage } = inspection;
    let entries: u64 = segments.iter().map(|segment| segment.entries).sum();
    let (segments, entries) = (count(segments.len(), "segment"), count(entries, "entry"));
    writeln!(out, "{}: {entries} in {segments} checked", path.display())?;
    note_truncated(&mut out, *truncated_bytes)?;
    list_damage(&mut out, damage)?;
    out.flush()
}

/// Says what a start would cut off. Beside a gateway that is writing there is nothing wrong with it.
fn note_truncated(out: &mut impl Write, truncated_bytes: u64) -> io::Result<()> {
    if truncated_bytes == 0 {
        return Ok(());
    }
    let what = "an unfinished write, or damage that cannot be told from one";
    writeln!(out, "note: {} at the end: {what}", count(truncated_bytes, "byte"))
}

fn list_damage(out: &mut impl Write, damage: &[DamageReport]) -> io::Result<()> {
    if damage.is_empty() {
        return writeln!(out, "no damage");
    }
    writeln!(out, "damage: {}", count(places(damage), "place"))?;
    damage.iter().try_for_each(|report| writeln!(out, "  {report}"))
}

/// How many places these reports are about.
pub(super) fn places(damage: &[DamageReport]) -> u64 {
    damage.iter().map(|report| report.places).sum()
}

fn damage_json(report: &DamageReport) -> Value {
    let DamageReport { file, segment: _, offset, bytes, places: _, entries, items, what } = report;
    json!({ "file": file, "offset": offset, "bytes": bytes, "entries": entries, "items": items, "what": what })
}

fn disk_bytes(segments: &[SegmentReport]) -> u64 {
    segments.iter().map(|segment| segment.bytes).sum()
}
