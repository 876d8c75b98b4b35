//! Published figures of the same scenarios, measured elsewhere: context, never a comparison on equal terms.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;

use super::script::Variant;
use super::{Overlay, Test};
use crate::report::history::Figures;

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
    #[serde(rename = "self-monitor")]
    self_monitor: Vec<SelfMonitor>,
    /// By the names of tests and variants.
    expected: BTreeMap<String, BTreeMap<String, Figures>>,
}

#[derive(Deserialize)]
struct Release {
    version: String,
    /// By their names.
    #[serde(flatten)]
    variants: BTreeMap<String, Kpis>,
}

/// What was published of the self monitor is named as in `result.json`.
#[derive(Deserialize)]
struct SelfMonitor {
    version: String,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Deserialize)]
struct Kpis {
    accepted_per_s: f64,
    exported_per_s: f64,
    /// Not published of every system, as what follows.
    queue_size: Option<f64>,
    /// These three are Fluent Bit's.
    input_kb_per_s: Option<f64>,
    output_kb_per_s: Option<f64>,
    buffer_kb: Option<f64>,
    restarts: Option<u64>,
    generator_restarts: Option<u64>,
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
    /// Requests that wait.
    pub(crate) queue_size: Option<f64>,
    pub(crate) input_kb_per_s: Option<f64>,
    pub(crate) output_kb_per_s: Option<f64>,
    /// What waits on disks, instead of a queue.
    pub(crate) buffer_kb: Option<f64>,
    pub(crate) memory_mb: Option<f64>,
    pub(crate) cpu_cores: Option<f64>,
    /// How often the system ended by itself and was started again, and the generator.
    pub(crate) restarts: Option<u64>,
    pub(crate) generator_restarts: Option<u64>,
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
    let data = data()?;
    let releases = match test {
        Test::Traces => collector(newest_releases(data.traces, versions)),
        Test::Metrics => collector(newest_releases(data.metrics, versions)),
        Test::LogsOtel => collector(newest_releases(data.logs, versions)),
        Test::Metricagent => collector(newest_releases(data.metricagent, versions)),
        Test::Logagent => data.logagent.into_iter().chain(newest_releases(data.fluent_bit, versions)).collect(),
        Test::LogsFluentbit => newest_releases(data.fluent_bit, versions),
        // Of the self monitor, other figures were published.
        Test::SelfMonitor => Vec::new(),
    };
    Ok(releases.into_iter().filter_map(|release| row(release, variant)).collect())
}

/// What was published of so many newest self monitors, the newest first, with their names.
pub(crate) fn self_monitors(versions: usize) -> anyhow::Result<Vec<(String, Figures)>> {
    let monitors = newest(data()?.self_monitor, versions, |monitor| &monitor.version);
    let named = |SelfMonitor { version, figures }| (format!("self monitor {version}"), figures);
    Ok(monitors.into_iter().map(named).collect())
}

/// The least that is accepted of a test by those who published it, in the keys of `result.json`; of some figures it is a
/// range, as text.
pub(crate) fn expected(test: Test, variant: Variant) -> anyhow::Result<Option<Figures>> {
    Ok(data()?.expected.remove(test.name()).and_then(|mut variants| variants.remove(name(variant))))
}

fn data() -> anyhow::Result<Data> {
    serde_json::from_str(DATA).context("cannot decode published figures")
}

/// As the data name it. The log gateway was published with one pipeline and a healthy backend only.
fn name(variant: Variant) -> &'static str {
    match (variant.multi, variant.backpressure.is_some(), variant.overlay) {
        (false, false, None | Some(Overlay::Base)) => "single",
        (false, false, Some(Overlay::Batch)) => "batch",
        (true, false, _) => "multi",
        (false, true, _) => "backpressure",
        (true, true, _) => "multi_backpressure",
    }
}

/// The published gateways are the OpenTelemetry Collector, and named by their version alone.
fn collector(releases: Vec<Release>) -> Vec<Release> {
    let named = |release: Release| Release { version: format!("Collector {}", release.version), ..release };
    releases.into_iter().map(named).collect()
}

fn newest_releases(releases: Vec<Release>, versions: usize) -> Vec<Release> {
    newest(releases, versions, |release| &release.version)
}

