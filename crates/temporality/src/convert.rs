//! One pass over a request: every metric that is converted gets an edit, everything else stays.

use std::borrow::Cow;

use weir_otlp::build::Encoder;
use weir_otlp::common::Message;
use weir_otlp::metrics::{Data, Metric, ResourceMetrics, ScopeMetrics, resource_metrics};
use weir_otlp::splice::{Edit, splice};
use weir_otlp::{Error, Signal};

use crate::Converted;
use crate::counts::Counts;
use crate::identity::Common;
use crate::point::{self, Kind, Point};
use crate::series::{Observation, Store};
use crate::undo::Undo;

const AGGREGATION_TEMPORALITY: u32 = 2;
const DELTA: i32 = 1;
const CUMULATIVE: i32 = 2;

pub(crate) fn convert<'a>(store: &mut Store, request: &'a [u8], now: u64) -> Result<Converted<'a>, Error> {
    store.set_now(now);
    let mut pass = Pass {
        request,
        store,
        written: Encoder::default(),
        changes: Vec::new(),
        counts: Counts::default(),
        undo: Undo::default(),
    };
    for resource in resource_metrics(request) {
        pass.resource(Message::request(request), resource);
    }
    pass.finish()
}

/// A change to the request whose fields are not where an edit could borrow them yet.
struct Planned<'a> {
    holder: Message<'a>,
    message: Message<'a>,
    /// What takes the place of the message, in `Pass::written`; `None` to remove it.
    fields: Option<std::ops::Range<usize>>,
}

struct Pass<'a, 'store> {
    request: &'a [u8],
    store: &'store mut Store,
    /// Converted metrics, one after the other.
    written: Encoder,
    changes: Vec<Planned<'a>>,
    counts: Counts,
    undo: Undo,
}

impl<'a> Pass<'a, '_> {
    fn resource(&mut self, holder: Message<'a>, resource: ResourceMetrics<'a>) {
        let common = Common::of_resource(resource);
        let mark = self.changes.len();
        let (mut scopes, mut left) = (0, 0);
        for scope in resource.scope_metrics() {
            scopes += 1;
            left += usize::from(self.scope(resource.0, scope, common));
        }
        if scopes > 0 && left == 0 {
            self.remove(mark, holder, resource.0);
        }
    }

    /// Returns whether anything is left of it.
    fn scope(&mut self, holder: Message<'a>, scope: ScopeMetrics<'a>, common: Common) -> bool {
        let common = common.with_scope(scope);
        let mark = self.changes.len();
        let (mut metrics, mut left) = (0, 0);
        for metric in scope.metrics() {
            metrics += 1;
            left += usize::from(self.metric(scope.0, metric, common));
        }
        let empty = metrics > 0 && left == 0;
        if empty {
            self.remove(mark, holder, scope.0);
        }
        !empty
    }

    /// Removes a message of which nothing is left, instead of all that is in it.
    fn remove(&mut self, mark: usize, holder: Message<'a>, message: Message<'a>) {
        self.changes.truncate(mark);
        self.changes.push(Planned { holder, message, fields: None });
    }

    /// Returns whether anything is left of it.
    fn metric(&mut self, holder: Message<'a>, metric: Metric<'a>, common: Common) -> bool {
        let Some(data) = metric.data() else { return true };
        let Some(kind) = self.convertible(data) else { return true };
        let common = common.with_metric(kind, metric);
        let message = data.message();
        if self.written.is_empty() {
            self.written = Encoder::with_capacity(self.request.len());
        }
        let from = self.written.len();
        let open = self.written.open(kind.metric_field(), message.range().len());
        let (mut points, mut left) = (0, 0);
        for field in message.fields() {
            match field.number {
                1 => {
                    points += 1;
                    left += usize::from(message.inner(&field).is_some_and(|point| self.point(kind, point, common)));
                }
                AGGREGATION_TEMPORALITY => {}
                _ => self.written.raw(&self.request[field.start..field.end]),
            }
        }
        self.written.varint(AGGREGATION_TEMPORALITY, u64::from(DELTA.unsigned_abs()));
        self.written.close(open);
        if left > 0 {
            let fields = Some(from..self.written.len());
            self.changes.push(Planned { holder: metric.0, message, fields });
        } else if points > 0 {
            self.changes.push(Planned { holder, message: metric.0, fields: None });
        }
        left > 0 || points == 0
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

    /// Writes the delta that a point is. Returns false when it is none.
    fn point(&mut self, kind: Kind, message: Message<'a>, common: Common) -> bool {
        let mut point = Point::read(kind, message);
        let Some(value) = point.value.take() else {
            self.counts.dropped.no_value += 1;
            return false;
        };
        if !value.is_finite() {
            self.counts.passed.not_finite += 1;
            self.written.raw(&self.request[message.field_range()]);
            return true;
        }
        let id = common.series(&point, &value);
        // Without a time, the order in which points come has to do.
        let time = if point.time == 0 { self.store.now } else { point.time };
        let observation = Observation { start: point.start, time, value };
        let delta = self.store.advance(id, observation, &mut self.counts, &mut self.undo);
        self.store.forget(&mut self.counts.forgotten);
        let Some((start, delta)) = delta else { return false };
        point::write(&mut self.written, self.request, kind, message, start, &delta);
        true
    }

    fn finish(self) -> Result<Converted<'a>, Error> {
        let Self { request, store, written, changes, counts, undo } = self;
        if changes.is_empty() {
            return Ok(Converted { request: Cow::Borrowed(request), counts, undo });
        }
        let written = written.into_bytes();
        let edit = |change: Planned<'a>| match change.fields {
            Some(fields) => Edit::replace(change.holder, change.message, &written[fields]),
            None => Edit::remove(change.holder, change.message),
        };
        match splice(Signal::Metrics, request, changes.into_iter().map(edit).collect()) {
            Ok(request) => Ok(Converted { request: Cow::Owned(request), counts, undo }),
            Err(error) => {
                store.undo(undo);
                Err(error)
            }
        }
    }
}
