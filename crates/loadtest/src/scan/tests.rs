use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

use super::*;

fn span(id: &[u8], start: u64) -> Span {
    Span { span_id: id.to_vec(), start_time_unix_nano: start, name: "op".to_owned(), ..Span::default() }
}

fn numbered(ids: impl IntoIterator<Item = u64>) -> Vec<Span> {
    ids.into_iter().map(|id| span(&id.to_be_bytes(), 7)).collect()
}

fn request(spans: Vec<Span>) -> Vec<u8> {
    let scope = ScopeSpans { spans, schema_url: "s".to_owned(), ..ScopeSpans::default() };
    let resource = ResourceSpans { scope_spans: vec![scope], schema_url: "r".to_owned(), ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![resource] }.encode_to_vec()
}

fn log_request(records: Vec<LogRecord>) -> Vec<u8> {
    let scope = ScopeLogs { log_records: records, ..ScopeLogs::default() };
    let resource = ResourceLogs { scope_logs: vec![scope], ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![resource] }.encode_to_vec()
}

fn metric_request(data: impl IntoIterator<Item = Data>) -> Vec<u8> {
    let metric = |data| Metric { name: "m".to_owned(), data: Some(data), ..Metric::default() };
    let scope = ScopeMetrics { metrics: data.into_iter().map(metric).collect(), ..ScopeMetrics::default() };
    let resource = ResourceMetrics { scope_metrics: vec![scope], ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![resource] }.encode_to_vec()
}

/// A metric of each type with one point, its id from `first` on.
fn every_type(first: u64, time: u64) -> [Data; 5] {
    let number =
        |id| NumberDataPoint { start_time_unix_nano: id, time_unix_nano: time, flags: 1, ..NumberDataPoint::default() };
    let histogram = HistogramDataPoint {
        start_time_unix_nano: first + 2,
        time_unix_nano: time,
        bucket_counts: vec![1, 2],
        explicit_bounds: vec![0.5],
        ..HistogramDataPoint::default()
    };
    let exponential = ExponentialHistogramDataPoint {
        start_time_unix_nano: first + 3,
        time_unix_nano: time,
        ..ExponentialHistogramDataPoint::default()
    };
    let summary = SummaryDataPoint {
        start_time_unix_nano: first + 4,
        time_unix_nano: time,
        sum: 1.0,
        ..SummaryDataPoint::default()
    };
    [
        Data::Gauge(Gauge { data_points: vec![number(first)] }),
        Data::Sum(Sum { data_points: vec![number(first + 1)], ..Sum::default() }),
        Data::Histogram(Histogram { data_points: vec![histogram], ..Histogram::default() }),
        Data::ExponentialHistogram(ExponentialHistogram {
            data_points: vec![exponential],
            ..ExponentialHistogram::default()
        }),
        Data::Summary(Summary { data_points: vec![summary] }),
    ]
}

#[test]
fn ids_and_start_times_of_spans_come_out_as_runs() {
    let mut spans = numbered([1, 2, 3, 9, 10]);
    spans.push(span(&[1, 2], 8));
    spans.push(span(&[0; 8], 8));
    let found = scan(Signal::Traces, &mut request(spans).as_slice()).unwrap();
    assert_eq!(found.runs, [1..=3, 9..=10]);
    assert_eq!(found.times, [(7, 5), (8, 2)]);
    assert_eq!((found.items, found.without_id), (7, 2));
}

#[test]
fn log_records_are_told_apart_by_their_span_id() {
    let record = |id: u64| LogRecord {
        time_unix_nano: 5,
        observed_time_unix_nano: 6,
        span_id: id.to_be_bytes().to_vec(),
        severity_text: "INFO".to_owned(),
        ..LogRecord::default()
    };
    let records = vec![record(1), record(2), LogRecord { span_id: Vec::new(), ..record(0) }];
    let found = scan(Signal::Logs, &mut log_request(records).as_slice()).unwrap();
    assert_eq!((found.items, found.without_id, found.runs), (3, 1, vec![1..=2]));
    assert_eq!(found.times, [(5, 3)]);
}

#[test]
fn points_of_every_type_are_told_apart_by_their_start() {
    let found = scan(Signal::Metrics, &mut metric_request(every_type(40, 9)).as_slice()).unwrap();
    assert_eq!((found.items, found.without_id, found.runs), (5, 0, vec![40..=44]));
    assert_eq!(found.times, [(9, 5)]);
}

#[test]
fn a_start_that_is_a_time_is_no_id() {
    let now = 1_700_000_000_000_000_000;
    let found = scan(Signal::Metrics, &mut metric_request(every_type(now, now)).as_slice()).unwrap();
    assert_eq!((found.items, found.without_id, found.runs), (5, 5, vec![]));
}

#[test]
fn a_request_cut_anywhere_is_an_error_or_shorter_but_never_a_panic() {
    for (signal, whole) in [
        (Signal::Traces, request(numbered(1..=5))),
        (Signal::Metrics, metric_request(every_type(1, 9))),
        (Signal::Logs, log_request(vec![LogRecord { time_unix_nano: 1, ..LogRecord::default() }])),
    ] {
        for length in 1..whole.len() {
            assert!(scan(signal, &mut &whole[..length]).is_err(), "{signal} {length}");
        }
        assert_eq!(scan(signal, &mut [].as_slice()).unwrap(), Scan::default());
    }
}

#[test]
fn arbitrary_bytes_do_not_panic() {
    let mut rng = fastrand::Rng::with_seed(7);
    let requests = [request(numbered(1..=3)), metric_request(every_type(1, 9))];
    for round in 0..20_000 {
        let mut bytes = requests[round % 2].clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        for signal in Signal::ALL {
            let _ = scan(signal, &mut bytes.as_slice());
        }
    }
}

#[test]
fn rejecting_the_first_spans_leaves_the_rest() {
    let mut found = scan(Signal::Traces, &mut request(numbered([1, 2, 5, 6, 7])).as_slice()).unwrap();
    found.reject_first(3);
    assert_eq!((found.items, found.runs), (2, vec![6..=7]));
}
