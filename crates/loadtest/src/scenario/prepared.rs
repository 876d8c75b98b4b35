//! A test that is ready to be run: what goes through it, on which cores, and what comes of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use super::all::versions::{self, Measured};
use super::judgement::{self, Judgement, Kpis};
use super::outcome::{self, Outcome};
use super::present::Shown;
use super::processing::Processing;
use super::published::{self, Published};
use super::script::{Script, Variant};
use super::trial::{self, Part};
use super::{Hardship, LoadtestArgs, Peer, Settings, System, SystemKind, Test, WEIR};
use super::{log_agent, metric_agent, progress, self_monitor};
use crate::cpu::{self, Layout};
use crate::files;
use crate::report::Environment;
use crate::report::environment::Machine;
use crate::report::history::{Entry, previous};

/// Where tests are run.
pub(crate) struct Here {
    pub(crate) machine: Machine,
    layout: Layout,
    /// This program.
    judge: PathBuf,
}

impl Here {
    /// Looks at the machine, and binds this program to the cores of the judge.
    pub(crate) fn look() -> anyhow::Result<Self> {
        let machine = Machine::this();
        let layout = Layout::detect()?;
        cpu::bind_to(&layout.judge)?;
        let judge = std::env::current_exe().context("cannot find this program")?;
        Ok(Self { machine, layout, judge })
    }
}

/// A test, and what it needs.
pub(crate) struct Prepared {
    pub(crate) args: LoadtestArgs,
    pub(crate) settings: Settings,
    systems: Vec<System>,
    scripts: Vec<Script>,
}

impl Prepared {
    /// The test that `args` ask for, whose files go into `directory`.
    pub(crate) fn new(args: LoadtestArgs, here: &Here, directory: PathBuf) -> anyhow::Result<Self> {
        let scripts = args.scripts()?;
        let systems = systems(&args, &here.judge);
        let settings = settings(&args, here, directory)?;
        Ok(Self { args, settings, systems, scripts })
    }

    /// As `result.json` and the history name it.
    pub(crate) fn scenario(&self) -> &str {
        self.scripts.last().map_or_else(|| self.args.test.name(), |script| script.name.as_str())
    }

    /// What is to happen, in words.
    pub(crate) fn heading(&self) -> anyhow::Result<String> {
        if self.args.test == Test::SelfMonitor {
            return Ok(self_monitor::heading(&self.args.name, &self.settings));
        }
        Ok(heading(&self.args, &self.scripts, &self.settings, !self.published()?.is_empty()))
    }

    /// Where and how, with what the systems say that they are.
    pub(crate) async fn environment(&self, here: &Here) -> Environment {
        let peers: Vec<(&str, &Path)> =
            self.args.peers.iter().map(|peer| (peer.name(), peer.program.as_path())).collect();
        let environment = Environment {
            load: self.load(),
            asked_duration_s: Some(self.settings.duration.as_secs_f64()),
            ..Environment::begin(here.machine.clone())
        };
        environment.of(self.args.weir.as_deref(), &peers).await
    }

    /// What tests have to have in common for their figures to be compared.
    pub(crate) fn load(&self) -> String {
        let Settings { processing, compression, memory_bytes, .. } = &self.settings;
        let (load, shape) = load(&self.scripts, &self.settings);
        let is_self_monitor = self.args.test == Test::SelfMonitor;
        let collected = if is_self_monitor { format!("; {}", self_monitor::COLLECTED) } else { String::new() };
        format!(
            "{load}; {shape}; processing: {}; compression: {}; memory {} MiB{collected}",
            processing.describe(),
            compression.name().unwrap_or("none"),
            memory_bytes >> 20,
        )
    }

    /// Runs it. What was measured is there even when another system failed.
    pub(crate) async fn conduct(&self, environment: &Environment, earlier: &[Entry]) -> anyhow::Result<Outcome> {
        if self.args.test == Test::SelfMonitor {
            let outcome = self_monitor::test(&self.heading()?, &self.systems[0], &self.settings).await?;
            return beside_versions(outcome, environment, earlier);
        }
        let mut judgements = Vec::new();
        let mut failure = None;
        for part in parts(&self.systems, &self.scripts, &self.settings.directory) {
            let judgement = judged(&part, &self.settings).await;
            progress::clear();
            match judgement.with_context(|| format!("cannot finish the test of {}", part.system.name)) {
                Ok(judgement) => judgements.push(judgement),
                Err(err) => failure = failure.or(Some(err)),
            }
        }
        self.outcome(&judgements, previous(earlier, self.scenario(), environment), failure)
    }

