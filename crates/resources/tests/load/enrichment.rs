//! What `Telemetry` becomes in the plan, and objects of a cluster beside it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_plan::{
    Cluster, ClusterFacts, CollectionIntervals, Enrichment, Pod, PodLabels, Secret, ServiceEnrichment, Workload,
    WorkloadKind,
};
use weir_resources::{Loaded, Source, load};

use crate::{loaded, options, plan, with_pipeline};

#[test]
fn telemetry_says_how_to_enrich() {
    let enrichment = |metadata: &str, spec: &str| {
        plan(&with_pipeline(&format!(
            "apiVersion: operator.kyma-project.io/v1beta1\nkind: Telemetry\nmetadata: {metadata}\nspec: {spec}"
        )))
        .enrichment
    };
    let annotated = |value: &str| {
        format!("{{name: default, annotations: {{telemetry.kyma-project.io/service-enrichment: {value}}}}}")
    };
    assert_eq!(enrichment(&annotated("otel"), "{}").service, ServiceEnrichment::Otel);
    assert_eq!(enrichment(&annotated("kyma-legacy"), "{}").service, ServiceEnrichment::KymaLegacy);
    assert_eq!(enrichment("{name: default}", "").service, ServiceEnrichment::KymaLegacy);
    assert_eq!(enrichment("{name: other}", "{enrichments: {cluster: {name: a}}}"), Enrichment::default());
    assert_eq!(plan(&with_pipeline("")).enrichment.service, ServiceEnrichment::Otel, "no Telemetry at all");

    let spec = "{enrichments: {cluster: {name: prod}, extractPodLabels: [{key: team}, {keyPrefix: app/}]}}";
    let expected = Enrichment {
        service: ServiceEnrichment::Otel,
        cluster_name: Some("prod".to_owned()),
        pod_labels: vec![PodLabels::Key("team".to_owned()), PodLabels::Prefix("app/".to_owned())],
    };
    assert_eq!(enrichment(&annotated("otel"), spec), expected);
}

/// An input's own interval, else that of all, else the default.
#[test]
fn telemetry_says_how_often_metrics_are_fetched() {
    let intervals = |metric: &str| {
        plan(&with_pipeline(&format!(
            "apiVersion: operator.kyma-project.io/v1beta1\nkind: Telemetry\nmetadata: {{name: default}}\nspec: {metric}"
        )))
        .intervals
    };
    let seconds = |runtime, prometheus, istio| {
        let [runtime, prometheus, istio] = [runtime, prometheus, istio].map(Duration::from_secs);
        CollectionIntervals { runtime, prometheus, istio }
    };
    assert_eq!(intervals("{}"), seconds(30, 30, 30));
    assert_eq!(intervals("{metric: {istio: {collectionInterval: 1m30s}}}"), seconds(30, 30, 90));
    assert_eq!(intervals("{metric: {collectionInterval: 10s}}"), seconds(10, 10, 10));
    let all =
        "{metric: {collectionInterval: 1h, runtime: {collectionInterval: 5s}, prometheus: {collectionInterval: 1m}}}";
    assert_eq!(intervals(all), seconds(5, 60, 3600));
    assert_eq!(plan(&with_pipeline("")).intervals, CollectionIntervals::default(), "no Telemetry at all");
}

