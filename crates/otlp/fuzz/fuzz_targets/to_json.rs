//! Protobuf of any kind: what is valid becomes JSON that comes back as the same values, prost says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use weir_otlp::{Limits, Signal, from_json, to_json, validate};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    let valid = validate(Signal::Traces, bytes, &limits);
    let json = to_json(Signal::Traces, bytes, &limits);
    assert_eq!(valid.is_ok(), json.is_ok());
    let Ok(json) = json else { return };
    let back = from_json(Signal::Traces, &json.text, &limits, usize::MAX).expect("what we write, we read");
    // As text, in which every NaN is the same: JSON keeps no payload of it.
    let values = |bytes: &[u8]| format!("{:?}", ExportTraceServiceRequest::decode(bytes).expect("it is valid"));
    assert_eq!(values(bytes), values(&back));
});
