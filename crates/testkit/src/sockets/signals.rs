//! Requests of all three signals with items that are numbered, and what of them arrived.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint, exemplar, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use weir_plan::Signal;

use super::payload::{self, attribute};

/// Nanoseconds since the Unix epoch at which everything happens.
pub const TIME: u64 = 1_700_000_000_000_000_000;

/// A pipeline of this signal to a local backend, with more fields of its `spec`.
pub fn document(signal: Signal, name: &str, backend: SocketAddr, spec: &str) -> String {
    let kind = super::manifests::kind(signal);
    format!(
        "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n  output:\n    \
         otlp:\n      compression: none\n      endpoint:\n        value: http://{backend}\n{spec}\n---\n"
    )
}

/// A resource with these attributes.
pub fn resource(attributes: &[(&str, &str)]) -> Resource {
    Resource {
        attributes: attributes.iter().map(|(key, value)| attribute(key, value)).collect(),
        ..Resource::default()
    }
}

fn scope() -> Option<InstrumentationScope> {
    Some(InstrumentationScope { name: "tests".into(), version: "1".into(), ..InstrumentationScope::default() })
}

/// An encoded request of one resource with these attributes and these items.
pub fn encoded(signal: Signal, attributes: &[(&str, &str)], ids: std::ops::Range<u64>) -> Vec<u8> {
    match signal {
        Signal::Traces => {
            let mut request = payload::request(ids.start, ids.end - ids.start, 10);
            request.resource_spans[0].resource = Some(resource(attributes));
            request.encode_to_vec()
        }
        Signal::Metrics => metrics(attributes, ids).encode_to_vec(),
        Signal::Logs => logs(attributes, ids).encode_to_vec(),
    }
}

/// Log records whose body is their number, and whose severity goes from 1 to 24 and on.
pub fn logs(attributes: &[(&str, &str)], ids: std::ops::Range<u64>) -> ExportLogsServiceRequest {
    let record = |id: u64| LogRecord {
        time_unix_nano: TIME + id,
        observed_time_unix_nano: TIME + id,
        severity_number: i32::try_from(id % 24 + 1).unwrap(),
        severity_text: "INFO".into(),
        body: Some(AnyValue { value: Some(Value::IntValue(i64::try_from(id).unwrap())) }),
        attributes: vec![attribute("team", "shop")],
        trace_id: vec![1; 16],
        span_id: id.to_be_bytes().to_vec(),
        ..LogRecord::default()
    };
    let scope_logs = vec![ScopeLogs { scope: scope(), log_records: ids.map(record).collect(), ..ScopeLogs::default() }];
    let resource_logs =
        vec![ResourceLogs { resource: Some(resource(attributes)), scope_logs, ..ResourceLogs::default() }];
    ExportLogsServiceRequest { resource_logs }
}

/// A metric of each type with a data point for each number; the number is its count or value.
pub fn metrics(attributes: &[(&str, &str)], ids: std::ops::Range<u64>) -> ExportMetricsServiceRequest {
    let metric = |name: &str, data| Metric {
        name: name.into(),
        unit: "1".into(),
        description: "numbers".into(),
        data: Some(data),
        metadata: vec![attribute("of", "tests")],
    };
    let ids: Vec<u64> = ids.collect();
    let numbers = || ids.iter().copied().map(number).collect();
    let histograms = ids.iter().copied().map(histogram).collect();
    let exponential = ids.iter().copied().map(exponential).collect();
    let summaries = ids.iter().copied().map(summary).collect();
    let metrics = vec![
        metric("gauge", Data::Gauge(Gauge { data_points: numbers() })),
        metric("sum", Data::Sum(Sum { data_points: numbers(), aggregation_temporality: 2, is_monotonic: true })),
        metric("histogram", Data::Histogram(Histogram { data_points: histograms, aggregation_temporality: 2 })),
        metric(
            "exponential",
            Data::ExponentialHistogram(ExponentialHistogram { data_points: exponential, aggregation_temporality: 2 }),
        ),
        metric("summary", Data::Summary(Summary { data_points: summaries })),
    ];
    let scope_metrics = vec![ScopeMetrics { scope: scope(), metrics, ..ScopeMetrics::default() }];
    let resource_metrics =
        vec![ResourceMetrics { resource: Some(resource(attributes)), scope_metrics, ..ResourceMetrics::default() }];
    ExportMetricsServiceRequest { resource_metrics }
}

/// Types of metrics in a request: data points per number.
pub const METRIC_TYPES: u64 = 5;

fn point_attributes(id: u64) -> Vec<KeyValue> {
    vec![attribute("id", &id.to_string()), attribute("team", "shop")]
}

fn number(id: u64) -> NumberDataPoint {
    let exemplar = Exemplar {
        time_unix_nano: TIME,
        span_id: id.to_be_bytes().to_vec(),
        trace_id: vec![2; 16],
        filtered_attributes: vec![attribute("left", "out")],
        value: Some(exemplar::Value::AsDouble(0.5)),
    };
    NumberDataPoint {
        attributes: point_attributes(id),
        start_time_unix_nano: TIME,
        time_unix_nano: TIME + id,
        exemplars: vec![exemplar],
        flags: 0,
        value: Some(number_data_point::Value::AsInt(i64::try_from(id).unwrap())),
    }
}

