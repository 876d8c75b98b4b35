//! The counts of an exponential histogram.
//!
//! Bucket `i` at scale `s` holds values in (b^i, b^(i+1)] with b = 2^(2^-s). A sender that runs out of buckets lowers
//! the scale or widens what counts as zero, so two points are brought to the lower scale and the wider zero before
//! they are subtracted. Scale and offset are whatever the wire has: all arithmetic on them is in 64 bits, and nothing
//! is allocated for buckets that are not there.

use std::borrow::Cow;
use std::iter::Peekable;
use std::ops::Range;

use weir_otlp::build::Encoder;
use weir_otlp::field::{buckets, exponential_histogram_data_point as point};
use weir_otlp::metrics::{Buckets as BucketsView, ExponentialHistogramDataPoint};

use crate::packed::Packed;
use crate::value::{Change, Value, both, finite};

/// Two differences are added at a scale at which they have at most this many buckets, or as many as one of them has
/// alone. SDKs use at most 160.
const BUCKETS: usize = 320;

/// `ExponentialHistogramDataPoint`, as far as it can be subtracted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exponential {
    pub(crate) count: u64,
    pub(crate) sum: Option<f64>,
    pub(crate) scale: i32,
    pub(crate) zero_count: u64,
    pub(crate) zero_threshold: f64,
    pub(crate) positive: Buckets,
    pub(crate) negative: Buckets,
}

/// `Buckets`: values per bucket, beginning with the one of index `offset`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Buckets {
    pub(crate) offset: i32,
    pub(crate) counts: Packed,
}

impl Exponential {
    pub(crate) fn read(point: ExponentialHistogramDataPoint<'_>) -> Self {
        Self {
            count: point.count(),
            sum: finite(point.sum()),
            scale: point.scale(),
            zero_count: point.zero_count(),
            zero_threshold: point.zero_threshold(),
            positive: point.positive().map(Buckets::read).unwrap_or_default(),
            negative: point.negative().map(Buckets::read).unwrap_or_default(),
        }
    }

    pub(crate) fn since(&self, last: &Self) -> Change {
        let Some(count) = self.count.checked_sub(last.count) else { return Change::Reset };
        let (value, last) = (self.with_resolution_of(last), last.with_resolution_of(self));
        let difference = || {
            Some(Self {
                count,
                sum: both(value.sum, last.sum, |value, last| value - last),
                zero_count: value.zero_count.checked_sub(last.zero_count)?,
                positive: value.positive.since(&last.positive)?,
                negative: value.negative.since(&last.negative)?,
                ..*value
            })
        };
        difference().map_or(Change::Mismatch, |delta| Change::Delta(Value::Exponential(Box::new(delta))))
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let mut value = self.with_resolution_of(other).into_owned();
        let mut other = other.with_resolution_of(&value).into_owned();
        while !(value.positive.are_near(&other.positive) && value.negative.are_near(&other.negative)) {
            value.coarsen(1);
            other.coarsen(1);
        }
        *self = Self {
            count: value.count.saturating_add(other.count),
            sum: both(value.sum, other.sum, |value, other| value + other),
            zero_count: value.zero_count.saturating_add(other.zero_count),
            positive: value.positive.plus(&other.positive),
            negative: value.negative.plus(&other.negative),
            ..value
        };
    }

    /// The same at the scale and the zero threshold of `other`, where these are coarser.
    fn with_resolution_of(&self, other: &Self) -> Cow<'_, Self> {
        let coarser = u32::try_from(i64::from(self.scale) - i64::from(other.scale)).unwrap_or(0);
        let wider = other.zero_threshold > self.zero_threshold;
        if coarser == 0 && !wider {
            return Cow::Borrowed(self);
        }
        let mut copy = self.clone();
        if wider {
            copy.widen_zero(other.zero_threshold);
        }
        copy.coarsen(coarser);
        Cow::Owned(copy)
    }

    /// Counts as zero what is in buckets up to the one that `threshold` lies in.
    fn widen_zero(&mut self, threshold: f64) {
        let index = threshold.log2() * 2f64.powi(self.scale);
        // Most thresholds are a boundary, give or take what floating point makes of it.
        let is_boundary = (index - index.round()).abs() < 1e-6;
        let end = if is_boundary { index.round() } else { index.ceil() };
        #[expect(clippy::cast_possible_truncation, reason = "beyond 64 bits it is as good as the end of them")]
        let last = (end as i64).saturating_sub(1);
        for buckets in [&mut self.positive, &mut self.negative] {
            let small = buckets.filled().take_while(|(index, _)| *index <= last).map(|(_, count)| count);
            self.zero_count = small.fold(self.zero_count, u64::saturating_add);
            *buckets = buckets.all().map(|(index, count)| (index, if index <= last { 0 } else { count })).collect();
        }
        self.zero_threshold = threshold;
    }

    /// Lowers the scale by `bits`.
    fn coarsen(&mut self, bits: u32) {
        if bits > 0 {
            self.scale = self.scale.saturating_sub_unsigned(bits);
            self.positive = self.positive.coarser(bits);
            self.negative = self.negative.coarser(bits);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.positive.counts.bytes().len() + self.negative.counts.bytes().len()
    }

    pub(crate) fn write(&self, out: &mut Encoder) {
        out.fixed64(point::COUNT, self.count);
        if let Some(sum) = self.sum {
            out.fixed64(point::SUM, sum.to_bits());
        }
        out.sint32(point::SCALE, self.scale);
        out.fixed64(point::ZERO_COUNT, self.zero_count);
        self.positive.write(point::POSITIVE, out);
        self.negative.write(point::NEGATIVE, out);
        out.fixed64(point::ZERO_THRESHOLD, self.zero_threshold.to_bits());
    }
}

