//! The paths of each context, as tables: what a path is called, which field it is and how the field is read.
//!
//! Source: `PathGetSetter` in `contexts/internal/ctx*/`. Field numbers are those of opentelemetry-proto.

use crate::context::{Context, Level};
use crate::program::Target;

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Field {
    /// The message.
    pub(crate) level: Level,
    /// Field number by type of data point; the same four times in other messages, 0 where there is no such field.
    pub(crate) numbers: [u32; 4],
    /// Number of the field inside the message that the field is; 0 when the field itself is meant.
    pub(crate) inner: u32,
    pub(crate) codec: Codec,
}

/// How a field stands on the wire, and as which value it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// `string`
    Text,
    /// `bool`
    Bool,
    /// An enum or `int32`.
    Int32,
    /// `uint32`
    Uint32,
    /// `sint32`
    Sint32,
    /// `fixed32`
    Fixed32,
    /// `fixed64` as an integer.
    Fixed64,
    /// `fixed64`, nanoseconds since the Unix epoch as an integer.
    UnixNano,
    /// `fixed64`, nanoseconds since the Unix epoch as a time.
    Time,
    /// `optional double`
    OptionalDouble,
    /// The `double` member of the oneof that holds the value; the integer member has the given number.
    ValueDouble(u32),
    /// The `sfixed64` member of the oneof that holds the value; the floating point member has the given number.
    ValueInt(u32),
    /// Trace id.
    TraceId,
    /// Trace id in hexadecimal digits.
    TraceIdText,
    /// Span id.
    SpanId,
    /// Span id in hexadecimal digits.
    SpanIdText,
    /// `SpanKind` as a word: `Server`.
    SpanKind,
    /// `SpanKind` by its name in the `.proto` file.
    SpanKindName,
    /// W3C trace state; its members are its keys.
    TraceState,
    /// Packed `fixed64`.
    Fixed64List,
    /// Packed `uint64`.
    Uint64List,
    /// Packed `double`.
    DoubleList,
    /// A message that is only copied.
    Message(&'static str),
    /// Messages that are only counted and copied.
    Messages(&'static str),
}

impl Codec {
    /// What can be assigned, in words; compared with [`crate::value::Value::type_name`].
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Text
            | Self::TraceIdText
            | Self::SpanIdText
            | Self::SpanKind
            | Self::SpanKindName
            | Self::TraceState => "string",
            Self::Bool => "bool",
            Self::Int32 | Self::Uint32 | Self::Sint32 | Self::Fixed32 | Self::Fixed64 | Self::UnixNano => "int",
            Self::ValueInt(_) => "int",
            Self::Time => "time",
            Self::OptionalDouble | Self::ValueDouble(_) => "double",
            Self::TraceId => "trace id",
            Self::SpanId => "span id",
            Self::Fixed64List | Self::Uint64List | Self::DoubleList => "list",
            Self::Message(kind) | Self::Messages(kind) => kind,
        }
    }
}

/// A path without its context, and where it leads.
pub(crate) type Entry = (&'static str, Target);

const fn field(level: Level, number: u32, codec: Codec) -> Target {
    Target::Field(Field { level, numbers: [number; 4], inner: 0, codec })
}

const fn inner(level: Level, number: u32, inner: u32, codec: Codec) -> Target {
    Target::Field(Field { level, numbers: [number; 4], inner, codec })
}

const fn point(numbers: [u32; 4], codec: Codec) -> Target {
    Target::Field(Field { level: Level::Point, numbers, inner: 0, codec })
}

const fn buckets(number: u32, inner: u32, codec: Codec) -> Target {
    Target::Field(Field { level: Level::Point, numbers: [0, 0, number, 0], inner, codec })
}

/// The paths of a context.
pub(crate) fn of(context: Context) -> &'static [Entry] {
    match context {
        Context::Resource => RESOURCE,
        Context::Scope => SCOPE,
        Context::Span => SPAN,
        Context::SpanEvent => SPAN_EVENT,
        Context::Log => LOG,
        Context::Metric => METRIC,
        Context::DataPoint => DATA_POINT,
        Context::Exemplar => EXEMPLAR,
    }
}

