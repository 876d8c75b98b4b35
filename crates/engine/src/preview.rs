//! What the pipelines of a plan would make of a request, without sending anything: for trying out rules.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use weir_enrich::{Enricher, Pods};
use weir_plan::{Pipeline, PipelineId, Plan, Processing, Section, Signal};

use crate::budget::{Budget, Purse};
use crate::buffer::Buffer;
use crate::inlet::{InputKind, Origin, Request};
use crate::intake::{Enriched, Selection, Unprepared};
use crate::rules::{Memory, Processed, RuleStats, Rules};

/// How large a request may become. Nothing is kept for longer than the preview.
const MEMORY: usize = 1 << 30;

/// What one pipeline makes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Which pipeline: `traces/backend`.
    pub pipeline: PipelineId,
    /// The request as its backend would get it; empty when nothing is left of it, `None` when the pipeline takes
    /// nothing of it.
    pub request: Option<Bytes>,
    /// Items in it.
    pub items: u64,
    /// Items removed, by reason.
    pub filtered: BTreeMap<&'static str, u64>,
    /// What each condition and statement did, in the order in which they are applied.
    pub rules: Vec<RuleReport>,
    /// The request after each step on its way, one after the other, as far as the pipeline has these steps.
    pub steps: Vec<Step>,
}

/// A request after a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// `enrichment`, `noise filter`, `namespaces`, `transform`, `filter` or `temporality`.
    pub name: &'static str,
    /// What is left of the request.
    pub request: Bytes,
    /// Items in it.
    pub items: u64,
}

/// What a condition or statement did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleReport {
    /// `transform[0].statements[1]`
    pub field: String,
    /// The text of the rule.
    pub text: String,
    /// Times that it held or was executed.
    pub matched: u64,
    /// Items it removed: spans, data points or log records. Only conditions of filters remove any.
    pub filtered: u64,
    /// Times that it failed.
    pub errors: u64,
    /// Why it failed the first time.
    pub cause: Option<String>,
}

/// Applies the plan to a valid request of one signal that came from `peer`, with facts about the cluster.
///
/// # Errors
/// A rule that cannot be compiled, or a request that grows beyond reason.
pub fn preview(
    plan: &Plan,
    pods: &Arc<dyn Pods>,
    signal: Signal,
    request: Bytes,
    peer: Option<IpAddr>,
) -> Result<Vec<Preview>, String> {
    let items = u64::from(weir_otlp::count(signal, &request));
    let budget = Budget::new(MEMORY);
    let permit = budget.try_take(request.len()).ok_or("the sample is too large")?;
    let origin = Origin { input: InputKind::Otlp, peer };
    let request = Request::valid(signal, Buffer::new(request.into(), permit), items, origin);
    let enricher = Enricher::new(plan.enrichment.clone(), Arc::clone(pods));
    let enriched = Enriched::new(request, &enricher, true, &budget).map_err(explain)?;
    let purse = Purse::new(&budget, 0);
    let pipelines = plan.pipelines.iter().filter(|pipeline| pipeline.id.signal == signal);
    pipelines.map(|pipeline| one(pipeline, &enriched, purse)).collect()
}

fn one(pipeline: &Pipeline, enriched: &Enriched, purse: Purse<'_>) -> Result<Preview, String> {
    let mut preview = Preview {
        pipeline: pipeline.id.clone(),
        request: None,
        items: 0,
        filtered: BTreeMap::new(),
        rules: Vec::new(),
        steps: enriched.steps(&pipeline.input),
    };
    let selection = Selection::new(&pipeline.input);
    let Some(taken) = enriched.select(&selection, purse).map_err(explain)? else {
        preview.rules = rules(pipeline)?.map(|rules| reports(pipeline, &rules)).unwrap_or_default();
        return Ok(preview);
    };
    let mut processed = enriched.process(taken, None, purse).map_err(explain)?;
    if selection.is_selective() {
        preview.steps.push(step("namespaces", &processed));
    }
    preview.count(&processed);
    for (name, pipeline) in stages(pipeline) {
        let Some(rules) = rules(&pipeline)? else { continue };
        if processed.items > 0 {
            processed = enriched.apply(&rules, processed, purse).map_err(explain)?;
            preview.count(&processed);
        }
        preview.steps.push(step(name, &processed));
        preview.rules.extend(reports(&pipeline, &rules));
    }
    (preview.items, preview.request) = (processed.items, Some(processed.body));
    Ok(preview)
}

