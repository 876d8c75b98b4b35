//! How fast the journal appends, reads back and recovers, beside what the disk does by itself.
//!
//! `cargo run --release -p weir-journal --example throughput -- [DIR [GIB]]`, where DIR is on the disk in question; without
//! it the system's directory for temporary files is used. It writes at most 2.2 GB at a time into a directory of its own,
//! which it removes. With GIB, a backlog of that size is all that is measured, and how much of it stays in the system's
//! memory. Nothing is asserted; the table is for docs/benchmarks.md.

use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::time::{ClockId, clock_gettime};
use weir_journal::{Durability, Journal, NewEntry, Options, Order, OsFs, Owed, Writer, open};

const MB: f64 = 1e6;
/// The engine's.
const OPTIONS: Options = Options { segment_bytes: 32 << 20, seed: 1 };
/// A series of appends ends after this time or this many bytes.
const SERIES: Duration = Duration::from_secs(5);
const SERIES_BYTES: u64 = 1 << 30;
const BACKLOG_BYTES: u64 = 1 << 30;
const TAKE_BYTES: usize = 4 << 20;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Entries of a group, and bytes of an entry.
const SHAPES: [(usize, usize); 5] = [(1, 2 << 10), (1, 256 << 10), (64, 2 << 10), (64, 16 << 10), (16, 256 << 10)];

/// Something measured.
struct Run {
    what: String,
    bytes: u64,
    calls: u64,
    wall: Duration,
    cpu: Duration,
}

/// Measures from here on.
struct Watch {
    wall: Instant,
    cpu: Duration,
}

impl Watch {
    fn start() -> Self {
        Self { wall: Instant::now(), cpu: cpu() }
    }

    fn stop(self, what: String, bytes: u64, calls: u64) -> Run {
        Run { what, bytes, calls, wall: self.wall.elapsed(), cpu: cpu() - self.cpu }
    }
}

fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

fn main() -> Outcome<()> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let scratch = Scratch(parent.join(format!("weir-journal-throughput-{}", std::process::id())));
    fs::create_dir_all(&scratch.0)?;
    let mut out = io::stdout().lock();
    if let Some(gib) = std::env::args().nth(2) {
        return large_backlog(&scratch.0.join("journal"), gib.parse::<u64>()? << 30, &mut out);
    }
    writeln!(out, "| what | MB/s | MB per CPU second | calls/s | ms per call |\n|---|--:|--:|--:|--:|")?;
    for (entries, bytes) in SHAPES {
        raw(&scratch.0, entries * bytes)?.print(&mut out)?;
        append(&scratch.0.join("journal"), entries, bytes)?.print(&mut out)?;
    }
    for bytes in [2 << 10, 256 << 10] {
        for run in backlog(&scratch.0.join("journal"), bytes)? {
            run.print(&mut out)?;
        }
    }
    Ok(())
}

/// Removed with what is in it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            let _ = writeln!(io::stderr(), "cannot remove {}: {error}", self.0.display());
        }
    }
}

impl Run {
    #[expect(clippy::cast_precision_loss, reason = "a table for people")]
    fn print(&self, out: &mut impl io::Write) -> io::Result<()> {
        let (bytes, calls) = (self.bytes as f64, self.calls as f64);
        let (wall, cpu) = (self.wall.as_secs_f64(), self.cpu.as_secs_f64().max(1e-9));
        let per_call = wall * 1e3 / calls;
        let Self { what, .. } = self;
        writeln!(
            out,
            "| {what} | {:.0} | {:.0} | {:.0} | {per_call:.3} |",
            bytes / MB / wall,
            bytes / MB / cpu,
            calls / wall
        )
    }
}

/// Writes into reserved room and syncs as the journal does, without a journal.
fn raw(dir: &Path, bytes: usize) -> Outcome<Run> {
    let path = dir.join("raw");
    let file = fs::File::create_new(&path)?;
    fallocate(&file, FallocateFlags::empty(), 0, SERIES_BYTES)?;
    let payload = vec![7; bytes];
    let watch = Watch::start();
    let (mut written, mut calls) = (0, 0);
    while written < SERIES_BYTES && watch.wall.elapsed() < SERIES {
        file.write_all_at(&payload, written)?;
        file.sync_data()?;
        written += bytes as u64;
        calls += 1;
    }
    let run = watch.stop(format!("the disk: write and fdatasync of {}", size(bytes)), written, calls);
    fs::remove_file(path)?;
    Ok(run)
}

fn append(dir: &Path, entries: usize, bytes: usize) -> Outcome<Run> {
    let (mut writer, journal) = start(dir)?;
    let watch = Watch::start();
    let (written, calls) = fill(&mut writer, &journal, Shape { entries, bytes, durability: Durability::Synced })?;
    let what = format!("append, synced, groups of {entries} x {}", size(bytes));
    let run = watch.stop(what, written, calls);
    drop((writer, journal));
    fs::remove_dir_all(dir)?;
    Ok(run)
}

