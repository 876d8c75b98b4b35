//! What happens to telemetry between its client and its backend, by configuration: selection, enrichment, transforms,
//! filters, temporality. Each case ends with books that balance.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, any_value::Value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use weir_engine::{Settings, settings::MEMORY_MIN};
use weir_plan::{PipelineId, Signal};
use weir_testkit::backend::Backend;
use weir_testkit::eventually;
use weir_testkit::grpc::{OK, UNIMPLEMENTED, frame};
use weir_testkit::http::{self, JSON, PROTOBUF};
use weir_testkit::manifests::POD;
use weir_testkit::metrics::whole;
use weir_testkit::payload::{self, attribute};
use weir_testkit::signals::{counter, deltas, document, encoded, items, logs, resources, text};
use weir_testkit::sink::closed_port;

use crate::support::{Gateway, configuration, settings};

pub(crate) async fn send(gateway: &Gateway, signal: Signal, request: &[u8]) {
    let answer = gateway.client().await.call(signal.grpc_method(), None, frame(request, false)).await;
    assert_eq!(answer.code, OK, "{signal:?}: {answer:?}");
}

/// All requests that arrived, one after the other, which is one request.
pub(crate) fn arrived(backend: &Backend) -> Vec<u8> {
    backend.captured().iter().flat_map(|request| request.plain.to_vec()).collect()
}

#[tokio::test]
async fn a_pipeline_takes_what_its_namespaces_say() {
    for signal in [Signal::Metrics, Signal::Logs] {
        let [all, some, others, nothing] =
            [Backend::start().await, Backend::start().await, Backend::start().await, Backend::start().await];
        let yaml = [
            document(signal, "all", all.address, ""),
            document(signal, "some", some.address, "  input: {otlp: {namespaces: {include: [shop, bank]}}}"),
            document(signal, "others", others.address, "  input: {otlp: {namespaces: {exclude: [shop]}}}"),
            document(signal, "nothing", nothing.address, "  input: {otlp: {enabled: false}}"),
        ];
        let gateway = Gateway::configured(&yaml.concat(), settings()).await;
        let from = |namespace: &str, ids| encoded(signal, &[("k8s.namespace.name", namespace)], ids);
        let request = [
            from("shop", 0..1),
            from("kube-system", 0..2),
            from("bank", 0..4),
            encoded(signal, &[("service.name", "nobody's")], 0..8),
        ]
        .concat();
        send(&gateway, signal, &request).await;
        gateway.settle().await;
        let per_id = items(signal, &from("shop", 0..1));
        let counts = [&all, &some, &others, &nothing].map(|backend| items(signal, &arrived(backend)) / per_id);
        assert_eq!(counts, [15, 1 + 4 + 8, 2 + 4 + 8, 0], "{signal:?}");
        let accepted = gateway.engine.books().into_iter().map(|(_, books)| books.accepted / per_id).collect::<Vec<_>>();
        assert_eq!(accepted, [15, 13, 14, 0], "what is not taken costs nothing and is not in the books");
        // A request of which nothing is left is answered OK and goes nowhere.
        send(&gateway, signal, &from("kube-system", 0..1)).await;
        gateway.settle().await;
        assert_eq!(some.captured().len(), 1);
    }
}

/// What a pipeline does not take costs it nothing: its rules see no item, its converter no series.
#[tokio::test]
async fn what_is_not_taken_is_not_processed() {
    for (signal, item, temporality) in
        [(Signal::Metrics, "datapoint", "      temporality: delta\n"), (Signal::Logs, "log", "")]
    {
        let backend = Backend::start().await;
        let rules = format!(
            "  transform:\n  - statements: ['set({item}.attributes[\"seen\"], true)']\n  \
             filter:\n  - conditions: ['{item}.attributes[\"seen\"] == nil']"
        );
        let ruled = |name: &str, input: &str| {
            let spec = format!("  input: {{otlp: {input}}}\n{rules}");
            document(signal, name, backend.address, &spec).replace("    otlp:\n", &format!("    otlp:\n{temporality}"))
        };
        let yaml = [
            ruled("all", "{}"),
            ruled("idle", "{enabled: false}"),
            ruled("elsewhere", "{namespaces: {exclude: [shop]}}"),
        ];
        let gateway = Gateway::configured(&yaml.concat(), settings()).await;
        send(&gateway, signal, &encoded(signal, &[("k8s.namespace.name", "shop")], 1..5)).await;
        gateway.settle().await;
        let page = gateway.scrape().await;
        let labels = |pipeline: &str| format!("pipeline=\"{pipeline}\",signal=\"{}\"", signal.name());
        let evaluated = |pipeline: &str| {
            let rule = format!("{{{},kind=\"transform_statement\",rule=\"0\",line=\"0\"}}", labels(pipeline));
            whole(page.get(&format!("weir_rule_matches_total{rule}")))
        };
        assert!(evaluated("all") > 0, "{signal:?}: the rules see what is taken");
        assert_eq!((evaluated("idle"), evaluated("elsewhere")), (0, 0), "{signal:?}");
        if signal == Signal::Metrics {
            let series = |pipeline: &str| whole(page.get(&format!("weir_temporality_series{{{}}}", labels(pipeline))));
            let points = |pipeline: &str| whole(page.sum("weir_temporality_points_total", &labels(pipeline)));
            assert!(series("all") > 0 && points("all") > 0);
            assert_eq!((series("idle"), points("idle"), series("elsewhere"), points("elsewhere")), (0, 0, 0, 0));
        }
    }
}

