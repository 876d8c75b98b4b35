//! The field numbers of OTLP, by message: the only place where they are written. The tables of the schema are made of
//! them, and tests compare these tables, and the numbers of responses, with the definitions.
//!
//! Requests of the three signals share the shape of [`request`], [`resource_data`] and [`scope_data`].

use crate::cursor::WireType;

/// The key of a field with a number below 16, which is a byte.
pub const fn short_key(number: u32, wire: WireType) -> u8 {
    assert!(number < 16, "the key takes more than a byte");
    #[expect(clippy::cast_possible_truncation, reason = "checked one line above")]
    let number = number as u8;
    number << 3 | wire.tag()
}

/// `ExportTraceServiceRequest` and its sisters: `resource_spans`, `resource_metrics`, `resource_logs`.
pub mod request {
    /// The data of one resource.
    pub const RESOURCES: u32 = 1;
}

/// `ExportTraceServiceResponse` and its sisters.
pub mod export_response {
    /// `partial_success`
    pub const PARTIAL_SUCCESS: u32 = 1;
}

/// `ExportTracePartialSuccess` and its sisters.
pub mod export_partial_success {
    /// `rejected_spans`, `rejected_data_points`, `rejected_log_records`.
    pub const REJECTED: u32 = 1;
    /// `error_message`
    pub const ERROR_MESSAGE: u32 = 2;
}

/// `ResourceSpans`, `ResourceMetrics`, `ResourceLogs`.
pub mod resource_data {
    /// `resource`
    pub const RESOURCE: u32 = 1;
    /// The data of one instrumentation scope: `scope_spans`, `scope_metrics`, `scope_logs`.
    pub const SCOPES: u32 = 2;
    /// `schema_url`
    pub const SCHEMA_URL: u32 = 3;
}

/// `ScopeSpans`, `ScopeMetrics`, `ScopeLogs`.
pub mod scope_data {
    /// `scope`
    pub const SCOPE: u32 = 1;
    /// `spans`, `metrics`, `log_records`.
    pub const ITEMS: u32 = 2;
    /// `schema_url`
    pub const SCHEMA_URL: u32 = 3;
}

/// `AnyValue`
pub mod any_value {
    /// `string_value`
    pub const STRING_VALUE: u32 = 1;
    /// `bool_value`
    pub const BOOL_VALUE: u32 = 2;
    /// `int_value`
    pub const INT_VALUE: u32 = 3;
    /// `double_value`
    pub const DOUBLE_VALUE: u32 = 4;
    /// `array_value`
    pub const ARRAY_VALUE: u32 = 5;
    /// `kvlist_value`
    pub const KVLIST_VALUE: u32 = 6;
    /// `bytes_value`
    pub const BYTES_VALUE: u32 = 7;
    /// `string_value_strindex`
    pub const STRING_VALUE_STRINDEX: u32 = 8;
}

/// `ArrayValue`
pub mod array_value {
    /// `values`
    pub const VALUES: u32 = 1;
}

/// `KeyValueList`
pub mod key_value_list {
    /// `values`
    pub const VALUES: u32 = 1;
}

/// `KeyValue`
pub mod key_value {
    /// `key`
    pub const KEY: u32 = 1;
    /// `value`
    pub const VALUE: u32 = 2;
    /// `key_strindex`
    pub const KEY_STRINDEX: u32 = 3;
}

/// `InstrumentationScope`
pub mod scope {
    /// `name`
    pub const NAME: u32 = 1;
    /// `version`
    pub const VERSION: u32 = 2;
    /// `attributes`
    pub const ATTRIBUTES: u32 = 3;
    /// `dropped_attributes_count`
    pub const DROPPED_ATTRIBUTES_COUNT: u32 = 4;
}

/// `Resource`
pub mod resource {
    /// `attributes`
    pub const ATTRIBUTES: u32 = 1;
    /// `dropped_attributes_count`
    pub const DROPPED_ATTRIBUTES_COUNT: u32 = 2;
    /// `entity_refs`
    pub const ENTITY_REFS: u32 = 3;
}

/// `EntityRef`
pub mod entity_ref {
    /// `schema_url`
    pub const SCHEMA_URL: u32 = 1;
    /// `type`
    pub const TYPE: u32 = 2;
    /// `id_keys`
    pub const ID_KEYS: u32 = 3;
    /// `description_keys`
    pub const DESCRIPTION_KEYS: u32 = 4;
}

