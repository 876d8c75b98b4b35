//! Watches: each keeps one part of what was seen true.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use weir_plan::{PipelineId, Signal};

use super::api::{RequestError, request, resource};
use super::trim;
use super::world::World;
use crate::operator::layout::Workload;
use crate::operator::names;
use crate::operator::object::{self, ObjectKey, kinds};
use crate::operator::picture::{Apis, kind_of};
use crate::watch::{self, Change, Failure, News, config};

/// Between two attempts, the first and the longest.
pub(super) const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

/// How often it is looked which APIs there are: a service mesh comes seldom.
const DISCOVER_EVERY: Duration = Duration::from_secs(300);

/// How often it is looked whether that has found a service mesh.
const LOOK_FOR_ISTIO_EVERY: Duration = Duration::from_secs(5);

/// Starts all watches but those of Secrets.
pub(super) fn all(client: &Client, namespace: &str, world: &Arc<World>, tasks: &mut JoinSet<()>) {
    for signal in Signal::ALL {
        tasks.spawn(pipelines(client.clone(), signal, Arc::clone(world)));
    }
    tasks.spawn(telemetry(client.clone(), namespace.to_owned(), Arc::clone(world)));
    tasks.spawn(overrides(client.clone(), namespace.to_owned(), Arc::clone(world)));
    tasks.spawn(workloads::<DaemonSet>(client.clone(), namespace.to_owned(), Arc::clone(world), trim::daemon_set));
    tasks.spawn(workloads::<StatefulSet>(client.clone(), namespace.to_owned(), Arc::clone(world), trim::stateful_set));
    tasks.spawn(workloads::<Deployment>(client.clone(), namespace.to_owned(), Arc::clone(world), trim::deployment));
    tasks.spawn(pods(client.clone(), namespace.to_owned(), Arc::clone(world)));
    tasks.spawn(apis(client.clone(), Arc::clone(world)));
    for kind in [
        kinds::SERVICE,
        kinds::SERVICE_ACCOUNT,
        kinds::SECRET,
        kinds::DAEMON_SET,
        kinds::STATEFUL_SET,
        kinds::DEPLOYMENT,
        kinds::AUTOSCALER,
        kinds::DISRUPTION_BUDGET,
        kinds::NETWORK_POLICY,
        kinds::ROLE,
        kinds::ROLE_BINDING,
    ] {
        tasks.spawn(made(client.clone(), kind, Some(namespace.to_owned()), Arc::clone(world)));
    }
    for kind in [kinds::CLUSTER_ROLE, kinds::CLUSTER_ROLE_BINDING, kinds::PRIORITY_CLASS] {
        tasks.spawn(made(client.clone(), kind, None, Arc::clone(world)));
    }
    tasks.spawn(made_with_istio(client.clone(), namespace.to_owned(), Arc::clone(world)));
}

/// Follows objects for ever. `trim`: what is kept of each.
pub(super) async fn follow<K, T>(
    what: &'static str,
    events: impl Stream<Item = watcher::Result<Event<K>>>,
    world: &World,
    trim: impl Fn(K) -> T,
    mut take: impl FnMut(Change<T>),
) {
    let mut failures = Failures::new(what, world);
    let take = |news| match news {
        News::Change(change) => take(change),
        News::Failure(failure) => failures.note(&failure),
        News::Recovery => failures.end(),
    };
    watch::follow(events, RETRY, trim, take).await;
}

/// Failures of a watch. Of all watches of a kind, the first that fails is told, and when all work again.
pub(super) struct Failures<'a> {
    what: &'static str,
    world: &'a World,
    is_failing: bool,
}

impl<'a> Failures<'a> {
    pub(super) fn new(what: &'static str, world: &'a World) -> Self {
        Self { what, world, is_failing: false }
    }

    pub(super) fn note(&mut self, failure: &Failure) {
        let begins = !failure.is_usual && !std::mem::replace(&mut self.is_failing, !failure.is_usual);
        let due = self.world.look(|seen| {
            seen.figures.watch_errors += 1;
            let failing = seen.failing.entry(self.what).or_default();
            *failing += usize::from(begins);
            let is_first = begins && *failing == 1;
            is_first.then(|| seen.failures_reported.entry(self.what).or_default().due(Instant::now())).flatten()
        });
        if let Some(left_out) = due {
            let error = failure.words();
            tracing::warn!(
                watched = self.what,
                error,
                left_out,
                advice = "look whether the API server answers, and at the rights of this ServiceAccount",
                "cannot watch; trying on, with what was seen last"
            );
        }
    }

