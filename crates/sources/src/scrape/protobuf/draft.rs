//! The metrics that are made of a page, while they are written. `points` writes the points of each shape.

mod points;

use weir_otlp::build::{Encoder, Open};
use weir_otlp::common::Message;
use weir_otlp::field::{metric as otlp_metric, scope_data, sum};

use super::BadFamily;
use super::field::metric;
use super::message::{Family, Histogram, samples};
use super::points::Points;
use super::series;
use super::shape::Shape;
use crate::encoding::{CUMULATIVE, attribute};
use crate::scrape::draft::TYPE_METADATA;
use crate::scrape::home::{self, Home, ScopeInfos};
use crate::scrape::known::hash_all;
use crate::scrape::page::PageRules;
use crate::scrape::previous::ByHash;
use crate::scrape::series::{Label, Series};
use crate::scrape::unit::symbol;

/// A guess at how long a metric is. When it is wrong, the metric moves by a byte when it ends.
const GUESS: usize = 1 << 10;

/// Metrics, and the points that they have. In a point, labels stand behind all else, as [`crate::scrape::stale`] needs it.
pub(super) struct Draft<'p, 'k> {
    out: Encoder,
    points: Points<'k>,
    /// Samples that rules leave out.
    dropped: usize,
    rules: &'p PageRules,
    infos: ScopeInfos<'p>,
    scraped: u64,
    series: Series<'p>,
    /// The labels of one point, encoded.
    attributes: Encoder,
    /// The metric whose points are written.
    open: Option<OpenMetric>,
    /// The id of the home of what is written.
    home: u64,
    /// Homes that were written.
    homes: ByHash<()>,
    /// Bytes that descriptions and units may still take. They are written again for each home and name that samples of a
    /// family have, as long as there is room.
    descriptions: usize,
}

struct OpenMetric {
    whole: Open,
    data: Open,
    name: Vec<u8>,
    shape: Shape,
}

/// A metric of the page whose point is written.
#[derive(Clone, Copy)]
struct Sample<'p> {
    family: Family<'p>,
    shape: Shape,
    metric: Message<'p>,
    /// What its value is in.
    value: Message<'p>,
    /// The time of its point, in nanoseconds since the epoch.
    time: u64,
    /// The page says when it was.
    is_timed: bool,
    /// How many samples it stands for.
    samples: usize,
}

