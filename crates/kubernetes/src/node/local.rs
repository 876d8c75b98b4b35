//! What is known around a node: its pods, and what others say of them.
//!
//! There may be very many pods, so each is read when it changes, and what it says is kept instead of its text; what it
//! has in common with others is there once. Of all others there are few; they are read together when one of them
//! changes.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use weir_plan::{Common, Pod, ScrapablePod};
use weir_resources::{Diagnostic, Observed};

use super::objects::{Key, Objects, list, observe};
use crate::operator::object::text;

const POD: &str = "Pod";

/// So many things that are wrong with a pod are told; whoever corrects these hears of others.
const MOST_FINDINGS: usize = 10;

/// Objects around a node, and what they say.
#[derive(Debug, Default)]
pub(super) struct Local {
    pods: BTreeMap<PodName, SeenPod>,
    common: Arc<Mutex<Common>>,
    /// Whoever makes pods cannot make two texts with one hash.
    hasher: RandomState,
    /// Whether somebody wants to know what of pods may be scraped.
    scrapes: bool,
    others: Objects,
    /// How often any of them changed, and how often they had when they were read last.
    changes: (u64, u64),
    /// What they said then.
    others_say: Observed,
}

/// Namespace and name of a pod, which share their texts with what it says.
type PodName = (Arc<str>, Arc<str>);

/// A pod as it was seen last.
#[derive(Debug, Default)]
struct SeenPod {
    /// Of its text; `None` where that has to be read again, whatever it is.
    hash: Option<TextHash>,
    /// Until it is read.
    text: Option<Box<str>>,
    /// As it is, or was before it changed.
    says: PodSays,
}

/// A hash of 0 is none: a text that has it, one of 2^64, is read whenever it is listed.
type TextHash = NonZero<u64>;

/// What a pod says.
#[derive(Debug, Default)]
struct PodSays {
    /// `None` before it was read, and where nobody understands it.
    pod: Option<Arc<Pod>>,
    scrapable: Option<Box<ScrapablePod>>,
    findings: Box<[Diagnostic]>,
}

/// Texts to read. That takes a while where there are many.
pub(super) struct Unread {
    pods: Vec<(PodName, Option<TextHash>, Box<str>)>,
    common: Arc<Mutex<Common>>,
    scrapes: bool,
    /// All others together, if one is another than before, and how often any had changed.
    others: Option<(u64, String)>,
}

/// What they say.
pub(super) struct JustRead {
    scrapes: bool,
    pods: Vec<(PodName, Option<TextHash>, PodSays)>,
    others: Option<(u64, Observed)>,
}

impl Local {
    /// From now on it is known what of pods may be scraped, or not. Where it was not, it is when the pods have been listed
    /// once more.
    pub(super) fn keep_scrapables(&mut self, scrapes: bool) {
        if self.scrapes == scrapes {
            return;
        }
        self.scrapes = scrapes;
        for pod in self.pods.values_mut() {
            (pod.hash, pod.says.scrapable) = (None, None);
        }
    }

    /// Whether it is another than before.
    pub(super) fn put(&mut self, key: Key, text: Box<str>) -> bool {
        if key.0 != POD {
            let differs = self.others.put(key, text);
            return self.others_changed(differs);
        }
        let (name, hash) = (self.pod_name(&key), self.hash(&text));
        self.pods.entry(name).or_default().put(hash, text)
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        if key.0 == POD {
            return self.pods.remove(&self.pod_name(key)).is_some();
        }
        let was_there = self.others.remove(key);
        self.others_changed(was_there)
    }

    /// All there are of a kind. Whether anything is another than before.
    pub(super) fn replace_all(&mut self, kind: &'static str, documents: Vec<(Key, Box<str>)>) -> bool {
        if kind != POD {
            let differs = self.others.replace_all(kind, documents);
            return self.others_changed(differs);
        }
        let (mut before, mut differs) = (mem::take(&mut self.pods), false);
        let seen = |(key, text): (Key, Box<str>)| {
            let (name, hash) = (self.pod_name(&key), self.hash(&text));
            let (name, mut pod) = before.remove_entry(&name).unwrap_or_else(|| (name, SeenPod::default()));
            differs |= pod.put(hash, text);
            (name, pod)
        };
        // A map that is made of all of them at once takes less than one that has grown.
        self.pods = documents.into_iter().map(seen).collect();
        differs | !before.is_empty()
    }

