//! An API server that throttles, hangs, forgets and refuses, and one that has much to tell: statuses stay true, nodes keep
//! what they have, and nobody makes it worse.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::join_all;
use futures_util::{Stream, StreamExt as _};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::time::timeout;
use weir_kubernetes::lease::{Timings, campaign};
use weir_kubernetes::node;
use weir_resources::{Options, Source, load};

use crate::operator::{CONFIGURATION, LEASE, Operator, found, has_reason, of_secret, revision, secret, trace};
use crate::proxy::{Illness, Proxy};
use crate::{Cluster, collection, eventually, path};

const SECRETS: &str = "/api/v1/namespaces/shop/secrets";
/// Watches and calls of an operator that try again, at most once a second each.
const TRIES_PER_SECOND: usize = 30;
const WATCHES: usize = 130;

pub(crate) async fn the_operator_goes_on(cluster: &Cluster) {
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(cluster.client.clone(), directory.path()).await;
    let operator = Operator::start(proxy.client.clone(), "unwell");
    let telemetry = json!({
        "apiVersion": "operator.kyma-project.io/v1beta1", "kind": "Telemetry",
        "metadata": { "name": "default", "namespace": "kyma-system" },
    });
    cluster.create(&telemetry).await.ok();
    cluster.send(Method::POST, SECRETS, Some(&secret("http://one:4317"))).await.ok();
    let shop = trace("shop", of_secret());
    cluster.create(&shop).await.ok();
    has_reason(cluster, &path(&shop), "ConfigurationGenerated", "GatewayConfigured").await;

    it_is_not_asked_more_when_it_throttles(cluster, &proxy).await;
    what_it_forgets_is_listed_again(cluster, &proxy).await;
    a_right_that_is_taken_away_costs_no_pipeline(cluster, &proxy, &shop).await;
    what_changes_without_a_right_is_read_with_it(cluster, &proxy).await;
    what_may_not_be_written_is_said(cluster, &proxy).await;
    a_connection_that_died_is_noticed(cluster, &proxy).await;
    a_namespace_that_goes_is_said(cluster, &shop).await;
    whoever_hears_nothing_leads_no_more(cluster, &proxy, operator).await;
}

async fn changes_are_seen(cluster: &Cluster, name: &str) {
    let pipeline = trace(name, json!({ "value": "http://backend:4317" }));
    cluster.create(&pipeline).await.ok();
    has_reason(cluster, &path(&pipeline), "ConfigurationGenerated", "GatewayConfigured").await;
}

async fn it_is_not_asked_more_when_it_throttles(cluster: &Cluster, proxy: &Proxy) {
    proxy.falls_ill(Illness::Throttles);
    let began = Instant::now();
    eventually("it is asked again", || async { (proxy.refused() > 60).then_some(()) }).await;
    let (tries, time) = (proxy.refused(), began.elapsed());
    let most = TRIES_PER_SECOND * (usize::try_from(time.as_secs()).unwrap() + 1) + TRIES_PER_SECOND;
    assert!(tries <= most, "{tries} requests in {time:?}");
    proxy.falls_ill(Illness::None);
    changes_are_seen(cluster, "after-throttling").await;
}

async fn what_it_forgets_is_listed_again(cluster: &Cluster, proxy: &Proxy) {
    proxy.falls_ill(Illness::Forgets);
    eventually("watches are told so", || async { (proxy.refused() > 5).then_some(()) }).await;
    proxy.falls_ill(Illness::None);
    changes_are_seen(cluster, "after-forgetting").await;
}

