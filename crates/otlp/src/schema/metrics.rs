//! Definitions of `opentelemetry.proto.metrics.v1` and of the request that carries them. The items are data points: a
//! metric is what they have in common.

use super::common::{KEY_VALUE, RESOURCE, SCOPE};
use super::{Field, Kind, Message, Role};
use crate::field::{
    buckets, exemplar, exponential_histogram, exponential_histogram_data_point, gauge, histogram, histogram_data_point,
    metric, number_data_point, request, resource_data, scope_data, sum, summary, summary_data_point, value_at_quantile,
};

/// `ExportMetricsServiceRequest`
pub(crate) static REQUEST: Message = Message::new(
    Role::Part,
    &[Field::new(request::RESOURCES, "resource_metrics", "resourceMetrics", Kind::Message(&RESOURCE_METRICS))
        .repeated()],
);

static RESOURCE_METRICS: Message = Message::new(
    Role::Resource,
    &[
        Field::new(resource_data::RESOURCE, "resource", "resource", Kind::Message(&RESOURCE)),
        Field::new(resource_data::SCOPES, "scope_metrics", "scopeMetrics", Kind::Message(&SCOPE_METRICS)).repeated(),
        Field::new(resource_data::SCHEMA_URL, "schema_url", "schemaUrl", Kind::String),
    ],
);

static SCOPE_METRICS: Message = Message::new(
    Role::Scope,
    &[
        Field::new(scope_data::SCOPE, "scope", "scope", Kind::Message(&SCOPE)),
        Field::new(scope_data::ITEMS, "metrics", "metrics", Kind::Message(&METRIC)).repeated(),
        Field::new(scope_data::SCHEMA_URL, "schema_url", "schemaUrl", Kind::String),
    ],
);

static METRIC: Message = Message::new(
    Role::Part,
    &[
        Field::new(metric::NAME, "name", "name", Kind::String),
        Field::new(metric::DESCRIPTION, "description", "description", Kind::String),
        Field::new(metric::UNIT, "unit", "unit", Kind::String),
        Field::new(metric::GAUGE, "gauge", "gauge", Kind::Message(&GAUGE)),
        Field::new(metric::SUM, "sum", "sum", Kind::Message(&SUM)),
        Field::new(metric::HISTOGRAM, "histogram", "histogram", Kind::Message(&HISTOGRAM)),
        Field::new(
            metric::EXPONENTIAL_HISTOGRAM,
            "exponential_histogram",
            "exponentialHistogram",
            Kind::Message(&EXPONENTIAL_HISTOGRAM),
        ),
        Field::new(metric::SUMMARY, "summary", "summary", Kind::Message(&SUMMARY)),
        Field::new(metric::METADATA, "metadata", "metadata", Kind::Message(&KEY_VALUE)).repeated(),
    ],
)
.oneof(&[metric::GAUGE, metric::SUM, metric::HISTOGRAM, metric::EXPONENTIAL_HISTOGRAM, metric::SUMMARY]);

static GAUGE: Message = Message::new(
    Role::Part,
    &[Field::new(gauge::DATA_POINTS, "data_points", "dataPoints", Kind::Message(&NUMBER)).repeated()],
);

static SUM: Message = Message::new(
    Role::Part,
    &[
        Field::new(sum::DATA_POINTS, "data_points", "dataPoints", Kind::Message(&NUMBER)).repeated(),
        Field::new(
            sum::AGGREGATION_TEMPORALITY,
            "aggregation_temporality",
            "aggregationTemporality",
            Kind::Enum(TEMPORALITY),
        ),
        Field::new(sum::IS_MONOTONIC, "is_monotonic", "isMonotonic", Kind::Bool),
    ],
);

static HISTOGRAM: Message = Message::new(
    Role::Part,
    &[
        Field::new(histogram::DATA_POINTS, "data_points", "dataPoints", Kind::Message(&HISTOGRAM_POINT)).repeated(),
        Field::new(
            histogram::AGGREGATION_TEMPORALITY,
            "aggregation_temporality",
            "aggregationTemporality",
            Kind::Enum(TEMPORALITY),
        ),
    ],
);

static EXPONENTIAL_HISTOGRAM: Message = Message::new(
    Role::Part,
    &[
        Field::new(exponential_histogram::DATA_POINTS, "data_points", "dataPoints", Kind::Message(&EXPONENTIAL_POINT))
            .repeated(),
        Field::new(
            exponential_histogram::AGGREGATION_TEMPORALITY,
            "aggregation_temporality",
            "aggregationTemporality",
            Kind::Enum(TEMPORALITY),
        ),
    ],
);

static SUMMARY: Message = Message::new(
    Role::Part,
    &[Field::new(summary::DATA_POINTS, "data_points", "dataPoints", Kind::Message(&SUMMARY_POINT)).repeated()],
);

const TEMPORALITY: &[&str] =
    &["AGGREGATION_TEMPORALITY_UNSPECIFIED", "AGGREGATION_TEMPORALITY_DELTA", "AGGREGATION_TEMPORALITY_CUMULATIVE"];

