//! Definitions of `opentelemetry.proto.metrics.v1` and of the request that carries them. The items are data points: a
//! metric is what they have in common.

use super::common::{KEY_VALUE, RESOURCE, SCOPE};
use super::{Field, Kind, Message, Role};

/// `ExportMetricsServiceRequest`
pub(crate) static REQUEST: Message = Message::new(
    Role::Part,
    &[Field::new(1, "resource_metrics", "resourceMetrics", Kind::Message(&RESOURCE_METRICS)).repeated()],
);

static RESOURCE_METRICS: Message = Message::new(
    Role::Resource,
    &[
        Field::new(1, "resource", "resource", Kind::Message(&RESOURCE)),
        Field::new(2, "scope_metrics", "scopeMetrics", Kind::Message(&SCOPE_METRICS)).repeated(),
        Field::new(3, "schema_url", "schemaUrl", Kind::String),
    ],
);

static SCOPE_METRICS: Message = Message::new(
    Role::Scope,
    &[
        Field::new(1, "scope", "scope", Kind::Message(&SCOPE)),
        Field::new(2, "metrics", "metrics", Kind::Message(&METRIC)).repeated(),
        Field::new(3, "schema_url", "schemaUrl", Kind::String),
    ],
);

static METRIC: Message = Message::new(
    Role::Part,
    &[
        Field::new(1, "name", "name", Kind::String),
        Field::new(2, "description", "description", Kind::String),
        Field::new(3, "unit", "unit", Kind::String),
        Field::new(5, "gauge", "gauge", Kind::Message(&GAUGE)),
        Field::new(7, "sum", "sum", Kind::Message(&SUM)),
        Field::new(9, "histogram", "histogram", Kind::Message(&HISTOGRAM)),
        Field::new(10, "exponential_histogram", "exponentialHistogram", Kind::Message(&EXPONENTIAL_HISTOGRAM)),
        Field::new(11, "summary", "summary", Kind::Message(&SUMMARY)),
        Field::new(12, "metadata", "metadata", Kind::Message(&KEY_VALUE)).repeated(),
    ],
)
.oneof(&[5, 7, 9, 10, 11]);

static GAUGE: Message =
    Message::new(Role::Part, &[Field::new(1, "data_points", "dataPoints", Kind::Message(&NUMBER)).repeated()]);

static SUM: Message = Message::new(
    Role::Part,
    &[
        Field::new(1, "data_points", "dataPoints", Kind::Message(&NUMBER)).repeated(),
        Field::new(2, "aggregation_temporality", "aggregationTemporality", Kind::Enum(TEMPORALITY)),
        Field::new(3, "is_monotonic", "isMonotonic", Kind::Bool),
    ],
);

static HISTOGRAM: Message = Message::new(
    Role::Part,
    &[
        Field::new(1, "data_points", "dataPoints", Kind::Message(&HISTOGRAM_POINT)).repeated(),
        Field::new(2, "aggregation_temporality", "aggregationTemporality", Kind::Enum(TEMPORALITY)),
    ],
);

static EXPONENTIAL_HISTOGRAM: Message = Message::new(
    Role::Part,
    &[
        Field::new(1, "data_points", "dataPoints", Kind::Message(&EXPONENTIAL_POINT)).repeated(),
        Field::new(2, "aggregation_temporality", "aggregationTemporality", Kind::Enum(TEMPORALITY)),
    ],
);

static SUMMARY: Message =
    Message::new(Role::Part, &[Field::new(1, "data_points", "dataPoints", Kind::Message(&SUMMARY_POINT)).repeated()]);

const TEMPORALITY: &[&str] =
    &["AGGREGATION_TEMPORALITY_UNSPECIFIED", "AGGREGATION_TEMPORALITY_DELTA", "AGGREGATION_TEMPORALITY_CUMULATIVE"];

