//! The metrics that are made of a page, while they are written.
//!
//! Metrics are encoded in the order of the page. Numbers and times have fixed places, which lines remember as their
//! slots: [`super::known`] writes numbers there, now and in later scrapes. Data points that are made of several lines are
//! in `group`.

mod group;

use weir_otlp::build::{Encoder, Open};
use weir_otlp::field::{gauge, metric, number_data_point, sum};

use super::family::{FamilyMember, Part};
use super::home::{self, Home, ScopeInfos};
use super::known::{Composite, FIXED, KnownLine, LineUse, hash, offset, shifted};
use super::page::{Format, PageRules};
use super::previous::{ByHash, PreviousPoint};
use super::series::{Label, Series, unescaped, unescaped_help};
use super::text::MetricType;
use super::unit::symbol;
use crate::encoding::{CUMULATIVE, attribute};
use group::Group;

/// The metadata of a metric that says what it is on the page, as in the Collector.
pub(super) const TYPE_METADATA: &[u8] = b"prometheus.type";

/// A guess at how long a metric is. When it is wrong, the metric moves by a byte when it ends.
const GUESS: usize = 1 << 10;

/// Metrics, and the lines that they were made of.
#[derive(Debug)]
pub(super) struct Draft<'k> {
    out: Encoder,
    /// Where metrics begin there.
    start: usize,
    pub(super) lines: Vec<KnownLine>,
    pub(super) composites: Vec<Composite>,
    /// The metric whose points are written.
    open: Option<OpenMetric>,
    /// Points of a histogram or a summary, of which more lines may come.
    group: Option<Group<'k>>,
    /// The labels of one point, encoded.
    attributes: Encoder,
    /// The id of the home of what is written.
    home: u64,
    /// Homes that were written.
    homes: ByHash<()>,
    /// Lines may say when counters were created.
    is_openmetrics: bool,
    /// See [`Drafted::is_doubtful`].
    is_doubtful: bool,
    /// Bytes that descriptions and units may still take. On a page whose families are mixed, they are written more than
    /// once as long as there is room.
    descriptions: usize,
}

/// What became of a page, but for its numbers.
#[derive(Debug)]
pub(super) struct Drafted {
    /// The metrics with zeros for all numbers, behind what was there before.
    pub(super) out: Vec<u8>,
    /// Where they begin.
    pub(super) start: usize,
    pub(super) lines: Vec<KnownLine>,
    pub(super) composites: Vec<Composite>,
    /// Points were copied that may not be what their lines say now: some of these are gone, or others belong to them.
    pub(super) is_doubtful: bool,
}

#[derive(Debug)]
struct OpenMetric {
    metric: Open,
    data: Open,
    name: Vec<u8>,
    part: Part,
    /// The first line of it.
    first: usize,
    /// The metric of the last page whose points belong here as well.
    before: Option<usize>,
    /// Some of its counters were copied, and are not in `counters`.
    has_copies: bool,
    /// The lines of counters, by hashes of their labels, for those that say when they were created.
    counters: ByHash<usize>,
}

impl<'k> Draft<'k> {
    /// Metrics are appended to `out`. `lines`: how many lines there are. `length`: how long the page is.
    pub(super) fn new(out: Vec<u8>, lines: usize, length: usize, rules: &PageRules) -> Self {
        Self {
            start: out.len(),
            out: out.into(),
            lines: Vec::with_capacity(lines),
            composites: Vec::new(),
            open: None,
            group: None,
            attributes: Encoder::default(),
            home: 0,
            homes: ByHash::default(),
            is_openmetrics: rules.format == Format::OpenMetrics,
            is_doubtful: false,
            descriptions: length,
        }
    }

    /// Ends the family that is being written.
    pub(super) fn end_family(&mut self) {
        self.end_metric();
        if let Some(group) = self.group.take() {
            self.write_group(group);
        }
    }

    /// What follows is of this home. `None`: of the target, in Weir's scope.
    pub(super) fn enter(&mut self, home: Option<&Home<'_>>, infos: &mut ScopeInfos<'_>) {
        let id = home.map_or(0, Home::id);
        if id == self.home {
            return;
        }
        self.end_family();
        if let Some(home) = home
            && self.homes.insert(id, ()).is_none()
        {
            home.define(id, infos, &mut self.out);
        }
        home::mark(id, &mut self.out);
        self.home = id;
    }

