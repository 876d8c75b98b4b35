//! What the messages of a page say. They were checked before.

use std::borrow::Cow;

use weir_otlp::common::Message;
use weir_otlp::cursor::{Value, unzigzag};

use super::BadFamily;
use super::field::{bucket, family, histogram, label, metric, summary, timestamp};
use super::native::{BadBuckets, Side, rounded};
use crate::scrape::series::{BadSeries, Label, MOST_LABELS, has_repeated};

/// The schemas of native histograms whose bounds are powers.
const SCHEMAS: std::ops::RangeInclusive<i32> = -4..=8;

/// What a family of metrics is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FamilyType {
    Counter,
    Gauge,
    Summary,
    Untyped,
    Histogram,
    GaugeHistogram,
}

/// What is the same for all metrics of a family.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family<'p> {
    pub(super) name: &'p str,
    pub(super) help: &'p str,
    pub(super) unit: &'p str,
    pub(super) family_type: FamilyType,
    message: Message<'p>,
}

/// A histogram of any kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Histogram<'p> {
    pub(super) message: Message<'p>,
    pub(super) count: u64,
    pub(super) sum: Option<f64>,
    pub(super) zero_threshold: f64,
    pub(super) zero_count: u64,
    pub(super) schema: i32,
    /// Its counts may have fractions.
    pub(super) is_float: bool,
    /// Whether there is what only native histograms have.
    has_native_part: bool,
    /// How many buckets with bounds there are.
    pub(super) buckets: usize,
}

impl<'p> Family<'p> {
    /// Reads what stands before the metrics of a family.
    pub(super) fn read(body: &'p [u8]) -> Result<Self, BadFamily> {
        let message = Message::request(body);
        let family_type = match message.varint(family::TYPE) {
            0 => FamilyType::Counter,
            1 => FamilyType::Gauge,
            2 => FamilyType::Summary,
            3 => FamilyType::Untyped,
            4 => FamilyType::Histogram,
            5 => FamilyType::GaugeHistogram,
            other => return Err(BadFamily::Type(other)),
        };
        let [name, help, unit] = [family::NAME, family::HELP, family::UNIT].map(|number| message.string(number));
        if name.is_empty() { Err(BadFamily::NoName) } else { Ok(Self { name, help, unit, family_type, message }) }
    }

    /// Its metrics, each with what its value is in.
    pub(super) fn metrics(&self) -> impl Iterator<Item = Result<(Message<'p>, Message<'p>), BadFamily>> + use<'p> {
        let number = match self.family_type {
            FamilyType::Counter => metric::COUNTER,
            FamilyType::Gauge => metric::GAUGE,
            FamilyType::Summary => metric::SUMMARY,
            FamilyType::Untyped => metric::UNTYPED,
            FamilyType::Histogram | FamilyType::GaugeHistogram => metric::HISTOGRAM,
        };
        let with_value = move |metric: Message<'p>| Ok((metric, metric.message(number).ok_or(BadFamily::NoValue)?));
        self.message.messages(family::METRICS).map(with_value)
    }
}

impl<'p> Histogram<'p> {
    pub(super) fn read(message: Message<'p>) -> Self {
        let mut read = Self {
            message,
            count: 0,
            sum: None,
            zero_threshold: 0.0,
            zero_count: 0,
            schema: 0,
            is_float: false,
            has_native_part: false,
            buckets: 0,
        };
        let (mut count_float, mut zero_count_float) = (0.0, 0.0);
        for field in message.fields() {
            match (field.number, field.value) {
                (histogram::COUNT, Value::Varint(count)) => read.count = count,
                (histogram::COUNT_FLOAT, Value::Fixed64(bits)) => count_float = f64::from_bits(bits),
                (histogram::SUM, Value::Fixed64(bits)) => read.sum = Some(f64::from_bits(bits)),
                (histogram::BUCKETS, _) => read.buckets += 1,
                (histogram::SCHEMA, Value::Varint(schema)) => read.schema = unzigzag(schema),
                (histogram::ZERO_THRESHOLD, Value::Fixed64(bits)) => read.zero_threshold = f64::from_bits(bits),
                (histogram::ZERO_COUNT, Value::Varint(count)) => read.zero_count = count,
                (histogram::ZERO_COUNT_FLOAT, Value::Fixed64(bits)) => zero_count_float = f64::from_bits(bits),
                (histogram::POSITIVE_SPANS | histogram::NEGATIVE_SPANS, _) => read.has_native_part = true,
                _ => {}
            }
        }
        read.is_float = count_float > 0.0 || zero_count_float > 0.0;
        if count_float > 0.0 {
            read.count = rounded(count_float);
        }
        if zero_count_float > 0.0 {
            read.zero_count = rounded(zero_count_float);
        }
        read.has_native_part |= read.zero_threshold > 0.0 || read.zero_count > 0;
        read
    }

