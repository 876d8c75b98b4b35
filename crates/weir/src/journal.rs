//! `weir journal`: shows what is in a data directory, checks it, and writes it out.
//!
//! Everything here only reads, takes no lock, and may be used while a gateway writes to the same directory.

mod export;
mod progress;
mod report;

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use weir_journal::{Depth, Fs, Inspection, OsFs};
use weir_loadtest::output::printed;

use crate::cli::Format;
use crate::data_dir;
use crate::limits;
use progress::Watched;

/// A file that a journal's directory has even when nothing waits in it.
const LOCK: &str = "LOCK";

const EXAMPLES: &str = "\
Examples:
  weir journal inspect ~/.local/state/weir
  weir journal verify /var/lib/weir && echo sound
  weir journal export /var/lib/weir --pipeline backend | jq .resourceSpans
  weir journal export /var/lib/weir --pipeline backend --format protobuf --output backlog.binpb

DATA_DIR is the directory given to `weir run --data-dir`. All commands only read it, and may be used while a gateway runs.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct JournalArgs {
    #[command(subcommand)]
    command: JournalCommand,
}

#[derive(Subcommand, Debug)]
enum JournalCommand {
    /// Show segments, what waits for each pipeline and for how long, and damage
    Inspect(InspectArgs),
    /// Check every checksum: exit code 1 and a list if there is damage
    Verify(VerifyArgs),
    /// Write out what waits for a pipeline, oldest first: exit code 1 if any of it cannot be had
    Export(ExportArgs),
}

#[derive(Args, Debug)]
struct InspectArgs {
    /// The data directory
    #[arg(value_name = "DATA_DIR")]
    dir: PathBuf,
    /// How it is shown
    // The name of before, for scripts.
    #[arg(long, alias = "output", value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
}

#[derive(Args, Debug)]
struct VerifyArgs {
    /// The data directory
    #[arg(value_name = "DATA_DIR")]
    dir: PathBuf,
}

#[derive(Args, Debug)]
struct ExportArgs {
    /// The data directory
    #[arg(value_name = "DATA_DIR")]
    dir: PathBuf,
    /// The pipeline, for example `backend` or `traces/backend`
    #[arg(long, value_name = "NAME")]
    pipeline: String,
    /// How requests are written
    #[arg(long, value_enum, default_value_t = ExportFormat::Json, value_name = "FORMAT")]
    format: ExportFormat,
    /// File to write to; one that is there is replaced [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// One OTLP/JSON request per line
    Json,
    /// Requests one after the other, each behind its length as a varint
    Protobuf,
}

/// Runs one of the commands.
pub(crate) fn run(args: &JournalArgs) -> anyhow::Result<ExitCode> {
    // Every segment of a long backlog is opened at the same time.
    limits::raise_file_limit();
    match &args.command {
        JournalCommand::Inspect(args) => inspect(args),
        JournalCommand::Verify(args) => verify(args),
        JournalCommand::Export(args) => export::export(args),
    }
}

fn inspect(args: &InspectArgs) -> anyhow::Result<ExitCode> {
    let journal = Journal::open(&args.dir, true)?;
    let inspection = journal.inspect(Depth::Headers)?;
    let mut out = io::stdout().lock();
    printed(match args.format {
        Format::Text => report::text(&mut out, &journal.path, &inspection),
        Format::Json => report::json(&mut out, &journal.path, &inspection),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn verify(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let journal = Journal::open(&args.dir, true)?;
    let inspection = journal.inspect(Depth::Payloads)?;
    printed(report::verdict(&mut io::stdout().lock(), &journal.path, &inspection))?;
    Ok(if inspection.damage.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A journal that is only looked at.
struct Journal {
    path: PathBuf,
    fs: Watched,
}

impl Journal {
    /// Opens the journal of a data directory, or says why there is none.
    fn open(dir: &Path, show_progress: bool) -> anyhow::Result<Self> {
        let shown = dir.display();
        let found = fs::metadata(dir).with_context(|| format!("cannot find the data directory {shown}"))?;
        if !found.is_dir() {
            bail!("{shown} is not a directory: give the one that `weir run --data-dir` uses");
        }
        let path = data_dir::journal_dir(dir);
        let fs = OsFs::read_only(&path).with_context(|| unreadable(&path))?;
        let names = fs.list().with_context(|| unreadable(&path))?;
        if !path.join(LOCK).exists() && !names.iter().any(|name| name.ends_with(".seg")) {
            bail!("there is no journal in {shown}: give the directory that `weir run --data-dir` uses");
        }
        Ok(Self { path, fs: Watched::new(fs, show_progress && io::stderr().is_terminal()) })
    }

    fn inspect(&self, depth: Depth) -> anyhow::Result<Inspection> {
        let inspection = weir_journal::inspect(&self.fs, depth);
        self.fs.clear();
        inspection.with_context(|| unreadable(&self.path))
    }
}

fn unreadable(path: &Path) -> String {
    format!("cannot read the journal in {}", path.display())
}
