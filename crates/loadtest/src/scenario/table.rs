//! The result as a table for people, in the columns of the published KPI documents and a few more.

use std::fmt::Write;

use super::published::Published;
use super::verdict::{Kpis, Verdict};

const HEADER: [&str; 14] = [
    "system",
    "accepted/s",
    "exported/s",
    "queue",
    "MB avg",
    "MB peak",
    "CPU",
    "lost",
    "pending",
    "duplicated",
    "refused",
    "p50 ms",
    "p99 ms",
    "CPU s/M",
];

/// Renders the systems, the ratios of the first to each other one, and the published row.
pub(crate) fn render(verdicts: &[Verdict], published: Option<&Published>) -> String {
    let mut rows = vec![HEADER.map(str::to_owned)];
    rows.extend(verdicts.iter().map(system_row));
    if let Some((first, others)) = verdicts.split_first() {
        rows.extend(others.iter().map(|other| ratio_row(first, other)));
    }
    rows.extend(published.map(published_row));
    layout(&rows)
}

fn system_row(verdict: &Verdict) -> [String; 14] {
    let kpis = &verdict.kpis;
    [
        kpis.system.clone(),
        format!("{:.0}", kpis.accepted_per_s),
        format!("{:.0}", kpis.exported_per_s),
        queue(kpis),
        format!("{:.0}", kpis.memory_mb_avg),
        format!("{:.0}", kpis.memory_mb_peak),
        format!("{:.2}", kpis.cpu_cores),
        kpis.lost.to_string(),
        verdict.pending.to_string(),
        kpis.duplicated.to_string(),
        refused(verdict),
        format!("{:.1}", kpis.latency_ms_p50),
        format!("{:.1}", kpis.latency_ms_p99),
        format!("{:.2}", kpis.cpu_s_per_million),
    ]
}

/// Each system counts its queue in a unit of its own: Weir bytes, a collector requests.
fn queue(kpis: &Kpis) -> String {
    if kpis.system == super::WEIR {
        return format!("{:.1} MiB", kpis.queue_size / 1_048_576.0);
    }
    format!("{:.0}", kpis.queue_size)
}

fn refused(verdict: &Verdict) -> String {
    match verdict.refused_without_hint {
        0 => verdict.kpis.refused.to_string(),
        requests => format!("{} ({requests} requests without hint)", verdict.kpis.refused),
    }
}

fn ratio_row(first: &Verdict, other: &Verdict) -> [String; 14] {
    let (a, b) = (&first.kpis, &other.kpis);
    let mut row = HEADER.map(|_| String::new());
    row[0] = format!("{} / {}", a.system, b.system);
    for (column, a, b) in [
        (1, a.accepted_per_s, b.accepted_per_s),
        (2, a.exported_per_s, b.exported_per_s),
        (4, a.memory_mb_avg, b.memory_mb_avg),
        (5, a.memory_mb_peak, b.memory_mb_peak),
        (6, a.cpu_cores, b.cpu_cores),
        (11, a.latency_ms_p50, b.latency_ms_p50),
        (12, a.latency_ms_p99, b.latency_ms_p99),
        (13, a.cpu_s_per_million, b.cpu_s_per_million),
    ] {
        if b > 0.0 {
            row[column] = format!("{:.2}x", a / b);
        }
    }
    row
}

fn published_row(published: &Published) -> [String; 14] {
    let mut row = HEADER.map(|_| String::new());
    row[0] = format!("published {}, other hardware", published.version);
    for (column, value) in [
        (1, published.accepted_per_s),
        (2, published.exported_per_s),
        (3, published.queue_size),
        (4, published.memory_mb),
    ] {
        row[column] = format!("{value:.0}");
    }
    row[6] = format!("{:.2}", published.cpu_cores);
    row
}

/// Aligns the first column left and numbers right, as a Markdown table.
fn layout(rows: &[[String; 14]]) -> String {
    let widths: Vec<usize> =
        (0..HEADER.len()).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = if column == 0 { write!(out, "| {cell:<width$} ") } else { write!(out, "| {cell:>width$} ") };
        }
        out.push_str("|\n");
        if index == 0 {
            for (column, &width) in widths.iter().enumerate() {
                let end = if column == 0 { "-" } else { ":" };
                let _ = write!(out, "|-{}{end}", "-".repeat(width));
            }
            out.push_str("|\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(system: &str, factor: f64) -> Verdict {
        let kpis = Kpis {
            system: system.to_owned(),
            scenario: "traces".to_owned(),
            duration_s: 60.0,
            accepted: 600,
            exported: 600,
            lost: 0,
            duplicated: 1,
            refused: 2,
            accepted_per_s: 1000.0 * factor,
            exported_per_s: 1000.0 * factor,
            queue_size: 3.0,
            memory_mb_avg: 40.0 / factor,
            memory_mb_peak: 50.0 / factor,
            cpu_cores: 1.0,
            cpu_s_per_million: 3.0 / factor,
            latency_ms_p50: 1.5,
            latency_ms_p99: 9.0,
        };
        Verdict { kpis, pending: 0, refused_without_hint: 0, warnings: Vec::new(), failed: false }
    }

    #[test]
    fn systems_ratio_and_published_row_stand_below_each_other() {
        let published = super::super::published::newest(super::super::Variant::default()).unwrap();
        let table = render(&[verdict("weir", 4.0), verdict("otelcol", 1.0)], Some(&published));
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 6, "{table}");
        assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{table}");
        assert!(lines[2].starts_with("| weir "));
        assert!(lines[4].contains("weir / otelcol") && lines[4].contains("4.00x") && lines[4].contains("0.25x"));
        assert!(lines[5].contains("published 0.158.0, other hardware") && lines[5].contains("24378"));
    }

    #[test]
    fn refusals_without_a_hint_are_named() {
        let mut one = verdict("weir", 1.0);
        one.refused_without_hint = 7;
        assert!(render(&[one], None).contains("2 (7 requests without hint)"));
    }

    #[test]
    fn result_json_has_exactly_the_agreed_keys() {
        let value = serde_json::to_value(verdict("weir", 1.0).kpis).unwrap();
        let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        let mut agreed = [
            "system",
            "scenario",
            "duration_s",
            "accepted",
            "exported",
            "lost",
            "duplicated",
            "refused",
            "accepted_per_s",
            "exported_per_s",
            "queue_size",
            "memory_mb_avg",
            "memory_mb_peak",
            "cpu_cores",
            "cpu_s_per_million",
            "latency_ms_p50",
            "latency_ms_p99",
        ];
        agreed.sort_unstable();
        assert_eq!(keys, agreed);
    }
}
