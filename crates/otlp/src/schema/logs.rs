//! Definitions of `opentelemetry.proto.logs.v1` and of the request that carries them.

use super::common::{ANY_VALUE, KEY_VALUE, RESOURCE, SCOPE};
use super::{Field, Kind, Message, Role};
use crate::field::{log_record, request, resource_data, scope_data};

/// `ExportLogsServiceRequest`
pub(crate) static REQUEST: Message = Message::new(
    Role::Part,
    &[Field::new(request::RESOURCES, "resource_logs", "resourceLogs", Kind::Message(&RESOURCE_LOGS)).repeated()],
);

static RESOURCE_LOGS: Message = Message::new(
    Role::Resource,
    &[
        Field::new(resource_data::RESOURCE, "resource", "resource", Kind::Message(&RESOURCE)),
        Field::new(resource_data::SCOPES, "scope_logs", "scopeLogs", Kind::Message(&SCOPE_LOGS)).repeated(),
        Field::new(resource_data::SCHEMA_URL, "schema_url", "schemaUrl", Kind::String),
    ],
);

static SCOPE_LOGS: Message = Message::new(
    Role::Scope,
    &[
        Field::new(scope_data::SCOPE, "scope", "scope", Kind::Message(&SCOPE)),
        Field::new(scope_data::ITEMS, "log_records", "logRecords", Kind::Message(&LOG_RECORD)).repeated(),
        Field::new(scope_data::SCHEMA_URL, "schema_url", "schemaUrl", Kind::String),
    ],
);

static LOG_RECORD: Message = Message::new(
    Role::Item,
    &[
        Field::new(log_record::TIME_UNIX_NANO, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(log_record::SEVERITY_NUMBER, "severity_number", "severityNumber", Kind::Enum(SEVERITY_NUMBER)),
        Field::new(log_record::SEVERITY_TEXT, "severity_text", "severityText", Kind::String),
        Field::new(log_record::BODY, "body", "body", Kind::Message(&ANY_VALUE)),
        Field::new(log_record::ATTRIBUTES, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(
            log_record::DROPPED_ATTRIBUTES_COUNT,
            "dropped_attributes_count",
            "droppedAttributesCount",
            Kind::Uint32,
        ),
        Field::new(log_record::FLAGS, "flags", "flags", Kind::Fixed32),
        Field::new(log_record::TRACE_ID, "trace_id", "traceId", Kind::Id),
        Field::new(log_record::SPAN_ID, "span_id", "spanId", Kind::Id),
        Field::new(
            log_record::OBSERVED_TIME_UNIX_NANO,
            "observed_time_unix_nano",
            "observedTimeUnixNano",
            Kind::Fixed64,
        ),
        Field::new(log_record::EVENT_NAME, "event_name", "eventName", Kind::String),
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
