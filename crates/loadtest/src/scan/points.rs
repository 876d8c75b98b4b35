//! The samples of `weir load scrape-targets` in an export request of metrics.

use super::Malformed;
use super::fields::{Value, each_bytes, each_field};
use crate::series::{Finding, Labels, Lines, PREFIX};

/// What each point of an encoded request is, in order.
///
/// # Errors
/// The bytes are not a protobuf message of that shape.
pub(crate) fn find_points(request: &[u8]) -> Result<Vec<Finding>, Malformed> {
    let mut findings = Vec::new();
    each_bytes(request, 1, &mut |resource| {
        each_bytes(resource, 2, &mut |scope| each_bytes(scope, 2, &mut |metric| read_metric(metric, &mut findings)))
    })?;
    Ok(findings)
}

/// The field numbers of a type of points.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    attributes: u32,
    flags: u32,
    parts: Parts,
}

/// What a value is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Parts {
    Number,
    Buckets,
    Quantiles,
    /// Such are not on the pages.
    Unknown,
}

fn numbers(data: u32) -> Option<Numbers> {
    Some(match data {
        5 | 7 => Numbers { attributes: 7, flags: 8, parts: Parts::Number },
        9 => Numbers { attributes: 9, flags: 10, parts: Parts::Buckets },
        10 => Numbers { attributes: 1, flags: 10, parts: Parts::Unknown },
        11 => Numbers { attributes: 7, flags: 8, parts: Parts::Quantiles },
        _ => return None,
    })
}

fn read_metric(metric: &[u8], findings: &mut Vec<Finding>) -> Result<(), Malformed> {
    let mut name: &[u8] = &[];
    each_bytes(metric, 1, &mut |bytes| {
        name = bytes;
        Ok(())
    })?;
    let labels = name.starts_with(PREFIX).then(|| Labels::of(name));
    each_field(metric, &mut |field, value| {
        let (Some(numbers), Value::Bytes(data)) = (numbers(field), value) else { return Ok(()) };
        each_bytes(data, 1, &mut |point| {
            findings.push(match labels {
                Some(labels) => read_point(point, numbers, labels)?,
                None => Finding::Foreign,
            });
            Ok(())
        })
    })
}

/// 1: the point says that there is no value.
const ENDED: u64 = 1;

fn read_point(point: &[u8], numbers: Numbers, mut labels: Labels) -> Result<Finding, Malformed> {
    let mut amounts = Amounts::default();
    let mut flags = 0;
    each_field(point, &mut |field, value| match value {
        Value::Bytes(attribute) if field == numbers.attributes => read_attribute(attribute, &mut labels),
        Value::Varint(value) if field == numbers.flags => {
            flags = value;
            Ok(())
        }
        _ => amounts.read(numbers.parts, field, value),
    })?;
    if flags & ENDED != 0 {
        return Ok(Finding::Ended);
    }
    let Some((value, lines)) = amounts.value(numbers.parts) else { return Ok(Finding::Damaged) };
    Ok(labels.sample(value, Lines::All(lines)))
}

/// A key and a value with a text.
fn read_attribute(attribute: &[u8], labels: &mut Labels) -> Result<(), Malformed> {
    let (mut key, mut text): (&[u8], &[u8]) = (&[], &[]);
    each_field(attribute, &mut |field, value| match (field, value) {
        (1, Value::Bytes(bytes)) => {
            key = bytes;
            Ok(())
        }
        (2, Value::Bytes(value)) => each_bytes(value, 1, &mut |bytes| {
            text = bytes;
            Ok(())
        }),
        _ => Ok(()),
    })?;
    labels.add(key, text);
    Ok(())
}

/// The numbers of a point.
#[derive(Debug, Default)]
struct Amounts {
    count: Option<u64>,
    sum: Option<u64>,
    /// Of buckets or quantiles.
    parts: Vec<u64>,
}

impl Amounts {
    fn read(&mut self, parts: Parts, field: u32, value: Value<'_>) -> Result<(), Malformed> {
        match (parts, field, value) {
            (Parts::Number, 4, Value::Fixed64(bits)) => self.count = whole(f64::from_bits(bits)),
            (Parts::Number, 6, Value::Fixed64(number)) | (_, 4, Value::Fixed64(number)) => self.count = Some(number),
            (_, 5, Value::Fixed64(bits)) => self.sum = whole(f64::from_bits(bits)),
            (Parts::Buckets, 6, Value::Bytes(packed)) => {
                let (numbers, _) = packed.as_chunks::<8>();
                self.parts.extend(numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)));
            }
            (Parts::Quantiles, 6, Value::Bytes(quantile)) => each_field(quantile, &mut |field, value| {
                if let (2, Value::Fixed64(bits)) = (field, value) {
                    self.parts.extend(whole(f64::from_bits(bits)));
                }
                Ok(())
            })?,
            _ => (),
        }
        Ok(())
    }

    /// The value that all of them were made of, and how many lines of the page they are.
    fn value(&self, parts: Parts) -> Option<(u64, u32)> {
        let lines = u32::try_from(self.parts.len() + 2).ok()?;
        let (count, sum) = (self.count?, self.sum);
        match parts {
            Parts::Number => Some((count, 1)),
            // The first bucket has everything but one in each of the others.
            Parts::Buckets => {
                let (first, others) = self.parts.split_first()?;
                let fits = sum == Some(*first) && others.iter().all(|&one| one == 1);
                (fits && count == first + others.len() as u64).then_some((*first, lines))
            }
            Parts::Quantiles => {
                let fits = self.parts.iter().zip(count..).all(|(&value, expected)| value == expected);
                (fits && sum == Some(count)).then_some((count, lines))
            }
            Parts::Unknown => None,
        }
    }
}

/// A number without a fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only whole numbers below 2^53 pass")]
pub(super) fn whole(value: f64) -> Option<u64> {
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    (value.fract() == 0.0 && (0.0..LIMIT).contains(&value)).then_some(value as u64)
}

#[cfg(test)]
mod tests;
