//! What is known of a node and its pods: documents, as files would have them, and what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::{Value, json};
use weir_resources::{Observed, Source};

use crate::operator::object::{name, text};

/// Reading a text takes many times its size, so pods are read so many at a time.
const PODS_AT_ONCE: usize = 500;

/// What is said of a pod by other objects than its owners.
const OF_PODS: [&str; 3] = ["Node", "Namespace", "ConfigMap"];

/// Documents by their kind, namespace and name.
#[derive(Debug, Default)]
pub(super) struct Objects(BTreeMap<Key, Box<str>>);

/// What names an object.
pub(super) type Key = (&'static str, String, String);

/// What names a document of a kind.
pub(super) fn key(kind: &'static str, document: &Value) -> Key {
    let namespace = text(document, "/metadata/namespace").unwrap_or_default();
    (kind, namespace.to_owned(), name(document).to_owned())
}

impl Objects {
    /// Whether anything is another than before.
    pub(super) fn set(&mut self, kind: &'static str, document: &Value) -> bool {
        self.put(key(kind, document), document.to_string().into())
    }

    /// The same with its text.
    pub(super) fn put(&mut self, key: Key, text: Box<str>) -> bool {
        let known = self.0.entry(key).or_default();
        let differs = *known != text;
        *known = text;
        differs
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.0.remove(key).is_some()
    }

    /// All there are of a kind. Whether anything is another than before.
    pub(super) fn replace(&mut self, kind: &'static str, documents: &[Value]) -> bool {
        self.replace_all(
            kind,
            documents.iter().map(|document| (key(kind, document), document.to_string().into())).collect(),
        )
    }

    /// The same with their texts.
    pub(super) fn replace_all(&mut self, kind: &'static str, documents: Vec<(Key, Box<str>)>) -> bool {
        let keys: BTreeSet<&Key> = documents.iter().map(|(key, _)| key).collect();
        let before = self.0.len();
        self.0.retain(|known, _| known.0 != kind || keys.contains(known));
        let left = self.0.len() < before;
        documents.into_iter().fold(left, |differs, (key, text)| self.put(key, text) | differs)
    }

    /// Nothing of this kind is known any more.
    pub(super) fn forget(&mut self, kind: &'static str) -> bool {
        self.replace(kind, &[])
    }

    /// How many there are of a kind.
    pub(super) fn count(&self, kind: &str) -> usize {
        self.0.keys().filter(|key| key.0 == kind).count()
    }

    /// The text that a file with all of them would have.
    pub(super) fn text(&self) -> String {
        list(self.of_kinds(|_| true), &self.pods().collect::<Vec<_>>())
    }

    /// The same in several texts, which say together what the one says.
    pub(super) fn texts(&self) -> Vec<String> {
        let pods: Vec<_> = self.pods().collect();
        let (first, more) = pods.split_at(pods.len().min(PODS_AT_ONCE));
        let rest = more.chunks(PODS_AT_ONCE).map(|pods| list(self.of_kinds(|kind| OF_PODS.contains(&kind)), pods));
        [list(self.of_kinds(|_| true), first)].into_iter().chain(rest).collect()
    }

    fn pods(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(key, _)| key.0 == POD).map(|(_, document)| &**document)
    }

    /// Others than pods.
    fn of_kinds(&self, is_wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
        let others = self.0.iter().filter(move |(key, _)| key.0 != POD && is_wanted(key.0));
        others.map(|(_, document)| &**document)
    }
}

const POD: &str = "Pod";

/// A list of these, with what is behind the owners of these pods.
fn list<'a>(others: impl Iterator<Item = &'a str>, pods: &[&'a str]) -> String {
    let owners: BTreeMap<_, _> = pods.iter().flat_map(|pod| owners_of(pod)).collect();
    let mut list = String::from(r#"{"apiVersion":"v1","kind":"List","items":["#);
    let mut separator = "";
    for document in others.chain(pods.iter().copied()) {
        // A string takes everything.
        let _ = write!(list, "{separator}{document}");
        separator = ",";
    }
    for owner in owners.values() {
        let _ = write!(list, "{separator}{owner}");
        separator = ",";
    }
    list + "]}"
}

/// Reads a text of [`Objects::text`].
pub(super) fn observe(text: String) -> Observed {
    weir_resources::observe(&[Source { name: "cluster".to_owned(), text }])
}

/// Reads the texts of [`Objects::texts`]: what is not about pods is in the first.
pub(super) fn observe_all(texts: Vec<String>) -> Observed {
    let mut texts = texts.into_iter();
    let mut all = texts.next().map(observe).unwrap_or_default();
    for more in texts.map(observe) {
        all.facts.pods.extend(more.facts.pods);
        all.facts.scrapables.pods.extend(more.facts.scrapables.pods);
        let new: Vec<_> = more.findings.into_iter().filter(|finding| !all.findings.contains(finding)).collect();
        all.findings.extend(new);
    }
    all
}

/// What stands behind the owners of a pod. It is in their names, so nobody has to watch them: there may be ten for each pod.
fn owners_of(pod: &str) -> Vec<(Key, Value)> {
    let Ok(pod) = serde_json::from_str::<Value>(pod) else { return Vec::new() };
    let hash = pod.pointer("/metadata/labels/pod-template-hash").and_then(Value::as_str);
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let owners = owners.filter_map(|owner| {
        let name = owner.get("name")?.as_str()?;
        let (api_version, kind, behind) = match owner.get("kind")?.as_str()? {
            "ReplicaSet" => ("apps/v1", "ReplicaSet", ("Deployment", deployment(name, hash?)?)),
            "Job" => ("batch/v1", "Job", ("CronJob", cron_job(name)?)),
            _ => return None,
        };
        let namespace = text(&pod, "/metadata/namespace").unwrap_or_default();
        let document = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "ownerReferences": [{ "kind": behind.0, "name": behind.1 }],
            },
        });
        Some(((kind, namespace.to_owned(), name.to_owned()), document))
    });
    owners.collect()
}

