//! Data points as messages: fields read, and bodies with other values in some of them.

use std::borrow::Cow;

use weir_otlp::build::Encoder;
use weir_otlp::cursor::{Cursor, Field, Fields, Value as Raw, unzigzag};
use weir_otlp::field::{histogram_data_point, number_data_point, sum};

use crate::context::PointKind;
use crate::draft::Scalar;

/// Numbers of the fields that all data points have.
pub(super) const START_TIME: u32 = number_data_point::START_TIME_UNIX_NANO;
pub(super) const TIME: u32 = number_data_point::TIME_UNIX_NANO;
/// Numbers of fields of `NumberDataPoint`.
pub(super) const AS_DOUBLE: u32 = number_data_point::AS_DOUBLE;
pub(super) const AS_INT: u32 = number_data_point::AS_INT;
pub(super) const NUMBER_ATTRIBUTES: u32 = number_data_point::ATTRIBUTES;
/// Numbers of the fields that the points of histograms and summaries have.
pub(super) const COUNT: u32 = histogram_data_point::COUNT;
pub(super) const SUM: u32 = histogram_data_point::SUM;

/// A data point, or a message in one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point<'p>(pub(super) &'p [u8]);

impl<'p> Point<'p> {
    fn last(self, number: u32) -> Option<Raw<'p>> {
        Fields::new(self.0).filter(|field| field.number == number).last().map(|field| field.value)
    }

    /// A `fixed64` or `sfixed64`, if it is there.
    pub(super) fn fixed64(self, number: u32) -> Option<u64> {
        match self.last(number) {
            Some(Raw::Fixed64(bits)) => Some(bits),
            _ => None,
        }
    }

    /// A `double`, if it is there.
    pub(super) fn double(self, number: u32) -> Option<f64> {
        self.fixed64(number).map(f64::from_bits)
    }

    /// A varint; 0 when it is absent.
    pub(super) fn varint(self, number: u32) -> u64 {
        match self.last(number) {
            Some(Raw::Varint(value)) => value,
            _ => 0,
        }
    }

    /// A `sint32`; 0 when it is absent.
    pub(super) fn sint32(self, number: u32) -> i32 {
        unzigzag(self.varint(number))
    }

    /// The message in a field, an empty one when it is absent.
    pub(super) fn message(self, number: u32) -> Self {
        match self.last(number) {
            Some(Raw::Len(body)) => Self(body),
            _ => Self(&[]),
        }
    }

    /// The bodies in a repeated field.
    pub(super) fn bodies(self, number: u32) -> impl Iterator<Item = &'p [u8]> {
        Fields::new(self.0).filter(move |field| field.number == number).filter_map(|field| field.body())
    }

    /// Repeated `fixed64`, packed or not.
    pub(super) fn fixed64s(self, number: u32) -> Vec<u64> {
        let mut all = Vec::new();
        for field in Fields::new(self.0).filter(|field| field.number == number) {
            match field.value {
                Raw::Fixed64(bits) => all.push(bits),
                Raw::Len(body) => all.extend(body.as_chunks().0.iter().map(|chunk| u64::from_le_bytes(*chunk))),
                Raw::Varint(_) | Raw::Fixed32(_) => {}
            }
        }
        all
    }

    /// Repeated `double`, packed or not.
    pub(super) fn doubles(self, number: u32) -> Vec<f64> {
        self.fixed64s(number).into_iter().map(f64::from_bits).collect()
    }

    /// Repeated `uint64`, packed or not.
    pub(super) fn varints(self, number: u32) -> Vec<u64> {
        let mut all = Vec::new();
        for field in Fields::new(self.0).filter(|field| field.number == number) {
            match field.value {
                Raw::Varint(value) => all.push(value),
                Raw::Len(body) => {
                    let mut cursor = Cursor::new(body);
                    while cursor.offset() < body.len()
                        && let Ok(value) = cursor.varint()
                    {
                        all.push(value);
                    }
                }
                Raw::Fixed64(_) | Raw::Fixed32(_) => {}
            }
        }
        all
    }

    /// The body with other values in some fields, which come last; the other fields are as they were.
    pub(super) fn with(self, changes: &[(u32, Option<Scalar<'_>>)]) -> Vec<u8> {
        let mut out = Encoder::with_capacity(self.0.len() + 16);
        let is_kept = |field: &Field<'_>| changes.iter().all(|(number, _)| field.number != *number);
        for field in Fields::new(self.0).filter(is_kept) {
            out.raw(&self.0[field.start..field.end]);
        }
        for (number, scalar) in changes {
            if let Some(scalar) = scalar {
                scalar.encode(*number, &mut out);
            }
        }
        out.into_bytes()
    }
}

/// Writes a `NumberDataPoint` with the times and attributes of another point; the value is written by `value`.
pub(super) fn number_point(source: Point<'_>, kind: PointKind, out: &mut Encoder, value: impl FnOnce(&mut Encoder)) {
    let open = out.open(sum::DATA_POINTS, source.0.len());
    for number in [START_TIME, TIME] {
        if let Some(time) = source.fixed64(number) {
            out.fixed64(number, time);
        }
    }
    value(out);
    source.bodies(kind.attributes()).for_each(|attribute| out.bytes(NUMBER_ATTRIBUTES, attribute));
    out.close(open);
}

/// Packed `fixed64` or `double`, given as bits; absent when there are none.
pub(super) fn packed<'a>(values: impl IntoIterator<Item = u64>) -> Option<Scalar<'a>> {
    let bytes: Vec<u8> = values.into_iter().flat_map(u64::to_le_bytes).collect();
    (!bytes.is_empty()).then_some(Scalar::Len(Cow::Owned(bytes)))
}
