//! What bytes mean, read in two ways: by prost, and through the views.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1 as pb;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as trace;
use prost::Message as _;
use weir_otlp::common::{AnyValue, KeyValue, Message};
use weir_otlp::traces::{self, Event, Link, ResourceSpans, ScopeSpans, Span};
use weir_otlp::{Counts, Limits};

/// Limits that no generated request reaches.
pub(crate) const LIMITS: Limits = Limits { max_depth: 99, max_items: 1 << 20 };

/// What prost counts in a request.
pub(crate) fn counts(request: &ExportTraceServiceRequest) -> Counts {
    let scopes = || request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    Counts {
        items: u32::try_from(scopes().map(|scope| scope.spans.len()).sum::<usize>()).unwrap(),
        resources: u32::try_from(request.resource_spans.len()).unwrap(),
        scopes: u32::try_from(scopes().count()).unwrap(),
    }
}

/// Decodes with prost.
pub(crate) fn decode(bytes: &[u8]) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest::decode(bytes).unwrap()
}

/// Reads a request through the views, every field of every message.
pub(crate) fn through_views(bytes: &[u8]) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest { resource_spans: traces::resource_spans(bytes).map(resource_spans).collect() }
}

fn resource_spans(view: ResourceSpans<'_>) -> trace::ResourceSpans {
    trace::ResourceSpans {
        resource: view.resource().map(|resource| Resource {
            attributes: attributes(resource.attributes()),
            dropped_attributes_count: resource.dropped_attributes_count(),
            entity_refs: resource.0.messages(3).map(entity_ref).collect(),
        }),
        scope_spans: view.scope_spans().map(scope_spans).collect(),
        schema_url: view.schema_url().to_owned(),
    }
}

fn entity_ref(view: Message<'_>) -> pb::EntityRef {
    let strings = |number| {
        let bodies = view.fields().filter(move |field| field.number == number).filter_map(|field| field.body());
        bodies.map(|body| String::from_utf8_lossy(body).into_owned()).collect()
    };
    pb::EntityRef {
        schema_url: view.string(1).to_owned(),
        r#type: view.string(2).to_owned(),
        id_keys: strings(3),
        description_keys: strings(4),
    }
}

fn scope_spans(view: ScopeSpans<'_>) -> trace::ScopeSpans {
    trace::ScopeSpans {
        scope: view.scope().map(|scope| pb::InstrumentationScope {
            name: scope.name().to_owned(),
            version: scope.version().to_owned(),
            attributes: attributes(scope.attributes()),
            dropped_attributes_count: low_u32(scope.0.varint(4)),
        }),
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

fn attributes<'a>(views: impl Iterator<Item = KeyValue<'a>>) -> Vec<pb::KeyValue> {
    views.map(key_value).collect()
}

fn key_value(view: KeyValue<'_>) -> pb::KeyValue {
    pb::KeyValue {
        key: view.key().to_owned(),
        value: view.0.message(2).map(|value| any_value(AnyValue::of(value))),
        key_strindex: low_u32(view.0.varint(3)).cast_signed(),
    }
}

fn any_value(view: AnyValue<'_>) -> pb::AnyValue {
    let value = match view {
        AnyValue::Empty => None,
        AnyValue::String(text) => Some(Value::StringValue(text.to_owned())),
        AnyValue::Bool(value) => Some(Value::BoolValue(value)),
        AnyValue::Int(value) => Some(Value::IntValue(value)),
        AnyValue::Double(value) => Some(Value::DoubleValue(value)),
        AnyValue::Array(array) => {
            Some(Value::ArrayValue(pb::ArrayValue { values: array.values().map(any_value).collect() }))
        }
        AnyValue::KeyValueList(list) => {
            Some(Value::KvlistValue(pb::KeyValueList { values: list.values().map(key_value).collect() }))
        }
        AnyValue::Bytes(bytes) => Some(Value::BytesValue(bytes.to_vec())),
        AnyValue::StringIndex(index) => Some(Value::StringValueStrindex(index)),
    };
    pb::AnyValue { value }
}

fn low_u32(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap()
}

/// Compares requests by their encoding, so that NaN equals NaN.
#[track_caller]
pub(crate) fn assert_same(left: &ExportTraceServiceRequest, right: &ExportTraceServiceRequest) {
    assert!(left.encode_to_vec() == right.encode_to_vec(), "requests differ:\n{left:#?}\n{right:#?}");
}
