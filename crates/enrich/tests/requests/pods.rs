//! What telemetry gets from the cluster and the pod it comes from.

use std::collections::HashSet;
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use weir_enrich::{Arrival, Enricher, Noise, PodList, Pods};
use weir_otlp::Signal;
use weir_otlp::splice::splice;
use weir_plan::{Enrichment, Pod, PodLabels, Secret, ServiceEnrichment, WorkloadKind};

use crate::support::{
    NOW, Pairs, ROOM, cart, enrich, enriched_resource, enricher, facts, full_enrichment, legacy, logs, resource_pairs,
    strings, traces, workload,
};

const LEGACY: ServiceEnrichment = ServiceEnrichment::KymaLegacy;

const ALL: Pairs<'_> = &[
    ("cloud.availability_zone", "eu-1a"),
    ("cloud.provider", "sap"),
    ("cloud.region", "eu-1"),
    ("host.arch", "amd64"),
    ("host.type", "m5.large"),
    ("k8s.cluster.name", "prod"),
    ("k8s.cluster.uid", "uid-of-kube-system"),
    ("k8s.deployment.name", "cart"),
    ("k8s.namespace.name", "shop"),
    ("k8s.node.name", "node-1"),
    ("k8s.pod.label.a.b/c", "d"),
    ("k8s.pod.label.team", "blue"),
    ("k8s.pod.name", "cart-5d9c-x2x4z"),
    ("service.name", "cart"),
];

/// What the resource of a single pod gets.
fn gets(enrichment: &Enrichment, pod: &Pod) -> Vec<(String, String)> {
    enriched_resource(enrichment, std::slice::from_ref(pod), &[], Some("10.0.0.1"))
}

fn has(attributes: &[(String, String)], key: &str, value: Option<&str>) {
    let found = attributes.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str());
    assert_eq!(found, value, "{key} in {attributes:?}");
}

#[test]
fn everything_that_is_known_is_added() {
    assert_eq!(gets(&full_enrichment(LEGACY), &cart()), strings::<Vec<_>>(ALL));
}

#[test]
fn pods_are_found_by_address_then_uid_then_peer() {
    let other = Pod {
        name: "other".into(),
        uid: "uid-of-other".into(),
        ips: ["10.0.0.2".parse().unwrap()].into(),
        ..Pod::default()
    };
    let pods = [cart(), other];
    let cart = Some("cart-5d9c-x2x4z");
    let cases: [(Pairs<'_>, Option<&str>, Option<&str>); 14] = [
        (&[("k8s.pod.uid", "uid-of-cart"), ("k8s.pod.uid", "uid-of-other")], None, cart),
        (&[("k8s.pod.ip", "10.0.0.1"), ("k8s.pod.uid", "uid-of-other")], Some("10.0.0.2"), cart),
        (&[("k8s.pod.ip", "fd00:0::1")], None, cart),
        (&[("k8s.pod.ip", "::ffff:10.0.0.1")], None, cart),
        (&[("k8s.pod.uid", "uid-of-cart")], Some("10.0.0.2"), cart),
        (&[("k8s.pod.ip", ""), ("k8s.pod.uid", "uid-of-cart")], Some("10.0.0.2"), cart),
        (&[], Some("10.0.0.2"), Some("other")),
        (&[], Some("::ffff:10.0.0.1"), cart),
        (&[("k8s.pod.ip", ""), ("k8s.pod.uid", "")], Some("10.0.0.1"), cart),
        // The first that is given decides, even if it leads nowhere.
        (&[("k8s.pod.ip", "10.0.0.9"), ("k8s.pod.uid", "uid-of-cart")], Some("10.0.0.1"), None),
        (&[("k8s.pod.ip", "not an address")], Some("10.0.0.1"), None),
        (&[("k8s.pod.uid", "nobody")], Some("10.0.0.1"), None),
        (&[], Some("10.0.0.9"), None),
        (&[], None, None),
    ];
    for (own, peer, name) in cases {
        has(&enriched_resource(&full_enrichment(LEGACY), &pods, own, peer), "k8s.pod.name", name);
    }
}

#[test]
fn without_a_pod_only_the_cluster_is_added() {
    let added = enriched_resource(&full_enrichment(LEGACY), &[], &[("service.name", "mine")], None);
    let expected: Pairs<'_> = &[
        ("cloud.provider", "sap"),
        ("k8s.cluster.name", "prod"),
        ("k8s.cluster.uid", "uid-of-kube-system"),
        ("service.name", "mine"),
    ];
    assert_eq!(added, strings::<Vec<_>>(expected));
}

