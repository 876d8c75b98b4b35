//! What was found in a journal, for people and for programs.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use weir_journal::{DamageReport, Inspection, QueueReport, SegmentReport};

/// Prints everything as tables.
pub(super) fn human(out: &mut impl Write, path: &Path, inspection: &Inspection) -> io::Result<()> {
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

/// Prints an empty line and rows in columns: the first to the left, the others to the right.
fn table<const N: usize>(
    out: &mut impl Write,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> io::Result<()> {
    let rows: Vec<[String; N]> = std::iter::once(head.map(str::to_uppercase)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    writeln!(out)?;
    for row in &rows {
        write!(out, "{:<1$}", row[0], widths[0])?;
        for (cell, width) in row.iter().zip(widths).skip(1) {
            write!(out, "  {cell:>width$}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn disk_bytes(segments: &[SegmentReport]) -> u64 {
    segments.iter().map(|segment| segment.bytes).sum()
}

fn now_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

/// A number of things.
fn count(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {noun}s"),
    }
}

/// A size as people read it.
pub(super) fn bytes(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// How long ago a time was, in the two largest units.
fn age(written_ms: Option<u64>, now_ms: u64) -> String {
    let Some(written_ms) = written_ms else { return "-".to_owned() };
    let seconds = now_ms.saturating_sub(written_ms) / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours:02}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        let ago = |seconds: u64| age(Some(1_000_000), 1_000_999 + seconds * 1000);
        assert_eq!([ago(0), ago(59), ago(60), ago(3_599)], ["0s", "59s", "1m00s", "59m59s"]);
        assert_eq!([ago(3_600), ago(86_399), ago(86_400), ago(900_000)], ["1h00m", "23h59m", "1d00h", "10d10h"]);
        assert_eq!(age(Some(5), 4), "0s", "a clock that went back");
        assert_eq!(age(None, 4), "-");
    }

    #[test]
    fn sizes_and_numbers() {
        assert_eq!([bytes(0), bytes(1023), bytes(1024), bytes(32 << 20)], ["0 B", "1023 B", "1.0 KiB", "32.0 MiB"]);
        assert_eq!([bytes(3 << 29), bytes(u64::MAX)], ["1.5 GiB", "16777216.0 TiB"]);
        assert_eq!(
            [count(1u64, "entry"), count(0u64, "entry"), count(2u64, "byte")],
            ["1 entry", "0 entries", "2 bytes"]
        );
    }
}
