//! What was seen of the cluster last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde_json::{Map, Value};
use tokio::sync::Notify;
use weir_legible::Seldom;
use weir_plan::PipelineId;

use crate::operator::flow::Said;
use crate::operator::layout::Workload;
use crate::operator::object::{ObjectKey, is_being_deleted, name, text};
use crate::operator::picture::{Answer, Apis, Picture, PodState, SecretName, SecretState, WorkloadStatus};
use crate::operator::status::condition::Status;

/// What was seen, and whether it has changed.
#[derive(Default)]
pub(super) struct World {
    seen: Mutex<Seen>,
    changed: Notify,
}

/// Everything that was seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) pipelines: Arc<BTreeMap<PipelineId, Arc<Value>>>,
    pub(super) telemetry: Option<Arc<Value>>,
    /// Since when that is being deleted.
    deleting_since: Option<SystemTime>,
    pub(super) secrets: Arc<BTreeMap<SecretName, SecretState>>,
    pub(super) overrides: Option<String>,
    pub(super) workloads: BTreeMap<Workload, WorkloadStatus>,
    pub(super) pods: BTreeMap<String, PodState>,
    pub(super) answers: BTreeMap<String, Answer>,
    pub(super) said: Said,
    /// Objects that were made, and what says whether somebody changed them.
    pub(super) made: BTreeMap<ObjectKey, Mark>,
    pub(super) apis: Option<Apis>,
    /// Watches that have seen everything once, by what they watch.
    pub(super) complete: BTreeSet<&'static str>,
    /// Watches that fail, by what they watch.
    pub(super) failing: BTreeMap<&'static str, usize>,
    /// When the log was told of such, by what they watch.
    pub(super) failures_reported: BTreeMap<&'static str, Seldom>,
    pub(super) figures: Figures,
}

/// What differs if somebody changed an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark(pub(super) u64);

/// Counters for the page with metrics.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    pub(super) leads: bool,
    pub(super) decisions: u64,
    pub(super) writes: u64,
    pub(super) write_errors: u64,
    pub(super) watch_errors: u64,
    pub(super) last_decision_seconds: f64,
    pub(super) configuration_bytes: usize,
}

/// What is watched, apart from Secrets and from what was made. Nothing is decided before all of it was seen.
pub(super) const WATCHED: [&str; 9] = [
    "TracePipeline",
    "MetricPipeline",
    "LogPipeline",
    "Telemetry",
    "ConfigMap",
    "DaemonSet",
    "StatefulSet",
    "Deployment",
    "Pod",
];

impl World {
    /// Changes what was seen, and wakes whoever decides.
    pub(super) fn see<T>(&self, see: impl FnOnce(&mut Seen) -> T) -> T {
        let seen = see(&mut self.lock());
        self.changed.notify_one();
        seen
    }

    /// Changes what was seen, and wakes whoever decides if it has changed.
    pub(super) fn see_whether(&self, see: impl FnOnce(&mut Seen) -> bool) {
        if see(&mut self.lock()) {
            self.changed.notify_one();
        }
    }

    /// Looks, or notes what nothing is decided from.
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.lock())
    }

    /// Resolves when something was seen since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Nothing is half done under this lock.
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// What is not yet known of the cluster.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let apis = self.apis.is_none().then_some("APIs");
        WATCHED.into_iter().filter(|watched| !self.complete.contains(watched)).chain(apis).collect()
    }

    /// Takes a status that was written: the watch tells it a little later.
    pub(super) fn set_status(&mut self, written: &Status) {
        let object = &written.object;
        let is_it = |found: &Arc<Value>| name(found) == object.name && text(found, "/kind") == Some(object.kind);
        let found =
            Arc::make_mut(&mut self.pipelines).values_mut().chain(&mut self.telemetry).find(|found| is_it(found));
        let Some(Value::Object(fields)) = found.map(Arc::make_mut) else { return };
        let known = fields.entry("status").or_insert_with(|| Value::Object(Map::new()));
        let (Some(known), Value::Object(status)) = (known.as_object_mut(), written.value()) else { return };
        known.extend(status);
        known.retain(|_, value| !value.is_null());
    }

    pub(super) fn version_of_telemetry(&self) -> String {
        let version = self.telemetry.as_deref().and_then(|telemetry| text(telemetry, "/metadata/resourceVersion"));
        version.unwrap_or_default().to_owned()
    }

    /// The picture to decide from.
    pub(super) fn picture(&self, previous: Arc<[u8]>, idle_since: Option<SystemTime>) -> Picture {
        Picture {
            pipelines: Arc::clone(&self.pipelines),
            telemetry: self.telemetry.clone(),
            secrets: Arc::clone(&self.secrets),
            overrides: self.overrides.clone(),
            workloads: self.workloads.clone(),
            pods: self.pods.values().cloned().collect(),
            answers: self.answers.clone(),
            probing: self.said.probing(),
            flow: self.said.flows().clone(),
            delivering: self.said.delivering().clone(),
            refused: BTreeMap::new(),
            previous,
            written: None,
            apis: self.apis.unwrap_or_default(),
            idle_since,
            deleting_since: self.deleting_since,
        }
    }

    /// Takes the Telemetry that counts, if there is one.
    pub(super) fn set_telemetry(&mut self, telemetry: Option<Arc<Value>>) {
        let is_leaving = telemetry.as_deref().is_some_and(is_being_deleted);
        self.deleting_since = is_leaving.then(|| self.deleting_since.unwrap_or_else(SystemTime::now));
        self.telemetry = telemetry;
    }

    /// Takes the status of a workload.
    pub(super) fn set_workload(&mut self, workload: Workload, status: WorkloadStatus) {
        let before = self.workloads.get(&workload).copied();
        self.workloads.insert(workload, status.after(before, SystemTime::now()));
    }

    /// As if nobody had been asked.
    pub(super) fn forget_answers(&mut self) {
        self.answers.clear();
        self.said = Said::default();
    }

    /// Takes the answers of one round, of which is heard already what they say of pipelines. Returns whether they say
    /// anything else than those before.
    pub(super) fn answer(&mut self, answers: BTreeMap<String, Answer>) -> bool {
        let Self { said, pods, .. } = self;
        let changes = said.end_round(&answers, pods.values()) || self.answers != answers;
        self.answers = answers;
        changes
    }
}