async fn a_right_that_is_taken_away_costs_no_pipeline(cluster: &Cluster, proxy: &Proxy, shop: &Value) {
    let missing =
        json!({ "valueFrom": { "secretKeyRef": { "name": "none", "namespace": "shop", "key": "endpoint" } } });
    let missing = trace("of-missing", missing);
    cluster.create(&missing).await.ok();
    has_reason(cluster, &path(&missing), "ConfigurationGenerated", "ReferencedSecretMissing").await;
    let before = revision(cluster).await.unwrap();
    proxy.falls_ill(Illness::Refuses(SECRETS));
    changes_are_seen(cluster, "meanwhile").await;
    assert_ne!(revision(cluster).await.unwrap(), before);
    // What was read before goes on, and says so. Nobody knows that there is none.
    says_unreadable(cluster, shop, true).await;
    an_event_tells_once(cluster, shop).await;
    has_reason(cluster, &path(&missing), "ConfigurationGenerated", "ValidationFailed").await;
    proxy.falls_ill(Illness::None);
    // No Secret has changed, so no watch tells of one.
    says_unreadable(cluster, shop, false).await;
    has_reason(cluster, &path(&missing), "ConfigurationGenerated", "ReferencedSecretMissing").await;
    cluster.send(Method::DELETE, &path(&missing), None).await.ok();
}

async fn what_changes_without_a_right_is_read_with_it(cluster: &Cluster, proxy: &Proxy) {
    let before = revision(cluster).await.unwrap();
    proxy.falls_ill(Illness::Refuses(SECRETS));
    eventually("it is refused", || async { (proxy.refused() > 0).then_some(()) }).await;
    cluster.send(Method::PATCH, &format!("{SECRETS}/backend"), Some(&secret("http://two:4317"))).await.ok();
    proxy.falls_ill(Illness::None);
    eventually("the Secret is read again", || async { revision(cluster).await.filter(|now| *now != before) }).await;
}

/// Waits until a pipeline that is well says that its Secret cannot be read, or does not say so any more.
async fn says_unreadable(cluster: &Cluster, shop: &Value, expected: bool) {
    let what = format!("it says that its Secret cannot be read: {expected}");
    eventually(&what, || async {
        let condition = has_reason(cluster, &path(shop), "ConfigurationGenerated", "GatewayConfigured").await;
        assert_eq!(condition["status"], "True", "{condition}");
        let says = condition["message"].as_str()?.contains("Secret shop/backend cannot be read since 2");
        (says == expected).then_some(())
    })
    .await;
}

async fn an_event_tells_once(cluster: &Cluster, shop: &Value) {
    let told = async || {
        let events = found(cluster, "/apis/events.k8s.io/v1/namespaces/default/events").await?;
        let is_it = |event: &&Value| {
            event["regarding"]["name"] == shop["metadata"]["name"] && event["reason"] == "ReferencedSecretUnreadable"
        };
        Some(events["items"].as_array()?.iter().filter(is_it).cloned().collect::<Vec<_>>())
    };
    let events =
        eventually("an event tells of the Secret", || async { told().await.filter(|events| !events.is_empty()) }).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["type"], "Warning");
    assert!(events[0]["note"].as_str().unwrap().contains("Let the operator get, list and watch Secrets again"));
}

async fn what_may_not_be_written_is_said(cluster: &Cluster, proxy: &Proxy) {
    proxy.falls_ill(Illness::Refuses(CONFIGURATION));
    let pipeline = trace("unwritten", json!({ "value": "http://backend:4317" }));
    cluster.create(&pipeline).await.ok();
    has_reason(cluster, &path(&pipeline), "GatewayHealthy", "GatewayNotReady").await;
    let status = found(cluster, &path(&pipeline)).await.unwrap()["status"].to_string();
    assert!(status.contains("Cannot write ") && status.contains("telemetry-node"), "{status}");
    assert!(!status.contains("ConfigurationGenerated"), "nodes have nothing of it: {status}");
    proxy.falls_ill(Illness::None);
    has_reason(cluster, &path(&pipeline), "ConfigurationGenerated", "GatewayConfigured").await;
}

