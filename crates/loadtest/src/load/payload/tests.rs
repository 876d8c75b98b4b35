use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message;

use super::*;
use crate::scan::scan;
use crate::signal::Signal;

const STAMP: Stamp = Stamp { first_id: 1000, unix_nanos: 1_700_000_000_000_000_000, trace_seed: 99 };

fn shape(signal: Signal, batch: u32) -> Shape {
    ShapeArgs::default().resolve(signal, batch).unwrap()
}

fn stamped(template: &Template, stamp: Stamp) -> Vec<u8> {
    let mut bytes = template.bytes().to_vec();
    template.stamp(&mut bytes, stamp);
    bytes
}

/// The request as prost reads it; its encoding is canonical.
fn decoded<M: Message + Default>(shape: &Shape, stamp: Stamp) -> M {
    let bytes = stamped(&Template::new(shape, shape.batch), stamp);
    let request = M::decode(bytes.as_slice()).unwrap();
    assert!(request.encode_to_vec() == bytes, "canonical encoding");
    request
}

fn text(attribute: &KeyValue) -> &str {
    match &attribute.value.as_ref().unwrap().value {
        Some(Value::StringValue(text)) => text,
        other => panic!("no text: {other:?}"),
    }
}

#[test]
fn prost_reads_exactly_the_described_spans() {
    let request: ExportTraceServiceRequest = decoded(&shape(Signal::Traces, 25), STAMP);
    let resource = &request.resource_spans[0];
    assert_eq!(resource.resource.as_ref().unwrap().attributes[0].key, "service.name");
    let spans = &resource.scope_spans[0].spans;
    assert_eq!(spans.len(), 25);
    for (index, (span, id)) in spans.iter().zip(1000_u64..).enumerate() {
        let root_id = 1000 + (index as u64 / 11) * 11;
        let is_root = index % 11 == 0;
        assert_eq!(span.span_id, id.to_be_bytes());
        assert_eq!(span.trace_id, [99_u64.to_be_bytes(), root_id.to_be_bytes()].concat());
        assert_eq!(span.parent_span_id, if is_root { vec![] } else { root_id.to_be_bytes().to_vec() });
        assert_eq!(span.start_time_unix_nano, STAMP.unix_nanos);
        assert_eq!(span.end_time_unix_nano, STAMP.unix_nanos + SPAN_NANOS);
        assert_eq!(span.attributes.len(), if is_root { 0 } else { 40 });
        for (number, attribute) in span.attributes.iter().enumerate() {
            assert_eq!(attribute.key, format!("key{number}"));
            assert_eq!(text(attribute).len(), 64);
        }
    }
}

#[test]
fn prost_reads_exactly_the_described_records() {
    let request: ExportLogsServiceRequest = decoded(&shape(Signal::Logs, 3), STAMP);
    let records = &request.resource_logs[0].scope_logs[0].log_records;
    assert_eq!(records.len(), 3);
    for (record, id) in records.iter().zip(1000_u64..) {
        assert_eq!(record.span_id, id.to_be_bytes());
        assert_eq!((record.time_unix_nano, record.observed_time_unix_nano), (STAMP.unix_nanos, STAMP.unix_nanos));
        assert_eq!((record.severity_text.as_str(), record.attributes.len()), ("INFO", 4));
        let Some(Value::StringValue(body)) = &record.body.as_ref().unwrap().value else { panic!("no body") };
        assert_eq!(body.len(), 2000);
    }
}

