//! The paths of each context, as tables: what a path is called, which field it is and how the field is read.
//!
//! Source: `PathGetSetter` in `contexts/internal/ctx*/`. Field numbers are those of opentelemetry-proto.

use crate::context::{Context, Level};
use crate::program::Target;
use weir_otlp::field::{
    buckets, event, exemplar, exponential_histogram_data_point as exponential, histogram_data_point as histogram,
    log_record, metric, number_data_point as number, resource, resource_data, scope, scope_data, span, status, sum,
    summary_data_point as summary,
};

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Field {
    /// The message.
    pub(crate) level: Level,
    /// The field number for each type of data point. Other messages have the same number four times; 0 where there is
    /// no such field.
    pub(crate) numbers: [u32; 4],
    /// Number of the field inside the message that this field holds; 0 when the field itself is meant.
    pub(crate) inner: u32,
    pub(crate) codec: Codec,
}

/// How a field is encoded on the wire, and as which value it is read.
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
    ("dropped_attributes_count", field(Level::Resource, resource::DROPPED_ATTRIBUTES_COUNT, Codec::Uint32)),
    ("schema_url", field(Level::ResourceData, resource_data::SCHEMA_URL, Codec::Text)),
];

const SCOPE: &[Entry] = &[
    ("attributes", Target::Map(Level::Scope)),
    ("name", field(Level::Scope, scope::NAME, Codec::Text)),
    ("version", field(Level::Scope, scope::VERSION, Codec::Text)),
    ("dropped_attributes_count", field(Level::Scope, scope::DROPPED_ATTRIBUTES_COUNT, Codec::Uint32)),
    ("schema_url", field(Level::ScopeData, scope_data::SCHEMA_URL, Codec::Text)),
];

const SPAN: &[Entry] = &[
    ("attributes", Target::Map(Level::Item)),
    ("trace_id", field(Level::Item, span::TRACE_ID, Codec::TraceId)),
    ("trace_id.string", field(Level::Item, span::TRACE_ID, Codec::TraceIdText)),
    ("span_id", field(Level::Item, span::SPAN_ID, Codec::SpanId)),
    ("span_id.string", field(Level::Item, span::SPAN_ID, Codec::SpanIdText)),
    ("trace_state", field(Level::Item, span::TRACE_STATE, Codec::TraceState)),
    ("parent_span_id", field(Level::Item, span::PARENT_SPAN_ID, Codec::SpanId)),
    ("parent_span_id.string", field(Level::Item, span::PARENT_SPAN_ID, Codec::SpanIdText)),
    ("name", field(Level::Item, span::NAME, Codec::Text)),
    ("kind", field(Level::Item, span::KIND, Codec::Int32)),
    ("kind.string", field(Level::Item, span::KIND, Codec::SpanKind)),
    ("kind.deprecated_string", field(Level::Item, span::KIND, Codec::SpanKindName)),
    ("start_time_unix_nano", field(Level::Item, span::START_TIME_UNIX_NANO, Codec::UnixNano)),
    ("start_time", field(Level::Item, span::START_TIME_UNIX_NANO, Codec::Time)),
    ("end_time_unix_nano", field(Level::Item, span::END_TIME_UNIX_NANO, Codec::UnixNano)),
    ("end_time", field(Level::Item, span::END_TIME_UNIX_NANO, Codec::Time)),
    ("dropped_attributes_count", field(Level::Item, span::DROPPED_ATTRIBUTES_COUNT, Codec::Uint32)),
    ("events", field(Level::Item, span::EVENTS, Codec::Messages("events"))),
    ("dropped_events_count", field(Level::Item, span::DROPPED_EVENTS_COUNT, Codec::Uint32)),
    ("links", field(Level::Item, span::LINKS, Codec::Messages("links"))),
    ("dropped_links_count", field(Level::Item, span::DROPPED_LINKS_COUNT, Codec::Uint32)),
    ("status", field(Level::Item, span::STATUS, Codec::Message("status"))),
    ("status.message", inner(Level::Item, span::STATUS, status::MESSAGE, Codec::Text)),
    ("status.code", inner(Level::Item, span::STATUS, status::CODE, Codec::Int32)),
    ("flags", field(Level::Item, span::FLAGS, Codec::Fixed32)),
];

const SPAN_EVENT: &[Entry] = &[
    ("attributes", Target::Map(Level::Leaf)),
    ("time_unix_nano", field(Level::Leaf, event::TIME_UNIX_NANO, Codec::UnixNano)),
    ("time", field(Level::Leaf, event::TIME_UNIX_NANO, Codec::Time)),
    ("name", field(Level::Leaf, event::NAME, Codec::Text)),
    ("dropped_attributes_count", field(Level::Leaf, event::DROPPED_ATTRIBUTES_COUNT, Codec::Uint32)),
    ("event_index", Target::EventIndex),
];

