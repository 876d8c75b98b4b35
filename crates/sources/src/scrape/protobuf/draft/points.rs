//! Writes the points of each shape.

use weir_otlp::common::Message;
use weir_otlp::field::{
    buckets, exponential_histogram_data_point as exponential_point, gauge, histogram_data_point as histogram_point,
    number_data_point as number_point, summary_data_point as summary_point, value_at_quantile,
};

use super::{Draft, GUESS, Sample};
use crate::scrape::exemplars::encode_exemplar;
use crate::scrape::protobuf::BadFamily;
use crate::scrape::protobuf::field::{exemplar, number, quantile, summary};
use crate::scrape::protobuf::message::{Histogram, read_labels, time};
use crate::scrape::protobuf::native::Side;
use crate::scrape::protobuf::series;
use crate::scrape::protobuf::shape::Shape;

impl<'p> Draft<'p, '_> {
    pub(super) fn number(&mut self, sample: &Sample<'p>) -> Result<(), BadFamily> {
        let is_counter = sample.shape == Shape::Counter;
        let value = f64::from_bits(sample.value.fixed64(number::VALUE));
        let created = time(sample.value, number::CREATED);
        let Some(start) = self.add(sample, number_point::ATTRIBUTES, (value, created))? else { return Ok(()) };
        let point = self.out.open(gauge::DATA_POINTS, 127);
        if is_counter {
            self.out.fixed64(number_point::START_TIME_UNIX_NANO, start);
        }
        self.out.fixed64(number_point::TIME_UNIX_NANO, sample.time);
        self.out.fixed64(number_point::AS_DOUBLE, value.to_bits());
        if let Some(exemplar) = sample.value.message(number::EXEMPLAR).filter(|_| is_counter) {
            self.exemplar(number_point::EXEMPLARS, exemplar, sample.time)?;
        }
        self.out.raw(self.attributes.written());
        self.out.close(point);
        Ok(())
    }

    pub(super) fn summary(&mut self, sample: &Sample<'p>) -> Result<(), BadFamily> {
        let count = sample.value.varint(summary::COUNT);
        let created = time(sample.value, summary::CREATED);
        let Some(start) = self.add(sample, summary_point::ATTRIBUTES, (approximate(count), created))? else {
            return Ok(());
        };
        let point = self.out.open(gauge::DATA_POINTS, GUESS);
        self.out.fixed64(summary_point::START_TIME_UNIX_NANO, start);
        self.out.fixed64(summary_point::TIME_UNIX_NANO, sample.time);
        self.out.fixed64(summary_point::COUNT, count);
        self.out.fixed64(summary_point::SUM, sample.value.fixed64(summary::SUM));
        for message in sample.value.messages(summary::QUANTILES) {
            let value = self.out.open(summary_point::QUANTILE_VALUES, 127);
            self.out.fixed64(value_at_quantile::QUANTILE, message.fixed64(quantile::QUANTILE));
            self.out.fixed64(value_at_quantile::VALUE, message.fixed64(quantile::VALUE));
            self.out.close(value);
        }
        self.out.raw(self.attributes.written());
        self.out.close(point);
        Ok(())
    }

    pub(super) fn explicit(&mut self, sample: &Sample<'p>, histogram: &Histogram<'p>) -> Result<(), BadFamily> {
        let state = (approximate(histogram.count), histogram.created());
        let Some(start) = self.add(sample, histogram_point::ATTRIBUTES, state)? else { return Ok(()) };
        let mut bounds = histogram.bounds();
        let last = bounds.pop_if(|(bound, _)| *bound == f64::INFINITY).map_or(histogram.count, |(_, count)| count);
        let point = self.out.open(gauge::DATA_POINTS, GUESS);
        self.out.fixed64(histogram_point::START_TIME_UNIX_NANO, start);
        self.out.fixed64(histogram_point::TIME_UNIX_NANO, sample.time);
        self.out.fixed64(histogram_point::COUNT, histogram.count);
        if let Some(sum) = histogram.sum {
            self.out.fixed64(histogram_point::SUM, sum.to_bits());
        }
        self.out.header(histogram_point::BUCKET_COUNTS, 8 * (bounds.len() + 1));
        let mut below = 0;
        for count in bounds.iter().map(|(_, count)| *count).chain([last]) {
            // On the page, a bucket has what those before it have as well.
            self.out.raw(&count.saturating_sub(below).to_le_bytes());
            below = count;
        }
        self.out.header(histogram_point::EXPLICIT_BOUNDS, 8 * bounds.len());
        bounds.iter().for_each(|(bound, _)| self.out.raw(&bound.to_le_bytes()));
        histogram
            .exemplars()
            .try_for_each(|exemplar| self.exemplar(histogram_point::EXEMPLARS, exemplar, sample.time))?;
        self.out.raw(self.attributes.written());
        self.out.close(point);
        Ok(())
    }

    pub(super) fn exponential(&mut self, sample: &Sample<'p>, histogram: &Histogram<'p>) -> Result<(), BadFamily> {
        let state = (approximate(histogram.count), histogram.created());
        let Some(start) = self.add(sample, exponential_point::ATTRIBUTES, state)? else { return Ok(()) };
        let point = self.out.open(gauge::DATA_POINTS, GUESS);
        self.out.fixed64(exponential_point::START_TIME_UNIX_NANO, start);
        self.out.fixed64(exponential_point::TIME_UNIX_NANO, sample.time);
        self.out.fixed64(exponential_point::COUNT, histogram.count);
        if let Some(sum) = histogram.sum {
            self.out.fixed64(exponential_point::SUM, sum.to_bits());
        }
        self.out.sint32(exponential_point::SCALE, histogram.schema);
        self.out.fixed64(exponential_point::ZERO_COUNT, histogram.zero_count);
        self.out.fixed64(exponential_point::ZERO_THRESHOLD, histogram.zero_threshold.to_bits());
        for (number, side) in
            [(exponential_point::POSITIVE, Side::Positive), (exponential_point::NEGATIVE, Side::Negative)]
        {
            let read = side.buckets(histogram.message, histogram.is_float)?;
            if !read.counts.is_empty() {
                let side = self.out.open(number, GUESS);
                self.out.sint32(buckets::OFFSET, read.offset);
                let counts = self.out.open(buckets::BUCKET_COUNTS, GUESS);
                read.counts.iter().for_each(|count| self.out.element(*count));
                self.out.close(counts);
                self.out.close(side);
            }
        }
        histogram
            .exemplars()
            .try_for_each(|exemplar| self.exemplar(exponential_point::EXEMPLARS, exemplar, sample.time))?;
        self.out.raw(self.attributes.written());
        self.out.close(point);
        Ok(())
    }

    /// Writes a gauge histogram, or the part of it that has this shape.
    pub(super) fn gauges(&mut self, sample: &Sample<'p>) -> Result<(), BadFamily> {
        let histogram = Histogram::read(sample.value);
        let sample = &Sample { samples: 1, ..*sample };
        match sample.shape {
            Shape::GaugeSum => histogram.sum.map_or(Ok(()), |sum| self.gauge(sample, None, sum)),
            Shape::GaugeCount => self.gauge(sample, None, approximate(histogram.count)),
            _ if histogram.is_native()? => Ok(()),
            _ => {
                let buckets = series::gauge_buckets(&histogram);
                buckets.iter().try_for_each(|(bound, count)| self.gauge(sample, Some(*bound), approximate(*count)))
            }
        }
    }

    fn gauge(&mut self, sample: &Sample<'p>, bound: Option<f64>, value: f64) -> Result<(), BadFamily> {
        self.read_series(sample)?;
        if let Some(bound) = bound {
            series::set_bound(&mut self.series, bound);
        }
        if self.add_series(sample, number_point::ATTRIBUTES, (value, None))?.is_some() {
            let point = self.out.open(gauge::DATA_POINTS, 127);
            self.out.fixed64(number_point::TIME_UNIX_NANO, sample.time);
            self.out.fixed64(number_point::AS_DOUBLE, value.to_bits());
            self.out.raw(self.attributes.written());
            self.out.close(point);
        }
        Ok(())
    }

    /// Writes an exemplar. Without a time, it has that of its sample.
    fn exemplar(&mut self, number: u32, message: Message<'p>, sampled: u64) -> Result<(), BadFamily> {
        read_labels(message, exemplar::LABELS, &mut self.series.labels)?;
        let value = f64::from_bits(message.fixed64(exemplar::VALUE));
        let time = time(message, exemplar::TIMESTAMP).unwrap_or(sampled);
        encode_exemplar(&mut self.out, number, (value, Some(time)), &self.series.labels);
        Ok(())
    }
}

/// A count as a number that may have a fraction.
fn approximate(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "it is compared with another one, or a gauge")]
    let count = count as f64;
    count
}
