//! What the test of the self monitor found, for people and for programs.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::course::Points;
use super::super::outcome::{self, Outcome};
use super::super::present::finding;
use super::super::readings::Readings;
use super::super::track::Track;
use super::{GIVEN_UP, OVER_WITHIN, TOLD_WITHIN};
use crate::files;
use crate::report::history::Figures;
use crate::report::{Across, Band, Finding, Kind, Line, Plot, Row, Section, Table, Verdict};
use crate::signal::Signal;

/// What was measured, as `result.json` has it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(super) pipelines: usize,
    /// For so long all was well.
    pub(super) healthy_seconds: f64,
    /// Times that a pipeline was told of whose backend was well, in the whole test.
    pub(super) false_alarms: Vec<String>,
    /// Lines of WARN and ERROR that were logged while all was well.
    #[serde(default)]
    pub(super) complaints: Vec<String>,
    pub(super) troubles: Vec<Told>,
    /// Of the page with metrics, and how many of them a monitor would read each second if it scraped as the published one does.
    pub(super) series: usize,
    pub(super) samples_per_second: f64,
    pub(super) memory_bytes: u64,
    pub(super) memory_peak_bytes: u64,
    /// While all was well; results of earlier versions do not have it.
    #[serde(default)]
    pub(super) memory_average_bytes: Option<f64>,
    pub(super) cpu_cores: f64,
}

/// One trouble, of the three pipelines of a backend.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(super) name: String,
    pub(super) state: String,
    /// By pipeline; those that were not told of in time are not there.
    pub(super) told_seconds: BTreeMap<String, f64>,
    pub(super) over_seconds: BTreeMap<String, f64>,
}

/// How the test went over time.
#[derive(Debug, Default, Serialize)]
pub(super) struct Course {
    /// Name, begin and end of each trouble.
    pub(super) troubles: Vec<(&'static str, f64, f64)>,
    /// How long the last trouble took.
    #[serde(skip)]
    pub(super) suffered: f64,
    #[serde(skip)]
    sick: Track,
    #[serde(skip)]
    others: Track,
    /// Pipelines that were told of: those of the backend that fails, and the others.
    told: Points,
    false_alarms: Points,
    memory_mb: Points,
    cpu_cores: Points,
}

impl Course {
    /// Notes of how many pipelines is told now.
    #[expect(clippy::cast_precision_loss, reason = "numbers of pipelines are small")]
    pub(super) fn note(&mut self, sick: usize, others: usize) {
        self.sick.push(sick as f64);
        self.others.push(others as f64);
    }

    /// Takes over what was read.
    pub(super) fn read(&mut self, readings: &Readings, origin: f64) {
        let in_mib = |points: Points| points.into_iter().map(|(at, bytes)| (at, bytes / MIB)).collect();
        self.told = self.sick.since(origin);
        self.false_alarms = self.others.since(origin);
        self.memory_mb = in_mib(readings.tracks.memory_bytes.since(origin));
        self.cpu_cores = readings.tracks.cpu_seconds.rate_since(origin);
    }

