//! `weir logs`: how much of the containers' output is unread.
//!
//! Everything here only reads, takes no lock, and may be used while a gateway reads the same containers.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use weir_loadtest::output::printed;
use weir_sources::tail::{self, ContainerStatus};

use crate::cli::Format;
use crate::container_logs::DIRECTORY;
use crate::data_dir;
use crate::tables::{bytes, count, table, time, whole_seconds};

const EXAMPLES: &str = "\
Examples:
  weir logs status /var/lib/weir                   the unread output of each container
  weir logs status /var/lib/weir --format json | jq '.[] | select(.bytes_behind > 0)'

DATA_DIR is the directory given to `weir run --data-dir`. This command only reads files, and works while a gateway runs.
A container without a checkpoint is new, or no pipeline wants it. Nobody can tell which from the files, so the first line
of the table has the output of such containers apart; in the JSON, they have `known: false`.
/logs on the admin port of the gateway also shows losses, rotations, and what a container waits for; `weir top --logs` asks it.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogsArgs {
    #[command(subcommand)]
    command: LogsCommand,
}

#[derive(Subcommand, Debug)]
enum LogsCommand {
    /// Show, for each container, how much of its output is not delivered or in the journal yet, and how old that is
    Status(StatusArgs),
}

#[derive(Args, Debug)]
struct StatusArgs {
    /// The data directory
    data_dir: PathBuf,
    /// Directory of the log files of all pods of this node
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    pod_logs: PathBuf,
    /// How it is shown
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
}

/// Runs one of the commands.
pub(crate) fn run(args: &LogsArgs) -> anyhow::Result<ExitCode> {
    let LogsCommand::Status(args) = &args.command;
    let shown = args.data_dir.display();
    let found = fs::metadata(&args.data_dir).with_context(|| format!("cannot find the data directory {shown}"))?;
    if !found.is_dir() {
        bail!("{shown} is not a directory: give the one that `weir run --data-dir` uses");
    }
    let containers = tail::inspect(&data_dir::logs_dir(&args.data_dir), &args.pod_logs)?;
    let mut out = BufWriter::new(io::stdout().lock());
    printed(match args.format {
        Format::Text => text(&mut out, &containers),
        Format::Json => json(&mut out, &containers),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The output of containers that are read, and apart from it that of those without a checkpoint.
fn summary(containers: &[ContainerStatus]) -> String {
    let (known, others): (Vec<_>, Vec<_>) = containers.iter().partition(|container| container.known);
    let behind = |containers: &[&ContainerStatus]| bytes(containers.iter().map(|one| one.bytes_behind).sum());
    let sum = format!("{}, {} not safe yet", count(containers.len(), "container"), behind(&known));
    if others.is_empty() {
        return sum;
    }
    format!("{sum}; {} more in {} without a checkpoint", behind(&others), count(others.len(), "container"))
}

fn text(out: &mut impl Write, containers: &[ContainerStatus]) -> io::Result<()> {
    writeln!(out, "{}", summary(containers))?;
    let row = |container: &ContainerStatus| {
        let ContainerStatus { namespace, pod, container: name, files, .. } = container;
        let age = match container.bytes_behind {
            0 => "-".to_owned(),
            _ => time(whole_seconds(container.seconds_behind)),
        };
        let known = if container.known { "yes" } else { "no" };
        let (behind, missing) = (bytes(container.bytes_behind), bytes(container.missing_bytes));
        [format!("{namespace}/{pod}/{name}"), known.to_owned(), files.to_string(), behind, age, missing]
    };
    table(out, ["container", "checkpoint", "files", "behind", "age", "missing"], containers.iter().map(row))?;
    out.flush()
}

fn json(out: &mut impl Write, containers: &[ContainerStatus]) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, containers)?;
    writeln!(out)?;
    out.flush()
}