    /// The id of the home of what is written.
    pub(super) fn home(&self) -> u64 {
        self.home
    }

    /// Adds the labels of a sample `target_info`.
    pub(super) fn target_info(&mut self, home: Option<&Home<'_>>, series: &Series<'_>) {
        self.end_family();
        home::info(home, series, &mut self.out);
    }

    /// Adds the line that was pushed last: a sample of this series, which belongs there.
    pub(super) fn sample(&mut self, series: &Series<'_>, member: &FamilyMember<'_, '_>) {
        let line = self.lines.len() - 1;
        if member.part.is_of_composite(member.metric_type) {
            return self.part(series, member, line);
        }
        self.encode_labels(number_data_point::ATTRIBUTES, series, None);
        if member.part == Part::Created {
            return self.created(line);
        }
        self.enter_metric(&series.name, member);
        self.number_point(member.part, line);
    }

    /// Rules leave the line out that was pushed last.
    pub(super) fn drop_line(&mut self) {
        if let Some(line) = self.lines.last_mut() {
            line.set_use(LineUse::Dropped);
        }
    }

    /// Whether the points of this metric of the last page belong to the metric that is being written.
    pub(super) fn continues(&self, before: usize) -> bool {
        let open = self.open.as_ref().and_then(|open| open.before);
        open.or_else(|| self.group.as_ref().and_then(|group| group.before)) == Some(before)
    }

    /// Goes on with a metric of the last page, after a line was pushed that belongs to it. `name`: that of the metric.
    pub(super) fn resume(&mut self, before: usize, name: &[u8], member: &FamilyMember<'_, '_>) {
        if member.part.is_of_composite(member.metric_type) {
            self.enter_group(member).before = Some(before);
        } else {
            self.enter_metric(name, member);
            if let Some(open) = &mut self.open {
                open.before = Some(before);
            }
        }
    }

    /// Copies the data point of the line that was pushed last, which was there before.
    pub(super) fn copy_point(&mut self, point: PreviousPoint<'_>, before: &KnownLine) {
        let is_timed = self.lines.pop().is_some_and(|line| line.is_timed());
        self.copy_points(point, std::slice::from_ref(before));
        if let Some(line) = self.lines.last_mut() {
            line.set_timed(is_timed);
        }
    }

    /// Adds lines that were there before, and copies their data points, which follow each other.
    pub(super) fn copy_points(&mut self, points: PreviousPoint<'_>, before: &[KnownLine]) {
        let by = self.at().cast_signed() - points.start.cast_signed();
        self.out.raw(points.field);
        self.lines.extend(before.iter().map(|line| line.shifted(by)));
        if let Some(open) = &mut self.open {
            open.has_copies = true;
        }
    }

    /// What was written, but for numbers.
    pub(super) fn finish(mut self) -> Drafted {
        self.end_family();
        self.enter(None, &mut ScopeInfos::default());
        let Self { out, start, lines, composites, is_doubtful, .. } = self;
        Drafted { out: out.into_bytes(), start, lines, composites, is_doubtful }
    }

    /// What was there before metrics were appended to it.
    pub(super) fn abandon(mut self) -> Vec<u8> {
        self.out.truncate(self.start);
        self.out.into_bytes()
    }

    /// Where among the metrics the next byte will be.
    fn at(&self) -> usize {
        self.out.len() - self.start
    }

    /// Begins a metric if it is not the one that is being written.
    fn enter_metric(&mut self, name: &[u8], member: &FamilyMember<'_, '_>) {
        if self.open.as_ref().is_some_and(|open| open.name == name && open.part == member.part) {
            return;
        }
        self.end_family();
        let metric = self.out.open(weir_otlp::field::scope_data::ITEMS, GUESS);
        let is_of_family = matches!(member.metric_type, MetricType::Info | MetricType::GaugeHistogram);
        self.head(if is_of_family { member.name } else { name }, member.metric_type, member.help, member.unit);
        let data = self.out.open(if member.part == Part::Gauge { metric::GAUGE } else { metric::SUM }, GUESS);
        let first = self.lines.len() - 1;
        let (name, part, counters) = (name.to_vec(), member.part, ByHash::default());
        self.open = Some(OpenMetric { metric, data, name, part, first, before: None, has_copies: false, counters });
    }

