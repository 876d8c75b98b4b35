//! `weir loadtest all`: every published test, one after the other, and one report of them.
//!
//! What failed does not stop the others, and after each test there is a report of all so far: whoever interrupts it after
//! hours has those hours.

mod overview;
pub(super) mod versions;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, Parser};
use jiff::Timestamp;
use tokio::time::Instant;
use weir_units::{parse_duration, parse_positive_duration, parse_positive_size};

use super::outcome::{Outcome, REPORT, forget};
use super::prepared::{Here, Prepared};
use super::present::finding;
use super::script::{Backpressure, Variant};
use super::{LoadtestArgs, Overlay, Peer, SystemKind, Test, directory, print, progress, published};
use crate::files;
use crate::report::history::{Entry, History, USUAL_NAME};
use crate::report::{Environment, Page, Section, Verdict};
use crate::runtime;

const EXAMPLES: &str = "\
Examples:
  weir loadtest all -d 60 -o results/0.2.0
  weir loadtest all --peer otelcol=bench/peers/bin/otelcol
  weir loadtest all -d 5m --only 'traces*' --only metricagent

Exit code 1: a test failed, or not all were run.";

/// Every published test.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub struct AllArgs {
    /// A name for the heading of the report
    #[arg(short = 'n', long, value_name = "NAME", default_value = "load tests")]
    pub name: String,
    /// Measured time of each test; a plain number is seconds
    #[arg(short, long, value_name = "DURATION", default_value = "60s", value_parser = parse_positive_duration)]
    pub duration: Duration,
    /// Where report.html goes, and a directory for each test [default: loadtest-DATE-TIME]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Append a line about each test to this file [default: history.jsonl beside DIR]
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// Only the tests of this name, which may end in *; repeatable: traces, traces-multi-backpressure, 'logs*'
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Also test a peer wherever it can do what the test is about; repeatable
    #[arg(long = "peer", value_name = "NAME=PATH")]
    pub peers: Vec<Peer>,
    /// The Weir to test [default: this program]
    #[arg(long, value_name = "PATH")]
    pub weir: Option<PathBuf>,
    /// One more argument for `weir run`; repeatable
    #[arg(long = "weir-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub weir_arguments: Vec<String>,
    /// Memory each system may use
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = parse_positive_size)]
    pub memory: u64,
    /// Load before the measured time
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_duration)]
    pub warmup: Duration,
    /// How long a system may take after the load to hand over what it holds
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = parse_duration)]
    pub settle: Duration,
}

/// A test that was run.
struct Ended {
    test: Test,
    scenario: String,
    load: String,
    seconds: f64,
    outcome: Outcome,
}

/// Everything that all tests share.
struct Session<'a> {
    args: &'a AllArgs,
    here: &'a Here,
    directory: &'a Path,
    history: History,
    /// What the history had before.
    earlier: Vec<Entry>,
}

/// Runs all tests; exit code 1 when one of them failed, or was not run.
///
/// # Errors
/// The directory or the history cannot be used, or a result cannot be written.
pub fn run_all(args: &AllArgs) -> anyhow::Result<ExitCode> {
    let tests = args.tests()?;
    let here = Here::look()?;
    let directory = directory(Some(&args.output.clone().unwrap_or_else(usual_directory)))?;
    let history = history(args, &directory)?;
    let earlier = history.read()?;
    let session = Session { args, here: &here, directory: &directory, history, earlier };
    let prepared = tests.into_iter().map(|test| session.prepared(test)).collect::<anyhow::Result<Vec<_>>>()?;
    let of_tests = prepared.iter().map(|test| test.settings.directory.as_path());
    std::iter::once(directory.as_path()).chain(of_tests).try_for_each(forget)?;
    runtime::build()?.block_on(session.run(&prepared))
}

/// One that can be written: after hours, it is too late to find out.
fn history(args: &AllArgs, results: &Path) -> anyhow::Result<History> {
    let usual = results.parent().unwrap_or(results).join(USUAL_NAME);
    let history = History::of(Some(args.history.as_deref().unwrap_or(&usual)), None)?;
    history.context("cannot find a place for the history; name one with --history")
}

fn usual_directory() -> PathBuf {
    format!("loadtest-{}", Timestamp::now().strftime("%Y%m%d-%H%M%S")).into()
}

/// A parser whose defaults are those of one test.
#[derive(Parser)]
struct OneTest {
    #[command(flatten)]
    args: LoadtestArgs,
}

