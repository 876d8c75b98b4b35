use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary,
    SummaryDataPoint,
};
use prost::Message;

use super::*;
use crate::series::{Lines, digest_of, value};

/// The labels of series 123 of target 3, whose metric has this name.
fn attributes(name: &str) -> Vec<KeyValue> {
    let own = [("cycle", "000000"), ("series", "0000123"), ("target", "00003")];
    let digest = own.iter().fold(digest_of(b"", name.as_bytes()), |sum, (key, value)| {
        sum.wrapping_add(digest_of(key.as_bytes(), value.as_bytes()))
    });
    let digest = format!("{digest:016x}");
    let attribute = |(key, value): (&str, &str)| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) }),
        ..KeyValue::default()
    };
    own.into_iter().chain([("digest", digest.as_str())]).map(attribute).collect()
}

fn request(name: &str, data: Data) -> Vec<u8> {
    let metric = Metric { name: name.to_owned(), data: Some(data), ..Metric::default() };
    let scope_metrics = vec![ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() }];
    let resource_metrics = vec![ResourceMetrics { scope_metrics, ..ResourceMetrics::default() }];
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
}

fn found(name: &str, data: Data) -> Vec<Finding> {
    find_points(&request(name, data)).unwrap()
}

fn sample(lines: u32) -> Finding {
    Finding::Sample { target: 3, series: 123, scrape: 7, lines: Lines::All(lines) }
}

#[expect(clippy::cast_precision_loss, reason = "it is below 2^53")]
fn double(number: u64) -> f64 {
    number as f64
}

fn number(name: &str, value: number_data_point::Value, flags: u32) -> NumberDataPoint {
    NumberDataPoint { attributes: attributes(name), value: Some(value), flags, ..NumberDataPoint::default() }
}

#[test]
fn gauges_and_counters_are_found() {
    let (gauge, counter) = ("load_gauge_00001", "load_counter_00001_total");
    let as_double = number_data_point::Value::AsDouble(double(value(7, 123)));
    let as_int = number_data_point::Value::AsInt(value(7, 123).cast_signed());
    let points = |name| vec![number(name, as_double, 0), number(name, as_int, 0), number(name, as_double, 1)];
    let expected = [sample(1), sample(1), Finding::Ended];
    assert_eq!(found(gauge, Data::Gauge(Gauge { data_points: points(gauge) })), expected);
    let sum = Sum { data_points: points(counter), ..Sum::default() };
    assert_eq!(found(counter, Data::Sum(sum)), expected);
    let renamed = found("load_gauge_00002", Data::Gauge(Gauge { data_points: points(gauge) }));
    assert_eq!(renamed, [Finding::Damaged, Finding::Damaged, Finding::Ended]);
    assert_eq!(found("up", Data::Gauge(Gauge { data_points: points(gauge) })), [Finding::Foreign; 3]);
}

#[test]
fn a_histogram_is_all_its_lines() {
    let name = "load_histogram_00001";
    let base = value(7, 123);
    let point = HistogramDataPoint {
        attributes: attributes(name),
        count: base + 2,
        sum: Some(double(base)),
        bucket_counts: vec![base, 1, 1],
        explicit_bounds: vec![0.5, 1.0],
        ..HistogramDataPoint::default()
    };
    let find = |point| found(name, Data::Histogram(Histogram { data_points: vec![point], ..Histogram::default() }));
    assert_eq!(find(point.clone()), [sample(5)]);
    for damaged in [
        HistogramDataPoint { count: base + 3, ..point.clone() },
        HistogramDataPoint { sum: None, ..point.clone() },
        HistogramDataPoint { bucket_counts: vec![base, 2, 0], ..point.clone() },
        HistogramDataPoint { bucket_counts: vec![], ..point.clone() },
        HistogramDataPoint { sum: Some(double(base) + 0.5), ..point },
    ] {
        assert_eq!(find(damaged), [Finding::Damaged]);
    }
}

#[test]
fn a_summary_is_all_its_lines() {
    let name = "load_summary_00001";
    let base = value(7, 123);
    let quantile = |index: u64| ValueAtQuantile { quantile: 0.5, value: double(base + index) };
    let point = SummaryDataPoint {
        attributes: attributes(name),
        count: base,
        sum: double(base),
        quantile_values: vec![quantile(0), quantile(1), quantile(2)],
        ..SummaryDataPoint::default()
    };
    let find = |point| found(name, Data::Summary(Summary { data_points: vec![point] }));
    assert_eq!(find(point.clone()), [sample(5)]);
    assert_eq!(find(SummaryDataPoint { quantile_values: vec![quantile(1)], ..point }), [Finding::Damaged]);
}

#[test]
fn damaged_requests_do_not_panic() {
    let name = "load_gauge_00001";
    let point = number(name, number_data_point::Value::AsInt(1), 0);
    let whole = request(name, Data::Gauge(Gauge { data_points: vec![point.clone(), point] }));
    for length in 1..whole.len() {
        assert!(find_points(&whole[..length]).is_err(), "{length}");
    }
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        let _ = find_points(&bytes);
    }
}
