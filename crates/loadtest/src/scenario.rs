//! `weir loadtest`: the scenarios of the published KPI documents on one machine.
//!
//! Gateway, sinks and generator run as processes of their own; the gateway gets a core to itself when there are two or
//! more. A peer, when given, goes through the same scenario in the same run. What counts as lost is defined in
//! `scenario/verdict.rs`.

pub(crate) mod children;
mod config;
pub(crate) mod http;
pub(crate) mod metrics;
mod progress;
mod published;
mod table;
mod trial;
mod verdict;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{ArgAction, Args, ValueEnum};

pub use self::verdict::Kpis;
use self::verdict::Verdict;
use crate::codec::Compression;
use crate::cpu::{self, Layout};
use crate::load::payload::Shape;
use crate::units::{parse_bytes, parse_duration};
use crate::{files, runtime};

const EXAMPLES: &str = "\
Examples:
  weir loadtest -t traces
  weir loadtest -t traces -m true -d 20m -o results
  weir loadtest -t traces -b true --peer otelcol=bench/peers/bin/otelcol
  weir loadtest -t traces --rate 50000 --compression gzip";

/// Reproduce the KPI load tests: gateway, sinks and generator on this machine.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub struct LoadtestArgs {
    /// What to test
    #[arg(short = 't', long = "test", value_enum, default_value = "traces")]
    pub test: Test,
    /// A name for the heading of the result
    #[arg(short = 'n', long, value_name = "NAME", default_value = "load test")]
    pub name: String,
    /// Three pipelines to three backends instead of one
    #[arg(short = 'm', long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub multi: bool,
    /// Back-pressure: backends refuse 70 % of requests with 503 and delay 70 % by one second
    #[arg(short = 'b', long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set,
          num_args = 0..=1, default_missing_value = "true")]
    pub backpressure: bool,
    /// Measured time; a plain number is seconds
    #[arg(short, long, value_name = "DURATION", default_value = "60", value_parser = parse_duration)]
    pub duration: Duration,
    /// Keep logs and configuration of all processes and write result.json here
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Connections of the generator, each with one request in flight
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub concurrency: u16,
    /// Offer this many spans per second (open loop)
    #[arg(long, value_name = "SPANS_PER_SECOND", conflicts_with = "max", value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// Offer as much as is answered (closed loop); the default
    #[arg(long)]
    pub max: bool,
    /// Compression from the gateway to its backends
    #[arg(long, value_enum, default_value = "none")]
    pub compression: Compression,
    /// Memory each system may use, in bytes or with MiB
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = parse_bytes)]
    pub memory: u64,
    /// Also test a peer; the only known one is otelcol, an OpenTelemetry Collector 0.158 or newer
    #[arg(long, value_name = "NAME=PATH")]
    pub peer: Option<Peer>,
    /// The Weir to test [default: this program]
    #[arg(long, value_name = "PATH")]
    pub weir: Option<PathBuf>,
    /// Load before the measured time
    #[arg(long, value_name = "DURATION", default_value = "3", value_parser = parse_duration)]
    pub warmup: Duration,
    /// What spans look like
    #[command(flatten)]
    pub shape: Shape,
}

/// What can be tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Test {
    /// Spans through the gateway
    Traces,
}

/// A system to compare with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    program: PathBuf,
}

impl std::str::FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("otelcol", path)) if !path.is_empty() => Ok(Self { program: path.into() }),
            _ => Err(format!("cannot use peer \"{text}\": use otelcol=PATH")),
        }
    }
}

/// Which of the four scenarios.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) multi: bool,
    pub(crate) backpressure: bool,
}

impl Variant {
    fn name(self) -> &'static str {
        match (self.multi, self.backpressure) {
            (false, false) => "traces",
            (true, false) => "traces-multi",
            (false, true) => "traces-backpressure",
            (true, true) => "traces-multi-backpressure",
        }
    }

    fn sinks(self) -> usize {
        if self.multi { 3 } else { 1 }
    }
}

/// Everything that is the same for all systems of a run.
pub(crate) struct Settings {
    pub(crate) variant: Variant,
    pub(crate) duration: Duration,
    pub(crate) warmup: Duration,
    pub(crate) concurrency: u16,
    pub(crate) rate: Option<u64>,
    pub(crate) shape: Shape,
    pub(crate) compression: Compression,
    pub(crate) memory_bytes: u64,
    /// The program that is sink and generator.
    pub(crate) judge: PathBuf,
    pub(crate) layout: Layout,
    pub(crate) directory: PathBuf,
}

/// A system under test.
pub(crate) struct System {
    pub(crate) name: String,
    pub(crate) kind: SystemKind,
    pub(crate) program: PathBuf,
}

/// How a system is configured and asked for readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SystemKind {
    Weir,
    Otelcol,
}

