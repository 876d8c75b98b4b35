//! Views of a metrics request: resources, scopes, metrics and their data points.
//!
//! The rules of [`crate::common`] apply: `Copy`, no allocation, no panic, validated bytes expected. Fields of the five
//! kinds of data points share names, not numbers, so each kind has a view of its own.

use crate::common::{KeyValue, Message, Resource, Scope, low_u32};
use crate::cursor::{Cursor, Field, Value, WireType, unzigzag};
use crate::status::low_i32;

/// The `ResourceMetrics` of a request.
pub fn resource_metrics(request: &[u8]) -> impl Iterator<Item = ResourceMetrics<'_>> {
    Message::request(request).messages(1).map(ResourceMetrics)
}

/// `ResourceMetrics`
#[derive(Debug, Clone, Copy)]
pub struct ResourceMetrics<'a>(pub Message<'a>);

impl<'a> ResourceMetrics<'a> {
    /// What produced the metrics.
    pub fn resource(self) -> Option<Resource<'a>> {
        self.0.message(1).map(Resource)
    }

    /// The metrics, by instrumentation scope.
    pub fn scope_metrics(self) -> impl Iterator<Item = ScopeMetrics<'a>> + use<'a> {
        self.0.messages(2).map(ScopeMetrics)
    }

    /// Schema of the resource.
    pub fn schema_url(self) -> &'a str {
        self.0.string(3)
    }
}

/// `ScopeMetrics`
#[derive(Debug, Clone, Copy)]
pub struct ScopeMetrics<'a>(pub Message<'a>);

impl<'a> ScopeMetrics<'a> {
    /// The instrumentation library.
    pub fn scope(self) -> Option<Scope<'a>> {
        self.0.message(1).map(Scope)
    }

    /// Its metrics.
    pub fn metrics(self) -> impl Iterator<Item = Metric<'a>> + use<'a> {
        self.0.messages(2).map(Metric)
    }

    /// Schema of the scope and its metrics.
    pub fn schema_url(self) -> &'a str {
        self.0.string(3)
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
        self.0.string(1)
    }

    /// What it measures, for people.
    pub fn description(self) -> &'a str {
        self.0.string(2)
    }

    /// Its unit (UCUM).
    pub fn unit(self) -> &'a str {
        self.0.string(3)
    }

    /// Its data: the last member of the oneof that is present.
    pub fn data(self) -> Option<Data<'a>> {
        let member = |field: Field<'a>| {
            let inner = self.0.inner(&field);
            match field.number {
                5 => inner.map(Data::Gauge),
                7 => inner.map(Data::Sum),
                9 => inner.map(Data::Histogram),
                10 => inner.map(Data::ExponentialHistogram),
                11 => inner.map(Data::Summary),
                _ => None,
            }
        };
        self.0.fields().filter_map(member).last()
    }

    /// Attributes of the metric itself.
    pub fn metadata(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(12).map(KeyValue)
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
        self.message().messages(1)
    }

    /// `AggregationTemporality`: 1 delta, 2 cumulative; 0 for what has none.
    pub fn aggregation_temporality(self) -> i32 {
        match self {
            Self::Sum(message) | Self::Histogram(message) | Self::ExponentialHistogram(message) => {
                low_i32(message.varint(2))
            }
            Self::Gauge(_) | Self::Summary(_) => 0,
        }
    }

    /// Whether it is a sum that only grows.
    pub fn is_monotonic(self) -> bool {
        matches!(self, Self::Sum(message) if message.varint(3) != 0)
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
        self.0.messages(7).map(KeyValue)
    }

    /// Start of the interval, nanoseconds since the Unix epoch; 0 when unknown.
    pub fn start_time_unix_nano(self) -> u64 {
        self.0.fixed64(2)
    }

    /// When it was measured, nanoseconds since the Unix epoch.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(3)
    }

    /// The value: the last member of the oneof that is present.
    pub fn value(self) -> Option<Number> {
        let member = |field: Field<'_>| match (field.number, field.value) {
            (4, Value::Fixed64(bits)) => Some(Number::Double(f64::from_bits(bits))),
            (6, Value::Fixed64(bits)) => Some(Number::Int(bits.cast_signed())),
            _ => None,
        };
        self.0.fields().filter_map(member).last()
    }

    /// `DataPointFlags`
    pub fn flags(self) -> u32 {
        low_u32(self.0.varint(8))
    }

    /// Exemplars.
    pub fn exemplars(self) -> impl Iterator<Item = Exemplar<'a>> + use<'a> {
        self.0.messages(5).map(Exemplar)
    }
}

/// `HistogramDataPoint`
#[derive(Debug, Clone, Copy)]
pub struct HistogramDataPoint<'a>(pub Message<'a>);

impl<'a> HistogramDataPoint<'a> {
    /// Attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(9).map(KeyValue)
    }

    /// Start of the interval, nanoseconds since the Unix epoch; 0 when unknown.
    pub fn start_time_unix_nano(self) -> u64 {
        self.0.fixed64(2)
    }

    /// When it was measured, nanoseconds since the Unix epoch.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(3)
    }

    /// Number of values.
    pub fn count(self) -> u64 {
        self.0.fixed64(4)
    }

    /// Sum of the values.
    pub fn sum(self) -> Option<f64> {
        double(self.0, 5)
    }

    /// Smallest value.
    pub fn min(self) -> Option<f64> {
        double(self.0, 11)
    }

    /// Largest value.
    pub fn max(self) -> Option<f64> {
        double(self.0, 12)
    }

    /// Values per bucket; one more than bounds in valid telemetry, which is not checked.
    pub fn bucket_counts(self) -> impl Iterator<Item = u64> + use<'a> {
        numbers(self.0, 6, WireType::Fixed64)
    }

    /// Upper bounds of the buckets.
    pub fn explicit_bounds(self) -> impl Iterator<Item = f64> + use<'a> {
        numbers(self.0, 7, WireType::Fixed64).map(f64::from_bits)
    }

    /// `DataPointFlags`
    pub fn flags(self) -> u32 {
        low_u32(self.0.varint(10))
    }

    /// Exemplars.
    pub fn exemplars(self) -> impl Iterator<Item = Exemplar<'a>> + use<'a> {
        self.0.messages(8).map(Exemplar)
    }
}

