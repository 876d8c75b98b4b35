//! One picture of the cluster, as plain data: everything that decisions are made from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::Value;
use weir_observe::Verdict;
use weir_plan::{PipelineId, Signal};

use super::few::Few;
use super::flow::{Flow, Probing, Told};
use super::layout::Workload;
use super::object::ObjectKey;
use super::object::kinds::{self, Kind};
use crate::changed_by::Origins;
use crate::node::page::{MOST_CHARS_OF_ERROR, first};

/// So many pipelines are read of a page of a node. There are never so many: all of them have 4 MiB of text at most
/// (`configuration`), and each takes a MiB of a node's memory.
const MOST_PIPELINES: usize = 16 << 10;
/// The names of so many roles are read: there are three.
const MOST_ROLES: usize = 64;
/// Of a revision, and of the name of a role, so many characters are kept. Names of objects have no more, so a pipeline
/// with a longer one is none.
const MOST_CHARS_OF_NAME: usize = 253;

/// The picture.
#[derive(Default)]
pub(crate) struct Picture {
    /// All pipelines, trimmed to what decisions need.
    pub(crate) pipelines: Arc<BTreeMap<PipelineId, Arc<Value>>>,
    /// The Telemetry that counts.
    pub(crate) telemetry: Option<Arc<Value>>,
    /// Referenced Secrets, as far as they were looked up.
    pub(crate) secrets: Arc<BTreeMap<SecretName, SecretState>>,
    /// The text of the overrides.
    pub(crate) overrides: Option<String>,
    /// Workloads of ours that are there.
    pub(crate) workloads: BTreeMap<Workload, WorkloadStatus>,
    /// Their pods.
    pub(crate) pods: Vec<PodState>,
    /// What the nodes said last, by the names of their pods.
    pub(crate) answers: BTreeMap<String, Answer>,
    /// How many pods of each workload answer.
    pub(crate) probing: BTreeMap<Workload, Probing>,
    /// What is wrong with how data flows.
    pub(crate) flow: BTreeMap<PipelineId, Flow>,
    /// Pipelines of which a node delivers something.
    pub(crate) delivering: BTreeSet<PipelineId>,
    /// What the API server refuses to write.
    pub(crate) refused: BTreeMap<ObjectKey, Refused>,
    /// The configuration that the nodes have, packed as it was written last; empty if they have none.
    pub(crate) previous: Arc<[u8]>,
    /// Which one that is.
    pub(crate) written: Option<Written>,
    pub(crate) apis: Apis,
    /// Since when no pipeline could run.
    pub(crate) idle_since: Option<SystemTime>,
    /// Since when the Telemetry is being deleted, as this process saw it: the API server may have another clock.
    pub(crate) deleting_since: Option<SystemTime>,
}

/// A configuration that nodes can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) revision: String,
    /// Since this process knows that it is there.
    pub(crate) since: SystemTime,
    /// Who changed its pipelines, as nodes are told; nothing if they are not.
    pub(crate) changed_by: Option<Arc<Origins>>,
}

/// Why an object is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The words of the API server.
    pub(crate) error: String,
    /// When it was refused first.
    pub(crate) since: SystemTime,
}

/// APIs that a cluster may have or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Apis {
    pub(crate) istio: bool,
    pub(crate) vertical_pod_autoscaler: bool,
}

/// What names a Secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SecretName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A referenced Secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum SecretState {
    /// There is none: since a moment, if there was one before.
    Missing(Option<SystemTime>),
    /// The API server does not let us look, for this reason, since a moment.
    Unreadable { reason: String, since: SystemTime },
    /// Its values in base64, by their keys. They are those that were read last, if it must not be read any more since a
    /// moment.
    Present {
        values: Arc<BTreeMap<String, String>>,
        resource_version: Option<String>,
        unreadable_since: Option<SystemTime>,
    },
}

