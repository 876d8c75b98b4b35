//! Protobuf of any kind: what is valid becomes JSON that comes back as the same values, prost says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::requests::{decode, signal};
use weir_otlp::{Limits, from_json, to_json, validate};

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, bytes) = input;
    let signal = signal(choice);
    let limits = Limits::default();
    let valid = validate(signal, bytes, &limits);
    let json = to_json(signal, bytes, &limits);
    assert_eq!(valid.is_ok(), json.is_ok());
    let Ok(json) = json else { return };
    let back = from_json(signal, &json.text, &limits, usize::MAX).expect("what we write, we read");
    let values = |bytes: &[u8]| decode(signal, bytes).expect("it is valid").text;
    assert_eq!(values(bytes), values(&back));
});
