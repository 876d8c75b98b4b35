//! Of the targets that read requests: which signal an input is of, and what prost says about it.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message as _;
use weir_otlp::Signal;

/// The signal that the first byte of an input picks.
pub fn signal(choice: u8) -> Signal {
    Signal::ALL[usize::from(choice) % Signal::ALL.len()]
}

/// What prost finds in a request.
pub struct Decoded {
    /// Spans, data points or log records.
    pub items: usize,
    /// Resources.
    pub resources: usize,
    /// Every value, as text in which every NaN is the same.
    pub text: String,
}

/// Decodes a request; `None` when prost refuses it.
pub fn decode(signal: Signal, bytes: &[u8]) -> Option<Decoded> {
    Some(match signal {
        Signal::Traces => {
            let request = ExportTraceServiceRequest::decode(bytes).ok()?;
            let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
            let items = scopes.map(|scope| scope.spans.len()).sum();
            Decoded { items, resources: request.resource_spans.len(), text: format!("{request:?}") }
        }
        Signal::Metrics => {
            let request = ExportMetricsServiceRequest::decode(bytes).ok()?;
            let scopes = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
            let items = scopes.flat_map(|scope| &scope.metrics).map(data_points).sum();
            Decoded { items, resources: request.resource_metrics.len(), text: format!("{request:?}") }
        }
        Signal::Logs => {
            let request = ExportLogsServiceRequest::decode(bytes).ok()?;
            let scopes = request.resource_logs.iter().flat_map(|resource| &resource.scope_logs);
            let items = scopes.map(|scope| scope.log_records.len()).sum();
            Decoded { items, resources: request.resource_logs.len(), text: format!("{request:?}") }
        }
    })
}

fn data_points(metric: &Metric) -> usize {
    match &metric.data {
        None => 0,
        Some(Data::Gauge(data)) => data.data_points.len(),
        Some(Data::Sum(data)) => data.data_points.len(),
        Some(Data::Histogram(data)) => data.data_points.len(),
        Some(Data::ExponentialHistogram(data)) => data.data_points.len(),
        Some(Data::Summary(data)) => data.data_points.len(),
    }
}