impl Preview {
    /// Counts what a step removed.
    fn count(&mut self, processed: &Processed) {
        for removed in &processed.removed {
            *self.filtered.entry(removed.reason).or_default() += removed.items;
            removed.count();
        }
    }
}

fn step(name: &'static str, processed: &Processed) -> Step {
    Step { name, request: processed.body.clone(), items: processed.items }
}

/// The pipeline with one kind of processing at a time, in the order in which they come.
fn stages(pipeline: &Pipeline) -> [(&'static str, Pipeline); 4] {
    let Processing { transforms, filters, sections, temporality } = pipeline.processing.clone();
    let with = |processing| Pipeline { processing, ..pipeline.clone() };
    [
        ("transform", with(Processing { transforms, ..Processing::default() })),
        ("filter", with(Processing { filters, ..Processing::default() })),
        ("filters", with(Processing { sections, ..Processing::default() })),
        ("temporality", with(Processing { temporality, ..Processing::default() })),
    ]
}

/// Counting begins before any sample. So the first point of a series that says when it began is a delta.
fn rules(pipeline: &Pipeline) -> Result<Option<Rules>, String> {
    Rules::compile(pipeline, Memory { before: None, bytes: MEMORY }, &|| None, 0)
}

fn explain(unprepared: Unprepared) -> String {
    match unprepared {
        Unprepared::NoMemory => "the request becomes larger than 1 GiB".to_owned(),
        Unprepared::TooLarge(message) => message,
    }
}

pub(crate) fn reports(pipeline: &Pipeline, rules: &Rules) -> Vec<RuleReport> {
    let mut reports = Vec::new();
    let mut add = |field: String, texts: &[String], stats: &[RuleStats]| {
        for (line, (text, stats)) in texts.iter().zip(stats).enumerate() {
            reports.push(report(format!("{field}[{line}]"), text, stats));
        }
    };
    let processing = &pipeline.processing;
    for (number, (rule, counted)) in processing.transforms.iter().zip(&rules.transforms).enumerate() {
        add(format!("transform[{number}].conditions"), &rule.conditions, &counted.conditions);
        add(format!("transform[{number}].statements"), &rule.statements, &counted.statements);
    }
    for (number, (rule, counted)) in processing.filters.iter().zip(&rules.filters).enumerate() {
        add(format!("filter[{number}].conditions"), &rule.conditions, &counted.conditions);
    }
    let counted = rules.sections.iter().flat_map(|sections| &sections.conditions);
    for (number, (section, stats)) in processing.sections.iter().zip(counted).enumerate() {
        reports.push(report(format!("filters[{number}]"), plugin(section), stats));
    }
    reports
}

/// What a filter of Fluent Bit is called; the rest of it may be secret.
fn plugin(section: &Section) -> &str {
    section.lines.iter().rfind(|line| line.key == "name").map_or("", |line| line.value.reveal())
}

fn report(field: String, text: &str, stats: &RuleStats) -> RuleReport {
    use std::sync::atomic::Ordering::Relaxed;
    let cause = stats.cause.lock().unwrap_or_else(PoisonError::into_inner).clone();
    RuleReport {
        field,
        text: text.to_owned(),
        matched: stats.matched.load(Relaxed),
        filtered: stats.filtered.load(Relaxed),
        errors: stats.errors.load(Relaxed),
        cause,
    }
}