async fn a_connection_that_died_is_noticed(cluster: &Cluster, proxy: &Proxy) {
    proxy.falls_ill(Illness::Vanishes);
    eventually("nobody is heard", || async { (proxy.connected() == 0).then_some(()) }).await;
    proxy.falls_ill(Illness::None);
    changes_are_seen(cluster, "after-vanishing").await;
}

async fn a_namespace_that_goes_is_said(cluster: &Cluster, shop: &Value) {
    // Nobody deletes what is in a namespace here but the test.
    cluster.send(Method::DELETE, "/api/v1/namespaces/shop", None).await.ok();
    cluster.send(Method::DELETE, &format!("{SECRETS}/backend"), None).await.ok();
    has_reason(cluster, &path(shop), "ConfigurationGenerated", "ReferencedSecretMissing").await;
    changes_are_seen(cluster, "without-namespace").await;
}

async fn whoever_hears_nothing_leads_no_more(cluster: &Cluster, proxy: &Proxy, deaf: Operator) {
    let holder = async || found(cluster, LEASE).await.unwrap()["spec"]["holderIdentity"].as_str().unwrap().to_owned();
    assert!(holder().await.starts_with("unwell_"));
    let other = Operator::start(cluster.client.clone(), "well");
    proxy.falls_ill(Illness::Hangs);
    eventually("another leads", || async { holder().await.starts_with("well_").then_some(()) }).await;
    changes_are_seen(cluster, "by-another").await;
    let written = found(cluster, CONFIGURATION).await.unwrap()["metadata"]["resourceVersion"].clone();
    proxy.falls_ill(Illness::None);
    other.stop().await;
    eventually("the first leads again", || async { holder().await.starts_with("unwell_").then_some(()) }).await;
    changes_are_seen(cluster, "by-the-first-again").await;
    assert_ne!(found(cluster, CONFIGURATION).await.unwrap()["metadata"]["resourceVersion"], written);
    deaf.stop().await;
}

/// Five hundred pipelines, each with a name of the greatest length, and a Secret of a megabyte of which one key is
/// used: nodes get all of them, and events can tell of them.
pub(crate) async fn many_pipelines_and_large_secrets_fit(cluster: &Cluster) {
    let operator = Operator::start(cluster.client.clone(), "many");
    let rest = ["a", "b", "c"].map(|part| part.repeat(63)).join(".");
    let name = |number: usize| format!("{number:0>61}.{rest}");
    assert_eq!(name(0).len(), 253);
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "large" } });
    cluster.send(Method::POST, "/api/v1/namespaces", Some(&namespace)).await.ok();
    let data = json!({
        "endpoint": BASE64_STANDARD.encode("http://backend:4317"),
        "other": BASE64_STANDARD.encode(vec![b'x'; 1_000_000]),
    });
    let large = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "large" }, "data": data });
    cluster.send(Method::POST, "/api/v1/namespaces/large/secrets", Some(&large)).await.ok();
    let endpoint =
        json!({ "valueFrom": { "secretKeyRef": { "name": "large", "namespace": "large", "key": "endpoint" } } });
    let all: Vec<Value> = (0..500).map(|number| trace(&name(number), endpoint.clone())).collect();
    for some in all.chunks(20) {
        for answer in join_all(some.iter().map(|pipeline| cluster.create(pipeline))).await {
            answer.ok();
        }
    }
    for pipeline in &all {
        has_reason(cluster, &path(pipeline), "ConfigurationGenerated", "GatewayConfigured").await;
    }
    let told = found(cluster, CONFIGURATION).await.unwrap();
    assert!(told.to_string().len() < 500_000, "only the key that is used goes to nodes");
    let last = name(499);
    eventually("an event tells of the last", || async {
        let of_it = format!("involvedObject.name={last},reason=GatewayConfigured");
        let events = found(cluster, &format!("/api/v1/namespaces/default/events?fieldSelector={of_it}")).await?;
        events["items"].as_array().is_some_and(|items| !items.is_empty()).then_some(())
    })
    .await;
    a_node_has_all(cluster, &all).await;
    operator.stop().await;
    cluster.send(Method::DELETE, &collection(&all[0]), None).await.ok();
}

