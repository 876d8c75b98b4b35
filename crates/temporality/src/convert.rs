//! One pass over a request: every metric that is converted is written again, everything else stays as it is.

use std::borrow::Cow;

use weir_otlp::common::Message;
use weir_otlp::field::{request, resource_data, scope_data, sum};
use weir_otlp::metrics::{Data, Metric, ResourceMetrics, ScopeMetrics};
use weir_otlp::rewrite::{Grown, Pass, Rewriter};
use weir_otlp::{NoRoom, Room};

use crate::Converted;
use crate::counts::Counts;
use crate::identity::Common;
use crate::point::{self, Kind, Point};
use crate::series::{Observation, SeriesTable, Traces};
use crate::undo::{Step, Undo};

const AGGREGATION_TEMPORALITY: u32 = sum::AGGREGATION_TEMPORALITY;
const DELTA: i32 = 1;
const CUMULATIVE: i32 = 2;

/// Fields of their holders.
const RESOURCES: u32 = request::RESOURCES;
const SCOPES: u32 = resource_data::SCOPES;
const METRICS: u32 = scope_data::ITEMS;

/// The memory that a data point may take while its delta is calculated, as a multiple of its size: the counts of its
/// buckets, those of the point before it at the same resolution, and their difference, each while it grows.
const SCRATCH: usize = 8;

/// Most points are smaller.
const LEAST_SCRATCH: usize = 16 << 10;

pub(crate) fn convert<'a>(
    table: &mut SeriesTable,
    request: &'a [u8],
    now: u64,
    room: Room<'_>,
) -> Result<Converted<'a>, NoRoom> {
    table.set_now(now);
    table.conversion += 1;
    let rewriter = Rewriter::new(request);
    let counts = Counts { forgotten: std::mem::take(&mut table.uncounted), ..Counts::default() };
    let traces = Traces::default();
    let mut pass = Conversion { request, table, room, scratch: 0, rewriter, counts, traces };
    let done = pass.request();
    let Conversion { table, mut room, rewriter, counts, traces: Traces { steps, relies_until }, .. } = pass;
    let made = done.and_then(|()| match rewriter.is_changed() {
        true => rewriter.finish(&mut room).map(Cow::Owned),
        false => Ok(Cow::Borrowed(request)),
    });
    match made {
        Ok(request) => {
            let reliance = (relies_until > 0).then(|| table.conversions.rely_on(relies_until));
            let undo = Undo { steps, open: table.conversions.open(table.conversion) };
            Ok(Converted { request, counts, undo, reliance })
        }
        Err(no_room) => {
            let undone = table.undo(steps);
            table.uncounted = counts.forgotten;
            table.uncounted.add(&undone.forgotten);
            table.uncounted.owed += undone.lost;
            Err(no_room)
        }
    }
}

struct Conversion<'a, 'table, 'room> {
    request: &'a [u8],
    table: &'table mut SeriesTable,
    room: Room<'room>,
    /// Bytes taken for what is calculated.
    scratch: usize,
    rewriter: Rewriter<'a>,
    counts: Counts,
    traces: Traces,
}

/// What the data of a metric became.
struct Written {
    /// Data points that there were, and that are left.
    points: usize,
    left: usize,
    /// Bytes of the whole field.
    length: usize,
}

impl<'a, 'room> Pass<'a, 'room> for Conversion<'a, '_, 'room> {
    fn output(&mut self) -> (&mut Rewriter<'a>, &mut Room<'room>) {
        (&mut self.rewriter, &mut self.room)
    }
}

impl<'a> Conversion<'a, '_, '_> {
    fn request(&mut self) -> Result<(), NoRoom> {
        self.inside(Message::request(self.request), RESOURCES, |pass, resource| {
            let common = Common::of_resource(ResourceMetrics(resource));
            pass.inside(resource, SCOPES, |pass, scope| {
                let common = common.with_scope(ScopeMetrics(scope));
                pass.inside(scope, METRICS, |pass, metric| pass.metric(Metric(metric), common))
            })
        })?;
        Ok(())
    }

