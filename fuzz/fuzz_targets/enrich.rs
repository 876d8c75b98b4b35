//! Enrichment of requests of any kind: a valid one stays valid, loses what is noise and nothing else, grows within the
//! room there is, and has nothing to gain from being enriched again.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use weir_enrich::{Enricher, Noise, PodList};
use weir_fuzz::requests::signal;
use weir_otlp::splice::splice;
use weir_otlp::{Limits, validate};
use weir_plan::{Cluster, ClusterFacts, Enrichment, Pod, PodLabels, ServiceEnrichment, Workload, WorkloadKind};

const ROOM: usize = 10_000;
const PEER: [u8; 4] = [10, 0, 0, 1];

static ENRICHERS: LazyLock<[Enricher; 2]> =
    LazyLock::new(|| [ServiceEnrichment::KymaLegacy, ServiceEnrichment::Otel].map(enricher));

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let signal = signal(choice);
    // What is left of the choice beside the signal.
    let [mode, keeps_noise, known] = [3, 6, 12].map(|step| choice / step % 2 == 1);
    let enricher = &ENRICHERS[usize::from(mode)];
    let noise = if keeps_noise { Noise::Keep } else { Noise::Drop };
    let arrival = enricher.arrival(known.then(|| PEER.into()), 1_700_000_000_000_000_000);
    let Ok(changes) = enricher.edits(signal, bytes, &arrival, noise, ROOM) else { return };
    let gone = changes.noise;
    let enriched = splice(signal, bytes, changes.edits);

    let limits = Limits::default();
    let Ok(before) = validate(signal, bytes, &limits) else { return };
    let enriched = enriched.expect("edits of a valid request fit it");
    let after = validate(signal, &enriched, &limits).expect("a valid request stays valid");
    assert_eq!(after.items + gone, before.items);
    assert!(enriched.len() <= bytes.len() + ROOM);
    let again = enricher.edits(signal, &enriched, &arrival, noise, 2 * ROOM).expect("there is nothing to add");
    assert!(again.edits.is_empty(), "enriched twice: {:?}", again.edits);
});

fn enricher(service: ServiceEnrichment) -> Enricher {
    let cluster = Cluster { uid: Some("cluster-1".to_owned()), cloud_provider: Some("aws".to_owned()) };
    let pod_labels = vec![PodLabels::Prefix(String::new())];
    let enrichment = Enrichment { service, cluster_name: Some("garden".to_owned()), pod_labels };
    let pod = Pod {
        name: "orders-7d9f-abcde".into(),
        namespace: "shop".into(),
        uid: "uid-1".into(),
        ips: [PEER.into()].into(),
        labels: [("app.kubernetes.io/name", "orders"), ("team", "blue")].into_iter().collect(),
        annotations: [("resource.opentelemetry.io/service.version", "9")].into_iter().collect(),
        node: Some("node-1".into()),
        workloads: [Workload { kind: WorkloadKind::Deployment, name: "orders".into() }].into(),
        containers: [("main".into(), "orders:1.2".into())].into(),
        ..Pod::default()
    };
    let labels = [("topology.kubernetes.io/region".to_owned(), "eu-1".to_owned())].into();
    let nodes = [("node-1".to_owned(), Arc::new(labels))].into();
    let pods = PodList::new(ClusterFacts { cluster, nodes, pods: vec![Arc::new(pod)], ..ClusterFacts::default() });
    Enricher::new(enrichment, Arc::new(pods))
}
