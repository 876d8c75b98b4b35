//! `weir loadtest compare`: two results, or two sets of repeated ones, figure by figure; and a gate for what may not get worse.

mod figures;
mod gate;
mod present;
mod runs;
mod statistics;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use serde::Serialize;

use self::figures::Better;
use self::gate::{Gate, Violation};
use self::runs::Run;
use self::statistics::{Ratio, centres, ratio};
use crate::output::printed;
use crate::report::history::{History, USUAL_NAME, are_alike, duration};

const EXAMPLES: &str = "\
Examples:
  weir loadtest compare results/before results/after
  weir loadtest compare before/1 before/2 before/3 --with after/1 after/2 after/3
  weir loadtest compare 0.1.0 0.2.0 --history results/history.jsonl
  weir loadtest compare results/before results/after --gate gate.txt

A RUN is a directory that -o wrote or one with several of them, a result.json, or a version, commit or name (-n) of the
history, which means all of its runs. The first is the baseline.

Exit code 3: with --gate, something is worse than it may be, a new run did not pass, or the tests are not the same.";

/// Compare two load tests, or repeated ones.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// The baseline and, without --with, what is compared with it
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,
    /// What is compared with the baseline, which then may be several runs
    #[arg(long = "with", value_name = "RUN", num_args = 1..)]
    pub with: Vec<String>,
    /// The history in which versions and names are looked up
    #[arg(long, value_name = "FILE", default_value = USUAL_NAME)]
    pub history: PathBuf,
    /// Differences of so many percent are taken for noise where there is one run of each; repeated runs say it themselves
    #[arg(long, value_name = "PCT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub noise: u8,
    /// Rules about what may not get worse, and by how much: lines such as `traces accepted_per_s >= 0.9`
    #[arg(long, value_name = "FILE")]
    pub gate: Option<PathBuf>,
    /// How it is printed
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    pub format: Format,
}

/// How a comparison is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables
    Text,
    /// One JSON document
    Json,
}

/// Everything that was compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Comparison {
    pub(crate) base: Vec<String>,
    pub(crate) new: Vec<String>,
    /// Why to doubt it.
    pub(crate) doubts: Vec<String>,
    /// Why these are not the same test. No gate is open for them.
    pub(crate) mismatches: Vec<String>,
    /// What is compared with the baseline and did not pass, and why not. No gate is open for it.
    pub(crate) failures: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// Scenarios and systems that are on one side only.
    pub(crate) only_in_base: Vec<String>,
    pub(crate) only_in_new: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gate: Option<GateResult>,
}

/// Whether a gate is open.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct GateResult {
    pub(crate) passed: bool,
    pub(crate) violations: Vec<Violation>,
}

/// One figure of a system in a scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) scenario: String,
    pub(crate) system: String,
    pub(crate) figure: String,
    pub(crate) base: Side,
    pub(crate) new: Side,
    #[serde(flatten, serialize_with = "present::ratio")]
    pub(crate) ratio: Ratio,
    pub(crate) verdict: Verdict,
}

/// What was measured of a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Side {
    /// The geometric one, where there are no zeros on either side.
    pub(crate) mean: f64,
    pub(crate) runs: Vec<f64>,
}

/// What a ratio means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Better,
    Worse,
    /// The difference may be noise.
    Noise,
    /// More or less than noise, where neither is better.
    Higher,
    Lower,
}

impl Side {
    /// Both sides of a comparison.
    pub(crate) fn both(base: Vec<f64>, new: Vec<f64>) -> [Self; 2] {
        let [of_base, of_new] = centres(&base, &new);
        [Self { mean: of_base, runs: base }, Self { mean: of_new, runs: new }]
    }
}

impl Row {
    /// Whether repeated runs say what is noise.
    pub(crate) fn is_repeated(&self) -> bool {
        self.base.runs.len() > 1 || self.new.runs.len() > 1
    }
}

/// Peers are there to compare with.
fn is_weir(system: &str) -> bool {
    system == "weir" || system.starts_with("weir,")
}