impl AllArgs {
    /// All tests that were published, and are wanted.
    fn tests(&self) -> anyhow::Result<Vec<LoadtestArgs>> {
        let mut tests = Vec::new();
        let mut names = Vec::new();
        for (test, variant) in published_tests()? {
            let args = self.one(test, variant)?;
            let name = args.scripts()?.pop().map_or_else(|| test.name().to_owned(), |script| script.name);
            if self.wants(&name) {
                tests.push(args);
            }
            names.push(name);
        }
        ensure!(!tests.is_empty(), "cannot find a test that --only means: there are {}", names.join(", "));
        Ok(tests)
    }

    fn wants(&self, name: &str) -> bool {
        let is_meant = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => pattern == name,
        };
        self.only.is_empty() || self.only.iter().any(is_meant)
    }

    fn one(&self, test: Test, variant: Variant) -> anyhow::Result<LoadtestArgs> {
        let usual = OneTest::try_parse_from(["loadtest"]).context("cannot find the defaults of a test")?.args;
        Ok(LoadtestArgs {
            test,
            multi: variant.multi,
            backpressure: variant.backpressure.is_some(),
            overlay: variant.overlay,
            name: self.name.clone(),
            duration: self.duration,
            warmup: self.warmup,
            settle: self.settle,
            memory: self.memory,
            weir: self.weir.clone(),
            weir_arguments: self.weir_arguments.clone(),
            peers: self.peers.iter().filter(|peer| can_do(peer.kind, test)).cloned().collect(),
            ..usual
        })
    }
}

/// What has a published row: traces and metrics in all variants, the others in some. The self monitor has rows of its own.
fn published_tests() -> anyhow::Result<Vec<(Test, Variant)>> {
    const TESTS: [Test; 6] =
        [Test::Traces, Test::Metrics, Test::LogsOtel, Test::Logagent, Test::LogsFluentbit, Test::Metricagent];
    let mut tests = Vec::new();
    for test in TESTS {
        for variant in variants(test) {
            if !published::of(test, variant)?.is_empty() {
                tests.push((test, variant));
            }
        }
    }
    tests.push((Test::SelfMonitor, Variant::default()));
    Ok(tests)
}

/// One pipeline and three, with backends that are well and that are not. The log gateway has its two setups instead, and the
/// self monitor pipelines and troubles of its own.
fn variants(test: Test) -> Vec<Variant> {
    let refusing = Some(Backpressure { percent: test.published_backpressure(), is_published: true });
    match test {
        Test::LogsOtel => {
            let setups = [Overlay::Base, Overlay::Batch].map(Some);
            setups.map(|overlay| Variant { overlay, ..Variant::default() }).into()
        }
        Test::SelfMonitor => vec![Variant::default()],
        Test::Traces | Test::Metrics | Test::Logagent | Test::LogsFluentbit | Test::Metricagent => {
            [(false, None), (true, None), (false, refusing), (true, refusing)]
                .map(|(multi, backpressure)| Variant { multi, backpressure, overlay: None })
                .into()
        }
    }
}

/// Whether a peer has what a test needs.
fn can_do(kind: SystemKind, test: Test) -> bool {
    match test {
        Test::Metricagent => kind != SystemKind::Weir,
        Test::LogsFluentbit | Test::SelfMonitor => false,
        Test::Traces | Test::Metrics | Test::LogsOtel | Test::Logagent => kind == SystemKind::Otelcol,
    }
}