/// A Deployment names its ReplicaSets after itself and the hash of their template, which is on each pod.
fn deployment<'a>(replica_set: &'a str, hash: &str) -> Option<&'a str> {
    replica_set.strip_suffix(hash)?.strip_suffix('-').filter(|name| !name.is_empty())
}

/// A CronJob names its Jobs after itself and the minute, which has eight digits since 1989.
fn cron_job(job: &str) -> Option<&str> {
    let (name, minute) = job.rsplit_once('-')?;
    let is_minute = minute.len() >= 8 && minute.bytes().all(|byte| byte.is_ascii_digit());
    (is_minute && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use weir_plan::{Workload, WorkloadKind};

    use super::*;

    fn pod(name: &str, owner: (&str, &str), hash: Option<&str>) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "shop", "uid": format!("uid-of-{name}"),
                "labels": hash.map(|hash| json!({"pod-template-hash": hash})).unwrap_or(json!({})),
                "ownerReferences": [{"kind": owner.0, "name": owner.1}],
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "a", "image": "b"}]},
            "status": {"podIPs": [{"ip": "10.0.0.1"}], "phase": "Running"},
        })
    }

    fn workloads(objects: &Objects) -> Vec<Vec<Workload>> {
        let Observed { facts, findings, .. } = observe(objects.text());
        assert_eq!(findings, []);
        facts.pods.iter().map(|pod| pod.workloads.clone()).collect()
    }

    #[test]
    fn the_workload_behind_a_pod_is_in_names() {
        let mut objects = Objects::default();
        assert!(objects.replace(
            "Pod",
            &[
                pod("a", ("ReplicaSet", "cart-7d4b"), Some("7d4b")),
                pod("b", ("ReplicaSet", "of-nobody"), None),
                pod("c", ("Job", "nightly-29012345"), None),
                pod("d", ("Job", "migration-2"), None),
            ],
        ));
        let workload = |kind, name: &str| Workload { kind, name: name.to_owned() };
        assert_eq!(
            workloads(&objects),
            [
                vec![workload(WorkloadKind::Deployment, "cart")],
                vec![workload(WorkloadKind::ReplicaSet, "of-nobody")],
                vec![workload(WorkloadKind::Job, "nightly-29012345"), workload(WorkloadKind::CronJob, "nightly")],
                vec![workload(WorkloadKind::Job, "migration-2")],
            ]
        );
    }

    /// However many pods there are, no text is large; together they say what one text would.
    #[test]
    fn many_pods_are_read_a_part_at_a_time() {
        let mut objects = Objects::default();
        let labels = json!({ "topology.kubernetes.io/zone": "z1" });
        let node =
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1", "labels": labels }, "status": {} });
        objects.set("Node", &node);
        for number in 0..2 * PODS_AT_ONCE + 1 {
            objects.set("Pod", &pod(&format!("p{number}"), ("ReplicaSet", "cart-7d4b"), Some("7d4b")));
        }
        let texts = objects.texts();
        assert_eq!(texts.len(), 3);
        let (parts, whole) = (observe_all(texts), observe(objects.text()));
        assert_eq!(parts.facts, whole.facts);
        assert_eq!(parts.findings, whole.findings);
        let last = parts.facts.pods.last().unwrap();
        assert_eq!((last.node_labels.len(), last.workloads.len()), (1, 1), "what other objects say of it");
    }

    #[test]
    fn only_what_differs_is_a_change() {
        let mut objects = Objects::default();
        let (a, b) = (pod("a", ("DaemonSet", "d"), None), pod("b", ("DaemonSet", "d"), None));
        assert!(objects.set("Pod", &a));
        assert!(!objects.set("Pod", &a));
        assert!(!objects.replace("Pod", std::slice::from_ref(&a)));
        assert!(objects.replace("Pod", &[a.clone(), b.clone()]));
        assert_eq!(objects.count("Pod"), 2);
        assert!(objects.remove(&key("Pod", &a)));
        assert!(!objects.remove(&key("Pod", &a)));
        assert!(objects.forget("Pod") && !objects.forget("Pod"));
        assert_eq!(observe(objects.text()), Observed::default());
    }

    /// An object that nobody understands keeps no other from being known.
    #[test]
    fn what_is_wrong_is_told_and_the_rest_counts() {
        let mut objects = Objects::default();
        let (mut wrong, right) = (pod("a", ("DaemonSet", "d"), None), pod("b", ("DaemonSet", "d"), None));
        wrong["status"]["podIPs"] = json!([{"ip": "nowhere"}]);
        objects.replace("Pod", &[wrong, right]);
        let observed = observe(objects.text());
        assert_eq!((observed.facts.pods.len(), observed.findings.len()), (2, 1));
    }
}
