//! Views of a logs request: resources, scopes and log records.
//!
//! The rules of [`crate::common`] apply: `Copy`, no allocation, no panic, validated bytes expected.

use crate::common::{AnyValue, KeyValue, Message, Resource, Scope, low_u32};
use crate::field::{log_record, request, resource_data, scope_data};
use crate::status::low_i32;

/// The `ResourceLogs` of a request.
pub fn resource_logs(request: &[u8]) -> impl Iterator<Item = ResourceLogs<'_>> {
    Message::request(request).messages(request::RESOURCES).map(ResourceLogs)
}

/// `ResourceLogs`
#[derive(Debug, Clone, Copy)]
pub struct ResourceLogs<'a>(pub Message<'a>);

impl<'a> ResourceLogs<'a> {
    /// What produced the records.
    pub fn resource(self) -> Option<Resource<'a>> {
        self.0.message(resource_data::RESOURCE).map(Resource)
    }

    /// The records, by instrumentation scope.
    pub fn scope_logs(self) -> impl Iterator<Item = ScopeLogs<'a>> + use<'a> {
        self.0.messages(resource_data::SCOPES).map(ScopeLogs)
    }

    /// Schema of the resource.
    pub fn schema_url(self) -> &'a str {
        self.0.string(resource_data::SCHEMA_URL)
    }
}

/// `ScopeLogs`
#[derive(Debug, Clone, Copy)]
pub struct ScopeLogs<'a>(pub Message<'a>);

impl<'a> ScopeLogs<'a> {
    /// The instrumentation library.
    pub fn scope(self) -> Option<Scope<'a>> {
        self.0.message(scope_data::SCOPE).map(Scope)
    }

    /// Its log records.
    pub fn log_records(self) -> impl Iterator<Item = LogRecord<'a>> + use<'a> {
        self.0.messages(scope_data::ITEMS).map(LogRecord)
    }

    /// Schema of the scope and its records.
    pub fn schema_url(self) -> &'a str {
        self.0.string(scope_data::SCHEMA_URL)
    }
}

/// `LogRecord`
#[derive(Debug, Clone, Copy)]
pub struct LogRecord<'a>(pub Message<'a>);

impl<'a> LogRecord<'a> {
    /// When it happened, nanoseconds since the Unix epoch; 0 when unknown.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(log_record::TIME_UNIX_NANO)
    }

    /// When it was seen by the collection system, nanoseconds since the Unix epoch.
    pub fn observed_time_unix_nano(self) -> u64 {
        self.0.fixed64(log_record::OBSERVED_TIME_UNIX_NANO)
    }

    /// `SeverityNumber`, also values that are not defined yet.
    pub fn severity_number(self) -> i32 {
        low_i32(self.0.varint(log_record::SEVERITY_NUMBER))
    }

    /// The severity as the source calls it.
    pub fn severity_text(self) -> &'a str {
        self.0.string(log_record::SEVERITY_TEXT)
    }

    /// The body.
    pub fn body(self) -> AnyValue<'a> {
        self.0.message(log_record::BODY).map_or(AnyValue::Empty, AnyValue::of)
    }

    /// Attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(log_record::ATTRIBUTES).map(KeyValue)
    }

    /// Attributes the sender dropped.
    pub fn dropped_attributes_count(self) -> u32 {
        low_u32(self.0.varint(log_record::DROPPED_ATTRIBUTES_COUNT))
    }

    /// W3C trace flags in the low eight bits.
    pub fn flags(self) -> u32 {
        self.0.fixed32(log_record::FLAGS)
    }

    /// Trace id: 16 bytes in valid telemetry, or none.
    pub fn trace_id(self) -> &'a [u8] {
        self.0.bytes_field(log_record::TRACE_ID)
    }

    /// Span id: 8 bytes in valid telemetry, or none.
    pub fn span_id(self) -> &'a [u8] {
        self.0.bytes_field(log_record::SPAN_ID)
    }

    /// What kind of event it is; empty for other records.
    pub fn event_name(self) -> &'a str {
        self.0.string(log_record::EVENT_NAME)
    }
}
