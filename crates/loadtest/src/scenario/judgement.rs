//! From what a trial showed to its figures: sets are compared, rates computed, doubts named.
//!
//! Definitions, per sink and summed over sinks:
//! - missing: items the client saw acknowledged (warm-up included) that the sink never recorded, counted after the
//!   gateway exited.
//! - lost: of these, what was missing just before the gateway was asked to stop, minus what it said it held then. It
//!   was asked when everything had arrived, when it said that it holds nothing, or when the time to settle was over.
//! - pending: the rest of what is missing: held when the gateway was told to stop, and not delivered since. With a
//!   journal it would be delivered after a restart. That is not shown, so Weir does not pass with it.
//! - duplicated: items a sink recorded more than once.
//! - unanswered: items sent at least once and never acknowledged or refused to the end; they may or may not have
//!   arrived.

pub(crate) mod checks;
mod doubts;
mod kpis;
pub(crate) mod lines;
pub(crate) mod pages;

use std::time::Duration;

use self::checks::Check;
pub use self::kpis::Kpis;
use self::kpis::{MIB, Seen, millis, of_subject};
use super::course::Course;
use super::director::Kills;
use super::trial::{MEASURED_FIRST_ID, Part, Trial, missing, owed_ids};
use super::{Settings, SystemKind};
use crate::ids::IdSet;
use crate::load::LoadReport;
use crate::marked::Marked;
use crate::signal::Signal;
use crate::sink::SinkReport;

/// Figures, what does not fit `result.json`, and reasons to doubt them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) kpis: Kpis,
    /// How the table names the row.
    pub(crate) label: String,
    pub(crate) refused_without_hint: u64,
    /// Bytes of the acknowledged requests, warm-up included.
    pub(crate) accepted_bytes: f64,
    /// What the scenario was made for.
    pub(crate) facts: Vec<String>,
    pub(crate) warnings: Vec<String>,
    /// What was judged.
    pub(crate) checks: Vec<Check>,
    /// Broken promises: those of all checks.
    pub(crate) failures: Vec<String>,
    pub(crate) course: Course,
}

/// Judges a trial.
pub(crate) fn judge(part: &Part<'_>, settings: &Settings, trial: &Trial) -> Judgement {
    let kpis = kpis(part, settings, trial);
    let mut warnings = Vec::new();
    if part.script.kills.is_none() {
        warnings.extend(doubts::about_judge(settings, trial));
        warnings.extend(doubts::about_counts(settings, trial));
    }
    if part.system.kind != SystemKind::Weir {
        warnings.extend(not_processed(settings, trial));
    }
    warnings.extend(doubts::about_refusals(trial));
    let accepted_bytes = accepted_bytes(&trial.warmup) + accepted_bytes(&trial.load);
    let checks = checks(part, settings, trial, &kpis);
    let sinks = of_subject(part, &trial.sinks);
    let course = Course::of(trial.window, &trial.readings, Some(&trial.load.timeline), sinks);
    Judgement {
        label: label(part),
        refused_without_hint: trial.load.refused_without_hint,
        accepted_bytes,
        facts: facts(&kpis, accepted_bytes, settings, trial),
        warnings,
        failures: checks::failures(&checks),
        checks,
        course: Course { away: part.script.away(), ..course },
        kpis,
    }
}