/// Pipelines select by what is known after enrichment: a namespace that only the lookup of the pod tells counts.
#[tokio::test]
async fn a_namespace_that_only_the_pod_tells_selects() {
    for signal in [Signal::Metrics, Signal::Logs] {
        let [only, except, other] = [Backend::start().await, Backend::start().await, Backend::start().await];
        let yaml = [
            document(signal, "only", only.address, "  input: {otlp: {namespaces: {include: [shop]}}}"),
            document(signal, "except", except.address, "  input: {otlp: {namespaces: {exclude: [shop]}}}"),
            document(signal, "other", other.address, "  input: {otlp: {namespaces: {include: [bank]}}}"),
        ];
        let gateway = Gateway::configured(&(yaml.concat() + POD), settings()).await;
        let counts = || [&only, &except, &other].map(|backend| backend.captured().len());
        // The peer is the pod in the namespace "shop".
        send(&gateway, signal, &encoded(signal, &[("service.version", "9")], 1..3)).await;
        gateway.settle().await;
        assert_eq!(counts(), [1, 0, 0], "{signal:?}");
        // Of a pod that nobody knows there is no namespace, and what has none is always taken.
        send(&gateway, signal, &encoded(signal, &[("k8s.pod.uid", "unknown")], 1..3)).await;
        gateway.settle().await;
        assert_eq!(counts(), [2, 1, 1], "{signal:?}");
    }
}

/// Where every pipeline of a signal has turned its input off, clients are told so instead of losing what they send.
#[tokio::test]
async fn a_signal_that_no_pipeline_takes_is_refused() {
    for signal in [Signal::Metrics, Signal::Logs] {
        let backend = Backend::start().await;
        let off = document(signal, "idle", backend.address, "  input: {otlp: {enabled: false}}");
        let mut gateway = Gateway::configured(&off, settings()).await;
        let request = encoded(signal, &[("service.name", "shop")], 1..3);
        let answer = gateway.client().await.call(signal.grpc_method(), None, frame(&request, false)).await;
        assert_eq!(answer.code, UNIMPLEMENTED, "{answer:?}");
        let reason = format!("no pipeline for {} is configured", signal.name());
        assert!(answer.message.contains(&reason), "{answer:?}");
        let answer = http::post_to(gateway.at.http, signal.http_path(), PROTOBUF, &request).await;
        assert_eq!(answer.status, 404, "{answer:?}");
        assert!(answer.text().contains(&reason), "{answer:?}");
        // One that takes it is enough.
        let on = document(signal, "taker", backend.address, "");
        gateway.engine.reload(&configuration(&(off + &on)).plan).unwrap();
        send(&gateway, signal, &request).await;
        gateway.settle().await;
        assert_eq!(arrived(&backend), request);
    }
}

/// The number of a filter, that of a condition in it, and how many items of [`three_services`] it removes.
type Removal = (u8, u8, u64);

