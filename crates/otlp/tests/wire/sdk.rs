//! Requests as SDKs send them: protobuf of the Python SDK with its JSON by protobuf's own runtime, and JSON of the
//! JavaScript SDK. The programs that made them lie beside them.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use weir_otlp::{Counts, Json, Limits, Signal, from_json, logs, metrics, to_json, validate};

use crate::model::{Request, assert_same};
use crate::reflect;

const JS_TRACES: &[u8] = include_bytes!("sdk/js-traces.json");
const JS_METRICS: &[u8] = include_bytes!("sdk/js-metrics.json");
const JS_LOGS: &[u8] = include_bytes!("sdk/js-logs.json");

/// Protobuf, the same as JSON, and what is in it.
const PYTHON: [(Signal, &[u8], &[u8], u32); 3] = [
    (Signal::Traces, include_bytes!("sdk/python-traces.pb"), include_bytes!("sdk/python-traces.json"), 2),
    (Signal::Metrics, include_bytes!("sdk/python-metrics.pb"), include_bytes!("sdk/python-metrics.json"), 5),
    (Signal::Logs, include_bytes!("sdk/python-logs.pb"), include_bytes!("sdk/python-logs.json"), 8),
];

#[track_caller]
fn read(signal: Signal, json: &[u8]) -> Request {
    let bytes = from_json(signal, json, &Limits::default(), usize::MAX).unwrap();
    assert_same(&Request::through_views(signal, &bytes), &Request::decode(signal, &bytes));
    Request::decode(signal, &bytes)
}

fn value(json: &[u8]) -> serde_json::Value {
    serde_json::from_slice(json).unwrap()
}

#[test]
fn requests_of_the_python_sdk() {
    for (signal, bytes, json, items) in PYTHON {
        let counts = Counts { items, resources: 1, scopes: 1 };
        assert_eq!(validate(signal, bytes, &Limits::default()), Ok(counts));
        let request = Request::decode(signal, bytes);
        assert_same(&Request::through_views(signal, bytes), &request);
        let Json { text, unknown_fields } = to_json(signal, bytes, &Limits::default()).unwrap();
        assert_eq!((value(&text), unknown_fields), (value(json), 0));
        assert_same(&read(signal, json), &request);
    }
}

#[test]
fn requests_of_the_javascript_sdk() {
    for (signal, json, items) in
        [(Signal::Traces, JS_TRACES, 1), (Signal::Metrics, JS_METRICS, 5), (Signal::Logs, JS_LOGS, 7)]
    {
        let request = read(signal, json);
        assert_eq!(request.counts(), Counts { items, resources: 1, scopes: 1 });
        assert_same(&request, &Request::decode(signal, &reflect::from_json(signal, json)));
        let Json { text, .. } = to_json(signal, &request.encode(), &Limits::default()).unwrap();
        assert_same(&read(signal, &text), &request);
    }
}

