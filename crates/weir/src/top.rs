//! `weir top`: every pipeline of a running process with its rates, or who sends most, again and again.

mod talkers;

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use weir_loadtest::output::is_read;

use crate::admin::{Admin, AdminArgs, number, sum};
use crate::explain;
use crate::tables::{bytes, cut, legible, legible_json, table, time, whole_seconds};
use talkers::Talkers;

const EXAMPLES: &str = "\
Examples:
  weir top                                   the process on this machine, until Ctrl-C
  weir top --once                            one table, for scripts and bug reports
  weir top --talkers                         which pods send most, and how large their items are
  weir top --once --format json | jq '.[] | select(.lost > 0)'

IN and OUT are items a second that were accepted and delivered, FILTERED those that rules removed, LOST all that were
dropped or rejected since the start, and PENDING what is owed to the backend. Whatever is not well stands first, and what
is wrong with it beneath the table. `weir why PIPELINE` explains one of them.

With --talkers, ITEMS and BYTES are those since the first question, and BYTES/ITEM is the size of an average item with its
part of the resource.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Time between two tables
    #[arg(long, default_value = "2s", value_parser = weir_units::parse_positive_duration, value_name = "DURATION")]
    interval: Duration,
    /// Show who sends most instead: items and bytes of each namespace, pod and service since the first question
    #[arg(long)]
    talkers: bool,
    /// Print one table, over one interval, and end
    #[arg(long)]
    once: bool,
    /// How it is shown
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table
    Text,
    /// A JSON array for each table
    Json,
}

/// The process counts talkers for so long after a question.
const TALKERS_FORGOTTEN: Duration = Duration::from_secs(30);
/// Lines beside the rows of a table: the heading, an empty line, the head of the table, how many are left out, and the line
/// of the cursor.
const BESIDE_ROWS: usize = 5;
/// Moves a terminal's cursor to its first line, and clears from there.
const HOME: &str = "\x1b[H\x1b[J";

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    if args.talkers && args.interval >= TALKERS_FORGOTTEN {
        bail!("talkers are forgotten when nobody asks for 30 s: use --interval 20s or less with --talkers");
    }
    let admin = args.admin.admin()?;
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let (mut before, format) = (None, args.format);
    let mut frame = |out: &mut Vec<u8>, room| match args.talkers {
        true => talkers(&admin, format, (out, room)),
        false => pipelines(&admin, format, &mut before, (out, room)),
    };
    runtime.block_on(watch(args, &mut frame))?;
    Ok(ExitCode::SUCCESS)
}

/// Shows what `frame` makes, again and again. The first one says where counting begins, and is not shown.
async fn watch(args: &TopArgs, frame: &mut dyn FnMut(&mut Vec<u8>, Room) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let redraws = io::stdout().is_terminal() && !args.once && args.format == Format::Text;
    frame(&mut Vec::new(), Room::ENDLESS)?;
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            () = tokio::time::sleep(args.interval) => {}
        }
        let mut out = Vec::new();
        match frame(&mut out, if redraws { Room::of_terminal() } else { Room::ENDLESS }) {
            Ok(()) => {}
            // It may be starting again, which is when one wants to go on looking.
            Err(error) if redraws => {
                writeln!(io::stdout(), "\n{}; asked again", explain(&error))?;
                continue;
            }
            Err(error) => return Err(error),
        }
        let home = if redraws { HOME } else { "" };
        let mut stdout = io::stdout().lock();
        let written = write!(stdout, "{home}").and_then(|()| stdout.write_all(&out)).and_then(|()| stdout.flush());
        if !is_read(written)? || args.once {
            return Ok(());
        }
    }
}

fn pipelines(
    admin: &Admin,
    format: Format,
    before: &mut Option<Sums>,
    (out, room): (&mut Vec<u8>, Room),
) -> anyhow::Result<()> {
    let (page, health) = (now(admin)?, admin.get("/health/pipelines")?);
    let sums = Sums::of(&page);
    let lines = lines(&page, &health, before.as_ref().unwrap_or(&sums), &sums);
    match format {
        Format::Json => writeln!(out, "{}", Value::from(lines.iter().map(Line::as_json).collect::<Vec<_>>()))?,
        Format::Text => text(out, &page, &lines, room)?,
    }
    *before = Some(sums);
    Ok(())
}