    fn metric(&mut self, metric: Metric<'a>, common: Common) -> Result<Grown, NoRoom> {
        let converted = metric.data().and_then(|data| Some((self.convertible(data)?, data.message())));
        let Some((kind, data)) = converted else { return Ok(Some(0)) };
        let (mark, field) = (self.rewriter.mark(), data.field_range());
        let Written { points, left, length } = self.data(kind, data, common.with_metric(kind, metric))?;
        if left == 0 {
            self.rewriter.back_to(mark);
            return Ok((points == 0).then_some(0));
        }
        Ok(Some(self.rewriter.leave(metric.0, length.cast_signed() - field.len().cast_signed())))
    }

    /// Writes the data of a metric as deltas.
    fn data(&mut self, kind: Kind, data: Message<'a>, common: Common) -> Result<Written, NoRoom> {
        let field = data.field_range();
        self.rewriter.reserve(self.rewriter.gap_before(field.start) + field.len(), &mut self.room)?;
        let out = self.rewriter.replace(field);
        let start = out.len();
        let open = out.open(kind.metric_field(), data.range().len());
        let (mut points, mut left) = (0, 0);
        for field in data.fields() {
            match field.number {
                1 => {
                    points += 1;
                    if let Some(point) = data.inner(&field) {
                        left += usize::from(self.point(kind, data, point, common)?);
                    }
                }
                AGGREGATION_TEMPORALITY => {}
                _ => self.rewriter.out().raw(&self.request[field.start..field.end]),
            }
        }
        let out = self.rewriter.out();
        out.varint(AGGREGATION_TEMPORALITY, u64::from(DELTA.unsigned_abs()));
        out.close(open);
        Ok(Written { points, left, length: out.len() - start })
    }

    /// What to convert it as; otherwise its points are counted as passed.
    fn convertible(&mut self, data: Data<'a>) -> Option<Kind> {
        let temporality = data.aggregation_temporality();
        let passed = &mut self.counts.passed;
        let count = match (data, temporality) {
            (Data::Gauge(_), _) => &mut passed.gauge,
            (Data::Summary(_), _) => &mut passed.summary,
            (_, DELTA) => &mut passed.delta,
            (Data::Sum(_), CUMULATIVE) if !data.is_monotonic() => &mut passed.non_monotonic,
            (Data::Sum(_), CUMULATIVE) => return Some(Kind::Sum),
            (Data::Histogram(_), CUMULATIVE) => return Some(Kind::Histogram),
            (Data::ExponentialHistogram(_), CUMULATIVE) => return Some(Kind::Exponential),
            _ => &mut passed.unspecified,
        };
        *count += data.data_points().count() as u64;
        None
    }

    /// Writes the delta of a point of `data`. Returns false when the point makes no delta.
    fn point(&mut self, kind: Kind, data: Message<'a>, message: Message<'a>, common: Common) -> Result<bool, NoRoom> {
        self.take_scratch(message.range().len())?;
        let mut point = Point::read(kind, message);
        let Some(value) = point.value.take() else {
            self.counts.dropped.no_value += 1;
            return Ok(false);
        };
        if !value.is_finite() {
            self.counts.passed.not_finite += 1;
            self.rewriter.out().raw(&self.request[message.field_range()]);
            return Ok(true);
        }
        let id = common.series(&point, &value);
        // Without a time, the order in which points come has to do.
        let time = if point.time == 0 { self.table.now } else { point.time };
        let observation = Observation { start: point.start, time, value };
        let steps = self.traces.steps.len();
        // Two at most: the point, and what its series was owed.
        self.room.reserve(&mut self.traces.steps, 2)?;
        let delta = self.table.advance(id, observation, &mut self.counts, &mut self.traces);
        self.table.forget(&mut self.counts.forgotten);
        self.room.take(self.traces.steps[steps..].iter().map(Step::heap_bytes).sum())?;
        let Some((start, delta)) = delta else { return Ok(false) };
        // What comes behind it in the data has its place already, but this may be longer than what it was.
        let rest = data.range().end - message.field_range().start;
        self.rewriter.reserve(rest + point::MOST_FIELDS + delta.buckets_bytes(), &mut self.room)?;
        point::write(self.rewriter.out(), self.request, kind, message, start, &delta);
        Ok(true)
    }

    /// Takes room for what is calculated for a point of so many bytes. The room is used again for the next point.
    fn take_scratch(&mut self, point: usize) -> Result<(), NoRoom> {
        let needed = point.saturating_mul(SCRATCH).max(LEAST_SCRATCH);
        if needed > self.scratch {
            self.room.take(needed - self.scratch)?;
            self.scratch = needed;
        }
        Ok(())
    }
}