impl Buckets {
    fn read(view: BucketsView<'_>) -> Self {
        Self { offset: view.offset(), counts: view.bucket_counts().collect() }
    }

    fn start(&self) -> i64 {
        i64::from(self.offset)
    }

    /// Buckets by index.
    fn all(&self) -> impl Iterator<Item = (i64, u64)> {
        (self.start()..).zip(self.counts.iter())
    }

    /// Those with something in them.
    fn filled(&self) -> impl Iterator<Item = (i64, u64)> {
        self.all().filter(|(_, count)| *count > 0)
    }

    /// The difference; `None` when a bucket went down.
    fn since(&self, last: &Self) -> Option<Self> {
        let mut last = last.filled().peekable();
        let difference = |(index, count): (i64, u64)| Some((index, count.checked_sub(take_at(index, &mut last))?));
        let buckets = self.all().map(difference).collect::<Option<Self>>()?;
        // What is left was in buckets that are no longer there.
        last.next().is_none().then_some(buckets)
    }

    /// Lowers the scale by `bits`: 2^`bits` buckets become one.
    fn coarser(&self, bits: u32) -> Self {
        let index = |index: i64| index >> bits.min(63);
        let mut fine = self.all().peekable();
        let merged = std::iter::from_fn(|| {
            let (first, mut sum) = fine.next()?;
            let coarse = index(first);
            while let Some((_, count)) = fine.next_if(|(next, _)| index(*next) == coarse) {
                sum = sum.saturating_add(count);
            }
            Some((coarse, sum))
        });
        merged.collect()
    }

    /// Whether one list can reasonably hold both.
    fn are_near(&self, other: &Self) -> bool {
        let Range { start, end } = self.union(other);
        let length = usize::try_from(end - start).unwrap_or(usize::MAX);
        length <= BUCKETS.max(self.counts.len()).max(other.counts.len())
    }

    /// Indexes of the buckets that hold both.
    fn union(&self, other: &Self) -> Range<i64> {
        let range =
            |buckets: &Self| buckets.start()..buckets.start().saturating_add_unsigned(buckets.counts.len() as u64);
        let (one, other) = (range(self), range(other));
        if one.is_empty() {
            return other;
        }
        if other.is_empty() {
            return one;
        }
        one.start.min(other.start)..one.end.max(other.end)
    }

    fn plus(&self, other: &Self) -> Self {
        let (mut one, mut two) = (self.filled().peekable(), other.filled().peekable());
        let sum = |index| (index, take_at(index, &mut one).saturating_add(take_at(index, &mut two)));
        self.union(other).map(sum).collect()
    }

    fn write(&self, number: u32, out: &mut Encoder) {
        if self.counts.is_empty() {
            return;
        }
        let open = out.open(number, self.counts.bytes().len() + 8);
        out.sint32(buckets::OFFSET, self.offset);
        out.bytes(buckets::BUCKET_COUNTS, self.counts.bytes());
        out.close(open);
    }
}

impl FromIterator<(i64, u64)> for Buckets {
    /// Takes buckets in order, without a gap, and leaves out empty ones at both ends. An offset beyond 32 bits, which
    /// no bucket of a real number has, becomes the nearest that can be written.
    fn from_iter<I: IntoIterator<Item = (i64, u64)>>(buckets: I) -> Self {
        let mut buckets = buckets.into_iter().skip_while(|(_, count)| *count == 0).peekable();
        let start = buckets.peek().map_or(0, |(index, _)| *index);
        let mut counts = Encoder::default();
        let mut empty = 0;
        for (_, count) in buckets {
            if count == 0 {
                empty += 1;
                continue;
            }
            (0..std::mem::take(&mut empty)).for_each(|_| counts.element(0));
            counts.element(count);
        }
        let offset = i32::try_from(start).unwrap_or(if start < 0 { i32::MIN } else { i32::MAX });
        Self { offset, counts: counts.into() }
    }
}

/// What is in the bucket at `index`, which is the next one or none.
fn take_at(index: i64, filled: &mut Peekable<impl Iterator<Item = (i64, u64)>>) -> u64 {
    filled.next_if(|(next, _)| *next == index).map_or(0, |(_, count)| count)
}
