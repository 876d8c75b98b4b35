//! Views of a traces request: resources, scopes, spans and what is in a span.
//!
//! The rules of [`crate::common`] apply: `Copy`, no allocation, no panic, validated bytes expected.

use crate::common::{KeyValue, Message, Resource, Scope, low_u32};
use crate::field::{event, link, request, resource_data, scope_data, span, status};
use crate::status::low_i32;

/// The `ResourceSpans` of a request.
pub fn resource_spans(request: &[u8]) -> impl Iterator<Item = ResourceSpans<'_>> {
    Message::request(request).messages(request::RESOURCES).map(ResourceSpans)
}

/// `ResourceSpans`
#[derive(Debug, Clone, Copy)]
pub struct ResourceSpans<'a>(pub Message<'a>);

impl<'a> ResourceSpans<'a> {
    /// What produced the spans.
    pub fn resource(self) -> Option<Resource<'a>> {
        self.0.message(resource_data::RESOURCE).map(Resource)
    }

    /// The spans, by instrumentation scope.
    pub fn scope_spans(self) -> impl Iterator<Item = ScopeSpans<'a>> + use<'a> {
        self.0.messages(resource_data::SCOPES).map(ScopeSpans)
    }

    /// Schema of the resource.
    pub fn schema_url(self) -> &'a str {
        self.0.string(resource_data::SCHEMA_URL)
    }
}

/// `ScopeSpans`
#[derive(Debug, Clone, Copy)]
pub struct ScopeSpans<'a>(pub Message<'a>);

impl<'a> ScopeSpans<'a> {
    /// The instrumentation library.
    pub fn scope(self) -> Option<Scope<'a>> {
        self.0.message(scope_data::SCOPE).map(Scope)
    }

    /// Its spans.
    pub fn spans(self) -> impl Iterator<Item = Span<'a>> + use<'a> {
        self.0.messages(scope_data::ITEMS).map(Span)
    }

    /// Schema of the scope and its spans.
    pub fn schema_url(self) -> &'a str {
        self.0.string(scope_data::SCHEMA_URL)
    }
}

/// `Span`
#[derive(Debug, Clone, Copy)]
pub struct Span<'a>(pub Message<'a>);

impl<'a> Span<'a> {
    /// Trace id: 16 bytes in valid telemetry, which is not checked.
    pub fn trace_id(self) -> &'a [u8] {
        self.0.bytes_field(span::TRACE_ID)
    }

    /// Span id: 8 bytes in valid telemetry, which is not checked.
    pub fn span_id(self) -> &'a [u8] {
        self.0.bytes_field(span::SPAN_ID)
    }

    /// W3C trace state.
    pub fn trace_state(self) -> &'a str {
        self.0.string(span::TRACE_STATE)
    }

    /// Id of the parent; empty in a root span.
    pub fn parent_span_id(self) -> &'a [u8] {
        self.0.bytes_field(span::PARENT_SPAN_ID)
    }

    /// Name of the operation.
    pub fn name(self) -> &'a str {
        self.0.string(span::NAME)
    }

    /// `SpanKind`, also values that are not defined yet.
    pub fn kind(self) -> i32 {
        low_i32(self.0.varint(span::KIND))
    }

    /// Start, nanoseconds since the Unix epoch.
    pub fn start_time_unix_nano(self) -> u64 {
        self.0.fixed64(span::START_TIME_UNIX_NANO)
    }

    /// End, nanoseconds since the Unix epoch.
    pub fn end_time_unix_nano(self) -> u64 {
        self.0.fixed64(span::END_TIME_UNIX_NANO)
    }

    /// Attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(span::ATTRIBUTES).map(KeyValue)
    }

    /// Attributes the sender dropped.
    pub fn dropped_attributes_count(self) -> u32 {
        low_u32(self.0.varint(span::DROPPED_ATTRIBUTES_COUNT))
    }

    /// Events.
    pub fn events(self) -> impl Iterator<Item = Event<'a>> + use<'a> {
        self.0.messages(span::EVENTS).map(Event)
    }

    /// Events the sender dropped.
    pub fn dropped_events_count(self) -> u32 {
        low_u32(self.0.varint(span::DROPPED_EVENTS_COUNT))
    }

    /// Links.
    pub fn links(self) -> impl Iterator<Item = Link<'a>> + use<'a> {
        self.0.messages(span::LINKS).map(Link)
    }

    /// Links the sender dropped.
    pub fn dropped_links_count(self) -> u32 {
        low_u32(self.0.varint(span::DROPPED_LINKS_COUNT))
    }

    /// Status.
    pub fn status(self) -> Option<Status<'a>> {
        self.0.message(span::STATUS).map(Status)
    }

    /// W3C trace flags in the low eight bits.
    pub fn flags(self) -> u32 {
        self.0.fixed32(span::FLAGS)
    }
}

/// `Span.Event`
#[derive(Debug, Clone, Copy)]
pub struct Event<'a>(pub Message<'a>);

impl<'a> Event<'a> {
    /// When it happened, nanoseconds since the Unix epoch.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(event::TIME_UNIX_NANO)
    }

    /// Its name.
    pub fn name(self) -> &'a str {
        self.0.string(event::NAME)
    }

    /// Its attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(event::ATTRIBUTES).map(KeyValue)
    }
}

/// `Span.Link`
#[derive(Debug, Clone, Copy)]
pub struct Link<'a>(pub Message<'a>);

impl<'a> Link<'a> {
    /// Trace id of the linked span.
    pub fn trace_id(self) -> &'a [u8] {
        self.0.bytes_field(link::TRACE_ID)
    }

    /// Id of the linked span.
    pub fn span_id(self) -> &'a [u8] {
        self.0.bytes_field(link::SPAN_ID)
    }

    /// Trace state of the linked span.
    pub fn trace_state(self) -> &'a str {
        self.0.string(link::TRACE_STATE)
    }

    /// Attributes of the link.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(link::ATTRIBUTES).map(KeyValue)
    }
}

/// `Status` of a span.
#[derive(Debug, Clone, Copy)]
pub struct Status<'a>(pub Message<'a>);

impl<'a> Status<'a> {
    /// Explanation of an error.
    pub fn message(self) -> &'a str {
        self.0.string(status::MESSAGE)
    }

    /// `StatusCode`: 0 unset, 1 ok, 2 error.
    pub fn code(self) -> i32 {
        low_i32(self.0.varint(status::CODE))
    }
}
