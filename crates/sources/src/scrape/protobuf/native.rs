//! The buckets of native histograms, which are written as spans of buckets that something is in.

use std::iter;

use weir_otlp::common::Message;
use weir_otlp::cursor::{Cursor, Value, unzigzag};

use super::field::{histogram, span};

/// Buckets of one side at most, with those that nothing is in: of the finest ones, so many cover 77 decades.
const MOST_BUCKETS: i64 = 1 << 16;

/// A side of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Positive,
    Negative,
}

/// The buckets of one side.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Buckets {
    /// Which of all possible buckets is the first one, as OTLP counts them: by their lower bounds.
    pub(super) offset: i32,
    pub(super) counts: Vec<u64>,
}

/// What is wrong with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadBuckets {
    #[error("a native histogram whose spans overlap")]
    Overlap,
    #[error("a native histogram that reaches over more than {MOST_BUCKETS} buckets on one side")]
    TooMany,
    #[error("a native histogram with buckets that do not exist")]
    OutOfRange,
    #[error("a native histogram whose spans do not have as many buckets as there are counts")]
    Unequal,
    #[error("a native histogram with a bucket that has a negative count")]
    Negative,
}

impl Side {
    /// How many buckets there are, with those between spans. `message`: a histogram that was checked.
    pub(super) fn count(self, message: Message<'_>) -> Result<usize, BadBuckets> {
        let mut count = 0;
        for (index, (offset, length)) in self.all(message).enumerate() {
            if index > 0 && offset < 0 {
                return Err(BadBuckets::Overlap);
            }
            count += i64::from(length) + if index > 0 { i64::from(offset) } else { 0 };
            if count > MOST_BUCKETS {
                return Err(BadBuckets::TooMany);
            }
        }
        usize::try_from(count).map_err(|_| BadBuckets::TooMany)
    }

    /// Its buckets. `is_float`: their counts have fractions, and become whole.
    pub(super) fn buckets(self, message: Message<'_>, is_float: bool) -> Result<Buckets, BadBuckets> {
        if is_float {
            return self.fill(message, doubles(message, self.numbers(true)).map(whole));
        }
        let counts = varints(message, self.numbers(false)).scan(0_i64, |last, delta| {
            *last = last.saturating_add(unzigzag64(delta));
            Some(u64::try_from(*last).map_err(|_| BadBuckets::Negative))
        });
        self.fill(message, counts)
    }

    fn fill(
        self,
        message: Message<'_>,
        mut counts: impl Iterator<Item = Result<u64, BadBuckets>>,
    ) -> Result<Buckets, BadBuckets> {
        let mut buckets = Buckets { offset: 0, counts: Vec::with_capacity(self.count(message)?) };
        for (index, (offset, length)) in self.all(message).enumerate() {
            if index == 0 {
                // Prometheus counts buckets by their upper bounds.
                buckets.offset = offset.checked_sub(1).ok_or(BadBuckets::OutOfRange)?;
            } else {
                let gap = usize::try_from(offset).unwrap_or_default();
                buckets.counts.resize(buckets.counts.len() + gap, 0);
            }
            for _ in 0..length {
                buckets.counts.push(counts.next().ok_or(BadBuckets::Unequal)??);
            }
        }
        if counts.next().is_some() {
            return Err(BadBuckets::Unequal);
        }
        let has_last =
            i32::try_from(buckets.counts.len()).is_ok_and(|count| buckets.offset.checked_add(count).is_some());
        if has_last { Ok(buckets) } else { Err(BadBuckets::OutOfRange) }
    }

    fn spans(self) -> u32 {
        match self {
            Self::Positive => histogram::POSITIVE_SPANS,
            Self::Negative => histogram::NEGATIVE_SPANS,
        }
    }

    fn numbers(self, is_float: bool) -> u32 {
        match (self, is_float) {
            (Self::Positive, true) => histogram::POSITIVE_COUNTS,
            (Self::Positive, false) => histogram::POSITIVE_DELTAS,
            (Self::Negative, true) => histogram::NEGATIVE_COUNTS,
            (Self::Negative, false) => histogram::NEGATIVE_DELTAS,
        }
    }

    /// The offset and the length of each span.
    fn all(self, message: Message<'_>) -> impl Iterator<Item = (i32, u32)> {
        message.messages(self.spans()).map(|message| {
            let length = u32::try_from(message.varint(span::LENGTH)).unwrap_or(u32::MAX);
            (unzigzag(message.varint(span::OFFSET)), length)
        })
    }
}

/// A count that may have a fraction, as a whole number.
fn whole(bits: u64) -> Result<u64, BadBuckets> {
    let count = f64::from_bits(bits);
    if count < 0.0 { Err(BadBuckets::Negative) } else { Ok(rounded(count)) }
}

/// The whole number that is next to a count.
pub(super) fn rounded(count: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and NaN becomes 0")]
    let count = count.round() as u64;
    count
}

/// The numbers in a repeated field of varints, which stand one by one or together.
fn varints<'p>(message: Message<'p>, number: u32) -> impl Iterator<Item = u64> + use<'p> {
    message.fields().filter(move |field| field.number == number).flat_map(|field| {
        let (single, packed) = match field.value {
            Value::Varint(value) => (Some(value), &[][..]),
            Value::Len(packed) => (None, packed),
            Value::Fixed64(_) | Value::Fixed32(_) => (None, &[][..]),
        };
        let mut cursor = Cursor::new(packed);
        let next = move || if cursor.offset() < packed.len() { cursor.varint().ok() } else { None };
        single.into_iter().chain(iter::from_fn(next))
    })
}

/// The same for a field of doubles, as their bits.
fn doubles<'p>(message: Message<'p>, number: u32) -> impl Iterator<Item = u64> + use<'p> {
    message.fields().filter(move |field| field.number == number).flat_map(|field| {
        let (single, packed) = match field.value {
            Value::Fixed64(bits) => (Some(bits), &[][..]),
            Value::Len(packed) => (None, packed),
            Value::Varint(_) | Value::Fixed32(_) => (None, &[][..]),
        };
        let (bits, _) = packed.as_chunks();
        single.into_iter().chain(bits.iter().map(|bits| u64::from_le_bytes(*bits)))
    })
}

/// The number in the varint of a `sint64`.
fn unzigzag64(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}