/// `Span`
pub mod span {
    /// `trace_id`
    pub const TRACE_ID: u32 = 1;
    /// `span_id`
    pub const SPAN_ID: u32 = 2;
    /// `trace_state`
    pub const TRACE_STATE: u32 = 3;
    /// `parent_span_id`
    pub const PARENT_SPAN_ID: u32 = 4;
    /// `name`
    pub const NAME: u32 = 5;
    /// `kind`
    pub const KIND: u32 = 6;
    /// `start_time_unix_nano`
    pub const START_TIME_UNIX_NANO: u32 = 7;
    /// `end_time_unix_nano`
    pub const END_TIME_UNIX_NANO: u32 = 8;
    /// `attributes`
    pub const ATTRIBUTES: u32 = 9;
    /// `dropped_attributes_count`
    pub const DROPPED_ATTRIBUTES_COUNT: u32 = 10;
    /// `events`
    pub const EVENTS: u32 = 11;
    /// `dropped_events_count`
    pub const DROPPED_EVENTS_COUNT: u32 = 12;
    /// `links`
    pub const LINKS: u32 = 13;
    /// `dropped_links_count`
    pub const DROPPED_LINKS_COUNT: u32 = 14;
    /// `status`
    pub const STATUS: u32 = 15;
    /// `flags`
    pub const FLAGS: u32 = 16;
}

/// `Span.Event`
pub mod event {
    /// `time_unix_nano`
    pub const TIME_UNIX_NANO: u32 = 1;
    /// `name`
    pub const NAME: u32 = 2;
    /// `attributes`
    pub const ATTRIBUTES: u32 = 3;
    /// `dropped_attributes_count`
    pub const DROPPED_ATTRIBUTES_COUNT: u32 = 4;
}

/// `Span.Link`
pub mod link {
    /// `trace_id`
    pub const TRACE_ID: u32 = 1;
    /// `span_id`
    pub const SPAN_ID: u32 = 2;
    /// `trace_state`
    pub const TRACE_STATE: u32 = 3;
    /// `attributes`
    pub const ATTRIBUTES: u32 = 4;
    /// `dropped_attributes_count`
    pub const DROPPED_ATTRIBUTES_COUNT: u32 = 5;
    /// `flags`
    pub const FLAGS: u32 = 6;
}

/// `Status`
pub mod status {
    /// `message`
    pub const MESSAGE: u32 = 2;
    /// `code`
    pub const CODE: u32 = 3;
}

/// `Metric`
pub mod metric {
    /// `name`
    pub const NAME: u32 = 1;
    /// `description`
    pub const DESCRIPTION: u32 = 2;
    /// `unit`
    pub const UNIT: u32 = 3;
    /// `gauge`
    pub const GAUGE: u32 = 5;
    /// `sum`
    pub const SUM: u32 = 7;
    /// `histogram`
    pub const HISTOGRAM: u32 = 9;
    /// `exponential_histogram`
    pub const EXPONENTIAL_HISTOGRAM: u32 = 10;
    /// `summary`
    pub const SUMMARY: u32 = 11;
    /// The members of `data`.
    pub const DATA: [u32; 5] = [GAUGE, SUM, HISTOGRAM, EXPONENTIAL_HISTOGRAM, SUMMARY];
    /// `metadata`
    pub const METADATA: u32 = 12;
}

/// `Gauge`
pub mod gauge {
    /// `data_points`
    pub const DATA_POINTS: u32 = 1;
}

/// `Sum`
pub mod sum {
    /// `data_points`
    pub const DATA_POINTS: u32 = 1;
    /// `aggregation_temporality`
    pub const AGGREGATION_TEMPORALITY: u32 = 2;
    /// `is_monotonic`
    pub const IS_MONOTONIC: u32 = 3;
}

/// `Histogram`
pub mod histogram {
    /// `data_points`
    pub const DATA_POINTS: u32 = 1;
    /// `aggregation_temporality`
    pub const AGGREGATION_TEMPORALITY: u32 = 2;
}

/// `ExponentialHistogram`
pub mod exponential_histogram {
    /// `data_points`
    pub const DATA_POINTS: u32 = 1;
    /// `aggregation_temporality`
    pub const AGGREGATION_TEMPORALITY: u32 = 2;
}

/// `Summary`
pub mod summary {
    /// `data_points`
    pub const DATA_POINTS: u32 = 1;
}

/// `NumberDataPoint`
pub mod number_data_point {
    /// `start_time_unix_nano`
    pub const START_TIME_UNIX_NANO: u32 = 2;
    /// `time_unix_nano`
    pub const TIME_UNIX_NANO: u32 = 3;
    /// `as_double`
    pub const AS_DOUBLE: u32 = 4;
    /// `exemplars`
    pub const EXEMPLARS: u32 = 5;
    /// `as_int`
    pub const AS_INT: u32 = 6;
    /// `attributes`
    pub const ATTRIBUTES: u32 = 7;
    /// `flags`
    pub const FLAGS: u32 = 8;
}

