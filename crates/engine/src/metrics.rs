//! The metrics for Prometheus: the `otelcol_*` names that existing dashboards and alerts read, and `weir_*` names
//! for everything else.
//!
//! Every metric is a row of one of the tables: name, type, labels, help, and how to read its samples from a
//! snapshot. A scrape is the tables from top to bottom. A metric without samples is left out. docs/metrics.md has the
//! same metrics; a test compares it with a scrape.

mod container_logs;
mod fluent_bit;
mod journal;
mod pipelines;
mod process;
mod receivers;
mod rules;
mod scrapes;
mod watches;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use http::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use weir_plan::PipelineId;

use crate::admin::{Asked, Page, Shown};
use crate::budget::Text;
use crate::view::{HistogramFigures, PipelineFigures, Snapshot};

/// A metric, and where its samples come from.
struct Metric {
    /// The name in a scrape; that of a counter ends in `_total`.
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
    samples: for<'a> fn(&'a Snapshot) -> Samples<'a>,
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The samples of one metric.
type Samples<'a> = Box<dyn Iterator<Item = (Values<'a>, Value<'a>)> + 'a>;

/// One value for each label of the metric.
type Values<'a> = Vec<Cow<'a, str>>;

#[derive(Clone, Copy)]
enum Value<'a> {
    Whole(u64),
    Real(f64),
    Times(&'a HistogramFigures),
}

/// In the order of a scrape.
const TABLES: [&[Metric]; 10] = [
    &receivers::METRICS,
    &pipelines::EXPORTERS,
    &pipelines::METRICS,
    &fluent_bit::METRICS,
    &journal::METRICS,
    &rules::METRICS,
    &container_logs::METRICS,
    &scrapes::METRICS,
    &watches::METRICS,
    &process::METRICS,
];

/// `/metrics`, OpenMetrics text.
#[derive(Debug)]
pub(crate) struct Metrics;

impl Page for Metrics {
    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scrape(asked.view.snapshot()?)));
        text::encode(body, &registry).ok()?;
        let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        Some(Shown { status: StatusCode::OK, content_type })
    }
}

#[derive(Debug)]
struct Scrape(Snapshot);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        TABLES.into_iter().flatten().try_for_each(|metric| metric.write(&self.0, &mut encoder))
    }
}

impl Metric {
    fn write(&self, snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut samples = (self.samples)(snapshot).peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let kind = match self.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        // The encoder ends the names of counters itself.
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        let mut family = encoder.encode_descriptor(name, self.help, None, kind)?;
        samples.try_for_each(|(values, value)| {
            let labels = Labels { names: self.labels, values: &values };
            if values.is_empty() {
                return value.write(self.kind, &mut family);
            }
            value.write(self.kind, &mut family.encode_family(&labels)?)
        })
    }
}

impl Value<'_> {
    fn write(self, kind: Kind, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match (kind, self) {
            (Kind::Counter, Self::Whole(count)) => encoder.encode_counter::<NoLabelSet, _, u64>(&count, None),
            (Kind::Counter, Self::Real(sum)) => encoder.encode_counter::<NoLabelSet, _, u64>(&sum, None),
            (_, Self::Whole(now)) => encoder.encode_gauge(&now),
            (_, Self::Real(now)) => encoder.encode_gauge(&now),
            (_, Self::Times(HistogramFigures { sum, buckets })) => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                encoder.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
        }
    }
}

impl From<u64> for Value<'_> {
    fn from(count: u64) -> Self {
        Self::Whole(count)
    }
}

impl From<usize> for Value<'_> {
    fn from(count: usize) -> Self {
        Self::Whole(count as u64)
    }
}

impl From<bool> for Value<'_> {
    fn from(is_so: bool) -> Self {
        Self::Whole(is_so.into())
    }
}

impl From<Duration> for Value<'_> {
    fn from(time: Duration) -> Self {
        Self::Real(time.as_secs_f64())
    }
}

impl<'a> From<&'a HistogramFigures> for Value<'a> {
    fn from(times: &'a HistogramFigures) -> Self {
        Self::Times(times)
    }
}

struct Labels<'a> {
    names: &'static [&'static str],
    values: &'a [Cow<'a, str>],
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let mut labels = self.names.iter().zip(self.values);
        labels.try_for_each(|(name, value)| (*name, &**value).encode(encoder.encode_label()))
    }
}

/// The one sample of a metric without labels.
fn one<'a>(value: impl Into<Value<'a>>) -> Samples<'a> {
    Box::new(std::iter::once((Values::new(), value.into())))
}

/// The labels of what is about one pipeline.
const PIPELINE: &[&str] = &["pipeline", "signal"];

/// Their values, and more.
fn of<'a, const N: usize>(id: &'a PipelineId, more: [&'a str; N]) -> Values<'a> {
    [&*id.name, id.signal.name()].into_iter().chain(more).map(Cow::Borrowed).collect()
}

/// A sample for each pipeline.
fn each<'a, V: Into<Value<'a>> + 'a>(snapshot: &'a Snapshot, read: fn(&'a PipelineFigures) -> V) -> Samples<'a> {
    Box::new(snapshot.pipelines.iter().map(move |pipeline| (of(&pipeline.id, []), read(pipeline).into())))
}