/// Some values through the views.
#[test]
fn metrics_and_logs_of_the_python_sdk_through_views() {
    let [_, (_, request, ..), (_, logs, ..)] = PYTHON;
    let scope = metrics::resource_metrics(request).next().unwrap().scope_metrics().next().unwrap();
    let [pallets, weight, waiting, scan, temperature] = scope.metrics().collect::<Vec<_>>().try_into().unwrap();
    let data = |metric: metrics::Metric<'static>| metric.data().unwrap();
    let point = |metric| data(metric).data_points().next().unwrap();

    assert_eq!((pallets.name(), pallets.unit(), pallets.description()), ("pallets", "{pallet}", "Pallets received"));
    assert_eq!((data(pallets).is_monotonic(), data(weight).is_monotonic()), (true, false));
    assert_eq!(data(pallets).aggregation_temporality(), 2);
    let number = metrics::NumberDataPoint(point(pallets));
    assert_eq!((number.value(), number.exemplars().count()), (Some(metrics::Number::Int(12)), 1));
    assert_eq!(metrics::NumberDataPoint(point(weight)).value(), Some(metrics::Number::Double(-3.75)));
    assert_eq!(metrics::NumberDataPoint(point(temperature)).value(), Some(metrics::Number::Int(-18)));

    assert_eq!(data(waiting).aggregation_temporality(), 1);
    let histogram = metrics::HistogramDataPoint(point(waiting));
    assert_eq!(histogram.bucket_counts().collect::<Vec<_>>(), [1, 1, 0, 1]);
    assert_eq!(histogram.explicit_bounds().collect::<Vec<_>>(), [1.0, 2.5, 10.0]);
    assert_eq!((histogram.min(), histogram.max(), histogram.sum()), (Some(0.25), Some(64.0), Some(66.25)));

    let exponential = metrics::ExponentialHistogramDataPoint(point(scan));
    let positive = exponential.positive().unwrap();
    assert_eq!((exponential.scale(), exponential.zero_count(), positive.offset()), (4, 1, -1));
    assert_eq!((positive.bucket_counts().count(), positive.bucket_counts().sum::<u64>()), (160, 3));

    let scope = logs::resource_logs(logs).next().unwrap().scope_logs().next().unwrap();
    let first = scope.log_records().next().unwrap();
    assert_eq!((first.severity_number(), first.severity_text()), (13, "warning"));
    assert_eq!((first.event_name(), first.observed_time_unix_nano()), ("pallet.received", 1_760_000_000_500_000_000));
}

fn string(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(Value::StringValue(value.into())) };
    KeyValue { key: key.into(), value: Some(value), key_strindex: 0 }
}

/// Every value by hand.
#[test]
fn a_traces_request_of_the_javascript_sdk() {
    let golden = read(Signal::Traces, JS_TRACES);
    let int = |value| AnyValue { value: Some(Value::IntValue(value)) };
    let server = Span {
        trace_id: vec![0x5b, 0x8e, 0xff, 0xf7, 0x98, 0x03, 0x81, 0x03, 0xd2, 0x69, 0xb6, 0x33, 0x81, 0x3f, 0xc6, 0x0c],
        span_id: vec![0xee, 0xe1, 0x9b, 0x7e, 0xc3, 0xc1, 0xb1, 0x74],
        parent_span_id: vec![0xee, 0xe1, 0x9b, 0x7e, 0xc3, 0xc1, 0xb1, 0x73],
        name: "POST /cart/checkout".into(),
        kind: 2,
        start_time_unix_nano: 1_727_701_200_000_000_001,
        end_time_unix_nano: 1_727_701_200_250_000_000,
        attributes: vec![
            string("http.request.method", "POST"),
            KeyValue { key: "http.response.status_code".into(), value: Some(int(500)), key_strindex: 0 },
            KeyValue {
                key: "cart.items".into(),
                value: Some(AnyValue { value: Some(Value::ArrayValue(ArrayValue { values: vec![int(1), int(-2)] })) }),
                key_strindex: 0,
            },
        ],
        events: vec![Event {
            time_unix_nano: 1_727_701_200_100_000_000,
            name: "exception".into(),
            attributes: vec![string("exception.message", "card declined \"again\" \u{1F4B3}")],
            dropped_attributes_count: 0,
        }],
        links: vec![Link { trace_id: vec![0xab; 16], span_id: vec![0xcd; 8], flags: 257, ..Link::default() }],
        status: Some(Status { code: 2, message: "card declined".into() }),
        flags: 257,
        ..Span::default()
    };
    let scope = InstrumentationScope {
        name: "@opentelemetry/instrumentation-http".into(),
        version: "0.53.0".into(),
        ..InstrumentationScope::default()
    };
    let scope_spans = ScopeSpans { scope: Some(scope), spans: vec![server], ..ScopeSpans::default() };
    let resource = Resource { attributes: vec![string("service.name", "checkout")], ..Resource::default() };
    let resource_spans =
        ResourceSpans { resource: Some(resource), scope_spans: vec![scope_spans], ..ResourceSpans::default() };
    let expected = ExportTraceServiceRequest { resource_spans: vec![resource_spans] };
    assert_same(&golden, &Request::Traces(expected));
}
