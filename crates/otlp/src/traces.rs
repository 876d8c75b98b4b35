//! Views of a traces request: resources, scopes, spans and what is in a span.
//!
//! The rules of [`crate::common`] apply: `Copy`, no allocation, no panic, validated bytes expected.

use crate::common::{KeyValue, Message, Resource, Scope, low_u32};
use crate::status::low_i32;

/// The `ResourceSpans` of a request.
pub fn resource_spans(request: &[u8]) -> impl Iterator<Item = ResourceSpans<'_>> {
    Message::request(request).messages(1).map(ResourceSpans)
}

/// `ResourceSpans`
#[derive(Debug, Clone, Copy)]
pub struct ResourceSpans<'a>(pub Message<'a>);

impl<'a> ResourceSpans<'a> {
    /// What produced the spans.
    pub fn resource(self) -> Option<Resource<'a>> {
        self.0.message(1).map(Resource)
    }

    /// The spans, by instrumentation scope.
    pub fn scope_spans(self) -> impl Iterator<Item = ScopeSpans<'a>> + use<'a> {
        self.0.messages(2).map(ScopeSpans)
    }

    /// Schema of the resource.
    pub fn schema_url(self) -> &'a str {
        self.0.string(3)
    }
}

/// `ScopeSpans`
#[derive(Debug, Clone, Copy)]
pub struct ScopeSpans<'a>(pub Message<'a>);

impl<'a> ScopeSpans<'a> {
    /// The instrumentation library.
    pub fn scope(self) -> Option<Scope<'a>> {
        self.0.message(1).map(Scope)
    }

    /// Its spans.
    pub fn spans(self) -> impl Iterator<Item = Span<'a>> + use<'a> {
        self.0.messages(2).map(Span)
    }

    /// Schema of the scope and its spans.
    pub fn schema_url(self) -> &'a str {
        self.0.string(3)
    }
}

/// `Span`
#[derive(Debug, Clone, Copy)]
pub struct Span<'a>(pub Message<'a>);

impl<'a> Span<'a> {
    /// Trace id: 16 bytes in valid telemetry, which is not checked.
    pub fn trace_id(self) -> &'a [u8] {
        self.0.bytes_field(1)
    }

    /// Span id: 8 bytes in valid telemetry, which is not checked.
    pub fn span_id(self) -> &'a [u8] {
        self.0.bytes_field(2)
    }

    /// W3C trace state.
    pub fn trace_state(self) -> &'a str {
        self.0.string(3)
    }

    /// Id of the parent; empty in a root span.
    pub fn parent_span_id(self) -> &'a [u8] {
        self.0.bytes_field(4)
    }

    /// Name of the operation.
    pub fn name(self) -> &'a str {
        self.0.string(5)
    }

    /// `SpanKind`, also values that are not defined yet.
    pub fn kind(self) -> i32 {
        low_i32(self.0.varint(6))
    }

    /// Start, nanoseconds since the Unix epoch.
    pub fn start_time_unix_nano(self) -> u64 {
        self.0.fixed64(7)
    }

    /// End, nanoseconds since the Unix epoch.
    pub fn end_time_unix_nano(self) -> u64 {
        self.0.fixed64(8)
    }

    /// Attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(9).map(KeyValue)
    }

    /// Attributes the sender dropped.
    pub fn dropped_attributes_count(self) -> u32 {
        low_u32(self.0.varint(10))
    }

    /// Events.
    pub fn events(self) -> impl Iterator<Item = Event<'a>> + use<'a> {
        self.0.messages(11).map(Event)
    }

    /// Events the sender dropped.
    pub fn dropped_events_count(self) -> u32 {
        low_u32(self.0.varint(12))
    }

    /// Links.
    pub fn links(self) -> impl Iterator<Item = Link<'a>> + use<'a> {
        self.0.messages(13).map(Link)
    }

    /// Links the sender dropped.
    pub fn dropped_links_count(self) -> u32 {
        low_u32(self.0.varint(14))
    }

    /// Status.
    pub fn status(self) -> Option<Status<'a>> {
        self.0.message(15).map(Status)
    }

    /// W3C trace flags in the low eight bits.
    pub fn flags(self) -> u32 {
        self.0.fixed32(16)
    }
}

/// `Span.Event`
#[derive(Debug, Clone, Copy)]
pub struct Event<'a>(pub Message<'a>);

impl<'a> Event<'a> {
    /// When it happened, nanoseconds since the Unix epoch.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(1)
    }

    /// Its name.
    pub fn name(self) -> &'a str {
        self.0.string(2)
    }

    /// Its attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(3).map(KeyValue)
    }
}

/// `Span.Link`
#[derive(Debug, Clone, Copy)]
pub struct Link<'a>(pub Message<'a>);

impl<'a> Link<'a> {
    /// Trace id of the linked span.
    pub fn trace_id(self) -> &'a [u8] {
        self.0.bytes_field(1)
    }

    /// Id of the linked span.
    pub fn span_id(self) -> &'a [u8] {
        self.0.bytes_field(2)
    }

    /// Trace state of the linked span.
    pub fn trace_state(self) -> &'a str {
        self.0.string(3)
    }

    /// Attributes of the link.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(4).map(KeyValue)
    }
}

/// `Status` of a span.
#[derive(Debug, Clone, Copy)]
pub struct Status<'a>(pub Message<'a>);

impl<'a> Status<'a> {
    /// Explanation of an error.
    pub fn message(self) -> &'a str {
        self.0.string(2)
    }

    /// `StatusCode`: 0 unset, 1 ok, 2 error.
    pub fn code(self) -> i32 {
        low_i32(self.0.varint(3))
    }
}
