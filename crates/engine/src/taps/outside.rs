//! Edges of no pipeline.

use std::sync::Arc;

use bytes::Bytes;
use weir_plan::Signal;

use super::inbox::{Passed, Removers};
use super::mark::{Mark, Way};
use super::tap::Tap;
use crate::budget::Budget;
use crate::buffer::Body;
use crate::clock::unix_nanos;

/// Who looks at one of these edges while requests of one signal pass it.
pub(crate) struct Outside {
    pub(super) signal: Signal,
    pub(super) taps: Vec<Arc<Tap>>,
}

impl Outside {
    /// A part of a request that no pipeline takes, with so many items. Its bytes are shared.
    pub(crate) fn unclaimed(&self, part: &Bytes, items: u64) {
        self.show(part, items, Way::Unclaimed, |_| Some(part.clone()));
    }

    /// A request with so many items that is about to be enriched, which may change it where it is. Each tap that may want
    /// some of it pays for a copy.
    pub(crate) fn received(&self, request: &Body, items: u64) {
        self.show(request, items, Way::Received, |budget| request.share(budget));
    }

    fn show(&self, bytes: &[u8], items: u64, way: Way, share: impl Fn(&Budget) -> Option<Bytes>) {
        let (mark, unix_nanos) = (Mark::default(), unix_nanos());
        mark.set(way);
        let passed = |budget: &Budget| {
            let (pipeline, removers, until) = (None, Removers::default(), None);
            let (body, mark) = (share(budget)?, mark.clone());
            Some(Passed { signal: self.signal, pipeline, body, removers, until, mark, unix_nanos })
        };
        for tap in &self.taps {
            tap.take(bytes, items, unix_nanos, passed);
        }
    }
}
