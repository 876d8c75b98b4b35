//! Staleness markers: data points without a value that say that their series are gone. They are made of metrics that are
//! encoded already.

use std::mem;

use weir_otlp::build::Encoder;
use weir_otlp::common::Message;
use weir_otlp::field::{
    exponential_histogram_data_point, gauge, histogram_data_point, metric, number_data_point, scope_data,
    summary_data_point,
};

use super::home::Follower;
use super::previous::PreviousPoint;
use crate::encoding::copy_fields;

/// `DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`
pub(super) const NO_RECORDED_VALUE: u64 = 1;

/// A guess at how long a metric is.
const GUESS: usize = 1 << 10;

/// The numbers of fields of a kind of points.
struct PointFields {
    attributes: u32,
    flags: u32,
    /// Bytes behind the points: the temporality and, of sums, whether they are monotonic.
    after_points: usize,
}

/// Appends a staleness marker for each of these points of the metrics, which are in order.
pub(super) fn append_stale(metrics: &[u8], points: &[PreviousPoint<'_>], time: u64, out: &mut Vec<u8>) {
    out.reserve_exact(points.iter().map(|point| point.field.len()).sum());
    let mut encoder = Encoder::from(mem::take(out));
    let mut homes = Follower::new(metrics);
    let mut rest = points;
    let all = Message::request(metrics);
    for field in all.fields() {
        let Some(metric) = all.inner(&field).filter(|_| field.number == scope_data::ITEMS) else {
            homes.pass(&field);
            continue;
        };
        let end = metric.range().end;
        let count = rest.partition_point(|point| point.start < end);
        let (own, others) = rest.split_at(count);
        rest = others;
        if !own.is_empty() {
            homes.write(&mut encoder);
            stale_metric(&mut encoder, metric, own, time);
        }
    }
    homes.end(&mut encoder);
    *out = encoder.into_bytes();
}

fn stale_metric(out: &mut Encoder, metric: Message<'_>, points: &[PreviousPoint<'_>], time: u64) {
    let open = out.open(scope_data::ITEMS, GUESS);
    for field in metric.fields() {
        let (Some(data), Some(message)) = (fields_of(field.number), metric.inner(&field)) else {
            copy_fields(out, metric, field.start..field.end);
            continue;
        };
        let opened = out.open(field.number, GUESS);
        for point in points.iter().flat_map(|point| Message::request(point.field).messages(gauge::DATA_POINTS)) {
            marker(out, point, &data, time);
        }
        out.raw(&message.body()[message.body().len() - data.after_points..]);
        out.close(opened);
    }
    out.close(open);
}

fn marker(out: &mut Encoder, point: Message<'_>, fields: &PointFields, time: u64) {
    let open = out.open(gauge::DATA_POINTS, 127);
    out.fixed64(number_data_point::TIME_UNIX_NANO, time);
    out.varint(fields.flags, NO_RECORDED_VALUE);
    // They stand behind all others.
    if let Some(first) = point.fields().find(|field| field.number == fields.attributes) {
        copy_fields(out, point, first.start..point.range().end);
    }
    out.close(open);
}

/// The fields of the points of a kind of data.
fn fields_of(data: u32) -> Option<PointFields> {
    match data {
        metric::GAUGE | metric::SUM => Some(PointFields {
            attributes: number_data_point::ATTRIBUTES,
            flags: number_data_point::FLAGS,
            after_points: if data == metric::SUM { 4 } else { 0 },
        }),
        metric::HISTOGRAM => Some(PointFields {
            attributes: histogram_data_point::ATTRIBUTES,
            flags: histogram_data_point::FLAGS,
            after_points: 2,
        }),
        metric::EXPONENTIAL_HISTOGRAM => Some(PointFields {
            attributes: exponential_histogram_data_point::ATTRIBUTES,
            flags: exponential_histogram_data_point::FLAGS,
            after_points: 2,
        }),
        metric::SUMMARY => Some(PointFields {
            attributes: summary_data_point::ATTRIBUTES,
            flags: summary_data_point::FLAGS,
            after_points: 0,
        }),
        _ => None,
    }
}
