//! The metrics that are made of a page, while they are written.
//!
//! Metrics are encoded in the order of the page. Numbers and times have fixed places, which lines remember as their
//! slots: [`super::known`] writes numbers there, now and in later scrapes.

use std::collections::HashMap;

use weir_otlp::build::{Encoder, Open, varint_len};
use weir_otlp::field::{
    any_value, gauge, histogram, histogram_data_point, key_value, metric, number_data_point, sum, summary,
    summary_data_point, value_at_quantile,
};

use super::family::{Part, Place};
use super::known::{Composite, FIXED, KnownLine, Missing, Role, hash, hash_all};
use super::page::{Format, PageRules};
use super::series::{Label, Series, unescaped};
use super::text::Kind;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`
const CUMULATIVE: u64 = 2;

/// A guess at how long a metric is. When it is wrong, the metric moves by a byte when it ends.
const GUESS: usize = 1 << 10;

/// Metrics, and the lines that they were made of.
#[derive(Debug)]
pub(super) struct Draft {
    out: Encoder,
    pub(super) lines: Vec<KnownLine>,
    pub(super) composites: Vec<Composite>,
    /// The metric whose points are written.
    open: Option<OpenMetric>,
    /// Points of a histogram or a summary, of which more lines may come.
    group: Option<Group>,
    /// The labels of one point, encoded.
    attributes: Encoder,
    /// Labels that every point gets.
    target_labels: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether lines may say when counters were created.
    keeps_counters: bool,
}

#[derive(Debug)]
struct OpenMetric {
    metric: Open,
    data: Open,
    name: Vec<u8>,
    part: Part,
    /// The first line of it.
    first: usize,
    /// The lines of counters, by hashes of their labels, for those that say when they were created.
    counters: HashMap<u64, usize>,
}

/// The points of a family of histograms or summaries.
#[derive(Debug)]
struct Group {
    name: Vec<u8>,
    kind: Kind,
    help: Vec<u8>,
    unit: Vec<u8>,
    points: Vec<GroupPoint>,
    /// Where they are, by their hashes.
    places: HashMap<u64, usize>,
}

/// One of them, with the lines that make it up.
#[derive(Debug)]
struct GroupPoint {
    hash: u64,
    attributes: Vec<u8>,
    /// Upper bounds of buckets, or quantiles.
    parts: Vec<(f64, usize)>,
    sum: Option<usize>,
    count: Option<usize>,
    created: Option<usize>,
}

impl Draft {
    /// `most`: bytes that metrics take at most. `lines`: how many lines there are.
    pub(super) fn new(most: usize, lines: usize, rules: &PageRules) -> Self {
        Self {
            out: Encoder::with_capacity(most),
            lines: Vec::with_capacity(lines),
            composites: Vec::new(),
            open: None,
            group: None,
            attributes: Encoder::default(),
            target_labels: rules.target_labels.clone(),
            keeps_counters: rules.format == Format::OpenMetrics,
        }
    }

    /// Ends the family that is being written.
    pub(super) fn end_family(&mut self) {
        self.end_metric();
        if let Some(group) = self.group.take() {
            self.write_group(group);
        }
    }

    /// Adds the line that was pushed last: a sample of this series, which belongs there.
    pub(super) fn sample(&mut self, series: &Series<'_>, place: &Place<'_, '_>) {
        let line = self.lines.len() - 1;
        if place.part.is_of_composite(place.kind) {
            return self.part(series, place, line);
        }
        self.encode_labels(number_data_point::ATTRIBUTES, series, None);
        if place.part == Part::Created {
            return self.created(line);
        }
        let is_open = self.open.as_ref().is_some_and(|open| open.name == *series.name && open.part == place.part);
        if !is_open {
            self.end_family();
            self.begin_metric(&series.name, place);
        }
        self.number_point(place.part, line);
    }

    /// Whether a point of the series that this text names, which had this role before, belongs to the metric that is
    /// written.
    pub(super) fn continues(&self, text: &[u8], role: Role) -> bool {
        let Some(open) = &self.open else { return false };
        let is_of_kind = match role {
            Role::Gauge => open.part != Part::Counter,
            Role::Counter => open.part == Part::Counter && !self.keeps_counters,
            _ => false,
        };
        let rest = text.strip_prefix(open.name.as_slice());
        is_of_kind && rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'{'))
    }

    /// Adds the line that was pushed last: its point is as it was encoded before, but for the numbers.
    pub(super) fn point_as_before(&mut self, point: &[u8], role: Role) {
        self.out.bytes(gauge::DATA_POINTS, point);
        let value = if role == Role::Counter { 3 * FIXED } else { 2 * FIXED };
        if let Some(line) = self.lines.last_mut() {
            line.set_role(role);
            line.slot = offset(self.out.len() - point.len() + value - 8);
        }
    }

    /// The encoded metrics.
    pub(super) fn finish(mut self) -> (Vec<u8>, Vec<KnownLine>, Vec<Composite>) {
        self.end_family();
        (self.out.into_bytes(), self.lines, self.composites)
    }

    fn begin_metric(&mut self, name: &[u8], place: &Place<'_, '_>) {
        let metric = self.out.open(weir_otlp::field::scope_data::ITEMS, GUESS);
        head(&mut self.out, name, place.help, place.unit);
        let data = self.out.open(if place.part == Part::Gauge { metric::GAUGE } else { metric::SUM }, GUESS);
        let first = self.lines.len() - 1;
        self.open =
            Some(OpenMetric { metric, data, name: name.to_vec(), part: place.part, first, counters: HashMap::new() });
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
        for line in &mut self.lines[first..] {
            line.slot = shifted(line.slot, moved);
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
        let role = if part == Part::Counter { Role::Counter } else { Role::Gauge };
        self.lines[line].set_role(role);
        self.lines[line].slot = offset(self.out.len() - 8);
        self.out.raw(self.attributes.written());
        if let Some(open) = self.open.as_mut().filter(|_| part == Part::Counter && self.keeps_counters) {
            open.counters.insert(hash(self.attributes.written()), line);
        }
    }

    /// The line says when the counter with the labels that are encoded was created.
    fn created(&mut self, line: usize) {
        let counters = self.open.as_ref().map(|open| &open.counters);
        let Some(&counter) = counters.and_then(|counters| counters.get(&hash(self.attributes.written()))) else {
            return;
        };
        self.lines[counter].set_role(Role::CreatedCounter);
        self.lines[line].set_role(Role::Created);
        self.lines[line].slot = self.lines[counter].slot - offset(2 * FIXED);
    }

    /// Adds a line to the point of its labels.
    fn part(&mut self, series: &Series<'_>, place: &Place<'_, '_>, line: usize) {
        let (left_out, attributes): (&[u8], _) = match place.kind {
            Kind::Summary => (b"quantile", summary_data_point::ATTRIBUTES),
            _ => (b"le", histogram_data_point::ATTRIBUTES),
        };
        self.encode_labels(attributes, series, Some(left_out));
        let is_open = self.group.as_ref().is_some_and(|group| group.name == place.name && group.kind == place.kind);
        if !is_open {
            self.end_family();
        }
        let group = self.group.get_or_insert_with(|| Group {
            name: place.name.to_vec(),
            kind: place.kind,
            help: place.help.to_vec(),
            unit: place.unit.to_vec(),
            points: Vec::new(),
            places: HashMap::new(),
        });
        let bound = series.label(left_out).and_then(|text| std::str::from_utf8(text).ok()?.parse::<f64>().ok());
        let point = group.point(self.attributes.written());
        match (place.part, bound) {
            (Part::Bucket | Part::Quantile, Some(bound)) => point.parts.push((bound, line)),
            (Part::SumOf, _) => point.sum = Some(line),
            (Part::CountOf, _) => point.count = Some(line),
            (Part::Created, _) => point.created = Some(line),
            _ => {}
        }
    }

    fn write_group(&mut self, group: Group) {
        let is_summary = group.kind == Kind::Summary;
        let metric = self.out.open(weir_otlp::field::scope_data::ITEMS, GUESS);
        head(&mut self.out, &group.name, &group.help, &group.unit);
        let data = self.out.open(if is_summary { metric::SUMMARY } else { metric::HISTOGRAM }, GUESS);
        let first = self.composites.len();
        for point in &group.points {
            if is_summary { self.summary_point(point) } else { self.histogram_point(point) }
        }
        if !is_summary {
            self.out.varint(histogram::AGGREGATION_TEMPORALITY, CUMULATIVE);
        }
        let before = self.out.len();
        self.out.close(data);
        self.out.close(metric);
        let moved = self.out.len().cast_signed() - before.cast_signed();
        if moved != 0 {
            self.move_group(&group, first, moved);
        }
    }

    /// Moves the slots of a group.
    fn move_group(&mut self, group: &Group, first: usize, moved: isize) {
        for composite in &mut self.composites[first..] {
            composite.slot = shifted(composite.slot, moved);
            composite.count = shifted(composite.count, moved);
            composite.buckets = shifted(composite.buckets, moved);
        }
        for point in &group.points {
            let parts = point.parts.iter().map(|(_, line)| *line);
            for line in parts.chain(point.sum).chain(point.count).chain(point.created) {
                self.lines[line].slot = shifted(self.lines[line].slot, moved);
            }
        }
    }

    /// Start time, time, count and sum, which are the same in histograms and summaries.
    fn begin_composite(&mut self, point: &GroupPoint, missing: Missing) {
        self.out.fixed64(histogram_data_point::START_TIME_UNIX_NANO, 0);
        let slot = offset(self.out.len() - 8);
        self.out.fixed64(histogram_data_point::TIME_UNIX_NANO, 0);
        self.out.fixed64(histogram_data_point::COUNT, 0);
        let count = offset(self.out.len() - 8);
        self.set(point.count, Role::Count);
        if point.sum.is_some() {
            self.out.fixed64(histogram_data_point::SUM, 0);
            self.set(point.sum, Role::Fraction);
        }
        if let Some(line) = point.created {
            self.lines[line].set_role(Role::Created);
            self.lines[line].slot = slot;
        }
        self.composites.push(Composite {
            hash: point.hash,
            last_count: 0,
            start: 0,
            slot,
            count,
            buckets: 0,
            bucket_count: 0,
            missing,
            is_created: point.created.is_some(),
        });
    }

    /// The eight bytes that were written last come of this line.
    fn set(&mut self, line: Option<usize>, role: Role) {
        let Some(line) = line else { return };
        self.lines[line].set_role(role);
        self.lines[line].slot = offset(self.out.len() - 8);
    }

    fn summary_point(&mut self, point: &GroupPoint) {
        let quantile_bytes = 2 * FIXED;
        let quantiles = point.parts.len() * (1 + varint_len(quantile_bytes as u64) + quantile_bytes);
        let sum = if point.sum.is_some() { FIXED } else { 0 };
        self.out.header(summary::DATA_POINTS, 3 * FIXED + sum + quantiles + point.attributes.len());
        self.begin_composite(point, Missing::Nothing);
        for &(quantile, line) in &point.parts {
            self.out.header(summary_data_point::QUANTILE_VALUES, quantile_bytes);
            self.out.fixed64(value_at_quantile::QUANTILE, quantile.to_bits());
            self.out.fixed64(value_at_quantile::VALUE, 0);
            self.set(Some(line), Role::Fraction);
        }
        self.out.raw(&point.attributes);
    }

    fn histogram_point(&mut self, point: &GroupPoint) {
        let mut parts = point.parts.clone();
        parts.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        parts.dedup_by_key(|(bound, _)| bound.to_bits());
        let infinite = parts.pop_if(|(bound, _)| *bound == f64::INFINITY);
        let missing = match (infinite, point.count) {
            (Some(_), None) => Missing::Count,
            (None, Some(_)) => Missing::LastBucket,
            _ => Missing::Nothing,
        };
        // Without buckets, there is only a count.
        let buckets = if parts.is_empty() && infinite.is_none() { 0 } else { parts.len() + 1 };
        let (bounds, counts) = (8 * parts.len(), 8 * buckets);
        let packed = |bytes: usize| if bytes == 0 { 0 } else { 1 + varint_len(bytes as u64) + bytes };
        let sum = if point.sum.is_some() { FIXED } else { 0 };
        let length = 3 * FIXED + sum + packed(bounds) + packed(counts) + point.attributes.len();
        self.out.header(histogram::DATA_POINTS, length);
        self.begin_composite(point, missing);
        if buckets > 0 {
            self.out.header(histogram_data_point::BUCKET_COUNTS, counts);
            let first = offset(self.out.len());
            if let Some(composite) = self.composites.last_mut() {
                (composite.buckets, composite.bucket_count) = (first, offset(buckets));
            }
            for line in parts.iter().map(|(_, line)| Some(*line)).chain([infinite.map(|(_, line)| line)]) {
                self.out.raw(&[0; 8]);
                self.set(line, Role::Count);
            }
        }
        if bounds > 0 {
            self.out.header(histogram_data_point::EXPLICIT_BOUNDS, bounds);
            parts.iter().for_each(|(bound, _)| self.out.raw(&bound.to_bits().to_le_bytes()));
        }
        self.out.raw(&point.attributes);
    }

    /// Encodes the labels of a series as attributes of a point, but for one that says which part of the point it is.
    fn encode_labels(&mut self, number: u32, series: &Series<'_>, left_out: Option<&[u8]>) {
        let Self { attributes, target_labels, .. } = self;
        attributes.truncate(0);
        for Label { name, value } in &series.labels {
            if left_out == Some(name.as_ref()) {
                continue;
            }
            // Labels of the target have these names already.
            let is_taken = matches!(name.as_ref(), b"job" | b"instance")
                || target_labels.iter().any(|(taken, _)| *taken == name.as_ref());
            let prefix: &[u8] = if is_taken { b"exported_" } else { b"" };
            attribute(attributes, number, [prefix, name], value);
        }
        for (name, value) in target_labels {
            attribute(attributes, number, [b"", name], value);
        }
    }
}

impl Group {
    /// The point with these labels.
    fn point(&mut self, attributes: &[u8]) -> &mut GroupPoint {
        let hash = hash_all([self.name.as_slice(), attributes]);
        let index = *self.places.entry(hash).or_insert(self.points.len());
        if index == self.points.len() {
            let (attributes, parts) = (attributes.to_vec(), Vec::new());
            self.points.push(GroupPoint { hash, attributes, parts, sum: None, count: None, created: None });
        }
        &mut self.points[index]
    }
}

/// The fields of a metric before its data.
fn head(out: &mut Encoder, name: &[u8], help: &[u8], unit: &[u8]) {
    out.bytes(metric::NAME, name);
    if !help.is_empty() {
        out.bytes(metric::DESCRIPTION, &valid(&unescaped(help)));
    }
    if !unit.is_empty() {
        out.bytes(metric::UNIT, &valid(unit));
    }
}

/// Text that is valid UTF-8, whatever a page says.
fn valid(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(text).into_owned().into_bytes()
}

fn attribute(out: &mut Encoder, number: u32, [prefix, name]: [&[u8]; 2], value: &[u8]) {
    let text = 1 + varint_len(value.len() as u64) + value.len();
    let key = prefix.len() + name.len();
    out.header(number, 1 + varint_len(key as u64) + key + 1 + varint_len(text as u64) + text);
    out.header(key_value::KEY, key);
    out.raw(prefix);
    out.raw(name);
    out.header(key_value::VALUE, text);
    out.bytes(any_value::STRING_VALUE, value);
}

/// A place among the metrics. They are smaller than a page can make them: see the limit of its size.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn shifted(slot: u32, by: isize) -> u32 {
    offset((slot as usize).saturating_add_signed(by))
}
