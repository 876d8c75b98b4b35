//! Requests that wait to be taken apart. They are not copied: whoever has them shares their bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use weir_plan::{PipelineId, Signal};

use super::Before;
use super::caught::RemovedBy;
use super::mark::Mark;
use crate::budget::{Purse, Shortage};
use crate::rules::{ConditionPlace, ISTIO_NOISE, Processed, Removed, RulePlace, Rules};

/// Requests of one tap that may wait, and their bytes. A larger one may wait alone.
const MOST_WAITING: usize = 32;
const MOST_BYTES: usize = 2 << 20;

/// A request that passes a pipeline.
pub(super) struct Passing<'a> {
    pub(super) signal: Signal,
    pub(super) pipeline: &'a PipelineId,
    pub(super) rules: Option<&'a Arc<Rules>>,
    pub(super) before: &'a Before,
    pub(super) after: &'a Processed,
    pub(super) mark: &'a Mark,
    pub(super) unix_nanos: u64,
}

/// What removed something of a request.
#[derive(Debug, Default)]
pub(super) struct Removers {
    /// The pipeline's rules.
    rules: Option<Arc<Rules>>,
    /// Why nothing is left of the request; otherwise `None`. What temporality removes, no other attempt does.
    whole: Option<&'static str>,
}

impl Passing<'_> {
    /// How many items are left after this rule. After a transform, as many as came: what transforms add or join is not
    /// known before a filter has counted it.
    pub(super) fn items_after(&self, last: RulePlace) -> u64 {
        if matches!(last, RulePlace::Transform(_)) {
            return self.before.items;
        }
        let is_gone = |removed: &Removed| removed.place.is_some_and(|place| last.includes(place));
        let later = self.after.removed.iter().filter(|removed| !is_gone(removed) && removed.reason != ISTIO_NOISE);
        self.after.items + later.map(|removed| removed.items).sum::<u64>()
    }

    pub(super) fn removers(&self) -> Removers {
        let Processed { items, removed, .. } = self.after;
        let rules = self.rules.filter(|_| !removed.is_empty()).cloned();
        Removers { rules, whole: removed.first().filter(|_| *items == 0).map(|removed| removed.reason) }
    }
}

impl Removers {
    /// What removed an item, which is a request of its own here.
    pub(super) fn of(&self, item: &Bytes, purse: Purse<'_>, unix_nanos: u64) -> Result<Option<RemovedBy>, Shortage> {
        let attempt = |rules: &Arc<Rules>| rules.attempt(item.clone(), 1, purse, unix_nanos);
        let left = self.rules.as_ref().map(attempt).transpose()?;
        let by_rules = left.filter(|left| left.items == 0);
        let field = match &by_rules {
            Some(left) => Some(left.removed.first().map_or_else(|| "transform".to_owned(), field)),
            None => self.whole.map(str::to_owned),
        };
        Ok(field.map(|field| RemovedBy { field }))
    }
}

fn field(removed: &Removed) -> String {
    removed.place.map_or_else(|| removed.reason.to_owned(), ConditionPlace::field)
}

/// A request that has passed.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) signal: Signal,
    /// `None` at an edge of no pipeline.
    pub(super) pipeline: Option<PipelineId>,
    /// What to take apart.
    pub(super) body: Bytes,
    pub(super) removers: Removers,
    /// The last of the rules that come before the edge, if there are some.
    pub(super) until: Option<(Arc<Rules>, RulePlace)>,
    pub(super) mark: Mark,
    pub(super) unix_nanos: u64,
}

impl Passed {
    /// What an item, which is a request of its own here, is at the edge; `None` when it does not get there.
    pub(super) fn at_edge(&self, item: Bytes, purse: Purse<'_>) -> Result<Option<Bytes>, Shortage> {
        let Some((rules, last)) = &self.until else { return Ok(Some(item)) };
        let left = rules.attempt_until(*last, item, 1, purse, self.unix_nanos)?;
        Ok((left.items > 0).then_some(left.body))
    }
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    waiting: VecDeque<Passed>,
    bytes: usize,
}

impl Inbox {
    /// Whether a request of so many bytes may wait.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        self.waiting.is_empty() || (self.waiting.len() < MOST_WAITING && self.bytes + bytes <= MOST_BYTES)
    }

    pub(super) fn push(&mut self, passed: Passed) {
        self.bytes += passed.body.len();
        self.waiting.push_back(passed);
    }

    pub(super) fn pop(&mut self) -> Option<Passed> {
        let passed = self.waiting.pop_front()?;
        self.bytes -= passed.body.len();
        Some(passed)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