    /// Nothing of this kind is known any more. Whether there was any.
    pub(super) fn forget(&mut self, kind: &'static str) -> bool {
        self.replace_all(kind, Vec::new())
    }

    /// How many there are of a kind.
    pub(super) fn count(&self, kind: &str) -> usize {
        if kind == POD { self.pods.len() } else { self.others.count(kind) }
    }

    /// What was not read as it is now.
    pub(super) fn unread(&self) -> Unread {
        let unread = |(name, pod): (&PodName, &SeenPod)| Some((name.clone(), pod.hash, pod.text.clone()?));
        let (now, read) = self.changes;
        Unread {
            pods: self.pods.iter().filter_map(unread).collect(),
            common: Arc::clone(&self.common),
            scrapes: self.scrapes,
            others: (now != read).then(|| (now, self.others.text())),
        }
    }

    /// From now on that is known, as far as nothing changed meanwhile.
    pub(super) fn know(&mut self, read: JustRead) {
        // Where somebody wants more of pods than there was to read, they are read again.
        let is_enough = read.scrapes == self.scrapes;
        for (name, hash, says) in read.pods.into_iter().filter(|_| is_enough) {
            if let Some(known) = self.pods.get_mut(&name) {
                known.know(hash, says);
            }
        }
        if let Some((changes, say)) = read.others {
            (self.changes.1, self.others_say) = (changes, say);
        }
    }

    /// All that is known.
    pub(super) fn observed(&self) -> Observed {
        let mut all = self.others_say.clone();
        let say = || self.pods.values().map(|pod| &pod.says);
        all.facts.pods = say().filter_map(|says| says.pod.clone()).collect();
        all.facts.scrapables.pods = say().filter_map(|says| says.scrapable.as_deref().cloned()).collect();
        all.findings.extend(say().flat_map(|says| says.findings.iter()).cloned());
        all
    }

    fn pod_name(&self, (_, namespace, name): &Key) -> PodName {
        (locked(&self.common).text(namespace), name.as_str().into())
    }

    fn hash(&self, text: &str) -> Option<TextHash> {
        NonZero::new(self.hasher.hash_one(text))
    }

    fn others_changed(&mut self, differs: bool) -> bool {
        self.changes.0 += u64::from(differs);
        differs
    }
}

impl SeenPod {
    /// Whether it is another than before.
    fn put(&mut self, hash: Option<TextHash>, text: Box<str>) -> bool {
        let differs = hash.is_none() || self.hash != hash;
        if differs {
            (self.hash, self.text) = (hash, Some(text));
        }
        differs
    }

    /// It said this when its text had this hash.
    fn know(&mut self, hash: Option<TextHash>, mut says: PodSays) {
        if self.hash == hash {
            self.text = None;
        } else if self.says.pod.is_none() {
            // It may be another pod of this name. What it says itself is read the next time.
            return;
        }
        // What is made of a pod is made again only where it says something else.
        if self.says.pod == says.pod {
            says.pod = self.says.pod.take();
        }
        self.says = says;
    }
}

impl Unread {
    pub(super) fn read(self) -> JustRead {
        let Self { pods, common, scrapes, others } = self;
        // What enriches requests has what pods said before for a while longer, so that is forgotten here the next time.
        locked(&common).forget_unused();
        let read = |(name, hash, text): (PodName, _, Box<str>)| {
            let mut says = PodSays::of(&text, scrapes);
            if let Some(pod) = &mut says.pod {
                let pod = Arc::make_mut(pod);
                pod.name = Arc::clone(&name.1);
                locked(&common).share(pod);
            }
            (name, hash, says)
        };
        JustRead {
            scrapes,
            pods: pods.into_iter().map(read).collect(),
            others: others.map(|(changes, text)| (changes, observe(text))),
        }
    }
}

impl PodSays {
    fn of(pod: &str, scrapes: bool) -> Self {
        let owners: Vec<String> = owners_of(pod).iter().map(Value::to_string).collect();
        let mut observed = observe(list([pod].into_iter().chain(owners.iter().map(String::as_str))));
        let (pods, scrapables) = (observed.facts.pods, observed.facts.scrapables.pods);
        observed.findings.truncate(MOST_FINDINGS);
        let scrapable = scrapables.into_iter().next().filter(|_| scrapes).map(Box::new);
        Self { pod: pods.into_iter().next(), scrapable, findings: observed.findings.into() }
    }
}

