//! Requests as prost structures, a pod to enrich them with, and the way from one to the other.

use std::net::IpAddr;
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use weir_enrich::{Enricher, Noise, PodList};
use weir_otlp::splice::splice;
use weir_otlp::{Limits, Signal, validate};
use weir_plan::{Cluster, ClusterFacts, Enrichment, Pod, PodLabels, ServiceEnrichment, Workload, WorkloadKind};

pub(crate) const NOW: u64 = 1_700_000_000_000_000_000;
pub(crate) const ROOM: usize = 1 << 20;

/// Keys and values, as tests write them.
pub(crate) type Pairs<'a> = &'a [(&'a str, &'a str)];

/// Enriches a request and checks what holds for each: the result is valid, and enriching it again changes nothing
/// (ENRICH-2). Returns it with the number of items that were noise.
pub(crate) fn enrich(
    enricher: &Enricher,
    signal: Signal,
    request: &[u8],
    peer: Option<&str>,
    noise: Noise,
) -> (Vec<u8>, u32) {
    let peer = peer.map(|peer| peer.parse::<IpAddr>().unwrap());
    let arrival = enricher.arrival(peer, NOW);
    let changes = enricher.edits(signal, request, &arrival, noise, ROOM).unwrap();
    let gone = changes.noise;
    let enriched = splice(signal, request, changes.edits).unwrap();
    validate(signal, &enriched, &Limits::default()).unwrap();

    let later = enricher.arrival(peer, NOW + 1);
    let again = enricher.edits(signal, &enriched, &later, noise, ROOM).unwrap();
    assert!(again.edits.is_empty(), "enriched twice: {:?}", again.edits);
    (enriched, gone)
}

/// A traces request of one resource and one span through an enricher that knows these pods; the attributes of the
/// resource afterwards, sorted.
pub(crate) fn enriched_resource(
    enrichment: &Enrichment,
    pods: &[Pod],
    own: Pairs<'_>,
    peer: Option<&str>,
) -> Vec<(String, String)> {
    let request = traces(own, &[&[]]).encode_to_vec();
    let (bytes, _) = enrich(&enricher(enrichment, pods), Signal::Traces, &request, peer, Noise::Drop);
    let enriched = ExportTraceServiceRequest::decode(&bytes[..]).unwrap();
    resource_pairs(enriched.resource_spans[0].resource.as_ref())
}

pub(crate) fn enricher(enrichment: &Enrichment, pods: &[Pod]) -> Enricher {
    Enricher::new(enrichment.clone(), Arc::new(PodList::new(facts(enrichment, pods))))
}

/// The node of [`cart`].
const NODE: &str = "node-1";

/// These pods, and the node of those that are on it. Of a cluster with a name more is known.
pub(crate) fn facts(enrichment: &Enrichment, pods: &[Pod]) -> ClusterFacts {
    let cluster = Cluster { uid: Some("uid-of-kube-system".into()), cloud_provider: Some("sap".into()) };
    let cluster = enrichment.cluster_name.is_some().then_some(cluster);
    let labels = Arc::new(strings(&[
        ("topology.kubernetes.io/region", "eu-1"),
        ("topology.kubernetes.io/zone", "eu-1a"),
        ("node.kubernetes.io/instance-type", "m5.large"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
    ]));
    let node = pods.iter().filter_map(|pod| pod.node.as_deref()).find(|node| *node == NODE);
    ClusterFacts {
        cluster: cluster.unwrap_or_default(),
        nodes: node.map(|node| (node.to_owned(), labels)).into_iter().collect(),
        pods: pods.iter().cloned().map(Arc::new).collect(),
        ..ClusterFacts::default()
    }
}

/// Nothing to add but the name of a service that has none.
pub(crate) fn legacy() -> Enrichment {
    mode(ServiceEnrichment::KymaLegacy)
}

pub(crate) fn mode(service: ServiceEnrichment) -> Enrichment {
    Enrichment { service, ..Enrichment::default() }
}

pub(crate) fn full_enrichment(service: ServiceEnrichment) -> Enrichment {
    let pod_labels = vec![PodLabels::Key("team".into()), PodLabels::Prefix("a.b".into())];
    Enrichment { service, cluster_name: Some("prod".into()), pod_labels }
}

/// A pod of a deployment with everything there is to know.
pub(crate) fn cart() -> Pod {
    Pod {
        name: "cart-5d9c-x2x4z".into(),
        namespace: "shop".into(),
        uid: "uid-of-cart".into(),
        ips: ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()].into(),
        labels: strings(&[("team", "blue"), ("a.b/c", "d"), ("aXb", "no"), ("quiet", "no")]),
        node: Some(NODE.into()),
        workloads: [workload(WorkloadKind::Deployment, "cart")].into(),
        containers: [("app".into(), "registry:5000/shop/cart:1.4".into())].into(),
        ..Pod::default()
    }
}

pub(crate) fn workload(kind: WorkloadKind, name: &str) -> Workload {
    Workload { kind, name: name.into() }
}

pub(crate) fn strings<C: FromIterator<(String, String)>>(pairs: Pairs<'_>) -> C {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn resource_pairs(resource: Option<&Resource>) -> Vec<(String, String)> {
    let mut pairs = pairs(resource.map_or(&[], |resource| &resource.attributes));
    pairs.sort();
    pairs
}

/// Attributes as keys and values.
pub(crate) fn pairs(attributes: &[KeyValue]) -> Vec<(String, String)> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}

pub(crate) fn attributes(pairs: Pairs<'_>) -> Vec<KeyValue> {
    pairs.iter().map(|(key, value)| key_value(key, Some(Value::StringValue((*value).into())))).collect()
}

pub(crate) fn key_value(key: &str, value: Option<Value>) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value }), key_strindex: 0 }
}

pub(crate) fn resource(own: Pairs<'_>) -> Option<Resource> {
    Some(Resource { attributes: attributes(own), ..Resource::default() })
}

/// A request of one resource and one scope, with a span for each list of attributes.
pub(crate) fn traces(own: Pairs<'_>, spans: &[Pairs<'_>]) -> ExportTraceServiceRequest {
    let span = |own: &Pairs<'_>| Span { attributes: attributes(own), ..Span::default() };
    let scope = ScopeSpans { spans: spans.iter().map(span).collect(), ..ScopeSpans::default() };
    let resource_spans =
        vec![ResourceSpans { resource: resource(own), scope_spans: vec![scope], ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }
}

/// A request of one resource and one scope, with an observed log record for each list of attributes.
pub(crate) fn logs(own: Pairs<'_>, records: &[Pairs<'_>]) -> ExportLogsServiceRequest {
    let record =
        |own: &Pairs<'_>| LogRecord { attributes: attributes(own), observed_time_unix_nano: 1, ..LogRecord::default() };
    let scope = ScopeLogs { log_records: records.iter().map(record).collect(), ..ScopeLogs::default() };
    let resource_logs =
        vec![ResourceLogs { resource: resource(own), scope_logs: vec![scope], ..ResourceLogs::default() }];
    ExportLogsServiceRequest { resource_logs }
}
