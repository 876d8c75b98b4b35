//! Checkpoints of containers that are not read now: those that were not found yet since the start, and those that no
//! pipeline wants any more.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weir_engine::{Inlet, Permit};

use crate::tail::checkpoint::Saved;
use crate::tail::path::ContainerName;

/// Of each container, and what pays for it.
#[derive(Debug)]
pub(in crate::tail) struct Kept(BTreeMap<ContainerName, (Saved, Permit)>);

impl Kept {
    /// What an earlier process saved. Where there is no memory for all of it, what was there last is kept.
    pub(super) fn new(saved: BTreeMap<ContainerName, Saved>, inlet: &Inlet) -> Self {
        let mut newest_first: Vec<Saved> = saved.into_values().collect();
        newest_first.sort_by_key(|saved| Reverse(saved.seen_at_ms));
        let mut kept = Self(BTreeMap::new());
        let left_out = newest_first.into_iter().map(|saved| kept.keep(saved, inlet)).filter(|is_kept| !is_kept).count();
        if left_out > 0 {
            tracing::error!(
                containers = left_out,
                "there is no memory for how far container logs were read; they are read again: give weir more --memory"
            );
        }
        kept
    }

    /// Keeps it; false when there is no memory for that.
    pub(super) fn keep(&mut self, saved: Saved, inlet: &Inlet) -> bool {
        let Some(paid) = inlet.try_reserve(saved.bytes()) else { return false };
        self.0.insert(saved.container.clone(), (saved, paid));
        true
    }

    pub(super) fn take(&mut self, name: &ContainerName) -> Option<Saved> {
        self.0.remove(name).map(|(saved, _)| saved)
    }

    pub(in crate::tail) fn all(&self) -> impl Iterator<Item = &Saved> {
        self.0.values().map(|(saved, _)| saved)
    }

    /// Forgets what is old and not wanted, and returns which containers that was (LOG-24). What is wanted and not there is
    /// taken up as soon as somebody looks.
    pub(super) fn expire(&mut self, now_ms: u64, is_wanted: impl Fn(&ContainerName) -> bool) -> Vec<ContainerName> {
        let is_over = |saved: &Saved| saved.is_expired(now_ms) && !is_wanted(&saved.container);
        let expired: Vec<_> = self.all().filter(|saved| is_over(saved)).map(|saved| saved.container.clone()).collect();
        expired.iter().for_each(|name| _ = self.0.remove(name));
        expired
    }
}
