//! Noise in Istio's metrics.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
};
use prost::Message as _;
use weir_enrich::Noise;
use weir_otlp::Signal;
use weir_otlp::splice::splice;

use crate::support::{Pairs, ROOM, attributes, enrich, enricher, legacy, resource};

type OfKind = fn(Vec<Vec<KeyValue>>) -> Data;

/// Data of each kind, with a point for each list of attributes.
const KINDS: [OfKind; 5] = [
    |points| Data::Gauge(Gauge { data_points: numbers(points) }),
    |points| Data::Sum(Sum { data_points: numbers(points), aggregation_temporality: 2, is_monotonic: true }),
    |points| {
        let point = |attributes| HistogramDataPoint { attributes, ..HistogramDataPoint::default() };
        Data::Histogram(Histogram { data_points: points.into_iter().map(point).collect(), aggregation_temporality: 1 })
    },
    |points| {
        let point =
            |attributes| ExponentialHistogramDataPoint { attributes, ..ExponentialHistogramDataPoint::default() };
        let data_points = points.into_iter().map(point).collect();
        Data::ExponentialHistogram(ExponentialHistogram { data_points, aggregation_temporality: 1 })
    },
    |points| {
        let point = |attributes| SummaryDataPoint { attributes, ..SummaryDataPoint::default() };
        Data::Summary(Summary { data_points: points.into_iter().map(point).collect() })
    },
];

fn numbers(points: Vec<Vec<KeyValue>>) -> Vec<NumberDataPoint> {
    points.into_iter().map(|attributes| NumberDataPoint { attributes, ..NumberDataPoint::default() }).collect()
}

fn metric(name: &str, kind: OfKind, points: &[Pairs<'_>]) -> Metric {
    let points = points.iter().map(|own| attributes(own)).collect();
    Metric { name: name.into(), data: Some(kind(points)), ..Metric::default() }
}

fn request(scopes: Vec<Vec<Metric>>) -> ExportMetricsServiceRequest {
    let scope = |metrics| ScopeMetrics { metrics, schema_url: "s".into(), ..ScopeMetrics::default() };
    let holder = ResourceMetrics {
        resource: resource(&[("service.name", "mine")]),
        scope_metrics: scopes.into_iter().map(scope).collect(),
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![holder] }
}

fn check(before: &ExportMetricsServiceRequest, after: &ExportMetricsServiceRequest, noise: u32) {
    let bytes = before.encode_to_vec();
    let enricher = enricher(&legacy(), &[]);
    let arrival = enricher.arrival(None, 0).of_istio();
    let changes = enricher.edits(Signal::Metrics, &bytes, &arrival, Noise::Drop, ROOM).unwrap();
    assert_eq!((changes.noise, changes.edits.is_empty()), (noise, noise == 0));
    let spliced = splice(Signal::Metrics, &bytes, changes.edits).unwrap();
    assert_eq!(ExportMetricsServiceRequest::decode(&spliced[..]).unwrap(), *after);
}

const AGENT: Pairs<'_> = &[("source_workload", "telemetry-metric-agent")];
const KEPT: Pairs<'_> = &[("source_workload", "shop"), ("destination_workload", "cart")];

#[test]
fn points_of_every_kind_are_told_apart() {
    const SHOP: (&str, &str) = ("source_workload_namespace", "shop");
    const KYMA: (&str, &str) = ("source_workload_namespace", "kyma-system");
    let points: [(Pairs<'_>, bool); 18] = [
        (AGENT, true),
        (&[("destination_workload", "telemetry-otlp-gateway")], true),
        (&[("destination_workload", "telemetry-log-gateway")], true),
        (&[("destination_workload", "telemetry-gateway")], true),
        (&[("destination_workload", "telemetry-gateway-stateful")], true),
        (&[("destination_workload", "telemetry-metric-gateway")], true),
        (&[("destination_workload", "telemetry-trace-gateway"), ("source_workload", "shop")], true),
        (&[("destination_workload", "telemetry-metric-agent")], false),
        // By default the gateway's process scrapes, and beside replicas both agents do.
        (&[("source_workload", "telemetry-otlp-gateway")], true),
        (&[("source_workload", "telemetry-agent"), KYMA], true),
        (&[("source_workload", "telemetry-agent"), SHOP], false),
        (&[AGENT[0], SHOP], false),
        (&[("source_workload", "telemetry-log-agent"), KYMA], false),
        (&[("source_workload", "telemetry-gateway"), KYMA], false),
        (&[("destination_workload", "telemetry-gateway"), KYMA, ("destination_workload_namespace", "shop")], false),
        (
            &[("destination_workload", "telemetry-gateway"), SHOP, ("destination_workload_namespace", "kyma-system")],
            true,
        ),
        (KEPT, false),
        (&[], false),
    ];
    let all: Vec<_> = points.iter().map(|(own, _)| *own).collect();
    let kept: Vec<_> = points.iter().filter(|(_, noise)| !noise).map(|(own, _)| *own).collect();
    for kind in KINDS {
        let before = request(vec![vec![metric("istio_requests_total", kind, &all)]]);
        check(&before, &request(vec![vec![metric("istio_requests_total", kind, &kept)]]), 10);
        let other = request(vec![vec![metric("requests_total", kind, &all), metric("my_istio_x", kind, &all)]]);
        check(&other, &other, 0);
    }
}

#[test]
fn what_is_left_empty_goes() {
    let [gauge, sum, ..] = KINDS;
    let before = request(vec![
        vec![metric("istio_a", gauge, &[AGENT]), metric("istio_b", sum, &[AGENT, AGENT])],
        vec![metric("istio_a", gauge, &[AGENT]), metric("istio_b", sum, &[AGENT, KEPT])],
        vec![metric("istio_a", gauge, &[AGENT]), Metric { name: "istio_unknown_kind".into(), ..Metric::default() }],
        vec![],
    ]);
    let after = request(vec![
        vec![metric("istio_b", sum, &[KEPT])],
        vec![Metric { name: "istio_unknown_kind".into(), ..Metric::default() }],
        vec![],
    ]);
    check(&before, &after, 6);
    let nothing = ExportMetricsServiceRequest { resource_metrics: Vec::new() };
    check(&request(vec![vec![metric("istio_a", gauge, &[AGENT])], vec![]]), &nothing, 1);
}

/// What clients push is theirs.
#[test]
fn pushed_metrics_are_not_looked_at() {
    let pushed = request(vec![vec![metric("istio_a", KINDS[0], &[AGENT])]]).encode_to_vec();
    let enricher = enricher(&legacy(), &[]);
    assert_eq!(enrich(&enricher, Signal::Metrics, &pushed, None, Noise::Drop), (pushed.clone(), 0));
    let anonymous = ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            scope_metrics: vec![ScopeMetrics::default()],
            ..ResourceMetrics::default()
        }],
    };
    let (bytes, _) = enrich(&enricher, Signal::Metrics, &anonymous.encode_to_vec(), None, Noise::Drop);
    let enriched = ExportMetricsServiceRequest::decode(&bytes[..]).unwrap();
    assert_eq!(enriched.resource_metrics[0].resource, resource(&[("service.name", "unknown_service")]));
}