fn histogram(id: u64) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes: point_attributes(id),
        start_time_unix_nano: TIME,
        time_unix_nano: TIME + id,
        count: id,
        sum: Some(1.5),
        bucket_counts: vec![id, 0, 0],
        explicit_bounds: vec![0.0, 10.0],
        min: Some(-1.0),
        max: Some(0.0),
        ..HistogramDataPoint::default()
    }
}

fn exponential(id: u64) -> ExponentialHistogramDataPoint {
    ExponentialHistogramDataPoint {
        attributes: point_attributes(id),
        start_time_unix_nano: TIME,
        time_unix_nano: TIME + id,
        count: id + 3,
        sum: Some(1.5),
        scale: -2,
        zero_count: 1,
        positive: Some(Buckets { offset: -3, bucket_counts: vec![id, 300] }),
        negative: Some(Buckets { offset: 4, bucket_counts: vec![2] }),
        zero_threshold: 1e-9,
        ..ExponentialHistogramDataPoint::default()
    }
}

fn summary(id: u64) -> SummaryDataPoint {
    SummaryDataPoint {
        attributes: point_attributes(id),
        start_time_unix_nano: TIME,
        time_unix_nano: TIME + id,
        count: id,
        sum: 2.5,
        quantile_values: vec![ValueAtQuantile { quantile: 0.99, value: 7.0 }],
        flags: 1,
    }
}

/// Items in an encoded request, and the attributes of its resources.
pub fn items(signal: Signal, bytes: &[u8]) -> u64 {
    u64::from(weir_otlp::count(signal, bytes))
}

/// The resources of an encoded request.
pub fn resources(signal: Signal, bytes: &[u8]) -> Vec<Resource> {
    match signal {
        Signal::Traces => {
            let request = ExportTraceServiceRequest::decode(bytes).unwrap();
            request.resource_spans.into_iter().filter_map(|spans| spans.resource).collect()
        }
        Signal::Metrics => {
            let request = ExportMetricsServiceRequest::decode(bytes).unwrap();
            request.resource_metrics.into_iter().filter_map(|metrics| metrics.resource).collect()
        }
        Signal::Logs => {
            let request = ExportLogsServiceRequest::decode(bytes).unwrap();
            request.resource_logs.into_iter().filter_map(|logs| logs.resource).collect()
        }
    }
}

/// Items that carry their numbers where a sink of the load test looks for them; of metrics, points of a gauge.
pub fn numbered(signal: Signal, ids: std::ops::Range<u64>) -> Vec<u8> {
    if signal != Signal::Metrics {
        return encoded(signal, &[("service.name", "shop")], ids);
    }
    let mut request = metrics(&[("service.name", "shop")], ids.clone());
    let metrics = &mut request.resource_metrics[0].scope_metrics[0].metrics;
    metrics.retain(|metric| matches!(metric.data, Some(Data::Gauge(_))));
    let Some(Data::Gauge(gauge)) = &mut metrics[0].data else { panic!("a gauge") };
    gauge.data_points.iter_mut().zip(ids).for_each(|(point, id)| point.start_time_unix_nano = id);
    request.encode_to_vec()
}

/// A counter at this value at this second, which began at second 0.
pub fn counter(second: u64, value: i64) -> Vec<u8> {
    counter_of("shop", second, value)
}

/// The counter of a service.
pub fn counter_of(service: &str, second: u64, value: i64) -> Vec<u8> {
    let mut request = metrics(&[("service.name", service)], 1..2);
    let metrics = &mut request.resource_metrics[0].scope_metrics[0].metrics;
    metrics.retain(|metric| matches!(metric.data, Some(Data::Sum(_))));
    let Some(Data::Sum(sum)) = &mut metrics[0].data else { panic!("a sum") };
    let point = &mut sum.data_points[0];
    point.time_unix_nano = TIME + second * 1_000_000_000;
    point.value = Some(number_data_point::Value::AsInt(value));
    request.encode_to_vec()
}

/// Temporality and value of every point of all sums.
pub fn deltas(request: &[u8]) -> Vec<(i32, i64)> {
    let request = ExportMetricsServiceRequest::decode(request).unwrap();
    let metrics = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
    let metrics = metrics.flat_map(|scope| scope.metrics);
    let sums = metrics.filter_map(|metric| if let Some(Data::Sum(sum)) = metric.data { Some(sum) } else { None });
    let points = sums.flat_map(|sum| {
        let temporality = sum.aggregation_temporality;
        sum.data_points.into_iter().map(move |point| (temporality, point.value))
    });
    let value = |value| if let Some(number_data_point::Value::AsInt(value)) = value { value } else { 0 };
    points.map(|(temporality, number)| (temporality, value(number))).collect()
}

/// The text that an attribute has.
pub fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}
