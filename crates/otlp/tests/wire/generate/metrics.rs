//! Metrics requests: every type, consistent or not (as many bounds as buckets, none at all, no data points).

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint, exemplar, metric,
    number_data_point,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{attributes, id, resource, scope, text};

/// Doubles of every kind, the special ones often.
fn double() -> impl Strategy<Value = f64> {
    let special = prop::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE]);
    prop_oneof![3 => any::<f64>(), 1 => special, 1 => (0..1000i32).prop_map(f64::from)]
}

/// Counts that take one byte as a varint, and others.
fn counts() -> impl Strategy<Value = Vec<u64>> {
    vec(prop_oneof![2 => 0..100u64, 1 => any::<u64>()], 0..12)
}

fn exemplar() -> impl Strategy<Value = Exemplar> {
    let value =
        prop_oneof![double().prop_map(exemplar::Value::AsDouble), any::<i64>().prop_map(exemplar::Value::AsInt),];
    (attributes(), any::<u64>(), id(8), id(16), option::of(value)).prop_map(
        |(filtered_attributes, time_unix_nano, span_id, trace_id, value)| Exemplar {
            filtered_attributes,
            time_unix_nano,
            span_id,
            trace_id,
            value,
        },
    )
}

fn number() -> impl Strategy<Value = NumberDataPoint> {
    let value = prop_oneof![
        double().prop_map(number_data_point::Value::AsDouble),
        any::<i64>().prop_map(number_data_point::Value::AsInt),
    ];
    let times = (any::<u64>(), any::<u64>());
    (attributes(), times, vec(exemplar(), 0..2), 0..3u32, option::weighted(0.9, value)).prop_map(
        |(attributes, times, exemplars, flags, value)| NumberDataPoint {
            attributes,
            start_time_unix_nano: times.0,
            time_unix_nano: times.1,
            exemplars,
            flags,
            value,
        },
    )
}

fn histogram() -> impl Strategy<Value = HistogramDataPoint> {
    let integers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>());
    let doubles = (option::of(double()), option::of(double()), option::of(double()));
    (attributes(), integers, doubles, counts(), vec(double(), 0..12), vec(exemplar(), 0..2)).prop_map(
        |(attributes, integers, doubles, bucket_counts, explicit_bounds, exemplars)| HistogramDataPoint {
            attributes,
            start_time_unix_nano: integers.0,
            time_unix_nano: integers.1,
            count: integers.2,
            sum: doubles.0,
            bucket_counts,
            explicit_bounds,
            exemplars,
            flags: integers.3,
            min: doubles.1,
            max: doubles.2,
        },
    )
}

fn exponential() -> impl Strategy<Value = ExponentialHistogramDataPoint> {
    let buckets = || (any::<i32>(), counts()).prop_map(|(offset, bucket_counts)| Buckets { offset, bucket_counts });
    let integers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>(), -11..21i32);
    let doubles = (option::of(double()), option::of(double()), option::of(double()), double());
    let buckets = (option::of(buckets()), option::of(buckets()));
    (attributes(), integers, doubles, buckets, vec(exemplar(), 0..2)).prop_map(
        |(attributes, integers, doubles, buckets, exemplars)| ExponentialHistogramDataPoint {
            attributes,
            start_time_unix_nano: integers.0,
            time_unix_nano: integers.1,
            count: integers.2,
            sum: doubles.0,
            scale: integers.4,
            zero_count: integers.2 / 2,
            positive: buckets.0,
            negative: buckets.1,
            flags: integers.3,
            exemplars,
            min: doubles.1,
            max: doubles.2,
            zero_threshold: doubles.3,
        },
    )
}

fn summary() -> impl Strategy<Value = SummaryDataPoint> {
    let quantile = (double(), double()).prop_map(|(quantile, value)| ValueAtQuantile { quantile, value });
    let integers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>());
    (attributes(), integers, double(), vec(quantile, 0..4)).prop_map(|(attributes, integers, sum, quantile_values)| {
        SummaryDataPoint {
            attributes,
            start_time_unix_nano: integers.0,
            time_unix_nano: integers.1,
            count: integers.2,
            sum,
            quantile_values,
            flags: integers.3,
        }
    })
}

fn data() -> impl Strategy<Value = metric::Data> {
    let temporality = -1..4i32;
    prop_oneof![
        vec(number(), 0..5).prop_map(|data_points| metric::Data::Gauge(Gauge { data_points })),
        (vec(number(), 0..5), temporality.clone(), any::<bool>()).prop_map(|(data_points, temporality, monotonic)| {
            metric::Data::Sum(Sum { data_points, aggregation_temporality: temporality, is_monotonic: monotonic })
        }),
        (vec(histogram(), 0..3), temporality.clone()).prop_map(|(data_points, temporality)| {
            metric::Data::Histogram(Histogram { data_points, aggregation_temporality: temporality })
        }),
        (vec(exponential(), 0..3), temporality).prop_map(|(data_points, temporality)| {
            let aggregation_temporality = temporality;
            metric::Data::ExponentialHistogram(ExponentialHistogram { data_points, aggregation_temporality })
        }),
        vec(summary(), 0..3).prop_map(|data_points| metric::Data::Summary(Summary { data_points })),
    ]
}

fn metric() -> impl Strategy<Value = Metric> {
    (text(), text(), text(), attributes(), option::weighted(0.95, data()))
        .prop_map(|(name, description, unit, metadata, data)| Metric { name, description, unit, metadata, data })
}

fn scope_metrics() -> impl Strategy<Value = ScopeMetrics> {
    (option::of(scope()), vec(metric(), 0..4), text()).prop_map(|(scope, metrics, schema_url)| ScopeMetrics {
        scope,
        metrics,
        schema_url,
    })
}

fn resource_metrics() -> impl Strategy<Value = ResourceMetrics> {
    (option::of(resource()), vec(scope_metrics(), 0..3), text())
        .prop_map(|(resource, scope_metrics, schema_url)| ResourceMetrics { resource, scope_metrics, schema_url })
}

pub(super) fn request() -> impl Strategy<Value = ExportMetricsServiceRequest> {
    vec(resource_metrics(), 0..3).prop_map(|resource_metrics| ExportMetricsServiceRequest { resource_metrics })
}