/// Filters for each signal, and what their conditions remove.
const FILTERS: [(Signal, &str, &[Removal]); 3] = [
    (
        Signal::Traces,
        "  filter:\n  - conditions:\n    - IsMatch(span.name, \"/[0-3]$\")\n    \
         - resource.attributes[\"service.name\"] == \"shop\"\n    \
         - scope.name == \"tests\" and resource.attributes[\"service.name\"] == \"bank\"\n  \
         - conditions:\n    - resource.attributes[\"service.name\"] == \"shop\"\n    \
         - IsMatch(span.name, \"/[3-5]$\")",
        &[(0, 0, 4), (0, 1, 10), (0, 2, 10), (1, 0, 0), (1, 1, 2)],
    ),
    (
        Signal::Metrics,
        "  filter:\n  - conditions:\n    - IsMatch(datapoint.attributes[\"id\"], \"^[0-3]$\")\n    \
         - resource.attributes[\"service.name\"] == \"shop\"\n    \
         - scope.name == \"tests\" and resource.attributes[\"service.name\"] == \"bank\"\n    \
         - metric.type == METRIC_DATA_TYPE_SUMMARY\n  \
         - conditions:\n    - resource.attributes[\"service.name\"] == \"shop\"\n    \
         - IsMatch(datapoint.attributes[\"id\"], \"^[3-5]$\")",
        &[(0, 0, 4 * 4), (0, 1, 50), (0, 2, 50), (0, 3, 10), (1, 0, 0), (1, 1, 2 * 4)],
    ),
    (
        Signal::Logs,
        "  filter:\n  - conditions:\n    - log.severity_number <= SEVERITY_NUMBER_TRACE4\n    \
         - resource.attributes[\"service.name\"] == \"shop\"\n    \
         - scope.name == \"tests\" and resource.attributes[\"service.name\"] == \"bank\"\n  \
         - conditions:\n    - resource.attributes[\"service.name\"] == \"shop\"\n    \
         - log.severity_number <= SEVERITY_NUMBER_DEBUG2",
        &[(0, 0, 4), (0, 1, 10), (0, 2, 10), (1, 0, 0), (1, 1, 2)],
    ),
];

/// Items with the numbers 0 to 9 of each of three services.
fn three_services(signal: Signal) -> Vec<u8> {
    ["shop", "bank", "lab"].map(|service| encoded(signal, &[("service.name", service)], 0..10)).concat()
}

/// Each condition of a filter has its part of what the books call filtered, in items, whether it is about an item or
/// about all that is in a resource, scope or metric.
#[tokio::test]
async fn the_metrics_tell_which_condition_removed_how_much() {
    for (signal, filters, expected) in FILTERS {
        let backend = Backend::start().await;
        let gateway = Gateway::configured(&document(signal, "a", backend.address, filters), settings()).await;
        for _ in 0..2 {
            send(&gateway, signal, &three_services(signal)).await;
        }
        gateway.settle().await;
        let page = gateway.scrape().await;
        for (rule, line, items) in expected {
            let labels = format!(
                "pipeline=\"a\",signal=\"{}\",kind=\"filter_condition\",rule=\"{rule}\",line=\"{line}\"",
                signal.name()
            );
            let counted = whole(page.get(&format!("weir_rule_filtered_items_total{{{labels}}}")));
            assert_eq!(counted, 2 * items, "{signal:?}: condition {line} of filter {rule}");
        }
        let (_, books) = gateway.engine.books().remove(0);
        let sum = whole(page.sum("weir_rule_filtered_items_total", "pipeline=\"a\""));
        assert_eq!(books.filtered["filter"], sum, "{signal:?}: {books:?}");
        assert_eq!(books.delivered, items(signal, &arrived(&backend)), "{signal:?}");
        assert_eq!(books.accepted, 2 * items(signal, &three_services(signal)), "{signal:?}");
    }
}

/// Who is refused keeps the data and sends it again: nothing was removed from what is not here.
#[tokio::test]
async fn what_a_filter_removes_from_a_refused_request_is_not_counted() {
    const SPANS: u64 = 40;
    let filter = "  filter:\n  - conditions: ['IsMatch(span.name, \"[02468]$\")']";
    let yaml = document(Signal::Traces, "dead", closed_port().await, filter);
    let settings = Settings { memory: MEMORY_MIN, spill_after: Duration::from_millis(1), ..settings() };
    let gateway = Gateway::configured(&yaml, settings).await;
    let client = gateway.client().await;
    let (mut taken, mut refused) = (0, 0);
    while refused == 0 {
        match client.export(&payload::encoded(1 + taken * SPANS, SPANS, 20_000)).await.code {
            OK => taken += 1,
            _ => refused += 1,
        }
        assert!(taken < 1_000, "nothing is refused");
    }
    let books = gateway.books("dead");
    assert_eq!((books.accepted, books.filtered["filter"]), (taken * SPANS, taken * SPANS / 2));
    let page = gateway.scrape().await;
    assert_eq!(whole(page.sum("weir_rule_filtered_items_total", "pipeline=\"dead\"")), taken * SPANS / 2);
}