static NUMBER: Message = Message::new(
    Role::Item,
    &[
        Field::new(number_data_point::START_TIME_UNIX_NANO, "start_time_unix_nano", "startTimeUnixNano", Kind::Fixed64),
        Field::new(number_data_point::TIME_UNIX_NANO, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(number_data_point::AS_DOUBLE, "as_double", "asDouble", Kind::Double),
        Field::new(number_data_point::EXEMPLARS, "exemplars", "exemplars", Kind::Message(&EXEMPLAR)).repeated(),
        Field::new(number_data_point::AS_INT, "as_int", "asInt", Kind::Sfixed64),
        Field::new(number_data_point::ATTRIBUTES, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(number_data_point::FLAGS, "flags", "flags", Kind::Uint32),
    ],
)
.oneof(&[number_data_point::AS_DOUBLE, number_data_point::AS_INT]);

static HISTOGRAM_POINT: Message = Message::new(
    Role::Item,
    &[
        Field::new(
            histogram_data_point::START_TIME_UNIX_NANO,
            "start_time_unix_nano",
            "startTimeUnixNano",
            Kind::Fixed64,
        ),
        Field::new(histogram_data_point::TIME_UNIX_NANO, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(histogram_data_point::COUNT, "count", "count", Kind::Fixed64),
        Field::new(histogram_data_point::SUM, "sum", "sum", Kind::Double),
        Field::new(histogram_data_point::BUCKET_COUNTS, "bucket_counts", "bucketCounts", Kind::Fixed64).repeated(),
        Field::new(histogram_data_point::EXPLICIT_BOUNDS, "explicit_bounds", "explicitBounds", Kind::Double).repeated(),
        Field::new(histogram_data_point::EXEMPLARS, "exemplars", "exemplars", Kind::Message(&EXEMPLAR)).repeated(),
        Field::new(histogram_data_point::ATTRIBUTES, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(histogram_data_point::FLAGS, "flags", "flags", Kind::Uint32),
        Field::new(histogram_data_point::MIN, "min", "min", Kind::Double),
        Field::new(histogram_data_point::MAX, "max", "max", Kind::Double),
    ],
);

static EXPONENTIAL_POINT: Message = Message::new(
    Role::Item,
    &[
        Field::new(exponential_histogram_data_point::ATTRIBUTES, "attributes", "attributes", Kind::Message(&KEY_VALUE))
            .repeated(),
        Field::new(
            exponential_histogram_data_point::START_TIME_UNIX_NANO,
            "start_time_unix_nano",
            "startTimeUnixNano",
            Kind::Fixed64,
        ),
        Field::new(exponential_histogram_data_point::TIME_UNIX_NANO, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(exponential_histogram_data_point::COUNT, "count", "count", Kind::Fixed64),
        Field::new(exponential_histogram_data_point::SUM, "sum", "sum", Kind::Double),
        Field::new(exponential_histogram_data_point::SCALE, "scale", "scale", Kind::Sint32),
        Field::new(exponential_histogram_data_point::ZERO_COUNT, "zero_count", "zeroCount", Kind::Fixed64),
        Field::new(exponential_histogram_data_point::POSITIVE, "positive", "positive", Kind::Message(&BUCKETS)),
        Field::new(exponential_histogram_data_point::NEGATIVE, "negative", "negative", Kind::Message(&BUCKETS)),
        Field::new(exponential_histogram_data_point::FLAGS, "flags", "flags", Kind::Uint32),
        Field::new(exponential_histogram_data_point::EXEMPLARS, "exemplars", "exemplars", Kind::Message(&EXEMPLAR))
            .repeated(),
        Field::new(exponential_histogram_data_point::MIN, "min", "min", Kind::Double),
        Field::new(exponential_histogram_data_point::MAX, "max", "max", Kind::Double),
        Field::new(exponential_histogram_data_point::ZERO_THRESHOLD, "zero_threshold", "zeroThreshold", Kind::Double),
    ],
);

static BUCKETS: Message = Message::new(
    Role::Part,
    &[
        Field::new(buckets::OFFSET, "offset", "offset", Kind::Sint32),
        Field::new(buckets::BUCKET_COUNTS, "bucket_counts", "bucketCounts", Kind::Uint64).repeated(),
    ],
);

static SUMMARY_POINT: Message = Message::new(
    Role::Item,
    &[
        Field::new(
            summary_data_point::START_TIME_UNIX_NANO,
            "start_time_unix_nano",
            "startTimeUnixNano",
            Kind::Fixed64,
        ),
        Field::new(summary_data_point::TIME_UNIX_NANO, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(summary_data_point::COUNT, "count", "count", Kind::Fixed64),
        Field::new(summary_data_point::SUM, "sum", "sum", Kind::Double),
        Field::new(summary_data_point::QUANTILE_VALUES, "quantile_values", "quantileValues", Kind::Message(&QUANTILE))
            .repeated(),
        Field::new(summary_data_point::ATTRIBUTES, "attributes", "attributes", Kind::Message(&KEY_VALUE)).repeated(),
        Field::new(summary_data_point::FLAGS, "flags", "flags", Kind::Uint32),
    ],
);

static QUANTILE: Message = Message::new(
    Role::Part,
    &[
        Field::new(value_at_quantile::QUANTILE, "quantile", "quantile", Kind::Double),
        Field::new(value_at_quantile::VALUE, "value", "value", Kind::Double),
    ],
);

static EXEMPLAR: Message = Message::new(
    Role::Part,
    &[
        Field::new(exemplar::TIME_UNIX_NANO, "time_unix_nano", "timeUnixNano", Kind::Fixed64),
        Field::new(exemplar::AS_DOUBLE, "as_double", "asDouble", Kind::Double),
        Field::new(exemplar::SPAN_ID, "span_id", "spanId", Kind::Id),
        Field::new(exemplar::TRACE_ID, "trace_id", "traceId", Kind::Id),
        Field::new(exemplar::AS_INT, "as_int", "asInt", Kind::Sfixed64),
        Field::new(
            exemplar::FILTERED_ATTRIBUTES,
            "filtered_attributes",
            "filteredAttributes",
            Kind::Message(&KEY_VALUE),
        )
        .repeated(),
    ],
)
.oneof(&[exemplar::AS_DOUBLE, exemplar::AS_INT]);
