//! From a pod on each node to replicas, with an API server: what comes, what goes, and when.
//!
//! There are no controllers, so the test says what they would: how workloads are, and which pods there are. It also says
//! what these pods answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use weir_kubernetes::operator::{Autoscaling, Options, Replicas, Scale, Storage};

use crate::operator::{
    APPS, CONFIGURATION, DAEMON_SET, NAMESPACE, Operator, comes_back, found, is_gone, options, trace,
};
use crate::{Cluster, eventually, pipeline};

const STATEFUL_SET: &str = "/apis/apps/v1/namespaces/kyma-system/statefulsets/telemetry-gateway-stateful";
const AUTOSCALER: &str =
    "/apis/autoscaling/v2/namespaces/kyma-system/horizontalpodautoscalers/telemetry-gateway-stateful";
const BUDGET: &str = "/apis/policy/v1/namespaces/kyma-system/poddisruptionbudgets/telemetry-gateway-stateful";

/// The port of pages is the same for all pods, which have addresses of their own.
const PORT: u16 = 8888;

/// A pod that answers the operator.
struct Pod {
    roles: Mutex<Vec<&'static str>>,
    owed: AtomicUsize,
    asked: AtomicUsize,
}

impl Pod {
    /// Makes one of a workload.
    async fn start(cluster: &Cluster, name: &str, workload: &str, revision: String) -> Arc<Self> {
        let [a, b, c] = [(); 3].map(|()| fastrand::u8(1..255));
        let ip = format!("127.{a}.{b}.{c}");
        let listener = TcpListener::bind((ip.as_str(), PORT)).await.unwrap();
        let pods = format!("{NAMESPACE}/pods");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "labels": { "app.kubernetes.io/name": workload } },
            "spec": { "containers": [{ "name": "collector", "image": "weir:1" }], "nodeName": "n1" },
        });
        cluster.send(Method::POST, &pods, Some(&pod)).await.ok();
        let conditions = json!([{ "type": "Ready", "status": "True" }]);
        let status = json!({ "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }], "conditions": conditions });
        let status = json!({ "status": status });
        cluster.send(Method::PATCH, &format!("{pods}/{name}/status"), Some(&status)).await.ok();
        let pod = Arc::new(Self { roles: Mutex::default(), owed: AtomicUsize::new(3), asked: AtomicUsize::new(0) });
        *pod.roles.lock().unwrap() = vec!["gateway", "logs", "metrics"];
        tokio::spawn(Arc::clone(&pod).answer(listener, revision));
        pod
    }

    async fn answer(self: Arc<Self>, listener: TcpListener, revision: String) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = [0; 1024];
            if !matches!(stream.read(&mut asked).await, Ok(read) if read > 0) {
                continue;
            }
            let roles = self.roles.lock().unwrap().clone();
            let books = json!([{ "pipeline": "traces/shop", "pending": self.owed.load(Ordering::SeqCst) }]);
            let body = json!({ "revision": revision, "error": null, "roles": roles, "pipelines": books }).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes()).await;
            self.asked.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Waits until it was asked, and what it said can have had an effect: the next question comes after that.
    async fn is_heard(&self) {
        let before = self.asked.load(Ordering::SeqCst);
        eventually("it is asked twice", || async { (self.asked.load(Ordering::SeqCst) >= before + 2).then_some(()) })
            .await;
    }
}

/// What controllers say of a DaemonSet with one pod.
async fn daemon_set_is_well(cluster: &Cluster) {
    let generation = found(cluster, DAEMON_SET).await.unwrap()["metadata"]["generation"].clone();
    let status = json!({ "status": {
        "observedGeneration": generation, "desiredNumberScheduled": 1, "currentNumberScheduled": 1,
        "updatedNumberScheduled": 1, "numberReady": 1, "numberMisscheduled": 0,
    } });
    cluster.send(Method::PATCH, &format!("{DAEMON_SET}/status"), Some(&status)).await.ok();
}

async fn replicas_are_well(cluster: &Cluster, count: u32) {
    let generation = found(cluster, STATEFUL_SET).await.unwrap()["metadata"]["generation"].clone();
    let status = json!({ "status": {
        "observedGeneration": generation, "replicas": count, "readyReplicas": count, "updatedReplicas": count,
        "currentReplicas": count, "availableReplicas": count,
    } });
    cluster.send(Method::PATCH, &format!("{STATEFUL_SET}/status"), Some(&status)).await.ok();
}