/// With `--gate`, when it is closed. Whatever else goes wrong is 1.
const GATE_IS_CLOSED: u8 = 3;

/// Compares; exit code 3 when a gate is closed.
///
/// # Errors
/// A run, the history or the gate cannot be read.
pub fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let history = History { path: args.history.clone() };
    let gate = args.gate.as_deref().map(Gate::read).transpose()?;
    let (base, new) = sides(args)?;
    let (base, new) = (runs::load(&base, &history)?, runs::load(&new, &history)?);
    let mut comparison = compare(&base, &new, f64::from(args.noise) / 100.0);
    comparison.gate = gate.map(|gate| {
        let violations = gate.violations(&comparison.rows, &measured(&base));
        let Comparison { mismatches, failures, .. } = &comparison;
        GateResult { passed: violations.is_empty() && mismatches.is_empty() && failures.is_empty(), violations }
    });
    let text = match args.format {
        Format::Text => present::text(&comparison, args.noise),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&comparison)?),
    };
    printed(io::stdout().lock().write_all(text.as_bytes()))?;
    let is_open = comparison.gate.is_none_or(|gate| gate.passed);
    Ok(if is_open { ExitCode::SUCCESS } else { ExitCode::from(GATE_IS_CLOSED) })
}

/// Two runs, or several with several.
fn sides(args: &CompareArgs) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    if !args.with.is_empty() {
        return Ok((args.runs.clone(), args.with.clone()));
    }
    let [base, new] = args.runs.as_slice() else {
        let count = args.runs.len();
        ensure!(
            count == 2,
            "cannot compare {count} runs: name two, or put --with before those that are compared with the others"
        );
        return Ok(Default::default());
    };
    Ok((vec![base.clone()], vec![new.clone()]))
}

/// Figure by figure, for each scenario and system that both sides have.
fn compare(base: &[Run], new: &[Run], assumed_noise: f64) -> Comparison {
    let (of_base, of_new) = (subjects(base), subjects(new));
    let only_in = |here: &[Subject], there: &[Subject]| {
        let missing = here.iter().filter(|subject| !there.contains(subject));
        missing.map(|(scenario, system)| format!("{scenario}, {system}")).collect()
    };
    let both = of_base.iter().filter(|subject| of_new.contains(subject));
    let source = |run: &Run| run.source.clone();
    Comparison {
        base: base.iter().map(source).collect(),
        new: new.iter().map(source).collect(),
        doubts: doubts(base, new),
        mismatches: mismatches(base, new),
        failures: failures(new),
        rows: both.flat_map(|subject| rows(subject, base, new, assumed_noise)).collect(),
        only_in_base: only_in(&of_base, &of_new),
        only_in_new: only_in(&of_new, &of_base),
        gate: None,
    }
}

/// A scenario, and a system in it, with the part of the scenario if it has several.
type Subject = (String, String);

fn subjects(runs: &[Run]) -> Vec<Subject> {
    let mut subjects: Vec<Subject> = Vec::new();
    for row in runs.iter().flat_map(|run| &run.rows) {
        let subject = subject(row);
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    subjects
}

fn subject(row: &crate::report::history::Figures) -> Subject {
    let text = |key: &str| row.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    let part = text("part");
    let system = if part.is_empty() { text("system") } else { format!("{}, {part}", text("system")) };
    (text("scenario"), system)
}

fn rows(wanted: &Subject, base: &[Run], new: &[Run], assumed_noise: f64) -> Vec<Row> {
    let values = |runs: &[Run], figure: &str| -> Vec<f64> {
        let rows = runs.iter().flat_map(|run| &run.rows).filter(|row| subject(row) == *wanted);
        rows.filter_map(|row| row.get(figure)?.as_f64()).collect()
    };
    let row = |(figure, better): (&str, Better)| {
        let (base, new) = (values(base, figure), values(new, figure));
        if base.is_empty() || new.is_empty() {
            return None;
        }
        let ratio = ratio(&base, &new, assumed_noise);
        let ratio = if figures::is_harm(figure) { ratio.without_noise() } else { ratio };
        let verdict = verdict(ratio, better);
        let (scenario, system) = wanted.clone();
        let [base, new] = Side::both(base, new);
        Some(Row { scenario, system, figure: figure.to_owned(), base, new, ratio, verdict })
    };
    figures::all().filter_map(row).collect()
}

/// A figure of a system in a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) scenario: String,
    pub(crate) system: String,
    pub(crate) figure: &'static str,
}