#[test]
fn prost_reads_points_of_every_type_and_their_buckets_match() {
    let request: ExportMetricsServiceRequest = decoded(&shape(Signal::Metrics, 7), STAMP);
    let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
    let attributes: Vec<&[KeyValue]> =
        metrics.iter().flat_map(|metric| attributes(metric.data.as_ref().unwrap())).collect();
    assert_eq!((metrics.len(), attributes.len()), (5, 7));
    assert!(attributes.iter().all(|attributes| attributes.len() == 10 && text(&attributes[9]).len() == 64));
    for metric in metrics {
        match metric.data.as_ref().unwrap() {
            Data::Histogram(histogram) => {
                let point = &histogram.data_points[0];
                assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
            }
            Data::ExponentialHistogram(histogram) => {
                let point = &histogram.data_points[0];
                let buckets = point.positive.as_ref().unwrap();
                assert_eq!((point.scale, buckets.offset), (3, 4));
                assert_eq!(buckets.bucket_counts.iter().sum::<u64>() + point.zero_count, point.count);
            }
            Data::Sum(sum) => assert_eq!((sum.aggregation_temporality, sum.is_monotonic), (2, true)),
            Data::Gauge(_) | Data::Summary(_) => {}
        }
    }
}

fn attributes(data: &Data) -> Vec<&[KeyValue]> {
    fn all<'a, P>(points: &'a [P], of: fn(&'a P) -> &'a [KeyValue]) -> Vec<&'a [KeyValue]> {
        points.iter().map(of).collect()
    }
    match data {
        Data::Gauge(gauge) => all(&gauge.data_points, |point| &point.attributes),
        Data::Sum(sum) => all(&sum.data_points, |point| &point.attributes),
        Data::Histogram(histogram) => all(&histogram.data_points, |point| &point.attributes),
        Data::ExponentialHistogram(histogram) => all(&histogram.data_points, |point| &point.attributes),
        Data::Summary(summary) => all(&summary.data_points, |point| &point.attributes),
    }
}

#[test]
fn a_metric_type_of_its_own_fills_one_metric() {
    for kind in [MetricType::Gauge, MetricType::Sum, MetricType::Summary, MetricType::ExponentialHistogram] {
        let args = ShapeArgs { metric_type: Some(kind), ..ShapeArgs::default() };
        let request: ExportMetricsServiceRequest = decoded(&args.resolve(Signal::Metrics, 4).unwrap(), STAMP);
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        assert_eq!((metrics.len(), attributes(metrics[0].data.as_ref().unwrap()).len()), (1, 4), "{kind:?}");
    }
}

/// JUDGE-1: ids are dense, and the sink's scanner reads what the generator wrote.
#[test]
fn the_sink_reads_the_ids_and_times_of_every_signal_in_order() {
    for signal in Signal::ALL {
        for batch in [1, 3, 4, 5, 6, 7, 99] {
            let bytes = stamped(&Template::new(&shape(signal, batch), batch), STAMP);
            let found = scan(signal, &mut bytes.as_slice()).unwrap();
            let count = u64::from(batch);
            assert_eq!((found.items, found.without_id), (count, 0), "{signal} {batch}");
            assert_eq!(found.runs, [1000..=999 + count], "{signal} {batch}");
            assert_eq!(found.times, [(STAMP.unix_nanos, count)]);
        }
    }
}

#[test]
fn marks_follow_the_ids_and_not_the_position() {
    let args = ShapeArgs { marked: Some(97), ..ShapeArgs::default() };
    let shape = args.resolve(Signal::Logs, 10).unwrap();
    let request: ExportLogsServiceRequest = decoded(&shape, Stamp { first_id: 195, ..STAMP });
    let records = &request.resource_logs[0].scope_logs[0].log_records;
    let values: Vec<&str> = records.iter().map(|record| text(&record.attributes[0])).collect();
    assert_eq!(values, ["1", "1", "0", "0", "0", "1", "1", "1", "1", "1"]);
    assert!(records.iter().all(|record| record.attributes[0].key == "load.drop" && record.attributes.len() == 5));
}

#[test]
fn the_resource_has_the_attributes_asked_for() {
    let resource_attributes = vec!["k8s.pod.uid=a=b".parse().unwrap()];
    let args = ShapeArgs { resource_attributes, ..ShapeArgs::default() };
    let request: ExportLogsServiceRequest = decoded(&args.resolve(Signal::Logs, 1).unwrap(), STAMP);
    let attributes = &request.resource_logs[0].resource.as_ref().unwrap().attributes;
    assert_eq!((attributes[4].key.as_str(), text(&attributes[4])), ("k8s.pod.uid", "a=b"));
    assert!("=x".parse::<Pair>().is_err());
}

