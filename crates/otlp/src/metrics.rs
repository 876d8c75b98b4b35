//! Views of a metrics request: resources, scopes, metrics and their data points.
//!
//! The rules of [`crate::common`] apply: `Copy`, no allocation, no panic, validated bytes expected. Fields of the five
//! kinds of data points share names, not numbers, so each kind has a view of its own.

use crate::common::{KeyValue, Message, Resource, Scope, low_u32};
use crate::cursor::{Cursor, Field, Value, WireType, unzigzag};
use crate::field::{
    buckets, exemplar, exponential_histogram_data_point, histogram_data_point, metric, number_data_point, request,
    resource_data, scope_data, sum, summary_data_point, value_at_quantile,
};
use crate::status::low_i32;

/// The `ResourceMetrics` of a request.
pub fn resource_metrics(request: &[u8]) -> impl Iterator<Item = ResourceMetrics<'_>> {
    Message::request(request).messages(request::RESOURCES).map(ResourceMetrics)
}

/// `ResourceMetrics`
#[derive(Debug, Clone, Copy)]
pub struct ResourceMetrics<'a>(pub Message<'a>);

impl<'a> ResourceMetrics<'a> {
    /// What produced the metrics.
    pub fn resource(self) -> Option<Resource<'a>> {
        self.0.message(resource_data::RESOURCE).map(Resource)
    }

    /// The metrics, by instrumentation scope.
    pub fn scope_metrics(self) -> impl Iterator<Item = ScopeMetrics<'a>> + use<'a> {
        self.0.messages(resource_data::SCOPES).map(ScopeMetrics)
    }

    /// Schema of the resource.
    pub fn schema_url(self) -> &'a str {
        self.0.string(resource_data::SCHEMA_URL)
    }
}

/// `ScopeMetrics`
#[derive(Debug, Clone, Copy)]
pub struct ScopeMetrics<'a>(pub Message<'a>);

impl<'a> ScopeMetrics<'a> {
    /// The instrumentation library.
    pub fn scope(self) -> Option<Scope<'a>> {
        self.0.message(scope_data::SCOPE).map(Scope)
    }

    /// Its metrics.
    pub fn metrics(self) -> impl Iterator<Item = Metric<'a>> + use<'a> {
        self.0.messages(scope_data::ITEMS).map(Metric)
    }

    /// Schema of the scope and its metrics.
    pub fn schema_url(self) -> &'a str {
        self.0.string(scope_data::SCHEMA_URL)
    }
}

/// `Metric`
#[derive(Debug, Clone, Copy)]
pub struct Metric<'a>(pub Message<'a>);

/// The data of a metric, by its type; each holds the message with the data points.
#[derive(Debug, Clone, Copy)]
pub enum Data<'a> {
    /// `Gauge`
    Gauge(Message<'a>),
    /// `Sum`
    Sum(Message<'a>),
    /// `Histogram`
    Histogram(Message<'a>),
    /// `ExponentialHistogram`
    ExponentialHistogram(Message<'a>),
    /// `Summary`
    Summary(Message<'a>),
}

impl<'a> Metric<'a> {
    /// Its name.
    pub fn name(self) -> &'a str {
        self.0.string(metric::NAME)
    }

    /// What it measures, for people.
    pub fn description(self) -> &'a str {
        self.0.string(metric::DESCRIPTION)
    }

    /// Its unit (UCUM).
    pub fn unit(self) -> &'a str {
        self.0.string(metric::UNIT)
    }

    /// Its data: the last member of the oneof that is present.
    pub fn data(self) -> Option<Data<'a>> {
        let member = |field: Field<'a>| {
            let inner = self.0.inner(&field);
            match field.number {
                metric::GAUGE => inner.map(Data::Gauge),
                metric::SUM => inner.map(Data::Sum),
                metric::HISTOGRAM => inner.map(Data::Histogram),
                metric::EXPONENTIAL_HISTOGRAM => inner.map(Data::ExponentialHistogram),
                metric::SUMMARY => inner.map(Data::Summary),
                _ => None,
            }
        };
        self.0.fields().filter_map(member).last()
    }

    /// Attributes of the metric itself.
    pub fn metadata(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(metric::METADATA).map(KeyValue)
    }
}

