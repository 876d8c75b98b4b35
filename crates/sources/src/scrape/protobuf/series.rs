//! The series of the points that a metric has.

use std::borrow::Cow;

use weir_otlp::common::Message;

use super::BadFamily;
use super::field::metric;
use super::message::{Family, FamilyType, Histogram, read_labels};
use crate::scrape::page::PageRules;
use crate::scrape::series::{BadSeries, Label, Series};

/// What the names of the points of a gauge histogram have behind that of the family that are none of its buckets.
pub(super) const GAUGE_SUM: &str = "_gsum";
pub(super) const GAUGE_COUNT: &str = "_gcount";

/// Reads the series of a point. `suffix`: what its name has behind that of the family.
pub(super) fn read<'p>(
    series: &mut Series<'p>,
    (family, suffix): (&Family<'p>, &str),
    metric: Message<'p>,
) -> Result<(), BadSeries> {
    let name = family.name;
    let long = || format!("{name}{suffix}").into_bytes();
    series.name = if suffix.is_empty() { Cow::Borrowed(name.as_bytes()) } else { Cow::Owned(long()) };
    read_labels(metric, metric::LABELS, &mut series.labels)
}

/// Makes it the series of a bucket with this bound.
pub(super) fn set_bound(series: &mut Series<'_>, bound: f64) {
    series.labels.retain(|label| label.name.as_ref() != b"le");
    let text = if bound == f64::INFINITY { "+Inf".to_owned() } else { format!("{bound:?}") };
    series.labels.push(Label { name: Cow::Borrowed(b"le"), value: Cow::Owned(text.into_bytes()) });
}

/// The buckets of a gauge histogram, one of which has no bound.
pub(super) fn gauge_buckets(histogram: &Histogram<'_>) -> Vec<(f64, u64)> {
    let mut bounds = histogram.bounds();
    if bounds.last().is_none_or(|(bound, _)| *bound != f64::INFINITY) {
        bounds.push((f64::INFINITY, histogram.count));
    }
    bounds
}

/// How much longer rules make the series of all points of a metric. `value`: what its value is in.
pub(super) fn growth(
    family: &Family<'_>,
    (metric, value): (Message<'_>, Message<'_>),
    rules: &PageRules,
) -> Result<usize, BadFamily> {
    let mut series = Series::default();
    let mut of = |suffix, bound: Option<f64>| -> Result<usize, BadFamily> {
        read(&mut series, (family, suffix), metric)?;
        bound.into_iter().for_each(|bound| set_bound(&mut series, bound));
        Ok(rules.growth(&mut series))
    };
    if family.family_type != FamilyType::GaugeHistogram {
        return of("", None);
    }
    let ends = of(GAUGE_SUM, None)? + of(GAUGE_COUNT, None)?;
    let buckets = gauge_buckets(&Histogram::read(value));
    buckets.into_iter().try_fold(ends, |all, (bound, _)| Ok(all + of("", Some(bound))?))
}
