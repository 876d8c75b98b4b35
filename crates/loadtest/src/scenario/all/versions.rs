//! Version against version, as results are published: a table for each test, and columns for its variants.

use serde_json::{Value, json};

use super::super::published::{self, Published};
use super::super::script::{self, Variant};
use super::super::table::{published_queue, queue_of};
use super::super::{Overlay, Test, WEIR};
use super::overview::number;
use super::{Ended, variants};
use crate::report::history::{Entry, Figures, previous};
use crate::report::{Environment, Kind, Row, Table};

/// A figure, its heading, and its digits.
type Column = (&'static str, &'static str, usize);

/// Columns of each variant.
const FIGURES: [Column; 6] = [
    ("accepted_per_s", "accepted/s", 0),
    ("exported_per_s", "exported/s", 0),
    ("queue", "queue", 0),
    ("memory_mb_avg", "MB", 0),
    ("cpu_cores", "CPU", 2),
    ("restarts", "restarts", 0),
];
/// Before them where lines are read, as on Fluent Bit's page: KB of 1,024 bytes.
const BYTES: [Column; 2] = [("input_kb_per_s", "KB/s in", 0), ("output_kb_per_s", "KB/s out", 0)];
/// What was published of a self monitor, and what was not.
const SELF_MONITOR: [Column; 7] = [
    ("samples_per_s", "samples/s", 1),
    ("series", "series", 0),
    ("memory_mb_avg", "MB", 0),
    ("cpu_cores", "CPU", 2),
    ("told_s_max", "told after s", 1),
    ("over_s_max", "over after s", 1),
    ("false_alarms", "false alarms", 0),
];
/// Versions that were published, the newest ones.
const PUBLISHED: usize = 3;

fn columns(test: Test) -> Vec<Column> {
    match test {
        Test::SelfMonitor => SELF_MONITOR.to_vec(),
        Test::Logagent | Test::LogsFluentbit => BYTES.into_iter().chain(FIGURES).collect(),
        Test::Traces | Test::Metrics | Test::LogsOtel | Test::Metricagent => FIGURES.to_vec(),
    }
}

/// What a version has of each variant.
struct Version {
    kind: Kind,
    name: String,
    cells: Vec<Option<Vec<String>>>,
}

/// What was measured of a variant.
pub(crate) struct Measured<'a> {
    pub(crate) variant: Variant,
    pub(crate) scenario: &'a str,
    pub(crate) load: &'a str,
    pub(crate) rows: &'a [Figures],
}

/// A table for each test that was run.
pub(super) fn tables(ended: &[Ended], earlier: &[Entry], environment: &Environment) -> anyhow::Result<Vec<Table>> {
    let mut tests: Vec<Test> = ended.iter().map(|ended| ended.test).collect();
    tests.dedup();
    tests.into_iter().map(|test| table(test, ended, earlier, environment)).collect()
}

fn table(test: Test, ended: &[Ended], earlier: &[Entry], environment: &Environment) -> anyhow::Result<Table> {
    let measured: Vec<Measured> = variants(test)
        .into_iter()
        .filter_map(|variant| {
            let name = script::published(test, variant).name;
            let Ended { scenario, load, outcome, .. } = ended.iter().find(|ended| ended.scenario == name)?;
            Some(Measured { variant, scenario, load, rows: &outcome.rows })
        })
        .collect();
    of(test, &measured, earlier, environment)
}

/// The table of a test, of which these variants were measured.
pub(crate) fn of(
    test: Test,
    measured: &[Measured<'_>],
    earlier: &[Entry],
    environment: &Environment,
) -> anyhow::Result<Table> {
    let columns = columns(test);
    let mut versions = Versions { variants: measured.len(), columns: &columns, versions: Vec::new() };
    for (index, of_variant) in measured.iter().enumerate() {
        versions.put_measured(index, of_variant, earlier, environment);
        for (name, figures) in published_rows(test, of_variant.variant)? {
            versions.put(index, Kind::Context, format!("published: {name}"), &figures);
        }
    }
    versions.sort();
    let rows = versions.rows();
    let headings = measured.iter().flat_map(|_| &columns).map(|(_, heading, _)| *heading);
    Ok(Table {
        title: title(test, measured.first().map_or("", |of_variant| of_variant.load)),
        groups: measured.iter().map(|of_variant| (heading(test, of_variant.variant), columns.len())).collect(),
        header: std::iter::once("version").chain(headings).map(str::to_owned).collect(),
        rows,
        ..Table::default()
    })
}

/// With what was offered: a rate may be that, and not what goes through.
fn title(test: Test, load: &str) -> String {
    let is_pushed = matches!(test, Test::Traces | Test::Metrics | Test::LogsOtel);
    let load = load.split(';').next().filter(|load| is_pushed && !load.is_empty());
    let offered = load.map_or_else(String::new, |load| format!("offered: {load}; "));
    format!("{}, version against version ({offered}published: other hardware, 2 nodes, sums)", test.name())
}

struct Versions<'a> {
    variants: usize,
    columns: &'a [Column],
    versions: Vec<Version>,
}

