//! Metrics and log records in JSON, spelled out: every type with every field, and what is odd but not ours to judge.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
use prost::Message as _;
use weir_otlp::{Limits, Signal, from_json, to_json};

const MAX: usize = 1 << 20;

/// The members of a request around one metric or log record.
fn around(signal: Signal, item: &str) -> String {
    match signal {
        Signal::Metrics => format!(r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{item}]}}]}}]}}"#),
        Signal::Logs => format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{item}]}}]}}]}}"#),
        Signal::Traces => format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{item}]}}]}}]}}"#),
    }
}

/// JSON as we write it, of one item, comes back byte for byte.
#[track_caller]
fn check_comes_back(signal: Signal, item: &str) {
    let text = around(signal, item);
    let bytes = from_json(signal, text.as_bytes(), &Limits::default(), MAX).unwrap();
    let back = to_json(signal, &bytes, &Limits::default()).unwrap();
    assert_eq!((String::from_utf8(back.text).unwrap(), back.unknown_fields), (text, 0));
}

fn metric(json: &str) -> Metric {
    let text = around(Signal::Metrics, json);
    let bytes = from_json(Signal::Metrics, text.as_bytes(), &Limits::default(), MAX).unwrap();
    let request = ExportMetricsServiceRequest::decode(&bytes[..]).unwrap();
    request.resource_metrics[0].scope_metrics[0].metrics[0].clone()
}

/// The error for a metric.
fn error(json: &str) -> String {
    let text = around(Signal::Metrics, json);
    from_json(Signal::Metrics, text.as_bytes(), &Limits::default(), MAX).unwrap_err().to_string()
}

const EXEMPLAR: &str = concat!(
    r#"{"timeUnixNano":"4","spanId":"0123456789abcdef","traceId":"000102030405060708090a0b0c0d0e0f","asInt":"-9","#,
    r#""filteredAttributes":[{"key":"k","value":{"boolValue":true}}]}"#
);

