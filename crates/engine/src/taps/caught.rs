//! What a tap has caught: the newest, within its room.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use weir_otlp::Part;
use weir_plan::{PipelineId, Signal};

use super::followed;
use super::mark::{Mark, Way, WayAndTime};
use crate::budget::{Budget, Purse};

/// Items of one tap at once.
const KEPT: usize = 1000;
/// Bytes of items that are read at once, and one item more.
const READ_BYTES: usize = 256 << 10;

/// An item that was caught.
#[derive(Debug)]
pub struct Caught {
    /// Counts from 1 on.
    pub number: u64,
    /// When, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
    /// What it is.
    pub signal: Signal,
    /// Where; `None` at an edge of no pipeline.
    pub pipeline: Option<PipelineId>,
    /// The item with everything around it, as an OTLP request.
    pub request: Bytes,
    /// The rule that removed it.
    pub removed_by: Option<RemovedBy>,
    mark: Mark,
}

/// A rule that removes items: `filter[0].conditions[1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedBy {
    /// Its place in the configuration; of what is no condition, its kind.
    pub field: String,
}

impl Caught {
    /// What became of it; `None` if a rule removed it.
    pub fn way(&self) -> Option<Way> {
        self.removed_by.is_none().then(|| self.mark.way())
    }

    /// The same, and when it became so, in milliseconds since the Unix epoch, if that is known.
    pub fn way_and_time(&self) -> Option<WayAndTime> {
        self.removed_by.is_none().then(|| self.mark.read())
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

    /// Keeps an item, older ones making room for it. False without room.
    pub(super) fn keep(&mut self, part: &Part<'_>, item: impl FnOnce(u64, Bytes) -> Caught) -> bool {
        let request = loop {
            if let Ok(made) = Purse::new(&self.budget, 0).copy_and(part, followed::BYTES) {
                break made;
            }
            if self.items.pop_front().is_none() {
                return false;
            }
        };
        self.last += 1;
        if self.items.len() == KEPT {
            self.items.pop_front();
        }
        self.items.push_back(Arc::new(item(self.last, request)));
        true
    }

    /// The oldest of those with a higher number, as many as are read at once.
    pub(super) fn after(&self, number: u64) -> Vec<Arc<Caught>> {
        let mut bytes = 0;
        let fits = |item: &&Arc<Caught>| {
            let is_first = bytes == 0;
            bytes += item.request.len();
            is_first || bytes <= READ_BYTES
        };
        self.items.iter().filter(|item| item.number > number).take_while(fits).cloned().collect()
    }

    pub(super) fn ways(&self) -> Vec<(u64, Option<WayAndTime>)> {
        self.items.iter().map(|item| (item.number, item.way_and_time())).collect()
    }

    pub(super) fn of(&self, pipeline: &PipelineId) -> Vec<Arc<Caught>> {
        self.items.iter().filter(|item| item.pipeline.as_ref() == Some(pipeline)).cloned().collect()
    }
}

impl Caught {
    pub(super) fn new(
        number: u64,
        unix_nanos: u64,
        (signal, pipeline): (Signal, Option<&PipelineId>),
        request: Bytes,
        (removed_by, mark): (Option<RemovedBy>, &Mark),
    ) -> Self {
        let (pipeline, mark, unix_ms) = (pipeline.cloned(), mark.clone(), unix_nanos / 1_000_000);
        Self { number, unix_ms, signal, pipeline, request, removed_by, mark }
    }
}