const RESOURCE: &[Entry] = &[
    ("attributes", Target::Map(Level::Resource)),
    ("dropped_attributes_count", field(Level::Resource, 2, Codec::Uint32)),
    ("schema_url", field(Level::ResourceData, 3, Codec::Text)),
];

const SCOPE: &[Entry] = &[
    ("attributes", Target::Map(Level::Scope)),
    ("name", field(Level::Scope, 1, Codec::Text)),
    ("version", field(Level::Scope, 2, Codec::Text)),
    ("dropped_attributes_count", field(Level::Scope, 4, Codec::Uint32)),
    ("schema_url", field(Level::ScopeData, 3, Codec::Text)),
];

const SPAN: &[Entry] = &[
    ("attributes", Target::Map(Level::Item)),
    ("trace_id", field(Level::Item, 1, Codec::TraceId)),
    ("trace_id.string", field(Level::Item, 1, Codec::TraceIdText)),
    ("span_id", field(Level::Item, 2, Codec::SpanId)),
    ("span_id.string", field(Level::Item, 2, Codec::SpanIdText)),
    ("trace_state", field(Level::Item, 3, Codec::TraceState)),
    ("parent_span_id", field(Level::Item, 4, Codec::SpanId)),
    ("parent_span_id.string", field(Level::Item, 4, Codec::SpanIdText)),
    ("name", field(Level::Item, 5, Codec::Text)),
    ("kind", field(Level::Item, 6, Codec::Int32)),
    ("kind.string", field(Level::Item, 6, Codec::SpanKind)),
    ("kind.deprecated_string", field(Level::Item, 6, Codec::SpanKindName)),
    ("start_time_unix_nano", field(Level::Item, 7, Codec::UnixNano)),
    ("start_time", field(Level::Item, 7, Codec::Time)),
    ("end_time_unix_nano", field(Level::Item, 8, Codec::UnixNano)),
    ("end_time", field(Level::Item, 8, Codec::Time)),
    ("dropped_attributes_count", field(Level::Item, 10, Codec::Uint32)),
    ("events", field(Level::Item, 11, Codec::Messages("events"))),
    ("dropped_events_count", field(Level::Item, 12, Codec::Uint32)),
    ("links", field(Level::Item, 13, Codec::Messages("links"))),
    ("dropped_links_count", field(Level::Item, 14, Codec::Uint32)),
    ("status", field(Level::Item, 15, Codec::Message("status"))),
    ("status.message", inner(Level::Item, 15, 2, Codec::Text)),
    ("status.code", inner(Level::Item, 15, 3, Codec::Int32)),
    ("flags", field(Level::Item, 16, Codec::Fixed32)),
];

const SPAN_EVENT: &[Entry] = &[
    ("attributes", Target::Map(Level::Leaf)),
    ("time_unix_nano", field(Level::Leaf, 1, Codec::UnixNano)),
    ("time", field(Level::Leaf, 1, Codec::Time)),
    ("name", field(Level::Leaf, 2, Codec::Text)),
    ("dropped_attributes_count", field(Level::Leaf, 4, Codec::Uint32)),
    ("event_index", Target::EventIndex),
];

