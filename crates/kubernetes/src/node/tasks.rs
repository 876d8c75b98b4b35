//! The tasks of a node: which watches run, and what becomes of what they see.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use serde_json::Value;
use tokio::sync::{Notify, watch as cell};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep_until};
use weir_legible::{LeftOut, Seldom, Warnings};
use weir_plan::{ClusterObject, ClusterState, ObjectState};
use weir_resources::Diagnostic;

use super::keep::{self, Kept, Purpose};
use super::local::Local;
use super::objects::key;
use super::wants::Kind;
use super::watch::{Progress, Watched, follow};
use super::{Cluster, Configuration, Facts, Node, Options, Scope, Shared, Told, Wants};
use crate::lease::{Leadership, Timings, campaign};
use crate::operator::names;
use crate::operator::object::{kinds, text};
use crate::watch::Change;

/// A change of a node's objects waits so long for others. Not longer, because a pod that has just got its address sends at once.
const GATHER: Duration = Duration::from_millis(5);
/// After one has had an effect, the next has none any sooner.
const LOCAL_PACE: Duration = Duration::from_millis(200);
/// Of the time, making facts of what was seen may take this part: where there are many pods, some always change.
const SHARE: u32 = 20;
/// The same for those of the whole cluster, which only become metrics, every half a minute or so.
const CLUSTER_PACE: Duration = Duration::from_secs(5);

const SECRET: Watched = Watched::new("v1", "Secret");
const POD: Watched = Watched::new("v1", "Pod");
const NODE: Watched = Watched::new("v1", "Node");
const NAMESPACE: Watched = Watched::new("v1", "Namespace");
const CONFIG_MAP: Watched = Watched::new("v1", "ConfigMap");
const SERVICE: Watched = Watched::new("v1", "Service");
const ENDPOINT_SLICE: Watched = Watched::new("discovery.k8s.io/v1", "EndpointSlice");

/// The namespace whose uid stands for that of the cluster, and what a Gardener cluster says of itself in it.
const SYSTEM: &str = "kube-system";
const SHOOT_INFO: &str = "shoot-info";

pub(super) fn start(client: &Client, options: Options) -> Node {
    let Options { namespace, node_name, identity, all_pods } = options;
    let (wants, wanted) = cell::channel(Wants::default());
    let (stop, stopped) = cell::channel(false);
    let (told, configuration) = cell::channel(Told::None);
    let (known, facts) = cell::channel(Facts::default());
    let (leadership, mut campaign) =
        campaign(client.clone(), &namespace, names::CLUSTER_STATE_LEASE, unique(&identity), Timings::of_many());
    let shared = Arc::new(Shared {
        local: Mutex::new(Local::default()),
        cluster: Mutex::new(Cluster::default()),
        changed: [Notify::new(), Notify::new()],
        has_listed_pods: AtomicBool::new(false),
        has_pods: cell::channel(false).0,
        is_complete: AtomicBool::new(false),
        leadership: leadership.clone(),
        progress: Mutex::default(),
    });
    let watcher = Watcher { client: client.clone(), node_name, all_pods, shared: Arc::clone(&shared) };
    let mut tasks = JoinSet::new();
    tasks.spawn(watcher.clone().secret(namespace.clone(), told));
    for what in [
        watcher.nodes(),
        NAMESPACE.with(format!("metadata.name={SYSTEM}")),
        CONFIG_MAP.within(SYSTEM).with(format!("metadata.name={SHOOT_INFO}")),
    ] {
        tasks.spawn(watcher.clone().local(what, Purpose::Facts { annotations: false }));
    }
    tasks.spawn(watcher.clone().follow_wanted(wanted.clone()));
    tasks.spawn(watcher.of_cluster(leadership, wanted.clone(), namespace));
    tasks.spawn(tell(Arc::clone(&shared), known));
    let campaign = tokio::spawn(async move {
        let mut wanted = wanted;
        // Nobody takes part for whom there would be nothing to do, nor has the right to.
        while needs_leader(&mut wanted, stopped.clone()).await {
            campaign.run(needs_no_leader(&mut wanted, stopped.clone())).await;
        }
    });
    Node { shared, configuration, facts, wants, stop, campaign, _tasks: tasks }
}

/// A name that nobody had before.
fn unique(identity: &str) -> String {
    format!("{identity}_{:016x}", fastrand::u64(..))
}

