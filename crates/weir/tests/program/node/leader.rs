//! One node speaks for the cluster.

use serde_json::json;
use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::signals::document;
use weir_testkit::{eventually, http};

use super::{cluster, start};
use crate::process::Weir;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kyma-system/leases/telemetry-metric-agent-k8scluster";

async fn leads(weir: &Weir) -> bool {
    http::get(weir.metrics, "/metrics").await.text().contains("\nweir_cluster_leader 1\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_nodes_tells_of_the_cluster_and_gives_that_back_when_it_ends() {
    let Some(cluster) = cluster().await else { return };
    let backend = Backend::start().await;
    let template = json!({
        "metadata": {"labels": {"app": "cart"}},
        "spec": {"containers": [{"name": "app", "image": "cart:1"}]},
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cart"},
        "spec": {"replicas": 7, "selector": {"matchLabels": {"app": "cart"}}, "template": template},
    });
    cluster.create("/apis/apps/v1/namespaces/shop/deployments", &deployment).await;
    let telemetry = "apiVersion: operator.kyma-project.io/v1beta1\nkind: Telemetry\nmetadata: {name: default}\nspec: \
                     {metric: {collectionInterval: 1s}}\n---\n";
    let input = "  input: {runtime: {enabled: true, resources: {deployment: {enabled: true}}}}\n";
    let metrics = document(Signal::Metrics, "metrics", backend.address, input);
    cluster.tell("one", &(telemetry.to_owned() + &metrics), &json!({})).await;
    let (a, b) = tokio::join!(start(cluster.node("a", &[])), start(cluster.node("b", &[])));
    eventually("one leads", async || leads(&a).await || leads(&b).await).await;
    assert!(!(leads(&a).await && leads(&b).await));
    let told = || {
        backend.captured().iter().any(|request| {
            let plain = &request.plain;
            plain.windows(22).any(|window| window == b"k8s.deployment.desired")
        })
    };
    eventually("the Deployment is told of", async || told()).await;
    let holder = async || cluster.send("GET", LEASE, None).await.unwrap()["spec"]["holderIdentity"].clone();
    assert!(holder().await.as_str().is_some_and(|holder| holder.starts_with("pod-")), "{}", holder().await);
    let (mut leader, other, led) = if leads(&a).await { (a, b, "pod-a_") } else { (b, a, "pod-b_") };
    leader.signal(rustix::process::Signal::TERM);
    assert_eq!(leader.wait().await.code(), Some(0));
    // It gave the Lease back, or the other one has it by now.
    assert!(!holder().await.as_str().unwrap_or_default().starts_with(led), "{}", holder().await);
    eventually("the other one leads", async || leads(&other).await).await;
}