/// `HistogramDataPoint`
pub mod histogram_data_point {
    /// `start_time_unix_nano`
    pub const START_TIME_UNIX_NANO: u32 = 2;
    /// `time_unix_nano`
    pub const TIME_UNIX_NANO: u32 = 3;
    /// `count`
    pub const COUNT: u32 = 4;
    /// `sum`
    pub const SUM: u32 = 5;
    /// `bucket_counts`
    pub const BUCKET_COUNTS: u32 = 6;
    /// `explicit_bounds`
    pub const EXPLICIT_BOUNDS: u32 = 7;
    /// `exemplars`
    pub const EXEMPLARS: u32 = 8;
    /// `attributes`
    pub const ATTRIBUTES: u32 = 9;
    /// `flags`
    pub const FLAGS: u32 = 10;
    /// `min`
    pub const MIN: u32 = 11;
    /// `max`
    pub const MAX: u32 = 12;
}

/// `ExponentialHistogramDataPoint`
pub mod exponential_histogram_data_point {
    /// `attributes`
    pub const ATTRIBUTES: u32 = 1;
    /// `start_time_unix_nano`
    pub const START_TIME_UNIX_NANO: u32 = 2;
    /// `time_unix_nano`
    pub const TIME_UNIX_NANO: u32 = 3;
    /// `count`
    pub const COUNT: u32 = 4;
    /// `sum`
    pub const SUM: u32 = 5;
    /// `scale`
    pub const SCALE: u32 = 6;
    /// `zero_count`
    pub const ZERO_COUNT: u32 = 7;
    /// `positive`
    pub const POSITIVE: u32 = 8;
    /// `negative`
    pub const NEGATIVE: u32 = 9;
    /// `flags`
    pub const FLAGS: u32 = 10;
    /// `exemplars`
    pub const EXEMPLARS: u32 = 11;
    /// `min`
    pub const MIN: u32 = 12;
    /// `max`
    pub const MAX: u32 = 13;
    /// `zero_threshold`
    pub const ZERO_THRESHOLD: u32 = 14;
}

/// `ExponentialHistogramDataPoint.Buckets`
pub mod buckets {
    /// `offset`
    pub const OFFSET: u32 = 1;
    /// `bucket_counts`
    pub const BUCKET_COUNTS: u32 = 2;
}

/// `SummaryDataPoint`
pub mod summary_data_point {
    /// `start_time_unix_nano`
    pub const START_TIME_UNIX_NANO: u32 = 2;
    /// `time_unix_nano`
    pub const TIME_UNIX_NANO: u32 = 3;
    /// `count`
    pub const COUNT: u32 = 4;
    /// `sum`
    pub const SUM: u32 = 5;
    /// `quantile_values`
    pub const QUANTILE_VALUES: u32 = 6;
    /// `attributes`
    pub const ATTRIBUTES: u32 = 7;
    /// `flags`
    pub const FLAGS: u32 = 8;
}

/// `SummaryDataPoint.ValueAtQuantile`
pub mod value_at_quantile {
    /// `quantile`
    pub const QUANTILE: u32 = 1;
    /// `value`
    pub const VALUE: u32 = 2;
}

/// `Exemplar`
pub mod exemplar {
    /// `time_unix_nano`
    pub const TIME_UNIX_NANO: u32 = 2;
    /// `as_double`
    pub const AS_DOUBLE: u32 = 3;
    /// `span_id`
    pub const SPAN_ID: u32 = 4;
    /// `trace_id`
    pub const TRACE_ID: u32 = 5;
    /// `as_int`
    pub const AS_INT: u32 = 6;
    /// `filtered_attributes`
    pub const FILTERED_ATTRIBUTES: u32 = 7;
}

/// `LogRecord`
pub mod log_record {
    /// `time_unix_nano`
    pub const TIME_UNIX_NANO: u32 = 1;
    /// `severity_number`
    pub const SEVERITY_NUMBER: u32 = 2;
    /// `severity_text`
    pub const SEVERITY_TEXT: u32 = 3;
    /// `body`
    pub const BODY: u32 = 5;
    /// `attributes`
    pub const ATTRIBUTES: u32 = 6;
    /// `dropped_attributes_count`
    pub const DROPPED_ATTRIBUTES_COUNT: u32 = 7;
    /// `flags`
    pub const FLAGS: u32 = 8;
    /// `trace_id`
    pub const TRACE_ID: u32 = 9;
    /// `span_id`
    pub const SPAN_ID: u32 = 10;
    /// `observed_time_unix_nano`
    pub const OBSERVED_TIME_UNIX_NANO: u32 = 11;
    /// `event_name`
    pub const EVENT_NAME: u32 = 12;
}