async fn a_node_has_all(cluster: &Cluster, pipelines: &[Value]) {
    let names: BTreeSet<_> = pipelines.iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect();
    let mut node = node::Node::start(&cluster.client, of_node());
    let all = async {
        loop {
            let told = node.configuration().await.unwrap();
            let source = Source { name: node::CONFIGURATION.to_owned(), text: told.text.clone() };
            let plan = load(&[source], &Options::at(SystemTime::now())).unwrap().plan;
            let known: BTreeSet<_> = plan.pipelines.iter().map(|it| it.id.name.as_str()).collect();
            if names.is_subset(&known) {
                break;
            }
        }
    };
    timeout(crate::SOON, all).await.expect("a node has all pipelines");
    node.stop().await;
}

fn of_node() -> node::Options {
    node::Options {
        namespace: "kyma-system".to_owned(),
        node_name: "node1".to_owned(),
        identity: "a".to_owned(),
        all_pods: false,
    }
}

/// A node that has a configuration and pods.
pub(crate) async fn a_node_goes_on(cluster: &Cluster) {
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(cluster.client.clone(), directory.path()).await;
    pod(cluster, "first").await;
    let mut node = node::Node::start(&proxy.client, of_node());
    let roles = node::Roles { gateway: true, logs: false, metrics: false };
    node.want(node::Wants::of(&weir_plan::Plan::default(), roles));
    knows(&mut node, 1).await;
    for (illness, name) in [
        (Illness::Throttles, "while-throttled"),
        (Illness::Forgets, "while-forgotten"),
        (Illness::Refuses("/api/v1/pods"), "while-refused"),
        (Illness::Hangs, "while-hanging"),
    ] {
        let known = node.known().facts.pods.len();
        proxy.falls_ill(illness);
        eventually("it is refused", || async { (proxy.refused() > 0).then_some(()) }).await;
        assert_eq!(node.known().facts.pods.len(), known, "what was seen stays true");
        pod(cluster, name).await;
        proxy.falls_ill(Illness::None);
        knows(&mut node, known + 1).await;
    }
    node.stop().await;
}

