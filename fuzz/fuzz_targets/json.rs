//! JSON of any kind: what is accepted is valid protobuf for us and for prost, and within the size asked for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::requests::{decode, signal};
use weir_otlp::{Limits, from_json, partial_success_from_json, validate};

const MAX_OUTPUT: usize = 1000;

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, json) = input;
    let signal = signal(choice);
    drop(partial_success_from_json(json));
    let limits = Limits::default();
    if let Ok(bytes) = from_json(signal, json, &limits, MAX_OUTPUT) {
        assert!(bytes.len() <= MAX_OUTPUT);
        assert!(validate(signal, &bytes, &limits).is_ok());
        assert!(decode(signal, &bytes).is_some());
    }
});
