//! Export responses and `google.rpc.Status`, in both encodings.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsPartialSuccess, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;
use weir_otlp::status::{self, Status};
use weir_otlp::{
    Error, PartialSuccess, Problem, Signal, partial_success, partial_success_from_json, response, response_to_json,
};

use crate::generate::any_signal;

#[test]
fn an_empty_response_is_full_success() {
    assert_eq!(response(None), b"");
    assert_eq!(response_to_json(Signal::Traces, None), "{}");
    assert_eq!(partial_success(b""), Ok(None));
    assert_eq!(partial_success(b"\x0a\x00"), Ok(None));
    assert_eq!(partial_success(b"\x7a\x01x"), Ok(None), "an unknown field");
    for json in ["{}", "{\"partialSuccess\":null}", "{\"partialSuccess\":{}}", "{\"new\":[1],\"partialSuccess\":{}}"] {
        assert_eq!(partial_success_from_json(json.as_bytes()), Ok(None), "{json}");
    }
}

#[test]
fn partial_success_reads_every_spelling_in_json() {
    let expected = Some(PartialSuccess { rejected: 7, message: "too old".into() });
    for json in [
        r#"{"partialSuccess":{"rejectedSpans":"7","errorMessage":"too old"}}"#,
        r#"{"partial_success":{"rejected_data_points":7,"error_message":"too old"}}"#,
        r#"{"partialSuccess":{"rejectedLogRecords":7,"errorMessage":"too old","more":{}}}"#,
    ] {
        assert_eq!(partial_success_from_json(json.as_bytes()), Ok(expected.clone()), "{json}");
    }
    for json in ["", "[]", "7", r#"{"partialSuccess":{"rejectedSpans":"x"}}"#, r#"{"partialSuccess":7}"#] {
        assert!(matches!(partial_success_from_json(json.as_bytes()), Err(Error::Json { .. })), "{json}");
    }
}

#[test]
fn json_that_says_something_but_no_partial_success_is_no_response() {
    for json in [
        r#"{"code":16,"message":"unauthenticated"}"#,
        r#"{"success":false}"#,
        r#"{"status":"failed","partial":{}}"#,
        r#"{"error":"log in","partialSuccess":{}}"#,
        r#"{"errors":["log in"]}"#,
        "[null,null]",
        "{} {}",
        "null",
        r#""OK""#,
    ] {
        assert!(matches!(partial_success_from_json(json.as_bytes()), Err(Error::Json { .. })), "{json}");
    }
    // As some backends have it.
    let both = r#"{"message":"received","partialSuccess":{"rejectedSpans":0,"errorMessage":""},"error":null}"#;
    assert_eq!(partial_success_from_json(both.as_bytes()), Ok(None));
}

/// An export response by prost.
fn encoded_by_prost(signal: Signal, partial: &PartialSuccess) -> Vec<u8> {
    let PartialSuccess { rejected, message: error_message } = partial.clone();
    match signal {
        Signal::Traces => {
            let partial = ExportTracePartialSuccess { rejected_spans: rejected, error_message };
            ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec()
        }
        Signal::Metrics => {
            let partial = ExportMetricsPartialSuccess { rejected_data_points: rejected, error_message };
            ExportMetricsServiceResponse { partial_success: Some(partial) }.encode_to_vec()
        }
        Signal::Logs => {
            let partial = ExportLogsPartialSuccess { rejected_log_records: rejected, error_message };
            ExportLogsServiceResponse { partial_success: Some(partial) }.encode_to_vec()
        }
    }
}

fn reencoded_by_prost(signal: Signal, response: &[u8]) -> Vec<u8> {
    match signal {
        Signal::Traces => ExportTraceServiceResponse::decode(response).unwrap().encode_to_vec(),
        Signal::Metrics => ExportMetricsServiceResponse::decode(response).unwrap().encode_to_vec(),
        Signal::Logs => ExportLogsServiceResponse::decode(response).unwrap().encode_to_vec(),
    }
}

#[test]
fn each_signal_names_what_was_rejected() {
    let partial = PartialSuccess { rejected: 3, message: "too old".into() };
    for (signal, name) in [
        (Signal::Traces, "rejectedSpans"),
        (Signal::Metrics, "rejectedDataPoints"),
        (Signal::Logs, "rejectedLogRecords"),
    ] {
        let json: serde_json::Value = serde_json::from_str(&response_to_json(signal, Some(&partial))).unwrap();
        assert_eq!(json, serde_json::json!({ "partialSuccess": { name: "3", "errorMessage": "too old" } }));
        assert_eq!(response_to_json(signal, None), "{}");
    }
}

