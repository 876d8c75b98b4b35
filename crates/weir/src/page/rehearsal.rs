//! `/api/preview`: what other rules would make of recent items, or of what a tap has caught, without using them.

use std::sync::Arc;
use std::time::SystemTime;

use http::{Method, StatusCode};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use weir_engine::RuleReport;
use weir_engine::Text;
use weir_engine::admin::{AUDIT, Asked, Page, Readers, Shown};
use weir_engine::taps::{Caught, Deltas, Rehearsal, Taps};
use weir_plan::{Body, Filter, Pipeline, PipelineId, Processing, Section, Signal, Transform};
use weir_resources::{Diagnostic, Options, Report, Severity, Source};

use super::json::{Refusal, document, show};
use super::recent::RecentPage;
use super::redact::redact_both;
use super::taps::TapsPage;
use crate::page::Configurations;
use crate::yaml;

/// Filters of Fluent Bit in one preview.
const MOST_FILTERS: usize = 32;
/// Of the conversion to delta, which begins anew with each preview.
const FIRST_POINTS: &str =
    "the first point of each series has no delta here: what came before it is not known to a preview";
const API_VERSION: &str = "telemetry.kyma-project.io/v1beta1";

/// See the module.
#[derive(Debug)]
pub(super) struct RehearsalPage {
    pub(super) taps: Taps,
    pub(super) opened: TapsPage,
    pub(super) recent: RecentPage,
    pub(super) configurations: Configurations,
    /// Who tries rules: they may show more of items than whoever looks at these sees.
    pub(super) readers: Readers,
}