fn label(part: &Part<'_>) -> String {
    let system = &part.system.name;
    part.script.part.as_ref().map_or(system.clone(), |part| format!("{system}, {part}"))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
fn kpis(part: &Part<'_>, settings: &Settings, trial: &Trial) -> Kpis {
    let Trial { load, readings, settled, sinks, .. } = trial;
    let seen = Seen { sinks, readings, settled, kills: trial.kills.as_ref() };
    let seconds = trial.measured_seconds();
    let signal = settings.signal();
    let missing = missing(&owed_ids(settings, &trial.warmup, load), signal, &trial.sinks);
    let lost = lost_before(trial).min(missing);
    let window_cpu = trial.after.gateway_cpu_seconds - trial.before.gateway_cpu_seconds;
    let settled_cpu = settled.gateway_cpu_seconds - trial.before.gateway_cpu_seconds;
    let arrived = |arrived: &[u64]| of_subject(part, arrived).sum::<u64>() as f64;
    Kpis {
        duration_s: load.seconds,
        accepted: load.acked_items,
        exported: of_subject(part, &trial.sinks).map(|sink| measured_unique(sink, signal)).sum(),
        lost,
        leaked: settings.shape.marked.map(|marked| leaked(marked, signal, &trial.sinks)),
        pending: missing - lost,
        duplicated: trial.sinks.iter().map(|sink| sink.duplicates).sum(),
        refused: load.refused_items,
        unanswered: unanswered(load),
        accepted_per_s: load.acked_per_s,
        exported_per_s: (arrived(&trial.after.arrived) - arrived(&trial.before.arrived)) / load.seconds,
        cpu_cores: window_cpu / seconds,
        cpu_s_per_million: settled_cpu / (load.acked_items.max(1) as f64 / 1e6),
        client_ms_p99: load.latency_ms.p99,
        client_ms_max: load.latency_ms.max,
        ..seen.kpis(part, load.acked_per_s)
    }
}

/// Items that were neither delivered nor held when the gateway was asked to stop.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=missing first")]
#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
fn lost_before(trial: &Trial) -> u64 {
    let held = trial.settled.held.clamp(0.0, trial.missing as f64) as u64;
    trial.missing - held
}

/// Different items of the measured run that a sink recorded.
fn measured_unique(sink: &SinkReport, signal: Signal) -> u64 {
    sink.ids_of(signal)
        .iter()
        .filter(|(first, _)| *first >= MEASURED_FIRST_ID)
        .map(|(first, last)| last - first + 1)
        .sum()
}

/// Marked items that sinks recorded.
fn leaked(marked: Marked, signal: Signal, sinks: &[SinkReport]) -> u64 {
    let leaked = |sink: &SinkReport| {
        let received = IdSet::from_ranges(sink.ids_of(signal));
        received.missing_from(&marked.kept(&received))
    };
    sinks.iter().map(leaked).sum()
}

/// Items without a whole answer that were not acknowledged on another attempt.
fn unanswered(load: &LoadReport) -> u64 {
    IdSet::from_ranges(&load.ids.unknown).missing_from(&IdSet::from_ranges(&load.ids.acked))
}

/// All items of a run are equally long.
#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
fn accepted_bytes(load: &LoadReport) -> f64 {
    load.bytes as f64 * load.acked_items as f64 / load.sent_items.max(1) as f64
}

/// What a peer does is a result. Weir keeps its promises, and nobody fails to stop.
fn checks(part: &Part<'_>, settings: &Settings, trial: &Trial, kpis: &Kpis) -> Vec<Check> {
    let mut checks = vec![checks::of_end(trial.stop_error.as_ref())];
    if part.system.kind != SystemKind::Weir {
        return checks;
    }
    if let Some(evidence) = settings.processing.evidence() {
        let promise = format!("the processing is done: {evidence} is in every request");
        checks.push(Check::new(promise, "", not_processed(settings, trial)));
    }
    checks.extend(of_items(settings, trial, kpis));
    checks.extend(checks::of_weir_itself(settings, kpis, &trial.readings));
    checks
}

/// Every item that was acknowledged arrives, if no filter drops it.
fn of_items(settings: &Settings, trial: &Trial, kpis: &Kpis) -> Vec<Check> {
    let items = settings.signal().items();
    let Kpis { accepted, lost, pending, .. } = kpis;
    let given_up = trial.settled.self_view.given_up.unwrap_or(0.0);
    let nothing = (*accepted == 0).then(|| format!("no {items} were accepted in the measured time"));
    let some = Check::new("something is accepted", format!("{accepted} {items}"), nothing);
    let losses = (*lost > 0).then(|| format!("{lost} acknowledged {items} are lost; it says it gave up {given_up:.0}"));
    let waited = settings.settle.as_secs_f64();
    let held = (*pending > 0).then(|| {
        format!("{pending} acknowledged {items} were still held when it was stopped, {waited} s after the load: use a longer --settle")
    });
    let leaked = kpis.leaked.map(|leaked| {
        let leaks = (leaked > 0).then(|| format!("{leaked} {items} arrived that the filter was to drop"));
        Check::new("nothing arrives that the filter drops", format!("{leaked} {items} leaked"), leaks)
    });
    let loss = Check::new(
        format!("every acknowledged {} arrives at every backend that it is for", singular(items)),
        format!("{lost} lost of {accepted} in the measured time and those of the warm-up"),
        losses,
    );
    let end = Check::new(
        format!("nothing is held any more {waited} s after the load"),
        format!("{pending} {items} pending, settled after {:.1} s", kpis.settle_s),
        held,
    );
    [some, loss].into_iter().chain(leaked).chain([end]).collect()
}

/// One of several items.
fn singular(items: &str) -> &str {
    items.strip_suffix('s').unwrap_or(items)
}

/// Figures of a system that left out the work say nothing.
fn not_processed(settings: &Settings, trial: &Trial) -> Option<String> {
    let evidence = settings.processing.evidence()?;
    let requests: u64 = trial.sinks.iter().map(|sink| sink.without_text).sum();
    (requests > 0).then(|| format!("{requests} requests arrived without {evidence}: it was not done"))
}

/// What a scenario was made to find out, in words.
fn facts(kpis: &Kpis, accepted_bytes: f64, settings: &Settings, trial: &Trial) -> Vec<String> {
    let mut facts = Vec::new();
    let items = settings.signal().items();
    if let Some(leaked) = kpis.leaked {
        facts.push(format!("of the {items} that the filter was to drop, {leaked} arrived"));
    }
    facts.extend(backlog_fact(kpis, settings.settle, items));
    facts.extend(disk_fact(kpis, accepted_bytes));
    if trial.settled.mended_at.is_some() {
        facts.push(match kpis.drain_s {
            Some(seconds) => format!("drained {seconds:.1} s after its backends were back"),
            None => "not drained after its backends were back".to_owned(),
        });
    }
    if let Some(kills) = &trial.kills {
        facts.push(kill_fact(kills));
        let requests: u64 = trial.load.errors.values().sum();
        facts.push(format!(
            "clients sent again what {requests} requests got no answer for; {} {items} had none to the end",
            kpis.unanswered
        ));
    }
    facts
}

fn backlog_fact(kpis: &Kpis, limit: Duration, items: &str) -> Option<String> {
    let settled = match kpis.settle_s < limit.as_secs_f64() {
        true => format!("settled {:.1} s after the load", kpis.settle_s),
        false => format!("not settled {:.0} s after the load", kpis.settle_s),
    };
    (kpis.backlog_peak > 0.0).then(|| format!("backlog at most {:.0} {items}; {settled}", kpis.backlog_peak))
}

/// A lock and an empty journal are no news.
fn disk_fact(kpis: &Kpis, accepted_bytes: f64) -> Option<String> {
    let Kpis { disk_mb_peak: held, disk_mb_written: written, .. } = kpis;
    let accepted = accepted_bytes / MIB;
    (*held >= 1.0)
        .then(|| format!("data directory at most {held:.0} MB, {written:.0} MB written for {accepted:.0} MB accepted"))
}

fn kill_fact(kills: &Kills) -> String {
    let (median, longest) = kills.recovery().unwrap_or_default();
    format!(
        "{} {} times, {} of them before it was ready again; ready {:.0} ms after a start (median), {:.0} ms at most",
        kills.ending.verb(),
        kills.count,
        kills.before_ready,
        millis(median),
        millis(longest)
    )
}

impl Trial {
    fn measured_seconds(&self) -> f64 {
        (self.after.at - self.before.at).as_secs_f64()
    }
}

#[cfg(test)]
mod tests;