impl<'a> Data<'a> {
    /// The message with the data points.
    pub fn message(self) -> Message<'a> {
        match self {
            Self::Gauge(message)
            | Self::Sum(message)
            | Self::Histogram(message)
            | Self::ExponentialHistogram(message)
            | Self::Summary(message) => message,
        }
    }

    /// The data points.
    pub fn data_points(self) -> impl Iterator<Item = Message<'a>> + use<'a> {
        self.message().messages(sum::DATA_POINTS)
    }

    /// `AggregationTemporality`: 1 delta, 2 cumulative; 0 for what has none.
    pub fn aggregation_temporality(self) -> i32 {
        match self {
            Self::Sum(message) | Self::Histogram(message) | Self::ExponentialHistogram(message) => {
                low_i32(message.varint(sum::AGGREGATION_TEMPORALITY))
            }
            Self::Gauge(_) | Self::Summary(_) => 0,
        }
    }

    /// Whether it is a sum that only grows.
    pub fn is_monotonic(self) -> bool {
        matches!(self, Self::Sum(message) if message.varint(sum::IS_MONOTONIC) != 0)
    }
}

/// The value of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// `as_int`
    Int(i64),
    /// `as_double`
    Double(f64),
}

/// `NumberDataPoint`, of a gauge or a sum.
#[derive(Debug, Clone, Copy)]
pub struct NumberDataPoint<'a>(pub Message<'a>);

impl<'a> NumberDataPoint<'a> {
    /// Attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(number_data_point::ATTRIBUTES).map(KeyValue)
    }

    /// Start of the interval, nanoseconds since the Unix epoch; 0 when unknown.
    pub fn start_time_unix_nano(self) -> u64 {
        self.0.fixed64(number_data_point::START_TIME_UNIX_NANO)
    }

    /// When it was measured, nanoseconds since the Unix epoch.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(number_data_point::TIME_UNIX_NANO)
    }

    /// The value: the last member of the oneof that is present.
    pub fn value(self) -> Option<Number> {
        let member = |field: Field<'_>| match (field.number, field.value) {
            (number_data_point::AS_DOUBLE, Value::Fixed64(bits)) => Some(Number::Double(f64::from_bits(bits))),
            (number_data_point::AS_INT, Value::Fixed64(bits)) => Some(Number::Int(bits.cast_signed())),
            _ => None,
        };
        self.0.fields().filter_map(member).last()
    }

    /// `DataPointFlags`
    pub fn flags(self) -> u32 {
        low_u32(self.0.varint(number_data_point::FLAGS))
    }

    /// Exemplars.
    pub fn exemplars(self) -> impl Iterator<Item = Exemplar<'a>> + use<'a> {
        self.0.messages(number_data_point::EXEMPLARS).map(Exemplar)
    }
}

/// `HistogramDataPoint`
#[derive(Debug, Clone, Copy)]
pub struct HistogramDataPoint<'a>(pub Message<'a>);

impl<'a> HistogramDataPoint<'a> {
    /// Attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(histogram_data_point::ATTRIBUTES).map(KeyValue)
    }

    /// Start of the interval, nanoseconds since the Unix epoch; 0 when unknown.
    pub fn start_time_unix_nano(self) -> u64 {
        self.0.fixed64(histogram_data_point::START_TIME_UNIX_NANO)
    }

    /// When it was measured, nanoseconds since the Unix epoch.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(histogram_data_point::TIME_UNIX_NANO)
    }

    /// Number of values.
    pub fn count(self) -> u64 {
        self.0.fixed64(histogram_data_point::COUNT)
    }

    /// Sum of the values.
    pub fn sum(self) -> Option<f64> {
        double(self.0, histogram_data_point::SUM)
    }

    /// Smallest value.
    pub fn min(self) -> Option<f64> {
        double(self.0, histogram_data_point::MIN)
    }

    /// Largest value.
    pub fn max(self) -> Option<f64> {
        double(self.0, histogram_data_point::MAX)
    }

    /// Values per bucket; one more than bounds in valid telemetry, which is not checked.
    pub fn bucket_counts(self) -> impl Iterator<Item = u64> + use<'a> {
        numbers(self.0, histogram_data_point::BUCKET_COUNTS, WireType::Fixed64)
    }

    /// Upper bounds of the buckets.
    pub fn explicit_bounds(self) -> impl Iterator<Item = f64> + use<'a> {
        numbers(self.0, histogram_data_point::EXPLICIT_BOUNDS, WireType::Fixed64).map(f64::from_bits)
    }

    /// `DataPointFlags`
    pub fn flags(self) -> u32 {
        low_u32(self.0.varint(histogram_data_point::FLAGS))
    }

    /// Exemplars.
    pub fn exemplars(self) -> impl Iterator<Item = Exemplar<'a>> + use<'a> {
        self.0.messages(histogram_data_point::EXEMPLARS).map(Exemplar)
    }
}

