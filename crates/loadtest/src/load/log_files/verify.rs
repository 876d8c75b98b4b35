//! The judge: compares the lines that arrived with those that were written.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};

use super::manifest::{ContainerEntry, Manifest, StreamEntry};
use crate::files;
use crate::ids::IdSet;
use crate::lines::{LineReport, Stream, StreamReport};
use crate::output::printed;
use crate::sink::SinkReport;

/// What arrived of what all containers wrote.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinesJudgement {
    /// Lines written.
    pub written: u64,
    /// Different lines of these that arrived.
    pub arrived: u64,
    /// Lines that did not arrive, of which a part at least stood in a file that was deleted.
    pub deleted: u64,
    /// Lines that did not arrive and stand in files.
    pub lost: u64,
    /// Lines that arrived again.
    pub duplicated: u64,
    /// Lines that arrived for the first time after a later one of their stream.
    pub reordered: u64,
    /// Records that were cut, or put together wrongly.
    pub damaged: u64,
    /// Records without a line.
    pub unmarked: u64,
    /// Lines that arrived and nobody wrote: of another run.
    pub foreign: u64,
    /// Streams of which not every line arrived once and in order.
    pub streams: Vec<StreamJudgement>,
}

/// What arrived of one stream of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamJudgement {
    /// Namespace, pod, uid, and container, as a path.
    pub path: String,
    /// The stream.
    pub stream: Stream,
    /// Lines written.
    pub written: u64,
    /// Lines that did not arrive and were in a file that was deleted.
    pub deleted: u64,
    /// Lines that did not arrive and stand in files, as inclusive ranges.
    pub lost: Vec<(u64, u64)>,
    /// Lines that arrived again.
    pub duplicated: u64,
    /// Lines that arrived for the first time after a later one.
    pub reordered: u64,
    /// Lines that arrived and nobody wrote.
    pub foreign: u64,
}

impl LinesJudgement {
    /// Whether every line that could be read arrived, whole.
    pub fn passes(&self) -> bool {
        self.lost == 0 && self.damaged == 0
    }
}

/// Compares what arrived with what was written.
pub fn judge(manifest: &Manifest, report: &LineReport) -> LinesJudgement {
    let mut arrived: BTreeMap<(u32, Stream), &StreamReport> =
        report.streams.iter().map(|stream| ((stream.container, stream.stream), stream)).collect();
    let mut judgement = LinesJudgement {
        duplicated: report.duplicates,
        reordered: report.reordered,
        damaged: report.damaged,
        unmarked: report.unmarked,
        ..LinesJudgement::default()
    };
    for container in &manifest.containers {
        for written in &container.streams {
            let seen = arrived.remove(&(container.pod.number, written.stream));
            judgement.add(container, written, seen);
        }
    }
    for stranger in arrived.values() {
        judgement.foreign += IdSet::from_ranges(&stranger.seen).len();
    }
    judgement
}

impl LinesJudgement {
    fn add(&mut self, container: &ContainerEntry, entry: &StreamEntry, report: Option<&StreamReport>) {
        let written = IdSet::from_ranges(&[(1, entry.lines)]);
        let seen = report.map_or_else(IdSet::default, |report| IdSet::from_ranges(&report.seen));
        let missing = written.minus(&seen);
        let lost = missing.minus(&IdSet::from_ranges(&entry.deleted));
        let stream = StreamJudgement {
            path: container.pod.path(),
            stream: entry.stream,
            written: entry.lines,
            deleted: missing.len() - lost.len(),
            lost: lost.ranges(),
            duplicated: report.map_or(0, |report| report.duplicates),
            reordered: report.map_or(0, |report| report.reordered),
            foreign: seen.missing_from(&written),
        };
        self.written += entry.lines;
        self.arrived += seen.common_with(&written);
        self.deleted += stream.deleted;
        self.lost += lost.len();
        self.foreign += stream.foreign;
        let flawless = missing.is_empty() && stream.duplicated + stream.reordered + stream.foreign == 0;
        if !flawless {
            self.streams.push(stream);
        }
    }
}

