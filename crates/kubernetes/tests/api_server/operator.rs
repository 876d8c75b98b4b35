//! The operator against an API server: what it makes, changes back, takes over and removes, and what statuses say.
//!
//! There are no controllers: nobody makes pods of the DaemonSet, and nobody collects what has no owner.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weir_kubernetes::operator::{Options, Ports, Scale, run};
use weir_kubernetes::webhook;
use weir_resources::schema::custom_resource_definitions;

use crate::{Cluster, collection, eventually, path, pipeline};

pub(crate) const NAMESPACE: &str = "/api/v1/namespaces/kyma-system";
pub(crate) const APPS: &str = "/apis/apps/v1/namespaces/kyma-system";
pub(crate) const DAEMON_SET: &str = "/apis/apps/v1/namespaces/kyma-system/daemonsets/telemetry-otlp-gateway";
pub(crate) const CONFIGURATION: &str = "/api/v1/namespaces/kyma-system/secrets/telemetry-node";
pub(crate) const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kyma-system/leases/cdd7ef0b.kyma-project.io";
const TELEMETRY: &str = "/apis/operator.kyma-project.io/v1beta1/namespaces/kyma-system/telemetries/default";

/// A running operator.
pub(crate) struct Operator {
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Operator {
    pub(crate) fn start(client: Client, name: &'static str) -> Self {
        Self::start_with(client, name, options())
    }

    pub(crate) fn start_with(client: Client, name: &'static str, options: Options) -> Self {
        let (stop, stopped) = oneshot::channel();
        let ports = Ports::default();
        let task = tokio::spawn(async move {
            let stop = async { drop(stopped.await) };
            run(client, options, ports, name, Box::new(|_| {}), stop).await
        });
        Self { stop, task }
    }

    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.task.await.unwrap().unwrap();
    }
}

pub(crate) fn options() -> Options {
    Options {
        namespace: "kyma-system".to_owned(),
        image: "weir:1".to_owned(),
        image_pull_secrets: Vec::new(),
        trust_bundle: None,
        admin_tokens: None,
        max_pipelines: None,
        high_priority_class: "telemetry-priority-class-high".to_owned(),
        data_path: "/var/lib/telemetry-weir".to_owned(),
        resources: json!({ "limits": { "memory": "1Gi" } }),
        tolerations: json!([{ "operator": "Exists" }]),
        node_selector: BTreeMap::new(),
        node_args: Vec::new(),
        nodes_proxy: false,
        workload_labels: BTreeMap::new(),
        workload_annotations: BTreeMap::new(),
        pod_labels: BTreeMap::new(),
        pod_annotations: BTreeMap::new(),
        scale: Scale::default(),
        pending: None,
    }
}

pub(crate) async fn set_up(cluster: &Cluster) {
    for name in ["kyma-system", "shop"] {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        cluster.send(Method::POST, "/api/v1/namespaces", Some(&namespace)).await.ok();
    }
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for definition in custom_resource_definitions(&webhook::Options::in_namespace("kyma-system").conversion()) {
        cluster.send(Method::POST, definitions, Some(&definition)).await.ok();
    }
    for name in ["tracepipelines", "metricpipelines", "logpipelines"] {
        let path = format!("/apis/telemetry.kyma-project.io/v1beta1/{name}");
        eventually("the kind is served", || async { (cluster.get(&path).await.code == 200).then_some(()) }).await;
    }
}

pub(crate) fn trace(name: &str, endpoint: Value) -> Value {
    pipeline("TracePipeline", "v1beta1", name, &json!({ "output": { "otlp": { "endpoint": endpoint } } }))
}

pub(crate) fn of_secret() -> Value {
    json!({ "valueFrom": { "secretKeyRef": { "name": "backend", "namespace": "shop", "key": "endpoint" } } })
}

pub(crate) fn secret(endpoint: &str) -> Value {
    let data = json!({ "endpoint": BASE64_STANDARD.encode(endpoint), "other": BASE64_STANDARD.encode("unseen") });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "backend", "namespace": "shop" }, "data": data })
}

