//! What happened in some runs.

use std::collections::BTreeMap;

/// A simulation in which nothing goes wrong proves nothing.
const EVERYTHING: [&str; 25] = [
    "acknowledged",
    "added",
    "adjusted",
    "backlog_full",
    "disk_full",
    "duplicates",
    "failed_writes",
    "filter",
    "forced",
    "hangs",
    "in_memory",
    "kills",
    "killed",
    "memory_full",
    "moved",
    "partial_success",
    "power_losses",
    "powerless",
    "recovered",
    "refused",
    "reloads_while_reads_hang",
    "replaced",
    "shutdown",
    "shutdowns",
    "spilled",
];

/// How often each thing happened.
#[derive(Debug, Default)]
pub(super) struct Totals(BTreeMap<String, u64>);

impl Totals {
    pub(super) fn count(&mut self, what: &str, times: u64) {
        *self.0.entry(what.to_owned()).or_default() += times;
    }

    pub(super) fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(what, times)| self.count(what, *times));
    }

    pub(super) fn assert_everything_happened(&self) {
        let missing: Vec<_> =
            EVERYTHING.iter().filter(|what| self.0.get(**what).is_none_or(|times| *times == 0)).collect();
        assert!(missing.is_empty(), "did not happen: {missing:?} in {self:?}");
    }
}
