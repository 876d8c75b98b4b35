//! The counts of an exponential histogram.
//!
//! Bucket `i` at scale `s` holds values in (b^i, b^(i+1)] with b = 2^(2^-s). A sender that runs out of buckets lowers
//! the scale or widens what counts as zero, so two points are brought to the lower scale and the wider zero before
//! they are subtracted. Scale and offset are whatever the wire has: all arithmetic on them is in 64 bits, and nothing
//! is allocated for buckets that are not there.

use std::borrow::Cow;

use weir_otlp::build::Encoder;
use weir_otlp::metrics::{Buckets as BucketsView, ExponentialHistogramDataPoint};

use crate::value::{Change, Value, both, finite};

/// Two differences are added at a scale at which their buckets are no more than these, or than one of them has alone.
/// SDKs use at most 160.
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
    pub(crate) counts: Box<[u64]>,
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

    /// The same at the scale and the zero threshold of `other`, where those are coarser.
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
            self.zero_count = self.zero_count.saturating_add(buckets.take_up_to(last));
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
        size_of_val(&*self.positive.counts) + size_of_val(&*self.negative.counts)
    }

    pub(crate) fn write(&self, out: &mut Encoder) {
        out.fixed64(4, self.count);
        if let Some(sum) = self.sum {
            out.fixed64(5, sum.to_bits());
        }
        out.sint32(6, self.scale);
        out.fixed64(7, self.zero_count);
        self.positive.write(8, out);
        self.negative.write(9, out);
        out.fixed64(14, self.zero_threshold.to_bits());
    }
}

impl Buckets {
    fn read(view: BucketsView<'_>) -> Self {
        Self { offset: view.offset(), counts: view.bucket_counts().collect() }
    }

    fn start(&self) -> i64 {
        i64::from(self.offset)
    }

    fn end(&self) -> i64 {
        self.start().saturating_add_unsigned(self.counts.len() as u64)
    }

    /// Buckets with something in them, by index.
    fn filled(&self) -> impl Iterator<Item = (i64, u64)> {
        (self.start()..).zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    /// The difference, without empty buckets around it; `None` when a bucket went down.
    fn since(&self, last: &Self) -> Option<Self> {
        let mut counts = self.counts.clone();
        for (index, count) in last.filled() {
            let bucket = counts.get_mut(usize::try_from(index - self.start()).ok()?)?;
            *bucket = bucket.checked_sub(count)?;
        }
        Some(Self { offset: self.offset, counts }.trimmed())
    }

    fn trimmed(self) -> Self {
        let Some(first) = self.counts.iter().position(|count| *count > 0) else { return Self::default() };
        let end = self.counts.iter().rposition(|count| *count > 0).map_or(first, |last| last + 1);
        if first == 0 && end == self.counts.len() {
            return self;
        }
        Self::starting_at(self.start().saturating_add_unsigned(first as u64), self.counts[first..end].into())
    }

    /// Empties the buckets up to index `last` and returns what was in them.
    fn take_up_to(&mut self, last: i64) -> u64 {
        let end = self.start();
        let below = last.saturating_add(1).saturating_sub(end);
        let below = usize::try_from(below).unwrap_or(0).min(self.counts.len());
        self.counts[..below].iter_mut().map(std::mem::take).fold(0, u64::saturating_add)
    }

    /// Lowers the scale by `bits`: as many buckets become one as a number of so many bits can tell apart.
    fn coarser(&self, bits: u32) -> Self {
        let bits = bits.min(63);
        let index = |index: i64| index >> bits;
        let start = index(self.start());
        if self.counts.is_empty() {
            return Self::default();
        }
        let length = usize::try_from(index(self.end() - 1) - start + 1).unwrap_or(0);
        let mut counts = vec![0u64; length].into_boxed_slice();
        for (at, count) in self.filled() {
            if let Some(bucket) = usize::try_from(index(at) - start).ok().and_then(|at| counts.get_mut(at)) {
                *bucket = bucket.saturating_add(count);
            }
        }
        Self::starting_at(start, counts)
    }

    /// Whether one list can reasonably hold both.
    fn are_near(&self, other: &Self) -> bool {
        let length = usize::try_from(self.union(other).1).unwrap_or(usize::MAX);
        length <= BUCKETS.max(self.counts.len()).max(other.counts.len())
    }

    /// First index and number of the buckets that hold both.
    fn union(&self, other: &Self) -> (i64, i64) {
        if self.counts.is_empty() || other.counts.is_empty() {
            let some = if self.counts.is_empty() { other } else { self };
            return (some.start(), some.end() - some.start());
        }
        let start = self.start().min(other.start());
        (start, self.end().max(other.end()) - start)
    }

    fn plus(&self, other: &Self) -> Self {
        let (start, length) = self.union(other);
        let mut counts = vec![0u64; usize::try_from(length).unwrap_or(0)].into_boxed_slice();
        for (index, count) in self.filled().chain(other.filled()) {
            if let Some(bucket) = usize::try_from(index - start).ok().and_then(|at| counts.get_mut(at)) {
                *bucket = bucket.saturating_add(count);
            }
        }
        Self::starting_at(start, counts)
    }

    /// An offset beyond 32 bits, which no bucket of a real number has, becomes the nearest that can be written.
    fn starting_at(start: i64, counts: Box<[u64]>) -> Self {
        let offset = i32::try_from(start).unwrap_or(if start < 0 { i32::MIN } else { i32::MAX });
        Self { offset, counts }
    }

    fn write(&self, number: u32, out: &mut Encoder) {
        if self.counts.is_empty() {
            return;
        }
        let open = out.open(number, 2 * self.counts.len() + 8);
        out.sint32(1, self.offset);
        out.packed_varints(2, &self.counts);
        out.close(open);
    }
}