fn talkers(admin: &Admin, format: Format, (out, room): (&mut Vec<u8>, Room)) -> anyhow::Result<()> {
    let talkers = Talkers::ask(admin)?;
    match format {
        Format::Json => writeln!(out, "{}", legible_json(&talkers.json().to_string()))?,
        Format::Text => talkers.text(out, room)?,
    }
    Ok(())
}

fn now(admin: &Admin) -> anyhow::Result<Value> {
    let page = admin.get("/api/now")?;
    page["pipelines"].is_array().then_some(page).context("/api/now shows no pipelines: is it the admin port of weir?")
}

/// Rows and columns to write in.
#[derive(Debug, Clone, Copy)]
struct Room {
    rows: usize,
    columns: usize,
}

impl Room {
    const ENDLESS: Self = Self { rows: usize::MAX, columns: usize::MAX };
    /// For a terminal of no known size, or a tiny one.
    const LEAST: Self = Self { rows: 8, columns: 20 };

    fn of_terminal() -> Self {
        let Ok(size) = rustix::termios::tcgetwinsize(io::stdout()) else { return Self { rows: 24, columns: 80 } };
        let Self { rows, columns } = Self::LEAST;
        Self { rows: usize::from(size.ws_row).max(rows), columns: usize::from(size.ws_col).max(columns) }
    }

    /// Takes what a line needs; false without room for it.
    fn take(&mut self, line: &str) -> bool {
        let rows = line.chars().count().div_ceil(self.columns).max(1);
        let fits = rows <= self.rows;
        self.rows -= if fits { rows } else { 0 };
        fits
    }
}

/// What was counted of each pipeline at a time.
struct Sums {
    at: Instant,
    /// Accepted, delivered, filtered items; accepted and delivered bytes.
    of: HashMap<String, [u64; 5]>,
}

impl Sums {
    fn of(page: &Value) -> Self {
        let all = page["pipelines"].as_array().into_iter().flatten().map(|pipeline| {
            let books = &pipeline["books"];
            let items = [number(&books["accepted"]), number(&books["delivered"]), sum(&books["filtered"])];
            let bytes = ["accepted_bytes", "delivered_bytes"].map(|field| number(&pipeline[field]));
            let ([accepted, delivered, filtered], [bytes_in, bytes_out]) = (items, bytes);
            (words(&pipeline["pipeline"]), [accepted, delivered, filtered, bytes_in, bytes_out])
        });
        Self { at: Instant::now(), of: all.collect() }
    }
}

/// A pipeline.
struct Line {
    pipeline: String,
    state: String,
    /// What the backend did last.
    backend: String,
    message: Option<String>,
    /// Accepted, delivered and filtered items a second.
    rates: [f64; 3],
    /// Accepted and delivered bytes a second, before compression.
    byte_rates: [u64; 2],
    lost: u64,
    pending: u64,
    pending_bytes: u64,
    oldest_seconds: u64,
}

impl Line {
    fn as_json(&self) -> Value {
        let Self { pipeline, state, backend, message, rates, byte_rates, lost, pending, pending_bytes, oldest_seconds } =
            self;
        let [bytes_in, bytes_out] = byte_rates;
        let [accepted, delivered, filtered] = rates.map(|rate| (rate * 10.0).round() / 10.0);
        json!({
            "pipeline": pipeline, "state": state, "backend": backend, "message": message, "accepted_per_second": accepted,
            "delivered_per_second": delivered, "filtered_per_second": filtered,
            "accepted_bytes_per_second": bytes_in, "delivered_bytes_per_second": bytes_out, "lost": lost, "pending": pending,
            "pending_bytes": pending_bytes, "oldest_seconds": oldest_seconds,
        })
    }

    /// A trouble is told when it has lasted for some seconds. Until then the backend's last answer says that something waits.
    fn waits(&self) -> bool {
        self.backend != "ok" && self.pending > 0
    }

    fn is_well(&self) -> bool {
        self.state == "healthy" && !self.waits()
    }

    fn word(&self) -> String {
        let is_new = self.state == "healthy" && self.waits();
        if is_new { format!("backend {}", self.backend) } else { self.state.clone() }
    }

