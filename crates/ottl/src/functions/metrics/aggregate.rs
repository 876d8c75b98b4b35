//! `aggregate_on_attributes` and `aggregate_on_attribute_value`: points with the same attributes become one.
//!
//! Source: `internal/coreinternal/aggregateutil` of the reference. Unlike there, the order of the points is that of the
//! first of each group, and metadata of the metric stays.

use std::borrow::Cow;
use std::collections::HashMap;

use weir_otlp::build::Encoder;
use weir_otlp::cursor::Fields;

use super::point::{Point, START_TIME, TIME};
use crate::context::PointKind;
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Failure, Value, text, wire};

mod histograms;
mod numbers;

/// `AGGREGATION_TEMPORALITY_DELTA`
const DELTA: u64 = 1;

pub(super) fn on_attributes<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let kept = arguments.has(1).then(|| arguments.literal_texts(1));
    aggregate(arguments, scene, |body, attributes, out| {
        for field in Fields::new(body) {
            let is_gone = |kept: &[String]| {
                let key = field.body().map(|pair| wire::key_value(pair).0);
                field.number == attributes && !kept.iter().any(|kept| Some(kept.as_bytes()) == key)
            };
            if !kept.is_some_and(is_gone) {
                out.raw(&body[field.start..field.end]);
            }
        }
    })
}

pub(super) fn on_attribute_value<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let key = arguments.literal_text(1).unwrap_or_default();
    let values = arguments.literal_texts(2);
    let new = Value::text(arguments.literal_text(3).unwrap_or_default());
    aggregate(arguments, scene, |body, attributes, out| {
        for field in Fields::new(body) {
            let pair = field.body().filter(|_| field.number == attributes).map(wire::key_value);
            let value = pair.filter(|(other, _)| *other == key.as_bytes()).map(|(_, value)| wire::any(value));
            match value {
                Some(Value::String(old)) if values.iter().any(|value| *value == old) => {
                    wire::encode_key_value(attributes, key, &new, out);
                }
                _ => out.raw(&body[field.start..field.end]),
            }
        }
    })
}

fn aggregate<'a>(
    arguments: &'a Arguments,
    scene: &mut Scene<'a>,
    edit: impl Fn(&[u8], u32, &mut Encoder),
) -> Result<Value<'a>, Failure> {
    let kind = scene.point;
    match scene.data {
        0 => return Ok(Value::Nil),
        super::SUMMARY => return Err(Failure::text("summaries cannot be aggregated")),
        _ => {}
    }
    let by_start_time = scene.data != super::GAUGE && scene.temporality() == DELTA;
    let points = scene.points()?;
    let edited = points.iter().map(|point| {
        let mut out = Encoder::with_capacity(point.len());
        edit(point, kind.attributes(), &mut out);
        out.into_bytes()
    });
    let mut groups: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut known = HashMap::new();
    for point in edited {
        let group = *known.entry(key(Point(&point), kind, by_start_time, scene.room())?).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(group) => group.push(point),
            None => groups.push(vec![point]),
        }
    }
    let function = arguments.literal_text(0).unwrap_or_default();
    let merged = groups.into_iter().map(|group| match kind {
        PointKind::Histogram => histograms::merged(&group),
        PointKind::Exponential => histograms::merged_exponential(&group),
        PointKind::Number | PointKind::Summary => Ok(numbers::merged(&group, function)),
    });
    let merged = merged.map(|point| point.map(Cow::Owned)).collect::<Result<_, _>>()?;
    scene.replace_points(merged)?;
    Ok(Value::Nil)
}

/// What points have in common that become one: attributes in any order, times, and what makes histograms fit.
fn key(point: Point<'_>, kind: PointKind, by_start_time: bool, room: usize) -> Result<(String, Vec<u64>), Failure> {
    let attributes = point.bodies(kind.attributes()).map(wire::key_value);
    let attributes = attributes.map(|(key, value)| (String::from_utf8_lossy(key), wire::any(value)));
    let key = text::json(&Value::map(attributes.collect()), room)?;
    let start_time = if by_start_time { point.fixed64(START_TIME).unwrap_or_default() } else { 0 };
    let mut numbers = vec![point.fixed64(TIME).unwrap_or_default(), start_time];
    let shape = match kind {
        PointKind::Histogram => Some(histograms::PLAIN),
        PointKind::Exponential => Some(histograms::EXPONENTIAL),
        PointKind::Number | PointKind::Summary => None,
    };
    numbers.extend(shape.iter().flat_map(|shape| shape.key(point)));
    Ok((key, numbers))
}
