//! The last hour, second by second: what came, what went, what was lost, what waits. In memory of a fixed size.
//!
//! Everybody's points are at the same times. When there are so many pipelines that an hour of seconds has no room, points
//! become coarser: two become one, of all pipelines, again and again until they fit.

use std::collections::{BTreeMap, VecDeque};

use weir_plan::PipelineId;

/// What is remembered.
const HOUR: u32 = 3600;
/// Coarser points tell nothing of what was sudden. With more pipelines, some are left out.
const COARSEST: u32 = 64;
/// What a pipeline takes beside its points: its name, and its place.
const PIPELINE_BYTES: usize = 256;

/// Items of a pipeline since its start, and those that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Taken over from clients and sources.
    pub accepted: u64,
    /// Taken by the backend.
    pub delivered: u64,
    /// Given up, or refused by the backend for good.
    pub lost: u64,
    /// Owed now.
    pub pending: u64,
}

/// What happened between two points in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Point {
    /// Items that came.
    pub accepted: u32,
    /// Items that went.
    pub delivered: u32,
    /// Items that were lost.
    pub lost: u32,
    /// Items that were owed at its end.
    pub pending: u32,
}

impl Point {
    fn between(before: Totals, now: Totals) -> Self {
        let grown = |before: u64, now: u64| narrow(now.saturating_sub(before));
        Self {
            accepted: grown(before.accepted, now.accepted),
            delivered: grown(before.delivered, now.delivered),
            lost: grown(before.lost, now.lost),
            pending: narrow(now.pending),
        }
    }

    /// Both as one.
    fn and(self, next: Self) -> Self {
        Self {
            accepted: self.accepted.saturating_add(next.accepted),
            delivered: self.delivered.saturating_add(next.delivered),
            lost: self.lost.saturating_add(next.lost),
            pending: next.pending,
        }
    }
}

/// More than four thousand million items in a minute are told as that many.
fn narrow(items: u64) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

/// The points of a pipeline.
#[derive(Debug, Default)]
struct Line {
    last: Totals,
    /// The newest at the end.
    points: VecDeque<Point>,
    /// What has happened since the last whole point.
    begun: Option<Point>,
}

/// See the module.
#[derive(Debug)]
pub struct History {
    most_bytes: usize,
    /// Seconds of a point: a power of two.
    step: u32,
    /// Seconds of the point that has begun.
    begun: u32,
    /// When the last whole point ended, in seconds since the Unix epoch.
    ends: u64,
    lines: BTreeMap<PipelineId, Line>,
    left_out: usize,
}

impl History {
    /// One that takes at most so much memory.
    pub fn new(most_bytes: usize) -> Self {
        Self { most_bytes, step: 1, begun: 0, ends: 0, lines: BTreeMap::new(), left_out: 0 }
    }

    /// Seconds of a point.
    pub fn step(&self) -> u32 {
        self.step
    }

    /// When the newest points ended, in seconds since the Unix epoch.
    pub fn ends(&self) -> u64 {
        self.ends
    }

    /// Pipelines for which there is no room.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Every pipeline with its points, the oldest first.
    pub fn lines(&self) -> impl Iterator<Item = (&PipelineId, impl ExactSizeIterator<Item = Point> + '_)> {
        self.lines.iter().map(|(id, line)| (id, line.points.iter().copied()))
    }

    /// Takes what is true now, a second after the last call. A pipeline that is not there any more does nothing, and is
    /// forgotten when it did nothing for as long as anything is remembered.
    pub fn record(&mut self, unix_seconds: u64, all: &[(PipelineId, Totals)]) {
        let now: BTreeMap<&PipelineId, Totals> = all.iter().map(|(id, totals)| (id, *totals)).collect();
        self.admit(&now);
        self.begun += 1;
        let (is_whole, most) = (self.begun >= self.step, self.most_points());
        for (id, line) in &mut self.lines {
            let totals = now.get(id).copied().unwrap_or(Totals { pending: 0, ..line.last });
            let point = Point::between(line.last, totals);
            line.last = totals;
            line.begun = Some(line.begun.map_or(point, |begun| begun.and(point)));
            if is_whole {
                line.points.drain(..(line.points.len() + 1).saturating_sub(most));
                line.points.extend(line.begun.take());
            }
        }
        if is_whole {
            (self.begun, self.ends) = (0, unix_seconds);
            let did_something = |line: &Line| line.points.iter().any(|point| *point != Point::default());
            self.lines.retain(|id, line| now.contains_key(id) || did_something(line));
        }
    }

