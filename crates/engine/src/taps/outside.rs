//! Edges of no pipeline.

use std::sync::Arc;

use bytes::Bytes;
use weir_plan::Signal;

use super::inbox::{Passed, Removers};
use super::mark::{Mark, Way};
use super::tap::Tap;
use crate::clock::unix_nanos;

/// Who looks at one of these edges while requests of one signal pass it.
pub(crate) struct Outside {
    pub(super) signal: Signal,
    pub(super) taps: Vec<Arc<Tap>>,
}

impl Outside {
    /// A part of a request that no pipeline takes, with so many items. Its bytes are shared.
    pub(crate) fn unclaimed(&self, part: &Bytes, items: u64) {
        let (mark, unix_nanos) = (Mark::default(), unix_nanos());
        mark.set(Way::Unclaimed);
        let passed = || Passed {
            signal: self.signal,
            pipeline: None,
            body: part.clone(),
            removers: Removers::default(),
            mark: mark.clone(),
            unix_nanos,
        };
        for tap in &self.taps {
            tap.take(part, items, unix_nanos, passed);
        }
    }
}
