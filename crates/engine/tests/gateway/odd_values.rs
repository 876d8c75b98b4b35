//! What is well-formed and makes no sense: numbers that no enum has, histograms whose buckets and bounds do not go
//! together. It is not a gateway's to judge, so it arrives as it was sent; what works on values does what it can, and
//! counts the rest. Each case ends with a good request that is delivered.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Histogram, HistogramDataPoint, Metric,
};
use opentelemetry_proto::tonic::trace::v1::Status;
use prost::Message;
use weir_plan::{Protocol, Signal};
use weir_testkit::backend::Backend;
use weir_testkit::grpc::{OK, frame};
use weir_testkit::http::{self, JSON, PROTOBUF};
use weir_testkit::metrics::whole;
use weir_testkit::signals::{TIME, counter, deltas, document, encoded, logs, metrics, text};
use weir_testkit::{eventually, payload};

use crate::signals::{all_to, backends};
use crate::support::{Gateway, settings};

async fn send(gateway: &Gateway, signal: Signal, request: &[u8]) {
    let answer = gateway.client().await.call(signal.grpc_method(), None, frame(request, false)).await;
    assert_eq!(answer.code, OK, "{signal:?}: {answer:?}");
}

fn decoded(signal: Signal, request: &[u8]) -> String {
    match signal {
        Signal::Traces => format!("{:?}", ExportTraceServiceRequest::decode(request).unwrap()),
        Signal::Metrics => format!("{:?}", ExportMetricsServiceRequest::decode(request).unwrap()),
        Signal::Logs => format!("{:?}", ExportLogsServiceRequest::decode(request).unwrap()),
    }
}

/// Sends it over gRPC, over HTTP and in JSON: it arrives three times, byte by byte where it is not translated.
async fn arrives_by_every_way_in(gateway: &Gateway, backend: &Backend, signal: Signal, request: &[u8]) {
    let before = backend.captured().len();
    let json = weir_otlp::to_json(signal, request, &weir_otlp::Limits::default()).unwrap().text;
    send(gateway, signal, request).await;
    eventually("it arrives", async || backend.captured().len() == before + 1).await;
    for (number, (content_type, body)) in [(PROTOBUF, request), (JSON, &json)].into_iter().enumerate() {
        let answer = http::post_to(gateway.at.http, signal.http_path(), content_type, body).await;
        assert_eq!(answer.status, 200, "{signal:?} {content_type}: {answer:?}");
        eventually("it arrives", async || backend.captured().len() == before + number + 2).await;
    }
    let captured = &backend.captured()[before..];
    assert_eq!((&captured[0].plain[..], &captured[1].plain[..]), (request, request), "{signal:?}");
    assert_eq!(decoded(signal, &captured[2].plain), decoded(signal, request));
}

/// All requests that arrived, one after the other, which is one request.
fn arrived(backend: &Backend) -> Vec<u8> {
    backend.captured().iter().flat_map(|request| request.plain.to_vec()).collect()
}

/// Numbers that no enum of OTLP has.
const UNKNOWN: [i32; 4] = [99, -1, i32::MAX, i32::MIN];

/// A request in which every enum is this number.
fn with_enums(signal: Signal, number: i32) -> Vec<u8> {
    match signal {
        Signal::Traces => {
            let mut request = payload::request(1, 1, 0);
            let span = &mut request.resource_spans[0].scope_spans[0].spans[0];
            span.kind = number;
            span.status = Some(Status { code: number, ..Status::default() });
            request.encode_to_vec()
        }
        Signal::Metrics => with_temporality(number),
        Signal::Logs => {
            let mut request = logs(&[], 1..2);
            request.resource_logs[0].scope_logs[0].log_records[0].severity_number = number;
            request.encode_to_vec()
        }
    }
}

fn with_temporality(number: i32) -> Vec<u8> {
    let mut request = metrics(&[], 1..2);
    for metric in &mut request.resource_metrics[0].scope_metrics[0].metrics {
        match metric.data.as_mut().unwrap() {
            Data::Sum(sum) => sum.aggregation_temporality = number,
            Data::Histogram(histogram) => histogram.aggregation_temporality = number,
            Data::ExponentialHistogram(histogram) => histogram.aggregation_temporality = number,
            Data::Gauge(_) | Data::Summary(_) => {}
        }
    }
    request.encode_to_vec()
}

