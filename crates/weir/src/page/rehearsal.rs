//! `/api/preview`: what other rules would make of recent items, or of what a tap has caught, without using them.

use std::sync::Arc;

use http::{Method, StatusCode};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use weir_engine::RuleReport;
use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Shown};
use weir_engine::taps::{Caught, Rehearsal, Taps};
use weir_plan::{Filter, Pipeline, PipelineId, Processing, Signal, Transform};

use super::json::{Refusal, document, show};
use super::recent::RecentPage;
use super::taps::TapsPage;
use crate::page::Configurations;
use crate::yaml;

/// See the module.
#[derive(Debug)]
pub(super) struct RehearsalPage {
    pub(super) taps: Taps,
    pub(super) opened: TapsPage,
    pub(super) recent: RecentPage,
    pub(super) configurations: Configurations,
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

impl RehearsalPage {
    fn answer(&self, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let changed: Changed = serde_json::from_slice(asked.body)
            .map_err(|error| Refusal::wrong(format!("cannot read the rules: {error}")))?;
        let named = self.configurations.pipeline(&changed.pipeline)?;
        let items = self.items(&changed, &named.id, asked)?;
        let pipeline = Pipeline { processing: changed.processing(), ..named };
        let rehearsal = self.taps.rehearse(&pipeline, &items)?;
        // What a tap hides is hidden when rules are tried on it.
        let redacts = changed.redact || changed.tap.is_some_and(|tap| self.opened.redacts(tap));
        Ok(show(body, &answer(&pipeline, &rehearsal, redacts)))
    }

    fn items(&self, changed: &Changed, id: &PipelineId, asked: &Asked<'_>) -> Result<Vec<Arc<Caught>>, Refusal> {
        match changed.tap {
            Some(tap) => self.taps.kept(tap, id).ok_or_else(|| {
                Refusal::new(StatusCode::GONE, format!("there is no tap {tap}: open another one, of the pipeline"))
            }),
            None => Ok(self.recent.read(id, changed.redact, asked).items),
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
    fn processing(&self) -> Processing {
        let transform = |rule: &TransformRule| Transform {
            conditions: rule.conditions.clone(),
            statements: rule.statements.clone(),
        };
        let filter = |rule: &FilterRule| Filter { conditions: rule.conditions.clone() };
        Processing {
            transforms: self.transform.iter().map(transform).collect(),
            filters: self.filter.iter().map(filter).collect(),
            ..Processing::default()
        }
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    samples: u64,
    kept: u64,
    removed: u64,
    failed: u64,
    rules: Vec<Value>,
    #[serde(serialize_with = "before_and_after")]
    changed: Changes<'a>,
    yaml: String,
}

struct Changes<'a> {
    signal: Signal,
    rehearsal: &'a Rehearsal,
    redacts: bool,
}

fn answer<'a>(pipeline: &Pipeline, rehearsal: &'a Rehearsal, redacts: bool) -> Answer<'a> {
    let Rehearsal { kept, removed, rules, .. } = rehearsal;
    Answer {
        samples: kept + removed,
        kept: *kept,
        removed: *removed,
        failed: rules.iter().map(|rule| rule.errors).sum(),
        rules: rules.iter().map(rule).collect(),
        changed: Changes { signal: pipeline.id.signal, rehearsal, redacts },
        yaml: yaml::documents(&[object(pipeline)]),
    }
}

/// Documents are made one after the other.
fn before_and_after<S: Serializer>(of: &Changes<'_>, to: S) -> Result<S::Ok, S::Error> {
    let Changes { signal, rehearsal, redacts } = of;
    to.collect_seq(rehearsal.changed.iter().map(|(before, after)| {
        let after = after.as_ref().map(|after| document(*signal, after, *redacts));
        json!({"before": document(*signal, &before.request, *redacts), "after": after})
    }))
}

fn rule(report: &RuleReport) -> Value {
    let RuleReport { field, text, matched, filtered, errors, cause } = report;
    json!({
        "field": field, "text": text, "matched": matched, "removed": filtered, "errors": errors, "cause": cause,
    })
}

/// The part of the object that was changed.
fn object(pipeline: &Pipeline) -> Value {
    let kind = match pipeline.id.signal {
        Signal::Traces => "TracePipeline",
        Signal::Metrics => "MetricPipeline",
        Signal::Logs => "LogPipeline",
    };
    let Processing { transforms, filters, .. } = &pipeline.processing;
    let transforms: Vec<_> = transforms
        .iter()
        .map(|Transform { conditions, statements }| match conditions.is_empty() {
            true => json!({"statements": statements}),
            false => json!({"conditions": conditions, "statements": statements}),
        })
        .collect();
    let filters: Vec<_> = filters.iter().map(|filter| json!({"conditions": filter.conditions})).collect();
    json!({
        "apiVersion": "telemetry.kyma-project.io/v1beta1", "kind": kind, "metadata": {"name": pipeline.id.name},
        "spec": {"transform": transforms, "filter": filters},
    })
}