impl Versions<'_> {
    /// What was measured of a variant, and what the version before was found to do.
    fn put_measured(&mut self, variant: usize, of: &Measured<'_>, earlier: &[Entry], environment: &Environment) {
        for figures in of.rows {
            self.put(variant, Kind::Measured, name(figures, environment, "now"), &as_published(figures));
        }
        let of_load = Environment { load: of.load.to_owned(), ..environment.clone() };
        let Some(entry) = previous(earlier, of.scenario, &of_load) else { return };
        for figures in entry.rows.iter().filter(|figures| system(figures) == WEIR) {
            let name = name(figures, &entry.environment, entry.environment.day());
            self.put(variant, Kind::Context, name, &as_published(figures));
        }
    }

    fn put(&mut self, variant: usize, kind: Kind, name: String, figures: &Figures) {
        let cells = self.columns.iter().map(|&(key, _, digits)| cell(figures, key, digits)).collect();
        let index = self.versions.iter().position(|version| version.name == name).unwrap_or_else(|| {
            self.versions.push(Version { kind, name, cells: vec![None; self.variants] });
            self.versions.len() - 1
        });
        self.versions[index].cells[variant] = Some(cells);
    }

    /// What was measured now comes first, and what was published last.
    fn sort(&mut self) {
        self.versions.sort_by_key(|version| (version.kind == Kind::Context, version.name.starts_with("published")));
    }

    fn rows(self) -> Vec<Row> {
        let nothing = vec![String::new(); self.columns.len()];
        let row = |Version { kind, name, cells }: Version| {
            let cells = cells.into_iter().flat_map(|cells| cells.unwrap_or_else(|| nothing.clone()));
            Row { kind, cells: std::iter::once(name).chain(cells).collect() }
        };
        self.versions.into_iter().map(row).collect()
    }
}

/// A text as it is, and a number with so many digits.
fn cell(figures: &Figures, key: &str, digits: usize) -> String {
    match figures.get(key) {
        Some(Value::String(text)) => text.clone(),
        _ => number(figures, key, digits),
    }
}

fn heading(test: Test, variant: Variant) -> String {
    if test == Test::SelfMonitor {
        return "three pipelines of each signal".to_owned();
    }
    let pipelines = if variant.multi { "three pipelines" } else { "one pipeline" };
    let fault = if variant.backpressure.is_some() { ", back-pressure" } else { "" };
    let overlay = if variant.overlay == Some(Overlay::Batch) { ", batch" } else { "" };
    format!("{pipelines}{fault}{overlay}")
}

fn system(figures: &Figures) -> &str {
    figures.get("system").and_then(|system| system.as_str()).unwrap_or_default()
}

/// Peers do not have the version of Weir.
fn name(figures: &Figures, environment: &Environment, when: &str) -> String {
    match system(figures) {
        WEIR => format!("{WEIR} {}, {when}", environment.build()),
        peer => format!("{peer}, {when}"),
    }
}

/// The figures of a result, and what else is on the published pages.
fn as_published(figures: &Figures) -> Figures {
    let value = |key: &str| figures.get(key).and_then(|value| value.as_f64());
    let per_s = |megabytes: f64, seconds: f64| (seconds > 0.0).then(|| megabytes * 1e6 / 1024.0 / seconds);
    let input = value("input_mb").zip(value("duration_s")).and_then(|(megabytes, seconds)| per_s(megabytes, seconds));
    let output = value("wire_bytes_per_item").zip(value("exported_per_s")).map(|(bytes, items)| bytes * items / 1024.0);
    // Who ends by himself is not started again: he has no figures, and his test has failed.
    let restarts = figures.contains_key("accepted_per_s").then(|| value("kills").unwrap_or(0.0));
    let more = named([
        ("input_kb_per_s", json!(input)),
        ("output_kb_per_s", json!(output)),
        ("queue", json!(queue_of(figures))),
        ("restarts", json!(restarts)),
    ]);
    figures.clone().into_iter().chain(more).collect()
}

/// What was published of a variant, the newest first, and then what was expected of it.
fn published_rows(test: Test, variant: Variant) -> anyhow::Result<Vec<(String, Figures)>> {
    let mut rows = if test == Test::SelfMonitor { published::self_monitors(PUBLISHED)? } else { Vec::new() };
    rows.extend(published::latest(test, variant, PUBLISHED)?.iter().map(of_published));
    rows.extend(published::expected(test, variant)?.map(|figures| ("expected, about".to_owned(), figures)));
    Ok(rows)
}

fn of_published(row: &Published) -> (String, Figures) {
    let figures = named([
        ("accepted_per_s", json!(row.accepted_per_s)),
        ("exported_per_s", json!(row.exported_per_s)),
        ("input_kb_per_s", json!(row.input_kb_per_s)),
        ("output_kb_per_s", json!(row.output_kb_per_s)),
        ("queue", json!(published_queue(row))),
        ("memory_mb_avg", json!(row.memory_mb)),
        ("cpu_cores", json!(row.cpu_cores)),
        ("restarts", json!(published_restarts(row))),
    ]);
    (row.system.clone(), figures.into_iter().collect())
}

/// Those of the gateway, and those of the generator where there were any.
fn published_restarts(row: &Published) -> String {
    match (row.restarts, row.generator_restarts) {
        (Some(gateway), Some(generator)) if generator > 0 => format!("{gateway}, generator {generator}"),
        (Some(gateway), _) => gateway.to_string(),
        (None, _) => String::new(),
    }
}

fn named<const N: usize>(figures: [(&str, Value); N]) -> [(String, Value); N] {
    figures.map(|(key, value)| (key.to_owned(), value))
}
