//! Published figures of the same scenarios, measured elsewhere: context, never a comparison on equal terms.

use std::cmp::Reverse;

use anyhow::Context;
use serde::Deserialize;

use super::Test;
use super::script::Variant;

const DATA: &str = include_str!("../../data/published-kpis.json");

#[derive(Deserialize)]
struct Data {
    traces: Vec<Release>,
    metrics: Vec<Release>,
    #[serde(rename = "logs-otel")]
    logs: Vec<Release>,
    metricagent: Vec<Release>,
    logagent: Vec<Release>,
    #[serde(rename = "logs-fluentbit")]
    fluent_bit: Vec<Release>,
}

#[derive(Deserialize)]
struct Release {
    version: String,
    single: Kpis,
    /// The log gateway was published with one pipeline and a healthy backend only.
    multi: Option<Kpis>,
    backpressure: Option<Kpis>,
    multi_backpressure: Option<Kpis>,
}

#[derive(Deserialize)]
struct Kpis {
    accepted_per_s: f64,
    exported_per_s: f64,
    /// Not published of every system, as what follows.
    queue_size: Option<f64>,
    #[serde(default)]
    memory_mb_per_pod: Vec<f64>,
    #[serde(default)]
    cpu_cores_per_pod: Vec<f64>,
}

/// One published row; memory and CPU are summed over its pods.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    /// What was measured, and which version of it.
    pub(crate) system: String,
    pub(crate) accepted_per_s: f64,
    pub(crate) exported_per_s: f64,
    pub(crate) queue_size: Option<f64>,
    pub(crate) memory_mb: Option<f64>,
    pub(crate) cpu_cores: Option<f64>,
}

/// The row of the newest version for a variant of a test, or of both agents; none when it was never published, or with
/// another fault.
pub(crate) fn of(test: Test, variant: Variant) -> anyhow::Result<Vec<Published>> {
    latest(test, variant, 1)
}

/// The same of so many newest versions, the newest first.
pub(crate) fn latest(test: Test, variant: Variant, versions: usize) -> anyhow::Result<Vec<Published>> {
    if variant.backpressure.is_some_and(|backpressure| !backpressure.is_published) {
        return Ok(Vec::new());
    }
    let data: Data = serde_json::from_str(DATA).context("cannot decode published figures")?;
    let releases = match test {
        Test::Traces => collector(newest(data.traces, versions)),
        Test::Metrics => collector(newest(data.metrics, versions)),
        Test::LogsOtel => collector(newest(data.logs, versions)),
        Test::Metricagent => collector(newest(data.metricagent, versions)),
        Test::Logagent => data.logagent.into_iter().chain(newest(data.fluent_bit, versions)).collect(),
        Test::LogsFluentbit => newest(data.fluent_bit, versions),
        // Of the self monitor, other figures were published: see `self_monitor.rs`.
        Test::SelfMonitor => Vec::new(),
    };
    Ok(releases.into_iter().filter_map(|release| row(release, variant)).collect())
}

/// The published gateways are the OpenTelemetry Collector, and named by their version alone.
fn collector(releases: Vec<Release>) -> Vec<Release> {
    let named = |release: Release| Release { version: format!("Collector {}", release.version), ..release };
    releases.into_iter().map(named).collect()
}

fn newest(mut releases: Vec<Release>, versions: usize) -> Vec<Release> {
    // Of equal numbers, which is none at all, the one behind is newer.
    releases.reverse();
    releases.sort_by_key(|release| Reverse(version_key(&release.version)));
    releases.truncate(versions);
    releases
}

fn row(release: Release, variant: Variant) -> Option<Published> {
    let sum = |pods: &[f64]| (!pods.is_empty()).then(|| pods.iter().sum());
    let kpis = match (variant.multi, variant.backpressure.is_some()) {
        (false, false) => Some(release.single),
        (true, false) => release.multi,
        (false, true) => release.backpressure,
        (true, true) => release.multi_backpressure,
    };
    kpis.map(|kpis| Published {
        system: release.version,
        accepted_per_s: kpis.accepted_per_s,
        exported_per_s: kpis.exported_per_s,
        queue_size: kpis.queue_size,
        memory_mb: sum(&kpis.memory_mb_per_pod),
        cpu_cores: sum(&kpis.cpu_cores_per_pod),
    })
}

/// Orders `0.97`, `0.118.0`, `0.102.1 (new)` and `Fluent Bit 5.1.0` by their numbers.
fn version_key(version: &str) -> Vec<u32> {
    let is_number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let numbers = version.split_whitespace().find(is_number).unwrap_or_default();
    numbers.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::script::Backpressure;
    use super::*;

    #[test]
    fn the_newest_row_of_each_variant_is_found() {
        let fault = Backpressure { percent: 70, is_published: true };
        let of = |test, multi, backpressure: bool| {
            super::of(test, Variant { multi, backpressure: backpressure.then_some(fault) }).unwrap()
        };
        let row = |multi, backpressure| of(Test::Traces, multi, backpressure).remove(0);
        let single = row(false, false);
        assert_eq!(
            (single.system.as_str(), single.accepted_per_s, single.memory_mb),
            ("Collector 0.158.0", 24378.0, Some(222.0))
        );
        assert_eq!(row(true, false).exported_per_s, 49951.0);
        assert_eq!(row(false, true).exported_per_s, 306.0);
        assert_eq!(row(true, true).accepted_per_s, 27405.0);
        let metrics = of(Test::Metrics, true, true).remove(0);
        assert_eq!(
            (metrics.system.as_str(), metrics.accepted_per_s, metrics.memory_mb),
            ("Collector 0.158.0", 5132.0, Some(4216.0))
        );
        let logs = of(Test::LogsOtel, false, false).remove(0);
        assert_eq!((logs.system.as_str(), logs.accepted_per_s), ("Collector with batches", 16428.0));
        assert_eq!(of(Test::LogsOtel, true, false), []);
        let agents = of(Test::Logagent, false, false).into_iter().map(|agent| agent.system).collect::<Vec<_>>();
        assert_eq!(agents, ["Collector, sum of 2 nodes", "Fluent Bit 5.1.0, sum of 2 nodes"]);
        assert_eq!(of(Test::LogsFluentbit, true, true), of(Test::Logagent, true, true));
        let fluent_bit = of(Test::LogsFluentbit, true, true).remove(0);
        assert_eq!(fluent_bit.system, "Fluent Bit 5.1.0, sum of 2 nodes");
        assert_eq!((fluent_bit.accepted_per_s, fluent_bit.cpu_cores), (8441.0, Some(0.5)));
    }

    #[test]
    fn another_fault_than_the_published_one_has_no_row() {
        let of = |percent, is_published| {
            let backpressure = Some(Backpressure { percent, is_published });
            super::of(Test::Metricagent, Variant { multi: false, backpressure }).unwrap()
        };
        let row = of(100, true).remove(0);
        assert_eq!((row.system.as_str(), row.exported_per_s), ("Collector 0.158.0, sum of 2 nodes", 0.0));
        assert_eq!(of(70, false), []);
    }

    #[test]
    fn versions_order_by_number_not_by_text() {
        assert!(version_key("0.118.0") > version_key("0.97 w. GOMEMLIMIT"));
        assert!(version_key("0.102.1 (new)") > version_key("0.100.0"));
        assert!(version_key("Fluent Bit 10.0") > version_key("Fluent Bit 9.1, sum of 2 nodes"));
    }
}
