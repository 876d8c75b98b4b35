//! The result as a table for people, in the columns of the published KPI documents and a few more.

use super::judgement::{Judgement, Kpis};
use super::published::Published;
use crate::report::history::{Entry, Figures};
use crate::report::{Kind, Row, Table, markdown};

/// Number of columns.
const COLUMNS: usize = 16;

const HEADER: [&str; COLUMNS] = [
    "system",
    "accepted/s",
    "exported/s",
    "queue",
    "MB avg",
    "MB peak",
    "disk MB",
    "CPU",
    "lost",
    "pending",
    "duplicated",
    "refused",
    "p50 ms",
    "p99 ms",
    "CPU s/M",
    "wire B/item",
];

/// Renders the systems, the ratios of each of `pairs` (a row and the one to compare it with), and the published row.
pub(crate) fn render(judgements: &[Judgement], pairs: &[(usize, usize)], published: &[Published]) -> String {
    let mut rows = vec![HEADER.map(str::to_owned)];
    rows.extend(judgements.iter().map(system_row));
    rows.extend(ratio_rows(judgements, pairs));
    rows.extend(published.iter().map(published_row));
    markdown::table(&rows)
}

/// The same for a report, which also has the rows of an earlier test.
pub(crate) fn html(
    judgements: &[Judgement],
    pairs: &[(usize, usize)],
    published: &[Published],
    previous: Option<&Entry>,
) -> Table {
    let row = |kind: Kind, cells: [String; COLUMNS]| Row { kind, cells: cells.into() };
    let measured = judgements.iter().map(|judgement| {
        let kind = if judgement.failures.is_empty() { Kind::Measured } else { Kind::Failed };
        row(kind, system_row(judgement))
    });
    let context = ratio_rows(judgements, pairs)
        .chain(previous.into_iter().flat_map(earlier_rows))
        .chain(published.iter().map(published_row));
    Table {
        header: HEADER.map(str::to_owned).into(),
        rows: measured.chain(context.map(|cells| row(Kind::Context, cells))).collect(),
        ..Table::default()
    }
}

fn ratio_rows(judgements: &[Judgement], pairs: &[(usize, usize)]) -> impl Iterator<Item = [String; COLUMNS]> {
    pairs.iter().filter_map(|&(row, base)| Some(ratio_row(judgements.get(row)?, judgements.get(base)?)))
}

/// What the history says of an earlier test.
fn earlier_rows(entry: &Entry) -> impl Iterator<Item = [String; COLUMNS]> {
    let when = format!("{}, {}", entry.environment.build(), entry.environment.day());
    entry.rows.iter().map(move |figures| earlier_row(&when, figures))
}

fn earlier_row(when: &str, figures: &Figures) -> [String; COLUMNS] {
    let text = |key: &str| figures.get(key).and_then(|value| value.as_str()).unwrap_or_default();
    let mut row = HEADER.map(|_| String::new());
    let part = if text("part").is_empty() { String::new() } else { format!(", {}", text("part")) };
    row[0] = format!("{} {when}{part}", text("system"));
    row[3] = queue_of(figures);
    for (column, key, digits) in [
        (1, "accepted_per_s", 0),
        (2, "exported_per_s", 0),
        (4, "memory_mb_avg", 0),
        (5, "memory_mb_peak", 0),
        (6, "disk_mb_peak", 0),
        (7, "cpu_cores", 2),
        (8, "lost", 0),
        (9, "pending", 0),
        (10, "duplicated", 0),
        (11, "refused", 0),
        (12, "latency_ms_p50", 1),
        (13, "latency_ms_p99", 1),
        (14, "cpu_s_per_million", 2),
        (15, "wire_bytes_per_item", 1),
    ] {
        if let Some(value) = figures.get(key).and_then(|value| value.as_f64()) {
            row[column] = format!("{value:.digits$}");
        }
    }
    row
}