    /// Rows are compared when all are there.
    fn outcome(
        &self,
        judgements: &[Judgement],
        previous: Option<&Entry>,
        error: Option<anyhow::Error>,
    ) -> anyhow::Result<Outcome> {
        let all = error.is_none();
        let isolation = all && self.args.scenario == Some(Hardship::SickNeighbour);
        let pairs = if all { compared(judgements.len(), self.scripts.len(), isolation) } else { Vec::new() };
        let shown = Shown {
            scenario: self.scenario(),
            heading: &self.heading()?,
            items: self.items(),
            judgements,
            pairs: &pairs,
            isolation,
            published: &self.published()?,
        };
        let kpis: Vec<&Kpis> = judgements.iter().map(|judgement| &judgement.kpis).collect();
        let rows = kpis.iter().map(outcome::figures).collect::<anyhow::Result<Vec<_>>>()?;
        let series = judgements.iter().map(|judgement| {
            let course = serde_json::to_value(&judgement.course).context("cannot encode a course as JSON")?;
            Ok((judgement.label.clone(), course))
        });
        Ok(Outcome {
            scenario: self.scenario().to_owned(),
            text: if judgements.is_empty() { String::new() } else { shown.text() },
            result: if judgements.is_empty() { None } else { Some(files::json(&kpis)?) },
            section: shown.section(&rows, previous, error.as_ref()),
            rows,
            series: series.collect::<anyhow::Result<_>>()?,
            failures: judgements.iter().flat_map(|judgement| &judgement.failures).cloned().collect(),
            error,
        })
    }

    /// What is counted.
    fn items(&self) -> &'static str {
        match self.args.test {
            Test::Logagent | Test::LogsFluentbit => "lines",
            Test::Metricagent => "samples",
            Test::Traces | Test::Metrics | Test::LogsOtel | Test::SelfMonitor => self.settings.signal().items(),
        }
    }

    /// What was published of the same scenario.
    fn published(&self) -> anyhow::Result<Vec<Published>> {
        // Nobody has published figures with processing.
        let comparable = self.scripts.first().filter(|_| self.args.processing == Processing::None);
        let variant = comparable.and_then(|script| script.published);
        variant.map_or(Ok(Vec::new()), |variant| published::of(self.args.test, variant))
    }
}

/// What was published of a self monitor, and what the version before was found to do, stand below what one did now.
pub(crate) fn beside_versions(
    mut outcome: Outcome,
    environment: &Environment,
    earlier: &[Entry],
) -> anyhow::Result<Outcome> {
    let Outcome { scenario, rows, section, .. } = &mut outcome;
    let measured = Measured { variant: Variant::default(), scenario, load: &environment.load, rows };
    section.tables.push(versions::of(Test::SelfMonitor, &[measured], earlier, environment)?);
    Ok(outcome)
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

/// Which rows are compared with which, when each system has one for each of the scripts: Weir with each other system, or
/// each system with itself alone.
fn compared(rows: usize, scripts: usize, isolation: bool) -> Vec<(usize, usize)> {
    if isolation {
        (1..rows).step_by(2).map(|row| (row, row - 1)).collect()
    } else {
        (scripts..rows).map(|row| (row % scripts, row)).collect()
    }
}

fn systems(args: &LoadtestArgs, judge: &Path) -> Vec<System> {
    let program = args.weir.clone().unwrap_or_else(|| judge.to_path_buf());
    let weir = System { name: WEIR.to_owned(), kind: SystemKind::Weir, program };
    let peer = |peer: &Peer| System { name: peer.name().to_owned(), kind: peer.kind, program: peer.program.clone() };
    std::iter::once(weir).chain(args.peers.iter().map(peer)).collect()
}

fn settings(args: &LoadtestArgs, here: &Here, directory: PathBuf) -> anyhow::Result<Settings> {
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
        judge: here.judge.clone(),
        layout: here.layout.clone(),
        directory,
    })
}

/// What is offered, and what it looks like.
fn load(scripts: &[Script], settings: &Settings) -> (String, String) {
    let writer = scripts.iter().find_map(|script| script.writer.as_ref());
    let scraped = scripts.iter().find_map(|script| script.pages.as_ref());
    match (writer, scraped) {
        (Some(writer), _) => ("files".to_owned(), writer.describe()),
        (None, Some(scraped)) => ("pages".to_owned(), scraped.describe()),
        (None, None) => (describe_clients(scripts, settings), settings.shape.describe()),
    }
}

fn heading(args: &LoadtestArgs, scripts: &[Script], settings: &Settings, is_published: bool) -> String {
    let (load, shape) = load(scripts, settings);
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