/// Rules as somebody has changed them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    pipeline: String,
    /// Whose items they are tried on; otherwise on recent items.
    tap: Option<u64>,
    #[serde(default)]
    transform: Vec<TransformRule>,
    #[serde(default)]
    filter: Vec<FilterRule>,
    /// Filters of Fluent Bit. All are those of the pipeline if there is no list.
    filters: Option<Vec<FluentBitFilter>>,
    #[serde(default = "super::json::yes")]
    redact: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TransformRule {
    #[serde(default)]
    conditions: Vec<String>,
    #[serde(default)]
    statements: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilterRule {
    #[serde(default)]
    conditions: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum FluentBitFilter {
    /// That of the pipeline with this number.
    Deployed(usize),
    /// As it is written.
    Written(String),
}

impl RehearsalPage {
    fn answer(&self, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let changed: Changed = serde_json::from_slice(asked.body)
            .map_err(|error| Refusal::wrong(format!("cannot read the rules: {error}")))?;
        let named = self.configurations.pipeline(&changed.pipeline)?;
        // What a tap hides is hidden when rules are tried on it.
        let redacts = changed.redact || changed.tap.is_some_and(|tap| self.opened.redacts(tap));
        let items = self.items(&changed, &named.id, asked)?;
        self.note(&changed, redacts, asked);
        let processing = changed.processing(&named)?;
        let pipeline = Pipeline { processing, ..named };
        let rehearsal = self.taps.rehearse(&pipeline, &items)?;
        Ok(show(body, &answer(&pipeline, &rehearsal, redacts, changed.filters.as_deref())))
    }

    fn items(&self, changed: &Changed, id: &PipelineId, asked: &Asked<'_>) -> Result<Vec<Arc<Caught>>, Refusal> {
        match changed.tap {
            Some(tap) => {
                let kept = self.taps.kept(tap, id).ok_or_else(|| {
                    Refusal::new(StatusCode::GONE, format!("there is no tap {tap}: open another one, of the pipeline"))
                })?;
                self.opened.note(tap, self.opened.redacts(tap), asked);
                Ok(kept)
            }
            None => Ok(self.recent.read(id, changed.redact, asked).items),
        }
    }

    /// The log says who tries rules, and on what.
    fn note(&self, Changed { pipeline, tap, .. }: &Changed, redact: bool, asked: &Asked<'_>) {
        if self.readers.note(asked.from, &format!("{pipeline} {tap:?} {redact}")) {
            tracing::info!(
                target: AUDIT,
                from = %asked.from.peer,
                token = asked.from.token,
                pipeline,
                tap,
                redact,
                "somebody tries rules on telemetry"
            );
        }
    }
}

impl Page for RehearsalPage {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn makes_documents(&self) -> bool {
        true
    }

    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        self.answer(asked, body).unwrap_or_else(|refusal| refusal.show(body))
    }
}

impl Changed {
    fn processing(&self, named: &Pipeline) -> Result<Processing, Refusal> {
        let transform = |rule: &TransformRule| Transform {
            conditions: rule.conditions.clone(),
            statements: rule.statements.clone(),
        };
        let filter = |rule: &FilterRule| Filter { conditions: rule.conditions.clone() };
        Ok(Processing {
            transforms: self.transform.iter().map(transform).collect(),
            filters: self.filter.iter().map(filter).collect(),
            sections: self.sections(named)?,
            temporality: named.processing.temporality,
        })
    }

    /// Filters of Fluent Bit. Those of the pipeline are used as they are: what is in them may be secret, and is not shown.
    fn sections(&self, named: &Pipeline) -> Result<Vec<Section>, Refusal> {
        let deployed = &named.processing.sections;
        let Some(written) = &self.filters else { return Ok(deployed.clone()) };
        if !written.is_empty() && !matches!(named.output.body, Body::FluentBit(_)) {
            return Err(Refusal::wrong(format!(
                "{} does not send records of Fluent Bit: it has no `filters`",
                named.id
            )));
        }
        if written.len() > MOST_FILTERS {
            return Err(Refusal::wrong(format!(
                "{} filters are too many: at most {MOST_FILTERS} are tried",
                written.len()
            )));
        }
        let section = |(number, filter): (usize, &FluentBitFilter)| match filter {
            FluentBitFilter::Written(text) => {
                section(text).map_err(|wrong| Refusal::wrong(format!("filters[{number}]: {wrong}")))
            }
            FluentBitFilter::Deployed(which) => {
                let none = || Refusal::wrong(format!("filters[{number}]: {} has no filters[{which}]", named.id));
                deployed.get(*which).cloned().ok_or_else(none)
            }
        };
        written.iter().enumerate().map(section).collect()
    }
}

/// A filter of Fluent Bit, read as one of a pipeline is read.
fn section(text: &str) -> Result<Section, String> {
    let document = json!({
        "apiVersion": API_VERSION, "kind": "LogPipeline", "metadata": {"name": "preview"},
        "spec": {"output": {"custom": "Name null"}, "filters": [{"custom": text}]},
    });
    let source = Source { name: "preview".to_owned(), text: document.to_string() };
    let loaded = weir_resources::load(&[source], &Options::at(SystemTime::now()));
    let pipelines = loaded.map_err(|report| errors(&report))?.plan.pipelines;
    let section = pipelines.into_iter().flat_map(|pipeline| pipeline.processing.sections).next();
    section.ok_or_else(|| "it is empty".to_owned())
}

fn errors(report: &Report) -> String {
    let errors = report.diagnostics.iter().filter(|of| of.severity == Severity::Error);
    let said = |of: &Diagnostic| match of.expected.as_str() {
        "" => of.message.clone(),
        expected => format!("{}; expected {expected}", of.message),
    };
    errors.map(said).collect::<Vec<_>>().join("; ")
}

#[derive(Serialize)]
struct Answer<'a> {
    /// Items that were tried.
    samples: u64,
    kept: u64,
    /// Of those kept.
    kept_changed: u64,
    removed: u64,
    /// Of all items, each as a request of its own.
    bytes_before: u64,
    bytes_after: u64,
    /// Of items and bytes; less than 0 if rules add more than they remove. There is none of nothing.
    removed_ratio: Option<f64>,
    removed_bytes_ratio: Option<f64>,
    failed: u64,
    rules: Vec<Value>,
    delta: Option<Value>,
    #[serde(serialize_with = "before_and_after")]
    changed: Changes<'a>,
    yaml: String,
}