/// Runs the scenario; exit code 1 when Weir lost data or a process failed.
///
/// # Errors
/// A process cannot be started or fails, or a result cannot be written.
pub fn run(args: LoadtestArgs) -> anyhow::Result<ExitCode> {
    let layout = Layout::detect()?;
    cpu::bind_to(&layout.judge)?;
    let judge = std::env::current_exe().context("cannot find this program")?;
    let systems = systems(&args, &judge);
    let directory = directory(args.output.as_deref())?;
    let settings = settings(&args, layout, judge, directory);
    let result = runtime::build()?.block_on(async {
        let stop = runtime::stop_signal()?;
        tokio::select! {
            result = test(&args, &systems, &settings) => result,
            () = stop => Ok(Ended::Interrupted),
        }
    });
    // After an error the logs are needed: messages name them.
    if args.output.is_none() && result.is_ok() {
        remove(&settings.directory);
    }
    match result? {
        Ended::With(code) => Ok(code),
        Ended::Interrupted => bail!("interrupted; all processes of the test were stopped"),
    }
}

/// How a run ended when nothing went wrong with it.
enum Ended {
    With(ExitCode),
    Interrupted,
}

async fn test(args: &LoadtestArgs, systems: &[System], settings: &Settings) -> anyhow::Result<Ended> {
    print(&heading(args, settings))?;
    let mut verdicts = Vec::new();
    let mut failure = None;
    for system in systems {
        let trial = trial::run(system, settings).await;
        progress::clear();
        match trial.with_context(|| format!("cannot finish the test of {}", system.name)) {
            Ok(trial) => verdicts.push(verdict::judge(system, settings, &trial)),
            Err(err) => failure = failure.or(Some(err)),
        }
    }
    // What was measured is shown even when another system failed.
    present(args, settings, &verdicts)?;
    if let Some(err) = failure {
        return Err(err);
    }
    let code = if verdicts.iter().any(is_failure) { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    Ok(Ended::With(code))
}

/// Prints the table and the doubts, and writes `result.json`.
fn present(args: &LoadtestArgs, settings: &Settings, verdicts: &[Verdict]) -> anyhow::Result<()> {
    if verdicts.is_empty() {
        return Ok(());
    }
    print(&table::render(verdicts, Some(&published::newest(settings.variant)?)))?;
    for verdict in verdicts {
        for warning in &verdict.warnings {
            print(&format!("{}: {warning}\n", verdict.kpis.system))?;
        }
    }
    if let Some(directory) = &args.output {
        let kpis: Vec<&Kpis> = verdicts.iter().map(|verdict| &verdict.kpis).collect();
        files::write_json(&directory.join("result.json"), &kpis)?;
    }
    Ok(())
}

/// A peer may lose data: that is a result. Weir may not, and nobody may crash.
fn is_failure(verdict: &Verdict) -> bool {
    verdict.failed || (verdict.kpis.system == WEIR && verdict.kpis.lost > 0)
}

const WEIR: &str = "weir";

fn systems(args: &LoadtestArgs, judge: &Path) -> Vec<System> {
    let program = args.weir.clone().unwrap_or_else(|| judge.to_path_buf());
    let weir = System { name: WEIR.to_owned(), kind: SystemKind::Weir, program };
    let peer = args.peer.clone().map(|peer| System {
        name: "otelcol".to_owned(),
        kind: SystemKind::Otelcol,
        program: peer.program,
    });
    std::iter::once(weir).chain(peer).collect()
}

fn settings(args: &LoadtestArgs, layout: Layout, judge: PathBuf, directory: PathBuf) -> Settings {
    let Test::Traces = args.test;
    Settings {
        variant: Variant { multi: args.multi, backpressure: args.backpressure },
        duration: args.duration,
        warmup: args.warmup,
        concurrency: args.concurrency,
        rate: args.rate,
        shape: args.shape,
        compression: args.compression,
        memory_bytes: args.memory,
        judge,
        layout,
        directory,
    }
}

/// The directory asked for, or a temporary one.
fn directory(output: Option<&Path>) -> anyhow::Result<PathBuf> {
    let directory = match output {
        Some(directory) => directory.to_path_buf(),
        None => std::env::temp_dir().join(format!("weir-loadtest-{}", std::process::id())),
    };
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    // Children are given paths inside it.
    directory.canonicalize().with_context(|| format!("cannot resolve {}", directory.display()))
}

fn remove(directory: &Path) {
    if let Err(error) = std::fs::remove_dir_all(directory) {
        tracing::warn!(%error, directory = %directory.display(), "cannot remove temporary directory");
    }
}

fn heading(args: &LoadtestArgs, settings: &Settings) -> String {
    let offered = args.rate.map_or("maximum".to_owned(), |rate| format!("{rate} spans/s"));
    format!(
        "{}: {}, {} s after {} s of warm-up, offered: {offered} over {} connections
spans of {} attributes of {} bytes (none on roots), {} per trace, {} per request; compression to backends: {}; memory {} MiB
gateway on core {:?}, judge on {:?}; published figures: gzip to the backend, 2 nodes, memory and CPU summed over pods\n\n",
        args.name,
        settings.variant.name(),
        settings.duration.as_secs_f64(),
        settings.warmup.as_secs_f64(),
        settings.concurrency,
        settings.shape.attributes,
        settings.shape.attribute_bytes,
        settings.shape.spans_per_trace,
        settings.shape.batch,
        settings.compression.name().unwrap_or("none"),
        settings.memory_bytes >> 20,
        settings.layout.gateway,
        settings.layout.judge,
    )
}

fn print(text: &str) -> anyhow::Result<()> {
    io::stdout().lock().write_all(text.as_bytes()).context("cannot write to standard output")
}