#[test]
fn metrics_of_every_type() {
    let times = r#""startTimeUnixNano":"1","timeUnixNano":"18446744073709551615""#;
    let attributes = r#""attributes":[{"key":"k","value":{"stringValue":"v"}}]"#;
    let common = r#""name":"n","description":"d","unit":"By""#;
    let metadata = r#""metadata":[{"key":"m","value":{"intValue":"1"}}]"#;
    let number =
        format!(r#"{{{times},"exemplars":[{EXEMPLAR}],"asInt":"-9223372036854775808",{attributes},"flags":1}}"#);
    let histogram = format!(
        r#"{{{times},"count":"6","sum":-1.5,"bucketCounts":["1","18446744073709551615"],"explicitBounds":[0.1],"#
    ) + &format!(
        r#""exemplars":[{EXEMPLAR},{EXEMPLAR}],{attributes},"flags":4294967295,"min":-2.0,"max":"Infinity"}}"#
    );
    let exponential = format!(
        r#"{{{attributes},{times},"count":"3","sum":0.0,"scale":-10,"zeroCount":"1","positive":{{"offset":-2147483648,"#
    ) + &format!(
        r#""bucketCounts":["300","0"]}},"negative":{{"offset":2147483647}},"flags":0,"exemplars":[{EXEMPLAR}],"#
    ) + r#""min":1e-300,"max":1e+300,"zeroThreshold":0.5}"#;
    let summary = format!(
        r#"{{{times},"count":"2","sum":"NaN","quantileValues":[{{"quantile":0.0,"value":1.0}},{{"quantile":0.99}}],"#
    ) + &format!(r#"{attributes},"flags":1}}"#);
    for data in [
        format!(r#""gauge":{{"dataPoints":[{number},{{"asDouble":"-Infinity"}}]}}"#),
        format!(r#""sum":{{"dataPoints":[{number}],"aggregationTemporality":2,"isMonotonic":true}}"#),
        format!(r#""histogram":{{"dataPoints":[{histogram}],"aggregationTemporality":1}}"#),
        format!(r#""exponentialHistogram":{{"dataPoints":[{exponential}],"aggregationTemporality":0}}"#),
        format!(r#""summary":{{"dataPoints":[{summary}]}}"#),
    ] {
        check_comes_back(Signal::Metrics, &format!("{{{common},{data},{metadata}}}"));
    }
}

/// Whether they make sense is the business of whoever reads them.
#[test]
fn odd_metrics_stay_as_they_are() {
    for data in [
        // More buckets than bounds say, fewer, bounds alone, buckets alone, nothing.
        r#""histogram":{"dataPoints":[{"count":"9","bucketCounts":["1","2","3","4"],"explicitBounds":[5.0]}]}"#,
        r#""histogram":{"dataPoints":[{"bucketCounts":["1"],"explicitBounds":[5.0,4.0,"NaN"]}]}"#,
        r#""histogram":{"dataPoints":[{"explicitBounds":[5.0]}]}"#,
        r#""histogram":{"dataPoints":[{"count":"1","bucketCounts":["7"]}]}"#,
        r#""histogram":{"dataPoints":[{}],"aggregationTemporality":77}"#,
        r#""exponentialHistogram":{"dataPoints":[{"scale":2147483647,"zeroThreshold":-1.0}]}"#,
        r#""summary":{"dataPoints":[{"quantileValues":[{"quantile":7.5,"value":"NaN"}]}]}"#,
        r#""sum":{"dataPoints":[{"flags":1}],"aggregationTemporality":-1}"#,
        r#""gauge":{}"#,
    ] {
        check_comes_back(Signal::Metrics, &format!("{{{data}}}"));
    }
    check_comes_back(Signal::Metrics, "{}");
}

#[test]
fn a_log_record_with_every_field() {
    check_comes_back(
        Signal::Logs,
        concat!(
            r#"{"timeUnixNano":"1","severityNumber":24,"severityText":"FATAL4","body":{"kvlistValue":{"values":["#,
            r#"{"key":"k","value":{"arrayValue":{"values":[{"bytesValue":"AP8="},{}]}}}]}},"#,
            r#""attributes":[{"key":"a","value":{"doubleValue":-0.0}}],"droppedAttributesCount":3,"flags":4294967295,"#,
            r#""traceId":"000102030405060708090a0b0c0d0e0f","spanId":"0123456789abcdef","#,
            r#""observedTimeUnixNano":"2","eventName":"e"}"#
        ),
    );
    for body in [
        r#"{"stringValue":"\"\\ é"}"#,
        r#"{"boolValue":false}"#,
        r#"{"intValue":"-1"}"#,
        r#"{"doubleValue":"NaN"}"#,
        r#"{"arrayValue":{}}"#,
        r#"{"kvlistValue":{}}"#,
        r#"{"bytesValue":""}"#,
        "{}",
    ] {
        check_comes_back(Signal::Logs, &format!(r#"{{"severityNumber":99,"body":{body}}}"#));
    }
    check_comes_back(Signal::Logs, "{}");
}

/// As on the wire: two messages of a oneof are refused, of two numbers the last one counts, and null is neither.
#[test]
fn a_metric_has_data_of_one_type() {
    assert!(error(r#"{"gauge":{},"sum":{}}"#).ends_with("in resourceMetrics[0].scopeMetrics[0].metrics[0].sum"));
    assert!(error(r#"{"summary":{},"gauge":{}}"#).contains("second member of a oneof"));
    assert!(error(r#"{"gauge":{},"gauge":{}}"#).contains("second occurrence of a field"));
    let Some(metric::Data::Sum(sum)) = metric(r#"{"gauge":null,"sum":{"isMonotonic":true},"summary":null}"#).data
    else {
        panic!("not a sum")
    };
    assert!(sum.is_monotonic);
    let value = |members: &str| match metric(&format!(r#"{{"gauge":{{"dataPoints":[{{{members}}}]}}}}"#)).data {
        Some(metric::Data::Gauge(gauge)) => gauge.data_points[0].value,
        other => panic!("{other:?}"),
    };
    assert_eq!(value(r#""asInt":"3","asDouble":1.5"#), Some(number_data_point::Value::AsDouble(1.5)));
    assert_eq!(value(r#""asDouble":1.5,"asInt":3"#), Some(number_data_point::Value::AsInt(3)));
    assert_eq!(value(r#""asInt":3,"asDouble":null"#), Some(number_data_point::Value::AsInt(3)));
    assert_eq!(value(r#""asInt":null"#), None);
}

#[test]
fn errors_say_which_element_is_wrong() {
    let message = error(r#"{"histogram":{"dataPoints":[{},{"bucketCounts":[1,"2",-3]}]}}"#);
    assert!(message.contains("invalid value: integer `-3`, expected an unsigned 64-bit integer at line 1 column "));
    assert!(
        message.ends_with(" in resourceMetrics[0].scopeMetrics[0].metrics[0].histogram.dataPoints[1].bucketCounts[2]")
    );
    let message = error(r#"{"histogram":{"dataPoints":[{"explicitBounds":[1,null]}]}}"#);
    assert!(message.contains("expected a number at") && message.ends_with(".explicitBounds[1]"), "{message}");
    let message = error(r#"{"sum":{"aggregationTemporality":"DELTA"}}"#);
    assert!(message.contains("the number or name of an enum value"), "{message}");
}