/// Judges what a sink received, and prints the judgement.
///
/// # Errors
/// A report cannot be read, or does not say which lines arrived.
pub(super) fn run(report: &Path, manifest: &Path) -> anyhow::Result<ExitCode> {
    let report_path = report;
    let report: SinkReport = files::read_json(report)?;
    let lines = report
        .log_lines
        .with_context(|| format!("{} says nothing about lines: weir sink needs --log-lines", report_path.display()))?;
    ensure!(
        lines.received == 0 || !lines.streams.is_empty(),
        "{} does not say which lines arrived: use weir sink --report, or GET /report?ids=1",
        report_path.display()
    );
    let judgement = judge(&files::read_json(manifest)?, &lines);
    printed(std::io::stdout().lock().write_all(render(&judgement).as_bytes()))?;
    Ok(if judgement.passes() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Most streams that are shown.
const SHOWN: usize = 20;
/// Most ranges of lost lines that are shown of each.
const RANGES: usize = 5;

/// The judgement for people: one row for all, and one for each stream that is not flawless, the worst first.
fn render(judgement: &LinesJudgement) -> String {
    let mut rows = vec![[
        "".to_owned(),
        "written".to_owned(),
        "lost".to_owned(),
        "deleted unread".to_owned(),
        "duplicated".to_owned(),
        "reordered".to_owned(),
        "foreign".to_owned(),
    ]];
    let counts = [
        judgement.written,
        judgement.lost,
        judgement.deleted,
        judgement.duplicated,
        judgement.reordered,
        judgement.foreign,
    ];
    rows.push(row("all", counts));
    let mut streams: Vec<&StreamJudgement> = judgement.streams.iter().collect();
    streams.sort_by_key(|stream| std::cmp::Reverse((!stream.lost.is_empty(), stream.reordered, stream.duplicated)));
    for stream in streams.iter().take(SHOWN) {
        let lost = IdSet::from_ranges(&stream.lost).len();
        let label = format!("{} {}", stream.path, stream.stream.name());
        rows.push(row(
            &label,
            [stream.written, lost, stream.deleted, stream.duplicated, stream.reordered, stream.foreign],
        ));
    }
    let mut out = layout(&rows);
    // Writing to a String cannot fail.
    if streams.len() > SHOWN {
        let _ = writeln!(out, "... and {} streams more", streams.len() - SHOWN);
    }
    for stream in streams.iter().filter(|stream| !stream.lost.is_empty()).take(SHOWN) {
        let ranges: Vec<String> =
            stream.lost.iter().take(RANGES).map(|(first, last)| format!("{first} to {last}")).collect();
        let more = if stream.lost.len() > RANGES { ", ..." } else { "" };
        let _ = writeln!(out, "lost: {} {}: {}{more}", stream.path, stream.stream.name(), ranges.join(", "));
    }
    let _ = writeln!(out, "damaged records: {}, records without a line: {}", judgement.damaged, judgement.unmarked);
    if !judgement.passes() {
        let _ = writeln!(out, "FAILED: {} lines lost, {} records damaged", judgement.lost, judgement.damaged);
    }
    out
}

/// A label and its counts.
type Row = [String; 7];

fn row(label: &str, counts: [u64; 6]) -> Row {
    let mut row = Row::default();
    row[0] = label.to_owned();
    for (cell, count) in row[1..].iter_mut().zip(counts) {
        *cell = count.to_string();
    }
    row
}

fn layout(rows: &[Row]) -> String {
    let mut widths = [0; 7];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let mut out = String::new();
    for row in rows {
        let _ = write!(out, "{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row[1..].iter().zip(&widths[1..]) {
            let _ = write!(out, "  {cell:>width$}");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests;