static NUMBER: Message = Message::new(
    Role::Item,
    &[
        Field::new(2, "start_time_unix_nano", "startTimeUnixNano", Kind::Fixed64),
        Field::new(3, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(4, "as_double", "asDouble", Kind::Double),
        Field::new(5, "exemplars", "exemplars", Kind::Message(&EXEMPLAR)).repeated(),
        Field::new(6, "as_int", "asInt", Kind::Sfixed64),
        Field::new(7, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(8, "flags", "flags", Kind::Uint32),
    ],
)
.oneof(&[4, 6]);

static HISTOGRAM_POINT: Message = Message::new(
    Role::Item,
    &[
        Field::new(2, "start_time_unix_nano", "startTimeUnixNano", Kind::Fixed64),
        Field::new(3, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(4, "count", "count", Kind::Fixed64),
        Field::new(5, "sum", "sum", Kind::Double),
        Field::new(6, "bucket_counts", "bucketCounts", Kind::Fixed64).repeated(),
        Field::new(7, "explicit_bounds", "explicitBounds", Kind::Double).repeated(),
        Field::new(8, "exemplars", "exemplars", Kind::Message(&EXEMPLAR)).repeated(),
        Field::new(9, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(10, "flags", "flags", Kind::Uint32),
        Field::new(11, "min", "min", Kind::Double),
        Field::new(12, "max", "max", Kind::Double),
    ],
);

static EXPONENTIAL_POINT: Message = Message::new(
    Role::Item,
    &[
        Field::new(1, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(2, "start_time_unix_nano", "startTimeUnixNano", Kind::Fixed64),
        Field::new(3, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(4, "count", "count", Kind::Fixed64),
        Field::new(5, "sum", "sum", Kind::Double),
        Field::new(6, "scale", "scale", Kind::Sint32),
        Field::new(7, "zero_count", "zeroCount", Kind::Fixed64),
        Field::new(8, "positive", "positive", Kind::Message(&BUCKETS)),
        Field::new(9, "negative", "negative", Kind::Message(&BUCKETS)),
        Field::new(10, "flags", "flags", Kind::Uint32),
        Field::new(11, "exemplars", "exemplars", Kind::Message(&EXEMPLAR)).repeated(),
        Field::new(12, "min", "min", Kind::Double),
        Field::new(13, "max", "max", Kind::Double),
        Field::new(14, "zero_threshold", "zeroThreshold", Kind::Double),
    ],
);

static BUCKETS: Message = Message::new(
    Role::Part,
    &[
        Field::new(1, "offset", "offset", Kind::Sint32),
        Field::new(2, "bucket_counts", "bucketCounts", Kind::Uint64).repeated(),
    ],
);

static SUMMARY_POINT: Message = Message::new(
    Role::Item,
    &[
        Field::new(2, "start_time_unix_nano", "startTimeUnixNano", Kind::Fixed64),
        Field::new(3, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(4, "count", "count", Kind::Fixed64),
        Field::new(5, "sum", "sum", Kind::Double),
        Field::new(6, "quantile_values", "quantileValues", Kind::Message(&QUANTILE)).repeated(),
        Field::new(7, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(8, "flags", "flags", Kind::Uint32),
    ],
);

static QUANTILE: Message = Message::new(
    Role::Part,
    &[Field::new(1, "quantile", "quantile", Kind::Double), Field::new(2, "value", "value", Kind::Double)],
);

static EXEMPLAR: Message = Message::new(
    Role::Part,
    &[
        Field::new(2, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(3, "as_double", "asDouble", Kind::Double),
        Field::new(4, "span_id", "spanId", Kind::Id),
        Field::new(5, "trace_id", "traceId", Kind::Id),
        Field::new(6, "as_int", "asInt", Kind::Sfixed64),
        Field::new(7, "filtered_attributes", "filteredAttributes", Kind::Message(&KEY_VALUE)).repeated(),
    ],
)
.oneof(&[3, 6]);
