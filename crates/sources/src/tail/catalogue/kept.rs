//! Checkpoints of containers that are not read now: those that were not found yet since the start, and those that no
//! pipeline wants any more.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weir_engine::{Inlet, MemoryPart, Permit};

use crate::tail::checkpoint::Saved;
use crate::tail::path::ContainerName;

/// They take at most one part in so many of the memory.
const PART_OF_MEMORY: usize = 8;

/// Checkpoints, and what pays for them.
#[derive(Debug)]
pub(in crate::tail) struct Kept {
    checkpoints: BTreeMap<ContainerName, (Saved, Permit)>,
    memory: MemoryPart,
}

impl Kept {
    /// What an earlier process saved. Where there is no memory for all of it, what was there last is kept.
    pub(super) fn new(saved: BTreeMap<ContainerName, Saved>, inlet: &Inlet) -> Self {
        let mut newest_first: Vec<Saved> = saved.into_values().collect();
        newest_first.sort_by_key(|saved| Reverse(saved.seen_at_ms));
        let memory = inlet.memory_part(inlet.memory() / PART_OF_MEMORY);
        let mut kept = Self { checkpoints: BTreeMap::new(), memory };
        let left_out = newest_first.into_iter().map(|saved| kept.keep(saved)).filter(|is_kept| !is_kept).count();
        if left_out > 0 {
            tracing::error!(
                containers = left_out,
                advice = "give weir more --memory",
                "there is no memory for how far container logs were read; they are read again"
            );
        }
        kept
    }

    /// Keeps it; false when there is no memory for that.
    pub(super) fn keep(&mut self, saved: Saved) -> bool {
        let Some(paid) = self.memory.try_reserve(saved.bytes()) else { return false };
        self.checkpoints.insert(saved.container.clone(), (saved, paid));
        true
    }

    pub(super) fn take(&mut self, name: &ContainerName) -> Option<Saved> {
        self.checkpoints.remove(name).map(|(saved, _)| saved)
    }

    pub(in crate::tail) fn all(&self) -> impl Iterator<Item = &Saved> {
        self.checkpoints.values().map(|(saved, _)| saved)
    }

    /// Forgets what is old and not wanted, and returns which containers that was (LOG-24). What is wanted and not there is
    /// taken up as soon as somebody looks.
    pub(super) fn expire(&mut self, now_ms: u64, is_wanted: impl Fn(&ContainerName) -> bool) -> Vec<ContainerName> {
        let is_over = |saved: &Saved| saved.is_expired(now_ms) && !is_wanted(&saved.container);
        let expired: Vec<_> = self.all().filter(|saved| is_over(saved)).map(|saved| saved.container.clone()).collect();
        expired.iter().for_each(|name| _ = self.checkpoints.remove(name));
        expired
    }
}