struct Changes<'a> {
    signal: Signal,
    rehearsal: &'a Rehearsal,
    redacts: bool,
}

fn answer<'a>(
    pipeline: &Pipeline,
    rehearsal: &'a Rehearsal,
    redacts: bool,
    filters: Option<&[FluentBitFilter]>,
) -> Answer<'a> {
    let Rehearsal { kept, kept_changed, removed, bytes_before, bytes_after, rules, delta, .. } = rehearsal;
    Answer {
        samples: kept + removed + delta.map_or(0, |deltas| deltas.first),
        kept: *kept,
        kept_changed: *kept_changed,
        removed: *removed,
        bytes_before: *bytes_before,
        bytes_after: *bytes_after,
        removed_ratio: removed_ratio(kept + removed, *kept),
        removed_bytes_ratio: removed_ratio(*bytes_before, *bytes_after),
        failed: rules.iter().map(|rule| rule.errors).sum(),
        rules: rules.iter().map(rule).collect(),
        delta: delta.map(
            |Deltas { converted, first }| json!({"converted": converted, "first": first, "explanation": FIRST_POINTS}),
        ),
        changed: Changes { signal: pipeline.id.signal, rehearsal, redacts },
        yaml: yaml::documents(&[object(pipeline, filters)]),
    }
}

fn removed_ratio(before: u64, after: u64) -> Option<f64> {
    (before > 0).then(|| (before as f64 - after as f64) / before as f64)
}

/// Documents are made one after the other.
fn before_and_after<S: Serializer>(of: &Changes<'_>, to: S) -> Result<S::Ok, S::Error> {
    let Changes { signal, rehearsal, redacts } = of;
    to.collect_seq(rehearsal.changed.iter().map(|(before, after)| {
        let mut before = document(*signal, &before.request, false);
        let mut after = after.as_ref().map_or(Value::Null, |after| document(*signal, after, false));
        if *redacts {
            redact_both(&mut before, &mut after);
        }
        json!({"before": before, "after": after})
    }))
}

fn rule(report: &RuleReport) -> Value {
    let RuleReport { field, text, matched, filtered, errors, cause } = report;
    json!({
        "field": field, "text": text, "matched": matched, "removed": filtered, "errors": errors, "cause": cause,
    })
}

/// The part of the object that was changed. Of `filters` of Fluent Bit it has those that were written.
fn object(pipeline: &Pipeline, filters: Option<&[FluentBitFilter]>) -> Value {
    let kind = match pipeline.id.signal {
        Signal::Traces => "TracePipeline",
        Signal::Metrics => "MetricPipeline",
        Signal::Logs => "LogPipeline",
    };
    let Processing { transforms, filters: conditions, .. } = &pipeline.processing;
    let transforms: Vec<_> = transforms
        .iter()
        .map(|Transform { conditions, statements }| match conditions.is_empty() {
            true => json!({"statements": statements}),
            false => json!({"conditions": conditions, "statements": statements}),
        })
        .collect();
    let conditions: Vec<_> = conditions.iter().map(|filter| json!({"conditions": filter.conditions})).collect();
    let mut spec = json!({"transform": transforms, "filter": conditions});
    if let Some(filters) = filters {
        let filter = |filter: &FluentBitFilter| match filter {
            FluentBitFilter::Written(text) => json!({"custom": text}),
            FluentBitFilter::Deployed(number) => json!({"custom": format!("(filters[{number}] as it is)")}),
        };
        spec = json!({"filters": filters.iter().map(filter).collect::<Vec<_>>()});
    }
    json!({
        "apiVersion": API_VERSION, "kind": kind, "metadata": {"name": pipeline.id.name}, "spec": spec,
    })
}
