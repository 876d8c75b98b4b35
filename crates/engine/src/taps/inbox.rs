//! Requests that wait to be taken apart. They are not copied: whoever has them shares their bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use weir_plan::{PipelineId, Signal};

use super::Before;
use super::mark::Mark;
use crate::rules::{Processed, Rules};

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

/// A request that has passed.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) signal: Signal,
    pub(super) pipeline: PipelineId,
    /// What to take apart.
    pub(super) body: Bytes,
    /// Those that have removed some of it.
    pub(super) rules: Option<Arc<Rules>>,
    pub(super) mark: Mark,
    pub(super) unix_nanos: u64,
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
