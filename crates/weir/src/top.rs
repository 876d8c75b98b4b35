//! `weir top`: what a running process does, again and again: its pipelines with their rates, where they send, its memory, who
//! sends most, what changed, or how container logs are read.

mod changes;
mod destinations;
mod keys;
mod logs;
mod memory;
mod pipelines;
mod talkers;

use std::future;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep_until};
use weir_loadtest::output::is_read;

use crate::ask::{Admin, AskArgs, LOSSES, number, wrong_port};
use crate::cli::Format;
use crate::explain;
use crate::signals::Signals;
use crate::tables::{bytes, cut, legible, legible_json, table, time, whole_seconds};
use keys::Keys;
use pipelines::{Line, Sums};

const EXAMPLES: &str = "\
Examples:
  weir top                                   the process on this machine, until q or Ctrl-C
  weir top --once                            one table, for scripts and bug reports
  weir top --destinations                    how each backend stands, how soon it answers, and with which codes
  weir top --memory                          whether a request would be taken now, and who holds which part of the memory
  weir top --talkers                         which pods send most, and how large their items are
  weir top --changes                         what the self monitor said, the newest first
  weir top --logs                            how far container logs are read, and what is stuck or lost
  weir top --once --format json | jq '.[] | select(.lost > 0)'
  weir top --once --memory --format json | jq '.[0].admission.fits_bytes'     the largest request that fits now

In a terminal, the keys p, d, m, t, c and l switch between pipelines, destinations, memory, talkers, changes and logs; q
ends.

IN and OUT are items a second that were accepted and delivered, FILTERED those that rules removed, LOST all that were
dropped or rejected since the start, and PENDING what is owed to the backend. Whatever is not well stands first, and what
is wrong with it beneath the table, with the reasons for which it loses something now. `weir why PIPELINE` explains one of
them.

With --destinations, TAKEN is how long ago the backend took a request, AT ONCE how many requests are unanswered and how
many may be, and HALF IN and 99% IN are how soon it answered in the last 30 to 60 seconds. CREDENTIALS is how long ago the
process took up those that it sends now: headers, OAuth2, the client's certificate, or the CA. ANSWERS are all requests
since the start by the code of their answer.

With --memory, the numbers above the table add up to all of it: what is set aside for other things than telemetry, what
telemetry uses, and what is free for requests. Parts without a figure IN USE are limited by number: there can be no more of
these than have room.

With --talkers, ITEMS and BYTES are those since the first question, and BYTES/ITEM is the size of an average item with its
part of the resource.

With --changes, BEFORE is the state that a pipeline was in, and STATE the one that it went to. The process remembers the last
100 changes since its start.

With --logs, BEHIND is what is neither delivered nor in the journal yet, BEHIND FOR the age of the oldest of that, REMOVED, HELD
the size of files that are gone from their directory and not read to their end, and LOST what could not be read. What is stuck
stands first.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    admin: AskArgs,
    /// Time between two tables
    #[arg(long, default_value = "2s", value_parser = weir_units::parse_positive_duration, value_name = "DURATION")]
    interval: Duration,
    /// Show where data goes instead: how each backend stands, how soon it answered lately, and its answers by code
    #[arg(long, group = "topic")]
    destinations: bool,
    /// Show who holds the memory instead: what is free for requests, the parts of the budget, and what each pipeline holds
    #[arg(long, group = "topic")]
    memory: bool,
    /// Show who sends most instead: items and bytes of each namespace, pod and service since the first question
    #[arg(long, group = "topic")]
    talkers: bool,
    /// Show what changed instead: what the self monitor said of pipelines, the newest first
    #[arg(long, group = "topic")]
    changes: bool,
    /// Show how container logs are read instead: how far that is behind, what is lost, and what stuck ones wait for
    #[arg(long, group = "topic")]
    logs: bool,
    /// Print one table, over one interval, and end
    #[arg(long)]
    once: bool,
    /// How it is shown; as JSON, each time as an array
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
}

impl TopArgs {
    /// What it shows at first.
    fn topic(&self) -> Topic {
        let topics = [
            (self.destinations, Topic::Destinations),
            (self.memory, Topic::Memory),
            (self.talkers, Topic::Talkers),
            (self.changes, Topic::Changes),
            (self.logs, Topic::Logs),
        ];
        topics.into_iter().find(|(is_wanted, _)| *is_wanted).map_or(Topic::Pipelines, |(_, topic)| topic)
    }
}

/// What a table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    Pipelines,
    Destinations,
    Memory,
    Talkers,
    Changes,
    Logs,
}