    /// Begins with pipelines that are new. What was before nobody has seen.
    fn admit(&mut self, now: &BTreeMap<&PipelineId, Totals>) {
        let new: Vec<_> = now.iter().filter(|(id, _)| !self.lines.contains_key(**id)).collect();
        while self.room() < self.lines.len() + new.len() && self.step < COARSEST {
            self.coarsen();
        }
        let free = self.room().saturating_sub(self.lines.len());
        self.left_out = new.len().saturating_sub(free);
        for (id, totals) in new.into_iter().take(free) {
            self.lines.insert((*id).clone(), Line { last: *totals, ..Line::default() });
        }
    }

    /// Pipelines that there is room for.
    fn room(&self) -> usize {
        self.most_bytes / (PIPELINE_BYTES + self.most_points() * size_of::<Point>())
    }

    fn most_points(&self) -> usize {
        (HOUR / self.step) as usize
    }

    /// Two points become one. The newest are whole; of an odd number, the oldest goes.
    fn coarsen(&mut self) {
        self.step *= 2;
        for line in self.lines.values_mut() {
            let points = line.points.make_contiguous();
            let whole = &points[points.len() % 2..];
            line.points = whole.chunks_exact(2).map(|pair| pair[0].and(pair[1])).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_plan::Signal;

    use super::*;

    fn id(name: usize) -> PipelineId {
        PipelineId::new(Signal::Traces, format!("p{name}"))
    }

    fn totals(accepted: u64) -> Totals {
        Totals { accepted, delivered: accepted / 2, lost: 0, pending: accepted - accepted / 2 }
    }

    fn points(history: &History, name: usize) -> Vec<Point> {
        let line = history.lines().find(|(of, _)| **of == id(name));
        line.map(|(_, points)| points.collect()).unwrap_or_default()
    }

    #[test]
    fn each_second_is_told_and_an_hour_is_remembered() {
        let mut history = History::new(1 << 20);
        for second in 0..4000 {
            history.record(second, &[(id(0), totals(1000 + second * 10))]);
        }
        let points = points(&history, 0);
        assert_eq!((points.len(), history.step(), history.ends()), (3600, 1, 3999));
        assert!(points.iter().all(|point| point.accepted == 10 && point.delivered == 5));
        assert_eq!(points.last().unwrap().pending, 20_495);
    }

    #[test]
    fn what_was_before_somebody_looked_did_not_happen_at_once() {
        let mut history = History::new(1 << 20);
        history.record(1, &[(id(0), totals(1_000_000))]);
        assert_eq!((points(&history, 0)[0].accepted, points(&history, 0)[0].pending), (0, 500_000));
    }

    #[test]
    fn with_many_pipelines_points_are_coarser_and_tell_the_same() {
        let mut history = History::new(200_000);
        let one =
            |second: u64, count: usize| -> Vec<_> { (0..count).map(|name| (id(name), totals(second * 10))).collect() };
        for second in 0..101 {
            history.record(second, &one(second, 1));
        }
        assert_eq!(history.step(), 1);
        for second in 101..200 {
            history.record(second, &one(second, 20));
        }
        assert_eq!((history.step(), history.left_out()), (8, 0));
        let told: u32 = points(&history, 0).iter().map(|point| point.accepted).sum();
        assert!((1800..=1990).contains(&told), "{told}");
        let bytes = 20 * (PIPELINE_BYTES + history.most_points() * size_of::<Point>());
        assert!(bytes <= 200_000);
        history.record(200, &one(200, 1000));
        assert!(history.left_out() > 0 && history.lines().count() < 1000);
    }

    #[test]
    fn a_pipeline_that_is_gone_is_forgotten_when_nothing_is_told_of_it() {
        let mut history = History::new(1 << 20);
        history.record(0, &[(id(0), totals(0)), (id(1), totals(0))]);
        history.record(1, &[(id(0), totals(10)), (id(1), totals(10))]);
        for second in 2..3600 {
            history.record(second, &[(id(0), totals(10))]);
        }
        assert_eq!(points(&history, 1)[1], Point { accepted: 10, delivered: 5, lost: 0, pending: 5 });
        assert_eq!(points(&history, 1)[2].pending, 0, "it owes nothing any more here");
        for second in 3600..3603 {
            history.record(second, &[(id(0), totals(10))]);
        }
        assert_eq!(history.lines().count(), 1);
    }
}