impl Session<'_> {
    fn prepared(&self, mut args: LoadtestArgs) -> anyhow::Result<Prepared> {
        let name = args.scripts()?.pop().map_or_else(|| args.test.name().to_owned(), |script| script.name);
        let directory = directory(Some(&self.directory.join(name)))?;
        args.output = Some(directory.clone());
        Prepared::new(args, self.here, directory)
    }

    async fn run(&self, tests: &[Prepared]) -> anyhow::Result<ExitCode> {
        let mut stop = pin!(runtime::stop_signal()?);
        let began = Instant::now();
        let environment = self.environment(tests).await;
        print(&format!(
            "{}: {} tests of {:?}, in {}\n",
            self.args.name,
            tests.len(),
            self.args.duration,
            self.directory.display()
        ))?;
        let mut ended = Vec::new();
        for test in tests {
            let result = tokio::select! {
                result = self.conduct(test, &environment) => result?,
                () = &mut stop => break,
            };
            print(&progress_line(&result, ended.len() + 1, tests.len()))?;
            ended.push(result);
            let environment = Environment { seconds: began.elapsed().as_secs_f64(), ..environment.clone() };
            self.write_report(&ended, &environment)?;
        }
        progress::clear();
        self.conclude(&ended, tests.len())
    }

    /// Of all tests together: that of one with all peers.
    async fn environment(&self, tests: &[Prepared]) -> Environment {
        let most = tests.iter().max_by_key(|test| test.args.peers.len());
        match most {
            Some(test) => test.environment(self.here).await,
            None => Environment::begin(self.here.machine.clone()),
        }
    }

    /// One test; its own files are written, and what failed is in its outcome.
    async fn conduct(&self, test: &Prepared, environment: &Environment) -> anyhow::Result<Ended> {
        let began = Instant::now();
        let started = Environment::begin(self.here.machine.clone()).started;
        let environment = Environment { started, load: test.load(), ..environment.clone() };
        let outcome = test.conduct(&environment, &self.earlier).await;
        let outcome = outcome.unwrap_or_else(|error| failed(test, error));
        let seconds = began.elapsed().as_secs_f64();
        let environment = Environment { seconds, ..environment };
        outcome.write(&test.settings.directory, &self.args.name, &environment)?;
        if outcome.result.is_some() {
            self.history.append(&outcome.entry(&self.args.name, &environment))?;
        }
        Ok(Ended {
            test: test.args.test,
            scenario: test.scenario().to_owned(),
            load: environment.load,
            seconds,
            outcome,
        })
    }

    fn write_report(&self, ended: &[Ended], environment: &Environment) -> anyhow::Result<()> {
        let page = Page {
            title: self.args.name.clone(),
            environment: environment.clone(),
            overview: std::iter::once(overview::table(ended))
                .chain(versions::tables(ended, &self.earlier, environment)?)
                .collect(),
            sections: ended.iter().map(|ended| ended.outcome.section.clone()).collect(),
        };
        files::write(&self.directory.join(REPORT), page.render().as_bytes())
    }

    fn conclude(&self, ended: &[Ended], tests: usize) -> anyhow::Result<ExitCode> {
        let failed = ended.iter().filter(|ended| !ended.outcome.has_passed()).count();
        let mut text = format!("{} of {tests} tests passed, {failed} failed\n", ended.len() - failed);
        if ended.len() < tests {
            text = format!("interrupted: {} of {tests} tests were not run to the end; {text}", tests - ended.len());
        }
        if !ended.is_empty() {
            text += &format!("report: {}\n", self.directory.join(REPORT).display());
            text += &format!("history: {}\n", self.history.path.display());
        }
        print(&text)?;
        Ok(if failed == 0 && ended.len() == tests { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What is known of a test that showed nothing.
fn failed(test: &Prepared, error: anyhow::Error) -> Outcome {
    let section = Section {
        title: test.scenario().to_owned(),
        lead: test.heading().unwrap_or_default(),
        findings: vec![finding(Verdict::Failed, "test", format!("{error:#}"))],
        ..Section::default()
    };
    Outcome {
        scenario: test.scenario().to_owned(),
        text: String::new(),
        result: None,
        rows: Vec::new(),
        series: serde_json::Value::Null,
        section,
        failures: Vec::new(),
        error: Some(error),
    }
}

/// How one test went.
fn progress_line(ended: &Ended, number: usize, tests: usize) -> String {
    progress::clear();
    let Ended { scenario, seconds, outcome, .. } = ended;
    let width = tests.to_string().len();
    let place = format!("[{number:>width$}/{tests}] {scenario}");
    let figure = |key: &str, digits: usize, unit: &str| {
        let value = outcome.rows.first().and_then(|row| row.get(key)?.as_f64());
        value.map(|value| format!("{value:.digits$}{unit}"))
    };
    let figures = [
        figure("accepted_per_s", 0, "/s accepted"),
        figure("exported_per_s", 0, "/s delivered"),
        figure("memory_mb_peak", 0, " MB"),
        figure("cpu_cores", 2, " cores"),
    ];
    let figures = figures.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let mut line = match outcome.has_passed() {
        true => format!("{place}: passed in {seconds:.0} s: {figures}\n"),
        false => format!("{place}: FAILED in {seconds:.0} s: {figures}\n"),
    };
    let error = outcome.error.as_ref().map(|error| format!("{error:#}"));
    for failure in outcome.failures.iter().cloned().chain(error) {
        line += &format!("    {failure}\n");
    }
    line
}

#[cfg(test)]
mod tests;
