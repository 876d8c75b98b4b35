//! Runtime metrics in an engine, of a kubelet over TLS and of objects of a cluster, at real backends.

#![expect(clippy::unwrap_used, reason = "what fails here is to fail the test")]

mod kubelet;
mod speaking;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use kubelet::{Kubelet, Mood};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use prost::Message;
use tempfile::TempDir;
use weir_engine::settings::{self, Admin};
use weir_engine::{Engine, Settings};
use weir_enrich::PodList;
use weir_plan::{
    Body, Cluster, ClusterFacts, ClusterObject, ClusterState, CollectionIntervals, Compression, Condition, Endpoint,
    ObjectState, Output, Pipeline, Plan, Pod, Protocol, ReplicaState, ResourceStatus, RuntimeInput, RuntimeMetrics,
    Selector, Signal,
};
use weir_sources::runtime::{self, RuntimeAgent};
use weir_sources::scrape::TargetBoard;
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

/// Also how long a kubelet has to answer, over TLS.
const SHORT: Duration = Duration::from_millis(200);

/// An engine whose pipelines want these metrics, each from these namespaces.
struct Agent {
    engine: Engine,
    agent: Option<RuntimeAgent>,
    board: TargetBoard,
    backends: Vec<Backend>,
    plan: Plan,
    /// The file with the token, and another one with certificates.
    files: TempDir,
}

