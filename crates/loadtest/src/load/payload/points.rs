//! Data points: a metric of each type that is wanted, and its points.

use clap::ValueEnum;
use prost::encoding::encode_varint;
use serde::{Deserialize, Serialize};

use super::Shape;
use super::writer::{Stamped, Writer};

/// Of which type metrics are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricType {
    /// A value now
    Gauge,
    /// A cumulative counter
    Sum,
    /// Twelve buckets with bounds
    Histogram,
    /// Twenty buckets with a scale
    ExponentialHistogram,
    /// Five quantiles
    Summary,
    /// All five in each request that has as many points
    Mix,
}

/// The types in a mix, in the order of their fields.
const MIX: [MetricType; 5] =
    [MetricType::Gauge, MetricType::Sum, MetricType::Histogram, MetricType::ExponentialHistogram, MetricType::Summary];

const CUMULATIVE: u64 = 2;
const COUNT: u64 = 780;
const SUM: f64 = 1234.5;
const BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

/// Writes `count` points into the metrics of a `ScopeMetrics`.
pub(crate) fn write(scope: &mut Writer, shape: &Shape, kind: MetricType, count: u32) {
    let (kinds, types) = if kind == MetricType::Mix { (&MIX[..], 5) } else { (std::slice::from_ref(&kind), 1) };
    // The first types get what cannot be shared evenly.
    let start = |index: u32| (count * index).div_ceil(types);
    for (index, &kind) in (0..).zip(kinds) {
        let items = start(index)..start(index + 1);
        if !items.is_empty() {
            scope.message(2, |metric| write_metric(metric, shape, kind, items));
        }
    }
}

fn write_metric(metric: &mut Writer, shape: &Shape, kind: MetricType, items: std::ops::Range<u32>) {
    let (name, data_field) = match kind {
        MetricType::Sum => ("load.requests", 7),
        MetricType::Histogram => ("load.duration", 9),
        MetricType::ExponentialHistogram => ("load.size", 10),
        MetricType::Summary => ("load.wait", 11),
        MetricType::Gauge | MetricType::Mix => ("load.usage", 5),
    };
    metric.text(1, name);
    metric.text(3, "1");
    metric.message(data_field, |data| {
        for item in items {
            data.message(1, |point| write_point(point, shape, kind, item));
        }
        if matches!(kind, MetricType::Sum | MetricType::Histogram | MetricType::ExponentialHistogram) {
            data.varint(2, CUMULATIVE);
        }
        if kind == MetricType::Sum {
            data.varint(3, 1);
        }
    });
}

/// Fields in ascending order, as encoders write them.
fn write_point(point: &mut Writer, shape: &Shape, kind: MetricType, item: u32) {
    let attributes = |point: &mut Writer, field| shape.write_attributes(point, field, shape.attributes, item);
    if kind == MetricType::ExponentialHistogram {
        attributes(point, 1);
    }
    point.stamped_fixed64(2, Stamped::StartTime, item);
    point.stamped_fixed64(3, Stamped::Time, item);
    match kind {
        MetricType::Gauge | MetricType::Mix => point.double(4, f64::from(item) + 0.25),
        MetricType::Sum => point.fixed64(6, COUNT + u64::from(item)),
        MetricType::Histogram | MetricType::ExponentialHistogram | MetricType::Summary => {
            point.fixed64(4, COUNT);
            point.double(5, SUM);
        }
    }
    match kind {
        MetricType::Histogram => {
            point.packed_fixed64(6, &[COUNT / 12; 12]);
            point.packed_fixed64(7, &BOUNDS.map(f64::to_bits));
            attributes(point, 9);
            point.double(11, 0.001);
            point.double(12, 42.0);
        }
        MetricType::ExponentialHistogram => write_buckets(point),
        MetricType::Summary => {
            for quantile in QUANTILES {
                point.message(6, |value| {
                    // Protobuf leaves out what is zero.
                    if quantile > 0.0 {
                        value.double(1, quantile);
                    }
                    value.double(2, quantile + 1.0);
                });
            }
            attributes(point, 7);
        }
        MetricType::Gauge | MetricType::Sum | MetricType::Mix => attributes(point, 7),
    }
}

/// Twenty positive buckets of one size at scale 3.
fn write_buckets(point: &mut Writer) {
    let zigzag = |value: u64| value << 1;
    point.varint(6, zigzag(3));
    point.message(8, |buckets| {
        buckets.varint(1, zigzag(4));
        let mut counts = Vec::new();
        for _ in 0..20 {
            encode_varint(COUNT / 20, &mut counts);
        }
        buckets.header(2, counts.len());
        buckets.bytes.extend_from_slice(&counts);
    });
    point.double(12, 1.5);
    point.double(13, 9.0);
}

impl MetricType {
    /// As it is typed.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