/// All figures that these runs have.
fn measured(runs: &[Run]) -> Vec<Measured> {
    let mut measured = Vec::new();
    for row in runs.iter().flat_map(|run| &run.rows) {
        let (scenario, system) = subject(row);
        let has = |figure: &str| row.get(figure).is_some_and(serde_json::Value::is_number);
        for (figure, _) in figures::all().filter(|(figure, _)| has(figure)) {
            let one = Measured { scenario: scenario.clone(), system: system.clone(), figure };
            if !measured.contains(&one) {
                measured.push(one);
            }
        }
    }
    measured
}

fn verdict(Ratio { low, high, .. }: Ratio, better: Better) -> Verdict {
    match (low > 1.0, high < 1.0, better) {
        (false, false, _) => Verdict::Noise,
        (true, _, Better::Higher) | (_, true, Better::Lower) => Verdict::Better,
        (true, _, Better::Lower) | (_, true, Better::Higher) => Verdict::Worse,
        (true, _, Better::Neither) => Verdict::Higher,
        (_, true, Better::Neither) => Verdict::Lower,
    }
}

/// Runs that did not pass.
fn failures(runs: &[Run]) -> Vec<String> {
    let failed = |run: &Run| run.failure.as_ref().map(|failure| format!("{} did not pass: {failure}", run.source));
    runs.iter().filter_map(failed).collect()
}

/// Figures of different machines say less, and so do those of a baseline that did not pass.
fn doubts(base: &[Run], new: &[Run]) -> Vec<String> {
    let environments = base.iter().chain(new).filter_map(|run| run.environment.as_ref());
    let machines = different(environments.map(|environment| environment.machine.describe()));
    let machines = (machines.len() > 1).then(|| format!("measured on different machines: {}", machines.join(" / ")));
    machines.into_iter().chain(failures(base)).collect()
}

/// What is measured with another load, or was to be measured for another time, is another figure; and whatever is on both
/// sides hides a difference.
fn mismatches(base: &[Run], new: &[Run]) -> Vec<String> {
    let runs = || base.iter().chain(new);
    let scenarios = different(runs().filter_map(|run| Some(subject(run.rows.first()?).0)));
    let of_scenario = scenarios.into_iter().flat_map(|scenario| {
        let of = || runs().filter(|run| run.rows.first().is_some_and(|row| subject(row).0 == scenario));
        let loads = different(of().filter_map(|run| Some(run.environment.as_ref()?.load.clone())));
        let times = of().filter_map(|run| duration(run.environment.as_ref(), &run.rows));
        let (shortest, longest) = times.fold((f64::MAX, 0.0_f64), |(low, high), time| (low.min(time), high.max(time)));
        let loads =
            (loads.len() > 1).then(|| format!("{scenario} was measured with different loads: {}", loads.join(" / ")));
        let times = (!are_alike(shortest, longest))
            .then(|| format!("{scenario} was measured for {shortest:.1} s here and {longest:.1} s there"));
        loads.into_iter().chain(times).collect::<Vec<_>>()
    });
    let both = base.iter().filter(|run| new.contains(run));
    let both = different(both.map(|run| format!("{} is on both sides", run.source)));
    of_scenario.chain(both).collect()
}

/// Each text once.
fn different(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut different: Vec<String> = Vec::new();
    for text in texts {
        if !different.contains(&text) {
            different.push(text);
        }
    }
    different
}

#[cfg(test)]
mod tests;