fn map<C: FromIterator<(String, String)>>(entries: &[(&str, &str)]) -> C {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn workload(kind: WorkloadKind, name: &str) -> Workload {
    Workload { kind, name: name.into() }
}

const OBJECTS: &str = include_str!("../cluster.yaml");

#[test]
fn objects_of_a_cluster_are_known_beside_the_plan() {
    let ClusterFacts { cluster, nodes, pods, .. } = loaded(&with_pipeline(OBJECTS)).cluster;
    let expected = Cluster {
        uid: Some("5f2a8c0e-7d1b-4f3a-9a6e-1c2d3e4f5a6b".to_owned()),
        cloud_provider: Some("sap".to_owned()),
    };
    assert_eq!(cluster, expected);

    let of_node = map(&[
        ("kubernetes.io/arch", "amd64"),
        ("node.kubernetes.io/instance-type", "m5.large"),
        ("topology.kubernetes.io/region", "eu-central-1"),
        ("topology.kubernetes.io/zone", "eu-central-1a"),
    ]);
    assert_eq!(nodes, BTreeMap::from([("node-1".to_owned(), Arc::new(of_node))]));
    let cart = Pod {
        name: "cart-7d9c5b6f4-x2x8p".into(),
        namespace: "shop".into(),
        uid: "0b5d1f0e-98d2-4e5a-8c43-6a7c1ce9a001".into(),
        ips: ["10.96.3.17".parse().unwrap(), "fd00::311".parse().unwrap()].into(),
        labels: map(&[("app.kubernetes.io/name", "cart"), ("pod-template-hash", "7d9c5b6f4")]),
        annotations: map(&[("resource.opentelemetry.io/service.name", "shopping-cart")]),
        other_annotations: BTreeMap::from([("kubernetes.io/psp".to_owned(), Secret::new("privileged"))]),
        multiline: None,
        node: Some("node-1".into()),
        workloads: [workload(WorkloadKind::Deployment, "cart")].into(),
        containers: [("cart", "registry.example.com/cart:1.4.2"), ("proxy", "proxy:2"), ("init", "busybox")]
            .map(|(name, image)| (name.into(), image.into()))
            .into(),
    };
    assert_eq!(*pods[0], cart);
    let workloads: Vec<_> = pods.iter().map(|pod| (&*pod.name, &*pod.workloads)).collect();
    use WorkloadKind::{CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet};
    assert_eq!(
        workloads,
        [
            ("cart-7d9c5b6f4-x2x8p", [workload(Deployment, "cart")].as_slice()),
            ("bare-6c4-a", &[workload(ReplicaSet, "bare-6c4")]),
            ("report-29-b", &[workload(Job, "report-29"), workload(CronJob, "report")]),
            ("once-c", &[workload(Job, "once")]),
            ("db-0", &[workload(StatefulSet, "db")]),
            ("agent-d", &[workload(DaemonSet, "agent")]),
            ("alone", &[]),
        ]
    );
    let ips: Vec<_> = pods.iter().map(|pod| pod.ips.len()).collect();
    assert_eq!(ips, [2, 1, 0, 1, 1, 0, 0], "none once a pod has ended, in the host's network, and before there is one");
    assert_eq!(&*pods[6].namespace, "default");
}

#[test]
fn objects_may_come_from_files_of_their_own() {
    let file = |name: &str, text: &str| Source { name: name.to_owned(), text: text.to_owned() };
    let (pipelines, pods) = (with_pipeline(""), OBJECTS);
    let sources = [file("pods.yaml", pods), file("pipelines.yaml", &pipelines)];
    let loaded = load(&sources, &options()).unwrap();
    assert_eq!(loaded.cluster.pods.len(), 7);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn the_example_for_pods() {
    let Loaded { plan, cluster, .. } = loaded(include_str!("../../../../examples/pods.yaml"));
    assert_eq!(plan.pipelines.len(), 1);
    assert_eq!(cluster.cluster.cloud_provider.as_deref(), Some("aws"));
    let pod = &cluster.pods[0];
    assert_eq!(*pod.workloads, [workload(WorkloadKind::Deployment, "cart")]);
    let of_node = &cluster.nodes[pod.node.as_deref().unwrap()];
    assert_eq!((of_node.len(), pod.labels.iter().count(), pod.annotations.iter().count()), (4, 2, 1));
}

/// They are in every log record of a pipeline that wants them.
#[test]
fn annotations_of_a_pod_are_bounded() {
    let (large, small) = ("x".repeat(10 << 10), "y".repeat(6000));
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{b/large: {large}, c: {large}, a: {small}}}}}\n"
    );
    let Loaded { cluster, warnings, .. } = loaded(&with_pipeline(&text));
    let kept: Vec<_> = cluster.pods[0].other_annotations.keys().map(String::as_str).collect();
    assert_eq!(kept, ["a", "c"]);
    let warning = warnings.iter().find(|warning| warning.field == "metadata.annotations").unwrap();
    assert_eq!(warning.message, "log records will not have the annotations b/large");
}