/// Pods in the host's network have no address of their own.
#[test]
fn without_a_pod_the_node_gives_what_it_has() {
    let own: Pairs<'_> = &[("k8s.node.name", "node-1"), ("service.name", "mine")];
    let expected: Pairs<'_> = &[
        ("cloud.availability_zone", "eu-1a"),
        ("cloud.region", "eu-1"),
        ("host.arch", "amd64"),
        ("host.type", "m5.large"),
        own[0],
        own[1],
    ];
    let enriched = |own| enriched_resource(&legacy(), &[cart()], own, Some("10.0.0.9"));
    assert_eq!(enriched(own), strings::<Vec<_>>(expected));
    let other: Pairs<'_> = &[("k8s.node.name", "node-2"), ("service.name", "mine")];
    assert_eq!(enriched(other), strings::<Vec<_>>(other));
}

/// Metrics of nodes and workloads are of no pod, and have no service.
#[test]
fn what_is_only_of_the_cluster_gets_nothing_else() {
    let own: Pairs<'_> = &[("k8s.node.name", "node-1"), ("k8s.pod.uid", "uid-of-cart"), ("kyma.input", "runtime")];
    let expected: Pairs<'_> = &[
        ("cloud.provider", "sap"),
        ("k8s.cluster.name", "prod"),
        ("k8s.cluster.uid", "uid-of-kube-system"),
        own[0],
        own[1],
    ];
    for mode in [LEGACY, ServiceEnrichment::Otel] {
        let enricher = enricher(&full_enrichment(mode), &[cart()]);
        let arrival = enricher.arrival(Some("10.0.0.1".parse().unwrap()), NOW).of_cluster();
        let request = traces(own, &[&[]]).encode_to_vec();
        let changes = enricher.edits(Signal::Traces, &request, &arrival, Noise::Drop, ROOM).unwrap();
        let enriched = splice(Signal::Traces, &request, changes.edits).unwrap();
        let enriched = ExportTraceServiceRequest::decode(&enriched[..]).unwrap();
        assert_eq!(resource_pairs(enriched.resource_spans[0].resource.as_ref()), strings::<Vec<_>>(expected));
    }
}

/// ENRICH-1
#[test]
fn own_attributes_win_unless_they_say_nothing() {
    for (key, _) in ALL {
        let enriched = enriched_resource(&full_enrichment(LEGACY), &[cart()], &[(key, "mine")], Some("10.0.0.1"));
        has(&enriched, key, Some("mine"));
        assert_eq!(enriched.len(), ALL.len());
        let enriched = enriched_resource(&full_enrichment(LEGACY), &[cart()], &[(key, "")], Some("10.0.0.1"));
        assert_eq!(enriched, strings::<Vec<_>>(ALL), "{key}");
    }
}