impl Topic {
    /// What it needs beside what is asked in any case; null if that is nothing.
    fn ask(self, admin: &Admin) -> anyhow::Result<Value> {
        match self {
            Self::Pipelines => admin.get(LOSSES),
            Self::Destinations | Self::Memory => Ok(Value::Null),
            Self::Talkers => admin.get("/api/talkers"),
            Self::Changes => admin.get("/health/changes"),
            Self::Logs => admin.get("/logs"),
        }
    }
}

/// Each topic with the key that leads to it, and its name.
const TOPICS: [(u8, &str, Topic); 6] = [
    (b'p', "pipelines", Topic::Pipelines),
    (b'd', "destinations", Topic::Destinations),
    (b'm', "memory", Topic::Memory),
    (b't', "talkers", Topic::Talkers),
    (b'c', "changes", Topic::Changes),
    (b'l', "logs", Topic::Logs),
];

/// Those that a key leads to. Talkers are none of them when they would be forgotten between two questions.
fn offered(interval: Duration) -> impl Iterator<Item = (u8, &'static str, Topic)> {
    TOPICS.into_iter().filter(move |(.., topic)| *topic != Topic::Talkers || interval < TALKERS_FORGOTTEN)
}

/// The key that ends it.
const END: u8 = b'q';

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
    let (admin, format, topic) = (args.admin.admin()?, args.format, args.topic());
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(watch(args, Screen { admin, format, topic, before: None, now: None }))?;
    Ok(ExitCode::SUCCESS)
}

/// Looks, and shows what it sees, again and again. The first look says where counting begins, and is not shown.
async fn watch(args: &TopArgs, mut screen: Screen) -> anyhow::Result<()> {
    let redraws = io::stdout().is_terminal() && !args.once && args.format == Format::Text;
    screen.look()?;
    let mut signals = Signals::new()?;
    let mut keys = if redraws { Keys::of_terminal() } else { None };
    let mut next = Instant::now() + args.interval;
    loop {
        let looked = tokio::select! {
            () = signals.next() => return Ok(()),
            key = pressed(&mut keys) => match key {
                END => return Ok(()),
                key => screen.turn(key, args.interval),
            },
            // Whatever keys are pressed meanwhile.
            () = sleep_until(next) => {
                next = Instant::now() + args.interval;
                screen.look()
            }
        };
        match looked {
            Ok(()) => {}
            // It may be starting again, which is when one wants to go on looking.
            Err(error) if redraws => {
                writeln!(io::stdout(), "\n{}; asked again", explain(&error))?;
                continue;
            }
            Err(error) => return Err(error),
        }
        let room = if redraws { Room::of_terminal() } else { Room::ENDLESS };
        let shown = screen.show(room)?;
        let home = if redraws { HOME } else { "" };
        let hint = if keys.is_some() { hint(args.interval, room) } else { String::new() };
        let mut stdout = io::stdout().lock();
        let written = write!(stdout, "{home}").and_then(|()| stdout.write_all(&shown));
        let written = written.and_then(|()| write!(stdout, "{hint}")).and_then(|()| stdout.flush());
        if !is_read(written)? || args.once {
            return Ok(());
        }
    }
}

/// The next key that is pressed. Without a terminal there is none.
async fn pressed(keys: &mut Option<Keys>) -> u8 {
    match keys {
        Some(keys) => keys.next().await,
        None => future::pending().await,
    }
}

/// What keys do, for the line of the cursor, which stays in it.
fn hint(interval: Duration, room: Room) -> String {
    let topics = offered(interval).map(|(key, name, _)| (key, name));
    let keys = topics.chain([(END, "ends")]).map(|(key, name)| format!("{} {name}", char::from(key)));
    cut(keys.collect::<Vec<_>>().join("  "), Some(room.columns.saturating_sub(1)))
}

/// What a process said at one time.
struct Look {
    page: Value,
    health: Value,
    sums: Sums,
    /// What was asked for the topic alone.
    asked: Value,
}

/// What is asked, and shown of the answers.
struct Screen {
    admin: Admin,
    format: Format,
    topic: Topic,
    /// What was counted at the look before.
    before: Option<Sums>,
    now: Option<Look>,
}

impl Screen {
    fn look(&mut self) -> anyhow::Result<()> {
        let asked = self.topic.ask(&self.admin)?;
        let (page, health) = (now(&self.admin)?, self.admin.get("/health/pipelines")?);
        let sums = Sums::of(&page);
        self.before = self.now.replace(Look { page, health, sums, asked }).map(|look| look.sums);
        Ok(())
    }