/// `ExponentialHistogramDataPoint`
#[derive(Debug, Clone, Copy)]
pub struct ExponentialHistogramDataPoint<'a>(pub Message<'a>);

impl<'a> ExponentialHistogramDataPoint<'a> {
    /// Attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(exponential_histogram_data_point::ATTRIBUTES).map(KeyValue)
    }

    /// Start of the interval, nanoseconds since the Unix epoch; 0 when unknown.
    pub fn start_time_unix_nano(self) -> u64 {
        self.0.fixed64(exponential_histogram_data_point::START_TIME_UNIX_NANO)
    }

    /// When it was measured, nanoseconds since the Unix epoch.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(exponential_histogram_data_point::TIME_UNIX_NANO)
    }

    /// Number of values.
    pub fn count(self) -> u64 {
        self.0.fixed64(exponential_histogram_data_point::COUNT)
    }

    /// Sum of the values.
    pub fn sum(self) -> Option<f64> {
        double(self.0, exponential_histogram_data_point::SUM)
    }

    /// Resolution: the base of the buckets is 2^(2^-scale).
    pub fn scale(self) -> i32 {
        unzigzag(self.0.varint(exponential_histogram_data_point::SCALE))
    }

    /// Values that are zero, or as near to it as `zero_threshold` says.
    pub fn zero_count(self) -> u64 {
        self.0.fixed64(exponential_histogram_data_point::ZERO_COUNT)
    }

    /// What counts as zero.
    pub fn zero_threshold(self) -> f64 {
        f64::from_bits(self.0.fixed64(exponential_histogram_data_point::ZERO_THRESHOLD))
    }

    /// Buckets of positive values.
    pub fn positive(self) -> Option<Buckets<'a>> {
        self.0.message(exponential_histogram_data_point::POSITIVE).map(Buckets)
    }

    /// Buckets of negative values.
    pub fn negative(self) -> Option<Buckets<'a>> {
        self.0.message(exponential_histogram_data_point::NEGATIVE).map(Buckets)
    }

    /// Smallest value.
    pub fn min(self) -> Option<f64> {
        double(self.0, exponential_histogram_data_point::MIN)
    }

    /// Largest value.
    pub fn max(self) -> Option<f64> {
        double(self.0, exponential_histogram_data_point::MAX)
    }

    /// `DataPointFlags`
    pub fn flags(self) -> u32 {
        low_u32(self.0.varint(exponential_histogram_data_point::FLAGS))
    }

    /// Exemplars.
    pub fn exemplars(self) -> impl Iterator<Item = Exemplar<'a>> + use<'a> {
        self.0.messages(exponential_histogram_data_point::EXEMPLARS).map(Exemplar)
    }
}

/// `ExponentialHistogramDataPoint.Buckets`
#[derive(Debug, Clone, Copy)]
pub struct Buckets<'a>(pub Message<'a>);

impl<'a> Buckets<'a> {
    /// Index of the first bucket.
    pub fn offset(self) -> i32 {
        unzigzag(self.0.varint(buckets::OFFSET))
    }