#[tokio::test]
async fn unknown_enum_values_arrive_as_they_were_sent() {
    let backends = backends().await;
    let gateway = Gateway::start(all_to(&backends, Protocol::Grpc)).await;
    for (signal, backend) in Signal::ALL.into_iter().zip(&backends) {
        for number in UNKNOWN {
            arrives_by_every_way_in(&gateway, backend, signal, &with_enums(signal, number)).await;
        }
        arrives_by_every_way_in(&gateway, backend, signal, &encoded(signal, &[], 1..3)).await;
    }
    gateway.settle().await;
}

/// They are no name's number, and numbers to compare.
#[tokio::test]
async fn rules_take_unknown_kinds_and_severities_for_numbers() {
    let (spans, records) = (Backend::start().await, Backend::start().await);
    let of_spans = "  transform:
  - statements:
    - set(span.attributes[\"kind\"], Concat([\"<\", span.kind.string, \">\"], \"\"))
    - set(span.attributes[\"number\"], Concat([span.kind, span.status.code], \"/\"))
  filter:
  - conditions:
    - span.kind == SPAN_KIND_SERVER
    - span.status.code == STATUS_CODE_ERROR";
    let of_records = "  transform:
  - statements:
    - set(log.severity_text, \"none\") where log.severity_number <= SEVERITY_NUMBER_UNSPECIFIED
  filter:
  - conditions:
    - log.severity_number >= SEVERITY_NUMBER_ERROR and log.severity_number <= SEVERITY_NUMBER_FATAL4";
    let yaml = document(Signal::Traces, "a", spans.address, of_spans)
        + &document(Signal::Logs, "a", records.address, of_records);
    let gateway = Gateway::configured(&yaml, settings()).await;

    // Known ones, which go, beside unknown ones, which stay.
    for number in [2].into_iter().chain(UNKNOWN) {
        send(&gateway, Signal::Traces, &with_enums(Signal::Traces, number)).await;
    }
    for number in [17].into_iter().chain(UNKNOWN) {
        send(&gateway, Signal::Logs, &with_enums(Signal::Logs, number)).await;
    }
    gateway.settle().await;
    let request = ExportTraceServiceRequest::decode(arrived(&spans).as_slice()).unwrap();
    let all = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans[0].spans);
    let found: Vec<_> = all.map(|span| (text(&span.attributes, "kind"), text(&span.attributes, "number"))).collect();
    let numbers = UNKNOWN.map(|number| format!("{number}/{number}"));
    assert_eq!(found, numbers.each_ref().map(|number| (Some("<>"), Some(number.as_str()))));
    let request = ExportLogsServiceRequest::decode(arrived(&records).as_slice()).unwrap();
    let all = request.resource_logs.iter().flat_map(|resource| &resource.scope_logs[0].log_records);
    let found: Vec<_> = all.map(|record| (record.severity_number, record.severity_text.as_str())).collect();
    assert_eq!(found, [(99, "INFO"), (-1, "none"), (i32::MAX, "INFO"), (i32::MIN, "none")]);
    assert_eq!(whole(gateway.scrape().await.sum("weir_rule_errors_total", "pipeline=\"a\"")), 0);

    for (signal, backend) in [(Signal::Traces, &spans), (Signal::Logs, &records)] {
        let before = backend.captured().len();
        send(&gateway, signal, &with_enums(signal, 1)).await;
        eventually("a good one arrives", async || backend.captured().len() == before + 1).await;
    }
    gateway.settle().await;
}

/// A gateway with one pipeline that converts to delta.
async fn converting(backend: &Backend) -> Gateway {
    let yaml = document(Signal::Metrics, "delta", backend.address, "")
        .replace("    otlp:\n", "    otlp:\n      temporality: delta\n");
    Gateway::configured(&yaml, settings()).await
}

/// Data points by what became of them.
async fn points(gateway: &Gateway, outcome: &str, reason: &str) -> u64 {
    let page = gateway.scrape().await;
    let labels = format!("outcome=\"{outcome}\",reason=\"{reason}\"");
    whole(page.sum("weir_temporality_points_total", &labels))
}

/// A counter is still converted. Its series is one that no other request here has.
async fn still_converts(gateway: &Gateway, backend: &Backend) {
    let before = backend.captured().len();
    for (second, value) in [(1, 10), (2, 15)] {
        send(gateway, Signal::Metrics, &counter(second, value)).await;
    }
    eventually("a good one arrives", async || backend.captured().len() == before + 1).await;
    assert_eq!(deltas(&backend.captured()[before].plain), [(1, 5)]);
    gateway.settle().await;
}

#[tokio::test]
async fn points_of_an_unknown_temporality_are_not_converted() {
    let backend = Backend::start().await;
    let gateway = converting(&backend).await;
    for (number, temporality) in UNKNOWN.into_iter().enumerate() {
        let request = with_temporality(temporality);
        send(&gateway, Signal::Metrics, &request).await;
        eventually("it arrives", async || backend.captured().len() == number + 1).await;
        assert_eq!(backend.captured()[number].plain, request, "{temporality}");
    }
    let sums_and_histograms = 3 * UNKNOWN.len() as u64;
    assert_eq!(points(&gateway, "passed", "unspecified").await, sums_and_histograms);
    still_converts(&gateway, &backend).await;
}

/// Buckets and bounds that do not go together, in metrics of their own.
fn odd_histograms() -> Vec<(Vec<u64>, Vec<f64>)> {
    vec![
        // More buckets than bounds say, fewer, bounds alone, buckets alone, nothing.
        (vec![1, 2, 3, 4], vec![5.0]),
        (vec![1], vec![5.0, 10.0, 20.0]),
        (vec![], vec![5.0]),
        (vec![7, 8], vec![]),
        (vec![], vec![]),
        // As many as they should be, and still no buckets.
        (vec![1, 1, 1, 1], vec![5.0, 4.0, f64::NAN]),
        (vec![1, 1, 1], vec![f64::INFINITY, f64::NEG_INFINITY]),
        (vec![u64::MAX - 9, u64::MAX - 9], vec![0.0]),
    ]
}

/// Scales and offsets as far apart as they can be.
fn odd_exponentials() -> Vec<ExponentialHistogramDataPoint> {
    let point = |scale, offset, zero_threshold| ExponentialHistogramDataPoint {
        scale,
        zero_threshold,
        positive: Some(Buckets { offset, bucket_counts: vec![1, 0, 2] }),
        negative: Some(Buckets { offset: offset.wrapping_neg(), bucket_counts: vec![3] }),
        ..ExponentialHistogramDataPoint::default()
    };
    vec![
        point(i32::MAX, i32::MAX, 0.0),
        point(i32::MIN, i32::MIN, -1.0),
        point(0, i32::MAX, f64::NAN),
        point(20, 0, f64::INFINITY),
        ExponentialHistogramDataPoint { positive: None, negative: None, ..point(0, 0, 0.0) },
    ]
}

/// Cumulative histograms that make no sense, as of this second; all that they count grows by one each second.
fn odd(second: u64, change: impl Fn(&mut HistogramDataPoint, &mut ExponentialHistogramDataPoint)) -> Vec<u8> {
    let time_unix_nano = TIME + second * 1_000_000_000;
    let mut request = metrics(&[], 1..2);
    let metrics = &mut request.resource_metrics[0].scope_metrics[0].metrics;
    let metric = |name: String, data| Metric { name, data: Some(data), ..Metric::default() };
    *metrics = Vec::new();
    for (number, (buckets, explicit_bounds)) in odd_histograms().into_iter().enumerate() {
        let mut point = HistogramDataPoint {
            start_time_unix_nano: TIME,
            time_unix_nano,
            count: 3 + second,
            bucket_counts: buckets.iter().map(|count| count + second).collect(),
            explicit_bounds,
            ..HistogramDataPoint::default()
        };
        change(&mut point, &mut ExponentialHistogramDataPoint::default());
        let data = Histogram { data_points: vec![point], aggregation_temporality: 2 };
        metrics.push(metric(format!("odd.{number}"), Data::Histogram(data)));
    }
    for (number, point) in odd_exponentials().into_iter().enumerate() {
        let mut point = ExponentialHistogramDataPoint {
            start_time_unix_nano: TIME,
            time_unix_nano,
            count: 3 + second,
            zero_count: second,
            ..point
        };
        change(&mut HistogramDataPoint::default(), &mut point);
        let data = ExponentialHistogram { data_points: vec![point], aggregation_temporality: 2 };
        metrics.push(metric(format!("odder.{number}"), Data::ExponentialHistogram(data)));
    }
    request.encode_to_vec()
}

fn as_they_are(_: &mut HistogramDataPoint, _: &mut ExponentialHistogramDataPoint) {}

#[tokio::test]
async fn odd_histograms_arrive_as_they_were_sent() {
    let backends = backends().await;
    let gateway = Gateway::start(all_to(&backends, Protocol::Grpc)).await;
    let [_, backend, _] = &backends;
    arrives_by_every_way_in(&gateway, backend, Signal::Metrics, &odd(1, as_they_are)).await;
    arrives_by_every_way_in(&gateway, backend, Signal::Metrics, &encoded(Signal::Metrics, &[], 1..3)).await;
    gateway.settle().await;
}

/// As long as they stay what they are they are as wrong after as before; when they change, that is counted.
#[tokio::test]
async fn odd_histograms_become_deltas_as_long_as_they_do_not_change() {
    let backend = Backend::start().await;
    let gateway = converting(&backend).await;
    let (histograms, exponentials) = (odd_histograms().len() as u64, odd_exponentials().len() as u64);
    send(&gateway, Signal::Metrics, &odd(1, as_they_are)).await;
    assert_eq!(points(&gateway, "dropped", "first").await, histograms + exponentials);
    send(&gateway, Signal::Metrics, &odd(2, as_they_are)).await;
    gateway.settle().await;
    assert_eq!(points(&gateway, "converted", "").await, histograms + exponentials);
    let request = ExportMetricsServiceRequest::decode(arrived(&backend).as_slice()).unwrap();
    let found = request.resource_metrics[0].scope_metrics[0].metrics.iter().filter_map(|metric| match &metric.data {
        Some(Data::Histogram(histogram)) => Some(&histogram.data_points[0]),
        _ => None,
    });
    for (point, (buckets, bounds)) in found.zip(odd_histograms()) {
        assert_eq!((point.count, point.bucket_counts.as_slice()), (1, vec![1; buckets.len()].as_slice()));
        assert_eq!(format!("{:?}", point.explicit_bounds), format!("{bounds:?}"));
    }

    send(
        &gateway,
        Signal::Metrics,
        &odd(3, |plain, exponential| {
            plain.explicit_bounds.push(1.0);
            exponential.scale = !exponential.scale;
            exponential.zero_threshold = 1e300;
        }),
    )
    .await;
    gateway.settle().await;
    assert!(points(&gateway, "dropped", "mismatched").await >= histograms);
    let books = gateway.engine.books();
    let (_, books) = &books[0];
    assert_eq!(books.accepted, 3 * (histograms + exponentials));
    assert_eq!(books.accepted, books.delivered + books.filtered["temporality"], "{books:?}");
    still_converts(&gateway, &backend).await;
}

/// Every statement that reads or writes what a histogram counts.
const STATEMENTS: [&str; 20] = [
    "extract_sum_metric(true) where IsMatch(metric.name, \"^odd.*[0-9]$\")",
    "extract_count_metric(true) where IsMatch(metric.name, \"^odd.*[0-9]$\")",
    "extract_percentile_metric(0.1) where IsMatch(metric.name, \"^odd.*[0-9]$\")",
    "extract_percentile_metric(99.9) where IsMatch(metric.name, \"^odd.*[0-9]$\")",
    "scale_metric(-2.5) where IsMatch(metric.name, \"^odd\")",
    "scale_metric(1000000000000000000000000000000.0) where IsMatch(metric.name, \"^odd\")",
    "copy_metric(name=\"copy\") where IsMatch(metric.name, \"^odd.*[0-9]$\")",
    "aggregate_on_attributes(\"sum\", []) where IsMatch(metric.name, \"^odd\")",
    "aggregate_on_attribute_value(\"max\", \"id\", [\"1\"], \"2\") where IsMatch(metric.name, \"^odd\")",
    "convert_exponential_histogram_to_histogram(\"upper\", [1.0, 10.0]) where IsMatch(metric.name, \"^odd\")",
    "convert_exponential_histogram_to_histogram(\"midpoint\", [10.0, 1.0]) where IsMatch(metric.name, \"^odd\")",
    "convert_exponential_histogram_to_histogram(\"uniform\", [0.0, 1.0, 1.0]) where IsMatch(metric.name, \"^odd\")",
    "convert_exponential_histogram_to_histogram(\"random\", [0.0]) where IsMatch(metric.name, \"^odd\")",
    "merge_histogram_buckets(5.0) where datapoint.flags == 0",
    "merge_histogram_buckets(1, \"limit_buckets\") where datapoint.flags == 0",
    "set(datapoint.attributes[\"n\"], Len(datapoint.bucket_counts))",
    "set(datapoint.explicit_bounds, [1.0]) where Len(datapoint.explicit_bounds) != 1",
    "set(datapoint.bucket_counts, datapoint.bucket_counts)",
    "set(datapoint.positive.offset, datapoint.scale)",
    "set(datapoint.negative, datapoint.positive)",
];

#[tokio::test]
async fn rules_come_through_odd_histograms() {
    let backend = Backend::start().await;
    let pipeline = |(number, statement): (usize, &&str)| {
        let rules = format!("  transform:\n  - statements:\n    - '{statement}'");
        document(Signal::Metrics, &format!("rule-{number}"), backend.address, &rules)
    };
    let yaml: String = STATEMENTS.iter().enumerate().map(pipeline).collect();
    let gateway = Gateway::configured(&yaml, settings()).await;
    let good = encoded(Signal::Metrics, &[("service.name", "shop")], 1..3);
    let mut before = vec![0; STATEMENTS.len()];
    for request in [odd(1, as_they_are), good] {
        send(&gateway, Signal::Metrics, &request).await;
        gateway.settle().await;
        let books: Vec<_> = gateway.engine.books().into_iter().map(|(_, books)| books).collect();
        for (statement, (books, before)) in STATEMENTS.iter().zip(books.iter().zip(&mut before)) {
            // Some make one point of many, some make more.
            assert!(books.delivered > *before && books.delivered == books.accepted, "{statement}: {books:?}");
            *before = books.delivered;
        }
    }
    assert_eq!(backend.captured().len(), 2 * STATEMENTS.len());
}

/// A request of nothing, or of resources and scopes without items, is right and no news. Beside items they go on.
#[tokio::test]
async fn a_request_without_items_is_answered_and_goes_nowhere() {
    let backend = Backend::start().await;
    let gateway = Gateway::to(backend.address).await;
    // A resource with nothing in it; one with a scope.
    let empty: &[u8] = &[0x0a, 0x02, 0x0a, 0x00, 0x0a, 0x02, 0x12, 0x00];
    for request in [&[][..], empty] {
        send(&gateway, Signal::Traces, request).await;
        let answer = http::post_to(gateway.at.http, "/v1/traces", PROTOBUF, request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let (span, both) = (payload::encoded(1, 1, 10), [empty, &payload::encoded(2, 1, 10)].concat());
    send(&gateway, Signal::Traces, &span).await;
    send(&gateway, Signal::Traces, &both).await;
    eventually("those with items arrive", async || backend.ids().len() == 2).await;
    let lengths: Vec<_> = backend.captured().iter().map(|request| request.plain.len()).collect();
    assert_eq!(lengths.iter().sum::<usize>(), span.len() + both.len(), "{lengths:?}");
    assert_eq!(
        gateway.scrape().await.get("otelcol_receiver_accepted_spans_total{receiver=\"otlp\",transport=\"grpc\"}"),
        2.0
    );
}
