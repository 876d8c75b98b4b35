//! All tests at a glance.

use super::Ended;
use crate::report::environment::lasting;
use crate::report::history::Figures;
use crate::report::{Kind, Row, Table};

/// Columns behind the test and its verdict: a figure, its heading, and its digits.
const COLUMNS: [(&str, &str, usize); 8] = [
    ("accepted_per_s", "accepted/s", 0),
    ("exported_per_s", "exported/s", 0),
    ("memory_mb_avg", "MB avg", 0),
    ("memory_mb_peak", "MB peak", 0),
    ("cpu_cores", "CPU", 2),
    ("lost", "lost", 0),
    ("duplicated", "duplicated", 0),
    ("latency_ms_p99", "p99 ms", 1),
];

/// A row for each system in each test.
pub(super) fn table(ended: &[Ended]) -> Table {
    let columns = COLUMNS.map(|(_, heading, _)| heading);
    let header = ["test", "verdict"].into_iter().chain(columns).chain(["took"]).map(str::to_owned);
    Table {
        title: "All tests".to_owned(),
        header: header.collect(),
        rows: ended.iter().flat_map(rows).collect(),
        ..Table::default()
    }
}

fn rows(ended: &Ended) -> Vec<Row> {
    let passed = ended.outcome.has_passed();
    let (kind, verdict) = if passed { (Kind::Measured, "passed") } else { (Kind::Failed, "FAILED") };
    let nothing = Figures::default();
    let (first, peers) = ended.outcome.rows.split_first().unwrap_or((&nothing, &[]));
    let row = |kind, name: String, verdict: &str, figures: &Figures, took: String| Row {
        kind,
        cells: [name, verdict.to_owned()].into_iter().chain(cells(figures)).chain([took]).collect(),
    };
    let mut rows = vec![row(kind, ended.scenario.clone(), verdict, first, lasting(ended.seconds))];
    rows.extend(peers.iter().map(|figures| {
        let system = figures.get("system").and_then(|system| system.as_str()).unwrap_or_default();
        row(Kind::Context, format!("{}, {system}", ended.scenario), "", figures, String::new())
    }));
    rows
}

fn cells(figures: &Figures) -> impl Iterator<Item = String> {
    COLUMNS.into_iter().map(|(key, _, digits)| number(figures, key, digits))
}

/// A figure; nothing where there is none.
pub(super) fn number(figures: &Figures, key: &str, digits: usize) -> String {
    let value = figures.get(key).and_then(|value| value.as_f64());
    value.map_or_else(String::new, |value| format!("{value:.digits$}"))
}