pub(crate) async fn found(cluster: &Cluster, path: &str) -> Option<Value> {
    let answer = cluster.get(path).await;
    (answer.code == 200).then_some(answer.body)
}

pub(crate) async fn is_gone(cluster: &Cluster, path: &str) {
    eventually(&format!("{path} is removed"), || async { (cluster.get(path).await.code == 404).then_some(()) }).await;
}

/// Deletes what the operator has made, and waits until it has made it again.
pub(crate) async fn comes_back(cluster: &Cluster, path: &str) {
    let before = eventually(&format!("there is {path}"), || found(cluster, path)).await;
    cluster.send(Method::DELETE, path, None).await.ok();
    eventually(&format!("{path} is made again"), || async {
        found(cluster, path).await.filter(|now| now["metadata"]["uid"] != before["metadata"]["uid"])
    })
    .await;
}

/// The reason of a condition, once it is this one.
pub(crate) async fn has_reason(cluster: &Cluster, path: &str, kind: &str, reason: &str) -> Value {
    eventually(&format!("{path} says {reason}"), || async {
        let object = found(cluster, path).await?;
        let conditions = object["status"]["conditions"].as_array()?.clone();
        let is_it = |condition: &Value| condition["type"] == kind && condition["reason"] == reason;
        conditions.into_iter().find(is_it)
    })
    .await
}

pub(crate) async fn revision(cluster: &Cluster) -> Option<String> {
    let secret = found(cluster, CONFIGURATION).await?;
    Some(secret["metadata"]["annotations"]["weir.dev/revision"].as_str()?.to_owned())
}

/// What an installation of the Kyma Telemetry module leaves, as its manager writes it.
async fn older_installation(cluster: &Cluster) {
    let template = |name: &str, env: Value| {
        json!({
            "metadata": { "labels": { "app.kubernetes.io/name": name }, "annotations": { "checksum/config": "ab" } },
            "spec": { "containers": [{ "name": "collector", "image": "old", "args": ["--config=/conf/relay.conf"], "env": env }] },
        })
    };
    let workload = |kind: &str, name: &str| {
        let env = json!([{ "name": "GODEBUG", "value": "fips140=off" }]);
        let labels = json!({ "app.kubernetes.io/name": name });
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name },
            "spec": { "selector": { "matchLabels": labels }, "template": template(name, env) },
        })
    };
    let left = [
        (format!("{APPS}/daemonsets"), workload("DaemonSet", "telemetry-otlp-gateway")),
        (format!("{APPS}/daemonsets"), workload("DaemonSet", "telemetry-log-agent")),
        (format!("{APPS}/deployments"), workload("Deployment", "telemetry-self-monitor")),
        (
            format!("{NAMESPACE}/configmaps"),
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "telemetry-tracepipeline-lock" } }),
        ),
    ];
    for (path, object) in left {
        cluster.send(Method::POST, &format!("{path}?fieldManager=manager"), Some(&object)).await.ok();
    }
    // Of somebody else.
    let other = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "telemetry-of-others" } });
    cluster.send(Method::POST, &format!("{NAMESPACE}/configmaps"), Some(&other)).await.ok();
}

pub(crate) async fn pipelines_become_what_nodes_run(cluster: &Cluster) {
    older_installation(cluster).await;
    let operator = Operator::start(cluster.client.clone(), "first");
    let telemetry = json!({
        "apiVersion": "operator.kyma-project.io/v1beta1", "kind": "Telemetry",
        "metadata": { "name": "default", "namespace": "kyma-system" },
    });
    cluster.create(&telemetry).await.ok();
    let shop = trace("shop", of_secret());
    cluster.create(&shop).await.ok();
    cluster.create(&trace("good", json!({ "value": "http://backend:4317" }))).await.ok();
    has_reason(cluster, &path(&shop), "ConfigurationGenerated", "ReferencedSecretMissing").await;
    has_reason(cluster, TELEMETRY, "TraceComponentsHealthy", "ReferencedSecretMissing").await;
    let first = eventually("nodes have a configuration", || revision(cluster)).await;

    secrets_are_followed(cluster, &shop, &first).await;
    what_only_the_compiler_refuses_spoils_no_neighbour(cluster).await;
    what_is_left_is_taken_over_or_removed(cluster).await;
    what_is_changed_is_changed_back(cluster).await;
    statuses_and_events_tell_the_story(cluster, &shop).await;
    what_nodes_say_is_in_the_status(cluster, &shop).await;
    another_takes_over(cluster, operator).await;
}

