//! From what a trial showed to its figures: sets are compared, rates computed, doubts named.
//!
//! Definitions, per sink and summed over sinks:
//! - missing: spans the client saw acknowledged (warm-up included) that the sink never recorded, counted after the gateway
//!   exited.
//! - lost: what is missing. Under back-pressure, where a system without a journal may hold data when it is told to stop:
//!   what was missing just before the stop minus what the gateway said it held then, at most what is missing in the end.
//! - pending: only under back-pressure, the rest of what is missing: held when told to stop, and not delivered since.
//! - duplicated: spans a sink recorded more than once.

use serde::Serialize;

use super::trial::{AtStop, MEASURED_FIRST_ID, Trial, acked_ids, missing};
use super::{Settings, System};
use crate::sink::SinkReport;

/// The figures of one system under one scenario; the keys of `result.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kpis {
    /// `weir`, or the name of the peer.
    pub system: String,
    /// `traces`, with `-multi` and `-backpressure`.
    pub scenario: String,
    /// Measured time.
    pub duration_s: f64,
    /// Spans acknowledged in the measured time.
    pub accepted: u64,
    /// Of the spans sent in the measured time, different ones that arrived, summed over sinks.
    pub exported: u64,
    /// Acknowledged spans that did not arrive and were not declared pending, summed over sinks.
    pub lost: u64,
    /// Spans that arrived more than once, summed over sinks.
    pub duplicated: u64,
    /// Spans in refused requests.
    pub refused: u64,
    /// Acknowledged spans per second.
    pub accepted_per_s: f64,
    /// Spans that arrived within the measured time per second, summed over sinks.
    pub exported_per_s: f64,
    /// Average of the exporters' queue sizes, summed over pipelines; Weir counts bytes, a collector requests.
    pub queue_size: f64,
    /// Average resident memory in MiB.
    pub memory_mb_avg: f64,
    /// Most resident memory in MiB.
    pub memory_mb_peak: f64,
    /// CPU seconds per second in the measured time.
    pub cpu_cores: f64,
    /// CPU seconds until everything accepted had left, per million accepted spans.
    pub cpu_s_per_million: f64,
    /// Median time from when a span was due to its arrival at the sink (of the slowest sink).
    pub latency_ms_p50: f64,
    /// 99th percentile of the same.
    pub latency_ms_p99: f64,
}

/// Figures, what does not fit `result.json`, and reasons to doubt them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) kpis: Kpis,
    pub(crate) pending: u64,
    pub(crate) refused_without_hint: u64,
    pub(crate) warnings: Vec<String>,
    /// The gateway did not exit as it should.
    pub(crate) failed: bool,
}

/// Share of a core above which it counts as full.
const FULL: f64 = 0.95;
/// Share of the judge's cores above which a gateway that is less busy may have waited for them.
const NEARLY_FULL: f64 = 0.9;
/// CPU of strangers on the test's cores, in cores, above which figures are doubted.
const STRANGERS: f64 = 0.05;

/// Judges a trial.
#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
pub(crate) fn judge(system: &System, settings: &Settings, trial: &Trial) -> Verdict {
    let load = &trial.load;
    let seconds = (trial.after.at - trial.before.at).as_secs_f64();
    let missing = missing(&acked_ids(&trial.warmup, load), &trial.sinks);
    let lost = trial.at_stop.map_or(missing, |at_stop| lost_before(at_stop).min(missing));
    let window_cpu = trial.after.gateway_cpu_seconds - trial.before.gateway_cpu_seconds;
    let drained_cpu = trial.drained_cpu_seconds - trial.before.gateway_cpu_seconds;
    let worst = |pick: fn(&SinkReport) -> f64| trial.sinks.iter().map(pick).fold(0.0, f64::max);
    let memory: Vec<f64> = trial.samples.memory_bytes.iter().map(|&bytes| bytes as f64).collect();
    let kpis = Kpis {
        system: system.name.clone(),
        scenario: settings.variant.name().to_owned(),
        duration_s: load.seconds,
        accepted: load.acked_spans,
        exported: trial.sinks.iter().map(measured_unique).sum(),
        lost,
        duplicated: trial.sinks.iter().map(|sink| sink.duplicates).sum(),
        refused: load.refused_spans,
        accepted_per_s: load.acked_per_s,
        exported_per_s: (trial.after.exported - trial.before.exported) as f64 / seconds,
        queue_size: average(&trial.samples.queue_size),
        memory_mb_avg: average(&memory) / MIB,
        memory_mb_peak: trial.samples.memory_peak_bytes as f64 / MIB,
        cpu_cores: window_cpu / seconds,
        cpu_s_per_million: drained_cpu / (load.acked_spans.max(1) as f64 / 1e6),
        latency_ms_p50: worst(|sink| sink.latency_ms.p50),
        latency_ms_p99: worst(|sink| sink.latency_ms.p99),
    };
    let mut warnings = Vec::new();
    warnings.extend(trial.stop_error.clone());
    warnings.extend(doubts_about_judge(settings, trial, seconds));
    warnings.extend(doubts_about_counts(trial));
    Verdict {
        kpis,
        pending: missing - lost,
        refused_without_hint: load.refused_without_hint,
        warnings,
        failed: trial.stop_error.is_some(),
    }
}

