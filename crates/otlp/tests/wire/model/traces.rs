//! A traces request, from views to prost.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1 as trace;
use weir_otlp::traces::{self, Event, Link, ResourceSpans, ScopeSpans, Span};

use super::common::{attributes, low_u32, resource, scope};

/// Spans, resources and scopes.
pub(super) fn counts(request: &ExportTraceServiceRequest) -> (usize, usize, usize) {
    let scopes = || request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    (scopes().map(|scope| scope.spans.len()).sum(), request.resource_spans.len(), scopes().count())
}

pub(super) fn request(bytes: &[u8]) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest { resource_spans: traces::resource_spans(bytes).map(resource_spans).collect() }
}

fn resource_spans(view: ResourceSpans<'_>) -> trace::ResourceSpans {
    trace::ResourceSpans {
        resource: view.resource().map(resource),
        scope_spans: view.scope_spans().map(scope_spans).collect(),
        schema_url: view.schema_url().to_owned(),
    }
}

fn scope_spans(view: ScopeSpans<'_>) -> trace::ScopeSpans {
    trace::ScopeSpans {
        scope: view.scope().map(scope),
        spans: view.spans().map(span).collect(),
        schema_url: view.schema_url().to_owned(),
    }
}

fn span(view: Span<'_>) -> trace::Span {
    trace::Span {
        trace_id: view.trace_id().to_vec(),
        span_id: view.span_id().to_vec(),
        trace_state: view.trace_state().to_owned(),
        parent_span_id: view.parent_span_id().to_vec(),
        flags: view.flags(),
        name: view.name().to_owned(),
        kind: view.kind(),
        start_time_unix_nano: view.start_time_unix_nano(),
        end_time_unix_nano: view.end_time_unix_nano(),
        attributes: attributes(view.attributes()),
        dropped_attributes_count: view.dropped_attributes_count(),
        events: view.events().map(event).collect(),
        dropped_events_count: view.dropped_events_count(),
        links: view.links().map(link).collect(),
        dropped_links_count: view.dropped_links_count(),
        status: view.status().map(|status| trace::Status { message: status.message().to_owned(), code: status.code() }),
    }
}

fn event(view: Event<'_>) -> trace::span::Event {
    trace::span::Event {
        time_unix_nano: view.time_unix_nano(),
        name: view.name().to_owned(),
        attributes: attributes(view.attributes()),
        dropped_attributes_count: low_u32(view.0.varint(4)),
    }
}

fn link(view: Link<'_>) -> trace::span::Link {
    trace::span::Link {
        trace_id: view.trace_id().to_vec(),
        span_id: view.span_id().to_vec(),
        trace_state: view.trace_state().to_owned(),
        attributes: attributes(view.attributes()),
        dropped_attributes_count: low_u32(view.0.varint(5)),
        flags: view.0.fixed32(6),
    }
}