fn newest<T>(mut all: Vec<T>, versions: usize, version: impl Fn(&T) -> &str) -> Vec<T> {
    // Of equal numbers, which is none at all, the one behind is newer.
    all.reverse();
    all.sort_by_key(|one| Reverse(version_key(version(one))));
    all.truncate(versions);
    all
}

fn row(mut release: Release, variant: Variant) -> Option<Published> {
    let sum = |pods: &[f64]| (!pods.is_empty()).then(|| pods.iter().sum());
    release.variants.remove(name(variant)).map(|kpis| Published {
        system: release.version,
        accepted_per_s: kpis.accepted_per_s,
        exported_per_s: kpis.exported_per_s,
        queue_size: kpis.queue_size,
        input_kb_per_s: kpis.input_kb_per_s,
        output_kb_per_s: kpis.output_kb_per_s,
        buffer_kb: kpis.buffer_kb,
        memory_mb: sum(&kpis.memory_mb_per_pod),
        cpu_cores: sum(&kpis.cpu_cores_per_pod),
        restarts: kpis.restarts,
        generator_restarts: kpis.generator_restarts,
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
            let backpressure = backpressure.then_some(fault);
            super::of(test, Variant { multi, backpressure, overlay: None }).unwrap()
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
        assert_eq!(of(Test::LogsOtel, true, false), []);
        let agents = of(Test::Logagent, false, false).into_iter().map(|agent| agent.system).collect::<Vec<_>>();
        assert_eq!(agents, ["Collector, sum of 2 nodes", "Fluent Bit 5.1.0, sum of 2 nodes"]);
        assert_eq!(of(Test::LogsFluentbit, true, true), of(Test::Logagent, true, true));
        let fluent_bit = of(Test::LogsFluentbit, true, true).remove(0);
        assert_eq!(fluent_bit.system, "Fluent Bit 5.1.0, sum of 2 nodes");
        assert_eq!((fluent_bit.accepted_per_s, fluent_bit.cpu_cores), (8441.0, Some(0.5)));
        let bytes = (fluent_bit.input_kb_per_s, fluent_bit.output_kb_per_s, fluent_bit.buffer_kb);
        assert_eq!(bytes, (Some(2933.0), Some(1325.0), Some(5_365_861.0)));
    }

    #[test]
    fn the_log_gateway_was_published_with_and_without_batches() {
        let of = |overlay| {
            let row = super::of(Test::LogsOtel, Variant { overlay, ..Variant::default() }).unwrap().remove(0);
            (row.system, row.accepted_per_s, row.queue_size, row.restarts, row.generator_restarts)
        };
        let base = ("Collector 0.105.0".to_owned(), 7193.0, Some(16824.0), Some(0), Some(1));
        assert_eq!([of(None), of(Some(Overlay::Base))], [base.clone(), base]);
        let batch = ("Collector 0.105.0".to_owned(), 16428.0, Some(0.0), Some(0), Some(1));
        assert_eq!(of(Some(Overlay::Batch)), batch);
    }

    #[test]
    fn the_pages_say_what_they_expect_and_what_a_self_monitor_took() {
        let multi = Variant { multi: true, ..Variant::default() };
        let exported = expected(Test::Traces, multi).unwrap().and_then(|figures| figures["exported_per_s"].as_f64());
        assert_eq!(exported, Some(39_000.0), "three times as much as is accepted");
        assert_eq!(expected(Test::Metricagent, multi).unwrap(), None);
        let range = expected(Test::SelfMonitor, Variant::default()).unwrap().unwrap();
        assert_eq!(range["series"], "200 to 350");
        let monitors = self_monitors(2).unwrap();
        let names: Vec<&str> = monitors.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["self monitor 3.11.3", "self monitor 3.11.2"]);
        assert_eq!(monitors[0].1["series"], 133.0);
    }

    #[test]
    fn another_fault_than_the_published_one_has_no_row() {
        let of = |percent, is_published| {
            let backpressure = Some(Backpressure { percent, is_published });
            super::of(Test::Metricagent, Variant { backpressure, ..Variant::default() }).unwrap()
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