#[tokio::test]
async fn transforms_come_first_and_filters_see_what_they_made() {
    let rules = [
        (
            Signal::Traces,
            "  transform:\n  - conditions: ['IsMatch(span.name, \"/orders/[0-4]$\")']\n    statements:\n    \
             - set(span.attributes[\"marked\"], true)\n    - set(resource.attributes[\"seen\"], \"yes\")\n  \
             filter:\n  - conditions: ['span.attributes[\"marked\"] == true']",
        ),
        (
            Signal::Metrics,
            "  transform:\n  - conditions: ['datapoint.attributes[\"id\"] == \"3\"']\n    statements:\n    \
             - set(datapoint.attributes[\"marked\"], true)\n    - set(resource.attributes[\"seen\"], \"yes\")\n  \
             filter:\n  - conditions: ['datapoint.attributes[\"marked\"] == true']",
        ),
        (
            Signal::Logs,
            "  transform:\n  - conditions: ['log.severity_number < SEVERITY_NUMBER_DEBUG2']\n    statements:\n    \
             - set(log.attributes[\"marked\"], true)\n    - set(resource.attributes[\"seen\"], \"yes\")\n  \
             filter:\n  - conditions: ['log.attributes[\"marked\"] == true']",
        ),
    ];
    for (signal, rules) in rules {
        let (ruled, plain) = (Backend::start().await, Backend::start().await);
        let yaml = document(signal, "ruled", ruled.address, rules) + &document(signal, "plain", plain.address, "");
        let gateway = Gateway::configured(&yaml, settings()).await;
        let request = encoded(signal, &[("service.name", "shop")], 0..10);
        let total = items(signal, &request);
        send(&gateway, signal, &request).await;
        gateway.settle().await;
        assert_eq!(arrived(&plain), request, "{signal:?}: the neighbour gets the bytes as they were");
        let left = items(signal, &arrived(&ruled));
        let removed = if signal == Signal::Metrics { total / 10 } else { total / 2 };
        assert_eq!(left, total - removed, "{signal:?}");
        assert_eq!(text(&resources(signal, &arrived(&ruled))[0].attributes, "seen"), Some("yes"));
        let books = gateway.engine.books();
        let (_, books) = books.iter().find(|(id, _)| id.name == "ruled").unwrap();
        assert_eq!((books.accepted, books.delivered, books.filtered["filter"]), (total, left, removed), "{books:?}");
        let page = gateway.scrape().await;
        let figure = |name: &str, kind: &str, line: u8| {
            let signal = signal.name();
            whole(page.get(&format!(
                "{name}{{pipeline=\"ruled\",signal=\"{signal}\",kind=\"{kind}\",rule=\"0\",line=\"{line}\"}}"
            )))
        };
        assert_eq!(figure("weir_rule_matches_total", "filter_condition", 0), removed, "{signal:?}");
        assert_eq!(figure("weir_rule_matches_total", "transform_statement", 1), removed, "{signal:?}");
        assert_eq!(figure("weir_rule_errors_total", "transform_statement", 0), 0);
    }
}

/// `error_mode` is `ignore`, and what is ignored is seen.
#[tokio::test]
async fn a_statement_that_fails_is_counted_and_changes_nothing() {
    let backend = Backend::start().await;
    let rules = "  transform:\n  - statements:\n    - set(log.attributes[\"n\"], Int(log.body) + Len(log.severity_number))\n    \
                 - set(log.attributes[\"after\"], \"yes\")";
    let gateway = Gateway::configured(&document(Signal::Logs, "a", backend.address, rules), settings()).await;
    send(&gateway, Signal::Logs, &encoded(Signal::Logs, &[], 0..4)).await;
    gateway.settle().await;
    let request = ExportLogsServiceRequest::decode(arrived(&backend).as_slice()).unwrap();
    for record in &request.resource_logs[0].scope_logs[0].log_records {
        assert_eq!((text(&record.attributes, "n"), text(&record.attributes, "after")), (None, Some("yes")));
    }
    let page = gateway.scrape().await;
    let errors =
        "weir_rule_errors_total{pipeline=\"a\",signal=\"logs\",kind=\"transform_statement\",rule=\"0\",line=\"0\"}";
    assert_eq!(whole(page.get(errors)), 4);
}

/// Attributes of a resource as it is sent, and what some of them are when it arrives.
type Sent<'a> = &'a [(&'a str, &'a str)];

type Expected<'a> = &'a [(&'a str, Option<&'a str>)];

