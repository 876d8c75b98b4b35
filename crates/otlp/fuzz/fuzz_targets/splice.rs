//! Splices on anything: no panic, no change without edits, and a valid request stays valid with as many spans as the
//! edits leave.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_otlp::splice::{Edit, splice};
use weir_otlp::{Limits, Signal, traces, validate};

fuzz_target!(|input: (u64, &[u8])| {
    let (choices, bytes) = input;
    assert_eq!(splice(Signal::Traces, bytes, Vec::new()).as_deref(), Ok(bytes));
    let mut edits = Vec::new();
    let (mut index, mut kept) = (0u32, 0u32);
    for resource in traces::resource_spans(bytes) {
        edits.extend(resource.resource().map(|resource| Edit::append(resource.0, &b"\x0a\x03\x0a\x01k"[..])));
        for scope in resource.scope_spans() {
            for span in scope.spans() {
                index = index.wrapping_add(1);
                if choices >> (index % 64) & 1 == 1 {
                    edits.push(Edit::remove(scope.0, span.0));
                    continue;
                }
                kept += 1;
                edits.extend(span.attributes().next().map(|first| Edit::replace(span.0, first.0, &b"\x4a\x00"[..])));
            }
        }
    }
    let spliced = splice(Signal::Traces, bytes, edits);
    let limits = Limits::default();
    if validate(Signal::Traces, bytes, &limits).is_ok() {
        let spliced = spliced.expect("edits made from views fit the request");
        assert_eq!(validate(Signal::Traces, &spliced, &limits).map(|counts| counts.items), Ok(kept));
    }
});
