//! Editors of whole metrics: type, values, copies, metrics made of others.
//!
//! Source of the semantics: `processor/transformprocessor/internal/metrics` of the reference, version 0.158.

use super::{Function, Kind, STRING, function, optional, required};
use crate::context::Context;
use crate::program::Arguments;
use crate::scene::Scene;
use crate::scene::metrics::with_text;
use crate::value::{Failure, Value};
use weir_otlp::field::metric;

mod aggregate;
mod buckets;
mod explicit;
mod extract;
mod percentile;
mod point;
mod scale;

const METRIC: &[Context] = &[Context::Metric];
const DATA_POINT: &[Context] = &[Context::DataPoint];

/// Numbers of the members of `Metric.data`.
const GAUGE: u32 = metric::GAUGE;
const SUM: u32 = metric::SUM;
const HISTOGRAM: u32 = metric::HISTOGRAM;
const EXPONENTIAL_HISTOGRAM: u32 = metric::EXPONENTIAL_HISTOGRAM;
const SUMMARY: u32 = metric::SUMMARY;

const TEMPORALITY: super::Parameter = required("string_agg_temp", Kind::OneOf(&["delta", "cumulative"]));
const MONOTONIC: super::Parameter = required("monotonic", Kind::Bool);
const SUFFIX: super::Parameter = optional("suffix", Kind::Text);
const AGGREGATION: super::Parameter =
    required("aggregation_function", Kind::OneOf(&["sum", "mean", "min", "max", "median", "count"]));

pub(super) const FUNCTIONS: &[Function] = &[
    function("convert_sum_to_gauge", &[], sum_to_gauge).only_in_statements(METRIC),
    function("convert_gauge_to_sum", &[TEMPORALITY, MONOTONIC], gauge_to_sum).only_in_statements(METRIC),
    function(
        "copy_metric",
        &[optional("name", STRING), optional("description", STRING), optional("unit", STRING)],
        copy_metric,
    )
    .only_in_statements(METRIC),
    function("scale_metric", &[required("multiplier", Kind::Double), optional("unit", STRING)], scale::scale_metric)
        .only_in_statements(METRIC),
    function("extract_sum_metric", &[MONOTONIC, SUFFIX], extract::extract_sum).only_in_statements(METRIC),
    function("extract_count_metric", &[MONOTONIC, SUFFIX], extract::extract_count).only_in_statements(METRIC),
    function(
        "extract_percentile_metric",
        &[required("percentile", Kind::Double), SUFFIX],
        percentile::extract_percentile,
    )
    .only_in_statements(METRIC)
    .checked(|arguments| match arguments.literal_double(0) {
        Some(percentile) if percentile > 0.0 && percentile < 100.0 => Ok(()),
        _ => Err("the percentile must be greater than 0 and less than 100".to_owned()),
    }),
    function(
        "convert_summary_quantile_val_to_gauge",
        &[optional("attribute_key", Kind::Text), SUFFIX],
        extract::quantiles_to_gauge,
    )
    .only_in_statements(METRIC),
    function("convert_summary_sum_val_to_sum", &[TEMPORALITY, MONOTONIC, SUFFIX], extract::summary_sum)
        .only_in_statements(DATA_POINT)
        .remembering_points(),
    function("convert_summary_count_val_to_sum", &[TEMPORALITY, MONOTONIC, SUFFIX], extract::summary_count)
        .only_in_statements(DATA_POINT)
        .remembering_points(),
    function("aggregate_on_attributes", &[AGGREGATION, optional("attributes", Kind::Texts)], aggregate::on_attributes)
        .only_in_statements(METRIC),
    function(
        "aggregate_on_attribute_value",
        &[
            AGGREGATION,
            required("attribute", Kind::Text),
            required("values", Kind::Texts),
            required("new_value", Kind::Text),
        ],
        aggregate::on_attribute_value,
    )
    .only_in_statements(METRIC),
    function(
        "convert_exponential_histogram_to_histogram",
        &[
            required("distribution_fn", Kind::OneOf(&["upper", "midpoint", "random", "uniform"])),
            required("explicit_bounds", Kind::Doubles),
        ],
        explicit::to_histogram,
    )
    .only_in_statements(METRIC)
    .checked(|arguments| match arguments.literal_doubles(1) {
        [] => Err("the explicit bounds must not be empty".to_owned()),
        _ => Ok(()),
    }),
    function(
        "merge_histogram_buckets",
        &[
            required("target_value", Kind::Like),
            optional("method", Kind::OneOf(&["remove_explicit_bound", "limit_buckets"])),
        ],
        buckets::merge_buckets,
    )
    .only_in_statements(DATA_POINT)
    .checked(buckets::check),
];

fn sum_to_gauge<'a>(_: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    if scene.data == SUM {
        let points = scene.points()?;
        // A gauge has neither property.
        scene.convert(GAUGE, (0, false), points)?;
    }
    Ok(Value::Nil)
}

fn gauge_to_sum<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    if scene.data == GAUGE {
        let points = scene.points()?;
        scene.convert(SUM, (temporality(arguments), is_monotonic(arguments, 1)), points)?;
    }
    Ok(Value::Nil)
}

/// `AggregationTemporality` by the word in the first argument.
fn temporality(arguments: &Arguments) -> u64 {
    if arguments.literal_text(0) == Some("delta") { 1 } else { 2 }
}

fn is_monotonic(arguments: &Arguments, index: usize) -> bool {
    arguments.literal_bool(index).unwrap_or_default()
}

fn copy_metric<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let mut copy = scene.metric()?;
    for (index, number) in (0..3).zip(1..) {
        if arguments.has(index) {
            copy = with_text(&copy, number, &arguments.text(index, scene)?);
        }
    }
    scene.add_metric(&copy)?;
    Ok(Value::Nil)
}