fn locked(common: &Mutex<Common>) -> MutexGuard<'_, Common> {
    common.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What stands behind the owners of a pod. It is in their names, so nobody has to watch them: there may be ten for each pod.
fn owners_of(pod: &str) -> Vec<Value> {
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
        Some(((kind, name), document))
    });
    // A pod may name an owner twice.
    owners.collect::<BTreeMap<_, _>>().into_values().collect()
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

    use super::super::objects::key;
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

    impl Local {
        fn set(&mut self, document: &Value) -> bool {
            let kind = if document["kind"] == "Pod" { "Pod" } else { "Node" };
            self.put(key(kind, document), document.to_string().into())
        }

        fn replace(&mut self, pods: &[Value]) -> bool {
            self.replace_all("Pod", pods.iter().map(|pod| (key("Pod", pod), pod.to_string().into())).collect())
        }

        fn read(&mut self) -> Observed {
            let read = self.unread().read();
            self.know(read);
            self.observed()
        }
    }

    fn owners(observed: Observed) -> Vec<String> {
        observed.facts.pods.iter().map(|pod| pod.workloads[0].name.to_string()).collect()
    }

    #[test]
    fn the_workload_behind_a_pod_is_in_names() {
        let mut local = Local::default();
        assert!(local.replace(&[
            pod("a", ("ReplicaSet", "cart-7d4b"), Some("7d4b")),
            pod("b", ("ReplicaSet", "of-nobody"), None),
            pod("c", ("Job", "nightly-29012345"), None),
            pod("d", ("Job", "migration-2"), None),
        ]));
        let workload = |kind, name: &str| Workload { kind, name: name.into() };
        let Observed { facts, findings, .. } = local.read();
        assert_eq!(findings, []);
        assert_eq!(
            facts.pods.iter().map(|pod| pod.workloads.to_vec()).collect::<Vec<_>>(),
            [
                vec![workload(WorkloadKind::Deployment, "cart")],
                vec![workload(WorkloadKind::ReplicaSet, "of-nobody")],
                vec![workload(WorkloadKind::Job, "nightly-29012345"), workload(WorkloadKind::CronJob, "nightly")],
                vec![workload(WorkloadKind::Job, "migration-2")],
            ]
        );
    }

    /// There may be very many pods, and most processes with very many scrape none.
    #[test]
    fn what_may_be_scraped_is_known_where_somebody_wants_it() {
        let mut local = Local::default();
        let pods = [pod("a", ("DaemonSet", "d"), None)];
        let scrapables = |local: &mut Local| local.read().facts.scrapables.pods.len();
        assert!(local.replace(&pods));
        assert_eq!(scrapables(&mut local), 0);
        local.keep_scrapables(true);
        assert!(local.replace(&pods), "pods that are listed are read again");
        assert_eq!(scrapables(&mut local), 1);
        assert!(!local.replace(&pods));
        local.keep_scrapables(false);
        let read = {
            local.set(&pod("a", ("DaemonSet", "later"), None));
            local.unread().read()
        };
        local.keep_scrapables(true);
        local.know(read);
        assert!(local.replace(&pods));
        assert_eq!(scrapables(&mut local), 1, "what was read before somebody wanted it is read again");
        local.keep_scrapables(false);
        assert_eq!((scrapables(&mut local), local.observed().facts.pods.len()), (0, 1));
    }

    /// There may be very many pods, and most say the same.
    #[test]
    fn what_pods_have_in_common_is_there_once_and_as_long_as_they_are() {
        let mut local = Local::default();
        local.replace(&["a", "b"].map(|name| pod(name, ("DaemonSet", "d"), Some("7d4b"))));
        let pods = local.read().facts.pods;
        assert!(Arc::ptr_eq(&pods[0].workloads, &pods[1].workloads));
        let (namespace, name) = local.pods.keys().next().unwrap();
        assert!(Arc::ptr_eq(namespace, &pods[1].namespace) && Arc::ptr_eq(name, &pods[0].name));
        let workloads = Arc::downgrade(&pods[0].workloads);
        drop(pods);
        local.remove(&key("Pod", &pod("a", ("DaemonSet", "d"), None)));
        local.read();
        assert!(workloads.strong_count() > 0);
        local.forget("Pod");
        local.read();
        assert_eq!(workloads.strong_count(), 0);
    }

    /// However many pods there are, one that changes is read alone, and what others say is not read again.
    #[test]
    fn only_what_changed_is_read() {
        let mut local = Local::default();
        let zone = |zone: &str| {
            json!({
                "apiVersion": "v1", "kind": "Node", "status": {},
                "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": zone}},
            })
        };
        assert!(local.set(&zone("z1")));
        let pods: Vec<_> = (0..100).map(|number| pod(&format!("p{number}"), ("DaemonSet", "d"), None)).collect();
        assert!(local.replace(&pods));
        let first = local.read();
        assert_eq!((first.facts.pods.len(), first.facts.nodes["n1"].len()), (100, 1));
        assert!(!local.replace(&pods));
        assert!(local.set(&pod("p7", ("DaemonSet", "another"), None)));
        let unread = local.unread();
        assert_eq!((unread.pods.len(), unread.others.is_some()), (1, false));
        let changed = local.read();
        let same = first.facts.pods.iter().zip(&changed.facts.pods).filter(|(before, now)| Arc::ptr_eq(before, now));
        assert_eq!(same.count(), 99);
        assert!(local.set(&zone("z2")));
        let unread = local.unread();
        assert_eq!((unread.pods.len(), unread.others.is_some()), (0, true));
        assert_eq!(local.read().facts.nodes["n1"]["topology.kubernetes.io/zone"], "z2");
    }

    /// What changes while it is read is read again, and what is gone does not come back.
    #[test]
    fn what_was_read_is_not_what_came_meanwhile() {
        let mut local = Local::default();
        local.replace(&["a", "b"].map(|name| pod(name, ("DaemonSet", "first"), None)));
        local.read();
        local.replace(&["a", "b"].map(|name| pod(name, ("DaemonSet", "d"), None)));
        let read = local.unread().read();
        assert!(local.set(&pod("a", ("DaemonSet", "later"), None)));
        assert!(local.remove(&key("Pod", &pod("b", ("DaemonSet", "d"), None))));
        local.know(read);
        assert_eq!(owners(local.observed()), ["d"], "as it was");
        assert_eq!(owners(local.read()), ["later"]);
        assert_eq!(local.unread().pods.len(), 0);
        assert!(local.forget("Pod") && !local.forget("Pod"));
        assert_eq!(local.read(), Observed::default());
    }

    #[test]
    fn a_pod_does_not_say_what_another_of_its_name_said() {
        let mut local = Local::default();
        let before = pod("a", ("DaemonSet", "before"), None);
        local.set(&before);
        let read = local.unread().read();
        local.remove(&key("Pod", &before));
        local.set(&pod("a", ("DaemonSet", "now"), None));
        local.know(read);
        assert_eq!(owners(local.observed()), <[String; 0]>::default());
        assert_eq!(owners(local.read()), ["now"]);
    }

    /// Most changes of a pod say nothing else to us.
    #[test]
    fn a_pod_that_says_the_same_is_the_same() {
        let mut local = Local::default();
        let mut changed = pod("a", ("DaemonSet", "d"), None);
        local.set(&changed);
        let before = local.read().facts.pods;
        changed["metadata"]["resourceVersion"] = "2".into();
        assert!(local.set(&changed));
        let now = local.read().facts.pods;
        assert!(Arc::ptr_eq(&before[0], &now[0]));
        assert_eq!(local.unread().pods.len(), 0);
    }

    /// An object that nobody understands keeps no other from being known.
    #[test]
    fn what_is_wrong_is_told_and_the_rest_counts() {
        let mut local = Local::default();
        let (mut wrong, right) = (pod("a", ("DaemonSet", "d"), None), pod("b", ("DaemonSet", "d"), None));
        wrong["status"]["podIPs"] = json!([{"ip": "nowhere"}]);
        let twice = json!({"kind": "Job", "name": "nightly-29012345"});
        wrong["metadata"]["ownerReferences"] = json!([twice, twice]);
        local.replace(&[wrong, right]);
        let observed = local.read();
        assert_eq!((observed.facts.pods.len(), observed.findings.len()), (2, 1));
        let mut wrong = pod("c", ("DaemonSet", "d"), None);
        wrong["status"]["podIPs"] = (0..100).map(|_| json!({"ip": "nowhere"})).collect();
        local.replace(&[wrong]);
        assert_eq!(local.read().findings.len(), MOST_FINDINGS);
    }
}