fn system_row(judgement: &Judgement) -> [String; COLUMNS] {
    let kpis = &judgement.kpis;
    [
        judgement.label.clone(),
        format!("{:.0}", kpis.accepted_per_s),
        format!("{:.0}", kpis.exported_per_s),
        queue(&kpis.system, kpis.lines.is_some(), kpis.queue_size),
        format!("{:.0}", kpis.memory_mb_avg),
        format!("{:.0}", kpis.memory_mb_peak),
        format!("{:.0}", kpis.disk_mb_peak),
        format!("{:.2}", kpis.cpu_cores),
        kpis.lost.to_string(),
        kpis.pending.to_string(),
        kpis.duplicated.to_string(),
        refused(judgement),
        format!("{:.1}", kpis.latency_ms_p50),
        format!("{:.1}", kpis.latency_ms_p99),
        cpu_of_items(kpis),
        format!("{:.1}", kpis.wire_bytes_per_item),
    ]
}

/// Each system counts its queue in a unit of its own: Weir bytes, a collector requests, or bytes as a log agent.
fn queue(system: &str, is_log_agent: bool, size: f64) -> String {
    if system == super::WEIR || is_log_agent { mebibytes(size) } else { format!("{size:.0}") }
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / 1_048_576.0)
}

/// The queue in a row of `result.json`; nothing where there is none.
pub(crate) fn queue_of(figures: &Figures) -> String {
    let system = figures.get("system").and_then(|system| system.as_str()).unwrap_or_default();
    let size = figures.get("queue_size").and_then(|size| size.as_f64());
    // A key that log agents alone have.
    size.map_or_else(String::new, |size| queue(system, figures.contains_key("input_mb"), size))
}

/// The published one: requests, or what Fluent Bit had on its disks.
pub(crate) fn published_queue(published: &Published) -> String {
    match (published.queue_size, published.buffer_kb) {
        (_, Some(kilobytes)) => mebibytes(kilobytes * 1024.0),
        (Some(requests), None) => format!("{requests:.0}"),
        (None, None) => String::new(),
    }
}

/// Nothing when there were no items: then all CPU time is for something else.
fn cpu_of_items(kpis: &Kpis) -> String {
    if kpis.accepted_per_s > 0.0 && kpis.cpu_s_per_million > 0.0 {
        format!("{:.2}", kpis.cpu_s_per_million)
    } else {
        String::new()
    }
}

fn refused(judgement: &Judgement) -> String {
    match judgement.refused_without_hint {
        0 => judgement.kpis.refused.to_string(),
        requests => format!("{} ({requests} requests without hint)", judgement.kpis.refused),
    }
}

fn ratio_row(first: &Judgement, other: &Judgement) -> [String; COLUMNS] {
    let (a, b) = (&first.kpis, &other.kpis);
    let mut row = HEADER.map(|_| String::new());
    row[0] = format!("{} / {}", first.label, other.label);
    for (column, a, b) in [
        (1, a.accepted_per_s, b.accepted_per_s),
        (2, a.exported_per_s, b.exported_per_s),
        (4, a.memory_mb_avg, b.memory_mb_avg),
        (5, a.memory_mb_peak, b.memory_mb_peak),
        (7, a.cpu_cores, b.cpu_cores),
        (12, a.latency_ms_p50, b.latency_ms_p50),
        (13, a.latency_ms_p99, b.latency_ms_p99),
        (14, a.cpu_s_per_million, b.cpu_s_per_million),
        (15, a.wire_bytes_per_item, b.wire_bytes_per_item),
    ] {
        if b > 0.0 {
            row[column] = format!("{:.2}x", a / b);
        }
    }
    row
}

fn published_row(published: &Published) -> [String; COLUMNS] {
    let mut row = HEADER.map(|_| String::new());
    row[0] = format!("published: {}, other hardware", published.system);
    row[3] = published_queue(published);
    for (column, value) in
        [(1, Some(published.accepted_per_s)), (2, Some(published.exported_per_s)), (4, published.memory_mb)]
    {
        row[column] = value.map(|value| format!("{value:.0}")).unwrap_or_default();
    }
    row[7] = published.cpu_cores.map(|cores| format!("{cores:.2}")).unwrap_or_default();
    row
}

#[cfg(test)]
mod tests {
    use super::super::script::Variant;
    use super::*;
    use crate::scenario::{LineKpis, PageKpis, Test};

