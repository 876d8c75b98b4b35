//! What a cluster says of Weir, for whoever looks for a fault: statuses, pods, books, certificates, events and logs.
//!
//! `look` asks the API server and judges nothing. What is wrong is found by `findings`, and `report` writes all of it
//! down; both are pure. No value of a Secret is in any of it.

mod findings;
mod look;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use look::look;
pub use report::write;

/// What is looked at.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the operator and the nodes live.
    pub namespace: String,
    /// Lines of the log of each pod that are searched for warnings and errors.
    pub log_lines: i64,
}

/// Everything that was seen.
#[derive(Debug, Clone, Serialize)]
pub struct Examination {
    /// When it was looked at.
    #[serde(skip)]
    pub now: SystemTime,
    /// Where the operator and the nodes live.
    pub namespace: String,
    /// The version of the API server.
    pub api_server: Option<String>,
    /// Pipelines and Telemetries.
    pub resources: Vec<Resource>,
    /// Pods of the operator and the nodes.
    pub pods: Vec<PodSeen>,
    /// The revision of the configuration that nodes are to run.
    pub revision: Option<String>,
    /// Who leads the operators.
    pub leader: Option<String>,
    /// The certificates of pipelines and of the webhooks.
    pub certificates: Vec<CertificateSeen>,
    /// Configurations of the webhooks that are not there, by their kinds and names, if there are webhooks.
    pub missing_webhooks: Vec<String>,
    /// Warnings about pods and pipelines, the newest last.
    pub events: Vec<String>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

/// A pipeline or a Telemetry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Resource {
    /// Its kind.
    pub kind: String,
    /// Its name, with the namespace if it has one.
    pub name: String,
    /// How often its specification was changed.
    pub generation: i64,
    /// Of a Telemetry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// As its status has them.
    pub conditions: Vec<ConditionSeen>,
}

/// A condition of a status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionSeen {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// In one word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Since when, in RFC 3339.
    pub last_transition_time: String,
    /// The generation that it is about.
    pub observed_generation: i64,
}

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PodSeen {
    /// Its name.
    pub name: String,
    /// What it does.
    pub part: Part,
    /// The node that it is on.
    pub node: String,
    /// The image that it runs.
    pub image: String,
    /// Whether it says that it is well.
    pub ready: bool,
    /// Whether it was told to end, as in an update.
    pub ending: bool,
    /// What keeps it from being well.
    pub fault: Option<String>,
    /// How often its containers were started again.
    pub restarts: i64,
    /// How a container ended last, such as `OOMKilled`.
    pub last_end: Option<String>,
    /// What a node says of itself: its page `/node`.
    pub page: Option<Value>,
    /// Warnings and errors of its log, the newest last.
    pub log: Vec<String>,
}

/// What a pod does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// It makes the nodes do what pipelines say.
    Operator,
    /// It moves data.
    #[default]
    Node,
}

/// A certificate, without anything secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CertificateSeen {
    /// Who refers to it, and where it is.
    pub what: String,
    /// Whom it certifies.
    pub subject: String,
    /// Until when it is valid.
    #[serde(serialize_with = "seconds")]
    pub ends: SystemTime,
    /// Of one that the operator renews: with less left, it has not done so in time.
    #[serde(skip)]
    pub late_below: Option<Duration>,
}

/// Something that is wrong, or that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

/// What became of the data of a pipeline on all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Totals {
    delivered: u64,
    pending: u64,
    dropped: BTreeMap<String, u64>,
    rejected: BTreeMap<String, u64>,
    /// What nodes see of its backend when it is not well, by nodes.
    sick: BTreeMap<String, String>,
    /// Whether a request of a node has ended. Nodes of an earlier version do not tell, and are believed.
    was_tried: bool,
}

impl Examination {
    /// What is wrong, the most important first.
    pub fn findings(&self) -> Vec<Finding> {
        findings::of(self)
    }

    /// What nobody knows yet, and how to find out. Nothing of it is wrong.
    pub fn notes(&self) -> Vec<Finding> {
        findings::notes(self)
    }

    /// By the names of pipelines.
    fn totals(&self) -> BTreeMap<String, Totals> {
        let mut totals: BTreeMap<String, Totals> = BTreeMap::new();
        for pod in &self.pods {
            let pipelines = pod.page.as_ref().and_then(|page| page["pipelines"].as_array());
            for pipeline in pipelines.into_iter().flatten() {
                let Some(name) = pipeline["pipeline"].as_str() else { continue };
                totals.entry(name.to_owned()).or_default().add(pipeline, &pod.node);
            }
        }
        totals
    }
}

impl Totals {
    fn add(&mut self, pipeline: &Value, node: &str) {
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        self.delivered = self.delivered.saturating_add(number(&pipeline["delivered"]));
        self.pending = self.pending.saturating_add(number(&pipeline["pending"]));
        for (to, from) in [(&mut self.dropped, "dropped"), (&mut self.rejected, "rejected")] {
            for (reason, count) in pipeline[from].as_object().into_iter().flatten() {
                let sum = to.entry(reason.clone()).or_default();
                *sum = sum.saturating_add(number(count));
            }
        }
        let backend = &pipeline["backend"];
        self.was_tried |= backend["tried"].as_bool() != Some(false);
        let text = |key: &str| backend[key].as_str().unwrap_or_default();
        if !matches!(text("state"), "" | "ok") {
            // The words of a trouble begin with the code, and are said once. Earlier versions say them twice.
            let words = match (pipeline["verdict"]["trouble"]["words"].as_str(), text("message")) {
                (Some(words), "") => [text("state"), "", words],
                (_, message) => [text("state"), text("code"), message],
            };
            let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
            self.sick.insert(node.to_owned(), words.join(": "));
        }
    }

    /// A backend counts as well until a request to it has ended, so before that nothing is known of it.
    fn is_backend_unknown(&self) -> bool {
        !self.was_tried && self.sick.is_empty()
    }
}

/// Seconds since the Unix epoch.
fn seconds<S: serde::Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs())
}
