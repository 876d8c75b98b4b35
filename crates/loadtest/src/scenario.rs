//! `weir loadtest`: the scenarios of the published KPI documents on one machine, and harder ones.
//!
//! Gateway, sinks and generator run as processes of their own; the gateway gets a core to itself when there are two or
//! more. A log agent is a gateway that reads what a fake kubelet writes, see `scenario/log_agent.rs`, and a metric agent one that
//! scrapes, see `scenario/metric_agent.rs`. Peers, when given, go through the same scenario in the same run. What a scenario
//! consists of is data, see `scenario/script.rs`; what counts as lost is defined in `scenario/judgement.rs`.

mod args;
mod backend;
pub(crate) mod children;
mod config;
mod director;
mod disk;
mod gateway;
pub(crate) mod http;
mod isolation;
mod judgement;
mod log_agent;
mod metric_agent;
pub(crate) mod metrics;
mod pages;
mod processing;
mod progress;
mod published;
mod readings;
mod script;
mod self_monitor;
mod settle;
mod table;
mod trial;
mod writer;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};

pub use self::args::{Hardship, LoadtestArgs, Peer, Test};
use self::config::Output;
pub use self::config::{Annotation, RecordFormat};
use self::judgement::Judgement;
pub use self::judgement::Kpis;
pub use self::judgement::lines::LineKpis;
pub use self::judgement::pages::PageKpis;
pub use self::processing::Processing;
use self::published::Published;
pub use self::script::Absence;
use self::script::Script;
use self::trial::Part;
use crate::codec::Compression;
use crate::cpu::{self, Layout};
use crate::load::Offered;
use crate::load::payload::Shape;
use crate::output::printed;
use crate::signal::Signal;
use crate::{files, runtime};

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
    let scripts = args.scripts()?;
    let layout = Layout::detect()?;
    cpu::bind_to(&layout.judge)?;
    let judge = std::env::current_exe().context("cannot find this program")?;
    let systems = systems(&args, &judge);
    let directory = directory(args.output.as_deref())?;
    let settings = settings(&args, layout, judge, directory)?;
    let result = runtime::build()?.block_on(async {
        let stop = runtime::stop_signal()?;
        let test = async {
            match args.test {
                Test::SelfMonitor => self_monitor::test(&args, &systems[0], &settings).await.map(Ended::With),
                _ => test(&args, &systems, &scripts, &settings).await,
            }
        };
        tokio::select! {
            result = test => result,
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

async fn test(
    args: &LoadtestArgs,
    systems: &[System],
    scripts: &[Script],
    settings: &Settings,
) -> anyhow::Result<Ended> {
    let published = published_rows(args, scripts)?;
    print(&heading(args, scripts, settings, !published.is_empty()))?;
    let mut judgements = Vec::new();
    let mut failure = None;
    for part in parts(systems, scripts, &settings.directory) {
        let judgement = judged(&part, settings).await;
        progress::clear();
        match judgement.with_context(|| format!("cannot finish the test of {}", part.system.name)) {
            Ok(judgement) => judgements.push(judgement),
            Err(err) => failure = failure.or(Some(err)),
        }
    }
    // What was measured is shown even when another system failed.
    present(args, scripts, &judgements, &published, failure.is_none())?;
    if let Some(err) = failure {
        return Err(err);
    }
    let failed = judgements.iter().any(|judgement| !judgement.failures.is_empty());
    Ok(Ended::With(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
}

async fn judged(part: &Part<'_>, settings: &Settings) -> anyhow::Result<Judgement> {
    Ok(match (&part.script.writer, &part.script.pages) {
        (Some(writer), _) => judgement::lines::judge(part, settings, &log_agent::run(part, writer, settings).await?),
        (None, Some(scraped)) => {
            judgement::pages::judge(part, settings, &metric_agent::run(part, scraped, settings).await?)
        }
        (None, None) => judgement::judge(part, settings, &trial::run(part, settings).await?),
    })
}

/// Each system goes through all scripts before the next one starts.
fn parts<'a>(systems: &'a [System], scripts: &'a [Script], directory: &Path) -> Vec<Part<'a>> {
    let each = |system: &'a System| {
        scripts.iter().map(move |script| {
            let suffix = script.part.as_ref().map(|part| format!("-{}", part.replace(' ', "-"))).unwrap_or_default();
            Part { system, script, directory: directory.join(format!("{}{suffix}", system.name)) }
        })
    };
    systems.iter().flat_map(each).collect()
}

/// What was published of the same scenario.
fn published_rows(args: &LoadtestArgs, scripts: &[Script]) -> anyhow::Result<Vec<Published>> {
    // Nobody has published figures with processing.
    let comparable = scripts.first().filter(|_| args.processing == Processing::None);
    let variant = comparable.and_then(|script| script.published);
    variant.map_or(Ok(Vec::new()), |variant| published::of(args.test, variant))
}

/// Prints the table, what the scenario was made for, and the doubts, and writes `result.json`. Rows are compared when all
/// are there.
fn present(
    args: &LoadtestArgs,
    scripts: &[Script],
    judgements: &[Judgement],
    published: &[Published],
    all: bool,
) -> anyhow::Result<()> {
    if judgements.is_empty() {
        return Ok(());
    }
    let isolation = all && args.scenario == Some(Hardship::SickNeighbour);
    let pairs = if all { compared(judgements.len(), scripts.len(), isolation) } else { Vec::new() };
    print(&table::render(judgements, &pairs, published))?;
    for judgement in judgements {
        let failures = judgement.failures.iter().map(|failure| format!("FAILED: {failure}"));
        for line in judgement.facts.iter().chain(&judgement.warnings).cloned().chain(failures) {
            print(&format!("{}: {line}\n", judgement.label))?;
        }
    }
    if isolation {
        for pair in judgements.chunks_exact(2) {
            for line in isolation::compare(&pair[0], &pair[1]) {
                print(&format!("{}: {line}\n", pair[1].kpis.system))?;
            }
        }
    }
    if let Some(directory) = &args.output {
        let kpis: Vec<&Kpis> = judgements.iter().map(|judgement| &judgement.kpis).collect();
        files::write_json(&directory.join("result.json"), &kpis)?;
    }
    Ok(())
}

/// Which rows are compared with which, when each system has one for each of the scripts: Weir with each other system, or
/// each system with itself alone.
fn compared(rows: usize, scripts: usize, isolation: bool) -> Vec<(usize, usize)> {
    if isolation {
        (1..rows).step_by(2).map(|row| (row, row - 1)).collect()
    } else {
        (scripts..rows).map(|row| (row % scripts, row)).collect()
    }
}

const WEIR: &str = "weir";

fn systems(args: &LoadtestArgs, judge: &Path) -> Vec<System> {
    let program = args.weir.clone().unwrap_or_else(|| judge.to_path_buf());
    let weir = System { name: WEIR.to_owned(), kind: SystemKind::Weir, program };
    let peer = |peer: &Peer| System { name: peer.name().to_owned(), kind: peer.kind, program: peer.program.clone() };
    std::iter::once(weir).chain(args.peers.iter().map(peer)).collect()
}

fn settings(args: &LoadtestArgs, layout: Layout, judge: PathBuf, directory: PathBuf) -> anyhow::Result<Settings> {
    Ok(Settings {
        duration: args.duration,
        // An agent has nothing to warm up with: there is one set of files.
        warmup: if args.test.reads_files() { Duration::ZERO } else { args.warmup },
        settle: args.settle,
        concurrency: args.connections(),
        offered: args.offered(),
        shape: args.shape()?,
        output: args.sends(),
        compression: args.compression,
        processing: args.processing,
        memory_bytes: args.memory,
        annotations: args.annotations.clone(),
        weir_arguments: args.weir_arguments.clone(),
        reads_files: args.test.reads_files(),
        scrapes: args.test == Test::Metricagent,
        has_data_directory: !args.weir_arguments.iter().any(|argument| argument == "--no-data-dir"),
        judge,
        layout,
        directory,
    })
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

fn heading(args: &LoadtestArgs, scripts: &[Script], settings: &Settings, is_published: bool) -> String {
    let writer = scripts.iter().find_map(|script| script.writer.as_ref());
    let scraped = scripts.iter().find_map(|script| script.pages.as_ref());
    let (load, shape) = match (writer, scraped) {
        (Some(writer), _) => ("files".to_owned(), writer.describe()),
        (None, Some(scraped)) => ("pages".to_owned(), scraped.describe()),
        (None, None) => (describe_clients(scripts, settings), settings.shape.describe()),
    };
    let mut scenarios: Vec<&str> = scripts.iter().map(|script| script.name.as_str()).collect();
    scenarios.dedup();
    let kills = scripts.iter().find_map(|script| script.kills);
    let kills = kills
        .map(|plan| {
            let (verb, every) = (plan.ending.verb(), plan.every.as_secs_f64());
            format!("\n{verb} every {every} s on average, seed {}", plan.seed)
        })
        .unwrap_or_default();
    let published = if is_published {
        "; published figures: gzip to the backend, 2 nodes, memory and CPU summed over pods"
    } else {
        ""
    };
    format!(
        "{}: {}, {} s after {} s of warm-up, offered: {load}{kills}
{shape}; processing: {}; compression to backends: {}; memory {} MiB
gateway on core {}, judge on {}{published}\n\n",
        args.name,
        scenarios.join(" and "),
        settings.duration.as_secs_f64(),
        settings.warmup.as_secs_f64(),
        settings.processing.describe(),
        settings.compression.name().unwrap_or("none"),
        settings.memory_bytes >> 20,
        listed(&settings.layout.gateway),
        listed(&settings.layout.judge),
    )
}

fn listed(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn describe_clients(scripts: &[Script], settings: &Settings) -> String {
    let offered = settings.offered.describe(settings.signal());
    match scripts.iter().any(|script| script.clients.is_some()) {
        true => format!("{offered} by each client"),
        false => format!("{offered} over {} connections", settings.concurrency),
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    printed(io::stdout().lock().write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_compared_with_what_it_is_measured_against() {
        assert_eq!(compared(1, 1, false), []);
        assert_eq!(compared(2, 1, false), [(0, 1)]);
        assert_eq!(compared(18, 9, false)[8], (8, 17), "cell by cell");
        assert_eq!(compared(2, 2, true), [(1, 0)], "alone is the base");
        assert_eq!(compared(4, 2, true), [(1, 0), (3, 2)], "each system against itself");
    }
}