const MIB: f64 = 1_048_576.0;

/// Spans that were neither delivered nor held when the gateway was asked to stop.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=missing first")]
#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
fn lost_before(at_stop: AtStop) -> u64 {
    let held = at_stop.pending.clamp(0.0, at_stop.missing as f64) as u64;
    at_stop.missing - held
}

/// Different spans of the measured run that a sink recorded.
fn measured_unique(sink: &SinkReport) -> u64 {
    let ranges = sink.ids.as_deref().unwrap_or_default();
    ranges.iter().filter(|(first, _)| *first >= MEASURED_FIRST_ID).map(|(first, last)| last - first + 1).sum()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of samples are small")]
fn average(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Whether the judge, or something else on this machine, limited the figures.
#[expect(clippy::cast_precision_loss, reason = "numbers of cores are small")]
fn doubts_about_judge(settings: &Settings, trial: &Trial, seconds: f64) -> Vec<String> {
    let mut doubts: Vec<String> = trial.load.bottleneck.iter().cloned().collect();
    let (before, after) = (&trial.before, &trial.after);
    let layout = &settings.layout;
    let judge = after.judge_cores.busy_since(before.judge_cores);
    let gateway = after.gateway_cores.busy_since(before.gateway_cores);
    if !layout.is_apart() {
        doubts.push("gateway and judge shared a single core: rates are those of both together".to_owned());
    } else if judge > NEARLY_FULL && gateway < FULL && judge > gateway {
        doubts.push(format!(
            "the judge was the limit, or close to it: its cores were {:.0} % busy, the gateway's {:.0} %",
            judge * 100.0,
            gateway * 100.0
        ));
    }
    let mut busy = after.judge_cores.processes_since(before.judge_cores) * layout.judge.len() as f64;
    if layout.is_apart() {
        busy += after.gateway_cores.processes_since(before.gateway_cores) * layout.gateway.len() as f64;
    }
    let ours = (after.gateway_cpu_seconds - before.gateway_cpu_seconds)
        + (after.sinks_cpu_seconds - before.sinks_cpu_seconds)
        + (after.own_cpu_seconds - before.own_cpu_seconds)
        + trial.load.cpu_seconds;
    let strangers = busy - ours / seconds;
    if strangers > STRANGERS {
        doubts.push(format!("other processes used {strangers:.2} cores on this machine: rates and latencies suffer"));
    }
    doubts
}

/// Whether the system's own counts say something else than the judge's.
#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
fn doubts_about_counts(trial: &Trial) -> Vec<String> {
    let mut doubts = Vec::new();
    let acked = trial.warmup.acked_spans + trial.load.acked_spans;
    let unknown = trial.warmup.unknown_spans + trial.load.unknown_spans;
    let received: u64 = trial.sinks.iter().map(|sink| sink.received).sum();
    let mut compare = |what: &str, own: Option<f64>, judged: u64, slack: u64| {
        if let Some(own) = own.filter(|own| (own - judged as f64).abs() > slack as f64) {
            doubts.push(format!("the system says it {what} {own:.0} spans, the judge counted {judged}"));
        }
    };
    compare("accepted", trial.self_view.accepted, acked, unknown);
    // What the system delivers while it shuts down comes after its last word.
    if trial.self_view.pending.unwrap_or(0.0) == 0.0 && trial.self_view.queue_size.unwrap_or(0.0) == 0.0 {
        compare("exported", trial.self_view.sent, received, 0);
    }
    if unknown > 0 {
        doubts.push(format!("{unknown} spans got no whole answer: {:?}", trial.load.errors));
    }
    let refusals = trial.load.refused_without_hint;
    if refusals > 0 {
        doubts.push(format!("{refusals} refused requests had no retry hint: {:?}", trial.load.refused));
    }
    doubts
}

#[cfg(test)]
mod tests;