    fn end_metric(&mut self) {
        let Some(OpenMetric { metric, data, part, first, .. }) = self.open.take() else { return };
        if part != Part::Gauge {
            self.out.varint(sum::AGGREGATION_TEMPORALITY, CUMULATIVE);
            self.out.varint(sum::IS_MONOTONIC, u64::from(part == Part::Counter));
        }
        let before = self.out.len();
        self.out.close(data);
        self.out.close(metric);
        let moved = self.out.len().cast_signed() - before.cast_signed();
        if moved != 0 {
            self.move_lines(first..self.lines.len(), moved);
        }
    }

    /// Writes a point whose labels are encoded.
    fn number_point(&mut self, part: Part, line: usize) {
        let times = if part == Part::Counter { 2 * FIXED } else { FIXED };
        self.out.header(gauge::DATA_POINTS, times + FIXED + self.attributes.len());
        if part == Part::Counter {
            self.out.fixed64(number_data_point::START_TIME_UNIX_NANO, 0);
        }
        self.out.fixed64(number_data_point::TIME_UNIX_NANO, 0);
        self.out.fixed64(number_data_point::AS_DOUBLE, 0);
        let used_as = if part == Part::Counter { LineUse::Counter } else { LineUse::Gauge };
        self.lines[line].set_use(used_as);
        self.lines[line].slot = offset(self.at() - 8);
        self.out.raw(self.attributes.written());
        if let Some(open) = self.open.as_mut().filter(|_| part == Part::Counter && self.is_openmetrics) {
            open.counters.insert(hash(self.attributes.written()), line);
        }
    }

    /// The line says when the counter with the labels that are encoded was created.
    fn created(&mut self, line: usize) {
        let Some(open) = &self.open else { return };
        let Some(&counter) = open.counters.get(&hash(self.attributes.written())) else {
            self.is_doubtful |= open.has_copies;
            return;
        };
        self.lines[counter].set_use(LineUse::CreatedCounter);
        self.lines[line].set_use(LineUse::Created);
        self.lines[line].slot = self.lines[counter].slot - offset(2 * FIXED);
    }

    fn move_lines(&mut self, lines: impl Iterator<Item = usize>, by: isize) {
        for line in lines {
            self.lines[line].slot = shifted(self.lines[line].slot, by);
        }
    }

    /// The fields of a metric before its data.
    fn head(&mut self, name: &[u8], metric_type: MetricType, help: &[u8], unit: &[u8]) {
        self.out.bytes(metric::NAME, name);
        if help.len() + unit.len() <= self.descriptions {
            self.describe(help, unit);
        }
        attribute(&mut self.out, metric::METADATA, TYPE_METADATA, metric_type.word().as_bytes());
    }

    fn describe(&mut self, help: &[u8], unit: &[u8]) {
        let help = if self.is_openmetrics { unescaped(help) } else { unescaped_help(help) };
        // What is not UTF-8 becomes longer.
        let (help, unit) = (String::from_utf8_lossy(&help), symbol(&String::from_utf8_lossy(unit)));
        let Some(left) = self.descriptions.checked_sub(help.len() + unit.len()) else { return };
        self.descriptions = left;
        if !help.is_empty() {
            self.out.bytes(metric::DESCRIPTION, help.as_bytes());
        }
        if !unit.is_empty() {
            self.out.bytes(metric::UNIT, unit.as_bytes());
        }
    }

    /// Encodes the labels of a series as attributes of a point, but for one that says which part of the point it is.
    fn encode_labels(&mut self, number: u32, series: &Series<'_>, left_out: Option<&[u8]>) {
        self.attributes.truncate(0);
        for Label { name, value } in &series.labels {
            if left_out != Some(name.as_ref()) {
                attribute(&mut self.attributes, number, name, value);
            }
        }
    }
}
