//! What a series has counted: a number, or the counts of a histogram; and the difference of two of them.

use weir_otlp::build::Encoder;
use weir_otlp::field::number_data_point;

use crate::exponential::Exponential;
use crate::histogram::Histogram;

/// A cumulative value, or the difference of two.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing yet, of whatever type.
    Zero,
    /// `as_int`
    Int(i64),
    /// `as_double`
    Double(f64),
    /// A histogram with explicit bounds. Boxed, as most series are sums.
    Histogram(Box<Histogram>),
    /// An exponential histogram.
    Exponential(Box<Exponential>),
}

/// How a value differs from the one before it.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    /// By this much more.
    Delta(Value),
    /// It went down.
    Reset,
    /// There is no difference between the two: their buckets do not match.
    Mismatch,
}

impl Value {
    /// Whether a difference to it means something.
    pub(crate) fn is_finite(&self) -> bool {
        !matches!(self, Self::Double(value) if !value.is_finite())
    }

    /// How `self` differs from `last`, the value of the same series before it.
    pub(crate) fn since(&self, last: &Self) -> Change {
        match (self, last) {
            (value, Self::Zero) => Change::Delta(value.clone()),
            (Self::Int(value), Self::Int(last)) if value >= last => {
                value.checked_sub(*last).map_or(Change::Reset, |delta| Change::Delta(Self::Int(delta)))
            }
            (Self::Double(value), Self::Double(last)) if value >= last => Change::Delta(Self::Double(value - last)),
            (Self::Int(_), Self::Int(_)) | (Self::Double(_), Self::Double(_)) => Change::Reset,
            (Self::Histogram(value), Self::Histogram(last)) => value.since(last),
            (Self::Exponential(value), Self::Exponential(last)) => value.since(last),
            // Never met: the type is part of what a series is known by.
            _ => Change::Mismatch,
        }
    }

    /// Adds another difference of the same series; false when their buckets do not match, and nothing is changed.
    #[must_use]
    pub(crate) fn add(&mut self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Zero) => true,
            (value @ Self::Zero, other) => {
                *value = other.clone();
                true
            }
            (Self::Int(value), Self::Int(other)) => match value.checked_add(*other) {
                Some(sum) => {
                    *value = sum;
                    true
                }
                None => false,
            },
            (Self::Double(value), Self::Double(other)) => {
                *value += other;
                true
            }
            (Self::Histogram(value), Self::Histogram(other)) => value.add(other),
            (Self::Exponential(value), Self::Exponential(other)) => {
                value.add(other);
                true
            }
            _ => false,
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Zero | Self::Int(_) | Self::Double(_) => 0,
            Self::Histogram(value) => size_of::<Histogram>() + value.heap_bytes(),
            Self::Exponential(value) => size_of::<Exponential>() + value.heap_bytes(),
        }
    }

    /// The most bytes that its buckets take in a data point: eight for each in a histogram with explicit bounds.
    pub(crate) fn buckets_bytes(&self) -> usize {
        match self {
            Self::Zero | Self::Int(_) | Self::Double(_) => 0,
            Self::Histogram(value) => 8 * value.counts.len(),
            Self::Exponential(value) => value.heap_bytes(),
        }
    }

    /// Writes it as fields of a data point.
    pub(crate) fn write(&self, out: &mut Encoder) {
        match self {
            Self::Zero => {}
            Self::Int(value) => out.fixed64(number_data_point::AS_INT, value.cast_unsigned()),
            Self::Double(value) => out.fixed64(number_data_point::AS_DOUBLE, value.to_bits()),
            Self::Histogram(value) => value.write(out),
            Self::Exponential(value) => value.write(out),
        }
    }
}

/// The sum of two values, or their difference, if both points have one.
pub(crate) fn both(left: Option<f64>, right: Option<f64>, combine: impl Fn(f64, f64) -> f64) -> Option<f64> {
    Some(combine(left?, right?))
}

/// The `sum` of a histogram, unless it is infinite or not a number: there is no difference to such a sum.
pub(crate) fn finite(sum: Option<f64>) -> Option<f64> {
    sum.filter(|sum| sum.is_finite())
}
