//! Version against version, as results are published: a table for each test, and columns for its variants.

use super::super::published::{self, Published};
use super::super::script::{self, Variant};
use super::super::{Test, WEIR};
use super::overview::number;
use super::{Ended, variants};
use crate::report::history::{Entry, Figures, previous};
use crate::report::{Environment, Kind, Row, Table};

/// Columns of each variant.
const FIGURES: [&str; 4] = ["accepted/s", "exported/s", "MB", "CPU"];
/// Versions that were published, the newest ones.
const PUBLISHED: usize = 3;

/// What a version has of each variant.
struct Version {
    kind: Kind,
    name: String,
    cells: Vec<Option<[String; 4]>>,
}

/// A table for each test that was run and has published rows.
pub(super) fn tables(ended: &[Ended], earlier: &[Entry], environment: &Environment) -> anyhow::Result<Vec<Table>> {
    let mut tests: Vec<Test> = ended.iter().map(|ended| ended.test).filter(|test| *test != Test::SelfMonitor).collect();
    tests.dedup();
    tests.into_iter().map(|test| table(test, ended, earlier, environment)).collect()
}

fn table(test: Test, ended: &[Ended], earlier: &[Entry], environment: &Environment) -> anyhow::Result<Table> {
    let measured: Vec<(Variant, &Ended)> = variants(test)
        .into_iter()
        .filter_map(|variant| {
            let name = script::published(test, variant).name;
            Some((variant, ended.iter().find(|ended| ended.scenario == name)?))
        })
        .collect();
    let mut versions = Versions { variants: measured.len(), versions: Vec::new() };
    for (index, (variant, ended)) in measured.iter().enumerate() {
        for figures in &ended.outcome.rows {
            versions.put(index, Kind::Measured, name(figures, environment, "now"), of_figures(figures));
        }
        let of_load = Environment { load: ended.load.clone(), ..environment.clone() };
        if let Some(entry) = previous(earlier, &ended.scenario, &of_load) {
            let weir = entry.rows.iter().filter(|figures| system(figures) == WEIR);
            for figures in weir {
                let name = name(figures, &entry.environment, entry.environment.day());
                versions.put(index, Kind::Context, name, of_figures(figures));
            }
        }
        for row in published::latest(test, *variant, PUBLISHED)? {
            versions.put(index, Kind::Context, format!("published: {}", row.system), of_published(&row));
        }
    }
    versions.sort();
    Ok(Table {
        title: format!("{}, version against version (published: other hardware, 2 nodes, sums)", test.name()),
        groups: measured.iter().map(|(variant, _)| (heading(*variant), FIGURES.len())).collect(),
        header: std::iter::once("version").chain(measured.iter().flat_map(|_| FIGURES)).map(str::to_owned).collect(),
        rows: versions.rows(),
        ..Table::default()
    })
}

struct Versions {
    variants: usize,
    versions: Vec<Version>,
}

impl Versions {
    fn put(&mut self, variant: usize, kind: Kind, name: String, cells: [String; 4]) {
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
        let row = |Version { kind, name, cells }: Version| {
            let cells = cells.into_iter().flat_map(|cells| cells.unwrap_or_default());
            Row { kind, cells: std::iter::once(name).chain(cells).collect() }
        };
        self.versions.into_iter().map(row).collect()
    }
}

fn heading(variant: Variant) -> String {
    let pipelines = if variant.multi { "three pipelines" } else { "one pipeline" };
    let fault = if variant.backpressure.is_some() { ", back-pressure" } else { "" };
    format!("{pipelines}{fault}")
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

fn of_figures(figures: &Figures) -> [String; 4] {
    [("accepted_per_s", 0), ("exported_per_s", 0), ("memory_mb_avg", 0), ("cpu_cores", 2)]
        .map(|(key, digits)| number(figures, key, digits))
}

fn of_published(row: &Published) -> [String; 4] {
    let whole = |value: Option<f64>| value.map(|value| format!("{value:.0}")).unwrap_or_default();
    [
        whole(Some(row.accepted_per_s)),
        whole(Some(row.exported_per_s)),
        whole(row.memory_mb),
        row.cpu_cores.map(|cores| format!("{cores:.2}")).unwrap_or_default(),
    ]
}
