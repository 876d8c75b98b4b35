//! Metrics of what the rules of pipelines did, statement by statement, and the conversion to delta.

use std::borrow::Cow;

use super::Kind::{Counter, Gauge};
use super::{Metric, PIPELINE, Samples, Values, of};
use crate::view::{PipelineFigures, RuleFigures, Snapshot};

const LINE: &[&str] = &["pipeline", "signal", "kind", "rule", "line"];

pub(super) const METRICS: [Metric; 6] = [
    Metric {
        name: "weir_rule_matches_total",
        kind: Counter,
        labels: LINE,
        help: "Times that a statement was executed, or a condition held",
        samples: |snapshot| lines(snapshot, |_| true, |line| line.matches),
    },
    Metric {
        name: "weir_rule_errors_total",
        kind: Counter,
        labels: LINE,
        help: "Times that a statement or a condition failed; what it failed for stayed as it was",
        samples: |snapshot| lines(snapshot, |_| true, |line| line.errors),
    },
    Metric {
        name: "weir_rule_filtered_items_total",
        kind: Counter,
        labels: LINE,
        help: "Items that a filter removed, or its condition",
        samples: |snapshot| lines(snapshot, is_filter, |line| line.filtered),
    },
    Metric {
        name: "weir_temporality_points_total",
        kind: Counter,
        labels: &["pipeline", "signal", "outcome", "reason"],
        help: "Data points by what conversion to delta made of them",
        samples: points,
    },
    Metric {
        name: "weir_temporality_series",
        kind: Gauge,
        labels: PIPELINE,
        help: "Series that are remembered for conversion to delta",
        samples: |snapshot| {
            let series = snapshot.pipelines.iter().filter_map(|pipeline| Some((pipeline, pipeline.delta?.series)));
            Box::new(series.map(|(pipeline, series)| (of(&pipeline.id, []), series.into())))
        },
    },
    Metric {
        name: "weir_temporality_forgotten_series_total",
        kind: Counter,
        labels: &["pipeline", "signal", "reason"],
        help: "Series no longer remembered, by reason",
        samples: |snapshot| {
            let deltas = snapshot.pipelines.iter().filter_map(|pipeline| Some((pipeline, pipeline.delta?.counts)));
            Box::new(deltas.flat_map(|(pipeline, counts)| {
                let of_which = counts.forgotten;
                let reasons = [("stale", of_which.stale), ("memory", of_which.memory), ("owed_delta", of_which.owed)];
                reasons.into_iter().map(|(reason, series)| (of(&pipeline.id, [reason]), series.into()))
            }))
        },
    },
];

fn lines<'a>(snapshot: &'a Snapshot, which: fn(&RuleFigures) -> bool, read: fn(&RuleFigures) -> u64) -> Samples<'a> {
    Box::new(snapshot.pipelines.iter().flat_map(move |pipeline| {
        let lines = pipeline.rules.iter().filter(move |line| which(line));
        lines.map(move |line| (place(pipeline, line), read(line).into()))
    }))
}

fn is_filter(line: &RuleFigures) -> bool {
    matches!(line.kind, "filter_condition" | "fluent_bit_filter")
}

fn place<'a>(pipeline: &'a PipelineFigures, line: &RuleFigures) -> Values<'a> {
    let mut values = of(&pipeline.id, [line.kind]);
    values.extend([line.rule, line.line].map(|number| Cow::Owned(number.to_string())));
    values
}

fn points(snapshot: &Snapshot) -> Samples<'_> {
    let deltas = snapshot.pipelines.iter().filter_map(|pipeline| Some((pipeline, pipeline.delta?.counts)));
    Box::new(deltas.flat_map(|(pipeline, counts)| {
        let row =
            move |outcome, (reason, points): (&'static str, u64)| (of(&pipeline.id, [outcome, reason]), points.into());
        let passed = counts.passed.by_reason().into_iter().map(move |of_reason| row("passed", of_reason));
        let dropped = counts.dropped.by_reason().into_iter().map(move |of_reason| row("dropped", of_reason));
        std::iter::once(row("converted", ("", counts.converted))).chain(passed).chain(dropped)
    }))
}
