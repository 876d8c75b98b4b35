//! What a tap has caught: the newest, within its room.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use weir_otlp::Part;
use weir_plan::PipelineId;

use super::mark::{Mark, Way};
use crate::budget::{Budget, Purse};

/// Items of one tap at once.
const KEPT: usize = 1000;

/// An item that was caught.
#[derive(Debug)]
pub struct Caught {
    /// Counts from 1 on.
    pub number: u64,
    /// When, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// Where.
    pub pipeline: PipelineId,
    /// The item with everything around it, as an OTLP request.
    pub request: Bytes,
    /// The rule that removed it.
    pub removed_by: Option<RemovedBy>,
    mark: Mark,
}

/// A rule that removes items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedBy {
    /// `filter[0].conditions[1]`
    pub field: String,
    /// Its text.
    pub text: String,
}

impl Caught {
    /// What became of it; `None` if a rule removed it.
    pub fn way(&self) -> Option<Way> {
        self.removed_by.is_none().then(|| self.mark.way())
    }
}

/// The newest items.
#[derive(Debug)]
pub(super) struct Newest {
    budget: Budget,
    items: VecDeque<Arc<Caught>>,
    pub(super) last: u64,
}

impl Newest {
    pub(super) fn within(budget: Budget) -> Self {
        Self { budget, items: VecDeque::new(), last: 0 }
    }

    pub(super) fn purse(&self) -> Purse<'_> {
        Purse::new(&self.budget, 0)
    }

    /// Makes an item of its own of a part, older ones making room for it. `None` without room.
    pub(super) fn make(&mut self, part: &Part<'_>) -> Option<Bytes> {
        loop {
            if let Ok(made) = Purse::new(&self.budget, 0).copy(part) {
                return Some(made);
            }
            self.items.pop_front()?;
        }
    }

    pub(super) fn keep(
        &mut self,
        unix_ms: u64,
        pipeline: &PipelineId,
        request: Bytes,
        removed_by: Option<RemovedBy>,
        mark: &Mark,
    ) {
        self.last += 1;
        if self.items.len() == KEPT {
            self.items.pop_front();
        }
        let (pipeline, mark) = (pipeline.clone(), mark.clone());
        self.items.push_back(Arc::new(Caught { number: self.last, unix_ms, pipeline, request, removed_by, mark }));
    }

    pub(super) fn after(&self, number: u64) -> Vec<Arc<Caught>> {
        self.items.iter().filter(|item| item.number > number).cloned().collect()
    }
}
