//! Traces requests.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{attributes, id, resource, scope, text};

fn event() -> impl Strategy<Value = Event> {
    (any::<u64>(), text(), attributes(), any::<u32>()).prop_map(
        |(time_unix_nano, name, attributes, dropped_attributes_count)| Event {
            time_unix_nano,
            name,
            attributes,
            dropped_attributes_count,
        },
    )
}

fn link() -> impl Strategy<Value = Link> {
    (id(16), id(8), text(), attributes(), any::<u32>()).prop_map(|(trace_id, span_id, trace_state, attributes, n)| {
        Link { trace_id, span_id, trace_state, attributes, dropped_attributes_count: n, flags: n }
    })
}

fn span() -> impl Strategy<Value = Span> {
    let ids = (id(16), id(8), prop_oneof![Just(Vec::new()), id(8)]);
    let status = (text(), 0..4).prop_map(|(message, code)| Status { message, code });
    let parts = (attributes(), vec(event(), 0..2), vec(link(), 0..2), option::of(status));
    let scalars = (any::<u64>(), any::<u64>(), any::<u32>(), -1..7);
    (ids, text(), text(), parts, scalars).prop_map(|(ids, name, trace_state, parts, scalars)| Span {
        trace_id: ids.0,
        span_id: ids.1,
        trace_state,
        parent_span_id: ids.2,
        flags: scalars.2,
        name,
        kind: scalars.3,
        start_time_unix_nano: scalars.0,
        end_time_unix_nano: scalars.1,
        attributes: parts.0,
        dropped_attributes_count: scalars.2 & 1,
        events: parts.1,
        dropped_events_count: scalars.2,
        links: parts.2,
        dropped_links_count: scalars.2 & 0xff,
        status: parts.3,
    })
}

fn scope_spans() -> impl Strategy<Value = ScopeSpans> {
    (option::of(scope()), vec(span(), 0..5), text()).prop_map(|(scope, spans, schema_url)| ScopeSpans {
        scope,
        spans,
        schema_url,
    })
}

fn resource_spans() -> impl Strategy<Value = ResourceSpans> {
    (option::of(resource()), vec(scope_spans(), 0..4), text())
        .prop_map(|(resource, scope_spans, schema_url)| ResourceSpans { resource, scope_spans, schema_url })
}

pub(super) fn request() -> impl Strategy<Value = ExportTraceServiceRequest> {
    vec(resource_spans(), 0..4).prop_map(|resource_spans| ExportTraceServiceRequest { resource_spans })
}