/// The namespace of each resource, and how many records it has.
fn namespaces(request: &ExportLogsServiceRequest) -> Vec<(&str, usize)> {
    let of = request.resource_logs.iter().map(|logs| {
        let attribute = &logs.resource.as_ref().unwrap().attributes[3];
        assert_eq!(attribute.key, "k8s.namespace.name");
        (text(attribute), logs.scope_logs[0].log_records.len())
    });
    of.collect()
}

#[test]
fn records_are_of_as_many_namespaces_as_were_asked_for() {
    assert_eq!(namespaces(&decoded(&shape(Signal::Logs, 7), STAMP)), [("load-test", 7)]);
    let args = ShapeArgs { namespaces: Some(3), ..ShapeArgs::default() };
    let of_three = |batch| args.resolve(Signal::Logs, batch);
    let shape = of_three(7).unwrap();
    assert_eq!(namespaces(&decoded(&shape, STAMP)), [("shop-0", 3), ("shop-1", 2), ("shop-2", 2)]);
    // The last request of a run may be shorter.
    for items in 1..=7 {
        let bytes = stamped(&Template::new(&shape, items), STAMP);
        assert_eq!(scan(Signal::Logs, &mut bytes.as_slice()).unwrap().runs, [1000..=999 + u64::from(items)]);
        let request = ExportLogsServiceRequest::decode(bytes.as_slice()).unwrap();
        assert_eq!(request.resource_logs.len(), items.min(3) as usize);
    }
    let error = of_three(2).unwrap_err().to_string();
    assert_eq!(error, "cannot send records of 3 namespaces in requests of 2: use --batch 3 or more");
}

#[test]
fn what_belongs_to_another_signal_is_refused() {
    let of_logs = ShapeArgs { size: Some(1), ..ShapeArgs::default() };
    assert!(of_logs.resolve(Signal::Logs, 1).is_ok());
    let error = of_logs.resolve(Signal::Traces, 1).unwrap_err().to_string();
    assert_eq!(error, "cannot use --size with traces: it is about logs");
}

#[test]
fn a_child_span_has_the_size_of_the_published_test() {
    let template = Template::new(&shape(Signal::Traces, 512), 512);
    let per_span = template.bytes().len() / 512;
    assert!((2800..3300).contains(&per_span), "{per_span} bytes per span");
}

#[test]
fn stamping_again_leaves_nothing_of_the_first_stamp() {
    for signal in Signal::ALL {
        let template = Template::new(&shape(signal, 25), 25).with_grpc_prefix().unwrap();
        let fresh = stamped(&template, STAMP);
        let mut reused = stamped(&template, Stamp { first_id: 7, unix_nanos: u64::MAX, trace_seed: u64::MAX });
        template.stamp(&mut reused, STAMP);
        assert_eq!(reused, fresh);
        assert_eq!(fresh[..5], grpc::prefix(fresh.len() - 5, false).unwrap());
    }
}

#[test]
fn shapes_at_the_edges_encode() {
    for (attributes, attribute_bytes, spans_per_trace, spans) in [(0, 0, 1, 1), (1, 0, 2, 3), (3, 300, 10_000, 5)] {
        let args = ShapeArgs {
            attributes: Some(attributes),
            attribute_bytes: Some(attribute_bytes),
            spans_per_trace: Some(spans_per_trace),
            ..ShapeArgs::default()
        };
        let request: ExportTraceServiceRequest = decoded_loosely(&args.resolve(Signal::Traces, spans).unwrap());
        assert_eq!(request.resource_spans[0].scope_spans[0].spans.len(), spans as usize);
    }
}

/// An attribute without a value has an empty text here, which prost would write as well.
fn decoded_loosely(shape: &Shape) -> ExportTraceServiceRequest {
    let bytes = stamped(&Template::new(shape, shape.batch), STAMP);
    ExportTraceServiceRequest::decode(bytes.as_slice()).unwrap()
}