async fn secrets_are_followed(cluster: &Cluster, shop: &Value, first: &str) {
    cluster.send(Method::POST, "/api/v1/namespaces/shop/secrets", Some(&secret("http://one:4317"))).await.ok();
    let second =
        eventually("the Secret is there", || async { revision(cluster).await.filter(|revision| revision != first) })
            .await;
    has_reason(cluster, &path(shop), "ConfigurationGenerated", "GatewayConfigured").await;
    cluster.send(Method::PATCH, "/api/v1/namespaces/shop/secrets/backend", Some(&secret("http://two:4317"))).await.ok();
    eventually("the Secret is rotated", || async { revision(cluster).await.filter(|revision| *revision != second) })
        .await;
    let configuration = found(cluster, CONFIGURATION).await.unwrap();
    assert_eq!(configuration["metadata"]["labels"]["app.kubernetes.io/managed-by"], "telemetry-manager");
    assert_eq!(configuration["metadata"]["ownerReferences"][0]["kind"], "Telemetry");
    // Its statuses, which the operator wrote since, are not what changed it.
    let object = found(cluster, &path(shop)).await.unwrap();
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let writer = entries.iter().find(|entry| entry["fieldsV1"]["f:spec"].is_object()).unwrap();
    let mut expected = json!({ "manager": writer["manager"], "operation": "Update", "time": writer["time"] });
    let rotated = found(cluster, "/api/v1/namespaces/shop/secrets/backend").await.unwrap();
    expected["secrets"] = json!({ "shop/backend": rotated["metadata"]["resourceVersion"] });
    let changed_by = unpacked(&configuration, "changed-by.json.gz");
    assert_eq!(changed_by["traces/shop"], expected, "{object}");
}

/// What nodes are told under a key of their Secret.
fn unpacked(secret: &Value, key: &str) -> Value {
    let packed = BASE64_STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap();
    serde_json::from_reader(GzDecoder::new(&*packed)).unwrap()
}

/// The definitions take these, and no webhook is asked here.
async fn what_only_the_compiler_refuses_spoils_no_neighbour(cluster: &Cluster) {
    let output = json!({ "otlp": { "endpoint": { "value": "http://backend:4317" } } });
    let rules = json!([{ "statements": ["set(span.name, Nonsense())"] }]);
    let runtime = json!({ "enabled": true, "additionalMetrics": ["k8s.pod.uptimes"] });
    let wrong = [
        ("TracePipeline", "bad-rule", json!({ "transform": rules, "output": output }), "OTTLSpecInvalid"),
        (
            "MetricPipeline",
            "bad-metric",
            json!({ "input": { "runtime": runtime }, "output": output }),
            "RuntimeAdditionalMetricInvalid",
        ),
    ];
    let wrong = wrong.map(|(kind, name, spec, reason)| (pipeline(kind, "v1beta1", name, &spec), reason));
    for (object, reason) in &wrong {
        cluster.create(object).await.ok();
        let condition = has_reason(cluster, &path(object), "ConfigurationGenerated", reason).await;
        assert_eq!(condition["status"], "False", "{condition}");
        eventually(&format!("an event tells of {reason}"), || async {
            let events = found(cluster, "/apis/events.k8s.io/v1/namespaces/default/events").await?;
            let tells = |event: &Value| {
                let about = &event["regarding"];
                (&about["kind"], &about["name"]) == (&object["kind"], &object["metadata"]["name"])
                    && (&event["reason"], &event["type"]) == (&json!(reason), &json!("Warning"))
                    && event["action"] == "ConfigurationGenerated"
            };
            events["items"].as_array()?.iter().any(tells).then_some(())
        })
        .await;
    }
    let moved = trace("good", json!({ "value": "http://moved:4317" }));
    cluster.send(Method::PATCH, &path(&moved), Some(&moved)).await.ok();
    let told = eventually("nodes have what was changed in the neighbour", || async {
        let told = unpacked(&found(cluster, CONFIGURATION).await?, "configuration.json.gz").to_string();
        told.contains("http://moved:4317").then_some(told)
    })
    .await;
    assert!(!told.contains("bad-rule") && !told.contains("bad-metric"), "{told}");
    has_reason(cluster, &path(&moved), "ConfigurationGenerated", "GatewayConfigured").await;
    for (object, _) in &wrong {
        cluster.send(Method::DELETE, &path(object), None).await.ok();
        is_gone(cluster, &path(object)).await;
    }
}