#[tokio::test]
async fn telemetry_says_which_pod_it_is_from() {
    let backends = [Backend::start().await, Backend::start().await, Backend::start().await];
    let documents = Signal::ALL.iter().zip(&backends);
    let documents: String = documents.map(|(signal, backend)| document(*signal, "a", backend.address, "")).collect();
    let gateway = Gateway::configured(&(documents + POD), settings()).await;
    let cases: [(Sent<'_>, Expected<'_>); 3] = [
        // By the address of the peer, which is this machine.
        (
            &[("service.version", "9")],
            &[
                ("k8s.pod.name", Some("orders-7d9f-abcde")),
                ("k8s.namespace.name", Some("shop")),
                ("k8s.deployment.name", Some("orders")),
                ("k8s.node.name", Some("node-1")),
                ("cloud.region", Some("eu-1")),
                ("host.arch", Some("arm64")),
                ("k8s.pod.label.team", Some("blue")),
                ("k8s.cluster.name", Some("garden")),
                ("k8s.cluster.uid", Some("cluster-1")),
                ("service.name", Some("orders")),
                ("service.version", Some("9")),
            ],
        ),
        // What is there stays, and what is internal goes.
        (
            &[("service.name", "mine"), ("k8s.cluster.name", "other"), ("kyma.input.name", "otlp")],
            &[("service.name", Some("mine")), ("k8s.cluster.name", Some("other")), ("kyma.input.name", None)],
        ),
        // Who names another pod is not the peer.
        (&[("k8s.pod.uid", "unknown")], &[("k8s.pod.name", None), ("k8s.cluster.name", Some("garden"))]),
    ];
    for (signal, backend) in Signal::ALL.into_iter().zip(&backends) {
        for (number, (sent, expected)) in cases.iter().enumerate() {
            send(&gateway, signal, &encoded(signal, sent, 1..3)).await;
            eventually("it arrives", async || backend.captured().len() == number + 1).await;
            let resource = &resources(signal, &backend.captured()[number].plain)[0];
            for (key, value) in *expected {
                assert_eq!(text(&resource.attributes, key), *value, "{signal:?} {key}");
            }
        }
    }
    gateway.settle().await;
}

/// Whether a request is changed in its place or copied depends on its size, its way and how many senders are in it. What
/// arrives does not.
#[tokio::test]
async fn large_requests_become_what_small_ones_become() {
    for signal in Signal::ALL {
        let backend = Backend::start().await;
        let gateway = Gateway::configured(&(document(signal, "a", backend.address, "") + POD), settings()).await;
        let from = |version: &str, count| encoded(signal, &[("service.version", version)], 1..count);
        let expected = resources_after(&gateway, &backend, Transport::Grpc, signal, &from("9", 2)).await;
        assert!(expected[0].attributes.len() > 10, "{expected:?}");
        let large = from("9", 3_000);
        assert!(large.len() > 64 << 10);
        for transport in [Transport::Grpc, Transport::Http, Transport::Json] {
            let one = resources_after(&gateway, &backend, transport, signal, &large).await;
            assert_eq!(one, expected, "{signal:?} {transport:?}");
            let two = [large.clone(), from("8", 3_000)].concat();
            let two = resources_after(&gateway, &backend, transport, signal, &two).await;
            let versions = two.iter().map(|resource| text(&resource.attributes, "service.version"));
            assert_eq!(versions.collect::<Vec<_>>(), [Some("9"), Some("8")], "{signal:?} {transport:?}");
            assert_eq!(&two[..1], &expected[..], "{signal:?} {transport:?}");
        }
    }
}

/// What became of the resources of a request, of which every item arrives.
async fn resources_after(
    gateway: &Gateway,
    backend: &Backend,
    transport: Transport,
    signal: Signal,
    request: &[u8],
) -> Vec<Resource> {
    let (before, calls) = (arrived(backend).len(), backend.captured().len());
    transport.send(gateway, signal, request).await;
    gateway.settle().await;
    let whole = arrived(backend).split_off(before);
    assert_eq!(items(signal, &whole), items(signal, request), "{signal:?} {transport:?}");
    assert!(backend.captured().len() > calls);
    let mut found = resources(signal, &whole);
    // A large request is delivered in several, each with its resource.
    found.dedup();
    found
}

/// What is internal is gone before the first rule of a user runs, so that no rule comes to depend on it.
#[tokio::test]
async fn rules_do_not_see_internal_attributes() {
    for signal in Signal::ALL {
        let item = match signal {
            Signal::Traces => "span",
            Signal::Metrics => "datapoint",
            Signal::Logs => "log",
        };
        let backend = Backend::start().await;
        let rules = format!(
            "  transform:\n  - statements:\n    \
             - set({item}.attributes[\"copied\"], resource.attributes[\"kyma.input.name\"])\n    \
             - set({item}.attributes[\"other\"], resource.attributes[\"kymatic\"])\n    \
             - set(resource.attributes[\"keys\"], String(Keys(resource.attributes)))\n  \
             filter:\n  - conditions:\n    - resource.attributes[\"kyma.input.name\"] != nil\n    \
             - {item}.attributes[\"copied\"] != nil\n    \
             - {item}.attributes[\"other\"] == nil"
        );
        let gateway = Gateway::configured(&document(signal, "a", backend.address, &rules), settings()).await;
        let sent = [("kyma.input.name", "otlp"), ("kymatic", "yes"), ("kyma.kubernetes_ip", "10.0.0.1")];
        let request = encoded(signal, &sent, 0..3);
        send(&gateway, signal, &request).await;
        gateway.settle().await;
        let left = arrived(&backend);
        assert_eq!(items(signal, &left), items(signal, &request), "{signal:?}: no condition held");
        let resource = resources(signal, &left).remove(0);
        let keys = text(&resource.attributes, "keys").unwrap();
        assert!(keys.contains("kymatic") && !keys.contains("kyma."), "{signal:?}: {keys}");
    }
}

