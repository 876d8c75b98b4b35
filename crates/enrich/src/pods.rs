//! Where facts about the cluster and its pods come from, and how they are found.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use weir_plan::{ClusterFacts, Multiline};

use crate::known::Known;

/// A source of facts about a cluster and its pods. They may change at any time.
pub trait Pods: Send + Sync + Debug {
    /// What is known now. This is asked for every request, so it answers from memory. What it returns stays as it is: a
    /// request sees one state of the cluster.
    fn now(&self) -> Arc<PodIndex>;
}

/// One state of a cluster, found by what telemetry says of its sender.
#[derive(Debug, Default)]
pub struct PodIndex {
    by_ip: HashMap<IpAddr, Arc<Known>>,
    by_uid: HashMap<Arc<str>, Arc<Known>>,
    by_node: HashMap<String, Known>,
    /// For senders of which nothing is known but the cluster.
    unknown: Known,
}

impl PodIndex {
    /// Of pods with the same address or uid the last one counts.
    pub fn new(facts: ClusterFacts) -> Self {
        Self::after(&Self::default(), facts)
    }

    /// After another state: what was made of a pod that is as it was then is not made again.
    fn after(before: &Self, facts: ClusterFacts) -> Self {
        let cluster = Arc::new(facts.cluster);
        let mut index = Self { unknown: Known::new(&cluster, None, Arc::default()), ..Self::default() };
        let of_node = |labels| Known::new(&cluster, Some(labels), Arc::default());
        index.by_node.extend(facts.nodes.iter().map(|(name, labels)| (name.clone(), of_node(labels))));
        for pod in facts.pods {
            let labels = pod.node.as_deref().and_then(|node| facts.nodes.get(node));
            let known = before.by_uid.get(&pod.uid).filter(|known| known.is_of(&cluster, labels, &pod)).cloned();
            let known = known.unwrap_or_else(|| Arc::new(Known::new(&cluster, labels, Arc::clone(&pod))));
            index.by_ip.extend(pod.ips.iter().map(|ip| (ip.to_canonical(), Arc::clone(&known))));
            if !pod.uid.is_empty() {
                index.by_uid.insert(Arc::clone(&pod.uid), known);
            }
        }
        index
    }

    /// Knows what `before` knew of pods that are gone and still needed, by their uid.
    fn remember(&mut self, before: &Self, needed: &HashSet<String>) {
        for uid in needed.iter().filter(|uid| !uid.is_empty()) {
            if let Some((uid, known)) = before.by_uid.get_key_value(&**uid) {
                self.by_uid.entry(Arc::clone(uid)).or_insert_with(|| Arc::clone(known));
            }
        }
    }

    /// Whether the pod with this `metadata.uid` is known; `None` when no pod is.
    pub fn knows(&self, uid: &str) -> Option<bool> {
        (!self.by_uid.is_empty()).then(|| self.by_uid.contains_key(uid))
    }

    /// The node of a pod, if it is known.
    pub fn node(&self, uid: &str) -> Option<&str> {
        self.by_uid(uid)?.node()
    }

    /// How the lines of a pod are joined, if it is known and says so.
    pub fn multiline(&self, uid: &str) -> Option<Multiline> {
        self.by_uid(uid)?.multiline()
    }

    /// The pod with this address. An IPv4 address must not be mapped to IPv6.
    pub(crate) fn by_ip(&self, ip: IpAddr) -> Option<&Known> {
        self.by_ip.get(&ip).map(Arc::as_ref)
    }

    /// The pod with this `metadata.uid`.
    pub(crate) fn by_uid(&self, uid: &str) -> Option<&Known> {
        self.by_uid.get(uid).map(Arc::as_ref)
    }

    /// The node with this name.
    pub(crate) fn by_node(&self, name: &str) -> Option<&Known> {
        self.by_node.get(name)
    }

    /// What holds for the whole cluster.
    pub(crate) fn unknown(&self) -> &Known {
        &self.unknown
    }
}

/// A list of pods, which is valid until another list takes its place.
#[derive(Debug, Default)]
pub struct PodList {
    index: RwLock<Arc<PodIndex>>,
    /// A hash of the facts that the index is made of.
    known: Mutex<Option<u64>>,
}

impl PodList {
    /// With these facts.
    pub fn new(facts: ClusterFacts) -> Self {
        let known = Mutex::new(Some(hash(&facts)));
        Self { index: RwLock::new(Arc::new(PodIndex::new(facts))), known }
    }