#[test]
fn owners_give_their_names() {
    let cases: [(Owners<'_>, &str); 6] = [
        (&[(WorkloadKind::Deployment, "w")], "k8s.deployment.name"),
        (&[(WorkloadKind::StatefulSet, "w")], "k8s.statefulset.name"),
        (&[(WorkloadKind::DaemonSet, "w")], "k8s.daemonset.name"),
        (&[(WorkloadKind::Job, "w")], "k8s.job.name"),
        (&[(WorkloadKind::Job, "w-29000000"), (WorkloadKind::CronJob, "w")], "k8s.cronjob.name"),
        (&[(WorkloadKind::Job, "w"), (WorkloadKind::CronJob, "other")], "k8s.job.name"),
    ];
    for (owners, key) in cases {
        let workloads = owners.iter().map(|(kind, name)| workload(*kind, name)).collect();
        has(&gets(&full_enrichment(LEGACY), &Pod { workloads, ..cart() }), key, Some("w"));
    }
    let workloads = [workload(WorkloadKind::ReplicaSet, "w")].into();
    let added = gets(&full_enrichment(LEGACY), &Pod { workloads, ..cart() });
    has(&added, "k8s.replicaset.name", None);
    has(&added, "k8s.deployment.name", None);
}

type Owners<'a> = &'a [(WorkloadKind, &'a str)];

/// A pod names its nearest owner only; the names of the two say who stands behind it.
#[test]
fn owners_are_read_from_names() {
    use WorkloadKind::{CronJob, Deployment, Job, ReplicaSet};
    let hash: Pairs<'_> = &[("pod-template-hash", "7d9c5b6f4")];
    let (deployment, cron_job) = ("k8s.deployment.name", "k8s.cronjob.name");
    let cases: [(Owners<'_>, Pairs<'_>, &str, Option<&str>); 11] = [
        (&[(ReplicaSet, "my-cart-7d9c5b6f4")], hash, deployment, Some("my-cart")),
        (&[(ReplicaSet, "my-cart-7d9c5b6f4")], &[], deployment, None),
        (&[(ReplicaSet, "my-cart-7d9c5b6f4")], &[("pod-template-hash", "")], deployment, None),
        (&[(ReplicaSet, "my-cart7d9c5b6f4")], hash, deployment, None),
        (&[(ReplicaSet, "my-cart")], hash, deployment, None),
        (&[(Deployment, "known"), (ReplicaSet, "my-cart-7d9c5b6f4")], hash, deployment, Some("known")),
        (&[(Job, "report-29000000")], &[], cron_job, Some("report")),
        (&[(Job, "report-29000000"), (CronJob, "known")], &[], cron_job, Some("known")),
        (&[(Job, "report-20260407")], &[], cron_job, None),
        (&[(Job, "report-+9000000")], &[], cron_job, None),
        (&[(Job, "report-290000000")], &[], cron_job, None),
    ];
    for (owners, labels, key, expected) in cases {
        let workloads = owners.iter().map(|(kind, name)| workload(*kind, name)).collect();
        let pod = Pod { workloads, labels: strings(labels), ..cart() };
        has(&gets(&full_enrichment(LEGACY), &pod), key, expected);
    }
}

#[test]
fn labels_are_picked_by_their_keys() {
    let labels =
        [("team", ""), ("team.x", "1"), ("a.b", "2"), ("a.bc", "3"), ("x.a.b", "4"), ("aXb", "5"), (".*", "6")];
    let pod = Pod { labels: strings(&labels), ..cart() };
    let pod_labels = vec![PodLabels::Key("team".into()), PodLabels::Prefix("a.b".into()), PodLabels::Key("a*".into())];
    let added = gets(&Enrichment { pod_labels, ..legacy() }, &pod);
    let labels: Vec<_> = added.iter().filter(|(key, _)| key.starts_with("k8s.pod.label.")).cloned().collect();
    let expected = [("k8s.pod.label.a.b", "2"), ("k8s.pod.label.a.bc", "3"), ("k8s.pod.label.team", "")];
    assert_eq!(labels, strings::<Vec<_>>(&expected));
}

#[test]
fn internal_attributes_go() {
    let own: Pairs<'_> = &[
        ("kyma.input.name", "otlp"),
        ("kyma.x", ""),
        ("kyma", "stays"),
        ("my.kyma.x", "stays"),
        ("service.name", "mine"),
    ];
    assert_eq!(enriched_resource(&legacy(), &[], own, None), strings::<Vec<_>>(&own[2..]));
}

#[test]
fn a_pod_of_which_little_is_known_gives_little() {
    let pod = Pod { name: "p".into(), ips: ["10.0.0.1".parse().unwrap()].into(), ..Pod::default() };
    let expected: Pairs<'_> = &[("k8s.pod.name", "p"), ("service.name", "p")];
    assert_eq!(gets(&legacy(), &pod), strings::<Vec<_>>(expected));
}

/// What changes is seen by the next request, and not by one that is under way.
#[test]
fn facts_change_between_requests() {
    let enrichment = full_enrichment(LEGACY);
    let moved = Pod { node: Some("node-2".into()), ..cart() };
    let pods = Arc::new(PodList::new(facts(&enrichment, &[cart()])));
    let enricher = Enricher::new(enrichment.clone(), Arc::clone(&pods) as Arc<dyn Pods>);
    let request = traces(&[], &[&[]]).encode_to_vec();
    let node = |arrival: &Arrival| {
        let changes = enricher.edits(Signal::Traces, &request, arrival, Noise::Drop, ROOM).unwrap();
        let enriched = splice(Signal::Traces, &request, changes.edits).unwrap();
        let enriched = ExportTraceServiceRequest::decode(&enriched[..]).unwrap();
        let pairs = resource_pairs(enriched.resource_spans[0].resource.as_ref());
        pairs.into_iter().find(|(key, _)| key == "k8s.node.name").map(|(_, node)| node)
    };
    let arrival = || enricher.arrival(Some("10.0.0.1".parse().unwrap()), NOW);
    let before = arrival();
    pods.replace(facts(&enrichment, &[moved]), &HashSet::new());
    assert_eq!([node(&before), node(&arrival())].map(Option::unwrap), ["node-1", "node-2"]);
    pods.replace(facts(&enrichment, &[]), &HashSet::new());
    assert_eq!(node(&arrival()), None);
}

/// Plans change what is added, and pods stay: each gets what it asks for, whoever asked before.
#[test]
fn the_same_pods_serve_different_plans() {
    let pods: Arc<dyn Pods> = Arc::new(PodList::new(facts(&full_enrichment(LEGACY), &[cart()])));
    let request = traces(&[], &[&[]]).encode_to_vec();
    let label = |key: &str| {
        let enrichment = Enrichment { pod_labels: vec![PodLabels::Key(key.into())], ..legacy() };
        let (bytes, _) = enrich(
            &Enricher::new(enrichment, Arc::clone(&pods)),
            Signal::Traces,
            &request,
            Some("10.0.0.1"),
            Noise::Drop,
        );
        let enriched = ExportTraceServiceRequest::decode(&bytes[..]).unwrap();
        let pairs = resource_pairs(enriched.resource_spans[0].resource.as_ref());
        pairs.into_iter().filter(|(key, _)| key.starts_with("k8s.pod.label.")).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(label("team"), strings::<Vec<_>>(&[("k8s.pod.label.team", "blue")]));
        assert_eq!(label("quiet"), strings::<Vec<_>>(&[("k8s.pod.label.quiet", "no")]));
    }
}

/// Everything that is known of the pod, once, and nothing of services or records.
#[test]
fn raw_container_logs_get_all_that_is_known() {
    let (enrichment, pod) = (
        full_enrichment(ServiceEnrichment::Otel),
        Pod {
            annotations: strings(&[("resource.opentelemetry.io/service.name", "shop")]),
            other_annotations: [("example.com/owner".to_owned(), Secret::new("blue"))].into(),
            ..cart()
        },
    );
    let enricher = Enricher::new(enrichment.clone(), Arc::new(PodList::new(facts(&enrichment, &[pod]))));
    let own: Pairs<'_> = &[("k8s.pod.uid", "uid-of-cart"), ("k8s.container.name", "app"), ("k8s.pod.label.quiet", "")];
    let request = logs(own, &[&[("log.iostream", "stdout")]]).encode_to_vec();
    let arrival = enricher.arrival(None, NOW).raw();
    let changes = enricher.edits(Signal::Logs, &request, &arrival, Noise::Drop, ROOM).unwrap();
    let enriched = splice(Signal::Logs, &request, changes.edits).unwrap();
    let decoded = ExportLogsServiceRequest::decode(&enriched[..]).unwrap();
    let expected: Pairs<'_> = &[
        ("container.image.name", "registry:5000/shop/cart:1.4"),
        ("k8s.cluster.name", "prod"),
        ("k8s.cluster.uid", "uid-of-kube-system"),
        ("k8s.container.name", "app"),
        ("k8s.node.name", "node-1"),
        ("k8s.pod.annotation.example.com/owner", "blue"),
        ("k8s.pod.annotation.resource.opentelemetry.io/service.name", "shop"),
        ("k8s.pod.label.a.b/c", "d"),
        ("k8s.pod.label.aXb", "no"),
        ("k8s.pod.label.quiet", ""),
        ("k8s.pod.label.team", "blue"),
        ("k8s.pod.uid", "uid-of-cart"),
    ];
    assert_eq!(resource_pairs(decoded.resource_logs[0].resource.as_ref()), strings::<Vec<_>>(expected));
    assert_eq!(
        decoded.resource_logs[0].scope_logs,
        logs(own, &[&[("log.iostream", "stdout")]]).resource_logs[0].scope_logs
    );
    let again = enricher.edits(Signal::Logs, &enriched, &arrival, Noise::Drop, ROOM).unwrap();
    assert!(again.edits.is_empty(), "ENRICH-2");
    let room = (0..ROOM).find(|room| enricher.edits(Signal::Logs, &request, &arrival, Noise::Drop, *room).is_ok());
    assert!(room.unwrap() >= enriched.len() - request.len(), "ENRICH-4");
}
