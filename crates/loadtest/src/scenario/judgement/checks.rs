//! What was judged, what was seen of it, and what that breaks.

use super::super::Settings;
use super::super::readings::Readings;
use super::kpis::{Kpis, MIB};

/// A promise, and whether it was kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Check {
    pub(crate) promise: String,
    /// In figures; empty where there are none.
    pub(crate) seen: String,
    /// How it was broken; nothing when it was kept.
    pub(crate) failures: Vec<String>,
}

impl Check {
    pub(crate) fn new(
        promise: impl Into<String>,
        seen: impl Into<String>,
        failures: impl IntoIterator<Item = String>,
    ) -> Self {
        Self { promise: promise.into(), seen: seen.into(), failures: failures.into_iter().collect() }
    }
}

/// What everybody has to do, a peer as well.
pub(super) fn of_end(stop_error: Option<&String>) -> Check {
    Check::new("it ends when it is asked to", "", stop_error.cloned())
}

/// What Weir may use beside the payloads that `--memory` bounds.
const MEMORY_BESIDE_MB: f64 = 32.0;

/// What Weir promises of itself, whatever flows through it.
pub(super) fn of_weir_itself(settings: &Settings, kpis: &Kpis, readings: &Readings) -> [Check; 2] {
    #[expect(clippy::cast_precision_loss, reason = "memory is far below 2^53 bytes")]
    let budget = settings.memory_bytes as f64 / MIB + MEMORY_BESIDE_MB;
    let used = kpis.memory_mb_peak;
    let broken = (used > budget).then(|| format!("it used {used:.0} MB of memory, more than the promised {budget:.0}"));
    let account = "its books add up, its journal is whole and its rules do not fail, by its own account";
    [
        Check::new("memory stays below --memory and 32 MB", format!("{used:.0} of {budget:.0} MB at most"), broken),
        Check::new(account, "", admissions(readings)),
    ]
}

/// What Weir itself says went wrong.
fn admissions(readings: &Readings) -> Vec<String> {
    let Readings { mismatches, damaged_bytes, rule_errors, .. } = readings;
    let (mismatches, damaged_bytes, rule_errors) = (*mismatches, *damaged_bytes, *rule_errors);
    let mut failures = Vec::new();
    if mismatches > 0.0 {
        failures.push(format!("{mismatches:.0} entries of its books do not add up, by its own account"));
    }
    if rule_errors > 0.0 {
        failures
            .push(format!("its rules failed {rule_errors:.0} times, by its own account: they were not all applied"));
    }
    if damaged_bytes > 0.0 {
        failures.push(format!("{damaged_bytes:.0} bytes of its journal are not what it wrote, by its own account"));
    }
    failures
}

/// In the order of the checks.
pub(super) fn failures(checks: &[Check]) -> Vec<String> {
    checks.iter().flat_map(|check| &check.failures).cloned().collect()
}
