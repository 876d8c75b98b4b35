//! What is known of a cluster changes while requests flow: each is enriched with one state of it, the newest.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use weir_engine::Engine;
use weir_enrich::{PodIndex, Pods};
use weir_plan::{Cluster, ClusterFacts, Input, OtlpInput, Pipeline, Plan, Pod, Selector, Signal};
use weir_testkit::backend::Backend;
use weir_testkit::grpc::{Grpc, OK, frame};
use weir_testkit::metrics::whole;
use weir_testkit::signals::{document, encoded, resources, text};

use crate::processing::{arrived, send, with_noise};
use crate::support::{Gateway, pipeline, settings};

/// This machine is a pod of this name, in this namespace.
fn facts(name: &str, namespace: &str) -> ClusterFacts {
    let pod = Pod {
        name: name.into(),
        namespace: namespace.into(),
        ips: ["127.0.0.1".parse().unwrap()].into(),
        labels: [("app.kubernetes.io/name", name)].into_iter().collect(),
        ..Pod::default()
    };
    let cluster = Cluster { uid: Some(name.into()), cloud_provider: None };
    ClusterFacts { cluster, pods: vec![Arc::new(pod)], ..ClusterFacts::default() }
}

#[tokio::test]
async fn the_next_request_gets_what_is_known_now() {
    let backend = Backend::start().await;
    let gateway = Gateway::configured(&document(Signal::Traces, "a", backend.address, ""), settings()).await;
    let reloads = async || whole(gateway.scrape().await.get("weir_config_reloads_total{result=\"success\"}"));
    let before = reloads().await;
    gateway.pods.replace(facts("first", "shop"), &HashSet::new());
    let done = AtomicBool::new(false);
    let others = async {
        let client = gateway.client().await;
        while !done.load(Ordering::Relaxed) {
            let request = frame(&encoded(Signal::Traces, &[], 1..2), false);
            assert_eq!(client.call(Signal::Traces.grpc_method(), None, request).await.code, OK);
        }
    };
    let changes = async {
        for name in (0..50).map(|number| format!("pod-{number}")) {
            gateway.pods.replace(facts(&name, "shop"), &HashSet::new());
            send(&gateway, Signal::Traces, &encoded(Signal::Traces, &[("asked", &name)], 1..2)).await;
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(others, changes);
    gateway.settle().await;
    let mut asked = 0;
    for resource in resources(Signal::Traces, &arrived(&backend)) {
        let get = |key| text(&resource.attributes, key);
        let name = get("k8s.pod.name");
        assert_eq!([get("service.name"), get("k8s.cluster.uid")], [name; 2], "of one state");
        if let Some(expected) = get("asked") {
            assert_eq!(name, Some(expected));
            asked += 1;
        }
    }
    assert_eq!((asked, reloads().await), (50, before));
}

/// Knows something else whenever it is asked.
#[derive(Debug)]
struct Fickle {
    asked: AtomicUsize,
    states: [Arc<PodIndex>; 2],
}

impl Pods for Fickle {
    fn now(&self) -> Arc<PodIndex> {
        Arc::clone(&self.states[self.asked.fetch_add(1, Ordering::Relaxed) % 2])
    }
}

/// A request with noise is walked over twice for whoever selects namespaces.
#[tokio::test]
async fn a_request_sees_one_state_of_the_cluster() {
    const SENT: u64 = 4;
    let backend = Backend::start().await;
    let otlp = Some(OtlpInput { namespaces: Selector::Only(vec!["shop".into()]) });
    let input = Input { otlp, ..Input::default() };
    let plan = Plan { pipelines: vec![Pipeline { input, ..pipeline("shop", backend.address) }], ..Plan::default() };
    let states = ["shop", "bank"].map(|namespace| Arc::new(PodIndex::new(facts("it", namespace))));
    let pods = Arc::new(Fickle { asked: AtomicUsize::new(0), states });
    let engine = Engine::start(&plan, pods, settings()).await.unwrap();
    let grpc = engine.addresses().grpc.unwrap();
    for _ in 0..SENT {
        let answer =
            Grpc::connect(grpc).await.call(Signal::Traces.grpc_method(), None, frame(&with_noise(), false)).await;
        assert_eq!(answer.code, OK, "{answer:?}");
    }
    let books = engine.shutdown(std::future::pending()).await.books.remove(0).1;
    let taken = SENT / 2;
    let counts = (books.accepted, books.delivered, books.filtered["istio_noise"]);
    assert_eq!(counts, (4 * taken, 3 * taken, taken), "{books:?}");
}
