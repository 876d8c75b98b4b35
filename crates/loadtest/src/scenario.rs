//! `weir loadtest`: the scenarios of the published KPI documents on one machine, and harder ones.
//!
//! Gateway, sinks and generator run as processes of their own; the gateway gets a core to itself when there are two or
//! more. A log agent is a gateway that reads what a fake kubelet writes, see `scenario/log_agent.rs`, and a metric agent one that
//! scrapes, see `scenario/metric_agent.rs`. Peers, when given, go through the same scenario in the same run. What a scenario
//! consists of is data, see `scenario/script.rs`; what counts as lost is defined in `scenario/judgement.rs`.

mod all;
mod args;
mod backend;
pub(crate) mod children;
mod config;
mod course;
mod director;
mod disk;
mod gateway;
pub(crate) mod http;
mod isolation;
mod judgement;
mod log_agent;
mod metric_agent;
pub(crate) mod metrics;
mod outcome;
mod pages;
mod plots;
mod prepared;
mod present;
mod processing;
mod progress;
mod published;
mod readings;
mod script;
mod self_monitor;
mod settle;
mod table;
mod track;
mod trial;
mod writer;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::Instant;

pub use self::all::{AllArgs, run_all};
pub use self::args::{Hardship, LoadtestArgs, Peer, Test};
use self::config::Output;
pub use self::config::{Annotation, Overlay, RecordFormat};
pub use self::judgement::Kpis;
pub use self::judgement::lines::LineKpis;
pub use self::judgement::pages::PageKpis;
use self::outcome::Outcome;
pub(crate) use self::outcome::{ENVIRONMENT, RESULT, rows_of};
use self::prepared::{Here, Prepared};
pub use self::processing::Processing;
pub use self::script::Absence;
use crate::codec::Compression;
use crate::cpu::Layout;
use crate::load::Offered;
use crate::load::payload::Shape;
use crate::output::printed;
use crate::report::Environment;
use crate::report::history::History;
use crate::runtime;
use crate::signal::Signal;

/// Everything that is the same for all systems of a run.
pub(crate) struct Settings {
    pub(crate) duration: Duration,
    pub(crate) warmup: Duration,
    pub(crate) settle: Duration,
    pub(crate) concurrency: u16,
    pub(crate) offered: Offered,
    pub(crate) shape: Shape,
    pub(crate) output: Output,
    pub(crate) compression: Compression,
    pub(crate) processing: Processing,
    pub(crate) memory_bytes: u64,
    pub(crate) annotations: Vec<Annotation>,
    pub(crate) weir_arguments: Vec<String>,
    /// Whether Weir gets a data directory of its own: not when it is told to keep nothing on disk.
    pub(crate) has_data_directory: bool,
    /// Whether systems read log files, instead of being sent something.
    pub(crate) reads_files: bool,
    /// Whether systems scrape targets.
    pub(crate) scrapes: bool,
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
    /// These two scrape, and nothing else.
    Vmagent,
    Prometheus,
}

impl Settings {
    /// What is tested.
    pub(crate) fn signal(&self) -> Signal {
        self.shape.signal()
    }

    /// A script's annotations, and those the user wants instead or beside them.
    pub(crate) fn annotations_over(&self, defaults: &[Annotation]) -> Vec<Annotation> {
        let kept = defaults.iter().filter(|default| !self.annotations.iter().any(|given| given.replaces(default)));
        kept.chain(&self.annotations).cloned().collect()
    }
}

/// Runs the scenario; exit code 1 when Weir broke a promise or a process failed.
///
/// # Errors
/// A process cannot be started or fails, or a result cannot be written.
pub fn run(args: LoadtestArgs) -> anyhow::Result<ExitCode> {
    args.scripts()?;
    let here = Here::look()?;
    let directory = directory(args.output.as_deref())?;
    let results = args.output.is_some().then_some(directory.as_path());
    let history = History::of(args.history.as_deref(), results)?;
    let test = Prepared::new(args, &here, directory.clone())?;
    outcome::forget(&directory)?;
    let result = runtime::build()?.block_on(async {
        let stop = runtime::stop_signal()?;
        tokio::select! {
            result = conduct(&test, &here, history.as_ref()) => result.map(Some),
            () = stop => Ok(None),
        }
    });
    // After an error the logs are needed: messages name them.
    if test.args.output.is_none() && result.is_ok() {
        remove(&directory);
    }
    let Some((outcome, environment)) = result? else { bail!("interrupted; all processes of the test were stopped") };
    publish(&test, &outcome, &environment, history.as_ref())?;
    let code = if outcome.has_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    outcome.error.map_or(Ok(code), Err)
}

async fn conduct(test: &Prepared, here: &Here, history: Option<&History>) -> anyhow::Result<(Outcome, Environment)> {
    let began = Instant::now();
    let environment = test.environment(here).await;
    print(&test.heading()?)?;
    // Earlier figures are context: without them, there is a report all the same.
    let earlier = history.map_or(Ok(Vec::new()), History::read).unwrap_or_else(|error| {
        tracing::warn!("cannot show earlier figures: {error:#}");
        Vec::new()
    });
    let outcome = test.conduct(&environment, &earlier).await?;
    Ok((outcome, Environment { seconds: began.elapsed().as_secs_f64(), ..environment }))
}

/// What was measured is shown and kept even when another system failed.
fn publish(
    test: &Prepared,
    outcome: &Outcome,
    environment: &Environment,
    history: Option<&History>,
) -> anyhow::Result<()> {
    let args = &test.args;
    print(&outcome.text)?;
    if outcome.result.is_none() {
        return Ok(());
    }
    if args.output.is_some() {
        outcome.write(&test.settings.directory, &args.name, environment)?;
        print(&format!("\nreport: {}\n", test.settings.directory.join(outcome::REPORT).display()))?;
    }
    if let Some(history) = history {
        let entry = outcome.entry(&args.name, environment);
        print(&outcome::note(history, &entry, args.history.is_some())?)?;
    }
    Ok(())
}

const WEIR: &str = "weir";

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

fn print(text: &str) -> anyhow::Result<()> {
    printed(io::stdout().lock().write_all(text.as_bytes()))
}
