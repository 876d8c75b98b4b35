//! Exemplars, and how they come into data points that are encoded already.

use weir_otlp::build::Encoder;
use weir_otlp::common::Message;
use weir_otlp::field::{
    exemplar, exponential_histogram_data_point, histogram_data_point, metric, number_data_point, scope_data, sum,
};

use super::sample::Exemplar;
use super::series::{Label, Series};
use crate::encoding::{attribute, copy_fields};

/// Appends metrics, with exemplars in the points that have the slots named with them.
pub(super) fn with_exemplars(metrics: &[u8], mut exemplars: Vec<(u32, Exemplar<'_>)>, out: &mut Vec<u8>) {
    if exemplars.is_empty() {
        return out.extend_from_slice(metrics);
    }
    exemplars.sort_by_key(|(slot, _)| *slot);
    let mut encoder = Encoder::with_capacity(metrics.len());
    let mut rest = exemplars.as_slice();
    let all = Message::request(metrics);
    for field in all.fields() {
        let Some(metric) = all.inner(&field).filter(|_| field.number == scope_data::ITEMS) else {
            encoder.raw(&metrics[field.start..field.end]);
            continue;
        };
        let end = metric.range().end;
        let count = rest.partition_point(|(slot, _)| (*slot as usize) < end);
        let (own, others) = rest.split_at(count);
        rest = others;
        if own.is_empty() {
            encoder.raw(&metrics[metric.field_range()]);
        } else {
            with_own(&mut encoder, metric, own);
        }
    }
    out.extend_from_slice(&encoder.into_bytes());
}

fn with_own(out: &mut Encoder, metric: Message<'_>, exemplars: &[(u32, Exemplar<'_>)]) {
    let open = out.open(scope_data::ITEMS, metric.body().len() + 1024);
    for field in metric.fields() {
        let number = exemplars_of(field.number);
        let (Some(number), Some(data)) = (number, metric.inner(&field)) else {
            copy_fields(out, metric, field.start..field.end);
            continue;
        };
        let opened = out.open(field.number, data.body().len() + 1024);
        // Both points and slots are in order.
        let mut rest = exemplars;
        for inner in data.fields() {
            let range = inner.start..inner.end;
            let before = rest.iter().take_while(|(slot, _)| (*slot as usize) < range.start).count();
            let count = rest[before..].iter().take_while(|(slot, _)| (*slot as usize) < range.end).count();
            let (own, others) = rest[before..].split_at(count);
            rest = others;
            match data.inner(&inner).filter(|_| !own.is_empty() && inner.number == sum::DATA_POINTS) {
                Some(point) => {
                    let opened = out.open(sum::DATA_POINTS, point.body().len() + 127);
                    out.raw(point.body());
                    own.iter().for_each(|(_, exemplar)| encode(out, number, exemplar));
                    out.close(opened);
                }
                None => copy_fields(out, data, range),
            }
        }
        out.close(opened);
    }
    out.close(open);
}

/// The field of the points of a kind of data that their exemplars are in.
fn exemplars_of(data: u32) -> Option<u32> {
    match data {
        metric::GAUGE | metric::SUM => Some(number_data_point::EXEMPLARS),
        metric::HISTOGRAM => Some(histogram_data_point::EXEMPLARS),
        metric::EXPONENTIAL_HISTOGRAM => Some(exponential_histogram_data_point::EXEMPLARS),
        _ => None,
    }
}

fn encode(out: &mut Encoder, number: u32, example: &Exemplar<'_>) {
    let mut labels = Series::default();
    let is_read = labels.read_labels_alone(example.labels).is_ok();
    let labels = if is_read { labels.labels.as_slice() } else { &[] };
    encode_exemplar(out, number, (example.value, example.time), labels);
}

/// Encodes an exemplar with this value, time and labels.
pub(super) fn encode_exemplar(out: &mut Encoder, number: u32, (value, time): (f64, Option<u64>), labels: &[Label<'_>]) {
    let open = out.open(number, 127);
    if let Some(time) = time {
        out.fixed64(exemplar::TIME_UNIX_NANO, time);
    }
    out.fixed64(exemplar::AS_DOUBLE, value.to_bits());
    for label in labels {
        let is_named = |name: &[u8]| label.name.eq_ignore_ascii_case(name);
        match (id::<16>(&label.value), id::<8>(&label.value)) {
            (Some(id), _) if is_named(b"trace_id") => out.bytes(exemplar::TRACE_ID, &id),
            (_, Some(id)) if is_named(b"span_id") => out.bytes(exemplar::SPAN_ID, &id),
            _ => attribute(out, exemplar::FILTERED_ATTRIBUTES, &label.name, &label.value),
        }
    }
    out.close(open);
}

/// The bytes that a text in hexadecimal digits stands for. A shorter id has zeros before it.
fn id<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut id = [0; N];
    let start = N.checked_sub(text.len() / 2).filter(|_| text.len().is_multiple_of(2))?;
    for (byte, pair) in id[start..].iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(id)
}
