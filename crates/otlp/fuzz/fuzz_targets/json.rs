//! JSON of any kind: what is accepted is valid protobuf for us and for prost, and within the size asked for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use weir_otlp::{Limits, Signal, from_json, partial_success_from_json, validate};

const MAX_OUTPUT: usize = 1000;

fuzz_target!(|json: &[u8]| {
    drop(partial_success_from_json(json));
    let limits = Limits::default();
    if let Ok(bytes) = from_json(Signal::Traces, json, &limits, MAX_OUTPUT) {
        assert!(bytes.len() <= MAX_OUTPUT);
        assert!(validate(Signal::Traces, &bytes, &limits).is_ok());
        assert!(ExportTraceServiceRequest::decode(&bytes[..]).is_ok());
    }
});
