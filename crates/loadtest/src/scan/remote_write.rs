//! The samples of `weir load scrape-targets` in a request of Prometheus's remote write 1.0.
//!
//! There each line of a page is a series of its own: of a histogram its buckets, sum and count. What tells them apart is
//! not part of the digest, as on the page, and neither are the labels that agents add.

use super::fields::{Value, each_bytes, each_field};
use super::points::whole;
use super::{Malformed, Scan};
use crate::series::{BOUNDS, Finding, Labels, Lines, PREFIX, Part, QUANTILES};

/// The value that says that a series has ended.
const ENDED: u64 = 0x7ff0_0000_0000_0002;
const NAME: &[u8] = b"__name__";
/// What agents say of the target.
const ADDED: [&[u8]; 2] = [b"instance", b"job"];
const NANOS_PER_MILLI: u64 = 1_000_000;

/// Walks a write request. What each sample is, is found out when somebody `wants` to know.
///
/// # Errors
/// The bytes are not a protobuf message of that shape.
pub(crate) fn scan(request: &[u8], wants: bool) -> Result<Scan, Malformed> {
    let mut scan = Scan::default();
    each_bytes(request, 1, &mut |series| {
        let line = if wants { Some(Line::read(series)?) } else { None };
        each_bytes(series, 2, &mut |sample| {
            let (bits, millis) = read_sample(sample)?;
            scan.add(0, millis.saturating_mul(NANOS_PER_MILLI));
            scan.samples.extend(line.as_ref().map(|line| line.find(bits)));
            Ok(())
        })
    })?;
    Ok(scan)
}

/// The bits of a value, and its time. What is zero is not written.
fn read_sample(sample: &[u8]) -> Result<(u64, u64), Malformed> {
    let (mut bits, mut millis) = (0, 0);
    each_field(sample, &mut |field, value| {
        match (field, value) {
            (1, Value::Fixed64(value)) => bits = value,
            (2, Value::Varint(value)) => millis = value,
            _ => (),
        }
        Ok(())
    })?;
    Ok((bits, millis))
}

/// A series: a line of pages.
enum Line {
    /// Of somebody else.
    Foreign,
    /// It is called like one of the generator, which has no such line.
    Damaged,
    Ours {
        labels: Labels,
        part: Part,
        /// What the generator adds to the value on this line.
        added: u64,
    },
}

impl Line {
    fn read(series: &[u8]) -> Result<Self, Malformed> {
        let (mut name, mut bound, mut quantile): (&[u8], _, _) = (&[], None, None);
        let mut labels = Labels::default();
        each_bytes(series, 1, &mut |label| {
            let (key, value) = read_label(label)?;
            match key {
                NAME => name = value,
                b"le" => bound = Some(value),
                b"quantile" => quantile = Some(value),
                key if ADDED.contains(&key) => (),
                key => labels.add(key, value),
            }
            Ok(())
        })?;
        if !name.starts_with(PREFIX) {
            return Ok(Self::Foreign);
        }
        Ok(match place(name, bound, quantile) {
            Some((base, part, added)) => Self::Ours { labels: labels.named(base), part, added },
            None => Self::Damaged,
        })
    }

    /// What a sample of it is.
    fn find(&self, bits: u64) -> Finding {
        let (labels, part, added) = match *self {
            Self::Foreign => return Finding::Foreign,
            Self::Damaged | Self::Ours { .. } if bits == ENDED => return Finding::Ended,
            Self::Damaged => return Finding::Damaged,
            Self::Ours { labels, part, added } => (labels, part, added),
        };
        let value = whole(f64::from_bits(bits)).and_then(|value| value.checked_sub(added));
        value.map_or(Finding::Damaged, |value| labels.sample(value, Lines::One(part)))
    }
}

fn read_label(label: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut key, mut text): (&[u8], &[u8]) = (&[], &[]);
    each_field(label, &mut |field, value| {
        match (field, value) {
            (1, Value::Bytes(bytes)) => key = bytes,
            (2, Value::Bytes(bytes)) => text = bytes,
            _ => (),
        }
        Ok(())
    })?;
    Ok((key, text))
}

/// What the metric of a line is called, which of its lines this is, and what is added to its value.
fn place<'a>(name: &'a [u8], bound: Option<&[u8]>, quantile: Option<&[u8]>) -> Option<(&'a [u8], Part, u64)> {
    let of_type = name.strip_prefix(PREFIX)?;
    let (is_histogram, is_summary) = (of_type.starts_with(b"histogram_"), of_type.starts_with(b"summary_"));
    let in_count = if is_histogram { BOUNDS.len() as u64 - 1 } else { 0 };
    match (bound, quantile) {
        (Some(bound), None) if is_histogram => {
            let index = index_of(&BOUNDS, bound)?;
            Some((name.strip_suffix(b"_bucket")?, Part::At(index), index.into()))
        }
        (None, Some(quantile)) if is_summary => {
            index_of(&QUANTILES, quantile).map(|index| (name, Part::At(index), index.into()))
        }
        (None, None) if is_histogram || is_summary => match name.strip_suffix(b"_sum") {
            Some(base) => Some((base, Part::Sum, 0)),
            None => Some((name.strip_suffix(b"_count")?, Part::Count, in_count)),
        },
        (None, None) => Some((name, Part::At(0), 0)),
        _ => None,
    }
}

/// Which of these numbers it is. Prometheus writes 1 as 1.0.
fn index_of(numbers: &[&str], text: &[u8]) -> Option<u8> {
    let text = text.strip_suffix(b".0").unwrap_or(text);
    let index = numbers.iter().position(|number| number.as_bytes() == text)?;
    u8::try_from(index).ok()
}

#[cfg(test)]
mod tests;