struct Shape {
    entries: usize,
    bytes: usize,
    durability: Durability,
}

/// Appends until the series ends; bytes and groups.
fn fill(writer: &mut Writer, journal: &Journal, shape: Shape) -> Outcome<(u64, u64)> {
    let Shape { entries, bytes, durability } = shape;
    let owed = [Owed { queue: journal.queue("traces/a"), taken: false }];
    let payload = [Bytes::from(vec![7; bytes])];
    let group = vec![NewEntry { payload: &payload, items: 1, owed: &owed }; entries];
    let (mut written, mut calls, start) = (0, 0, Instant::now());
    while written < SERIES_BYTES && (durability == Durability::Written || start.elapsed() < SERIES) {
        writer.append(&group, 1_700_000_000_000, durability)?;
        written += (entries * bytes) as u64;
        calls += 1;
    }
    Ok((written, calls))
}

/// Recovers a gigabyte and reads it back.
fn backlog(dir: &Path, bytes: usize) -> Outcome<Vec<Run>> {
    let entries = (1 << 20) / bytes;
    let mut runs = Vec::new();
    let (mut writer, journal) = start(dir)?;
    let watch = Watch::start();
    let (written, calls) = fill(&mut writer, &journal, Shape { entries, bytes, durability: Durability::Written })?;
    assert!(written >= BACKLOG_BYTES, "filled without a limit in time");
    runs.push(watch.stop(format!("append, not synced, groups of {entries} x {}", size(bytes)), written, calls));
    drop((writer, journal));

    let watch = Watch::start();
    let (mut writer, journal) = start(dir)?;
    runs.push(watch.stop(format!("recovery of 1 GiB of {}", size(bytes)), written, 1));

    let watch = Watch::start();
    let (read, calls) = drain(&journal)?;
    writer.tidy()?;
    runs.push(watch.stop(format!("take and complete 4 MiB of {} at a time, delete", size(bytes)), read, calls));
    assert!(read == written && journal.stats().segments == 0, "everything is read and gone");
    drop((writer, journal));
    fs::remove_dir_all(dir)?;
    Ok(runs)
}

/// Fills the journal with synced groups of a mebibyte, recovers, and reads everything back.
fn large_backlog(dir: &Path, bytes: u64, out: &mut impl io::Write) -> Outcome<()> {
    writeln!(out, "| what | MB/s | MB per CPU second | calls/s | ms per call |\n|---|--:|--:|--:|--:|")?;
    let before = page_cache()?;
    let (mut writer, journal) = start(dir)?;
    let owed = [Owed { queue: journal.queue("traces/a"), taken: false }];
    let payload = [Bytes::from(vec![7; 64 << 10])];
    let group = [NewEntry { payload: &payload, items: 1, owed: &owed }; 16];
    let watch = Watch::start();
    let calls = bytes >> 20;
    for _ in 0..calls {
        writer.append(&group, 1_700_000_000_000, Durability::Synced)?;
    }
    watch.stop("append, synced, groups of 16 x 64 KiB".to_owned(), bytes, calls).print(out)?;
    writeln!(out, "| page cache grew by {} MB |", page_cache()?.saturating_sub(before) / 1_000_000)?;
    drop((writer, journal));
    let watch = Watch::start();
    let (mut writer, journal) = start(dir)?;
    watch.stop("recovery".to_owned(), bytes, 1).print(out)?;
    let watch = Watch::start();
    let (read, calls) = drain(&journal)?;
    watch.stop("take and complete 4 MiB at a time".to_owned(), read, calls).print(out)?;
    writeln!(out, "| page cache grew by {} MB |", page_cache()?.saturating_sub(before) / 1_000_000)?;
    Ok(writer.tidy()?)
}

/// Bytes of files that the system has in memory.
fn page_cache() -> Outcome<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Cached:")).ok_or("no Cached in /proc/meminfo")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

/// Takes and completes everything; bytes and calls.
fn drain(journal: &Journal) -> Outcome<(u64, u64)> {
    let queue = journal.queue("traces/a");
    let (mut read, mut calls) = (0, 0);
    loop {
        let taken = journal.take(queue, Order::Oldest, TAKE_BYTES, &mut |_| true)?;
        if taken.entries.is_empty() {
            return Ok((read, calls));
        }
        for (entry, range) in &taken.entries {
            read += range.len() as u64;
            journal.complete(queue, entry);
        }
        calls += 1;
    }
}

fn start(dir: &Path) -> Outcome<(Writer, Arc<Journal>)> {
    let (writer, journal, _) = open(Arc::new(OsFs::open(dir)?), OPTIONS)?;
    Ok((writer, journal))
}

fn size(bytes: usize) -> String {
    if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}
