//! The lines of the last page, while the next one is read that differs from it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use weir_otlp::common::Message;
use weir_otlp::field::{metric, scope_data};

use super::home;
use super::known::{Composite, Counter, KnownLine, LineUse, Lines, hash};

/// Keys that are hashes already.
pub(super) type ByHash<T> = HashMap<u64, T, HashAsItIs>;

pub(super) type HashAsItIs = BuildHasherDefault<Same>;

/// Takes a hash as it is, and hashes texts.
#[derive(Debug, Default)]
pub(super) struct Same(u64);

/// Most series stand where they stood before, a few lines up or down.
const NEAR: usize = 8;

/// A data point of the last page, or several that follow each other, as encoded, with zeros for numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct PreviousPoint<'k> {
    /// With key and length.
    pub(super) field: &'k [u8],
    /// Where the field begins.
    pub(super) start: usize,
}

/// A metric of the last page.
#[derive(Debug)]
pub(super) struct PreviousMetric<'k> {
    range: Range<usize>,
    pub(super) name: &'k [u8],
    pub(super) is_summary: bool,
}

/// The lines of the last page, and which of them were found again.
#[derive(Debug)]
pub(super) struct Previous<'k> {
    lines: &'k Lines,
    /// Its metrics, which lines have their slots in.
    metrics: &'k [u8],
    all_metrics: Vec<PreviousMetric<'k>>,
    /// Where marks of homes are among them.
    marks: Vec<(usize, u64)>,
    /// For each line, how many counters there are before it.
    ranks: Vec<u32>,
    is_found: Vec<bool>,
    /// Where the next line is likely to be.
    next: usize,
    /// Where the metric is that was asked for last.
    metric: usize,
    /// Where the composite is that was asked for last.
    composite: usize,
    /// The same series may be on several lines.
    has_repeated: bool,
    /// Made when a line is searched for that is not near.
    places: Option<ByHash<usize>>,
}

impl<'k> Previous<'k> {
    /// `has_repeated`: the same series may be on several lines.
    pub(super) fn new(lines: &'k Lines, metrics: &'k [u8], has_repeated: bool) -> Self {
        Self {
            lines,
            metrics,
            all_metrics: Message::request(metrics).messages(scope_data::ITEMS).map(PreviousMetric::new).collect(),
            marks: home::marks(metrics),
            ranks: ranks(&lines.all),
            is_found: vec![false; lines.all.len()],
            next: 0,
            metric: 0,
            composite: 0,
            has_repeated,
            places: None,
        }
    }

    /// How many lines there are.
    pub(super) fn count(&self) -> usize {
        self.lines.all.len()
    }

    /// How long its metrics are.
    pub(super) fn length(&self) -> usize {
        self.metrics.len()
    }

    /// The line that is likely to be next.
    pub(super) fn likely(&self) -> Option<(usize, &'k KnownLine)> {
        let line = self.lines.all.get(self.next)?;
        // Of several lines with the same series, all but the first are left out.
        (line.used_as() != LineUse::Skipped || !self.has_repeated).then_some((self.next, line))
    }

    /// The first line with this hash.
    pub(super) fn find(&mut self, hash: u64) -> Option<usize> {
        let all = &self.lines.all;
        let near = all.iter().skip(self.next).take(NEAR).position(|line| line.hash == hash);
        if let Some(at) = near.filter(|_| !self.has_repeated) {
            return Some(self.next + at);
        }
        let places = self.places.get_or_insert_with(|| {
            let mut places = ByHash::with_capacity_and_hasher(all.len(), BuildHasherDefault::default());
            for (index, line) in all.iter().enumerate() {
                places.entry(line.hash).or_insert(index);
            }
            places
        });
        places.get(&hash).copied()
    }

    /// Notes that a line was found. Returns whether that is the first time.
    pub(super) fn found(&mut self, index: usize) -> bool {
        self.next = index + 1;
        !std::mem::replace(&mut self.is_found[index], true)
    }