    pub(super) fn end(&mut self) {
        if self.fails_no_more() {
            tracing::info!(watched = self.what, "watching again");
        }
    }

    /// Whether this was the last of its kind that failed.
    fn fails_no_more(&mut self) -> bool {
        std::mem::take(&mut self.is_failing)
            && self.world.look(|seen| {
                let failing = seen.failing.entry(self.what).or_default();
                *failing = failing.saturating_sub(1);
                *failing == 0
            })
    }
}

/// A watch that ends does not fail any more, and does not watch again.
impl Drop for Failures<'_> {
    fn drop(&mut self) {
        self.fails_no_more();
    }
}

async fn pipelines(client: Client, signal: Signal, world: Arc<World>) {
    let kind = kind_of(signal);
    let api: Api<DynamicObject> = Api::all_with(client, &resource(kind));
    let id = |object: &serde_json::Value| PipelineId::new(signal, object::name(object));
    let trim = |object| Arc::new(trim::resource(object));
    follow(kind.1, watch::events(api, config()), &world, trim, |change| {
        world.see(|seen| {
            let pipelines = Arc::make_mut(&mut seen.pipelines);
            match change {
                Change::All(objects) => {
                    pipelines.retain(|id, _| id.signal != signal);
                    pipelines.extend(objects.into_iter().map(|object| (id(&object), object)));
                    seen.complete.insert(kind.1);
                }
                Change::Set(object) => drop(pipelines.insert(id(&object), object)),
                Change::Gone(object) => drop(pipelines.remove(&id(&object))),
            }
        });
    })
    .await;
}

/// Only the one that counts.
async fn telemetry(client: Client, namespace: String, world: Arc<World>) {
    let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace, &resource(kinds::TELEMETRY));
    let only = config().fields(&format!("metadata.name={}", names::TELEMETRY));
    let trim = |object| Arc::new(trim::resource(object));
    follow("Telemetry", watch::events(api, only), &world, trim, |change| {
        world.see(|seen| {
            seen.set_telemetry(one(change));
            seen.complete.insert("Telemetry");
        });
    })
    .await;
}

async fn overrides(client: Client, namespace: String, world: Arc<World>) {
    let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let only = config().fields(&format!("metadata.name={}", names::OVERRIDES));
    follow("ConfigMap", watch::events(api, only), &world, trim::overrides, |change| {
        world.see(|seen| {
            seen.overrides = one(change).flatten();
            seen.complete.insert("ConfigMap");
        });
    })
    .await;
}

/// Workloads of a kind, by their names.
async fn workloads<K>(client: Client, namespace: String, world: Arc<World>, trim: fn(K) -> trim::Found)
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<K> = Api::namespaced(client, &namespace);
    let kind = kinds_of(&K::kind(&()));
    let name = |object: &K| Workload::named(object.meta().name.as_deref().unwrap_or_default());
    let trim = |object: K| (name(&object), trim(object));
    follow(kind, watch::events(api, config()), &world, trim, |change| {
        world.see(|seen| match change {
            Change::All(found) => {
                let found: BTreeMap<_, _> = found.into_iter().filter_map(|(_, found)| found).collect();
                seen.workloads.retain(|workload, _| workload.kind().1 != kind || found.contains_key(workload));
                found.into_iter().for_each(|(workload, status)| seen.set_workload(workload, status));
                seen.complete.insert(kind);
            }
            Change::Set((_, Some((workload, status)))) => seen.set_workload(workload, status),
            // It is going, or somebody else's.
            Change::Set((Some(workload), None)) | Change::Gone((Some(workload), _)) if workload.kind().1 == kind => {
                seen.workloads.remove(&workload);
            }
            Change::Set(_) | Change::Gone(_) => {}
        });
    })
    .await;
}

/// The kind as it is known here.
fn kinds_of(kind: &str) -> &'static str {
    let all = [kinds::DAEMON_SET, kinds::STATEFUL_SET, kinds::DEPLOYMENT];
    all.into_iter().map(|(_, known)| known).find(|known| *known == kind).unwrap_or_default()
}