/// A span that Istio's proxy made of a request to the gateway itself, and one of the application.
pub(crate) fn with_noise() -> Vec<u8> {
    let mut request = payload::request(1, 4, 0);
    let noise = [
        ("component", "proxy"),
        ("http.method", "POST"),
        ("upstream_cluster.name", "outbound|4317||telemetry-otlp-traces.kyma-system.svc.cluster.local"),
        ("http.url", "http://telemetry-otlp-traces.kyma-system:4317/v1/traces"),
    ];
    let span = &mut request.resource_spans[0].scope_spans[0].spans[2];
    span.attributes.extend(noise.map(|(key, value)| attribute(key, value)));
    request.encode_to_vec()
}

#[tokio::test]
async fn noise_of_a_mesh_is_left_out_unless_it_is_wanted() {
    let (quiet, whole) = (Backend::start().await, Backend::start().await);
    let wants = document(Signal::Traces, "whole", whole.address, "")
        .replace("  name: whole", "  name: whole\n  annotations: {weir.dev/istio-noise-filter: disabled}");
    let yaml = document(Signal::Traces, "quiet", quiet.address, "") + &wants;
    let gateway = Gateway::configured(&yaml, settings()).await;
    send(&gateway, Signal::Traces, &with_noise()).await;
    gateway.settle().await;
    assert_eq!((quiet.ids(), whole.ids()), (vec![1, 2, 4], vec![1, 2, 3, 4]));
    assert_eq!(gateway.books("quiet").filtered["istio_noise"], 1);
    assert!(gateway.books("whole").filtered.is_empty());
    // Of a large request, one of the two is made beside the other.
    let mut large = ExportTraceServiceRequest::decode(&with_noise()[..]).unwrap();
    large.resource_spans[0].resource.get_or_insert_default().attributes.push(attribute("kyma.input.name", "otlp"));
    large.resource_spans[0].scope_spans.extend(payload::request(5, 100, 1_000).resource_spans.remove(0).scope_spans);
    send(&gateway, Signal::Traces, &large.encode_to_vec()).await;
    gateway.settle().await;
    assert_eq!((quiet.ids().len(), whole.ids().len()), (3 + 103, 4 + 104));
    assert_eq!(gateway.books("quiet").filtered["istio_noise"], 2);
    for backend in [&quiet, &whole] {
        let keys = resources(Signal::Traces, &arrived(backend)).into_iter().flat_map(|resource| resource.attributes);
        assert!(keys.map(|attribute| attribute.key).all(|key| !key.starts_with("kyma.")));
    }
}

#[tokio::test]
async fn cumulative_becomes_delta_for_the_pipeline_that_asks() {
    let (delta, cumulative) = (Backend::start().await, Backend::start().await);
    let asks = document(Signal::Metrics, "delta", delta.address, "")
        .replace("    otlp:\n", "    otlp:\n      temporality: delta\n");
    let yaml = asks + &document(Signal::Metrics, "cumulative", cumulative.address, "");
    let gateway = Gateway::configured(&yaml, settings()).await;
    for (second, value) in [(1, 10), (2, 15), (2, 15), (3, 15), (5, 40)] {
        send(&gateway, Signal::Metrics, &counter(second, value)).await;
    }
    gateway.settle().await;
    assert_eq!(deltas(&arrived(&delta)), [(1, 5), (1, 0), (1, 25)], "the first is where counting begins");
    assert_eq!(deltas(&arrived(&cumulative)), [(2, 10), (2, 15), (2, 15), (2, 15), (2, 40)]);
    let books = gateway.engine.books();
    let (_, books) = books.iter().find(|(id, _)| id.name == "delta").unwrap();
    assert_eq!((books.accepted, books.delivered, books.filtered["temporality"]), (5, 3, 2), "{books:?}");
    let page = gateway.scrape().await;
    let duplicates =
        "weir_temporality_points_total{pipeline=\"delta\",signal=\"metrics\",outcome=\"dropped\",reason=\"duplicate\"}";
    assert_eq!(whole(page.get(duplicates)), 1);
}