    fn judgement(system: &str, factor: f64) -> Judgement {
        let kpis = Kpis {
            system: system.to_owned(),
            scenario: "traces".to_owned(),
            refused: 2,
            accepted_per_s: 1000.0 * factor,
            exported_per_s: 1000.0 * factor,
            memory_mb_avg: 40.0 / factor,
            memory_mb_peak: 50.0 / factor,
            cpu_cores: 1.0,
            cpu_s_per_million: 3.0 / factor,
            wire_bytes_per_item: 321.0 / factor,
            latency_ms_p50: 1.5,
            latency_ms_p99: 9.0,
            ..Kpis::default()
        };
        Judgement { label: system.to_owned(), kpis, ..Judgement::default() }
    }

    #[test]
    fn systems_ratio_and_published_row_stand_below_each_other() {
        let published = super::super::published::of(Test::Traces, Variant::default()).unwrap();
        let table = render(&[judgement("weir", 4.0), judgement("otelcol", 1.0)], &[(0, 1)], &published);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 6, "{table}");
        assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{table}");
        assert!(lines[2].starts_with("| weir "));
        assert!(lines[4].contains("weir / otelcol") && lines[4].contains("4.00x") && lines[4].contains("0.25x"));
        assert!(lines[2].ends_with(" 80.2 |"), "{table}");
        assert!(lines[3].ends_with(" 321.0 |"), "{table}");
        assert!(lines[5].contains("published: Collector 0.158.0, other hardware") && lines[5].contains("24378"));
    }

    #[test]
    fn a_queue_has_the_unit_that_its_system_counts_in() {
        let queue = |system: &str, more: &str| {
            let row = format!(r#"{{"system": "{system}"{more}}}"#);
            queue_of(&serde_json::from_str(&row).unwrap())
        };
        assert_eq!(queue("weir", r#", "queue_size": 1572864.0"#), "1.5 MiB");
        assert_eq!(queue("otelcol", r#", "queue_size": 511.7"#), "512");
        assert_eq!(queue("otelcol", r#", "queue_size": 1048576.0, "input_mb": 5.0"#), "1.0 MiB", "a log agent");
        assert_eq!(queue("weir", ""), "", "not measured");
        let of = |test| published_queue(&super::super::published::of(test, Variant::default()).unwrap().remove(0));
        assert_eq!([of(Test::Traces), of(Test::LogsFluentbit)], ["1", "18.5 MiB"]);
    }

    #[test]
    fn refusals_without_a_hint_are_named() {
        let mut one = judgement("weir", 1.0);
        one.refused_without_hint = 7;
        assert!(render(&[one], &[], &[]).contains("2 (7 requests without hint)"));
    }

    #[test]
    fn without_items_there_is_no_cost_of_them() {
        let cost = |factor| system_row(&judgement("weir", factor))[14].clone();
        assert_eq!((cost(1.0).as_str(), cost(0.0).as_str()), ("3.00", ""));
    }

    #[test]
    fn result_json_has_exactly_the_agreed_keys() {
        let mut kpis = judgement("weir", 1.0).kpis;
        let value = serde_json::to_value(&kpis).unwrap();
        kpis.part = Some("alone".to_owned());
        kpis.leaked = Some(1);
        kpis.drain_s = Some(1.0);
        kpis.kills = Some(1);
        kpis.recovery_ms_p50 = Some(1.0);
        kpis.recovery_ms_max = Some(1.0);
        kpis.lines = Some(LineKpis::default());
        kpis.pages = Some(PageKpis::default());
        let everything = serde_json::to_value(&kpis).unwrap();
        assert_eq!(everything.as_object().unwrap().len(), value.as_object().unwrap().len() + 18);
        let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        let mut agreed = [
            "system",
            "scenario",
            "duration_s",
            "accepted",
            "exported",
            "lost",
            "pending",
            "duplicated",
            "refused",
            "unanswered",
            "accepted_per_s",
            "exported_per_s",
            "queue_size",
            "backlog_peak",
            "memory_mb_avg",
            "memory_mb_peak",
            "disk_mb_peak",
            "disk_mb_written",
            "cpu_cores",
            "cpu_s_per_million",
            "wire_bytes_per_item",
            "latency_ms_p50",
            "latency_ms_p99",
            "client_ms_p99",
            "client_ms_max",
            "settle_s",
        ];
        agreed.sort_unstable();
        assert_eq!(keys, agreed);
    }
}
