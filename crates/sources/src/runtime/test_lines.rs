//! For tests: requests as lines of text.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint, metric, number_data_point};
use prost::Message;
use weir_engine::Added;
use weir_otlp::{Limits, Signal, validate};

/// A line for each resource, and one for each of its points, as `  NAME unit kind{attributes} value [from START]`.
pub(super) fn lines(requests: &[(Added, Vec<u8>)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (added, bytes) in requests {
        validate(Signal::Metrics, bytes, &Limits::default()).unwrap();
        for resource in ExportMetricsServiceRequest::decode(&bytes[..]).unwrap().resource_metrics {
            lines.push(format!("{added:?} {}", pairs(&resource.resource.unwrap().attributes)));
            for scope in resource.scope_metrics {
                assert_eq!(scope.scope.unwrap().version, env!("CARGO_PKG_VERSION"));
                scope.metrics.iter().for_each(|metric| show(metric, &mut lines));
            }
        }
    }
    lines
}

fn show(metric: &Metric, lines: &mut Vec<String>) {
    let (kind, points) = match metric.data.as_ref().unwrap() {
        metric::Data::Gauge(gauge) => ("gauge", &gauge.data_points),
        metric::Data::Sum(sum) => {
            assert_eq!(sum.aggregation_temporality, 2, "{}", metric.name);
            (if sum.is_monotonic { "counter" } else { "updown" }, &sum.data_points)
        }
        other => panic!("{other:?}"),
    };
    assert!(!metric.description.is_empty() && !points.is_empty());
    for point in points {
        assert_eq!(point.time_unix_nano, NOW);
        lines.push(format!("  {} {} {kind}{}", metric.name, metric.unit, value(point)));
    }
}

fn value(point: &NumberDataPoint) -> String {
    let number = match point.value.unwrap() {
        number_data_point::Value::AsInt(value) => value.to_string(),
        number_data_point::Value::AsDouble(value) => format!("{value:?}"),
    };
    let start = if point.start_time_unix_nano == 0 {
        String::new()
    } else {
        format!(" from {}", point.start_time_unix_nano / 1_000_000_000)
    };
    let attributes = pairs(&point.attributes);
    let attributes = if attributes.is_empty() { attributes } else { format!("{{{attributes}}}") };
    format!("{attributes} {number}{start}")
}

fn pairs(attributes: &[KeyValue]) -> String {
    let pair = |pair: &KeyValue| match pair.value.as_ref().unwrap().value.as_ref().unwrap() {
        any_value::Value::StringValue(text) => format!("{}={text}", pair.key),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(pair).collect::<Vec<_>>().join(",")
}

/// When all of it is. 2026-11-25T12:00:00Z
pub(super) const NOW: u64 = 1_795_608_000_000_000_000;