/// Rules and facts about pods change with the configuration; what a converter remembers does not.
#[tokio::test]
async fn a_changed_configuration_applies_to_what_arrives_from_then_on() {
    let (logs, points) = (Backend::start().await, Backend::start().await);
    let yaml = |condition: &str, cluster: &str| {
        let filter = format!("  filter:\n  - conditions: ['{condition}']");
        let delta = document(Signal::Metrics, "b", points.address, "")
            .replace("    otlp:\n", "    otlp:\n      temporality: delta\n");
        document(Signal::Logs, "a", logs.address, &filter) + &delta + &POD.replace("garden", cluster)
    };
    let mut gateway = Gateway::configured(&yaml("log.severity_number == 1", "garden"), settings()).await;
    send(&gateway, Signal::Logs, &encoded(Signal::Logs, &[], 0..4)).await;
    send(&gateway, Signal::Metrics, &counter(1, 10)).await;
    gateway.settle().await;
    let changes = gateway.engine.reload(&configuration(&yaml("log.severity_number > 1", "garden")).plan).unwrap();
    assert_eq!(
        (changes.changed, changes.added, changes.removed),
        (vec![PipelineId::new(Signal::Logs, "a")], vec![], vec![])
    );
    send(&gateway, Signal::Metrics, &counter(2, 15)).await;
    gateway.settle().await;
    assert_eq!(deltas(&arrived(&points)), [(1, 5)]);
    assert!(gateway.engine.reload(&configuration(&yaml("log.severity_number > 1", "park")).plan).unwrap().is_empty());
    send(&gateway, Signal::Logs, &encoded(Signal::Logs, &[], 0..4)).await;
    gateway.settle().await;
    let captured = logs.captured();
    let counts: Vec<_> = captured.iter().map(|request| items(Signal::Logs, &request.plain)).collect();
    assert_eq!(counts, [3, 1]);
    let clusters = captured.iter().map(|request| resources(Signal::Logs, &request.plain).remove(0));
    let clusters: Vec<_> =
        clusters.map(|resource| text(&resource.attributes, "k8s.cluster.name").map(str::to_owned)).collect();
    assert_eq!(clusters, [Some("garden".to_owned()), Some("park".to_owned())]);
}

/// A statement cannot make a request grow without end: it fails where it would, and everything else goes on.
#[tokio::test]
async fn what_grows_too_far_is_left_as_it_was() {
    for (signal, item) in [(Signal::Traces, "span"), (Signal::Metrics, "datapoint"), (Signal::Logs, "log")] {
        let (grown, plain) = (Backend::start().await, Backend::start().await);
        let attribute = format!("{item}.attributes[\"a\"]");
        let quadruple =
            format!("    - set({attribute}, Concat([{attribute}, {attribute}, {attribute}, {attribute}], \"\"))\n");
        let rules = format!(
            "  transform:\n  - statements:\n    - set({attribute}, \"0123456789abcdef\")\n{}",
            quadruple.repeat(12)
        );
        let yaml = document(signal, "grown", grown.address, &rules) + &document(signal, "plain", plain.address, "");
        let gateway = Gateway::configured(&yaml, settings()).await;
        let request = encoded(signal, &[("service.name", "shop")], 1..11);
        let failures = async || whole(gateway.scrape().await.sum("weir_rule_errors_total", "pipeline=\"grown\""));
        let mut before = 0;
        for (number, transport) in [Transport::Grpc, Transport::Http, Transport::Json].into_iter().enumerate() {
            transport.send(&gateway, signal, &request).await;
            gateway.settle().await;
            let [grown, plain] = [&grown, &plain].map(|backend| backend.captured().swap_remove(number).plain);
            // A small request may become 64 KiB larger.
            let added = grown.len() - plain.len();
            assert!((16 << 10..=64 << 10).contains(&added), "{signal:?} {transport:?}: {added}");
            assert_eq!(items(signal, &grown), items(signal, &request), "{signal:?} {transport:?}");
            assert_eq!(items(signal, &plain), items(signal, &request), "{signal:?} {transport:?}: others go on");
            let after = failures().await;
            assert!(after > before, "{signal:?} {transport:?}: what was not done is counted");
            before = after;
        }
    }
}

/// A way into the gateway.
#[derive(Debug, Clone, Copy)]
enum Transport {
    Grpc,
    Http,
    Json,
}

impl Transport {
    /// Sends a request that is given as protobuf; it is taken.
    async fn send(self, gateway: &Gateway, signal: Signal, request: &[u8]) {
        let (content_type, body) = match self {
            Self::Grpc => return send(gateway, signal, request).await,
            Self::Http => (PROTOBUF, request.to_vec()),
            Self::Json => (JSON, weir_otlp::to_json(signal, request, &weir_otlp::Limits::default()).unwrap().text),
        };
        let answer = http::post_to(gateway.at.http, signal.http_path(), content_type, &body).await;
        assert_eq!(answer.status, 200, "{signal:?} {self:?}: {answer:?}");
    }
}

