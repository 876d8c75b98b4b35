//! The status of the Telemetry: the state of everything, and where clients push to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use weir_plan::{PipelineId, Signal};

use super::condition::{Condition, Met};
use super::pipeline::{AGENT, CONFIGURATION, FLOW, GATEWAY};
use crate::operator::names;
use crate::operator::picture::kind_of;
use crate::operator::verdict::Finding;

const ABOUT_TO_EXPIRE: &str = "TLSCertificateAboutToExpire";

/// Conditions in the order in which the API has them.
const COMPONENTS: [(Signal, &str, &str); 3] =
    [(Signal::Logs, KINDS[0], "log"), (Signal::Metrics, KINDS[1], "metric"), (Signal::Traces, KINDS[2], "trace")];

/// The conditions of a Telemetry.
pub(crate) const KINDS: [&str; 3] = ["LogComponentsHealthy", "MetricComponentsHealthy", "TraceComponentsHealthy"];

/// By importance. Of one importance, the first pipeline by its name counts.
const RANKS: [&str; 4] = [CONFIGURATION, GATEWAY, AGENT, FLOW];

/// Whether a condition of a pipeline says something about the whole.
pub(crate) fn is_bad(condition: &Condition) -> bool {
    condition.met == Met::False || condition.reason == ABOUT_TO_EXPIRE
}

/// What pipelines say, for the conditions of the whole.
pub(crate) struct Components<'a> {
    /// Each with its conditions that are bad.
    pub(crate) pipelines: &'a BTreeMap<&'a PipelineId, Vec<Condition>>,
    /// Signals of which not every pipeline was decided on: what was said of them stays.
    pub(crate) undecided: &'a BTreeSet<Signal>,
    pub(crate) is_being_deleted: bool,
    /// What is wrong with the Telemetry itself.
    pub(crate) problem: Option<&'a Finding>,
}

impl Components<'_> {
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        let decided =
            COMPONENTS.iter().filter(|(signal, ..)| self.is_being_deleted || !self.undecided.contains(signal));
        decided.map(|(signal, kind, word)| self.of(*signal, kind, word)).collect()
    }

    fn of(&self, signal: Signal, kind: &'static str, word: &str) -> Condition {
        let pipelines: Vec<_> = self.pipelines.iter().filter(|(id, _)| id.signal == signal).collect();
        if let Some(Finding { message, .. }) = self.problem {
            let message = format!("The Telemetry is not applied: {message}");
            return Condition::new(kind, Met::False, "ValidationFailed", message);
        }
        if pipelines.is_empty() {
            return Condition::new(kind, Met::True, "NoPipelineDeployed", "No pipelines have been deployed");
        }
        if self.is_being_deleted {
            let names: Vec<_> = pipelines.iter().map(|(id, _)| id.name.as_str()).collect();
            let message = format!(
                "The deletion of the module is blocked. To unblock the deletion, delete the following resources: {}s ({})",
                kind_of(signal).1,
                names.join(",")
            );
            return Condition::new(kind, Met::False, "ResourceBlocksDeletion", message);
        }
        let ranked = || {
            let of = |kind| {
                pipelines
                    .iter()
                    .flat_map(|(id, of)| of.iter().map(move |one| (*id, one)))
                    .filter(move |(_, one)| one.kind == kind)
            };
            RANKS.into_iter().flat_map(of)
        };
        let worst = ranked().find(|(_, condition)| condition.met == Met::False);
        let (met, (id, condition)) = match (worst, ranked().find(|(_, it)| it.reason == ABOUT_TO_EXPIRE)) {
            (Some(worst), _) => (Met::False, worst),
            (None, Some(warning)) => (Met::True, warning),
            (None, None) => {
                let message = format!("All {word} components are running");
                return Condition::new(kind, Met::True, "ComponentsRunning", message);
            }
        };
        let message = format!("{} '{}': {}", kind_of(signal).1, id.name, condition.message);
        Condition::new(kind, met, condition.reason, message)
    }
}

/// The state of everything, by the conditions as they are written.
pub(crate) fn state(conditions: &Value, is_being_deleted: bool) -> &'static str {
    let is_bad = |condition: &Value| condition["status"] == "False" || condition["reason"] == ABOUT_TO_EXPIRE;
    match (conditions.as_array().into_iter().flatten().any(is_bad), is_being_deleted) {
        (true, _) => "Warning",
        (false, true) => "Deleting",
        (false, false) => "Ready",
    }
}

/// Where clients push to.
pub(crate) fn endpoints(namespace: &str) -> Value {
    let of = |service: &str| {
        json!({
            "grpc": format!("http://{service}.{namespace}:{}", names::GRPC_PORT),
            "http": format!("http://{service}.{namespace}:{}", names::HTTP_PORT),
        })
    };
    json!({
        "otlp": of(names::OTLP),
        "logs": of(names::OTLP_LOGS),
        "metrics": of(names::OTLP_METRICS),
        "traces": of(names::OTLP_TRACES),
    })
}