    /// From now on requests are enriched with these facts. Of pods that are gone, those that are `needed` stay known by
    /// their uid, at least until the next list.
    pub fn replace(&self, facts: ClusterFacts, needed: &HashSet<String>) {
        let new = Some(hash(&facts));
        // Two lists of many pods at a time are a lot, and most changes of a configuration are about something else.
        if mem::replace(&mut *self.known.lock().unwrap_or_else(PoisonError::into_inner), new) == new {
            return;
        }
        let before = self.now();
        let mut index = PodIndex::after(&before, facts);
        index.remember(&before, needed);
        drop(before);
        let before = mem::replace(&mut *self.index.write().unwrap_or_else(PoisonError::into_inner), Arc::new(index));
        // Only now, when nobody waits for it: what was known of many pods takes a while to be given back.
        drop(before);
    }
}

/// Of what an index is made of.
fn hash(facts: &ClusterFacts) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&facts.cluster, &facts.nodes, &facts.pods).hash(&mut hasher);
    hasher.finish()
}

impl Pods for PodList {
    fn now(&self) -> Arc<PodIndex> {
        Arc::clone(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_plan::Pod;

    use super::*;

    #[test]
    fn only_other_facts_make_another_index() {
        let facts = |name: &str| ClusterFacts {
            pods: vec![Arc::new(Pod { name: name.into(), uid: "1".into(), ..Pod::default() })],
            ..ClusterFacts::default()
        };
        let list = PodList::new(facts("a"));
        let first = list.now();
        list.replace(facts("a"), &HashSet::new());
        assert!(Arc::ptr_eq(&first, &list.now()));
        list.replace(facts("b"), &HashSet::new());
        assert!(!Arc::ptr_eq(&first, &list.now()));
        list.replace(facts("a"), &HashSet::new());
        assert!(!Arc::ptr_eq(&first, &list.now()));
    }

    #[test]
    fn what_was_made_of_a_pod_stays_while_the_pod_does() {
        let pod = |name: &str| {
            Arc::new(Pod { name: name.into(), uid: name.into(), node: Some("n".into()), ..Pod::default() })
        };
        let labels =
            |zone: &str| Arc::new(BTreeMap::from([("topology.kubernetes.io/zone".to_owned(), zone.to_owned())]));
        let facts = |zone: &str, pods: &[Arc<Pod>]| ClusterFacts {
            nodes: BTreeMap::from([("n".to_owned(), labels(zone))]),
            pods: pods.to_vec(),
            ..ClusterFacts::default()
        };
        let (a, b) = (pod("a"), pod("b"));
        let list = PodList::new(facts("z1", &[Arc::clone(&a), b]));
        let known = || ["a", "b"].map(|uid| Arc::clone(&list.now().by_uid[uid]));
        let first = known();
        list.replace(facts("z1", &[Arc::clone(&a), pod("b")]), &HashSet::new());
        let second = known();
        let same = |before: &[Arc<Known>; 2], now: &[Arc<Known>; 2]| [0, 1].map(|i| Arc::ptr_eq(&before[i], &now[i]));
        // Equal pods that were read anew are other ones, but then nothing is put together again.
        assert_eq!(same(&first, &second), [true, true]);
        list.replace(facts("z1", &[Arc::clone(&a), pod("c"), pod("b")]), &HashSet::new());
        assert_eq!(same(&second, &known()), [true, false]);
        list.replace(facts("z2", &[a, pod("b")]), &HashSet::new());
        assert_eq!(same(&second, &known()), [false, false], "the node is another");
    }

    #[test]
    fn a_pod_that_is_gone_is_known_as_long_as_it_is_needed() {
        let pod = |uid: &str| Arc::new(Pod { node: Some("n".into()), uid: uid.into(), ..Pod::default() });
        let facts =
            |uids: &[&str]| ClusterFacts { pods: uids.iter().map(|uid| pod(uid)).collect(), ..ClusterFacts::default() };
        let list = PodList::new(facts(&["1", "2", "3"]));
        let known = || ["1", "2", "3"].map(|uid| list.now().knows(uid) == Some(true));
        let needed = HashSet::from(["1".to_owned(), "4".to_owned()]);
        list.replace(facts(&["3"]), &needed);
        assert_eq!(known(), [true, false, true]);
        list.replace(facts(&["2"]), &needed);
        assert_eq!((known(), list.now().node("1").map(str::to_owned)), ([true, true, false], Some("n".to_owned())));
        list.replace(facts(&["3"]), &HashSet::new());
        assert_eq!(known(), [false, false, true]);
    }
}