    /// Values per bucket.
    pub fn bucket_counts(self) -> impl Iterator<Item = u64> + use<'a> {
        numbers(self.0, buckets::BUCKET_COUNTS, WireType::Varint)
    }
}

/// `SummaryDataPoint`
#[derive(Debug, Clone, Copy)]
pub struct SummaryDataPoint<'a>(pub Message<'a>);

impl<'a> SummaryDataPoint<'a> {
    /// Attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(summary_data_point::ATTRIBUTES).map(KeyValue)
    }

    /// Start of the interval, nanoseconds since the Unix epoch; 0 when unknown.
    pub fn start_time_unix_nano(self) -> u64 {
        self.0.fixed64(summary_data_point::START_TIME_UNIX_NANO)
    }

    /// When it was measured, nanoseconds since the Unix epoch.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(summary_data_point::TIME_UNIX_NANO)
    }

    /// Number of values.
    pub fn count(self) -> u64 {
        self.0.fixed64(summary_data_point::COUNT)
    }

    /// Sum of the values.
    pub fn sum(self) -> f64 {
        f64::from_bits(self.0.fixed64(summary_data_point::SUM))
    }

    /// Quantiles and their values.
    pub fn quantile_values(self) -> impl Iterator<Item = (f64, f64)> + use<'a> {
        let pair = |message: Message<'a>| {
            (
                f64::from_bits(message.fixed64(value_at_quantile::QUANTILE)),
                f64::from_bits(message.fixed64(value_at_quantile::VALUE)),
            )
        };
        self.0.messages(summary_data_point::QUANTILE_VALUES).map(pair)
    }

    /// `DataPointFlags`
    pub fn flags(self) -> u32 {
        low_u32(self.0.varint(summary_data_point::FLAGS))
    }
}

/// `Exemplar`
#[derive(Debug, Clone, Copy)]
pub struct Exemplar<'a>(pub Message<'a>);

impl<'a> Exemplar<'a> {
    /// Attributes that the aggregation dropped.
    pub fn filtered_attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(exemplar::FILTERED_ATTRIBUTES).map(KeyValue)
    }

    /// When it was measured, nanoseconds since the Unix epoch.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(exemplar::TIME_UNIX_NANO)
    }

    /// The value: the last member of the oneof that is present.
    pub fn value(self) -> Option<Number> {
        let member = |field: Field<'_>| match (field.number, field.value) {
            (exemplar::AS_DOUBLE, Value::Fixed64(bits)) => Some(Number::Double(f64::from_bits(bits))),
            (exemplar::AS_INT, Value::Fixed64(bits)) => Some(Number::Int(bits.cast_signed())),
            _ => None,
        };
        self.0.fields().filter_map(member).last()
    }

    /// Id of the span that measured it; empty when unknown.
    pub fn span_id(self) -> &'a [u8] {
        self.0.bytes_field(exemplar::SPAN_ID)
    }

    /// Id of the trace that measured it; empty when unknown.
    pub fn trace_id(self) -> &'a [u8] {
        self.0.bytes_field(exemplar::TRACE_ID)
    }
}

/// An `optional double`.
fn double(message: Message<'_>, number: u32) -> Option<f64> {
    let value = |field: Field<'_>| match field.value {
        Value::Fixed64(bits) if field.number == number => Some(f64::from_bits(bits)),
        _ => None,
    };
    message.fields().filter_map(value).last()
}

/// The bits of repeated numbers, packed or one field each.
fn numbers(message: Message<'_>, number: u32, wire: WireType) -> impl Iterator<Item = u64> + use<'_> {
    message.fields().filter(move |field| field.number == number).flat_map(move |field| {
        let (single, packed) = match field.value {
            Value::Fixed64(bits) | Value::Varint(bits) => (Some(bits), &[][..]),
            Value::Len(body) => (None, body),
            Value::Fixed32(_) => (None, &[][..]),
        };
        let mut cursor = Cursor::new(packed);
        let rest = std::iter::from_fn(move || match cursor.value(wire) {
            Ok(Value::Fixed64(bits) | Value::Varint(bits)) => Some(bits),
            _ => None,
        });
        single.into_iter().chain(rest)
    })
}