type Wish<'a> = (&'a [&'a str], Selector);

impl Agent {
    async fn start(wishes: &[Wish<'_>]) -> Self {
        let mut backends = Vec::new();
        for _ in wishes {
            backends.push(Backend::start().await);
        }
        Self::with(backends, wishes, settings::MEMORY).await
    }

    /// With a backend for each wish.
    async fn with(backends: Vec<Backend>, wishes: &[Wish<'_>], memory: usize) -> Self {
        let mut plan = Plan::default();
        for (index, ((metrics, namespaces), backend)) in wishes.iter().zip(&backends).enumerate() {
            plan.pipelines.push(pipeline(&format!("p{index}"), backend, metrics, namespaces.clone()));
        }
        plan.intervals = CollectionIntervals { runtime: SHORT, ..CollectionIntervals::default() };
        let admin = Admin { port: None, ..Admin::default() };
        let settings = Settings {
            grpc_port: None,
            http_port: None,
            metrics_port: None,
            health_port: None,
            memory,
            admin,
            ..Settings::default()
        };
        let engine = Engine::start(&plan, Arc::new(PodList::new(facts())), settings).await.unwrap();
        Self { engine, agent: None, board: TargetBoard::default(), backends, plan, files: TempDir::new().unwrap() }
    }

    /// Begins with a kubelet that is sent the token of a file.
    fn ask(&mut self, kubelet: &Kubelet, token: &str, ca: Option<&str>) {
        self.token(token);
        let file = self.files.path().join("ca");
        let ca = ca.map(|pem| {
            fs::write(&file, pem).unwrap();
            file
        });
        let token = Some(self.files.path().join("token"));
        let kubelet = runtime::Kubelet { url: kubelet.url.parse().unwrap(), token, ca };
        let settings = runtime::Settings { kubelet: Some(kubelet), of_cluster: None };
        self.run(settings, ClusterState::default());
    }

    fn run(&mut self, settings: runtime::Settings, state: ClusterState) {
        let (wanted, board) = ((&self.plan, Arc::new(state)), self.board.clone());
        self.agent = Some(RuntimeAgent::start(settings, wanted, &self.engine.inlet(), board));
    }

    /// Goes on with another state, and with what the plan says by now.
    fn reload(&self, state: ClusterState) {
        self.agent.as_ref().unwrap().reload(&self.plan, Arc::new(state));
    }

    /// What the file with the token says from now on.
    fn token(&self, token: &str) {
        fs::write(self.files.path().join("token"), format!("{token}\n")).unwrap();
    }

    /// What arrived at a backend.
    fn arrived(&self, backend: usize) -> Vec<String> {
        arrived_at(&self.backends[backend])
    }

    async fn arrives(&self, backend: usize, wanted: &str) {
        eventually(wanted, async || self.arrived(backend).iter().any(|line| line.contains(wanted))).await;
    }
}

fn pipeline(name: &str, backend: &Backend, metrics: &[&str], namespaces: Selector) -> Pipeline {
    let (host, port) = (backend.address.ip().to_string(), backend.address.port());
    let output = Output {
        body: Body::Otlp,
        protocol: Protocol::Grpc,
        endpoint: Endpoint { host, port, path: String::new() },
        compression: Compression::None,
        headers: Vec::new(),
        oauth2: None,
        tls: None,
    };
    let mut pipeline = Pipeline::new(Signal::Metrics, name, output);
    pipeline.input.otlp = None;
    let metrics: RuntimeMetrics = metrics.iter().copied().collect();
    pipeline.input.runtime = (!metrics.is_empty()).then_some(RuntimeInput { namespaces, metrics });
    pipeline
}

/// One pod is known.
fn facts() -> ClusterFacts {
    let pod = Pod { name: "cart-0".into(), namespace: "shop".into(), uid: "uid-1".into(), ..Pod::default() };
    let pod = Pod { node: Some("node-1".into()), ..pod };
    ClusterFacts {
        cluster: Cluster { uid: Some("c-1".into()), cloud_provider: None },
        pods: vec![Arc::new(pod)],
        ..ClusterFacts::default()
    }
}

/// What arrived, as `SCOPE{attributes} NAME`.
fn arrived_at(backend: &Backend) -> Vec<String> {
    backend.captured().iter().flat_map(|captured| names(&captured.plain)).collect()
}

fn names(request: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    for resource in ExportMetricsServiceRequest::decode(request).unwrap().resource_metrics {
        let mut pairs: Vec<_> = resource.resource.unwrap().attributes.iter().map(pair).collect();
        pairs.sort();
        for scope in resource.scope_metrics {
            let from = scope.scope.unwrap().name.replace("io.kyma-project.telemetry/", "");
            all.extend(scope.metrics.iter().map(|metric| format!("{from}{{{}}} {}", pairs.join(","), metric.name)));
        }
    }
    all
}

fn pair(pair: &KeyValue) -> String {
    match pair.value.as_ref().unwrap().value.as_ref().unwrap() {
        any_value::Value::StringValue(text) => format!("{}={text}", pair.key),
        other => panic!("{other:?}"),
    }
}

const POD: &str = "runtime{k8s.cluster.uid=c-1,k8s.namespace.name=shop,k8s.node.name=node-1,k8s.pod.name=cart-0,k8s.pod.uid=uid-1,service.name=cart-0,service.namespace=shop}";
const NODE: &str = "runtime{k8s.cluster.uid=c-1,k8s.node.name=node-1}";

/// Each gets its own metrics only, and only of its own namespaces.
#[tokio::test]
async fn two_pipelines_get_what_each_of_them_wants() {
    let kubelet = Kubelet::start("secret").await;
    let one: Wish<'_> = (&["k8s.pod.network.io", "k8s.node.cpu.usage"], Selector::without_system());
    let other: Wish<'_> = (&["k8s.pod.network.io", "k8s.container.memory_limit_utilization"], Selector::All);
    let mut agent = Agent::start(&[one, other]).await;
    agent.ask(&kubelet, "secret", None);
    agent.arrives(0, &format!("{POD} k8s.pod.network.io")).await;
    agent.arrives(0, &format!("{NODE} k8s.node.cpu.usage")).await;
    agent.arrives(1, "k8s.pod.name=dns-0").await;
    agent.arrives(1, "k8s.container.memory_limit_utilization").await;
    let [first, second] = [0, 1].map(|backend| agent.arrived(backend));
    assert!(first.iter().all(|line| !line.contains("dns-0") && !line.contains("utilization")), "{first:#?}");
    assert!(second.iter().all(|line| !line.contains("k8s.node.cpu.usage")), "{second:#?}");
    agent.agent.take().unwrap().stop().await;
}

#[tokio::test]
async fn a_token_that_is_replaced_is_taken_up() {
    let kubelet = Kubelet::start("first").await;
    let mut agent = Agent::start(&[(&["k8s.node.cpu.usage"], Selector::All)]).await;
    agent.ask(&kubelet, "wrong", None);
    eventually("the kubelet refuses it", async || kubelet.answers(401) > 1).await;
    assert!(agent.arrived(0).is_empty());
    let is_told = || agent.board.kubelet_error().is_some_and(|error| error.contains("401 Unauthorized"));
    eventually("it is told", async || is_told()).await;
    agent.token("first");
    agent.arrives(0, "k8s.node.cpu.usage").await;
    eventually("nothing is wrong any more", async || agent.board.kubelet_error().is_none()).await;
    kubelet.state.lock().unwrap().token = "second".to_owned();
    agent.token("second");
    let before = kubelet.answers(200);
    eventually("the new token is sent", async || kubelet.answers(200) > before + 2).await;
}

/// Nobody else is told the token.
#[tokio::test]
async fn with_authorities_only_the_kubelet_is_asked() {
    let (kubelet, other) = (Kubelet::start("secret").await, Kubelet::start("secret").await);
    let mut agent = Agent::start(&[(&["k8s.node.cpu.usage"], Selector::All)]).await;
    agent.ask(&kubelet, "secret", Some(&other.ca));
    eventually("it is not trusted", async || kubelet.state.lock().unwrap().distrusted > 1).await;
    assert!(agent.arrived(0).is_empty() && kubelet.state.lock().unwrap().answered.is_empty());
    fs::write(agent.files.path().join("ca"), &kubelet.ca).unwrap();
    agent.arrives(0, "k8s.node.cpu.usage").await;
}

/// Whoever listens on the way would learn it.
#[tokio::test]
async fn without_tls_nobody_is_told_the_token() {
    let kubelet = Kubelet::plain("secret").await;
    let mut agent = Agent::start(&[(&["k8s.node.cpu.usage"], Selector::All)]).await;
    agent.ask(&kubelet, "secret", None);
    eventually("it is asked without one", async || kubelet.answers(401) + kubelet.answers(200) > 1).await;
    assert_eq!(kubelet.answers(200), 0);
}

#[tokio::test]
async fn a_kubelet_that_is_ill_is_asked_again() {
    let kubelet = Kubelet::start("secret").await;
    let mut agent = Agent::start(&[(&["k8s.node.cpu.usage"], Selector::All)]).await;
    kubelet.is(Mood::Hangs);
    agent.ask(&kubelet, "secret", None);
    let board = agent.board.clone();
    let says = async |words: &str| {
        eventually(words, async || board.kubelet_error().is_some_and(|error| error.contains(words))).await;
    };
    says("no whole page /stats/summary within").await;
    eventually("it is given up, and asked again", async || kubelet.answers(0) > 1).await;
    kubelet.is(Mood::Forbids);
    says("403 Forbidden").await;
    eventually("it is asked again", async || kubelet.answers(403) > 1).await;
    kubelet.is(Mood::Raves);
    says("is not what a kubelet writes").await;
    eventually("and again", async || kubelet.answers(200) > 3).await;
    assert!(agent.arrived(0).is_empty());
    kubelet.is(Mood::Well);
    agent.arrives(0, "k8s.node.cpu.usage").await;
}

fn deployment(name: &str) -> ClusterObject {
    let state = ObjectState::Deployment(ReplicaState { desired: Some(2), available: 1 });
    ClusterObject { name: name.into(), namespace: "shop".into(), uid: "uid-of-it".into(), state }
}

fn status() -> ResourceStatus {
    let condition = Condition { kind: "AgentHealthy".into(), status: "True".into(), reason: "AgentReady".into() };
    ResourceStatus {
        group: "telemetry.kyma-project.io".into(),
        version: "v1beta1".into(),
        resource: "metricpipelines".into(),
        name: "backend".into(),
        conditions: vec![condition],
        ..ResourceStatus::default()
    }
}

/// The status of resources goes to every pipeline, also to one without any input.
#[tokio::test]
async fn objects_of_the_cluster_and_the_status_of_resources_are_told() {
    let desired: Wish<'_> = (&["k8s.deployment.desired"], Selector::All);
    let mut agent = Agent::start(&[desired, (&[], Selector::All)]).await;
    let state = ClusterState { objects: vec![deployment("cart")], statuses: vec![status()] };
    agent.run(runtime::Settings { kubelet: None, of_cluster: Some(runtime::Speaks::when(|| true)) }, state);
    let of = |name: &str| {
        format!(
            "runtime{{k8s.cluster.uid=c-1,k8s.deployment.name={name},k8s.deployment.uid=uid-of-it,k8s.namespace.name=shop}} \
             k8s.deployment.desired"
        )
    };
    agent.arrives(0, &of("cart")).await;
    for backend in [0, 1] {
        agent.arrives(backend, "kyma{k8s.cluster.uid=c-1,k8s.resource.group=telemetry.kyma-project.io").await;
    }
    assert!(agent.arrived(1).iter().all(|line| line.ends_with("kyma.resource.status.conditions")));

    let state = ClusterState { objects: vec![deployment("orders")], statuses: Vec::new() };
    agent.reload(state);
    agent.arrives(0, &of("orders")).await;
}

#[tokio::test]
async fn losses_are_counted_before_the_first_one() {
    let mut agent = Agent::start(&[(&["k8s.deployment.desired"], Selector::All)]).await;
    agent.run(runtime::Settings { kubelet: None, of_cluster: None }, ClusterState::default());
    let lost = agent.engine.view().snapshot().unwrap().sources.runtime_lost;
    assert_eq!(lost, BTreeMap::from([("no_memory", 0), ("no_room", 0), ("too_large", 0)]));
}

/// The backend takes nothing, and there is no data directory: when the pipeline is full, each data point that is lost is
/// counted with the reason.
#[tokio::test]
async fn what_no_pipeline_takes_is_counted_with_the_reason() {
    let desired: Wish<'_> = (&["k8s.deployment.desired"], Selector::All);
    let mut agent = Agent::with(vec![Backend::holding().await], &[desired], 32 << 20).await;
    let objects = (0..2_000).map(|number| deployment(&format!("cart-{number}"))).collect();
    agent.run(
        runtime::Settings { kubelet: None, of_cluster: Some(runtime::Speaks::when(|| true)) },
        ClusterState { objects, statuses: Vec::new() },
    );
    let lost = || agent.engine.view().snapshot().unwrap().sources.runtime_lost;
    eventually("the pipeline is full", async || lost().values().sum::<u64>() >= 2_000).await;
    let is_expected = |reason| ["no_room", "no_memory"].contains(&reason);
    assert!(lost().iter().all(|(reason, points)| *points == 0 || is_expected(*reason)), "{:?}", lost());
    agent.backends[0].answer();
    agent.arrives(0, "k8s.deployment.desired").await;
}