/// Log records whose bodies are JSON; every other one is of level debug.
fn json_logs(records: u64, message: &str) -> ExportLogsServiceRequest {
    let mut request = logs(&[], 0..records);
    for (number, record) in request.resource_logs[0].scope_logs[0].log_records.iter_mut().enumerate() {
        let level = if number % 2 == 0 { "debug" } else { "info" };
        let text = format!("{{\"level\": \"{level}\", \"message\": \"{message}\", \"numbers\": [1, 2, 3]}}");
        record.body = Some(AnyValue { value: Some(Value::StringValue(text)) });
    }
    request
}

/// What a condition calculates is no part of the request: neither its size nor what statements added limits it.
#[tokio::test]
async fn a_condition_may_calculate_whatever_the_size_of_the_request() {
    let debug = "ParseJSON(log.body)[\"level\"] == \"debug\"";
    let filter = format!("  filter:\n  - conditions: ['{debug}']");
    // The padding takes all that may be added before the second transform has its turn.
    let marked = format!(
        "  transform:\n  - statements:\n    - set(log.attributes[\"pad\"], Concat([log.body, log.body, log.body], \"\"))\n    \
         - set(log.attributes[\"last\"], log.attributes[\"team\"])\n  - conditions: ['{debug}']\n    statements:\n    \
         - set(log.severity_text, \"GONE\")\n  filter:\n  - conditions: ['log.severity_text == \"GONE\"']"
    );
    for (records, message) in
        [(1, "x"), (10, "x"), (10_000, "x"), (3_000, &"x".repeat(1_000)), (2, &"x".repeat(1 << 20))]
    {
        let (filtered, changed) = (Backend::start().await, Backend::start().await);
        let yaml = document(Signal::Logs, "filtered", filtered.address, &filter)
            + &document(Signal::Logs, "changed", changed.address, &marked);
        let gateway = Gateway::configured(&yaml, settings()).await;
        send(&gateway, Signal::Logs, &json_logs(records, message).encode_to_vec()).await;
        gateway.settle().await;
        let debug = records.div_ceil(2);
        let page = gateway.scrape().await;
        let sum = |name: &str, pipeline: &str, kind: &str| {
            let figure =
                format!("{name}{{pipeline=\"{pipeline}\",signal=\"logs\",kind=\"{kind}\",rule=\"0\",line=\"0\"}}");
            whole(page.get(&figure))
        };
        assert_eq!(sum("weir_rule_errors_total", "filtered", "filter_condition"), 0, "{records} of {}", message.len());
        assert_eq!(sum("weir_rule_matches_total", "filtered", "filter_condition"), debug);
        for (name, backend) in [("filtered", &filtered), ("changed", &changed)] {
            assert_eq!(
                items(Signal::Logs, &arrived(backend)),
                records - debug,
                "{name}: {records} of {}",
                message.len()
            );
        }
        if records > 1_000 {
            assert!(sum("weir_rule_errors_total", "changed", "transform_statement") > 0, "nothing was used up");
        }
    }
}

/// What is not changed by a rule keeps its bytes, also fields that nobody knows yet.
#[tokio::test]
async fn unknown_fields_survive_every_step() {
    let backend = Backend::start().await;
    let rules = "  transform:\n  - statements: ['set(span.attributes[\"added\"], 1)']\n  filter:\n  - conditions: ['span.name == \"no\"']";
    let gateway = Gateway::configured(&document(Signal::Traces, "a", backend.address, rules), settings()).await;
    let mut span = payload::request(1, 1, 0).resource_spans[0].scope_spans[0].spans[0].encode_to_vec();
    // Field 31 as text, in the span.
    span.extend_from_slice(b"\xfa\x01\x03new");
    let wrap = |number: u8, body: &[u8]| {
        let mut field = vec![number << 3 | 2];
        prost::encoding::encode_varint(body.len() as u64, &mut field);
        field.extend_from_slice(body);
        field
    };
    let request = wrap(1, &wrap(2, &wrap(2, &span)));
    send(&gateway, Signal::Traces, &request).await;
    gateway.settle().await;
    let sent = arrived(&backend);
    assert!(sent.windows(6).any(|window| window == b"\xfa\x01\x03new"), "the field is there");
    let spans = &ExportTraceServiceRequest::decode(sent.as_slice()).unwrap().resource_spans[0].scope_spans[0].spans;
    assert!(spans[0].attributes.iter().any(|attribute| attribute.key == "added"));
}
