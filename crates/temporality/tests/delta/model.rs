//! Requests to convert, and what came of them as short text.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use weir_temporality::{Converted, Converter, Counts, Limits};

pub(crate) const CUMULATIVE: i32 = 2;

/// A converter that started at 100.
pub(crate) fn converter() -> Converter {
    Converter::new(Limits::default(), 100)
}

pub(crate) fn attribute(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.into())) };
    KeyValue { key: key.into(), value: Some(value), key_strindex: 0 }
}

pub(crate) fn request(metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
    let resource = Resource { attributes: vec![attribute("service.name", "shop")], ..Resource::default() };
    let scope = InstrumentationScope { name: "meter".into(), ..InstrumentationScope::default() };
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, schema_url: String::new() }];
    let resource_metrics = ResourceMetrics { resource: Some(resource), scope_metrics, schema_url: String::new() };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }
}

pub(crate) fn metric(name: &str, data: Data) -> Metric {
    Metric { name: name.into(), unit: "1".into(), data: Some(data), ..Metric::default() }
}

pub(crate) fn sum(data_points: Vec<NumberDataPoint>) -> Data {
    Data::Sum(Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true })
}

pub(crate) fn number(start: u64, time: u64, value: Value) -> NumberDataPoint {
    NumberDataPoint {
        start_time_unix_nano: start,
        time_unix_nano: time,
        value: Some(value),
        ..NumberDataPoint::default()
    }
}

pub(crate) fn int(start: u64, time: u64, value: i64) -> NumberDataPoint {
    number(start, time, Value::AsInt(value))
}

/// A request with a sum of one point.
pub(crate) fn one(point: NumberDataPoint) -> Vec<u8> {
    request(vec![metric("requests", sum(vec![point]))]).encode_to_vec()
}

pub(crate) fn histogram(point: HistogramDataPoint) -> Vec<u8> {
    let data = Histogram { data_points: vec![point], aggregation_temporality: CUMULATIVE };
    request(vec![metric("latency", Data::Histogram(data))]).encode_to_vec()
}

pub(crate) fn exponential(point: ExponentialHistogramDataPoint) -> Vec<u8> {
    let data = ExponentialHistogram { data_points: vec![point], aggregation_temporality: CUMULATIVE };
    request(vec![metric("latency", Data::ExponentialHistogram(data))]).encode_to_vec()
}

/// Converts a request with one point and says what it became: `start..time +delta`, or why it was dropped.
pub(crate) fn converted_to(converter: &mut Converter, request: &[u8], now: u64) -> String {
    let converted = converter.convert(request, now).expect("a valid request");
    outcome(&converted)
}

pub(crate) fn outcome(converted: &Converted<'_>) -> String {
    let points = points(&converted.request);
    assert_eq!(points.len() as u64, converted.counts.converted + converted.counts.passed.total());
    points.first().cloned().unwrap_or_else(|| reason(&converted.counts))
}

fn reason(counts: &Counts) -> String {
    let reasons: Vec<_> = counts.dropped.by_reason().into_iter().filter(|(_, count)| *count > 0).collect();
    assert!(reasons.len() == 1 && reasons[0].1 == 1, "{counts:?}");
    reasons[0].0.to_owned()
}

/// Every metric of a request.
pub(crate) fn metrics(request: &[u8]) -> Vec<Metric> {
    let request = ExportMetricsServiceRequest::decode(request).expect("a valid request");
    let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
    scopes.flat_map(|scope| scope.metrics).collect()
}

fn points(request: &[u8]) -> Vec<String> {
    metrics(request).into_iter().flat_map(|metric| data_points(metric.data.expect("data"))).collect()
}

fn data_points(data: Data) -> Vec<String> {
    match data {
        Data::Sum(sum) => sum.data_points.iter().map(tell_number).collect(),
        Data::Gauge(gauge) => gauge.data_points.iter().map(tell_number).collect(),
        Data::Histogram(histogram) => histogram.data_points.iter().map(tell_histogram).collect(),
        Data::ExponentialHistogram(histogram) => histogram.data_points.iter().map(tell_exponential).collect(),
        Data::Summary(summary) => {
            summary.data_points.iter().map(|point| format!("summary of {}", point.count)).collect()
        }
    }
}

fn tell_number(point: &NumberDataPoint) -> String {
    let value = match point.value {
        Some(Value::AsInt(value)) => format!("+{value}"),
        Some(Value::AsDouble(value)) => format!("+{value:?}"),
        None => "nothing".to_owned(),
    };
    format!("{}..{} {value}", point.start_time_unix_nano, point.time_unix_nano)
}

fn tell_histogram(point: &HistogramDataPoint) -> String {
    assert_eq!((point.min, point.max), (None, None));
    let sum = point.sum.map_or(String::new(), |sum| format!(" sum {sum}"));
    let (start, time) = (point.start_time_unix_nano, point.time_unix_nano);
    format!("{start}..{time} +{}{sum} {:?} at {:?}", point.count, point.bucket_counts, point.explicit_bounds)
}

fn tell_exponential(point: &ExponentialHistogramDataPoint) -> String {
    assert_eq!((point.min, point.max), (None, None));
    let buckets = |name: &str, buckets: &Option<Buckets>| {
        let tell = |buckets: &Buckets| format!(" {name} {}{:?}", buckets.offset, buckets.bucket_counts);
        buckets.as_ref().map_or(String::new(), tell)
    };
    let (start, time) = (point.start_time_unix_nano, point.time_unix_nano);
    let (positive, negative) = (buckets("positive", &point.positive), buckets("negative", &point.negative));
    let zero = format!("zero {} within {}", point.zero_count, point.zero_threshold);
    format!("{start}..{time} +{} scale {} {zero}{positive}{negative}", point.count, point.scale)
}