async fn pods(client: Client, namespace: String, world: Arc<World>) {
    let api: Api<Pod> = Api::namespaced(client, &namespace);
    let all = Workload::ALL.map(Workload::name).join(",");
    let only = config().labels(&format!("{} in ({all})", names::NAME_LABEL));
    follow("Pod", watch::events(api, only), &world, trim::pod, |change| {
        world.see(|seen| match change {
            Change::All(pods) => {
                seen.pods = pods.into_iter().map(|pod| (pod.name.clone(), pod)).collect();
                seen.complete.insert("Pod");
            }
            Change::Set(pod) => drop(seen.pods.insert(pod.name.clone(), pod)),
            Change::Gone(pod) => drop(seen.pods.remove(&pod.name)),
        });
    })
    .await;
}

/// Follows what was made of a kind, by its label.
async fn made(client: Client, kind: kinds::Kind, namespace: Option<String>, world: Arc<World>) {
    let resource = resource(kind);
    // Nothing but the metadata is sent.
    let api: Api<PartialObjectMeta<DynamicObject>> = match &namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let ours = config().labels(&format!("{}={}", names::MANAGED_BY, names::MANAGER));
    let key = |name: String| match &namespace {
        Some(namespace) => ObjectKey::cluster(kind, name).within(namespace.as_str()),
        None => ObjectKey::cluster(kind, name),
    };
    let trim = |object: PartialObjectMeta<DynamicObject>| {
        let mark = trim::mark(&object.metadata);
        (key(object.metadata.name.unwrap_or_default()), mark)
    };
    follow(kind.1, watch::events(api, ours), &world, trim, |change| {
        world.see(|seen| match change {
            Change::All(all) => {
                seen.made.retain(|key, _| key.kind != kind.1);
                seen.made.extend(all);
            }
            Change::Set((key, mark)) => drop(seen.made.insert(key, mark)),
            Change::Gone((key, _)) => drop(seen.made.remove(&key)),
        });
    })
    .await;
}

/// The same for what there is beside a service mesh, as soon as there is one: a watch for a kind that is not served fails.
async fn made_with_istio(client: Client, namespace: String, world: Arc<World>) {
    while !world.look(|seen| seen.apis).is_some_and(|apis| apis.istio) {
        sleep(LOOK_FOR_ISTIO_EVERY).await;
    }
    made(client, kinds::DESTINATION_RULE, Some(namespace), world).await;
}

/// What is left of a watch for one object.
pub(super) fn one<T>(change: Change<T>) -> Option<T> {
    match change {
        Change::All(objects) => objects.into_iter().next(),
        Change::Set(object) => Some(object),
        Change::Gone(_) => None,
    }
}

/// Looks again and again which APIs there are.
async fn apis(client: Client, world: Arc<World>) {
    let mut ticks = interval(DISCOVER_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut fails = false;
    loop {
        ticks.tick().await;
        match discover(&client).await {
            Ok(found) => {
                fails = false;
                let before = world.look(|seen| seen.apis);
                if before != Some(found) {
                    tracing::info!(
                        istio = found.istio,
                        vertical_pod_autoscaler = found.vertical_pod_autoscaler,
                        "APIs of the cluster"
                    );
                    world.see(|seen| seen.apis = Some(found));
                }
            }
            Err(error) => {
                if !mem::replace(&mut fails, true) {
                    tracing::warn!(
                        %error,
                        advice = "look whether the API server answers, and at the rights of this ServiceAccount",
                        "cannot find out which APIs there are; trying on"
                    );
                }
                ticks.reset_after(RETRY.1);
            }
        }
    }
}

async fn discover(client: &Client) -> Result<Apis, RequestError> {
    let groups = request(client.list_api_groups()).await?.groups;
    let has = |group: &str| groups.iter().any(|found| found.name == group);
    Ok(Apis { istio: has("networking.istio.io"), vertical_pod_autoscaler: has("autoscaling.k8s.io") })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::{StreamExt as _, stream};
    use tokio::time::timeout;

    use super::*;

    /// The next failure is told then.
    #[tokio::test(start_paused = true)]
    async fn a_watch_fails_no_more_although_nothing_changes() {
        let world = World::default();
        let errors = [(); 2].map(|()| Err::<Event<()>, _>(watcher::Error::NoResourceVersion));
        let events = stream::iter(errors).chain(stream::pending());
        let mut watch = pin!(follow("Pod", events, &world, |()| (), |_| {}));
        for (seconds, failing) in [(10, 1), (60, 0)] {
            timeout(Duration::from_secs(seconds), &mut watch).await.unwrap_err();
            assert_eq!(world.look(|seen| seen.failing.get("Pod").copied()), Some(failing));
        }
    }
}
