//! `scale_metric`: values multiplied.

use std::borrow::Cow;

use weir_otlp::build::Encoder;
use weir_otlp::cursor::{Fields, Value as Raw};
use weir_otlp::field::metric;

use crate::context::Level;
use crate::draft::{Scalar, bodies_heap};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Failure, Value};

/// Number of `Metric.unit`.
const UNIT: u32 = metric::UNIT;

/// The fields of a message that are multiplied.
struct Scaling {
    /// Numbers of the fields of type `double`, repeated or not.
    doubles: &'static [u32],
    /// Number of the field of type `sfixed64`; 0 when there is none.
    int: u32,
    /// Number of the messages inside that are multiplied too, and how.
    inner: Option<(u32, &'static Scaling)>,
}

const NUMBER: Scaling = Scaling { doubles: &[4], int: 6, inner: None };
/// Sum, bounds, least and greatest value, and exemplars.
const HISTOGRAM: Scaling = Scaling { doubles: &[5, 7, 11, 12], int: 0, inner: Some((8, &EXEMPLAR)) };
const EXEMPLAR: Scaling = Scaling { doubles: &[3], int: 6, inner: None };
/// Sum and values at quantiles.
const SUMMARY: Scaling = Scaling { doubles: &[5], int: 0, inner: Some((6, &QUANTILE)) };
const QUANTILE: Scaling = Scaling { doubles: &[2], int: 0, inner: None };

pub(super) fn scale_metric<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let factor = arguments.literal_double(0).unwrap_or(1.0);
    let unit = if arguments.has(1) { Some(arguments.text(1, scene)?) } else { None };
    let scaling = match scene.data {
        super::GAUGE | super::SUM => &NUMBER,
        super::HISTOGRAM => &HISTOGRAM,
        super::SUMMARY => &SUMMARY,
        super::EXPONENTIAL_HISTOGRAM => {
            return Err(Failure::text("exponential histograms cannot be scaled"));
        }
        _ => return Err(Failure::text("a metric without data cannot be scaled")),
    };
    let points = scene.points()?;
    let scaled = points.iter().map(|point| {
        let mut out = Encoder::with_capacity(point.len());
        scale(point, scaling, factor, &mut out);
        Cow::Owned(out.into_bytes())
    });
    let scaled: Vec<Cow<'a, [u8]>> = scaled.collect();
    let Some(unit) = unit else {
        scene.replace_points(scaled)?;
        return Ok(Value::Nil);
    };
    let unit = match unit {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    };
    let unit = (!unit.is_empty()).then_some(Scalar::Len(unit));
    // Both changes or none; scaled points are as long as they were.
    let unit_heap = unit.as_ref().map_or(0, Scalar::heap);
    let grown = scene.draft(Level::Item).growth_of_scalar(UNIT, unit.as_ref());
    scene.check_growth(grown)?;
    scene.check_held(unit_heap + bodies_heap(&scaled))?;
    scene.replace_points(scaled)?;
    scene.set_scalars(Level::Item, [(UNIT, unit)])?;
    Ok(Value::Nil)
}

fn scale(body: &[u8], scaling: &Scaling, factor: f64, out: &mut Encoder) {
    let inner = |number: u32| scaling.inner.filter(|(inner, _)| *inner == number).map(|(_, inner)| inner);
    let scaled = |bits: u64| (f64::from_bits(bits) * factor).to_bits();
    for field in Fields::new(body) {
        let number = field.number;
        match field.value {
            Raw::Fixed64(bits) if scaling.doubles.contains(&number) => out.fixed64(number, scaled(bits)),
            Raw::Len(packed) if scaling.doubles.contains(&number) => {
                let values = packed.as_chunks().0.iter().map(|chunk| scaled(u64::from_le_bytes(*chunk)));
                let values: Vec<u8> = values.flat_map(u64::to_le_bytes).collect();
                out.bytes(number, &values);
            }
            Raw::Fixed64(bits) if number == scaling.int => out.fixed64(number, scaled_int(bits, factor)),
            Raw::Len(body) if inner(number).is_some() => {
                let open = out.open(number, body.len());
                inner(number).into_iter().for_each(|inner| scale(body, inner, factor, out));
                out.close(open);
            }
            _ => out.raw(&body[field.start..field.end]),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "the reference multiplies integers as doubles")]
#[expect(clippy::cast_possible_truncation, reason = "the fraction is what the reference drops")]
fn scaled_int(bits: u64, factor: f64) -> u64 {
    ((bits.cast_signed() as f64 * factor) as i64).cast_unsigned()
}
