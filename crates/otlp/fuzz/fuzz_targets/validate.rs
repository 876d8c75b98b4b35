//! Validation against prost: what we accept it accepts with the same counts, and what it refuses we refuse.

#![no_main]

use libfuzzer_sys::fuzz_target;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use weir_otlp::{Error, Limits, Problem, Signal, partial_success, status, traces, validate};

fuzz_target!(|bytes: &[u8]| {
    drop(partial_success(bytes));
    status::decode(bytes);
    let mut spans_in_views = 0;
    for span in traces::resource_spans(bytes).flat_map(|all| all.scope_spans()).flat_map(|all| all.spans()) {
        spans_in_views += 1;
        span.attributes().for_each(|attribute| drop((attribute.key(), attribute.value())));
    }
    let limits = Limits { max_depth: 99, max_items: u32::MAX };
    match (validate(Signal::Traces, bytes, &limits), ExportTraceServiceRequest::decode(bytes)) {
        (Ok(counts), Ok(request)) => {
            let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
            let spans: usize = scopes.map(|scope| scope.spans.len()).sum();
            assert_eq!((counts.items as usize, counts.resources as usize), (spans, request.resource_spans.len()));
            assert_eq!(spans_in_views, spans);
        }
        (Ok(_), Err(error)) => panic!("we accept what prost refuses: {error}"),
        (Err(Error::Wire { problem: Problem::Group | Problem::Duplicate | Problem::Depth(_), .. }), _) => {}
        (Err(error), Ok(_)) => panic!("we refuse what prost accepts: {error}"),
        (Err(_), Err(_)) => {}
    }
});