#[test]
fn malformed_json_responses_have_a_place_once() {
    let error = partial_success_from_json(b"{\"partialSuccess\":\n{\"rejectedDataPoints\":true}}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read OTLP JSON: expected a 64-bit integer at line 2 column 27 in partialSuccess"
    );
}

#[test]
fn malformed_responses_are_errors() {
    let problem = |bytes: &[u8]| match partial_success(bytes) {
        Err(Error::Wire { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    assert_eq!(problem(b"\x08\x01"), Problem::WireType);
    assert_eq!(problem(b"\x0a\x03\x0a\x01\x01"), Problem::WireType);
    assert_eq!(problem(b"\x0a\x02\x10\x01"), Problem::WireType);
    assert_eq!(problem(b"\x0a\x05\x08"), Problem::Truncated);
    assert_eq!(problem(b"\x0a\x02\x12\x01"), Problem::Truncated);
    assert_eq!(problem(b"\x0a\x03\x12\x01\xff"), Problem::Utf8);
    assert_eq!(problem(b"<html>"), Problem::Group);
}

proptest! {
    #[test]
    fn partial_success_agrees_with_prost(
        signal in any_signal(), rejected in prop_oneof![Just(0), any::<i64>()], message in "\\PC{0,200}",
    ) {
        let ours = PartialSuccess { rejected, message };
        let theirs = encoded_by_prost(signal, &ours);
        // All of it is written, also what is the default; prost leaves that out.
        prop_assert_eq!(reencoded_by_prost(signal, &response(Some(&ours))), theirs.clone());
        let expected = (ours != PartialSuccess::default()).then_some(ours.clone());
        prop_assert_eq!(partial_success(&theirs), Ok(expected.clone()));
        let json = response_to_json(signal, Some(&ours));
        prop_assert_eq!(partial_success_from_json(json.as_bytes()), Ok(expected));
    }

    #[test]
    fn a_status_comes_back(code in any::<i32>(), message in "\\PC{0,200}", delay in prop::option::of(any::<u32>())) {
        let retry_delay = delay.map(|millis| Duration::from_millis(u64::from(millis)));
        let bytes = status::encode(code, &message, retry_delay);
        prop_assert_eq!(status::decode(&bytes), Some(Status { code, message, retry_delay }));
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..100)) {
        drop(partial_success(&bytes));
        drop(partial_success_from_json(&bytes));
        status::decode(&bytes);
    }
}

/// Byte for byte what a protobuf runtime writes.
#[test]
fn a_status_has_the_wire_form_of_google_rpc_status() {
    let mut expected = b"\x08\x08\x12\x04full\x1a\x33\x0a\x28type.googleapis.com/google.rpc.RetryInfo".to_vec();
    expected.extend(b"\x12\x07\x0a\x05\x08\x03\x10\xe8\x07");
    assert_eq!(status::encode(8, "full", Some(Duration::new(3, 1000))), expected);
}

#[test]
fn other_details_and_negative_delays_are_no_delay() {
    // Detail of an unknown type, then a negative duration.
    assert_eq!(status::decode(b"\x08\x0e\x1a\x05\x0a\x01t\x12\x00").unwrap().retry_delay, None);
    let mut negative = b"\x1a\x39\x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12\x0d\x0a\x0b\x08".to_vec();
    negative.extend(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    assert_eq!(status::decode(&negative).unwrap().retry_delay, None);
    let mut too_many_nanos =
        b"\x1a\x36\x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12\x0a\x0a\x08\x08\x01".to_vec();
    too_many_nanos.extend(b"\x10\x80\x94\xeb\xdc\x03");
    assert_eq!(status::decode(&too_many_nanos), Some(Status::default()));
    assert_eq!(status::decode(b"\x12\x05ab"), None);
    assert_eq!(status::decode(b"\x0a\x01x"), None);
}

#[test]
fn a_delay_is_held_to_what_a_protobuf_duration_can_say() {
    let status = status::decode(&status::encode(14, "", Some(Duration::MAX))).unwrap();
    assert_eq!(status.retry_delay.unwrap().as_secs(), 315_576_000_000);
    assert!(status::to_json(14, "", Some(Duration::MAX)).contains("\"315576000000.999999999s\""));
}

#[test]
fn a_status_in_json() {
    assert_eq!(status::to_json(3, "bad \"x\"", None), r#"{"code":3,"message":"bad \"x\""}"#);
    let json: serde_json::Value =
        serde_json::from_str(&status::to_json(8, "full", Some(Duration::from_millis(1500)))).unwrap();
    assert_eq!(json["details"][0]["@type"], "type.googleapis.com/google.rpc.RetryInfo");
    assert_eq!(json["details"][0]["retryDelay"], "1.500000000s");
}
