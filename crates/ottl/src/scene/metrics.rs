//! Metrics as a whole: their points replaced, and new metrics added behind them.

use std::borrow::Cow;

use weir_otlp::build::Encoder;
use weir_otlp::field::sum;

use super::{Scene, TOO_LARGE, codec};
use crate::context::{Level, PointKind};
use crate::draft::{Draft, Scalar};
use crate::patch::{Patches, Place};
use crate::value::{Failure, allocated, wire};

/// Numbers of the fields of `Gauge` and its like.
const POINTS: u32 = sum::DATA_POINTS;
const TEMPORALITY: u32 = sum::AGGREGATION_TEMPORALITY;
const IS_MONOTONIC: u32 = sum::IS_MONOTONIC;

/// Bytes that a metric takes beside its body.
const OVERHEAD: isize = 16;

/// The most bytes by which a member of `Metric.data` grows beside its points: two properties and a longer length.
const PROPERTIES: isize = 8;

/// Most metrics have fewer points than this. The list for a metric with very many is not kept for the others.
const KEPT_POINTS: usize = 256;

/// What becomes of metrics as a whole.
#[derive(Debug, Default)]
pub(crate) struct Metrics<'a> {
    /// Where the member of `Metric.data` stands, if there is one.
    data: Option<Place>,
    /// Whether the draft of that member stands for all of it.
    replaced: bool,
    /// Points of the metric that were changed and left, by their position.
    left: Vec<(usize, Vec<u8>)>,
    /// Whether there was no memory for all of those.
    forgets: bool,
    /// Memory that these points take, and the metrics that were added.
    left_held: usize,
    added_held: usize,
    /// Position of the current point.
    point: usize,
    /// Bodies of the metrics that were added to the current scope.
    added: Vec<&'a [u8]>,
}

impl<'a> Scene<'a> {
    /// Starts with another metric.
    pub(crate) fn begin_metric(&mut self, data: Option<(u32, Place)>) {
        self.data = data.map_or(0, |(number, _)| number);
        self.point = PointKind::of_data(self.data).unwrap_or(PointKind::Number);
        self.metrics.data = data.map(|(_, place)| place);
        self.metrics.replaced = false;
        self.forget_points();
        self.begin(Level::Data, self.metrics.data, 0);
    }

    fn forget_points(&mut self) {
        self.metrics.left.clear();
        self.metrics.left.shrink_to(KEPT_POINTS);
        self.held -= std::mem::take(&mut self.metrics.left_held);
        self.metrics.forgets = false;
        self.metrics.point = 0;
    }

    /// Remembers what became of the current point for the points after it, and goes on to the next.
    pub(crate) fn leave_point(&mut self, place: Place, remember: bool) {
        if remember && self.message(Level::Point).is_changed() {
            let length = (place.end - place.start).saturating_add_signed(self.message(Level::Point).grown());
            // The list is there twice while it grows.
            let taken = allocated(length) + 3 * size_of::<(usize, Vec<u8>)>();
            self.metrics.forgets |= self.check_held(taken).is_err();
            if !self.metrics.forgets {
                let body = rendered(self.message(Level::Point), place);
                self.metrics.left.push((self.metrics.point, body));
                self.metrics.left_held += taken;
                self.held += taken;
            }
        }
        self.metrics.point += 1;
    }

