//! The counts of a histogram with explicit bounds.
//!
//! The bounds themselves are not kept, only a hash of them: a delta has those of its point. Bounds and counts need not
//! fit one another, and there need not be any; what is demanded is that two points have the same.

use twox_hash::XxHash3_64;
use weir_otlp::build::Encoder;
use weir_otlp::field::histogram_data_point as point;
use weir_otlp::metrics::HistogramDataPoint;

use crate::packed::Packed;
use crate::value::{Change, Value, both, finite};

/// `HistogramDataPoint`, as far as it can be subtracted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Histogram {
    pub(crate) count: u64,
    pub(crate) sum: Option<f64>,
    /// Hash of the explicit bounds.
    pub(crate) bounds: u64,
    /// Values per bucket.
    pub(crate) counts: Packed,
}

impl Histogram {
    pub(crate) fn read(point: HistogramDataPoint<'_>) -> Self {
        let hash = |hash, bound: f64| XxHash3_64::oneshot_with_seed(hash, &bound.to_bits().to_le_bytes());
        Self {
            count: point.count(),
            sum: finite(point.sum()),
            bounds: point.explicit_bounds().fold(0, hash),
            counts: point.bucket_counts().collect(),
        }
    }

    fn matches(&self, other: &Self) -> bool {
        self.bounds == other.bounds && self.counts.len() == other.counts.len()
    }

    pub(crate) fn since(&self, last: &Self) -> Change {
        if !self.matches(last) {
            return Change::Mismatch;
        }
        let Some(count) = self.count.checked_sub(last.count) else { return Change::Reset };
        let buckets = self.counts.iter().zip(last.counts.iter()).map(|(value, last)| value.checked_sub(last));
        // The count grew and a bucket did not: these are not the same values, and some more.
        let Some(counts) = buckets.collect() else { return Change::Mismatch };
        let sum = both(self.sum, last.sum, |value, last| value - last);
        Change::Delta(Value::Histogram(Box::new(Self { count, sum, bounds: self.bounds, counts })))
    }

    #[must_use]
    pub(crate) fn add(&mut self, other: &Self) -> bool {
        if !self.matches(other) {
            return false;
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = both(self.sum, other.sum, |value, other| value + other);
        let buckets = self.counts.iter().zip(other.counts.iter());
        self.counts = buckets.map(|(value, other)| value.saturating_add(other)).collect();
        true
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.counts.bytes().len()
    }

    pub(crate) fn write(&self, out: &mut Encoder) {
        out.fixed64(point::COUNT, self.count);
        if let Some(sum) = self.sum {
            out.fixed64(point::SUM, sum.to_bits());
        }
        if !self.counts.is_empty() {
            let open = out.open(point::BUCKET_COUNTS, 8 * self.counts.len());
            self.counts.iter().for_each(|count| out.raw(&count.to_le_bytes()));
            out.close(open);
        }
    }
}
