//! OTLP/JSON written from the specification, independently of the parser under test: ids in hex, 64-bit numbers as
//! text, enums as numbers, bytes in base64.

use base64::Engine as _;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use serde_json::{Value, json};

/// A request as a JSON document.
pub fn traces(request: &ExportTraceServiceRequest) -> Value {
    json!({ "resourceSpans": request.resource_spans.iter().map(resource_spans).collect::<Vec<_>>() })
}

fn resource_spans(spans: &ResourceSpans) -> Value {
    let resource = spans.resource.as_ref().unwrap();
    json!({
        "resource": { "attributes": attributes(&resource.attributes) },
        "scopeSpans": spans.scope_spans.iter().map(scope_spans).collect::<Vec<_>>(),
        "schemaUrl": spans.schema_url,
    })
}

fn scope_spans(spans: &ScopeSpans) -> Value {
    let scope = spans.scope.as_ref().unwrap();
    json!({
        "scope": { "name": scope.name, "version": scope.version },
        "spans": spans.spans.iter().map(span).collect::<Vec<_>>(),
    })
}

fn span(span: &Span) -> Value {
    let events = span.events.iter().map(|event| {
        json!({
            "timeUnixNano": event.time_unix_nano.to_string(),
            "name": event.name,
            "attributes": attributes(&event.attributes),
            "droppedAttributesCount": event.dropped_attributes_count,
        })
    });
    let links = span.links.iter().map(|link| {
        json!({
            "traceId": hex(&link.trace_id),
            "spanId": hex(&link.span_id),
            "traceState": link.trace_state,
            "attributes": attributes(&link.attributes),
            "droppedAttributesCount": link.dropped_attributes_count,
            "flags": link.flags,
        })
    });
    let status = span.status.clone().unwrap_or_default();
    json!({
        "traceId": hex(&span.trace_id),
        "spanId": hex(&span.span_id),
        "traceState": span.trace_state,
        "parentSpanId": hex(&span.parent_span_id),
        "flags": span.flags,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": span.start_time_unix_nano.to_string(),
        "endTimeUnixNano": span.end_time_unix_nano.to_string(),
        "attributes": attributes(&span.attributes),
        "droppedAttributesCount": span.dropped_attributes_count,
        "events": events.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
        "status": { "message": status.message, "code": status.code },
    })
}

fn attributes(attributes: &[KeyValue]) -> Value {
    let pair = |pair: &KeyValue| json!({ "key": pair.key, "value": any(pair.value.as_ref().unwrap()) });
    attributes.iter().map(pair).collect()
}

fn any(value: &AnyValue) -> Value {
    match value.value.as_ref().unwrap() {
        any_value::Value::StringValue(text) => json!({ "stringValue": text }),
        any_value::Value::BoolValue(bool) => json!({ "boolValue": bool }),
        any_value::Value::IntValue(int) => json!({ "intValue": int.to_string() }),
        any_value::Value::DoubleValue(double) => json!({ "doubleValue": double }),
        any_value::Value::BytesValue(bytes) => {
            json!({ "bytesValue": base64::engine::general_purpose::STANDARD.encode(bytes) })
        }
        any_value::Value::ArrayValue(list) => {
            json!({ "arrayValue": { "values": list.values.iter().map(any).collect::<Vec<_>>() } })
        }
        any_value::Value::KvlistValue(map) => json!({ "kvlistValue": { "values": attributes(&map.values) } }),
        other => panic!("no JSON for {other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
