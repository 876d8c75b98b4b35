//! A data point on the wire: read in one pass, and written again as a delta.

use weir_otlp::build::Encoder;
use weir_otlp::common::Message;
use weir_otlp::cursor::Value as Wire;
use weir_otlp::field::{
    exponential_histogram_data_point as exponential, histogram_data_point as histogram, metric,
    number_data_point as number, sum,
};
use weir_otlp::metrics::{ExponentialHistogramDataPoint, HistogramDataPoint};

use crate::exponential::Exponential;
use crate::histogram::Histogram;
use crate::identity::add_attribute;
use crate::value::Value;

/// What `DataPointFlags` calls `NO_RECORDED_VALUE`.
const NO_RECORDED_VALUE: u64 = 1;

const START_TIME: u32 = number::START_TIME_UNIX_NANO;
const TIME: u32 = number::TIME_UNIX_NANO;
const AS_DOUBLE: u32 = number::AS_DOUBLE;
const AS_INT: u32 = number::AS_INT;

/// The most bytes by which a delta is longer than its point, apart from its buckets: fields that were not there, and
/// lengths.
pub(crate) const MOST_FIELDS: usize = 192;

/// A type of metric that can be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `Sum` of `NumberDataPoint`
    Sum,
    /// `Histogram` of `HistogramDataPoint`
    Histogram,
    /// `ExponentialHistogram` of `ExponentialHistogramDataPoint`
    Exponential,
}

impl Kind {
    /// The field of `Metric` that holds it.
    pub(crate) fn metric_field(self) -> u32 {
        match self {
            Self::Sum => metric::SUM,
            Self::Histogram => metric::HISTOGRAM,
            Self::Exponential => metric::EXPONENTIAL_HISTOGRAM,
        }
    }

    /// A byte that tells it from the others.
    pub(crate) fn tag(self) -> u8 {
        match self {
            Self::Sum => 0,
            Self::Histogram => 1,
            Self::Exponential => 2,
        }
    }

    /// Field of its data points with the attributes.
    fn attributes(self) -> u32 {
        match self {
            Self::Sum => number::ATTRIBUTES,
            Self::Histogram => histogram::ATTRIBUTES,
            Self::Exponential => exponential::ATTRIBUTES,
        }
    }

    /// Field of its data points with the flags.
    fn flags(self) -> u32 {
        match self {
            Self::Sum => number::FLAGS,
            Self::Histogram => histogram::FLAGS,
            Self::Exponential => exponential::FLAGS,
        }
    }

    /// The fields of its data points that a delta has anew, or not at all. The smallest and the largest value are not
    /// known for an interval that begins later than the start.
    fn replaced(self) -> &'static [u32] {
        match self {
            Self::Sum => &[START_TIME, AS_DOUBLE, AS_INT],
            Self::Histogram => &[
                START_TIME,
                histogram::COUNT,
                histogram::SUM,
                histogram::BUCKET_COUNTS,
                histogram::MIN,
                histogram::MAX,
            ],
            Self::Exponential => &[
                START_TIME,
                exponential::COUNT,
                exponential::SUM,
                exponential::SCALE,
                exponential::ZERO_COUNT,
                exponential::POSITIVE,
                exponential::NEGATIVE,
                exponential::MIN,
                exponential::MAX,
                exponential::ZERO_THRESHOLD,
            ],
        }
    }
}

/// A cumulative data point.
#[derive(Debug)]
pub(crate) struct Point {
    /// `start_time_unix_nano`; 0 when unknown.
    pub(crate) start: u64,
    /// `time_unix_nano`; 0 when unknown.
    pub(crate) time: u64,
    /// Hash of the attributes.
    pub(crate) attributes: u128,
    /// The value, unless it has none.
    pub(crate) value: Option<Value>,
}

impl Point {
    pub(crate) fn read(kind: Kind, message: Message<'_>) -> Self {
        let mut point = Self { start: 0, time: 0, attributes: 0, value: None };
        let mut flags = 0;
        for field in message.fields() {
            match (field.number, field.value) {
                (START_TIME, Wire::Fixed64(bits)) => point.start = bits,
                (TIME, Wire::Fixed64(bits)) => point.time = bits,
                (AS_DOUBLE, Wire::Fixed64(bits)) if kind == Kind::Sum => {
                    point.value = Some(Value::Double(f64::from_bits(bits)));
                }
                (AS_INT, Wire::Fixed64(bits)) if kind == Kind::Sum => {
                    point.value = Some(Value::Int(bits.cast_signed()));
                }
                (number, Wire::Len(body)) if number == kind.attributes() => {
                    point.attributes = add_attribute(point.attributes, body);
                }
                (number, Wire::Varint(value)) if number == kind.flags() => flags = value,
                _ => {}
            }
        }
        if flags & NO_RECORDED_VALUE != 0 {
            point.value = None;
        } else {
            point.value = point.value.or_else(|| buckets(kind, message));
        }
        point
    }
}

fn buckets(kind: Kind, message: Message<'_>) -> Option<Value> {
    match kind {
        Kind::Sum => None,
        Kind::Histogram => Some(Value::Histogram(Box::new(Histogram::read(HistogramDataPoint(message))))),
        Kind::Exponential => {
            Some(Value::Exponential(Box::new(Exponential::read(ExponentialHistogramDataPoint(message)))))
        }
    }
}

/// Writes a data point of `request` as the delta since `start`. What is not part of the value stays as it is.
pub(crate) fn write(out: &mut Encoder, request: &[u8], kind: Kind, message: Message<'_>, start: u64, delta: &Value) {
    let open = out.open(sum::DATA_POINTS, message.range().len());
    out.fixed64(START_TIME, start);
    delta.write(out);
    for field in message.fields().filter(|field| !kind.replaced().contains(&field.number)) {
        out.raw(&request[field.start..field.end]);
    }
    out.close(open);
}
