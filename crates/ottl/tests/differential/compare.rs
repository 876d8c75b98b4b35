//! Whether two requests say the same.
//!
//! Both are decoded and brought to one form: absent messages that mean the same as empty ones are written out, ids of
//! zeros are absent, and attributes, which have no order, are sorted.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, Metric};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::{DecodeError, Message};
use serde_json::Value as Json;
use weir_ottl::Signal;

/// Whether the order of the points of a metric counts. The reference shuffles them when it aggregates them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Points {
    Ordered,
    Unordered,
}

/// What is in a request for each resource, as a request in the common form.
///
/// # Errors
/// When it cannot be decoded.
pub(crate) fn by_resource(signal: Signal, points: Points, request: &[u8]) -> Result<Vec<Vec<u8>>, DecodeError> {
    match signal {
        Signal::Traces => traces(request),
        Signal::Metrics => metrics(points, request),
        Signal::Logs => logs(request),
    }
}

fn traces(request: &[u8]) -> Result<Vec<Vec<u8>>, DecodeError> {
    let mut request = ExportTraceServiceRequest::decode(request)?;
    for data in &mut request.resource_spans {
        resource(&mut data.resource);
        for data in &mut data.scope_spans {
            scope(&mut data.scope);
            data.spans.iter_mut().for_each(span);
        }
    }
    let each = request.resource_spans.into_iter();
    Ok(each.map(|data| ExportTraceServiceRequest { resource_spans: vec![data] }.encode_to_vec()).collect())
}

fn metrics(points: Points, request: &[u8]) -> Result<Vec<Vec<u8>>, DecodeError> {
    let mut request = ExportMetricsServiceRequest::decode(request)?;
    for data in &mut request.resource_metrics {
        resource(&mut data.resource);
        for data in &mut data.scope_metrics {
            scope(&mut data.scope);
            data.metrics.iter_mut().for_each(metric);
            if points == Points::Unordered {
                data.metrics.iter_mut().for_each(sort_points);
            }
        }
    }
    let each = request.resource_metrics.into_iter();
    Ok(each.map(|data| ExportMetricsServiceRequest { resource_metrics: vec![data] }.encode_to_vec()).collect())
}

fn logs(request: &[u8]) -> Result<Vec<Vec<u8>>, DecodeError> {
    let mut request = ExportLogsServiceRequest::decode(request)?;
    for data in &mut request.resource_logs {
        resource(&mut data.resource);
        for data in &mut data.scope_logs {
            scope(&mut data.scope);
            data.log_records.iter_mut().for_each(log);
        }
    }
    let each = request.resource_logs.into_iter();
    Ok(each.map(|data| ExportLogsServiceRequest { resource_logs: vec![data] }.encode_to_vec()).collect())
}

fn resource(resource: &mut Option<Resource>) {
    attributes(&mut resource.get_or_insert_default().attributes);
}

fn scope(scope: &mut Option<InstrumentationScope>) {
    attributes(&mut scope.get_or_insert_default().attributes);
}

fn span(span: &mut Span) {
    attributes(&mut span.attributes);
    span.status.get_or_insert_default();
    [&mut span.trace_id, &mut span.span_id, &mut span.parent_span_id].into_iter().for_each(id);
    span.events.iter_mut().for_each(|event| attributes(&mut event.attributes));
    for link in &mut span.links {
        attributes(&mut link.attributes);
        [&mut link.trace_id, &mut link.span_id].into_iter().for_each(id);
    }
}

fn log(log: &mut LogRecord) {
    attributes(&mut log.attributes);
    any(log.body.get_or_insert_default());
    [&mut log.trace_id, &mut log.span_id].into_iter().for_each(id);
}

fn metric(metric: &mut Metric) {
    attributes(&mut metric.metadata);
    let points = match &mut metric.data {
        Some(Data::Gauge(gauge)) => &mut gauge.data_points,
        Some(Data::Sum(sum)) => &mut sum.data_points,
        Some(Data::Histogram(histogram)) => {
            for point in &mut histogram.data_points {
                attributes(&mut point.attributes);
                point.exemplars.iter_mut().for_each(exemplar);
            }
            return;
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            for point in &mut histogram.data_points {
                attributes(&mut point.attributes);
                point.exemplars.iter_mut().for_each(exemplar);
                point.positive.get_or_insert_default();
                point.negative.get_or_insert_default();
            }
            return;
        }
        Some(Data::Summary(summary)) => {
            summary.data_points.iter_mut().for_each(|point| attributes(&mut point.attributes));
            return;
        }
        None => return,
    };
    for point in points {
        attributes(&mut point.attributes);
        point.exemplars.iter_mut().for_each(exemplar);
    }
}

fn sort_points(metric: &mut Metric) {
    match &mut metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points.sort_by_cached_key(Message::encode_to_vec),
        Some(Data::Sum(sum)) => sum.data_points.sort_by_cached_key(Message::encode_to_vec),
        Some(Data::Histogram(histogram)) => histogram.data_points.sort_by_cached_key(Message::encode_to_vec),
        Some(Data::ExponentialHistogram(histogram)) => {
            histogram.data_points.sort_by_cached_key(Message::encode_to_vec);
        }
        Some(Data::Summary(_)) | None => {}
    }
}

fn exemplar(exemplar: &mut Exemplar) {
    attributes(&mut exemplar.filtered_attributes);
    [&mut exemplar.trace_id, &mut exemplar.span_id].into_iter().for_each(id);
}

fn id(id: &mut Vec<u8>) {
    if id.iter().all(|byte| *byte == 0) {
        id.clear();
    }
}

fn attributes(attributes: &mut [KeyValue]) {
    attributes.iter_mut().for_each(|pair| any(pair.value.get_or_insert_default()));
    attributes.sort_by(|one, other| one.key.cmp(&other.key));
}

fn any(any: &mut AnyValue) {
    match &mut any.value {
        Some(Value::ArrayValue(list)) => list.values.iter_mut().for_each(self::any),
        Some(Value::KvlistValue(map)) => attributes(&mut map.values),
        _ => {}
    }
}

/// Lists where two requests in plain JSON differ.
pub(crate) fn list(ours: &Json, theirs: &Json, path: &str, out: &mut String) {
    match (ours, theirs) {
        (Json::Object(one), Json::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                list(&ours[key], &theirs[key], &format!("{path}.{key}"), out);
            }
        }
        (Json::Array(one), Json::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                list(one, other, &format!("{path}[{index}]"), out);
            }
        }
        _ if ours == theirs => {}
        _ => writeln!(out, "    {path}\n      ours:   {ours}\n      theirs: {theirs}").unwrap(),
    }
}