    /// The bodies of the current metric's points as statements left them so far.
    ///
    /// # Errors
    /// When there are too many to look into, or too little memory to remember those before.
    pub(crate) fn points(&mut self) -> Result<Vec<Cow<'a, [u8]>>, Failure> {
        if self.metrics.forgets {
            return Err(TOO_LARGE);
        }
        let scalars = self.draft(Level::Data).repeated(POINTS);
        let mut points: Vec<Cow<'a, [u8]>> = scalars.into_iter().filter_map(codec::body).collect();
        self.check_size()?;
        for (index, body) in &self.metrics.left {
            if let Some(point) = points.get_mut(*index) {
                *point = Cow::Owned(body.clone());
            }
        }
        let current = self.message(Level::Point);
        if let Some(place) = current.place().filter(|_| current.is_changed()) {
            let body = rendered(current, place);
            if let Some(point) = points.get_mut(self.metrics.point) {
                *point = Cow::Owned(body);
            }
        }
        Ok(points)
    }

    /// Accounts for a function that looks at all points of the metric for each of them, which takes the square of
    /// their number. It looks at a multiple of what may be added: what does more can add but little of what it makes.
    ///
    /// # Errors
    /// When that is used up.
    pub(crate) fn look_at_all_points(&mut self) -> Result<(), Failure> {
        let length = self.metrics.data.map_or(0, |data| data.end - data.start);
        let left = self.looks.checked_sub(length);
        self.looks = left.ok_or(Failure::text("statements look at all data points of a metric too often"))?;
        Ok(())
    }

    /// `aggregation_temporality` of the current metric; 0 when it has none.
    pub(crate) fn temporality(&mut self) -> u64 {
        match self.draft(Level::Data).scalar(TEMPORALITY) {
            Some(Scalar::Varint(value)) if !matches!(self.data, 0 | 5 | 11) => value,
            _ => 0,
        }
    }

    /// Gives the current metric other points; everything else in it stays.
    ///
    /// # Errors
    /// When the request would grow too much.
    pub(crate) fn replace_points(&mut self, points: Vec<Cow<'a, [u8]>>) -> Result<(), Failure> {
        self.set_scalars(Level::Data, [(POINTS, Some(Scalar::Repeated(points)))])
    }

    /// Makes the current metric one of another type: its points are in the member `number` of `Metric.data`, which has
    /// this temporality, if any, and perhaps is monotonic.
    ///
    /// # Errors
    /// When the request would grow too much.
    pub(crate) fn convert(
        &mut self,
        number: u32,
        (temporality, is_monotonic): (u64, bool),
        points: Vec<Cow<'a, [u8]>>,
    ) -> Result<(), Failure> {
        let length = |bodies: &[Cow<'a, [u8]>]| bodies.iter().map(|body| wire::field_len(body.len())).sum::<usize>();
        let before = length(&self.points()?);
        let grown = length(&points).cast_signed() - before.cast_signed();
        let points = Scalar::Repeated(points);
        self.check_held(points.heap())?;
        self.spend(if grown > 0 || temporality != 0 { grown + PROPERTIES } else { grown })?;
        self.data = number;
        self.point = PointKind::of_data(number).unwrap_or(PointKind::Number);
        self.metrics.replaced = true;
        self.begin(Level::Data, None, 0);
        let draft = self.draft(Level::Data);
        draft.set_scalar(POINTS, Some(points));
        draft.set_scalar(TEMPORALITY, (temporality != 0).then_some(Scalar::Varint(temporality)));
        draft.set_scalar(IS_MONOTONIC, is_monotonic.then_some(Scalar::Varint(1)));
        self.held += self.message(Level::Data).held();
        Ok(())
    }

    /// Adds a metric behind those of the current scope. Statements come to it when they have seen those.
    ///
    /// # Errors
    /// When the request would grow too much, or too much memory is taken.
    pub(crate) fn add_metric(&mut self, body: &[u8]) -> Result<(), Failure> {
        // Once as it was added, and once as statements that come to it leave it.
        let taken = 2 * allocated(body.len()) + 3 * size_of::<Vec<u8>>();
        self.check_held(taken)?;
        self.spend(body.len().cast_signed() + OVERHEAD)?;
        self.metrics.added_held += taken;
        self.held += taken;
        let arena = self.arena;
        self.metrics.added.push(arena.alloc_slice_copy(body));
        Ok(())
    }

    /// A metric that was added to the current scope, from 0.
    pub(crate) fn added_metric(&self, index: usize) -> Option<&'a [u8]> {
        self.metrics.added.get(index).copied()
    }

    /// Starts with another scope, to which nothing was added.
    pub(crate) fn forget_added_metrics(&mut self) {
        self.metrics.added.clear();
        // What the arena has stays until the end of the request.
        let arena = self.metrics.added_held / 2;
        self.held -= std::mem::take(&mut self.metrics.added_held) - arena;
    }

    /// The body of the current metric as statements left it so far.
    ///
    /// # Errors
    /// When it has too many fields to look into.
    pub(crate) fn metric(&mut self) -> Result<Vec<u8>, Failure> {
        self.draft(Level::Item);
        self.draft(Level::Data);
        self.check_size()?;
        let draft = self.message(Level::Item);
        let (source, Some(place)) = (draft.source(), draft.place()) else { return Ok(Vec::new()) };
        let mut patches = Patches::default();
        self.write_metric(place, 0, &mut patches);
        Ok(patches.apply_within(source, place.start..place.end))
    }

    /// Writes the changes of the current metric, whose points grew by so much already; by how much its body grew, and
    /// how much of that is the length of its data.
    pub(crate) fn write_metric(&self, place: Place, points_grown: isize, patches: &mut Patches<'_>) -> (isize, isize) {
        let draft = &self.drafts[Level::Data.index()];
        let (mut grown, mut length) = (0, 0);
        match self.metrics.data {
            Some(data) if self.metrics.replaced => {
                grown = patches.replace(data.field(), |out| {
                    let open = out.open(self.data, data.end - data.start);
                    draft.encode_new(out);
                    out.close(open);
                });
            }
            Some(data) => {
                let inner = points_grown + if draft.is_changed() { draft.finish(data, patches) } else { 0 };
                grown = patches.resize(draft.source(), data, inner);
                length = grown - inner;
            }
            None => {}
        }
        let item = &self.drafts[Level::Item.index()];
        if item.is_changed() {
            grown += item.finish(place, patches);
        }
        (grown, length)
    }

    /// Takes bytes from what statements may add, or gives some back.
    fn spend(&mut self, grown: isize) -> Result<(), Failure> {
        self.check_size()?;
        self.check_growth(grown)?;
        self.budget -= grown;
        Ok(())
    }
}

/// The body of a message with its changes.
fn rendered(draft: &Draft<'_>, place: Place) -> Vec<u8> {
    let mut patches = Patches::default();
    draft.finish(place, &mut patches);
    patches.apply_within(draft.source(), place.start..place.end)
}

/// The body of a metric with another text in one of its fields.
pub(crate) fn with_text(metric: &[u8], number: u32, text: &str) -> Vec<u8> {
    let scalar = (!text.is_empty()).then_some(Scalar::Len(Cow::Borrowed(text.as_bytes())));
    codec::with_inner(metric, number, scalar.as_ref())
}

/// The body of a metric: name, description and unit, and points in the member `number` of `Metric.data`.
pub(crate) fn build(
    texts: [&str; 3],
    number: u32,
    properties: Option<(u64, bool)>,
    points: impl FnOnce(&mut Encoder),
) -> Vec<u8> {
    let mut out = Encoder::default();
    for (number, text) in (1..).zip(texts) {
        if !text.is_empty() {
            out.bytes(number, text.as_bytes());
        }
    }
    let data = out.open(number, 0);
    points(&mut out);
    if let Some((temporality, is_monotonic)) = properties {
        out.varint(TEMPORALITY, temporality);
        if is_monotonic {
            out.varint(IS_MONOTONIC, 1);
        }
    }
    out.close(data);
    out.into_bytes()
}