    /// The line `next`, if it has a data point of its own as the line `first` before it has, in the same metric, and was
    /// not found yet.
    pub(super) fn following(&mut self, first: usize, next: usize) -> Option<&'k KnownLine> {
        let (first, line) = (self.line(first), self.lines.all.get(next)?);
        let is_like = line.used_as() == first.used_as() && line.point().is_some() && !self.is_found[next];
        let (_, metric) = self.metric(first.slot)?;
        (is_like && metric.range.contains(&(line.slot as usize))).then_some(line)
    }

    /// Notes that lines were found that follow each other in a metric. Returns their data points.
    pub(super) fn take(&mut self, lines: Range<usize>) -> Option<(PreviousPoint<'k>, &'k [KnownLine])> {
        let taken = self.lines.all.get(lines.clone())?;
        let (first, last) = (self.point(taken.first()?.point()?)?, self.point(taken.last()?.point()?)?);
        let field = self.metrics.get(first.start..last.start + last.field.len())?;
        self.next = lines.end;
        self.is_found[lines].fill(true);
        Some((PreviousPoint { field, start: first.start }, taken))
    }

    pub(super) fn line(&self, index: usize) -> &'k KnownLine {
        &self.lines.all[index]
    }

    /// What is known of a line if it is a counter.
    pub(super) fn counter(&self, index: usize) -> Counter {
        let is_counter = self.line(index).used_as() == LineUse::Counter;
        if is_counter { self.lines.counters[self.ranks[index] as usize] } else { Counter::default() }
    }

    /// The metric in which this slot is.
    pub(super) fn metric(&mut self, slot: u32) -> Option<(usize, &PreviousMetric<'k>)> {
        let slot = slot as usize;
        if !self.all_metrics.get(self.metric).is_some_and(|metric| metric.range.contains(&slot)) {
            self.metric = self.all_metrics.partition_point(|metric| metric.range.end <= slot);
        }
        self.all_metrics.get(self.metric).map(|metric| (self.metric, metric))
    }

    /// The data point in which this slot is, if it is one of several lines.
    pub(super) fn composite(&mut self, slot: u32) -> Option<(usize, &'k Composite)> {
        let all = &self.lines.composites;
        let is_there = |index: usize| {
            let is_behind = all.get(index + 1).is_none_or(|next| slot < next.slot);
            is_behind && all.get(index).is_some_and(|composite| composite.slot <= slot)
        };
        if !is_there(self.composite) {
            self.composite = all.partition_point(|composite| composite.slot <= slot).checked_sub(1)?;
        }
        // Behind the composites of a metric, there may be points of other metrics.
        let composite = &all[self.composite];
        let (_, metric) = self.metric(slot)?;
        metric.range.contains(&(composite.slot as usize)).then_some((self.composite, composite))
    }

    /// The data point whose body begins there, as it was encoded.
    pub(super) fn point(&self, body: usize) -> Option<PreviousPoint<'k>> {
        // The length stands before the body, in as few bytes as it needs; points have at least two fields.
        let mut width = 1;
        while width < 5 && self.metrics.get(body - width - 1) != Some(&KEY) {
            width += 1;
        }
        let start = body - width - 1;
        let length = self.metrics.get(body - width..body)?;
        let length = length.iter().rev().fold(0_usize, |length, byte| length << 7 | usize::from(byte & 0x7f));
        Some(PreviousPoint { field: self.metrics.get(start..body + length)?, start })
    }

    /// Tells composites what they were last time, but for those that were copied.
    pub(super) fn tell(&self, composites: &mut [Composite]) {
        if composites.iter().all(|composite| composite.start_time.is_known()) {
            return;
        }
        let known: ByHash<&Composite> = self.lines.composites.iter().map(|before| (before.hash, before)).collect();
        for composite in composites {
            if let Some(before) = known.get(&composite.hash) {
                composite.start_time = before.start_time;
            }
        }
    }

    /// The id of the home of the data point in which this slot is.
    pub(super) fn home(&self, slot: u32) -> u64 {
        let before = self.marks.partition_point(|(start, _)| *start < slot as usize);
        before.checked_sub(1).map_or(0, |last| self.marks[last].1)
    }

    /// The points that were not found again, whose series are stale, in order. `tracks_times`: those with times of the page are among them.
    /// `composites`: those of the new page.
    pub(super) fn stale_points(&self, tracks_times: bool, composites: &[Composite]) -> Vec<PreviousPoint<'k>> {
        let is_tracked = |is_timed: bool| tracks_times || !is_timed;
        let present: ByHash<()> = composites.iter().map(|composite| (composite.hash, ())).collect();
        let lines = self.lines.all.iter().zip(&self.is_found).filter(|(_, is_found)| !**is_found);
        let lines = lines.filter(|(line, _)| is_tracked(line.is_timed())).filter_map(|(line, _)| line.point());
        let composites = self.lines.composites.iter().filter(|composite| !present.contains_key(&composite.hash));
        let composites = composites.filter(|composite| is_tracked(composite.is_timed));
        let mut points: Vec<usize> = lines.chain(composites.map(Composite::point)).collect();
        points.sort_unstable();
        points.into_iter().filter_map(|body| self.point(body)).collect()
    }
}

impl<'k> PreviousMetric<'k> {
    fn new(message: Message<'k>) -> Self {
        let mut metric = Self { range: message.range(), name: b"", is_summary: false };
        for field in message.fields() {
            match field.number {
                metric::NAME => metric.name = field.body().unwrap_or_default(),
                metric::SUMMARY => metric.is_summary = true,
                _ => {}
            }
        }
        metric
    }
}

fn ranks(lines: &[KnownLine]) -> Vec<u32> {
    let mut counters = 0;
    let rank = |line: &KnownLine| {
        let rank = counters;
        counters += u32::from(line.used_as() == LineUse::Counter);
        rank
    };
    lines.iter().map(rank).collect()
}

/// The key of a data point in its metric.
const KEY: u8 = weir_otlp::field::short_key(weir_otlp::field::gauge::DATA_POINTS, weir_otlp::cursor::WireType::Len);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = self.0.rotate_left(8) ^ hash(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