async fn what_is_left_is_taken_over_or_removed(cluster: &Cluster) {
    for gone in ["daemonsets/telemetry-log-agent", "deployments/telemetry-self-monitor"] {
        is_gone(cluster, &format!("{APPS}/{gone}")).await;
    }
    is_gone(cluster, &format!("{NAMESPACE}/configmaps/telemetry-tracepipeline-lock")).await;
    assert!(found(cluster, &format!("{NAMESPACE}/configmaps/telemetry-of-others")).await.is_some());
    let daemon_set = found(cluster, DAEMON_SET).await.unwrap();
    let template = &daemon_set["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    assert_eq!(template["spec"]["containers"].as_array().unwrap().len(), 1);
    assert_eq!((&container["image"], &container["args"][0]), (&json!("weir:1"), &json!("node")));
    assert!(!daemon_set.to_string().contains("GODEBUG\",\"value"), "nothing of the old one is left");
    assert!(template["metadata"]["annotations"].get("checksum/config").is_none());
}

async fn what_is_changed_is_changed_back(cluster: &Cluster) {
    let service = format!("{NAMESPACE}/services/telemetry-otlp");
    let before = found(cluster, &service).await.unwrap();
    // Without the class, no pod of the nodes could be made.
    let class = "/apis/scheduling.k8s.io/v1/priorityclasses/telemetry-priority-class-high";
    comes_back(cluster, &service).await;
    comes_back(cluster, class).await;
    let wrong =
        json!({ "spec": { "internalTrafficPolicy": "Cluster", "selector": { "app.kubernetes.io/name": "other" } } });
    cluster.send(Method::PATCH, &service, Some(&wrong)).await.ok();
    eventually("the Service is what it was", || async {
        let now = found(cluster, &service).await?;
        let is_right =
            now["spec"]["internalTrafficPolicy"] == "Local" && now["spec"]["selector"] == before["spec"]["selector"];
        is_right.then_some(())
    })
    .await;
    let wrong = json!({ "spec": { "template": { "spec": { "hostNetwork": true } } } });
    cluster.send(Method::PATCH, DAEMON_SET, Some(&wrong)).await.ok();
    // Nobody but the one who set it owns the field, so it is still there when what we own is ours again.
    let wrong = json!({ "spec": { "template": { "spec": { "priorityClassName": "other" } } } });
    cluster.send(Method::PATCH, DAEMON_SET, Some(&wrong)).await.ok();
    eventually("the DaemonSet is what it was", || async {
        let now = found(cluster, DAEMON_SET).await?;
        let pods = &now["spec"]["template"]["spec"];
        (pods["priorityClassName"] == "telemetry-priority-class-high" && pods["hostNetwork"] == true).then_some(())
    })
    .await;
}

async fn statuses_and_events_tell_the_story(cluster: &Cluster, shop: &Value) {
    has_reason(cluster, &path(shop), "GatewayHealthy", "RolloutInProgress").await;
    let generation = found(cluster, DAEMON_SET).await.unwrap()["metadata"]["generation"].clone();
    let status = json!({ "status": {
        "observedGeneration": generation, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
        "updatedNumberScheduled": 1, "numberReady": 1, "numberMisscheduled": 0,
    } });
    cluster.send(Method::PATCH, &format!("{DAEMON_SET}/status"), Some(&status)).await.ok();
    let condition = has_reason(cluster, &path(shop), "GatewayHealthy", "GatewayReady").await;
    assert_eq!(condition["observedGeneration"], 1);
    has_reason(cluster, &path(shop), "TelemetryFlowHealthy", "GatewayProbingFailed").await;
    let told = eventually("events are told", || async {
        let events = found(cluster, "/apis/events.k8s.io/v1/namespaces/default/events").await?;
        let reasons: Vec<_> = events["items"]
            .as_array()?
            .iter()
            .map(|event| event["reason"].as_str().unwrap_or_default().to_owned())
            .collect();
        let wanted = ["ReferencedSecretMissing", "GatewayConfigured", "GatewayReady"];
        wanted.iter().all(|reason| reasons.iter().any(|told| told == reason)).then_some(events)
    })
    .await;
    let event = &told["items"][0];
    assert_eq!(event["reportingController"], "telemetry-manager");
    assert_eq!(event["regarding"]["apiVersion"], "telemetry.kyma-project.io/v1beta1");
    let telemetry = found(cluster, TELEMETRY).await.unwrap();
    assert_eq!(telemetry["status"]["endpoints"]["otlp"]["grpc"], "http://telemetry-otlp.kyma-system:4317");
    assert_eq!(telemetry["metadata"]["finalizers"], json!(["telemetry.kyma-project.io/finalizer"]));
}

async fn another_takes_over(cluster: &Cluster, first: Operator) {
    let second = Operator::start(cluster.client.clone(), "second");
    let holder = || async {
        let lease = found(cluster, LEASE).await?;
        Some(lease["spec"]["holderIdentity"].as_str()?.to_owned())
    };
    assert!(holder().await.unwrap().starts_with("first_"));
    let written = async |path: &str| found(cluster, path).await.unwrap()["metadata"]["resourceVersion"].clone();
    let paths = [CONFIGURATION.to_owned(), DAEMON_SET.to_owned(), format!("{NAMESPACE}/services/telemetry-otlp")];
    let mut before = Vec::new();
    for path in &paths {
        before.push(written(path).await);
    }
    first.stop().await;
    eventually("the second leads", || async { holder().await.filter(|holder| holder.starts_with("second_")) }).await;
    // It works, and has written nothing that was right.
    let late = trace("late", json!({ "value": "http://late:4317" }));
    cluster.create(&late).await.ok();
    has_reason(cluster, &path(&late), "ConfigurationGenerated", "GatewayConfigured").await;
    for (path, before) in paths.iter().zip(before).skip(1) {
        assert_eq!(written(path).await, before, "{path}");
    }
    everything_goes_with_the_last_pipeline(cluster).await;
    second.stop().await;
    assert_eq!(holder().await.as_deref(), Some(""), "given back");
}

async fn everything_goes_with_the_last_pipeline(cluster: &Cluster) {
    cluster.send(Method::DELETE, TELEMETRY, None).await.ok();
    has_reason(cluster, TELEMETRY, "TraceComponentsHealthy", "ResourceBlocksDeletion").await;
    let all = collection(&trace("any", json!({})));
    cluster.send(Method::DELETE, &all, None).await.ok();
    is_gone(cluster, TELEMETRY).await;
    for gone in [DAEMON_SET, CONFIGURATION, &format!("{NAMESPACE}/services/telemetry-otlp")] {
        is_gone(cluster, gone).await;
    }
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/telemetry-otlp-gateway";
    is_gone(cluster, role).await;
    let class = "/apis/scheduling.k8s.io/v1/priorityclasses/telemetry-priority-class-high";
    assert!(found(cluster, class).await.is_some());
}

/// A node that says what it is told to say, at an address of its own.
struct Node {
    says: Arc<Mutex<Value>>,
    task: JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Node {
    async fn start(cluster: &Cluster, name: &str) -> Self {
        let [a, b, c] = [(); 3].map(|()| fastrand::u8(1..255));
        let ip = format!("127.{a}.{b}.{c}");
        let listener = TcpListener::bind((ip.as_str(), 8888)).await.unwrap();
        let says: Arc<Mutex<Value>> = Arc::default();
        let told = Arc::clone(&says);
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let body = told.lock().unwrap().to_string();
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                // The question is read as far as it has arrived: whoever asks waits for the answer.
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let pods = format!("{NAMESPACE}/pods");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "labels": { "app.kubernetes.io/name": "telemetry-otlp-gateway" } },
            "spec": { "nodeName": name, "containers": [{ "name": "collector", "image": "weir:1" }] },
        });
        cluster.send(Method::POST, &pods, Some(&pod)).await.ok();
        let status = json!({ "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }] } });
        cluster.send(Method::PATCH, &format!("{pods}/{name}/status"), Some(&status)).await.ok();
        Self { says, task }
    }

    /// From now on it says this of the pipeline `shop`.
    fn says(&self, trouble: Value) {
        let verdict = json!({ "roles": { "gateway": true, "agent": false }, "delivers": true, "trouble": trouble });
        let shop = json!({ "pipeline": "traces/shop", "delivered": 7, "verdict": verdict });
        *self.says.lock().unwrap() = json!({ "revision": null, "error": null, "pipelines": [shop] });
    }
}

async fn what_nodes_say_is_in_the_status(cluster: &Cluster, shop: &Value) {
    let nodes = [Node::start(cluster, "a").await, Node::start(cluster, "b").await];
    nodes.iter().for_each(|node| node.says(Value::Null));
    has_reason(cluster, &path(shop), "TelemetryFlowHealthy", "FlowHealthy").await;
    let trouble = json!({
        "state": "some_dropped", "since": 1_790_000_000, "amounts": { "delivered": 700, "rejected": 300 },
        "kept": { "items": 5, "bytes": 5000, "room_bytes": 1024 }, "words": "400: no",
    });
    nodes[0].says(trouble.clone());
    let condition = has_reason(cluster, &path(shop), "TelemetryFlowHealthy", "GatewaySomeTelemetryDataDropped").await;
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("At least 200 spans were refused for good") && message.contains(" On Pod a."),
        "{message}"
    );
    has_reason(cluster, TELEMETRY, "TraceComponentsHealthy", "GatewaySomeTelemetryDataDropped").await;
    assert_eq!(found(cluster, TELEMETRY).await.unwrap()["status"]["state"], "Warning");
    let mut throttled = trouble;
    throttled["state"] = "throttling".into();
    nodes[0].says(throttled);
    has_reason(cluster, &path(shop), "TelemetryFlowHealthy", "GatewayThrottling").await;
    nodes[0].says(Value::Null);
    has_reason(cluster, &path(shop), "TelemetryFlowHealthy", "FlowHealthy").await;
    eventually("each change is an event", || async {
        let events = found(cluster, "/apis/events.k8s.io/v1/namespaces/default/events").await?;
        let all = events["items"].as_array()?.clone();
        let told = |reason: &str| all.iter().any(|it| it["reason"] == reason && it["action"] == "TelemetryFlowHealthy");
        ["GatewaySomeTelemetryDataDropped", "GatewayThrottling", "FlowHealthy"].into_iter().all(told).then_some(())
    })
    .await;
    for name in ["a", "b"] {
        cluster.send(Method::DELETE, &format!("{NAMESPACE}/pods/{name}?gracePeriodSeconds=0"), None).await.ok();
    }
}