/// Resolves when a leader is needed, or with false when there is nothing to do any more.
async fn needs_leader(wanted: &mut cell::Receiver<Wants>, stopped: cell::Receiver<bool>) -> bool {
    tokio::select! {
        biased;
        () = until(stopped) => false,
        needed = wanted.wait_for(Wants::needs_leader) => needed.is_ok(),
    }
}

/// Resolves when no leader is needed any more.
async fn needs_no_leader(wanted: &mut cell::Receiver<Wants>, stopped: cell::Receiver<bool>) {
    tokio::select! {
        _ = wanted.wait_for(|wants| !wants.needs_leader()) => {}
        () = until(stopped) => {}
    }
}

async fn until(mut stopped: cell::Receiver<bool>) {
    // Whoever could say so is gone: that is an end, too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Resolves when other things are wanted.
async fn differs(wanted: &mut cell::Receiver<Wants>, how: impl FnMut(&Wants) -> bool) {
    let is_gone = wanted.wait_for(how).await.is_err();
    if is_gone {
        std::future::pending::<()>().await;
    }
}

#[derive(Clone)]
struct Watcher {
    client: Client,
    node_name: String,
    all_pods: bool,
    shared: Arc<Shared>,
}

impl Watcher {
    /// The node whose pods are known, or all of them: what is said of a pod is said of its node, too.
    fn nodes(&self) -> Watched {
        if self.all_pods { NODE } else { NODE.with(format!("metadata.name={}", self.node_name)) }
    }

    fn pods(&self) -> Watched {
        if self.all_pods { POD } else { POD.with(format!("spec.nodeName={}", self.node_name)) }
    }

    async fn follow<T>(&self, what: Watched, scope: Scope, trim: impl Fn(Value) -> T, take: impl FnMut(Change<T>)) {
        let progress: Arc<Progress> = self.shared.progress(scope, what.kind);
        follow(self.client.clone(), what, progress, trim, take).await;
    }

    /// NODE-2: the one Secret with the configuration. If it is deleted, the node goes on with what it has: its own end is near.
    async fn secret(self, namespace: String, told: cell::Sender<Told>) {
        let only = SECRET.within(&namespace).with(format!("metadata.name={}", names::CONFIGURATION));
        let mut missing_reported = Seldom::default();
        self.follow(
            only,
            Scope::Node,
            |secret| secret,
            |change| {
                let secret = match change {
                    Change::All(found) => found.into_iter().next(),
                    Change::Set(secret) => Some(secret),
                    Change::Gone(_) => None,
                };
                let Some(secret) = secret else {
                    // Each list that finds none says so again.
                    if let Some(left_out) = missing_reported.due(Instant::now()) {
                        tracing::warn!(
                            secret = names::CONFIGURATION,
                            left_out,
                            advice = "look whether the operator runs: it writes this Secret",
                            "there is no configuration; the last one goes on"
                        );
                    }
                    return;
                };
                let read = serde_json::from_value::<Secret>(secret).map_err(|_| "it is no Secret".to_owned());
                let read = read.and_then(Configuration::of).map(Arc::new);
                told.send_if_modified(|known| {
                    let differs = known.as_ref() != Some(&read);
                    *known = Some(read);
                    differs
                });
            },
        )
        .await;
    }

    /// Objects that are documents for this node.
    async fn local(self, what: Watched, purpose: Purpose) {
        let (shared, node, kind) = (Arc::clone(&self.shared), self.node_name.clone(), what.kind);
        let (api_version, said) = (what.api_version, Said::default());
        let document = |mut object: Value| {
            let key = key(kind, &object);
            let Kept { mut document, left_out } = keep::document(api_version, kind, &mut object, purpose);
            let (namespace, name) = (&key.1, &key.2);
            said.say_left_out();
            if left_out == 0 {
                said.forget((namespace, name));
            } else {
                said.once("too_large", (namespace, name), || {
                    tracing::warn!(
                        kind,
                        namespace,
                        name,
                        left_out,
                        advice = "make labels, annotations and owners of the object fewer",
                        "too large: labels, annotations, owners or containers are not known"
                    );
                });
            }
            (key, is_of_node(kind, &mut document, &node).then(|| document.to_string().into()))
        };
        self.follow(what, Scope::Node, document, |change| {
            let differs = match change {
                Change::All(objects) => {
                    said.keep(objects.iter().map(|((_, namespace, name), _)| (namespace, name)));
                    let documents = objects.into_iter().filter_map(|(key, document)| Some((key, document?)));
                    let differs = shared.local().replace_all(kind, documents.collect());
                    // Somebody waits for the first list of pods, even if there is none.
                    differs | (kind == POD.kind && !shared.has_listed_pods.swap(true, Ordering::AcqRel))
                }
                Change::Set((key, Some(document))) => shared.local().put(key, document),
                Change::Set((key, None)) => shared.local().remove(&key),
                Change::Gone((key, _)) => {
                    said.forget((&key.1, &key.2));
                    shared.local().remove(&key)
                }
            };
            if differs {
                shared.changed[0].notify_one();
            }
        })
        .await;
    }

    /// What pipelines of this node want.
    async fn follow_wanted(self, mut wanted: cell::Receiver<Wants>) {
        let of_node = |wants: &Wants| (wants.pods, wants.annotations, wants.scrapes);
        loop {
            let (pods, annotations, scrapes) = of_node(&wanted.borrow_and_update());
            let mut tasks = JoinSet::new();
            let facts = Purpose::Facts { annotations };
            self.shared.local().keep_scrapables(scrapes);
            if pods {
                tasks.spawn(self.clone().local(self.pods(), facts));
            }
            if scrapes {
                tasks.spawn(self.clone().local(SERVICE, facts));
                tasks.spawn(self.clone().local(ENDPOINT_SLICE, facts));
            } else {
                let forgotten = [SERVICE, ENDPOINT_SLICE].map(|what| self.shared.local().forget(what.kind));
                if forgotten.contains(&true) {
                    self.shared.changed[0].notify_one();
                }
            }
            differs(&mut wanted, |wants| of_node(wants) != (pods, annotations, scrapes)).await;
            // What they saw stays known.
            tasks.shutdown().await;
        }
    }

    /// What the one that speaks for the cluster has to know.
    async fn of_cluster(self, mut leadership: Leadership, mut wanted: cell::Receiver<Wants>, namespace: String) {
        let of_cluster = |wants: &Wants| (wants.kinds.clone(), wants.statuses);
        loop {
            let (kinds, statuses) = of_cluster(&wanted.borrow_and_update());
            let mut tasks = JoinSet::new();
            self.shared.is_complete.store(false, Ordering::Release);
            if leadership.leads() {
                let all = watched_by_leader(&kinds, statuses, &namespace);
                *self.shared.cluster() = Cluster::of_wanted(all.iter().map(|(what, _)| what.kind).collect());
                for (what, purpose) in all {
                    tasks.spawn(self.clone().state(what, purpose));
                }
            }
            tokio::select! {
                () = leadership.changed() => {}
                () = differs(&mut wanted, |wants| of_cluster(wants) != (kinds.clone(), statuses)) => {}
            }
            // Nothing that a watch sees comes after this.
            tasks.shutdown().await;
            *self.shared.cluster() = Cluster::default();
            self.shared.changed[1].notify_one();
        }
    }

    /// Objects of a kind, for metrics.
    async fn state(self, what: Watched, purpose: Purpose) {
        let (shared, kind, api_version) = (Arc::clone(&self.shared), what.kind, what.api_version);
        let document = |mut object: Value| keep::document(api_version, kind, &mut object, purpose).document;
        self.follow(what, Scope::Cluster, document, |change| {
            let mut cluster = shared.cluster();
            match change {
                Change::All(documents) => cluster.replace(kind, &documents),
                Change::Set(document) => cluster.set(kind, &document),
                Change::Gone(document) => cluster.remove(&key(kind, &document)),
            }
            let is_complete = cluster.is_complete();
            drop(cluster);
            if is_complete {
                shared.changed[1].notify_one();
            }
        })
        .await;
    }
}

/// Objects of these kinds, and the resources of ours, of which the Telemetry is in the operator's namespace.
fn watched_by_leader(kinds: &BTreeSet<Kind>, statuses: bool, namespace: &str) -> Vec<(Watched, Purpose)> {
    let ours = kinds::OURS.into_iter().filter(|_| statuses).map(|kind| match Watched::all(kind) {
        what if kind == kinds::TELEMETRY => (what.within(namespace), Purpose::Status),
        what => (what, Purpose::Status),
    });
    kinds.iter().map(|kind| (Watched::all(*kind), Purpose::State)).chain(ours).collect()
}

/// Whether an object of the whole cluster matters on this node. Of what is behind services, only what is here does.
fn is_of_node(kind: &str, document: &mut Value, node: &str) -> bool {
    match kind {
        "Service" => {
            document.pointer("/metadata/annotations").and_then(Value::as_object).is_some_and(|all| !all.is_empty())
        }
        "EndpointSlice" => {
            let Some(endpoints) = document.get_mut("endpoints").and_then(Value::as_array_mut) else { return false };
            endpoints.retain(|endpoint| text(endpoint, "/nodeName").is_none_or(|name| name == node));
            !endpoints.is_empty()
        }
        _ => true,
    }
}

/// What the log took no more of is to be said again after this time, by when it takes more.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// What the log was told of the objects that there are, so that it is told once; and of many objects only so much in a
/// minute. Whoever makes objects cannot keep others from being named: what is gone is forgotten, and what was not named
/// is when it is looked at again.
#[derive(Default)]
struct Said {
    /// By hashes of what there is to say. No more is remembered than is known of objects anyway.
    all: Mutex<HashMap<u64, Saying>>,
    hasher: RandomState,
    warnings: Warnings,
}

/// What became of something that there was to say.
#[derive(Clone, Copy)]
enum Saying {
    Said,
    /// The log took no more at this time.
    LeftOut(Instant),
}

impl Said {
    fn once(&self, reason: &'static str, what: impl Hash, say: impl FnOnce()) {
        let (hash, now) = (self.hasher.hash_one(what), Instant::now());
        let mut all = self.lock();
        let is_due = match all.get(&hash) {
            Some(Saying::Said) => false,
            Some(Saying::LeftOut(at)) => now.duration_since(*at) >= SAY_AGAIN,
            None => true,
        };
        if !is_due {
            return;
        }
        let may_say = self.warnings.may_say(reason, 0, now);
        all.insert(hash, if may_say { Saying::Said } else { Saying::LeftOut(now) });
        drop(all);
        if may_say {
            say();
        }
    }

    /// It is not so any more.
    fn forget(&self, what: impl Hash) {
        let mut all = self.lock();
        if !all.is_empty() {
            all.remove(&self.hasher.hash_one(what));
        }
    }

    /// Forgets all but this.
    fn keep<T: Hash>(&self, all_there_is: impl Iterator<Item = T>) {
        let mut all = self.lock();
        if !all.is_empty() {
            let there: HashSet<u64> = all_there_is.map(|what| self.hasher.hash_one(what)).collect();
            all.retain(|hash, _| there.contains(hash));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Saying>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs what is wrong with objects.
    fn say_findings(&self, findings: &[Diagnostic]) {
        for finding in findings {
            let message = &finding.message;
            self.once("finding", message, || {
                tracing::warn!(
                    finding = %message,
                    advice = "correct the object that is named",
                    "an object of the cluster is not as expected"
                )
            });
        }
        self.keep(findings.iter().map(|finding| &finding.message));
    }

    /// Logs how often there was more to say.
    fn say_left_out(&self) {
        for LeftOut { reason, messages, .. } in self.warnings.left_out(Instant::now()) {
            tracing::warn!(
                reason,
                left_out = messages,
                advice = "correct the objects that are named; others are named when they change or are listed again",
                "more was to be said of objects than the log takes in a minute"
            );
        }
    }
}

/// Makes facts of what was seen.
async fn tell(shared: Arc<Shared>, known: cell::Sender<Facts>) {
    let (mut next_cluster, mut of_cluster) = (Instant::now(), None);
    let (mut rests_until, said) = (Instant::now(), Said::default());
    loop {
        let is_of_cluster = tokio::select! {
            () = shared.changed[0].notified() => false,
            () = async {
                sleep_until(next_cluster).await;
                shared.changed[1].notified().await;
            } => true,
        };
        if is_of_cluster {
            next_cluster = Instant::now() + CLUSTER_PACE;
        } else {
            sleep_until(rests_until.max(Instant::now() + GATHER)).await;
        }
        let has_pods = shared.has_listed_pods.load(Ordering::Acquire);
        let unread = shared.local().unread();
        // Only a bug makes it panic; what was known is still true then.
        let reading = move || {
            let began = Instant::now();
            (unread.read(), began.elapsed())
        };
        let Ok((read, took)) = spawn_blocking(reading).await else { continue };
        let began = Instant::now();
        let observed = {
            let mut local = shared.local();
            local.know(read);
            local.observed()
        };
        let took = took + began.elapsed();
        // Whoever starts waits for its pods.
        let pace = if has_pods { LOCAL_PACE } else { Duration::ZERO };
        rests_until = Instant::now() + pace.max((SHARE - 1) * took);
        said.say_left_out();
        said.say_findings(&observed.findings);
        let mut nodes = observed.objects;
        nodes.retain(|object| matches!(object.state, ObjectState::Node(_)));
        if is_of_cluster {
            of_cluster = state_of_cluster(&shared, nodes.clone()).await;
        }
        let of_node = || Arc::new(ClusterState { objects: nodes, statuses: Vec::new() });
        let state = of_cluster.clone().unwrap_or_else(of_node);
        known.send_replace(Facts { facts: observed.facts, state });
        shared.has_pods.send_replace(has_pods);
        if is_of_cluster {
            shared.is_complete.store(of_cluster.is_some(), Ordering::Release);
        }
    }
}

/// Nothing where this process does not lead, or does not know all that is wanted. `nodes`: this one, of which the capacity is needed.
async fn state_of_cluster(shared: &Arc<Shared>, nodes: Vec<ClusterObject>) -> Option<Arc<ClusterState>> {
    if !shared.leadership.leads() || !shared.cluster().is_complete() {
        return None;
    }
    let shared = Arc::clone(shared);
    let mut state = spawn_blocking(move || shared.cluster().state()).await.ok()?;
    if !state.objects.iter().any(|object| matches!(object.state, ObjectState::Node(_))) {
        state.objects.extend(nodes);
    }
    Some(Arc::new(state))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ops::Range;

    use serde_json::json;
    use tokio::time::advance;

    use super::*;

    /// How many of these are named. Nothing else is there.
    fn named(said: &Said, objects: Range<usize>) -> usize {
        let named = Cell::new(0);
        for object in objects.clone() {
            said.once("finding", object, || named.set(named.get() + 1));
        }
        said.keep(objects);
        named.get()
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_makes_many_objects_does_not_keep_others_from_being_named() {
        let said = Said::default();
        assert_eq!([named(&said, 0..10), named(&said, 0..10)], [10, 0]);
        for minute in 1..100 {
            advance(SAY_AGAIN).await;
            let objects = minute * 1_000..(minute + 1) * 1_000;
            assert_eq!(named(&said, objects.clone()), 50, "in minute {minute}");
            assert_eq!((named(&said, objects), said.lock().len()), (0, 1_000));
            let [left_out] = said.warnings.all_left_out()[..] else { panic!("one reason") };
            assert_eq!(left_out.messages, 950, "each once");
        }
        advance(SAY_AGAIN).await;
        assert_eq!(named(&said, 0..10), 10, "they were gone, and are there again");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_named_is_later() {
        let said = Said::default();
        for (named_now, left_out) in [(50, 70), (50, 20), (20, 0), (0, 0)] {
            assert_eq!([named(&said, 0..120), named(&said, 0..120)], [named_now, 0]);
            assert_eq!(said.warnings.all_left_out().iter().map(|all| all.messages).sum::<u64>(), left_out);
            advance(SAY_AGAIN).await;
        }
        said.forget(7_usize);
        assert_eq!(named(&said, 0..120), 1);
    }

    #[test]
    fn of_services_what_is_scraped_on_this_node_matters() {
        let annotated = |annotations| json!({"metadata": {"annotations": annotations}});
        assert!(is_of_node("Service", &mut annotated(json!({"prometheus.io/scrape": "true"})), "a"));
        assert!(!is_of_node("Service", &mut annotated(json!({})), "a"));
        let mut slice = json!({"endpoints": [{"nodeName": "a"}, {"nodeName": "b"}, {}]});
        assert!(is_of_node("EndpointSlice", &mut slice, "a"));
        assert_eq!(slice, json!({"endpoints": [{"nodeName": "a"}, {}]}));
        assert!(!is_of_node("EndpointSlice", &mut json!({"endpoints": [{"nodeName": "b"}]}), "a"));
        assert!(is_of_node("Pod", &mut json!({}), "a"));
    }
}