impl<'p, 'k> Draft<'p, 'k> {
    /// `most`: bytes that metrics take at most. `length`: how long the page is.
    pub(super) fn new(
        (most, length): (usize, usize),
        (rules, scraped): (&'p PageRules, u64),
        infos: ScopeInfos<'p>,
        points: Points<'k>,
    ) -> Self {
        Self {
            out: Encoder::with_capacity(most),
            points,
            dropped: 0,
            rules,
            infos,
            scraped,
            series: Series::default(),
            attributes: Encoder::default(),
            open: None,
            home: 0,
            homes: ByHash::default(),
            descriptions: length,
        }
    }

    /// The encoded metrics, and how many samples rules leave out.
    pub(super) fn finish(mut self) -> (Vec<u8>, Points<'k>, usize) {
        self.enter_home(None);
        (self.out.into_bytes(), self.points, self.dropped)
    }

    /// Adds the metrics of a family, one for each shape, however these are mixed in the family.
    pub(super) fn family(&mut self, family: &Family<'p>) -> Result<(), BadFamily> {
        for shape in family.family_type.shapes() {
            for both in family.metrics() {
                let (metric, value) = both?;
                let (own_time, samples) = (self.time_of(metric)?, samples(family.family_type, value)?);
                let (time, is_timed) = (own_time.unwrap_or(self.scraped), own_time.is_some());
                let sample = Sample { family: *family, shape: *shape, metric, value, time, is_timed, samples };
                self.sample(&sample)?;
            }
            self.end_metric();
        }
        Ok(())
    }

    fn time_of(&self, message: Message<'p>) -> Result<Option<u64>, BadFamily> {
        match message.varint(metric::TIMESTAMP_MS) {
            _ if !self.rules.honor_timestamps => Ok(None),
            // Prometheus takes 0 for none as well.
            0 => Ok(None),
            // A time before 1970 is a negative number, which is a very large one here.
            time => time.checked_mul(1_000_000).map(Some).ok_or(BadFamily::Time),
        }
    }

    fn sample(&mut self, sample: &Sample<'p>) -> Result<(), BadFamily> {
        match sample.shape {
            Shape::Gauge | Shape::Counter => self.number(sample),
            Shape::Summary => self.summary(sample),
            Shape::Explicit | Shape::Exponential => {
                let histogram = Histogram::read(sample.value);
                match (sample.shape, histogram.is_native()?) {
                    (Shape::Explicit, false) => self.explicit(sample, &histogram),
                    (Shape::Exponential, true) => self.exponential(sample, &histogram),
                    _ => Ok(()),
                }
            }
            Shape::GaugeBuckets | Shape::GaugeSum | Shape::GaugeCount => self.gauges(sample),
        }
    }

    /// Reads the series of a point, and adds the point to those of the page. `value` is the value of a counter or the
    /// count of a histogram. Returns when it began; nothing if rules leave it out, or if it was on the page before.
    fn add(
        &mut self,
        sample: &Sample<'p>,
        attributes: u32,
        state: (f64, Option<u64>),
    ) -> Result<Option<u64>, BadFamily> {
        self.read_series(sample)?;
        self.add_series(sample, attributes, state)
    }

    fn read_series(&mut self, sample: &Sample<'p>) -> Result<(), BadFamily> {
        Ok(series::read(&mut self.series, (&sample.family, sample.shape.suffix()), sample.metric)?)
    }

    /// Adds the point of the series that was read.
    fn add_series(
        &mut self,
        sample: &Sample<'p>,
        attributes: u32,
        (value, created): (f64, Option<u64>),
    ) -> Result<Option<u64>, BadFamily> {
        if !self.rules.settle(&mut self.series)? {
            self.dropped += sample.samples;
            return Ok(None);
        }
        if self.series.name.is_empty() {
            return Err(BadFamily::NoName);
        }
        let home = Home::take(&mut self.series, self.rules);
        encode_labels(&mut self.attributes, attributes, &self.series);
        let (id, name) = (home.as_ref().map_or(0, Home::id).to_le_bytes(), self.series.name.as_ref());
        let hash = hash_all([&[sample.shape as u8][..], &id, name, self.attributes.written()]);
        if matches!(name, home::TARGET_INFO | home::SCOPE_INFO) {
            let is_of_target = name == home::TARGET_INFO;
            if self.points.add_info(hash, sample.samples) && is_of_target {
                self.end_metric();
                home::info(home.as_ref(), &self.series, &mut self.out);
            }
            return Ok(None);
        }
        let Some(point) = self.points.add(hash, sample.samples, sample.is_timed) else { return Ok(None) };
        let start = point.begun(value, sample.time, created);
        self.enter_home(home.as_ref());
        self.enter_metric(sample);
        Ok(Some(start))
    }

    /// What follows is of this home. `None`: of the target, in Weir's scope.
    fn enter_home(&mut self, home: Option<&Home<'_>>) {
        let id = home.map_or(0, Home::id);
        if id == self.home {
            return;
        }
        self.end_metric();
        if let Some(home) = home
            && self.homes.insert(id, ()).is_none()
        {
            home.define(id, &mut self.infos, &mut self.out);
        }
        home::mark(id, &mut self.out);
        self.home = id;
    }

    /// Begins a metric if it is not the one that is being written, which is of the same shape.
    fn enter_metric(&mut self, sample: &Sample<'p>) {
        let (name, shape) = (self.series.name.as_ref(), sample.shape);
        if self.open.as_ref().is_some_and(|open| open.name == name) {
            return;
        }
        let name = name.to_vec();
        self.end_metric();
        let whole = self.out.open(scope_data::ITEMS, GUESS);
        self.out.bytes(otlp_metric::NAME, &name);
        let (help, unit) = (sample.family.help, symbol(sample.family.unit));
        if let Some(left) = self.descriptions.checked_sub(help.len() + unit.len()) {
            self.descriptions = left;
            for (number, text) in [(otlp_metric::DESCRIPTION, help), (otlp_metric::UNIT, &unit)] {
                if !text.is_empty() {
                    self.out.bytes(number, text.as_bytes());
                }
            }
        }
        let metric_type = sample.family.family_type.of_text(shape);
        attribute(&mut self.out, otlp_metric::METADATA, TYPE_METADATA, metric_type.word().as_bytes());
        let data = self.out.open(shape.data(), GUESS);
        self.open = Some(OpenMetric { whole, data, name, shape });
    }

    fn end_metric(&mut self) {
        let Some(OpenMetric { whole, data, shape, .. }) = self.open.take() else { return };
        if shape.is_cumulative() {
            self.out.varint(sum::AGGREGATION_TEMPORALITY, CUMULATIVE);
        }
        if shape == Shape::Counter {
            self.out.varint(sum::IS_MONOTONIC, 1);
        }
        self.out.close(data);
        self.out.close(whole);
    }
}

/// Encodes the labels of a series as attributes. `out` has nothing else afterwards.
fn encode_labels(out: &mut Encoder, number: u32, series: &Series<'_>) {
    out.truncate(0);
    series.labels.iter().for_each(|Label { name, value }| attribute(out, number, name, value));
}
