//! A metrics request, from views to prost.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1 as pb;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{exemplar, exponential_histogram_data_point, metric, number_data_point};
use weir_otlp::metrics::{
    self, Buckets, Data, Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, Number, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, SummaryDataPoint,
};

use super::common::{attributes, resource, scope};

/// Data points, resources and scopes.
pub(super) fn counts(request: &ExportMetricsServiceRequest) -> (usize, usize, usize) {
    let scopes = || request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
    let metrics = scopes().flat_map(|scope| &scope.metrics);
    let points = metrics.map(|metric| match &metric.data {
        None => 0,
        Some(metric::Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(metric::Data::Sum(sum)) => sum.data_points.len(),
        Some(metric::Data::Histogram(histogram)) => histogram.data_points.len(),
        Some(metric::Data::ExponentialHistogram(histogram)) => histogram.data_points.len(),
        Some(metric::Data::Summary(summary)) => summary.data_points.len(),
    });
    (points.sum(), request.resource_metrics.len(), scopes().count())
}

pub(super) fn request(bytes: &[u8]) -> ExportMetricsServiceRequest {
    ExportMetricsServiceRequest { resource_metrics: metrics::resource_metrics(bytes).map(resource_metrics).collect() }
}

fn resource_metrics(view: ResourceMetrics<'_>) -> pb::ResourceMetrics {
    pb::ResourceMetrics {
        resource: view.resource().map(resource),
        scope_metrics: view.scope_metrics().map(scope_metrics).collect(),
        schema_url: view.schema_url().to_owned(),
    }
}

fn scope_metrics(view: ScopeMetrics<'_>) -> pb::ScopeMetrics {
    pb::ScopeMetrics {
        scope: view.scope().map(scope),
        metrics: view.metrics().map(metric).collect(),
        schema_url: view.schema_url().to_owned(),
    }
}

fn metric(view: Metric<'_>) -> pb::Metric {
    pb::Metric {
        name: view.name().to_owned(),
        description: view.description().to_owned(),
        unit: view.unit().to_owned(),
        metadata: attributes(view.metadata()),
        data: view.data().map(data),
    }
}

fn data(view: Data<'_>) -> metric::Data {
    let numbers = || view.data_points().map(NumberDataPoint).map(number).collect();
    let aggregation_temporality = view.aggregation_temporality();
    match view {
        Data::Gauge(_) => metric::Data::Gauge(pb::Gauge { data_points: numbers() }),
        Data::Sum(_) => metric::Data::Sum(pb::Sum {
            data_points: numbers(),
            aggregation_temporality,
            is_monotonic: view.is_monotonic(),
        }),
        Data::Histogram(_) => {
            let data_points = view.data_points().map(HistogramDataPoint).map(histogram).collect();
            metric::Data::Histogram(pb::Histogram { data_points, aggregation_temporality })
        }
        Data::ExponentialHistogram(_) => {
            let data_points = view.data_points().map(ExponentialHistogramDataPoint).map(exponential).collect();
            metric::Data::ExponentialHistogram(pb::ExponentialHistogram { data_points, aggregation_temporality })
        }
        Data::Summary(_) => {
            let data_points = view.data_points().map(SummaryDataPoint).map(summary).collect();
            metric::Data::Summary(pb::Summary { data_points })
        }
    }
}

fn number(view: NumberDataPoint<'_>) -> pb::NumberDataPoint {
    pb::NumberDataPoint {
        attributes: attributes(view.attributes()),
        start_time_unix_nano: view.start_time_unix_nano(),
        time_unix_nano: view.time_unix_nano(),
        exemplars: view.exemplars().map(exemplar).collect(),
        flags: view.flags(),
        value: view.value().map(|value| match value {
            Number::Int(value) => number_data_point::Value::AsInt(value),
            Number::Double(value) => number_data_point::Value::AsDouble(value),
        }),
    }
}

fn histogram(view: HistogramDataPoint<'_>) -> pb::HistogramDataPoint {
    pb::HistogramDataPoint {
        attributes: attributes(view.attributes()),
        start_time_unix_nano: view.start_time_unix_nano(),
        time_unix_nano: view.time_unix_nano(),
        count: view.count(),
        sum: view.sum(),
        bucket_counts: view.bucket_counts().collect(),
        explicit_bounds: view.explicit_bounds().collect(),
        exemplars: view.exemplars().map(exemplar).collect(),
        flags: view.flags(),
        min: view.min(),
        max: view.max(),
    }
}

fn exponential(view: ExponentialHistogramDataPoint<'_>) -> pb::ExponentialHistogramDataPoint {
    pb::ExponentialHistogramDataPoint {
        attributes: attributes(view.attributes()),
        start_time_unix_nano: view.start_time_unix_nano(),
        time_unix_nano: view.time_unix_nano(),
        count: view.count(),
        sum: view.sum(),
        scale: view.scale(),
        zero_count: view.zero_count(),
        positive: view.positive().map(buckets),
        negative: view.negative().map(buckets),
        flags: view.flags(),
        exemplars: view.exemplars().map(exemplar).collect(),
        min: view.min(),
        max: view.max(),
        zero_threshold: view.zero_threshold(),
    }
}

fn buckets(view: Buckets<'_>) -> exponential_histogram_data_point::Buckets {
    exponential_histogram_data_point::Buckets { offset: view.offset(), bucket_counts: view.bucket_counts().collect() }
}

fn summary(view: SummaryDataPoint<'_>) -> pb::SummaryDataPoint {
    pb::SummaryDataPoint {
        attributes: attributes(view.attributes()),
        start_time_unix_nano: view.start_time_unix_nano(),
        time_unix_nano: view.time_unix_nano(),
        count: view.count(),
        sum: view.sum(),
        quantile_values: view.quantile_values().map(|(quantile, value)| ValueAtQuantile { quantile, value }).collect(),
        flags: view.flags(),
    }
}

fn exemplar(view: Exemplar<'_>) -> pb::Exemplar {
    pb::Exemplar {
        filtered_attributes: attributes(view.filtered_attributes()),
        time_unix_nano: view.time_unix_nano(),
        span_id: view.span_id().to_vec(),
        trace_id: view.trace_id().to_vec(),
        value: view.value().map(|value| match value {
            Number::Int(value) => exemplar::Value::AsInt(value),
            Number::Double(value) => exemplar::Value::AsDouble(value),
        }),
    }
}