impl SecretState {
    /// What is known of a Secret when the API server does not let us look. What was read before stays true, but nobody
    /// knows any more that there is none. The first refusal counts.
    pub(crate) fn refused(before: Option<&Self>, reason: String, now: SystemTime) -> Self {
        match before {
            Some(Self::Present { values, resource_version, unreadable_since }) => Self::Present {
                values: Arc::clone(values),
                resource_version: resource_version.clone(),
                unreadable_since: unreadable_since.or(Some(now)),
            },
            Some(known @ Self::Unreadable { .. }) => known.clone(),
            Some(Self::Missing(_)) | None => Self::Unreadable { reason, since: now },
        }
    }
}

/// A Secret whose last known values are used because it must not be read any more, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stale {
    pub(crate) secret: SecretName,
    pub(crate) since: SystemTime,
}

/// A workload, as far as it says how its pods are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WorkloadStatus {
    /// Whether the numbers are about what was applied last.
    pub(crate) is_current: bool,
    pub(crate) desired: i64,
    pub(crate) updated: i64,
    pub(crate) ready: i64,
    /// Since when the numbers are these, as this process saw it.
    pub(crate) since: Option<SystemTime>,
}

impl WorkloadStatus {
    /// All pods are what was applied last, and ready.
    pub(crate) fn is_settled(self) -> bool {
        self.is_current && self.updated == self.desired && self.ready >= self.desired
    }

    /// The same numbers as before stand since then.
    pub(crate) fn after(self, before: Option<Self>, now: SystemTime) -> Self {
        let numbers = |it: Self| (it.is_current, it.desired, it.updated, it.ready);
        let before = before.filter(|before| numbers(*before) == numbers(self));
        Self { since: before.and_then(|before| before.since).or(Some(now)), ..self }
    }

    /// And there are some.
    pub(crate) fn is_ready(self) -> bool {
        self.is_settled() && self.desired > 0
    }
}

/// A pod of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodState {
    pub(crate) name: String,
    pub(crate) ip: String,
    pub(crate) node: String,
    pub(crate) workload: Workload,
    pub(crate) ready: bool,
    /// What keeps it from being well, if anything does.
    pub(crate) fault: Option<String>,
}

/// What a node says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "PageAsRead")]
pub(crate) struct Answer {
    /// The revision of the configuration in use, if there is one.
    pub(crate) revision: Option<String>,
    /// Why a newer one was refused.
    pub(crate) error: Option<String>,
    /// What it does; nothing if it does not say.
    pub(crate) roles: Option<Vec<String>>,
    /// Whether clients are connected.
    pub(crate) has_clients: bool,
    /// Whether it has items that no backend has.
    pub(crate) owes: bool,
    /// What of them waits for a backend that takes data, in bytes: another process would help there.
    pub(crate) waiting_bytes: u64,
    /// How data flows, until that is heard (`flow`).
    pub(crate) pipelines: Told,
}

impl Answer {
    /// It takes what clients push. Those that do not say what they do are of a version that always did.
    pub(crate) fn is_gateway(&self) -> bool {
        self.roles.as_ref().is_none_or(|roles| roles.iter().any(|role| role == "gateway"))
    }

    /// It only delivers what it has.
    pub(crate) fn has_no_role(&self) -> bool {
        self.roles.as_ref().is_some_and(Vec::is_empty)
    }
}

