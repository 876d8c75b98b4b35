//! Histograms and summaries, whose data points are made of several lines.

use weir_otlp::build::varint_len;
use weir_otlp::field::{
    histogram, histogram_data_point, metric, scope_data, summary, summary_data_point, value_at_quantile,
};

use super::{Draft, GUESS};
use crate::encoding::CUMULATIVE;
use crate::scrape::family::{FamilyMember, Part};
use crate::scrape::known::{Composite, FIXED, KnownLine, LineUse, Missing, hash_all, offset};
use crate::scrape::previous::{ByHash, PreviousPoint};
use crate::scrape::series::Series;
use crate::scrape::start_time::StartTime;
use crate::scrape::text::MetricType;

/// The points of a family of histograms or summaries.
#[derive(Debug)]
pub(super) struct Group<'k> {
    name: Vec<u8>,
    metric_type: MetricType,
    help: Vec<u8>,
    unit: Vec<u8>,
    home: u64,
    points: Vec<GroupPoint<'k>>,
    /// Where they are, by their hashes.
    places: ByHash<usize>,
    /// The metric of the last page whose points belong here as well.
    pub(super) before: Option<usize>,
    /// The place of the point that was copied last, and which composite of the last page that is.
    copied: Option<(usize, usize)>,
}

/// One of them.
#[derive(Debug)]
enum GroupPoint<'k> {
    Read(ReadPoint),
    Copied(CopiedPoint<'k>),
}

/// One that is as it was on the last page, if it has all of its lines.
#[derive(Debug)]
struct CopiedPoint<'k> {
    before: &'k Composite,
    point: PreviousPoint<'k>,
    lines: Vec<usize>,
}

/// One with the lines that make it up.
#[derive(Debug)]
struct ReadPoint {
    hash: u64,
    attributes: Vec<u8>,
    /// Upper bounds of buckets, or quantiles.
    parts: Vec<(f64, usize)>,
    sum: Option<usize>,
    count: Option<usize>,
    created: Option<usize>,
    /// One of the lines has a time.
    is_timed: bool,
}

impl<'k> Draft<'k> {
    /// Whether the line that was pushed last is of the data point that was copied last.
    pub(in crate::scrape) fn copies(&self, composite: usize) -> bool {
        self.group.as_ref().and_then(|group| group.copied).is_some_and(|(_, copied)| copied == composite)
    }

    /// Copies a data point that is made of several lines, the first of which was pushed last.
    pub(in crate::scrape) fn copy_composite(&mut self, index: usize, before: &'k Composite, point: PreviousPoint<'k>) {
        let Some(group) = &mut self.group else { return };
        let place = *group.places.entry(before.hash).or_insert(group.points.len());
        if place == group.points.len() {
            group.points.push(GroupPoint::Copied(CopiedPoint { before, point, lines: Vec::new() }));
        }
        group.copied = Some((place, index));
    }

    /// Adds the line that was pushed last to the data point that was copied last.
    pub(in crate::scrape) fn copy_part(&mut self, before: &KnownLine) {
        let index = self.lines.len() - 1;
        let Some(group) = &mut self.group else { return };
        match group.copied.and_then(|(place, _)| group.points.get_mut(place)) {
            Some(GroupPoint::Copied(point)) => point.lines.push(index),
            _ => self.is_doubtful = true,
        }
        self.lines[index].set_use(before.used_as());
        self.lines[index].slot = before.slot;
    }

    /// Adds a line to the point of its labels.
    pub(super) fn part(&mut self, series: &Series<'_>, member: &FamilyMember<'_, '_>, line: usize) {
        let (left_out, attributes): (&[u8], _) = match member.metric_type {
            MetricType::Summary => (b"quantile", summary_data_point::ATTRIBUTES),
            _ => (b"le", histogram_data_point::ATTRIBUTES),
        };
        self.encode_labels(attributes, series, Some(left_out));
        self.enter_group(member);
        let bound = series.label(left_out).and_then(|text| std::str::from_utf8(text).ok()?.parse::<f64>().ok());
        let point = self.group.as_mut().and_then(|group| group.point(self.attributes.written()));
        let Some(point) = point else {
            self.is_doubtful = true;
            return;
        };
        point.is_timed |= self.lines[line].is_timed();
        match (member.part, bound) {
            (Part::Bucket | Part::Quantile, Some(bound)) => point.parts.push((bound, line)),
            (Part::SumOf, _) => point.sum = Some(line),
            (Part::CountOf, _) => point.count = Some(line),
            (Part::Created, _) => point.created = Some(line),
            _ => {}
        }
    }

