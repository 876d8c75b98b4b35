//! Splices on anything: no panic, no change without edits, and a valid request stays valid with as many items as the
//! edits leave.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::requests::signal;
use weir_otlp::common::Message;
use weir_otlp::splice::{Edit, splice, splice_front};
use weir_otlp::{Limits, Signal, logs, metrics, traces, validate};

fuzz_target!(|input: (u8, u64, &[u8])| {
    let (choice, choices, bytes) = input;
    let signal = signal(choice);
    assert_eq!(splice(signal, bytes, Vec::new()).as_deref(), Ok(bytes));
    let mut edits = Vec::new();
    for resource in Message::request(bytes).messages(1) {
        edits.extend(resource.message(1).map(|resource| Edit::append(resource, &b"\x0a\x03\x0a\x01k"[..])));
    }
    let mut kept = 0;
    for (index, (holder, item)) in (1u32..).zip(items(signal, bytes)) {
        if choices >> (index % 64) & 1 == 1 {
            edits.push(Edit::remove(holder, item));
            continue;
        }
        kept += 1;
        // Of no signal has an item a field with this number.
        edits.push(Edit::append(item, &b"\xfa\x01\x01x"[..]));
    }
    let front = splice_front(signal, bytes, edits.clone());
    let spliced = splice(signal, bytes, edits);
    if let (Ok((front, until)), Ok(spliced)) = (&front, &spliced) {
        assert_eq!([&front[..], &bytes[*until..]].concat(), *spliced);
    }
    let limits = Limits::default();
    if validate(signal, bytes, &limits).is_ok() {
        let spliced = spliced.expect("edits made from views fit the request");
        assert_eq!(validate(signal, &spliced, &limits).map(|counts| counts.items), Ok(kept));
    }
});

/// Every item, after the message that holds it.
fn items(signal: Signal, bytes: &[u8]) -> Vec<(Message<'_>, Message<'_>)> {
    match signal {
        Signal::Traces => {
            let scopes = traces::resource_spans(bytes).flat_map(|resource| resource.scope_spans());
            scopes.flat_map(|scope| scope.spans().map(move |span| (scope.0, span.0))).collect()
        }
        Signal::Metrics => {
            let scopes = metrics::resource_metrics(bytes).flat_map(|resource| resource.scope_metrics());
            let data = scopes.flat_map(|scope| scope.metrics()).filter_map(|metric| metric.data());
            data.flat_map(|data| data.data_points().map(move |point| (data.message(), point))).collect()
        }
        Signal::Logs => {
            let scopes = logs::resource_logs(bytes).flat_map(|resource| resource.scope_logs());
            scopes.flat_map(|scope| scope.log_records().map(move |record| (scope.0, record.0))).collect()
        }
    }
}
