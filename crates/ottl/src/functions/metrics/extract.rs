//! Sums, counts and quantiles as metrics of their own.

use weir_otlp::build::Encoder;
use weir_otlp::field::{sum, summary_data_point, value_at_quantile};

use super::point::{AS_DOUBLE, AS_INT, COUNT, NUMBER_ATTRIBUTES, Point, SUM, number_point};
use super::{GAUGE, SUMMARY, is_monotonic, temporality};
use crate::context::{Level, PointKind};
use crate::draft::Scalar;
use crate::program::Arguments;
use crate::scene::{Scene, metrics};
use crate::value::{Failure, Value, wire};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`
const CUMULATIVE: u64 = 2;
/// Number of the quantiles of a `SummaryDataPoint`.
const QUANTILES: u32 = summary_data_point::QUANTILE_VALUES;

/// Name, description and unit of the current metric.
pub(super) fn texts(scene: &mut Scene<'_>) -> [String; 3] {
    [1, 2, 3].map(|number| match scene.draft(Level::Item).scalar(number) {
        Some(Scalar::Len(text)) => String::from_utf8_lossy(&text).into_owned(),
        _ => String::new(),
    })
}

pub(super) fn extract_sum<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let temporality = point_temporality(scene)?;
    let [name, description, unit] = texts(scene);
    let name = name + arguments.literal_text(1).unwrap_or("_sum");
    let properties = (temporality, is_monotonic(arguments, 0));
    add(scene, [&name, &description, &unit], properties, true, sum_value)
}

pub(super) fn extract_count<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let temporality = point_temporality(scene)?;
    let [name, description, _] = texts(scene);
    let name = name + arguments.literal_text(1).unwrap_or("_count");
    let properties = (temporality, is_monotonic(arguments, 0));
    // The unit of the values is not one of their number.
    add(scene, [&name, &description, "1"], properties, true, count_value)
}

pub(super) fn summary_sum<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    from_summary(arguments, scene, "_sum", sum_value)
}

pub(super) fn summary_count<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    from_summary(arguments, scene, "_count", count_value)
}

fn from_summary<'a>(
    arguments: &'a Arguments,
    scene: &mut Scene<'a>,
    suffix: &str,
    value: PointValue,
) -> Result<Value<'a>, Failure> {
    if scene.data != SUMMARY {
        return Ok(Value::Nil);
    }
    scene.look_at_all_points()?;
    let [name, description, unit] = texts(scene);
    let name = name + arguments.literal_text(2).unwrap_or(suffix);
    let properties = (temporality(arguments), is_monotonic(arguments, 1));
    add(scene, [&name, &description, &unit], properties, false, value)
}

/// The temporality of what is made of the current metric.
fn point_temporality(scene: &mut Scene<'_>) -> Result<u64, Failure> {
    let temporality = match scene.data {
        // Summaries have none, but are cumulative by convention.
        SUMMARY => CUMULATIVE,
        super::HISTOGRAM | super::EXPONENTIAL_HISTOGRAM => scene.temporality(),
        _ => 0,
    };
    if temporality == 0 {
        return Err(Failure::text("the metric must be a summary or a histogram with an aggregation temporality"));
    }
    Ok(temporality)
}

/// Number and bits of the value of a `NumberDataPoint`; none when the point has no such value.
type PointValue = fn(Point<'_>, PointKind) -> Option<(u32, u64)>;

fn sum_value(point: Point<'_>, kind: PointKind) -> Option<(u32, u64)> {
    match point.fixed64(SUM) {
        // Of a summary the sum is no optional field.
        None if kind == PointKind::Summary => Some((AS_DOUBLE, 0)),
        bits => bits.map(|bits| (AS_DOUBLE, bits)),
    }
}

fn count_value(point: Point<'_>, _: PointKind) -> Option<(u32, u64)> {
    Some((AS_INT, point.fixed64(COUNT).unwrap_or_default()))
}

/// Adds a sum with a point for each point of the current metric that has the value. If `needs_points`, a sum without
/// points is left out.
fn add<'a>(
    scene: &mut Scene<'a>,
    texts: [&str; 3],
    properties: (u64, bool),
    needs_points: bool,
    value: PointValue,
) -> Result<Value<'a>, Failure> {
    let (points, kind) = (scene.points()?, scene.point);
    let valued = || points.iter().filter_map(|point| Some((Point(point), value(Point(point), kind)?)));
    if needs_points && valued().next().is_none() {
        return Ok(Value::Nil);
    }
    let metric = metrics::build(texts, super::SUM, Some(properties), |out| {
        valued().for_each(|(point, (number, bits))| number_point(point, kind, out, |out| out.fixed64(number, bits)));
    });
    scene.add_metric(&metric)?;
    Ok(Value::Nil)
}

pub(super) fn quantiles_to_gauge<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    if scene.data != SUMMARY {
        return Ok(Value::Nil);
    }
    let key = arguments.literal_text(0).unwrap_or("quantile");
    let [name, description, unit] = texts(scene);
    let name = name + arguments.literal_text(1).unwrap_or(".quantiles");
    let points = scene.points()?;
    // Every quantile repeats the attributes of its point.
    let sizes = points.iter().map(|point| point.len().saturating_mul(Point(point).bodies(QUANTILES).count()));
    scene.check_length(sizes.fold(0, usize::saturating_add))?;
    let metric = metrics::build([&name, &description, &unit], GAUGE, None, |out| {
        for point in &points {
            let point = Point(point);
            point.bodies(QUANTILES).for_each(|quantile| quantile_point(point, Point(quantile), key, out));
        }
    });
    scene.add_metric(&metric)?;
    Ok(Value::Nil)
}

/// Writes the value at a quantile as a point whose attribute `key` is the quantile.
fn quantile_point(point: Point<'_>, quantile: Point<'_>, key: &str, out: &mut Encoder) {
    const QUANTILE: u32 = value_at_quantile::QUANTILE;
    const VALUE: u32 = value_at_quantile::VALUE;
    let is_other = |pair: &&[u8]| wire::key_value(pair).0 != key.as_bytes();
    let open = out.open(sum::DATA_POINTS, point.0.len());
    for number in [super::point::START_TIME, super::point::TIME] {
        if let Some(time) = point.fixed64(number) {
            out.fixed64(number, time);
        }
    }
    out.fixed64(AS_DOUBLE, quantile.fixed64(VALUE).unwrap_or_default());
    let attributes = point.bodies(PointKind::Summary.attributes());
    attributes.filter(is_other).for_each(|attribute| out.bytes(NUMBER_ATTRIBUTES, attribute));
    let value = Value::Double(quantile.double(QUANTILE).unwrap_or_default());
    wire::encode_key_value(NUMBER_ATTRIBUTES, key, &value, out);
    out.close(open);
}