/// The page of a node, as far as it is read: later versions may say more. A pod may say what it wants; with these limits
/// it takes 8 MiB at most beside its texts.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PageAsRead {
    revision: Option<String>,
    error: Option<String>,
    roles: Option<Few<String, MOST_ROLES>>,
    connections: u64,
    pipelines: Few<PipelineOfPage, MOST_PIPELINES>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PipelineOfPage {
    pipeline: String,
    pending: u64,
    pending_bytes: u64,
    backend: BackendOfPage,
    verdict: Verdict,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BackendOfPage {
    state: String,
}

impl From<PageAsRead> for Answer {
    fn from(PageAsRead { revision, error, roles, connections, pipelines }: PageAsRead) -> Self {
        let Few(pipelines) = pipelines;
        let name = |text: String| first(&text, MOST_CHARS_OF_NAME).to_owned();
        let revision = revision.map(name);
        let error = error.map(|text| first(&text, MOST_CHARS_OF_ERROR).to_owned());
        let roles = roles.map(|Few(roles)| roles.into_iter().map(name).collect());
        let owes = pipelines.iter().any(|of| of.pending > 0);
        let is_well = |of: &&PipelineOfPage| of.backend.state == "ok";
        let bytes = pipelines.iter().filter(is_well).map(|of| of.pending_bytes);
        let waiting_bytes = bytes.fold(0, u64::saturating_add);
        let verdicts = pipelines.into_iter().filter_map(|of| {
            let id: PipelineId = of.pipeline.parse().ok()?;
            (id.name.len() <= MOST_CHARS_OF_NAME).then_some((id, of.verdict))
        });
        let verdicts: BTreeMap<PipelineId, Verdict> = verdicts.collect();
        let pipelines = verdicts.into();
        Self { revision, error, roles, has_clients: connections > 0, owes, waiting_bytes, pipelines }
    }
}

/// The kind of the pipelines of a signal.
pub(crate) fn kind_of(signal: Signal) -> Kind {
    match signal {
        Signal::Traces => kinds::TRACE_PIPELINE,
        Signal::Metrics => kinds::METRIC_PIPELINE,
        Signal::Logs => kinds::LOG_PIPELINE,
    }
}

/// What its data is called.
pub(crate) fn items_of(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "spans",
        Signal::Metrics => "metrics",
        Signal::Logs => "logs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(page: &str) -> Result<Answer, String> {
        serde_json::from_str(page).map_err(|error| error.to_string())
    }

    /// A list of so many of these.
    fn list(of: &str, count: usize) -> String {
        format!("[{}]", vec![of; count].join(","))
    }

    #[test]
    fn of_a_page_no_more_pipelines_and_roles_are_read_than_a_node_has() {
        for (field, of, most) in [("pipelines", "{}", MOST_PIPELINES), ("roles", "\"\"", MOST_ROLES)] {
            let page = |count| format!("{{\"{field}\":{}}}", list(of, count));
            assert!(read(&page(most)).is_ok(), "{field}");
            let refused = read(&page(most + 1)).unwrap_err();
            assert!(refused.contains(&format!("expected a list of at most {most}")), "{field}: {refused}");
        }
        let of_many = |count| {
            let pipeline = |number| format!("{{\"pipeline\":\"logs/{number}\"}}");
            let pipelines: Vec<_> = (0..count).map(pipeline).collect();
            read(&format!("{{\"pipelines\":[{}]}}", pipelines.join(","))).unwrap().pipelines.each().count()
        };
        assert_eq!(of_many(5000), 5000);
    }

    #[test]
    fn of_long_texts_the_beginning_is_kept() {
        let long = "\u{fc}".repeat(100_000);
        let named = |name: &str| format!("{{\"pipeline\":\"traces/{name}\",\"pending\":1}}");
        let pipelines = [named(&long), named(&"x".repeat(253))].join(",");
        let texts = format!("\"revision\":\"{long}\",\"error\":\"{long}\",\"roles\":[\"{long}\"]");
        let page = format!("{{{texts},\"pipelines\":[{pipelines}]}}");
        let Answer { revision, error, roles, owes, pipelines, .. } = read(&page).unwrap();
        let chars = |text: Option<&String>| text.map(|text| text.chars().count());
        assert_eq!(chars(revision.as_ref()), Some(MOST_CHARS_OF_NAME));
        assert_eq!(chars(error.as_ref()), Some(MOST_CHARS_OF_ERROR));
        assert_eq!(chars(roles.unwrap().first()), Some(MOST_CHARS_OF_NAME));
        let ids: Vec<_> = pipelines.each().map(|(id, ..)| id.name.len()).collect();
        assert_eq!((ids.as_slice(), owes), ([253].as_slice(), true));
    }

    #[test]
    fn a_node_that_says_nothing_of_its_roles_takes_what_clients_push() {
        for page in ["{}", "{\"roles\":null}"] {
            let answer = read(page).unwrap();
            assert!(answer.is_gateway() && !answer.has_no_role(), "{page}");
        }
        assert!(read("{\"roles\":[]}").unwrap().has_no_role());
        assert!(!read("{\"roles\":[\"logs\"]}").unwrap().is_gateway());
    }
}
