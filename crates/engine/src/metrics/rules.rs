//! What the rules of pipelines did, statement by statement.

use std::fmt;

use super::{Labels, Writer, load, pipeline_labels};
use crate::intake::{Route, Routes};
use crate::rules::{Delta, RuleStats};

/// Transforms, filters and temporality of every pipeline that has any.
pub(super) fn rules(writer: &mut Writer<'_>, routes: &Routes) -> fmt::Result {
    let transforms: Vec<_> = routes.routes.iter().flat_map(transforms).collect();
    let filters: Vec<_> = routes.routes.iter().flat_map(filters).collect();
    if !transforms.is_empty() || !filters.is_empty() {
        let stats = || transforms.iter().chain(&filters);
        let matched = stats().map(|(labels, stats)| (labels.clone(), load(&stats.matched)));
        let help = "Times that a statement was executed, or a condition held";
        writer.counters("weir_rule_matches", help, matched)?;
        let errors = stats().map(|(labels, stats)| (labels.clone(), load(&stats.errors)));
        let help = "Times that a statement or a condition failed; what it failed for stayed as it was";
        writer.counters("weir_rule_errors", help, errors)?;
        let filtered = filters.iter().map(|(labels, stats)| (labels.clone(), load(&stats.filtered)));
        let help = "Items that the condition of a filter removed";
        writer.counters("weir_rule_filtered_items", help, filtered)?;
    }
    let deltas = routes.routes.iter().filter_map(|route| Some((route, route.rules.as_ref()?.delta.as_ref()?)));
    let deltas: Vec<_> = deltas.collect();
    if deltas.is_empty() {
        return Ok(());
    }
    let points = deltas.iter().flat_map(|(route, delta)| points(route, delta));
    writer.counters("weir_temporality_points", "Data points by what conversion to delta made of them", points)?;
    let series = deltas.iter().map(|(route, delta)| (pipeline_labels(&route.pipeline), delta.series() as f64));
    writer.gauges("weir_temporality_series", "Series that are remembered for conversion to delta", series)?;
    let forgotten = deltas.iter().flat_map(|(route, delta)| {
        let forgotten = delta.counts().forgotten;
        let forgotten = [("stale", forgotten.stale), ("memory", forgotten.memory), ("owed_delta", forgotten.owed)];
        forgotten.map(|(reason, count)| {
            let mut labels = pipeline_labels(&route.pipeline);
            labels.push(("reason", reason.to_owned()));
            (labels, count)
        })
    });
    writer.counters("weir_temporality_forgotten_series", "Series no longer remembered, by reason", forgotten)
}

/// Of the conditions and statements of a pipeline's transforms.
fn transforms(route: &Route) -> Vec<(Labels, &RuleStats)> {
    let Some(rules) = &route.rules else { return Vec::new() };
    let transforms = rules.transforms.iter().enumerate().flat_map(|(rule, transform)| {
        let conditions = lines(route, "transform_condition", rule, &transform.conditions);
        conditions.chain(lines(route, "transform_statement", rule, &transform.statements))
    });
    transforms.collect()
}

/// Of the conditions of a pipeline's filters.
fn filters(route: &Route) -> Vec<(Labels, &RuleStats)> {
    let Some(rules) = &route.rules else { return Vec::new() };
    let filters = rules.filters.iter().enumerate();
    filters.flat_map(|(rule, filter)| lines(route, "filter_condition", rule, &filter.conditions)).collect()
}

/// With the labels `kind`, `rule` (from 0) and `line` (from 0 within the conditions or statements of the rule).
fn lines<'a>(
    route: &Route,
    kind: &'static str,
    rule: usize,
    stats: &'a [RuleStats],
) -> impl Iterator<Item = (Labels, &'a RuleStats)> {
    stats.iter().enumerate().map(move |(line, stats)| {
        let mut labels = pipeline_labels(&route.pipeline);
        labels.extend([("kind", kind.to_owned()), ("rule", rule.to_string()), ("line", line.to_string())]);
        (labels, stats)
    })
}

fn points(route: &Route, delta: &Delta) -> Vec<(Labels, u64)> {
    let counts = delta.counts();
    let row = |outcome: &str, reason: &str, count| {
        let mut labels = pipeline_labels(&route.pipeline);
        labels.extend([("outcome", outcome.to_owned()), ("reason", reason.to_owned())]);
        (labels, count)
    };
    let passed = counts.passed.by_reason().map(|(reason, count)| row("passed", reason, count));
    let dropped = counts.dropped.by_reason().map(|(reason, count)| row("dropped", reason, count));
    std::iter::once(row("converted", "", counts.converted)).chain(passed).chain(dropped).collect()
}