const LOG: &[Entry] = &[
    ("attributes", Target::Map(Level::Item)),
    ("time_unix_nano", field(Level::Item, 1, Codec::UnixNano)),
    ("time", field(Level::Item, 1, Codec::Time)),
    ("severity_number", field(Level::Item, 2, Codec::Int32)),
    ("severity_text", field(Level::Item, 3, Codec::Text)),
    ("body", Target::Body),
    ("body.string", Target::BodyText),
    ("dropped_attributes_count", field(Level::Item, 7, Codec::Uint32)),
    ("flags", field(Level::Item, 8, Codec::Fixed32)),
    ("trace_id", field(Level::Item, 9, Codec::TraceId)),
    ("trace_id.string", field(Level::Item, 9, Codec::TraceIdText)),
    ("span_id", field(Level::Item, 10, Codec::SpanId)),
    ("span_id.string", field(Level::Item, 10, Codec::SpanIdText)),
    ("observed_time_unix_nano", field(Level::Item, 11, Codec::UnixNano)),
    ("observed_time", field(Level::Item, 11, Codec::Time)),
    ("event_name", field(Level::Item, 12, Codec::Text)),
];

const METRIC: &[Entry] = &[
    ("name", field(Level::Item, 1, Codec::Text)),
    ("description", field(Level::Item, 2, Codec::Text)),
    ("unit", field(Level::Item, 3, Codec::Text)),
    ("type", Target::MetricType),
    ("aggregation_temporality", field(Level::Data, 2, Codec::Int32)),
    ("is_monotonic", field(Level::Data, 3, Codec::Bool)),
    ("data_points", field(Level::Data, 1, Codec::Messages("data points"))),
    ("metadata", Target::Map(Level::Item)),
];

const DATA_POINT: &[Entry] = &[
    ("attributes", Target::Map(Level::Point)),
    ("start_time_unix_nano", field(Level::Point, 2, Codec::UnixNano)),
    ("start_time", field(Level::Point, 2, Codec::Time)),
    ("time_unix_nano", field(Level::Point, 3, Codec::UnixNano)),
    ("time", field(Level::Point, 3, Codec::Time)),
    ("value_double", point([4, 0, 0, 0], Codec::ValueDouble(6))),
    ("value_int", point([6, 0, 0, 0], Codec::ValueInt(4))),
    ("exemplars", point([5, 8, 11, 0], Codec::Messages("exemplars"))),
    ("flags", point([8, 10, 10, 8], Codec::Uint32)),
    ("count", point([0, 4, 4, 4], Codec::Fixed64)),
    ("sum", point([0, 5, 5, 5], Codec::OptionalDouble)),
    ("bucket_counts", point([0, 6, 0, 0], Codec::Fixed64List)),
    ("explicit_bounds", point([0, 7, 0, 0], Codec::DoubleList)),
    ("scale", point([0, 0, 6, 0], Codec::Sint32)),
    ("zero_count", point([0, 0, 7, 0], Codec::Fixed64)),
    ("positive", buckets(8, 0, Codec::Message("buckets"))),
    ("positive.offset", buckets(8, 1, Codec::Sint32)),
    ("positive.bucket_counts", buckets(8, 2, Codec::Uint64List)),
    ("negative", buckets(9, 0, Codec::Message("buckets"))),
    ("negative.offset", buckets(9, 1, Codec::Sint32)),
    ("negative.bucket_counts", buckets(9, 2, Codec::Uint64List)),
    ("quantile_values", point([0, 0, 0, 6], Codec::Messages("quantile values"))),
];

const EXEMPLAR: &[Entry] = &[
    ("filtered_attributes", Target::Map(Level::Leaf)),
    ("time_unix_nano", field(Level::Leaf, 2, Codec::UnixNano)),
    ("time", field(Level::Leaf, 2, Codec::Time)),
    ("double_value", field(Level::Leaf, 3, Codec::ValueDouble(6))),
    ("int_value", field(Level::Leaf, 6, Codec::ValueInt(3))),
    ("span_id", field(Level::Leaf, 4, Codec::SpanId)),
    ("span_id.string", field(Level::Leaf, 4, Codec::SpanIdText)),
    ("trace_id", field(Level::Leaf, 5, Codec::TraceId)),
    ("trace_id.string", field(Level::Leaf, 5, Codec::TraceIdText)),
];
