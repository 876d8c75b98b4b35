//! The messages of the package `io.prometheus.client`, for prost.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) help: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub(super) r#type: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub(super) metric: Vec<Metric>,
    #[prost(string, optional, tag = "5")]
    pub(super) unit: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub(super) label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    pub(super) gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    pub(super) counter: Option<Counter>,
    #[prost(message, optional, tag = "4")]
    pub(super) summary: Option<Summary>,
    #[prost(message, optional, tag = "5")]
    pub(super) untyped: Option<Number>,
    #[prost(message, optional, tag = "7")]
    pub(super) histogram: Option<Histogram>,
    #[prost(int64, optional, tag = "6")]
    pub(super) timestamp_ms: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LabelPair {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) value: Option<String>,
}

/// `Gauge` and `Untyped`.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Number {
    #[prost(double, optional, tag = "1")]
    pub(super) value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Counter {
    #[prost(double, optional, tag = "1")]
    pub(super) value: Option<f64>,
    #[prost(message, optional, tag = "2")]
    pub(super) exemplar: Option<Exemplar>,
    #[prost(message, optional, tag = "3")]
    pub(super) created_timestamp: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Summary {
    #[prost(uint64, optional, tag = "1")]
    pub(super) sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(super) sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) quantile: Vec<Quantile>,
    #[prost(message, optional, tag = "4")]
    pub(super) created_timestamp: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Quantile {
    #[prost(double, optional, tag = "1")]
    pub(super) quantile: Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub(super) value: Option<f64>,
}

/// Its numbers stand one by one, as Go's library writes them.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    pub(super) sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(super) sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) bucket: Vec<Bucket>,
    #[prost(double, optional, tag = "4")]
    pub(super) sample_count_float: Option<f64>,
    #[prost(sint32, optional, tag = "5")]
    pub(super) schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    pub(super) zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    pub(super) zero_count: Option<u64>,
    #[prost(double, optional, tag = "8")]
    pub(super) zero_count_float: Option<f64>,
    #[prost(message, repeated, tag = "9")]
    pub(super) negative_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "10")]
    pub(super) negative_delta: Vec<i64>,
    #[prost(double, repeated, packed = "false", tag = "11")]
    pub(super) negative_count: Vec<f64>,
    #[prost(message, repeated, tag = "12")]
    pub(super) positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    pub(super) positive_delta: Vec<i64>,
    #[prost(double, repeated, packed = "true", tag = "14")]
    pub(super) positive_count: Vec<f64>,
    #[prost(message, optional, tag = "15")]
    pub(super) created_timestamp: Option<Timestamp>,
    #[prost(message, repeated, tag = "16")]
    pub(super) exemplars: Vec<Exemplar>,
}

/// A part of a `Histogram` whose numbers stand together.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PackedHistogram {
    #[prost(uint64, optional, tag = "1")]
    pub(super) sample_count: Option<u64>,
    #[prost(sint32, optional, tag = "5")]
    pub(super) schema: Option<i32>,
    #[prost(message, repeated, tag = "12")]
    pub(super) positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, packed = "true", tag = "13")]
    pub(super) positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    pub(super) cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(super) upper_bound: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub(super) exemplar: Option<Exemplar>,
    #[prost(double, optional, tag = "4")]
    pub(super) cumulative_count_float: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct BucketSpan {
    #[prost(sint32, optional, tag = "1")]
    pub(super) offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) length: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Exemplar {
    #[prost(message, repeated, tag = "1")]
    pub(super) label: Vec<LabelPair>,
    #[prost(double, optional, tag = "2")]
    pub(super) value: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub(super) timestamp: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Timestamp {
    #[prost(int64, optional, tag = "1")]
    pub(super) seconds: Option<i64>,
    #[prost(int32, optional, tag = "2")]
    pub(super) nanos: Option<i32>,
}

pub(super) fn family(name: &str, kind: i32, metric: Vec<Metric>) -> MetricFamily {
    MetricFamily { name: Some(name.to_owned()), r#type: Some(kind), metric, ..Default::default() }
}

/// A metric with the label `x`.
pub(super) fn labelled(x: &str) -> Metric {
    Metric { label: vec![label("x", x)], ..Default::default() }
}

pub(super) fn label(name: &str, value: &str) -> LabelPair {
    LabelPair { name: Some(name.to_owned()), value: Some(value.to_owned()) }
}

pub(super) fn exemplar(trace: &str, time: i64) -> Exemplar {
    let label = vec![label("trace_id", trace), label("y", "z")];
    Exemplar { label, value: Some(0.5), timestamp: Some(seconds(time)) }
}

pub(super) fn seconds(seconds: i64) -> Timestamp {
    Timestamp { seconds: Some(seconds), nanos: None }
}

pub(super) fn bucket(bound: f64, count: u64) -> Bucket {
    Bucket { cumulative_count: Some(count), upper_bound: Some(bound), ..Default::default() }
}

pub(super) fn span(offset: i32, length: u32) -> BucketSpan {
    BucketSpan { offset: Some(offset), length: Some(length) }
}