fn arguments(workload: &Value) -> String {
    workload["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
}

async fn leads_to(cluster: &Cluster, workload: &str, policy: &str) {
    eventually(&format!("clients are led to {workload}"), || async {
        let spec = found(cluster, &format!("{NAMESPACE}/services/telemetry-otlp")).await?["spec"].clone();
        let is_it = spec["selector"]["app.kubernetes.io/name"] == workload && spec["internalTrafficPolicy"] == policy;
        is_it.then_some(())
    })
    .await;
}

fn with(scale: Scale) -> Options {
    Options { scale, ..options() }
}

pub(crate) async fn a_pod_on_each_node_becomes_replicas(cluster: &Cluster) {
    let operator = Operator::start_with(cluster.client.clone(), "nodes", with(Scale::default()));
    cluster.create(&trace("shop", json!({ "value": "http://backend:4317" }))).await.ok();
    eventually("there is a DaemonSet", || found(cluster, DAEMON_SET)).await;
    daemon_set_is_well(cluster).await;
    let revision = found(cluster, CONFIGURATION).await.unwrap()["metadata"]["annotations"]["weir.dev/revision"].clone();
    let revision = revision.as_str().unwrap().to_owned();
    let pod = Pod::start(cluster, "node-a", "telemetry-otlp-gateway", revision).await;
    pod.is_heard().await;
    operator.stop().await;

    let storage = Some(Storage { size: "1Gi".to_owned(), class: None });
    let (resources, tolerations) = (json!({ "requests": { "cpu": "500m" } }), json!([]));
    let replicas = Replicas { count: 2, autoscaling: None, storage, resources, tolerations };
    let operator = Operator::start_with(
        cluster.client.clone(),
        "replicas",
        with(Scale { split_roles: false, gateway: Some(replicas.clone()) }),
    );
    eventually("there are two replicas", || async {
        (found(cluster, STATEFUL_SET).await?["spec"]["replicas"] == 2).then_some(())
    })
    .await;
    eventually("and a budget for them", || found(cluster, BUDGET)).await;
    leads_to(cluster, "telemetry-otlp-gateway", "Local").await;
    eventually("nodes are the gateway until then", || async {
        arguments(&found(cluster, DAEMON_SET).await?).contains(r#""--roles","gateway""#).then_some(())
    })
    .await;
    replicas_are_well(cluster, 2).await;
    leads_to(cluster, "telemetry-gateway-stateful", "Cluster").await;
    eventually("nodes deliver what they have", || async {
        arguments(&found(cluster, DAEMON_SET).await?).contains(r#""--roles","backlog""#).then_some(())
    })
    .await;
    daemon_set_is_well(cluster).await;
    pod.roles.lock().unwrap().clear();
    pod.is_heard().await;
    assert!(found(cluster, DAEMON_SET).await.is_some(), "it owes something");
    pod.owed.store(0, Ordering::SeqCst);
    is_gone(cluster, DAEMON_SET).await;
    operator.stop().await;
    an_autoscaler_counts_replicas(cluster, replicas.clone()).await;
    what_is_deleted_comes_back(cluster, replicas).await;
}

/// Nobody takes its number back, and without it the operator counts again.
async fn an_autoscaler_counts_replicas(cluster: &Cluster, replicas: Replicas) {
    let autoscaling = Autoscaling { max: 5, cpu_percent: Some(70), pending_bytes: Some("64Mi".to_owned()) };
    let counted = Replicas { autoscaling: Some(autoscaling), ..replicas.clone() };
    let operator = Operator::start_with(
        cluster.client.clone(),
        "counted",
        with(Scale { split_roles: false, gateway: Some(counted) }),
    );
    let autoscaler = eventually("there is an autoscaler", || found(cluster, AUTOSCALER)).await;
    assert_eq!(autoscaler["spec"]["metrics"].as_array().unwrap().len(), 2, "{autoscaler}");
    let count = async || found(cluster, STATEFUL_SET).await.unwrap()["spec"]["replicas"].clone();
    assert_eq!(count().await, 2, "it is what it was");
    let scale = json!({ "spec": { "replicas": 4 } });
    cluster.send(Method::PATCH, &format!("{STATEFUL_SET}/scale"), Some(&scale)).await.ok();
    // Somebody takes a label away, and the operator applies the manifest again.
    let wrong = json!({ "metadata": { "labels": { "kyma-project.io/module": "other" } } });
    cluster.send(Method::PATCH, STATEFUL_SET, Some(&wrong)).await.ok();
    eventually("the label is there again", || async {
        let labels = found(cluster, STATEFUL_SET).await?["metadata"]["labels"].clone();
        (labels["kyma-project.io/module"] == "telemetry").then_some(())
    })
    .await;
    assert_eq!(count().await, 4, "the number is the autoscaler's");
    operator.stop().await;
    let operator = Operator::start_with(
        cluster.client.clone(),
        "again",
        with(Scale { split_roles: false, gateway: Some(replicas) }),
    );
    is_gone(cluster, AUTOSCALER).await;
    eventually("two again", || async { (count().await == 2).then_some(()) }).await;
    operator.stop().await;
    assert!(found(cluster, &format!("{APPS}/deployments/telemetry-gateway")).await.is_none());
}

/// Also what there is only where the gateway is replicas, with volumes or without.
async fn what_is_deleted_comes_back(cluster: &Cluster, replicas: Replicas) {
    let output = json!({ "otlp": { "endpoint": { "value": "http://backend:4317" } } });
    let spec = json!({ "input": { "runtime": { "enabled": true } }, "output": output });
    cluster.create(&pipeline("LogPipeline", "v1beta1", "printed", &spec)).await.ok();
    let autoscaling = Some(Autoscaling { max: 5, cpu_percent: Some(70), pending_bytes: None });
    let with_volumes = Replicas { autoscaling, ..replicas };
    let without = Replicas { storage: None, ..with_volumes.clone() };
    for (replicas, kind, name) in
        [(with_volumes, "statefulsets", "telemetry-gateway-stateful"), (without, "deployments", "telemetry-gateway")]
    {
        let scale = Scale { split_roles: false, gateway: Some(replicas) };
        let operator = Operator::start_with(cluster.client.clone(), "remade", with(scale));
        let of_replicas = |path: &str| path.replace("telemetry-gateway-stateful", name);
        comes_back(cluster, &format!("{APPS}/{kind}/{name}")).await;
        comes_back(cluster, &of_replicas(AUTOSCALER)).await;
        comes_back(cluster, &of_replicas(BUDGET)).await;
        comes_back(cluster, &format!("{APPS}/daemonsets/telemetry-agent")).await;
        operator.stop().await;
    }
}
