//! The figures of a trial, and those that follow from what every trial has.

use std::time::Duration;

use serde::Serialize;

use super::super::director::Kills;
use super::super::readings::Readings;
use super::super::trial::{Part, Settled};
use super::lines::LineKpis;
use super::pages::PageKpis;
use crate::sink::SinkReport;

pub(super) const MIB: f64 = 1_048_576.0;

/// The figures of one system under one scenario; the keys of `result.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Kpis {
    /// `weir`, or the name of the peer.
    pub system: String,
    /// `traces`, with what was done to it behind a dash.
    pub scenario: String,
    /// Which of several runs of the scenario: workers and replicas of the matrix, or who is beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Measured time.
    pub duration_s: f64,
    /// Items acknowledged in the measured time.
    pub accepted: u64,
    /// Of the items sent in the measured time, different ones that arrived, summed over sinks; beside sick neighbours,
    /// at the healthy sink.
    pub exported: u64,
    /// Acknowledged items that did not arrive and were not declared pending, summed over sinks.
    pub lost: u64,
    /// Items that arrived although a filter is to drop them, summed over sinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaked: Option<u64>,
    /// Acknowledged items that did not arrive and that the gateway said it held when it was stopped, summed over sinks.
    pub pending: u64,
    /// Items that arrived more than once, summed over sinks.
    pub duplicated: u64,
    /// Items in refused requests.
    pub refused: u64,
    /// Items that were never answered.
    pub unanswered: u64,
    /// Acknowledged items per second.
    pub accepted_per_s: f64,
    /// Items that arrived within the measured time per second, summed as `exported` is.
    pub exported_per_s: f64,
    /// Average of the exporters' queue sizes, summed over pipelines; Weir counts bytes, a collector requests.
    pub queue_size: f64,
    /// Most items the gateway said it held, summed over pipelines.
    pub backlog_peak: f64,
    /// Average resident memory in MiB.
    pub memory_mb_avg: f64,
    /// Most resident memory in MiB.
    pub memory_mb_peak: f64,
    /// Most disk space in MiB that the gateway's data took.
    pub disk_mb_peak: f64,
    /// What the gateway wrote to disks in MiB.
    pub disk_mb_written: f64,
    /// CPU seconds per second in the measured time.
    pub cpu_cores: f64,
    /// CPU seconds until everything accepted had left, per million accepted items.
    pub cpu_s_per_million: f64,
    /// Bytes of the bodies that arrived, as they were sent, for each item in them.
    pub wire_bytes_per_item: f64,
    /// Median time from when an item was due to its arrival at the sink (of the slowest sink, or the healthy one).
    pub latency_ms_p50: f64,
    /// 99th percentile of the same.
    pub latency_ms_p99: f64,
    /// 99th percentile of the time from when a request was due to its OK answer.
    pub client_ms_p99: f64,
    /// Longest of the same.
    pub client_ms_max: f64,
    /// Time after the load until nothing more was to come.
    pub settle_s: f64,
    /// Time from the return of the backends until the gateway held no more than arrives in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_s: Option<f64>,
    /// How often the gateway was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kills: Option<u64>,
    /// Median time from a start after a kill until the gateway was ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_ms_p50: Option<f64>,
    /// Longest of the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_ms_max: Option<f64>,
    /// Where the items are lines of files.
    #[serde(flatten)]
    pub lines: Option<LineKpis>,
    /// Where the items are samples of pages.
    #[serde(flatten)]
    pub pages: Option<PageKpis>,
}

/// What every trial has, whoever writes its items.
pub(super) struct Seen<'a> {
    pub(super) sinks: &'a [SinkReport],
    pub(super) readings: &'a Readings,
    pub(super) settled: &'a Settled,
    pub(super) kills: Option<&'a Kills>,
}

impl Seen<'_> {
    /// The figures that follow from it. Who holds no more than arrives in a second (`per_s`) has drained.
    #[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
    pub(super) fn kpis(&self, part: &Part<'_>, per_s: f64) -> Kpis {
        let Self { sinks, readings, settled, kills } = self;
        let worst = |pick: fn(&SinkReport) -> f64| of_subject(part, sinks).map(pick).fold(0.0, f64::max);
        let drained = settled.mended_at.and_then(|at| readings.drained(at, per_s));
        let recovery = kills.and_then(Kills::recovery);
        Kpis {
            system: part.system.name.clone(),
            scenario: part.script.name.clone(),
            part: part.script.part.clone(),
            queue_size: average(&readings.queue_size),
            backlog_peak: readings.backlog_peak(),
            memory_mb_avg: readings.memory_average() / MIB,
            memory_mb_peak: readings.memory_peak_bytes as f64 / MIB,
            disk_mb_peak: readings.disk_peak_bytes as f64 / MIB,
            disk_mb_written: settled.written_bytes as f64 / MIB,
            wire_bytes_per_item: wire_bytes_per_item(of_subject(part, sinks)),
            latency_ms_p50: worst(|sink| sink.latency_ms.p50),
            latency_ms_p99: worst(|sink| sink.latency_ms.p99),
            settle_s: settled.seconds,
            drain_s: drained.map(|time| time.as_secs_f64()),
            kills: kills.map(|kills| kills.count),
            recovery_ms_p50: recovery.map(|(median, _)| millis(median)),
            recovery_ms_max: recovery.map(|(_, longest)| millis(longest)),
            ..Kpis::default()
        }
    }
}

/// Items that arrived twice count twice, as their bytes do.
#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
fn wire_bytes_per_item<'a>(sinks: impl Iterator<Item = &'a SinkReport>) -> f64 {
    let (bytes, items) = sinks.fold((0, 0), |(bytes, items), sink| (bytes + sink.wire_bytes, items + sink.received));
    bytes as f64 / items.max(1) as f64
}

/// Those of `values`, one for each backend, that rates and latencies are about.
pub(super) fn of_subject<'a, T>(part: &Part<'_>, values: &'a [T]) -> impl Iterator<Item = &'a T> + Clone {
    let subject = part.script.subject;
    values.iter().enumerate().filter(move |(index, _)| subject.is_none_or(|subject| subject == *index)).map(|(_, v)| v)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of readings are small")]
fn average(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
