//! Definitions of `opentelemetry.proto.logs.v1` and of the request that carries them.

use super::common::{ANY_VALUE, KEY_VALUE, RESOURCE, SCOPE};
use super::{Field, Kind, Message, Role};

/// `ExportLogsServiceRequest`
pub(crate) static REQUEST: Message = Message::new(
    Role::Part,
    &[Field::new(1, "resource_logs", "resourceLogs", Kind::Message(&RESOURCE_LOGS)).repeated()],
);

static RESOURCE_LOGS: Message = Message::new(
    Role::Resource,
    &[
        Field::new(1, "resource", "resource", Kind::Message(&RESOURCE)),
        Field::new(2, "scope_logs", "scopeLogs", Kind::Message(&SCOPE_LOGS)).repeated(),
        Field::new(3, "schema_url", "schemaUrl", Kind::String),
    ],
);

static SCOPE_LOGS: Message = Message::new(
    Role::Scope,
    &[
        Field::new(1, "scope", "scope", Kind::Message(&SCOPE)),
        Field::new(2, "log_records", "logRecords", Kind::Message(&LOG_RECORD)).repeated(),
        Field::new(3, "schema_url", "schemaUrl", Kind::String),
    ],
);

static LOG_RECORD: Message = Message::new(
    Role::Item,
    &[
        Field::new(1, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(2, "severity_number", "severityNumber", Kind::Enum(SEVERITY_NUMBER)),
        Field::new(3, "severity_text", "severityText", Kind::String),
        Field::new(5, "body", "body", Kind::Message(&ANY_VALUE)),
        Field::new(6, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(7, "dropped_attributes_count", "droppedAttributesCount", Kind::Uint32),
        Field::new(8, "flags", "flags", Kind::Fixed32),
        Field::new(9, "trace_id", "traceId", Kind::Id),
        Field::new(10, "span_id", "spanId", Kind::Id),
        Field::new(11, "observed_time_unix_nano", "observedTimeUnixNano", Kind::Fixed64),
        Field::new(12, "event_name", "eventName", Kind::String),
    ],
);

const SEVERITY_NUMBER: &[&str] = &[
    "SEVERITY_NUMBER_UNSPECIFIED",
    "SEVERITY_NUMBER_TRACE",
    "SEVERITY_NUMBER_TRACE2",
    "SEVERITY_NUMBER_TRACE3",
    "SEVERITY_NUMBER_TRACE4",
    "SEVERITY_NUMBER_DEBUG",
    "SEVERITY_NUMBER_DEBUG2",
    "SEVERITY_NUMBER_DEBUG3",
    "SEVERITY_NUMBER_DEBUG4",
    "SEVERITY_NUMBER_INFO",
    "SEVERITY_NUMBER_INFO2",
    "SEVERITY_NUMBER_INFO3",
    "SEVERITY_NUMBER_INFO4",
    "SEVERITY_NUMBER_WARN",
    "SEVERITY_NUMBER_WARN2",
    "SEVERITY_NUMBER_WARN3",
    "SEVERITY_NUMBER_WARN4",
    "SEVERITY_NUMBER_ERROR",
    "SEVERITY_NUMBER_ERROR2",
    "SEVERITY_NUMBER_ERROR3",
    "SEVERITY_NUMBER_ERROR4",
    "SEVERITY_NUMBER_FATAL",
    "SEVERITY_NUMBER_FATAL2",
    "SEVERITY_NUMBER_FATAL3",
    "SEVERITY_NUMBER_FATAL4",
];
