//! Spans: whole traces of one root without attributes and its children with attributes; the last trace of a request is
//! shorter when the batch is no multiple of the trace.

use super::Shape;
use super::writer::{Stamped, Writer};

const KIND_INTERNAL: u64 = 1;
const KIND_SERVER: u64 = 2;

/// Writes `count` spans into a `ScopeSpans`.
pub(crate) fn write(scope: &mut Writer, shape: &Shape, per_trace: u32, count: u32) {
    for item in 0..count {
        scope.message(2, |span| write_span(span, shape, item, item % per_trace));
    }
}

fn write_span(span: &mut Writer, shape: &Shape, item: u32, position: u32) {
    let root = item - position;
    let is_root = position == 0;
    span.stamped_bytes(1, &[(Stamped::TraceSeed, item), (Stamped::SpanId, root)]);
    span.stamped_bytes(2, &[(Stamped::SpanId, item)]);
    if is_root {
        span.text(5, "GET /orders");
    } else {
        span.stamped_bytes(4, &[(Stamped::SpanId, root)]);
        span.text(5, &format!("step-{position}"));
    }
    span.varint(6, if is_root { KIND_SERVER } else { KIND_INTERNAL });
    span.stamped_fixed64(7, Stamped::Time, item);
    span.stamped_fixed64(8, Stamped::EndTime, item);
    let attributes = if is_root { 0 } else { shape.attributes };
    shape.write_attributes(span, 9, attributes, item);
}