    fn row(&self) -> [String; 11] {
        let Self { pipeline, rates: [accepted, delivered, filtered], lost, .. } = self;
        let [bytes_in, bytes_out] = self.byte_rates.map(|rate| if rate == 0 { "-".to_owned() } else { bytes(rate) });
        let rate = |rate: &f64| if *rate == 0.0 { "-".to_owned() } else { format!("{rate:.0}") };
        let age = if self.pending == 0 { "-".to_owned() } else { time(self.oldest_seconds) };
        let [accepted, delivered, filtered] = [accepted, delivered, filtered].map(rate);
        let (pending, size) = (self.pending.to_string(), bytes(self.pending_bytes));
        let lost = lost.to_string();
        [pipeline.clone(), self.word(), accepted, bytes_in, delivered, bytes_out, filtered, lost, pending, size, age]
    }
}

fn lines(page: &Value, health: &Value, before: &Sums, now: &Sums) -> Vec<Line> {
    let since = now.at.duration_since(before.at).max(Duration::from_millis(1));
    let (seconds, millis) = (since.as_secs_f64(), u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    let verdicts = health.as_array().into_iter().flatten();
    let verdicts: HashMap<&str, &Value> = verdicts.filter_map(|of| Some((of["pipeline"].as_str()?, of))).collect();
    let line = |pipeline: &Value| {
        let (name, books) = (words(&pipeline["pipeline"]), &pipeline["books"]);
        let sums = now.of.get(&name).copied().unwrap_or_default();
        let old = before.of.get(&name).copied().unwrap_or(sums);
        let grown = |of: usize| sums[of].saturating_sub(old[of]);
        let rate = |of| grown(of) as f64 / seconds;
        let verdict = verdicts.get(name.as_str());
        let message = verdict.and_then(|of| of["message"].as_str());
        Line {
            state: verdict.map_or_else(|| "-".to_owned(), |of| words(&of["state"])),
            backend: words(&pipeline["backend"]["state"]),
            message: message.map(str::to_owned),
            rates: [0, 1, 2].map(rate),
            byte_rates: [3, 4].map(|of| grown(of).saturating_mul(1000) / millis),
            lost: sum(&books["dropped"]).saturating_add(sum(&books["rejected"])),
            pending: number(&books["pending"]),
            pending_bytes: number(&pipeline["pending_bytes"]),
            oldest_seconds: pipeline["oldest_seconds"].as_f64().map_or(0, whole_seconds),
            pipeline: name,
        }
    };
    let mut lines: Vec<_> = page["pipelines"].as_array().into_iter().flatten().map(line).collect();
    lines.sort_by_key(Line::is_well);
    lines
}

/// As many lines as there is room for, with what is wrong beneath. That has a third of it at most, if there is more.
fn text(out: &mut Vec<u8>, page: &Value, lines: &[Line], mut room: Room) -> io::Result<()> {
    let head = heading(page);
    let columns = columns(room);
    writeln!(out, "{}", cut(head, columns))?;
    let error = page["configuration"]["error"].as_str();
    let error = error.map(|error| format!("The newest configuration is not used: {}", legible(error)));
    let wrong = lines.iter().filter_map(|line| Some(format!("{}: {}", line.pipeline, legible(line.message.as_ref()?))));
    room.rows = room.rows.saturating_sub(BESIDE_ROWS);
    let mut below = Room { rows: room.rows / 3, ..room };
    below.rows = below.rows.max(room.rows.saturating_sub(lines.len()));
    let whole = below.rows;
    let told: Vec<_> = error.into_iter().chain(wrong).take_while(|line| below.take("") && below.take(line)).collect();
    let shown = lines.len().min((room.rows - (whole - below.rows)).max(1));
    let head = [
        "pipeline",
        "state",
        "in/s",
        "in B/s",
        "out/s",
        "out B/s",
        "filtered/s",
        "lost",
        "pending",
        "waiting",
        "oldest",
    ];
    draw(out, head, lines[..shown].iter().map(Line::row), columns)?;
    if shown < lines.len() {
        writeln!(out, "and {} more", lines.len() - shown)?;
    }
    told.iter().try_for_each(|line| writeln!(out, "\n{line}"))
}

/// A table that is as wide as the terminal.
fn draw<const N: usize>(
    out: &mut Vec<u8>,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    columns: Option<usize>,
) -> io::Result<()> {
    let mut drawn = Vec::new();
    table(&mut drawn, head, rows)?;
    let drawn = String::from_utf8_lossy(&drawn);
    drawn.lines().try_for_each(|line| writeln!(out, "{}", cut(line.to_owned(), columns)))
}

fn heading(page: &Value) -> String {
    let memory = &page["memory"];
    let used = memory["parts"].as_array().into_iter().flatten().map(|part| number(&part["used_bytes"])).sum();
    let uptime = page["uptime_seconds"].as_f64().map_or(0, whole_seconds);
    format!(
        "weir {}, up {}, {}: {} of {} memory in use, {} on the disk, {} clients",
        words(&page["version"]),
        time(uptime),
        words(&page["health"]),
        bytes(used),
        bytes(number(&memory["total_bytes"])),
        bytes(number(&page["journal"]["disk_bytes"])),
        number(&page["connections"]),
    )
}

/// Where lines are cut.
fn columns(room: Room) -> Option<usize> {
    Some(room.columns).filter(|columns| *columns < usize::MAX)
}

fn words(of: &Value) -> String {
    legible(of.as_str().unwrap_or("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(accepted: u64, delivered: u64) -> Value {
        let pipeline = |name: &str, pending: u64| {
            let backend = if name == "traces/c" { "refused" } else { "ok" };
            json!({"pipeline": name, "accepted_bytes": 1024 * accepted, "delivered_bytes": 100 * delivered, "pending_bytes": 2048, "oldest_seconds": 61.2, "backend": {"state": backend}, "books": {
                "accepted": accepted, "delivered": delivered, "filtered": {"filter": 5}, "dropped": {"overflow": 2},
                "rejected": {"400": 1}, "pending": pending}})
        };
        json!({"version": "1", "uptime_seconds": 3.0, "health": "ready", "connections": 1,
            "memory": {"total_bytes": 1024, "parts": [{"used_bytes": 512}]}, "journal": {"disk_bytes": 0},
            "configuration": {"error": null}, "pipelines": [pipeline("traces/a", 0), pipeline("traces/b", 7), pipeline("traces/c", 7)]})
    }

    #[test]
    fn what_is_wrong_comes_first_and_is_explained() {
        let health = json!([{"pipeline": "traces/a", "state": "healthy"}, {"pipeline": "traces/c", "state": "healthy"},
            {"pipeline": "traces/b", "state": "nothing_delivered", "message": "Nothing was delivered."}]);
        let before = Sums::of(&page(0, 0));
        let now = Sums { at: before.at + Duration::from_secs(2), of: Sums::of(&page(200, 100)).of };
        let mut out = Vec::new();
        text(&mut out, &page(200, 100), &lines(&page(200, 100), &health, &before, &now), Room::ENDLESS).unwrap();
        let expected = "\
weir 1, up 3s, ready: 512 B of 1.0 KiB memory in use, 0 B on the disk, 1 clients

PIPELINE              STATE  IN/S     IN B/S  OUT/S  OUT B/S  FILTERED/S  LOST  PENDING  WAITING  OLDEST
traces/b  nothing_delivered   100  100.0 KiB     50  4.9 KiB           -     3        7  2.0 KiB   1m01s
traces/c    backend refused   100  100.0 KiB     50  4.9 KiB           -     3        7  2.0 KiB   1m01s
traces/a            healthy   100  100.0 KiB     50  4.9 KiB           -     3        0  2.0 KiB       -

traces/b: Nothing was delivered.
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    /// Nothing scrolls out of a small terminal.
    #[test]
    fn there_are_no_more_rows_than_a_terminal_has() {
        let pipeline = |number: usize| json!({"pipeline": format!("traces/{number}"), "books": {}});
        let verdict = |number: usize| {
            json!({"pipeline": format!("traces/{number}"), "state": "nothing_delivered",
            "message": "Nothing was delivered. ".repeat(20)})
        };
        for (pipelines, rows, columns) in [(3, 24, 80), (50, 24, 80), (2, 8, 40), (1, 60, 200), (30, 10, 100)] {
            let mut page = page(1, 1);
            page["pipelines"] = (0..pipelines).map(pipeline).collect();
            let health = (0..pipelines).map(verdict).collect();
            let sums = Sums::of(&page);
            let mut out = Vec::new();
            text(&mut out, &page, &lines(&page, &health, &sums, &sums), Room { rows, columns }).unwrap();
            let out = String::from_utf8(out).unwrap();
            let taken: usize = out.lines().map(|line| line.chars().count().div_ceil(columns).max(1)).sum();
            assert!(taken < rows, "{taken} of {rows} rows:\n{out}");
        }
    }
}
