//! What is made of metrics that are encoded already: points of series that are gone, and points with exemplars.

use weir_otlp::build::Encoder;
use weir_otlp::common::Message;
use weir_otlp::field::{
    any_value, exemplar, gauge, histogram_data_point, key_value, metric, number_data_point, scope_data, sum,
    summary_data_point,
};

use super::sample::Exemplar;
use super::series::Series;

/// `DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`
const NO_RECORDED_VALUE: u64 = 1;

/// A guess at how long a metric is.
const GUESS: usize = 1 << 10;

/// The numbers of fields of a kind of points.
struct PointFields {
    attributes: u32,
    flags: u32,
    exemplars: Option<u32>,
}

/// Appends points that say that their series are gone. `points`: where the bodies of points begin that these are about,
/// in order.
pub(super) fn append_gone(metrics: &[u8], points: &[usize], time: u64, out: &mut Vec<u8>) {
    let mut encoder = Encoder::default();
    let mut rest = points;
    for metric in Message::request(metrics).messages(scope_data::ITEMS) {
        let end = metric.range().end;
        let count = rest.partition_point(|point| *point < end);
        let (own, others) = rest.split_at(count);
        rest = others;
        if !own.is_empty() {
            gone(&mut encoder, metric, own, time);
        }
    }
    out.extend_from_slice(&encoder.into_bytes());
}

fn gone(out: &mut Encoder, metric: Message<'_>, points: &[usize], time: u64) {
    let open = out.open(scope_data::ITEMS, GUESS);
    for field in metric.fields() {
        let (Some(data), Some(message)) = (fields_of(field.number), metric.inner(&field)) else {
            copy(out, metric, field.start..field.end);
            continue;
        };
        let opened = out.open(field.number, GUESS);
        for inner in message.fields() {
            let Some(point) = message.inner(&inner).filter(|_| inner.number == gauge::DATA_POINTS) else {
                copy(out, message, inner.start..inner.end);
                continue;
            };
            if points.binary_search(&point.range().start).is_ok() {
                gone_point(out, point, &data, time);
            }
        }
        out.close(opened);
    }
    out.close(open);
}

fn gone_point(out: &mut Encoder, point: Message<'_>, fields: &PointFields, time: u64) {
    let open = out.open(gauge::DATA_POINTS, 127);
    out.fixed64(number_data_point::TIME_UNIX_NANO, time);
    for field in point.fields().filter(|field| field.number == fields.attributes) {
        copy(out, point, field.start..field.end);
    }
    out.varint(fields.flags, NO_RECORDED_VALUE);
    out.close(open);
}

/// Copies whole fields of a message.
fn copy(out: &mut Encoder, message: Message<'_>, range: std::ops::Range<usize>) {
    let start = message.range().start;
    out.raw(&message.body()[range.start - start..range.end - start]);
}

/// The fields of the points of a kind of data.
fn fields_of(data: u32) -> Option<PointFields> {
    match data {
        metric::GAUGE | metric::SUM => Some(PointFields {
            attributes: number_data_point::ATTRIBUTES,
            flags: number_data_point::FLAGS,
            exemplars: Some(number_data_point::EXEMPLARS),
        }),
        metric::HISTOGRAM => Some(PointFields {
            attributes: histogram_data_point::ATTRIBUTES,
            flags: histogram_data_point::FLAGS,
            exemplars: Some(histogram_data_point::EXEMPLARS),
        }),
        metric::SUMMARY => Some(PointFields {
            attributes: summary_data_point::ATTRIBUTES,
            flags: summary_data_point::FLAGS,
            exemplars: None,
        }),
        _ => None,
    }
}

/// Appends metrics, with exemplars in the points that have the slots named with them.
pub(super) fn with_exemplars(metrics: &[u8], mut exemplars: Vec<(u32, Exemplar<'_>)>, out: &mut Vec<u8>) {
    if exemplars.is_empty() {
        return out.extend_from_slice(metrics);
    }
    exemplars.sort_by_key(|(slot, _)| *slot);
    let mut encoder = Encoder::with_capacity(metrics.len());
    let mut rest = exemplars.as_slice();
    for metric in Message::request(metrics).messages(scope_data::ITEMS) {
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
        let number = fields_of(field.number).and_then(|fields| fields.exemplars);
        let (Some(number), Some(data)) = (number, metric.inner(&field)) else {
            copy(out, metric, field.start..field.end);
            continue;
        };
        let opened = out.open(field.number, data.body().len() + 1024);
        for inner in data.fields() {
            let range = inner.start..inner.end;
            let own: Vec<&Exemplar<'_>> =
                exemplars.iter().filter(|(slot, _)| range.contains(&(*slot as usize))).map(|(_, own)| own).collect();
            match data.inner(&inner).filter(|_| !own.is_empty() && inner.number == sum::DATA_POINTS) {
                Some(point) => {
                    let opened = out.open(sum::DATA_POINTS, point.body().len() + 127);
                    out.raw(point.body());
                    own.into_iter().for_each(|exemplar| encode(out, number, exemplar));
                    out.close(opened);
                }
                None => copy(out, data, range),
            }
        }
        out.close(opened);
    }
    out.close(open);
}

fn encode(out: &mut Encoder, number: u32, example: &Exemplar<'_>) {
    let mut labels = Series::default();
    let open = out.open(number, 127);
    if let Some(time) = example.time {
        out.fixed64(exemplar::TIME_UNIX_NANO, time);
    }
    out.fixed64(exemplar::AS_DOUBLE, example.value.to_bits());
    if labels.read_labels_alone(example.labels).is_ok() {
        for label in &labels.labels {
            match (label.name.as_ref(), id(&label.value)) {
                (b"trace_id", Some(id)) if id.len() == 16 => out.bytes(exemplar::TRACE_ID, &id),
                (b"span_id", Some(id)) if id.len() == 8 => out.bytes(exemplar::SPAN_ID, &id),
                (name, _) => {
                    let open = out.open(exemplar::FILTERED_ATTRIBUTES, 127);
                    out.bytes(key_value::KEY, name);
                    let value = out.open(key_value::VALUE, 127);
                    out.bytes(any_value::STRING_VALUE, &label.value);
                    out.close(value);
                    out.close(open);
                }
            }
        }
    }
    out.close(open);
}

/// The bytes that a text in hexadecimal digits stands for.
fn id(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    text.len().is_multiple_of(2).then(|| text.chunks_exact(2).map(byte).collect())?
}