/// `ExponentialHistogramDataPoint`
#[derive(Debug, Clone, Copy)]
pub struct ExponentialHistogramDataPoint<'a>(pub Message<'a>);

impl<'a> ExponentialHistogramDataPoint<'a> {
    /// Attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(1).map(KeyValue)
    }

    /// Start of the interval, nanoseconds since the Unix epoch; 0 when unknown.
    pub fn start_time_unix_nano(self) -> u64 {
        self.0.fixed64(2)
    }

    /// When it was measured, nanoseconds since the Unix epoch.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(3)
    }

    /// Number of values.
    pub fn count(self) -> u64 {
        self.0.fixed64(4)
    }

    /// Sum of the values.
    pub fn sum(self) -> Option<f64> {
        double(self.0, 5)
    }

    /// Resolution: the base of the buckets is 2^(2^-scale).
    pub fn scale(self) -> i32 {
        unzigzag(self.0.varint(6))
    }

    /// Values that are zero, or as near to it as `zero_threshold` says.
    pub fn zero_count(self) -> u64 {
        self.0.fixed64(7)
    }

    /// What counts as zero.
    pub fn zero_threshold(self) -> f64 {
        f64::from_bits(self.0.fixed64(14))
    }

    /// Buckets of positive values.
    pub fn positive(self) -> Option<Buckets<'a>> {
        self.0.message(8).map(Buckets)
    }

    /// Buckets of negative values.
    pub fn negative(self) -> Option<Buckets<'a>> {
        self.0.message(9).map(Buckets)
    }

    /// Smallest value.
    pub fn min(self) -> Option<f64> {
        double(self.0, 12)
    }

    /// Largest value.
    pub fn max(self) -> Option<f64> {
        double(self.0, 13)
    }

    /// `DataPointFlags`
    pub fn flags(self) -> u32 {
        low_u32(self.0.varint(10))
    }

    /// Exemplars.
    pub fn exemplars(self) -> impl Iterator<Item = Exemplar<'a>> + use<'a> {
        self.0.messages(11).map(Exemplar)
    }
}

/// `ExponentialHistogramDataPoint.Buckets`
#[derive(Debug, Clone, Copy)]
pub struct Buckets<'a>(pub Message<'a>);

impl<'a> Buckets<'a> {
    /// Index of the first bucket.
    pub fn offset(self) -> i32 {
        unzigzag(self.0.varint(1))
    }

    /// Values per bucket.
    pub fn bucket_counts(self) -> impl Iterator<Item = u64> + use<'a> {
        numbers(self.0, 2, WireType::Varint)
    }
}

/// `SummaryDataPoint`
#[derive(Debug, Clone, Copy)]
pub struct SummaryDataPoint<'a>(pub Message<'a>);

impl<'a> SummaryDataPoint<'a> {
    /// Attributes.
    pub fn attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(7).map(KeyValue)
    }

    /// Start of the interval, nanoseconds since the Unix epoch; 0 when unknown.
    pub fn start_time_unix_nano(self) -> u64 {
        self.0.fixed64(2)
    }

    /// When it was measured, nanoseconds since the Unix epoch.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(3)
    }

    /// Number of values.
    pub fn count(self) -> u64 {
        self.0.fixed64(4)
    }

    /// Sum of the values.
    pub fn sum(self) -> f64 {
        f64::from_bits(self.0.fixed64(5))
    }

    /// Quantiles and their values.
    pub fn quantile_values(self) -> impl Iterator<Item = (f64, f64)> + use<'a> {
        let pair = |message: Message<'a>| (f64::from_bits(message.fixed64(1)), f64::from_bits(message.fixed64(2)));
        self.0.messages(6).map(pair)
    }

    /// `DataPointFlags`
    pub fn flags(self) -> u32 {
        low_u32(self.0.varint(8))
    }
}

/// `Exemplar`
#[derive(Debug, Clone, Copy)]
pub struct Exemplar<'a>(pub Message<'a>);

impl<'a> Exemplar<'a> {
    /// Attributes that the aggregation dropped.
    pub fn filtered_attributes(self) -> impl Iterator<Item = KeyValue<'a>> + use<'a> {
        self.0.messages(7).map(KeyValue)
    }

    /// When it was measured, nanoseconds since the Unix epoch.
    pub fn time_unix_nano(self) -> u64 {
        self.0.fixed64(2)
    }

    /// The value: the last member of the oneof that is present.
    pub fn value(self) -> Option<Number> {
        let member = |field: Field<'_>| match (field.number, field.value) {
            (3, Value::Fixed64(bits)) => Some(Number::Double(f64::from_bits(bits))),
            (6, Value::Fixed64(bits)) => Some(Number::Int(bits.cast_signed())),
            _ => None,
        };
        self.0.fields().filter_map(member).last()
    }

    /// Id of the span that measured it; empty when unknown.
    pub fn span_id(self) -> &'a [u8] {
        self.0.bytes_field(4)
    }

    /// Id of the trace that measured it; empty when unknown.
    pub fn trace_id(self) -> &'a [u8] {
        self.0.bytes_field(5)
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