    /// Begins a family of histograms or summaries if it is not the one that is being written.
    pub(super) fn enter_group(&mut self, member: &FamilyMember<'_, '_>) -> &mut Group<'k> {
        let is_open = self
            .group
            .as_ref()
            .is_some_and(|group| group.name == member.name && group.metric_type == member.metric_type);
        if !is_open {
            self.end_family();
        }
        self.group.get_or_insert_with(|| Group {
            name: member.name.to_vec(),
            metric_type: member.metric_type,
            help: member.help.to_vec(),
            unit: member.unit.to_vec(),
            home: self.home,
            points: Vec::new(),
            places: ByHash::default(),
            before: None,
            copied: None,
        })
    }

    pub(super) fn write_group(&mut self, group: Group<'k>) {
        let is_summary = group.metric_type == MetricType::Summary;
        let metric = self.out.open(scope_data::ITEMS, GUESS);
        self.head(&group.name, group.metric_type, &group.help, &group.unit);
        let data = self.out.open(if is_summary { metric::SUMMARY } else { metric::HISTOGRAM }, GUESS);
        let first = self.composites.len();
        for point in &group.points {
            match point {
                GroupPoint::Copied(point) => self.copied_point(point),
                GroupPoint::Read(point) if is_summary => self.summary_point(point),
                GroupPoint::Read(point) => self.histogram_point(point),
            }
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
    fn move_group(&mut self, group: &Group<'_>, first: usize, moved: isize) {
        self.composites[first..].iter_mut().for_each(|composite| composite.shift(moved));
        for point in &group.points {
            match point {
                GroupPoint::Copied(point) => self.move_lines(point.lines.iter().copied(), moved),
                GroupPoint::Read(point) => {
                    let parts = point.parts.iter().map(|(_, line)| *line);
                    self.move_lines(parts.chain(point.sum).chain(point.count).chain(point.created), moved);
                }
            }
        }
    }

    fn copied_point(&mut self, point: &CopiedPoint<'_>) {
        let by = self.at().cast_signed() - point.point.start.cast_signed();
        self.is_doubtful |= point.lines.len() != point.before.lines as usize;
        self.out.raw(point.point.field);
        self.move_lines(point.lines.iter().copied(), by);
        let mut composite = *point.before;
        composite.shift(by);
        composite.is_timed = point.lines.iter().any(|line| self.lines[*line].is_timed());
        self.composites.push(composite);
    }

    /// Start time, time, count and sum, which are the same in histograms and summaries.
    /// `parts`: how many lines there are beside those of the count, the sum and the start time.
    fn begin_composite(&mut self, point: &ReadPoint, parts: usize, missing: Missing) {
        let lines = parts + [point.sum, point.count, point.created].iter().flatten().count();
        self.out.fixed64(histogram_data_point::START_TIME_UNIX_NANO, 0);
        let slot = offset(self.at() - 8);
        self.out.fixed64(histogram_data_point::TIME_UNIX_NANO, 0);
        self.out.fixed64(histogram_data_point::COUNT, 0);
        let count = offset(self.at() - 8);
        self.set(point.count, LineUse::Count);
        if point.sum.is_some() {
            self.out.fixed64(histogram_data_point::SUM, 0);
            self.set(point.sum, LineUse::Fraction);
        }
        if let Some(line) = point.created {
            self.lines[line].set_use(LineUse::Created);
            self.lines[line].slot = slot;
        }
        self.composites.push(Composite {
            hash: point.hash,
            start_time: StartTime::default(),
            slot,
            count,
            buckets: 0,
            bucket_count: 0,
            lines: offset(lines),
            missing,
            is_created: point.created.is_some(),
            is_timed: point.is_timed,
        });
    }

    /// The eight bytes that were written last come of this line.
    fn set(&mut self, line: Option<usize>, used_as: LineUse) {
        let Some(line) = line else { return };
        self.lines[line].set_use(used_as);
        self.lines[line].slot = offset(self.at() - 8);
    }

    fn summary_point(&mut self, point: &ReadPoint) {
        let quantile_bytes = 2 * FIXED;
        let quantiles = point.parts.len() * (1 + varint_len(quantile_bytes as u64) + quantile_bytes);
        let sum = if point.sum.is_some() { FIXED } else { 0 };
        self.out.header(summary::DATA_POINTS, 3 * FIXED + sum + quantiles + point.attributes.len());
        self.begin_composite(point, point.parts.len(), Missing::Nothing);
        let mut parts = point.parts.clone();
        parts.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        for (quantile, line) in parts {
            self.out.header(summary_data_point::QUANTILE_VALUES, quantile_bytes);
            self.out.fixed64(value_at_quantile::QUANTILE, quantile.to_bits());
            self.out.fixed64(value_at_quantile::VALUE, 0);
            self.set(Some(line), LineUse::Fraction);
        }
        self.out.raw(&point.attributes);
    }

    fn histogram_point(&mut self, point: &ReadPoint) {
        let mut parts = point.parts.clone();
        parts.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        parts.dedup_by_key(|(bound, _)| bound.to_bits());
        let infinite = parts.pop_if(|(bound, _)| *bound == f64::INFINITY);
        // If `_count` and the `+Inf` bucket disagree, `_count` wins.
        let missing = match (infinite, point.count) {
            (_, Some(_)) => Missing::LastBucket,
            (Some(_), None) => Missing::Count,
            (None, None) => Missing::Both,
        };
        let buckets = parts.len() + 1;
        let (bounds, counts) = (8 * parts.len(), 8 * buckets);
        let packed = |bytes: usize| if bytes == 0 { 0 } else { 1 + varint_len(bytes as u64) + bytes };
        let sum = if point.sum.is_some() { FIXED } else { 0 };
        let length = 3 * FIXED + sum + packed(bounds) + packed(counts) + point.attributes.len();
        self.out.header(histogram::DATA_POINTS, length);
        self.begin_composite(point, parts.len() + usize::from(infinite.is_some()), missing);
        self.out.header(histogram_data_point::BUCKET_COUNTS, counts);
        let first = offset(self.at());
        if let Some(composite) = self.composites.last_mut() {
            (composite.buckets, composite.bucket_count) = (first, offset(buckets));
        }
        for line in parts.iter().map(|(_, line)| Some(*line)).chain([infinite.map(|(_, line)| line)]) {
            self.out.raw(&[0; 8]);
            self.set(line, LineUse::Count);
        }
        if bounds > 0 {
            self.out.header(histogram_data_point::EXPLICIT_BOUNDS, bounds);
            parts.iter().for_each(|(bound, _)| self.out.raw(&bound.to_bits().to_le_bytes()));
        }
        self.out.raw(&point.attributes);
    }
}

impl Group<'_> {
    /// The point with these labels. `None` when it was copied.
    fn point(&mut self, attributes: &[u8]) -> Option<&mut ReadPoint> {
        let hash = hash_all([self.name.as_slice(), attributes, &self.home.to_le_bytes()]);
        let index = *self.places.entry(hash).or_insert(self.points.len());
        if index == self.points.len() {
            let (attributes, parts) = (attributes.to_vec(), Vec::new());
            let (sum, count, created, is_timed) = (None, None, None, false);
            let point = ReadPoint { hash, attributes, parts, sum, count, created, is_timed };
            self.points.push(GroupPoint::Read(point));
        }
        match &mut self.points[index] {
            GroupPoint::Read(point) => Some(point),
            GroupPoint::Copied(_) => None,
        }
    }
}
