//! What a statement sees: the messages around one item, the cache, the parameters of lambdas.

use std::borrow::Cow;

use bumpalo::Bump;

use crate::context::{LEVELS, Level, PointKind};
use crate::draft::Draft;
use crate::patch::Place;
use crate::value::{Entries, Failure, Value};
use crate::walk::CHILDREN;

pub(crate) mod access;
mod codec;
pub(crate) mod eval;
pub(crate) mod maps;
pub(crate) mod metrics;
mod trace_state;

/// See the module. It lives as long as one request is worked on.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    /// What is walked over: the request, or a metric that was added to it.
    pub(crate) request: &'a [u8],
    /// Where metrics live that statements add.
    arena: &'a Bump,
    drafts: [Draft<'a>; LEVELS],
    /// Which of them have more fields than are looked into.
    oversized: [bool; LEVELS],
    /// Type of the current data point.
    pub(crate) point: PointKind,
    /// `Metric.data`: number of the member that is present; 0 when there is none.
    pub(crate) data: u32,
    /// Metrics that statements changed as a whole, and added.
    pub(crate) metrics: metrics::Metrics<'a>,
    /// Position of the current event or exemplar among its like.
    pub(crate) leaf_index: i64,
    pub(crate) cache: Entries<'a>,
    /// Parameters of the lambdas that are being evaluated.
    pub(crate) locals: Vec<Value<'a>>,
    /// Nanoseconds since the Unix epoch, the same for the whole request.
    pub(crate) now: i128,
    /// Bytes that statements may still add.
    budget: usize,
    /// Bytes of metrics that may still be looked at for single data points.
    looks: usize,
}

/// How many times as much may be looked at for single data points as may be added. The sum or the count of a summary
/// takes more than a sixteenth of it, unless it has very many quantiles.
const LOOKS: usize = 16;

impl<'a> Scene<'a> {
    /// A scene without any message. `slots` says how many literal keys the program has at each level.
    pub(crate) fn new(request: &'a [u8], arena: &'a Bump, slots: &[usize; LEVELS], now: i128, budget: usize) -> Self {
        Self {
            request,
            arena,
            drafts: slots.map(Draft::with_slots),
            oversized: [false; LEVELS],
            point: PointKind::Number,
            data: 0,
            metrics: metrics::Metrics::default(),
            leaf_index: 0,
            cache: Entries::new(),
            locals: Vec::new(),
            now,
            budget,
            looks: budget.saturating_mul(LOOKS),
        }
    }

    /// Starts with another message at a level. Nothing of it is read yet.
    pub(crate) fn begin(&mut self, level: Level, place: Option<Place>, map: u32) {
        self.oversized[level.index()] = false;
        let children = if matches!(level, Level::ResourceData | Level::ScopeData) { CHILDREN } else { 0 };
        self.drafts[level.index()].begin(self.request, place, map, children);
    }

    /// The message of a level, as it is.
    pub(crate) fn message(&mut self, level: Level) -> &mut Draft<'a> {
        &mut self.drafts[level.index()]
    }

    /// The message of a level, its fields looked at.
    pub(crate) fn draft(&mut self, level: Level) -> &mut Draft<'a> {
        let draft = &mut self.drafts[level.index()];
        if !draft.is_indexed() && !draft.index() {
            self.oversized[level.index()] = true;
        }
        draft
    }

    /// Fails when something that was asked for has too many fields to look into; what was read is not all there is.
    ///
    /// # Errors
    /// See above.
    pub(crate) fn check_size(&self) -> Result<(), Failure> {
        if self.oversized.contains(&true) {
            return Err(Failure::text("the item has too many fields"));
        }
        Ok(())
    }

    /// The entry of a message's map.
    pub(crate) fn entry(&mut self, level: Level, key: &str, slot: Option<usize>) -> Option<Value<'a>> {
        self.draft(level).get(key, slot)
    }

    /// Gives an entry of a message's map a value.
    ///
    /// # Errors
    /// When the value cannot be stored, or the request would grow too much.
    pub(crate) fn put_entry(
        &mut self,
        level: Level,
        key: Cow<'a, str>,
        slot: Option<usize>,
        value: Value<'a>,
    ) -> Result<(), Failure> {
        self.check_length(value.encoded_size()? + key.len())?;
        self.change(level, |draft| draft.put(key, slot, value));
        Ok(())
    }

    /// Changes a message, and keeps account of what that adds to the request.
    pub(crate) fn change(&mut self, level: Level, change: impl FnOnce(&mut Draft<'a>)) {
        let draft = self.draft(level);
        let before = draft.pending();
        change(draft);
        let after = draft.pending();
        if self.oversized[level.index()] {
            // Without all fields in sight no change is right.
            let message = self.message(level);
            message.forget_changes();
            return;
        }
        self.budget = (self.budget + before).saturating_sub(after);
    }

    /// Fails when a value would be longer than all that may still be added.
    ///
    /// # Errors
    /// See above.
    pub(crate) fn check_length(&self, bytes: usize) -> Result<(), Failure> {
        if bytes > self.budget {
            return Err(Failure::text("the request would grow beyond its limit"));
        }
        Ok(())
    }
}
