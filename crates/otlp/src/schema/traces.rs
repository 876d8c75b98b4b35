//! Definitions of `opentelemetry.proto.trace.v1` and of the request that carries them.

use super::common::{KEY_VALUE, RESOURCE, SCOPE};
use super::{Field, Kind, Message, Role};

/// `ExportTraceServiceRequest`
pub(crate) static REQUEST: Message = Message::new(
    Role::Part,
    &[Field::new(1, "resource_spans", "resourceSpans", Kind::Message(&RESOURCE_SPANS)).repeated()],
);

static RESOURCE_SPANS: Message = Message::new(
    Role::Resource,
    &[
        Field::new(1, "resource", "resource", Kind::Message(&RESOURCE)),
        Field::new(2, "scope_spans", "scopeSpans", Kind::Message(&SCOPE_SPANS)).repeated(),
        Field::new(3, "schema_url", "schemaUrl", Kind::String),
    ],
);

static SCOPE_SPANS: Message = Message::new(
    Role::Scope,
    &[
        Field::new(1, "scope", "scope", Kind::Message(&SCOPE)),
        Field::new(2, "spans", "spans", Kind::Message(&SPAN)).repeated(),
        Field::new(3, "schema_url", "schemaUrl", Kind::String),
    ],
);

static SPAN: Message = Message::new(
    Role::Item,
    &[
        Field::new(1, "trace_id", "traceId", Kind::Id),
        Field::new(2, "span_id", "spanId", Kind::Id),
        Field::new(3, "trace_state", "traceState", Kind::String),
        Field::new(4, "parent_span_id", "parentSpanId", Kind::Id),
        Field::new(5, "name", "name", Kind::String),
        Field::new(6, "kind", "kind", Kind::Enum(SPAN_KIND)),
        Field::new(7, "start_time_unix_nano", "startTimeUnixNano", Kind::Fixed64),
        Field::new(8, "end_time_unix_nano", "endTimeUnixNano", Kind::Fixed64),
        Field::new(9, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(10, "dropped_attributes_count", "droppedAttributesCount", Kind::Uint32),
        Field::new(11, "events", "events", Kind::Message(&EVENT)).repeated(),
        Field::new(12, "dropped_events_count", "droppedEventsCount", Kind::Uint32),
        Field::new(13, "links", "links", Kind::Message(&LINK)).repeated(),
        Field::new(14, "dropped_links_count", "droppedLinksCount", Kind::Uint32),
        Field::new(15, "status", "status", Kind::Message(&STATUS)),
        Field::new(16, "flags", "flags", Kind::Fixed32),
    ],
);

const SPAN_KIND: &[&str] = &[
    "SPAN_KIND_UNSPECIFIED",
    "SPAN_KIND_INTERNAL",
    "SPAN_KIND_SERVER",
    "SPAN_KIND_CLIENT",
    "SPAN_KIND_PRODUCER",
    "SPAN_KIND_CONSUMER",
];

static EVENT: Message = Message::new(
    Role::Part,
    &[
        Field::new(1, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(2, "name", "name", Kind::String),
        Field::new(3, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(4, "dropped_attributes_count", "droppedAttributesCount", Kind::Uint32),
    ],
);

static LINK: Message = Message::new(
    Role::Part,
    &[
        Field::new(1, "trace_id", "traceId", Kind::Id),
        Field::new(2, "span_id", "spanId", Kind::Id),
        Field::new(3, "trace_state", "traceState", Kind::String),
        Field::new(4, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(5, "dropped_attributes_count", "droppedAttributesCount", Kind::Uint32),
        Field::new(6, "flags", "flags", Kind::Fixed32),
    ],
);

static STATUS: Message = Message::new(
    Role::Part,
    &[Field::new(2, "message", "message", Kind::String), Field::new(3, "code", "code", Kind::Enum(STATUS_CODE))],
);

const STATUS_CODE: &[&str] = &["STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"];