    /// Shows the topic of a key, as of the last look: rates are over whole intervals.
    fn turn(&mut self, key: u8, interval: Duration) -> anyhow::Result<()> {
        let Some((.., topic)) = offered(interval).find(|(of, ..)| *of == key) else { return Ok(()) };
        let asked = topic.ask(&self.admin)?;
        self.topic = topic;
        if let Some(now) = &mut self.now {
            now.asked = asked;
        }
        Ok(())
    }

    fn show(&self, room: Room) -> anyhow::Result<Vec<u8>> {
        let mut out = Vec::new();
        let Some(Look { page, health, sums, asked }) = &self.now else { return Ok(out) };
        let lines = || pipelines::lines(page, health, self.before.as_ref().unwrap_or(sums), sums);
        if self.format == Format::Json {
            let json: Value = match self.topic {
                Topic::Pipelines => lines().iter().map(Line::as_json).collect(),
                Topic::Destinations => destinations::json(page),
                Topic::Memory => memory::json(page),
                Topic::Talkers => talkers::json(asked),
                Topic::Changes => changes::json(asked),
                Topic::Logs => logs::json(asked),
            };
            writeln!(out, "{}", legible_json(&json.to_string()))?;
            return Ok(out);
        }
        match self.topic {
            Topic::Pipelines => pipelines::text(&mut out, page, &lines(), asked, room)?,
            Topic::Destinations => destinations::text(&mut out, page, room)?,
            Topic::Memory => memory::text(&mut out, page, room)?,
            Topic::Talkers => talkers::text(&mut out, asked, room)?,
            Topic::Changes => changes::text(&mut out, page, asked, room)?,
            Topic::Logs => logs::text(&mut out, asked, room)?,
        }
        Ok(out)
    }
}

fn now(admin: &Admin) -> anyhow::Result<Value> {
    let page = admin.get("/api/now")?;
    page["pipelines"].is_array().then_some(page).with_context(|| wrong_port("/api/now shows no pipelines"))
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

/// A table with as many rows as there is room for, and words beneath. These have a third of the room at most, if there are
/// rows for the rest.
fn rows_and_words<const N: usize>(
    out: &mut Vec<u8>,
    head: [&str; N],
    rows: &[[String; N]],
    words: impl Iterator<Item = String>,
    mut room: Room,
) -> io::Result<()> {
    let columns = columns(room);
    room.rows = room.rows.saturating_sub(BESIDE_ROWS);
    let mut below = Room { rows: room.rows / 3, ..room };
    below.rows = below.rows.max(room.rows.saturating_sub(rows.len()));
    let whole = below.rows;
    let told: Vec<_> = words.take_while(|line| below.take("") && below.take(line)).collect();
    draw(out, head, rows, room.rows - (whole - below.rows), columns)?;
    told.iter().try_for_each(|line| writeln!(out, "\n{line}"))
}

/// A table that is as wide as the terminal, of so many rows at most, and how many are left out.
fn draw<const N: usize>(
    out: &mut Vec<u8>,
    head: [&str; N],
    rows: &[[String; N]],
    most: usize,
    columns: Option<usize>,
) -> io::Result<()> {
    let shown = rows.len().min(most.max(1));
    let mut drawn = Vec::new();
    table(&mut drawn, head, rows[..shown].iter().cloned())?;
    let drawn = String::from_utf8_lossy(&drawn);
    drawn.lines().try_for_each(|line| writeln!(out, "{}", cut(line.to_owned(), columns)))?;
    if shown < rows.len() {
        writeln!(out, "and {} more", rows.len() - shown)?;
    }
    Ok(())
}

fn heading(page: &Value) -> String {
    let memory = &page["memory"];
    let used = memory["parts"].as_array().into_iter().flatten().map(|part| number(&part["used_bytes"])).sum();
    let uptime = page["uptime_seconds"].as_f64().map_or(0, whole_seconds);
    let journal = &page["journal"];
    // Processes of older versions do not say it, and some disks do not.
    let room = journal["disk_free_bytes"].as_u64().map_or_else(String::new, |of| format!(" (room for {})", bytes(of)));
    format!(
        "weir {}, up {}, {}: {} of {} memory in use, {} on the disk{room}, {} clients",
        words(&page["version"]),
        time(uptime),
        words(&page["health"]),
        bytes(used),
        bytes(number(&memory["total_bytes"])),
        bytes(number(&journal["disk_bytes"])),
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
