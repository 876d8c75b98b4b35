//! Edges of no pipeline.

use std::sync::Arc;

use bytes::Bytes;
use weir_plan::Signal;

use super::inbox::{Passed, Removers};
use super::mark::{Mark, Way};
use super::tap::Tap;
use crate::budget::{self, Budget};
use crate::buffer::Body;
use crate::clock::unix_nanos;

/// Who looks at one of these edges while requests of one signal pass it.
pub(crate) struct Outside {
    pub(super) signal: Signal,
    pub(super) taps: Vec<Arc<Tap>>,
}

impl Outside {
    /// The `parts` of a request that no pipeline takes, with so many items together. Each tap that may want some of it pays
    /// for a copy: as a part of the request it would keep all of that.
    pub(crate) fn unclaimed<'a, P: Iterator<Item = &'a [u8]>>(&self, parts: impl Fn() -> P, items: u64) {
        self.show(&parts, items, Way::Unclaimed, |budget| {
            let bytes = parts().map(<[u8]>::len).sum();
            let permit = budget.try_take(bytes)?;
            let mut copy = Vec::with_capacity(bytes);
            parts().for_each(|part| copy.extend_from_slice(part));
            Some(budget::charge(copy, permit))
        });
    }

    /// A request with so many items that is about to be enriched, which may change it where it is. Each tap that may want
    /// some of it pays for a copy.
    pub(crate) fn received(&self, request: &Body, items: u64) {
        self.show(&|| std::iter::once(&**request), items, Way::Received, |budget| request.share(budget));
    }

    fn show<'a, P: Iterator<Item = &'a [u8]>>(
        &self,
        parts: &impl Fn() -> P,
        items: u64,
        way: Way,
        share: impl Fn(&Budget) -> Option<Bytes>,
    ) {
        let (mark, unix_nanos) = (Mark::default(), unix_nanos());
        mark.set(way);
        let passed = |budget: &Budget| {
            let (pipeline, removers, until) = (None, Removers::default(), None);
            let (body, mark) = (share(budget)?, mark.clone());
            Some(Passed { signal: self.signal, pipeline, body, removers, until, mark, unix_nanos })
        };
        for tap in &self.taps {
            tap.take(parts, items, unix_nanos, passed);
        }
    }
}