    /// Whether it is taken for a native one. One with both kinds of buckets is, unless its schema is not known.
    pub(super) fn is_native(&self) -> Result<bool, BadFamily> {
        match (self.has_native_part, SCHEMAS.contains(&self.schema), self.buckets) {
            (true, false, 0) => Err(BadFamily::Schema(self.schema)),
            (has_native_part, is_known, _) => Ok(has_native_part && is_known),
        }
    }

    pub(super) fn created(&self) -> Option<u64> {
        time(self.message, histogram::CREATED)
    }

    /// How many buckets both sides have, with those between spans.
    pub(super) fn native_buckets(&self) -> Result<usize, BadBuckets> {
        Ok(Side::Positive.count(self.message)? + Side::Negative.count(self.message)?)
    }

    /// The bounds of its buckets, in order, and how many values are below or at each of them.
    pub(super) fn bounds(&self) -> Vec<(f64, u64)> {
        let bound = |message: Message<'_>| {
            let float = f64::from_bits(message.fixed64(bucket::COUNT_FLOAT));
            let count = if float > 0.0 { rounded(float) } else { message.varint(bucket::COUNT) };
            (f64::from_bits(message.fixed64(bucket::UPPER_BOUND)), count)
        };
        let mut bounds: Vec<_> = self.message.messages(histogram::BUCKETS).map(bound).collect();
        bounds.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        bounds.dedup_by_key(|(bound, _)| bound.to_bits());
        bounds
    }

    /// Its exemplars, which are those of its buckets unless it has some for all of them.
    pub(super) fn exemplars(&self) -> impl Iterator<Item = Message<'p>> + use<'p> {
        let of_bucket = |message: Message<'p>| message.message(bucket::EXEMPLAR);
        let own = || self.message.messages(histogram::EXEMPLARS);
        let has_own = own().next().is_some();
        let of_buckets = self.message.messages(histogram::BUCKETS).filter_map(of_bucket).filter(move |_| !has_own);
        own().chain(of_buckets)
    }
}

/// How many samples Prometheus counts in a metric. `value`: what its value is in.
pub(super) fn samples(family_type: FamilyType, value: Message<'_>) -> Result<usize, BadFamily> {
    match family_type {
        FamilyType::Counter | FamilyType::Gauge | FamilyType::Untyped => Ok(1),
        // Two are the sum and the count.
        FamilyType::Summary => Ok(value.messages(summary::QUANTILES).count() + 2),
        FamilyType::Histogram | FamilyType::GaugeHistogram => {
            let read = Histogram::read(value);
            if read.is_native()? {
                // Of a native gauge histogram, the sum and the count are taken.
                return Ok(if family_type == FamilyType::Histogram { 1 } else { 2 });
            }
            let is_infinite = |message: Message<'_>| message.fixed64(bucket::UPPER_BOUND) == f64::INFINITY.to_bits();
            let has_last = value.messages(histogram::BUCKETS).any(is_infinite);
            Ok(read.buckets + usize::from(!has_last) + 2)
        }
    }
}

/// Reads the labels in this field. `labels` has them afterwards.
pub(super) fn read_labels<'p>(message: Message<'p>, number: u32, labels: &mut Vec<Label<'p>>) -> Result<(), BadSeries> {
    labels.clear();
    for pair in message.messages(number) {
        let (name, value) = (pair.bytes_field(label::NAME), pair.bytes_field(label::VALUE));
        if name.is_empty() {
            return Err(BadSeries::NoLabelName);
        }
        if labels.len() == MOST_LABELS {
            return Err(BadSeries::TooManyLabels);
        }
        if !value.is_empty() {
            labels.push(Label { name: Cow::Borrowed(name), value: Cow::Borrowed(value) });
        }
    }
    if has_repeated(labels) { Err(BadSeries::Repeated) } else { Ok(()) }
}

/// The time in this field, in nanoseconds since the epoch. One before the epoch, or in more than five centuries, is
/// none.
pub(super) fn time(message: Message<'_>, number: u32) -> Option<u64> {
    let time = message.message(number)?;
    let (seconds, nanos) = (time.varint(timestamp::SECONDS), time.varint(timestamp::NANOS));
    let nanos = Some(nanos).filter(|nanos| *nanos < 1_000_000_000)?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos).filter(|time| *time > 0)
}
