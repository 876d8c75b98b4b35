//! Definitions of `opentelemetry.proto.trace.v1` and of the request that carries them.

use super::common::{KEY_VALUE, RESOURCE, SCOPE};
use super::{Field, Kind, Message, Role};
use crate::field::{event, link, request, resource_data, scope_data, span, status};

/// `ExportTraceServiceRequest`
pub(crate) static REQUEST: Message = Message::new(
    Role::Part,
    &[Field::new(request::RESOURCES, "resource_spans", "resourceSpans", Kind::Message(&RESOURCE_SPANS)).repeated()],
);

static RESOURCE_SPANS: Message = Message::new(
    Role::Resource,
    &[
        Field::new(resource_data::RESOURCE, "resource", "resource", Kind::Message(&RESOURCE)),
        Field::new(resource_data::SCOPES, "scope_spans", "scopeSpans", Kind::Message(&SCOPE_SPANS)).repeated(),
        Field::new(resource_data::SCHEMA_URL, "schema_url", "schemaUrl", Kind::String),
    ],
);

static SCOPE_SPANS: Message = Message::new(
    Role::Scope,
    &[
        Field::new(scope_data::SCOPE, "scope", "scope", Kind::Message(&SCOPE)),
        Field::new(scope_data::ITEMS, "spans", "spans", Kind::Message(&SPAN)).repeated(),
        Field::new(scope_data::SCHEMA_URL, "schema_url", "schemaUrl", Kind::String),
    ],
);

static SPAN: Message = Message::new(
    Role::Item,
    &[
        Field::new(span::TRACE_ID, "trace_id", "traceId", Kind::Id),
        Field::new(span::SPAN_ID, "span_id", "spanId", Kind::Id),
        Field::new(span::TRACE_STATE, "trace_state", "traceState", Kind::String),
        Field::new(span::PARENT_SPAN_ID, "parent_span_id", "parentSpanId", Kind::Id),
        Field::new(span::NAME, "name", "name", Kind::String),
        Field::new(span::KIND, "kind", "kind", Kind::Enum(SPAN_KIND)),
        Field::new(span::START_TIME_UNIX_NANO, "start_time_unix_nano", "startTimeUnixNano", Kind::Fixed64),
        Field::new(span::END_TIME_UNIX_NANO, "end_time_unix_nano", "endTimeUnixNano", Kind::Fixed64),
        Field::new(span::ATTRIBUTES, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(span::DROPPED_ATTRIBUTES_COUNT, "dropped_attributes_count", "droppedAttributesCount", Kind::Uint32),
        Field::new(span::EVENTS, "events", "events", Kind::Message(&EVENT)).repeated(),
        Field::new(span::DROPPED_EVENTS_COUNT, "dropped_events_count", "droppedEventsCount", Kind::Uint32),
        Field::new(span::LINKS, "links", "links", Kind::Message(&LINK)).repeated(),
        Field::new(span::DROPPED_LINKS_COUNT, "dropped_links_count", "droppedLinksCount", Kind::Uint32),
        Field::new(span::STATUS, "status", "status", Kind::Message(&STATUS)),
        Field::new(span::FLAGS, "flags", "flags", Kind::Fixed32),
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
        Field::new(event::TIME_UNIX_NANO, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(event::NAME, "name", "name", Kind::String),
        Field::new(event::ATTRIBUTES, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(event::DROPPED_ATTRIBUTES_COUNT, "dropped_attributes_count", "droppedAttributesCount", Kind::Uint32),
    ],
);

static LINK: Message = Message::new(
    Role::Part,
    &[
        Field::new(link::TRACE_ID, "trace_id", "traceId", Kind::Id),
        Field::new(link::SPAN_ID, "span_id", "spanId", Kind::Id),
        Field::new(link::TRACE_STATE, "trace_state", "traceState", Kind::String),
        Field::new(link::ATTRIBUTES, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(link::DROPPED_ATTRIBUTES_COUNT, "dropped_attributes_count", "droppedAttributesCount", Kind::Uint32),
        Field::new(link::FLAGS, "flags", "flags", Kind::Fixed32),
    ],
);

static STATUS: Message = Message::new(
    Role::Part,
    &[
        Field::new(status::MESSAGE, "message", "message", Kind::String),
        Field::new(status::CODE, "code", "code", Kind::Enum(STATUS_CODE)),
    ],
);

const STATUS_CODE: &[&str] = &["STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"];