    fn plots(&self) -> Vec<Plot> {
        let bands: Vec<Band> = (1..)
            .zip(&self.troubles)
            .map(|(number, (_, from, to))| Band { label: format!("{number}"), calm: false, from: *from, to: *to })
            .collect();
        let plot = |title: &str, unit: &str, lines: Vec<Line>| Plot {
            title: title.to_owned(),
            unit: unit.to_owned(),
            across: Across::Time,
            lines,
            bands: bands.clone(),
        };
        let line = |label: &str, colour, points: &Points| Line {
            label: label.to_owned(),
            colour,
            dashed: false,
            points: points.clone(),
        };
        let told = vec![line("of the backend that fails", 0, &self.told), line("others", 1, &self.false_alarms)];
        vec![
            plot("Told of, shaded the troubles", "pipelines", told),
            plot("Memory", "MB", vec![line("weir", 0, &self.memory_mb)]),
            plot("CPU", "cores", vec![line("weir", 0, &self.cpu_cores)]),
        ]
    }
}

/// Everything about a test that came to its end.
pub(super) fn outcome(heading: &str, report: &Report, course: &Course) -> anyhow::Result<Outcome> {
    let failures = failures(report);
    let failed: String = failures.iter().map(|failure| format!("weir: FAILED: {failure}\n")).collect();
    Ok(Outcome {
        scenario: SCENARIO.to_owned(),
        text: render(report) + &failed,
        result: Some(files::json(report)?),
        rows: vec![row(report)?],
        series: serde_json::to_value(course)?,
        section: section(heading, report, course),
        failures,
        error: None,
    })
}

/// As the history names it.
const SCENARIO: &str = "self-monitor";

/// The figures that can be compared with those of another test.
fn row(report: &Report) -> anyhow::Result<Figures> {
    let most = |seconds: fn(&Told) -> &BTreeMap<String, f64>| {
        report.troubles.iter().map(|told| longest(seconds(told))).fold(0.0, f64::max)
    };
    outcome::figures(&json!({
        "system": "weir",
        "scenario": SCENARIO,
        "duration_s": report.healthy_seconds,
        "told_s_max": most(|told| &told.told_seconds),
        "over_s_max": most(|told| &told.over_seconds),
        "false_alarms": report.false_alarms.len(),
        "series": report.series,
        "samples_per_s": report.samples_per_second,
        "memory_mb_avg": report.memory_average_bytes.map(|bytes| bytes / MIB),
        "memory_mb_peak": report.memory_peak_bytes as f64 / MIB,
        "cpu_cores": report.cpu_cores,
    }))
}

/// The longest time of a trouble's pipelines. Of those that are not there it is how long was waited for them.
fn longest(seconds: &BTreeMap<String, f64>) -> f64 {
    let missing = if seconds.len() < Signal::ALL.len() { GIVEN_UP.as_secs_f64() } else { 0.0 };
    seconds.values().copied().fold(missing, f64::max)
}

const MIB: f64 = 1_048_576.0;

/// The rows of a `result.json` of this test.
pub(crate) fn rows_of(report: Value) -> anyhow::Result<Vec<Figures>> {
    let report: Report = serde_json::from_value(report).context("it is no report of a self monitor either")?;
    Ok(vec![row(&report)?])
}

fn section(heading: &str, report: &Report, course: &Course) -> Section {
    let mut findings: Vec<Finding> =
        failures(report).into_iter().map(|failure| finding(Verdict::Failed, "weir", failure)).collect();
    if report.false_alarms.is_empty() {
        let healthy = report.healthy_seconds;
        let text = format!("nothing is told of pipelines whose backend is well, {healthy:.0} s of them all well");
        findings.push(finding(Verdict::Passed, "weir", text));
    }
    if report.troubles.iter().all(|told| late(told).is_empty()) {
        let text = format!("each trouble is told within {TOLD_WITHIN:?}, and its end within {OVER_WITHIN:?}");
        findings.push(finding(Verdict::Passed, "weir", text));
    }
    findings.extend(summary(report).lines().map(|line| finding(Verdict::Fact, "weir", line.to_owned())));
    let rows = (1..).zip(&report.troubles).map(|(number, told)| Row {
        kind: if late(told).is_empty() { Kind::Measured } else { Kind::Failed },
        cells: vec![
            format!("{number}: {}", told.name),
            told.state.clone(),
            range(&told.told_seconds),
            range(&told.over_seconds),
        ],
    });
    let table = Table {
        header: ["backend", "state", "told after", "over after"].map(str::to_owned).into(),
        rows: rows.collect(),
        ..Table::default()
    };
    Section {
        title: SCENARIO.to_owned(),
        lead: heading.to_owned(),
        findings,
        tables: vec![table],
        plots: course.plots(),
    }
}

/// What broke a promise.
fn failures(report: &Report) -> Vec<String> {
    let mut failures: Vec<_> = report.false_alarms.iter().map(|alarm| format!("a false alarm of {alarm}")).collect();
    failures.extend(report.complaints.iter().map(|line| format!("logged while all was well: {line}")));
    failures.extend(report.troubles.iter().flat_map(late));
    failures
}

/// What of a trouble was told late, or never.
fn late(Told { name, told_seconds, over_seconds, .. }: &Told) -> Vec<String> {
    let mut late = Vec::new();
    for (what, seconds, limit) in [("told", told_seconds, TOLD_WITHIN), ("over", over_seconds, OVER_WITHIN)] {
        let in_time = seconds.values().filter(|seconds| **seconds <= limit.as_secs_f64()).count();
        if in_time < Signal::ALL.len() {
            late.push(format!("{name}: of {} pipelines, {in_time} were {what} within {limit:?}", Signal::ALL.len()));
        }
    }
    late
}

/// The first and the last time.
fn range(seconds: &BTreeMap<String, f64>) -> String {
    let (least, most) = seconds.values().fold((f64::MAX, 0.0_f64), |(least, most), at| (least.min(*at), most.max(*at)));
    if seconds.is_empty() { "never".to_owned() } else { format!("{least:.1} to {most:.1} s") }
}

fn render(report: &Report) -> String {
    let mut text = format!("{:<34} {:<18} {:>16} {:>16}\n", "backend", "state", "told after", "over after");
    for Told { name, state, told_seconds, over_seconds } in &report.troubles {
        text += &format!("{name:<34} {state:<18} {:>16} {:>16}\n", range(told_seconds), range(over_seconds));
    }
    format!("{text}\n{}", summary(report))
}

fn summary(report: &Report) -> String {
    let Report { pipelines, healthy_seconds, false_alarms, series, samples_per_second, .. } = report;
    let [memory, peak] = [report.memory_bytes, report.memory_peak_bytes].map(|bytes| bytes as f64 / MIB);
    format!(
        "false alarms: {} with {pipelines} pipelines, {healthy_seconds:.0} s of them all well
the whole gateway: {memory:.1} MB, {peak:.1} MB at most, {:.3} cores; {series} series on its page, {samples_per_second:.1} \
         samples/s if scraped every 30 s
published of a self monitor of its own: 15 to 22 samples/s, 200 to 350 series\n",
        false_alarms.len(),
        report.cpu_cores,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(told: [f64; 3], over: [f64; 3]) -> Report {
        let by = |seconds: [f64; 3]| {
            ["traces", "metrics", "logs"]
                .map(|signal| format!("{signal}/load-test-2"))
                .into_iter()
                .zip(seconds)
                .collect()
        };
        let told = Told {
            name: "400".to_owned(),
            state: "some_dropped".to_owned(),
            told_seconds: by(told),
            over_seconds: by(over),
        };
        Report {
            pipelines: 9,
            healthy_seconds: 60.0,
            false_alarms: Vec::new(),
            complaints: Vec::new(),
            troubles: vec![told],
            series: 300,
            samples_per_second: 10.0,
            memory_bytes: 1,
            memory_peak_bytes: 1,
            memory_average_bytes: Some(2.0 * MIB),
            cpu_cores: 0.1,
        }
    }

    #[test]
    fn what_is_late_or_nothing_fails() {
        assert_eq!(failures(&report([10.0, 20.0, 30.0], [25.0, 30.0, 45.0])), Vec::<String>::new());
        assert_eq!(failures(&report([10.0, 20.0, 30.1], [25.0, 61.0, 62.0])).len(), 2);
        let mut wrong = report([1.0; 3], [1.0; 3]);
        wrong.false_alarms.push("traces/load-test-1: some_dropped".to_owned());
        wrong.troubles[0].told_seconds.clear();
        wrong.complaints.push(r#"{"level":"WARN"}"#.to_owned());
        assert_eq!(failures(&wrong).len(), 3);
        assert!(render(&wrong).contains("never"));
    }

    #[test]
    fn what_is_never_told_is_no_better_than_what_is_told_late() {
        let mut report = report([10.0, 20.0, 30.0], [25.0, 30.0, 45.0]);
        let times = |report: &Report| ["told_s_max", "over_s_max"].map(|key| row(report).unwrap()[key].as_f64());
        assert_eq!(times(&report), [Some(30.0), Some(45.0)]);
        report.troubles[0].told_seconds.remove("logs/load-test-2");
        assert_eq!(times(&report), [Some(120.0), Some(45.0)], "one of three");
        report.troubles[0].told_seconds.clear();
        report.troubles[0].over_seconds.clear();
        assert_eq!(times(&report), [Some(120.0); 2]);
    }

    #[test]
    fn memory_is_said_as_a_row_has_it() {
        let mut report = report([1.0; 3], [1.0; 3]);
        (report.memory_bytes, report.memory_peak_bytes) = (30 << 20, 31 << 20);
        let said = render(&report);
        assert!(said.contains("the whole gateway: 30.0 MB, 31.0 MB at most"), "{said}");
        assert_eq!(row(&report).unwrap()["memory_mb_peak"].as_f64(), Some(31.0));
    }

    #[test]
    fn a_row_has_what_is_published_of_a_self_monitor() {
        let report = report([10.0, 20.0, 30.0], [25.0, 30.0, 45.0]);
        let figures = row(&report).unwrap();
        let of = |key: &str| figures[key].as_f64();
        assert_eq!(["samples_per_s", "series", "memory_mb_avg"].map(of), [Some(10.0), Some(300.0), Some(2.0)]);
        assert_eq!(of("duration_s"), Some(60.0), "false alarms of a minute are not those of an hour");
        let mut earlier = serde_json::to_value(&report).unwrap();
        earlier.as_object_mut().unwrap().remove("memory_average_bytes");
        assert!(rows_of(earlier).unwrap()[0]["memory_mb_avg"].is_null(), "it was not measured");
    }
}