async fn knows(node: &mut node::Node, pods: usize) {
    let deadline = Instant::now() + crate::SOON;
    while node.known().facts.pods.len() != pods {
        assert!(Instant::now() < deadline, "{} pods are known, not {pods}", node.known().facts.pods.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn pod(cluster: &Cluster, name: &str) {
    let containers = json!([{ "name": "main", "image": "none" }]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
        "spec": { "nodeName": "node1", "containers": containers },
    });
    cluster.send(Method::POST, "/api/v1/namespaces/default/pods", Some(&pod)).await.ok();
}

/// More watches than a connection takes are told of a change, each, and all other requests go on.
pub(crate) async fn watches_share_connections(cluster: &Cluster) {
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(cluster.client.clone(), directory.path()).await;
    let api: Api<ConfigMap> = Api::namespaced(proxy.client.clone(), "default");
    let watching = WatchParams::default();
    let watches = (0..WATCHES).map(|_| async { api.watch(&watching, "0").await.unwrap().boxed() });
    let watches = join_all(watches).await;
    let map = json!({ "metadata": { "name": "seen-by-all" } });
    cluster.send(Method::POST, "/api/v1/namespaces/default/configmaps", Some(&map)).await.ok();
    let told = watches.into_iter().map(|mut watch| async move {
        while let Some(event) = watch.next().await {
            if matches!(event.unwrap(), WatchEvent::Added(map) if map.metadata.name.as_deref() == Some("seen-by-all")) {
                return watch;
            }
        }
        panic!("a watch ended");
    });
    let watches = timeout(crate::SOON, join_all(told)).await.expect("every watch is told");
    assert!(proxy.connected() < 10, "{} watches have {} connections", watches.len(), proxy.connected());
    what_died_is_noticed(&proxy, watches).await;
}

/// As when a load balancer forgets a connection: nobody says that it ended.
async fn what_died_is_noticed(
    proxy: &Proxy,
    watches: Vec<impl Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Unpin>,
) {
    proxy.falls_ill(Illness::Vanishes);
    eventually("nobody is heard", || async { (proxy.connected() == 0).then_some(()) }).await;
    proxy.falls_ill(Illness::None);
    let ends = watches.into_iter().map(|mut watch| async move { while let Some(Ok(_)) = watch.next().await {} });
    timeout(crate::SOON, join_all(ends)).await.expect("watches end");
}

/// One that hears nothing stops leading by its own clock, before another begins.
pub(crate) async fn two_never_lead(cluster: &Cluster) {
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(cluster.client.clone(), directory.path()).await;
    let [lease_duration, renew_deadline, retry_period, look_period] = [4000, 2000, 200, 200].map(Duration::from_millis);
    let timings = Timings { lease_duration, renew_deadline, retry_period, look_period };
    let candidate = |client, name: &str| campaign(client, "kyma-system", "fenced", name.to_owned(), timings);
    let (first, mut campaign_of_first) = candidate(proxy.client.clone(), "first");
    let (second, mut campaign_of_second) = candidate(cluster.client.clone(), "second");
    let one = tokio::spawn(async move { campaign_of_first.run(std::future::pending()).await });
    eventually("the first leads", || async { first.leads().then_some(()) }).await;
    let other = tokio::spawn(async move { campaign_of_second.run(std::future::pending()).await });
    proxy.falls_ill(Illness::Hangs);
    eventually("the second leads", || async {
        assert!(!(first.leads() && second.leads()), "two lead");
        second.leads().then_some(())
    })
    .await;
    one.abort();
    other.abort();
}

/// The holder ends without giving its Lease back, as after `kill -9`. Another has the Lease once it has rested for as
/// long as it lasts, and not before.
pub(crate) async fn a_lease_outlives_its_holder(cluster: &Cluster) {
    const LEFT: &str = "/apis/coordination.k8s.io/v1/namespaces/kyma-system/leases/left";
    let directory = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(cluster.client.clone(), directory.path()).await;
    let [lease_duration, renew_deadline, retry_period, look_period] =
        [10_000, 5000, 200, 200].map(Duration::from_millis);
    let timings = Timings { lease_duration, renew_deadline, retry_period, look_period };
    let candidate = |client, name: &str| campaign(client, "kyma-system", "left", name.to_owned(), timings);
    let (first, mut campaign_of_first) = candidate(cluster.client.clone(), "dies");
    let (second, mut campaign_of_second) = candidate(proxy.client.clone(), "follows");
    let one = tokio::spawn(async move { campaign_of_first.run(std::future::pending()).await });
    eventually("the first leads", || async { first.leads().then_some(()) }).await;
    let other = tokio::spawn(async move { campaign_of_second.run(std::future::pending()).await });
    eventually("the second looks", || async { (proxy.asked(LEFT) > 1).then_some(()) }).await;

    let version = async || found(cluster, LEFT).await.unwrap()["metadata"]["resourceVersion"].clone();
    // The last renewal comes after this.
    let since = Instant::now();
    let seen = version().await;
    eventually("it is renewed", || async { (version().await != seen).then_some(()) }).await;
    one.abort();
    assert!(one.await.unwrap_err().is_cancelled());

    eventually("the second leads", || async { second.leads().then_some(()) }).await;
    let rested = since.elapsed();
    assert!(!first.leads(), "two lead");
    assert!(rested >= lease_duration, "taken after {rested:?}");
    let spec = found(cluster, LEFT).await.unwrap()["spec"].clone();
    assert_eq!((&spec["holderIdentity"], &spec["leaseTransitions"]), (&json!("follows"), &json!(1)));
    other.abort();
}