const LOG: &[Entry] = &[
    ("attributes", Target::Map(Level::Item)),
    ("time_unix_nano", field(Level::Item, log_record::TIME_UNIX_NANO, Codec::UnixNano)),
    ("time", field(Level::Item, log_record::TIME_UNIX_NANO, Codec::Time)),
    ("severity_number", field(Level::Item, log_record::SEVERITY_NUMBER, Codec::Int32)),
    ("severity_text", field(Level::Item, log_record::SEVERITY_TEXT, Codec::Text)),
    ("body", Target::Body),
    ("body.string", Target::BodyText),
    ("dropped_attributes_count", field(Level::Item, log_record::DROPPED_ATTRIBUTES_COUNT, Codec::Uint32)),
    ("flags", field(Level::Item, log_record::FLAGS, Codec::Fixed32)),
    ("trace_id", field(Level::Item, log_record::TRACE_ID, Codec::TraceId)),
    ("trace_id.string", field(Level::Item, log_record::TRACE_ID, Codec::TraceIdText)),
    ("span_id", field(Level::Item, log_record::SPAN_ID, Codec::SpanId)),
    ("span_id.string", field(Level::Item, log_record::SPAN_ID, Codec::SpanIdText)),
    ("observed_time_unix_nano", field(Level::Item, log_record::OBSERVED_TIME_UNIX_NANO, Codec::UnixNano)),
    ("observed_time", field(Level::Item, log_record::OBSERVED_TIME_UNIX_NANO, Codec::Time)),
    ("event_name", field(Level::Item, log_record::EVENT_NAME, Codec::Text)),
];

const METRIC: &[Entry] = &[
    ("name", field(Level::Item, metric::NAME, Codec::Text)),
    ("description", field(Level::Item, metric::DESCRIPTION, Codec::Text)),
    ("unit", field(Level::Item, metric::UNIT, Codec::Text)),
    ("type", Target::MetricType),
    ("aggregation_temporality", field(Level::Data, sum::AGGREGATION_TEMPORALITY, Codec::Int32)),
    ("is_monotonic", field(Level::Data, sum::IS_MONOTONIC, Codec::Bool)),
    ("data_points", field(Level::Data, sum::DATA_POINTS, Codec::Messages("data points"))),
    ("metadata", Target::Map(Level::Item)),
];

const DATA_POINT: &[Entry] = &[
    ("attributes", Target::Map(Level::Point)),
    ("start_time_unix_nano", field(Level::Point, number::START_TIME_UNIX_NANO, Codec::UnixNano)),
    ("start_time", field(Level::Point, number::START_TIME_UNIX_NANO, Codec::Time)),
    ("time_unix_nano", field(Level::Point, number::TIME_UNIX_NANO, Codec::UnixNano)),
    ("time", field(Level::Point, number::TIME_UNIX_NANO, Codec::Time)),
    ("value_double", point([number::AS_DOUBLE, 0, 0, 0], Codec::ValueDouble(number::AS_INT))),
    ("value_int", point([number::AS_INT, 0, 0, 0], Codec::ValueInt(number::AS_DOUBLE))),
    (
        "exemplars",
        point([number::EXEMPLARS, histogram::EXEMPLARS, exponential::EXEMPLARS, 0], Codec::Messages("exemplars")),
    ),
    ("flags", point([number::FLAGS, histogram::FLAGS, exponential::FLAGS, summary::FLAGS], Codec::Uint32)),
    ("count", point([0, histogram::COUNT, exponential::COUNT, summary::COUNT], Codec::Fixed64)),
    ("sum", point([0, histogram::SUM, exponential::SUM, summary::SUM], Codec::OptionalDouble)),
    ("bucket_counts", point([0, histogram::BUCKET_COUNTS, 0, 0], Codec::Fixed64List)),
    ("explicit_bounds", point([0, histogram::EXPLICIT_BOUNDS, 0, 0], Codec::DoubleList)),
    ("scale", point([0, 0, exponential::SCALE, 0], Codec::Sint32)),
    ("zero_count", point([0, 0, exponential::ZERO_COUNT, 0], Codec::Fixed64)),
    ("positive", buckets(exponential::POSITIVE, 0, Codec::Message("buckets"))),
    ("positive.offset", buckets(exponential::POSITIVE, buckets::OFFSET, Codec::Sint32)),
    ("positive.bucket_counts", buckets(exponential::POSITIVE, buckets::BUCKET_COUNTS, Codec::Uint64List)),
    ("negative", buckets(exponential::NEGATIVE, 0, Codec::Message("buckets"))),
    ("negative.offset", buckets(exponential::NEGATIVE, buckets::OFFSET, Codec::Sint32)),
    ("negative.bucket_counts", buckets(exponential::NEGATIVE, buckets::BUCKET_COUNTS, Codec::Uint64List)),
    ("quantile_values", point([0, 0, 0, summary::QUANTILE_VALUES], Codec::Messages("quantile values"))),
];

const EXEMPLAR: &[Entry] = &[
    ("filtered_attributes", Target::Map(Level::Leaf)),
    ("time_unix_nano", field(Level::Leaf, exemplar::TIME_UNIX_NANO, Codec::UnixNano)),
    ("time", field(Level::Leaf, exemplar::TIME_UNIX_NANO, Codec::Time)),
    ("double_value", field(Level::Leaf, exemplar::AS_DOUBLE, Codec::ValueDouble(exemplar::AS_INT))),
    ("int_value", field(Level::Leaf, exemplar::AS_INT, Codec::ValueInt(exemplar::AS_DOUBLE))),
    ("span_id", field(Level::Leaf, exemplar::SPAN_ID, Codec::SpanId)),
    ("span_id.string", field(Level::Leaf, exemplar::SPAN_ID, Codec::SpanIdText)),
    ("trace_id", field(Level::Leaf, exemplar::TRACE_ID, Codec::TraceId)),
    ("trace_id.string", field(Level::Leaf, exemplar::TRACE_ID, Codec::TraceIdText)),
];
