//! The judgement about a log agent: what arrived of the lines that were written.

use serde::Serialize;

use super::super::log_agent::{AgentTrial, Measured};
use super::super::trial::Part;
use super::super::{Settings, SystemKind};
use super::checks::{self, Check};
use super::{Course, Judgement, Kpis, Seen, backlog_fact, disk_fact, kill_fact, label, of_subject};
use crate::load::log_files::{LinesJudgement, judge as judge_lines};

/// What `result.json` says of lines beside what it says of everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LineKpis {
    /// Bytes in files, in millions.
    pub input_mb: f64,
    /// The same for each second of the agent's CPU time.
    pub input_mb_per_cpu_s: f64,
    /// Lines that arrived for the first time after a later line of their stream, summed over sinks.
    pub reordered: u64,
    /// Lines that did not arrive, a part of which at least was in a file that was deleted, summed over sinks.
    pub deleted_unread: u64,
    /// Records that were cut, or put together wrongly, summed over sinks.
    pub damaged: u64,
}

/// Share of the judge's cores above which sinks that are busier than the agent may have kept it waiting.
const BUSY: f64 = 0.5;

/// Judges a trial.
pub(crate) fn judge(part: &Part<'_>, settings: &Settings, trial: &AgentTrial) -> Judgement {
    let judgements: Vec<LinesJudgement> = trial
        .sinks
        .iter()
        .map(|sink| judge_lines(&trial.manifest, sink.log_lines.as_ref().unwrap_or(&Default::default())))
        .collect();
    let kpis = kpis(part, trial, &judgements);
    let mut checks = vec![checks::of_end(trial.stop_error.as_ref())];
    if part.system.kind == SystemKind::Weir {
        checks.extend(promises(settings, trial, &kpis, &judgements));
        checks.extend(checks::of_weir_itself(settings, &kpis, &trial.readings));
    }
    let course = Course::of(trial.window, &trial.readings, None, of_subject(part, &trial.sinks));
    Judgement {
        label: label(part),
        refused_without_hint: 0,
        accepted_bytes: input_bytes(trial),
        facts: facts(settings, trial, &kpis, &judgements),
        warnings: doubts(settings, trial),
        failures: checks::failures(&checks),
        checks,
        course: Course { away: part.script.away(), ..course },
        kpis,
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
fn input_bytes(trial: &AgentTrial) -> f64 {
    trial.manifest.bytes as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=missing first")]
fn kpis(part: &Part<'_>, trial: &AgentTrial, judgements: &[LinesJudgement]) -> Kpis {
    let AgentTrial { manifest, sinks, measured, settled, readings, .. } = trial;
    let seen = Seen { sinks, readings, settled, kills: trial.kills.as_ref() };
    let sum = |count: fn(&LinesJudgement) -> u64| judgements.iter().map(count).sum::<u64>();
    let (written, megabytes) = (manifest.lines as f64, input_bytes(trial) / 1e6);
    let written_per_s = written / measured.seconds;
    let settled_cpu = settled.gateway_cpu_seconds - measured.cpu_seconds_before;
    let missing = sum(|judgement| judgement.lost);
    let pending = settled.held.clamp(0.0, missing as f64) as u64;
    Kpis {
        duration_s: measured.seconds,
        accepted: manifest.lines,
        exported: sum(|judgement| judgement.arrived),
        lost: missing - pending,
        pending,
        duplicated: sum(|judgement| judgement.duplicated),
        accepted_per_s: written_per_s,
        exported_per_s: measured.arrived as f64 / measured.seconds,
        cpu_cores: measured.cpu_seconds / measured.seconds,
        cpu_s_per_million: settled_cpu / (written / 1e6),
        lines: Some(LineKpis {
            input_mb: megabytes,
            input_mb_per_cpu_s: megabytes / settled_cpu.max(0.01),
            reordered: sum(|judgement| judgement.reordered),
            deleted_unread: sum(|judgement| judgement.deleted),
            damaged: sum(|judgement| judgement.damaged),
        }),
        ..seen.kpis(part, written_per_s)
    }
}

/// Lines in files are what a client is not: nobody sends them again, so each that could be read has to arrive.
fn promises(settings: &Settings, trial: &AgentTrial, kpis: &Kpis, judgements: &[LinesJudgement]) -> Vec<Check> {
    let Kpis { accepted, lost, pending, .. } = kpis;
    let waited = settings.settle.as_secs_f64();
    let given_up = trial.settled.self_view.given_up.unwrap_or(0.0);
    let losses = (*lost > 0)
        .then(|| format!("{lost} lines are lost, it says it gave up {given_up:.0} records{}", worst(judgements)));
    let held = (*pending > 0)
        .then(|| format!("{pending} lines were still held {waited} s after the last one: use a longer --settle"));
    let mut checks = vec![
        Check::new("every line that is in a file arrives", format!("{lost} lost of {accepted} written"), losses),
        Check::new(
            format!("nothing is held any more {waited} s after the last line"),
            format!("{pending} pending, settled after {:.1} s", kpis.settle_s),
            held,
        ),
    ];
    checks.extend(of_records(trial, kpis, judgements));
    checks
}

/// A record is a line that somebody wrote, and a whole one.
fn of_records(trial: &AgentTrial, kpis: &Kpis, judgements: &[LinesJudgement]) -> [Check; 3] {
    let LineKpis { damaged, deleted_unread: unread, .. } = kpis.lines.clone().unwrap_or_default();
    let written = kpis.accepted;
    let cut = (damaged > 0).then(|| format!("{damaged} records are not whole lines: cut, or put together wrongly"));
    // Files may be deleted before anybody could read them, but not most of them, unless the agent was away.
    let most = trial.kills.is_none() && unread > written / 2;
    let most = most.then(|| format!("{unread} of {written} lines were deleted unread: more than half"));
    let foreign: u64 = judgements.iter().map(|judgement| judgement.foreign).sum();
    let strange = (foreign > 0).then(|| format!("{foreign} lines arrived that nobody wrote"));
    // Where files were deleted unread, these are the ends of lines that began in them.
    let unmarked: u64 =
        judgements.iter().filter(|judgement| judgement.deleted == 0).map(|judgement| judgement.unmarked).sum();
    let parts = (unmarked > 0).then(|| format!("{unmarked} records are no lines, or parts that were not joined"));
    [
        Check::new("no record is cut or put together wrongly", format!("{damaged} damaged"), cut),
        Check::new("most lines are read before their files are deleted", format!("{unread} deleted unread"), most),
        Check::new("every record is a line that was written", "", strange.into_iter().chain(parts)),
    ]
}

/// Where most lines are lost.
fn worst(judgements: &[LinesJudgement]) -> String {
    let streams = judgements.iter().flat_map(|judgement| &judgement.streams);
    let worst = streams.filter(|stream| !stream.lost.is_empty()).max_by_key(|stream| stream.lost.len());
    worst.map_or_else(String::new, |stream| {
        let (first, last) = stream.lost[0];
        format!("; for example {first} to {last} of {} {}", stream.path, stream.stream.name())
    })
}

/// Whether the judge limited the figures.
#[expect(clippy::cast_precision_loss, reason = "numbers of cores are small")]
fn doubts(settings: &Settings, trial: &AgentTrial) -> Vec<String> {
    let writer = trial.manifest.bottleneck.iter().map(|limit| format!("the writer was the limit: {limit}"));
    let Measured { seconds, cpu_seconds, sinks_cpu_seconds, .. } = trial.measured;
    let (sinks, agent) = (sinks_cpu_seconds / seconds, cpu_seconds / seconds);
    let cores = settings.layout.judge.len();
    let are_busy = sinks > agent && sinks > BUSY * cores as f64;
    let sinks = are_busy.then(|| {
        format!("the sinks were the limit, or close to it: they used {sinks:.2} of {cores} cores, the agent {agent:.2}")
    });
    writer.chain(sinks).collect()
}

fn facts(settings: &Settings, trial: &AgentTrial, kpis: &Kpis, judgements: &[LinesJudgement]) -> Vec<String> {
    let lines = kpis.lines.clone().unwrap_or_default();
    let manifest = &trial.manifest;
    let mut facts = vec![format!(
        "{} lines, {:.0} MB, of {} containers, {} rotations, {} restarts: {:.0} MB for each second of CPU time",
        manifest.lines,
        lines.input_mb,
        manifest.containers.len(),
        manifest.sum(|container| container.rotations),
        manifest.sum(|container| container.restarts.into()),
        lines.input_mb_per_cpu_s,
    )];
    let uneven = judgements.iter().map(|judgement| judgement.streams.len()).sum::<usize>();
    facts.push(format!(
        "{} lines lost, {} deleted unread, {} duplicated, {} reordered, in {uneven} of {} streams",
        kpis.lost,
        lines.deleted_unread,
        kpis.duplicated,
        lines.reordered,
        2 * manifest.containers.len() * judgements.len(),
    ));
    facts.extend(backlog_fact(kpis, settings.settle, "records"));
    facts.extend(disk_fact(kpis, input_bytes(trial)));
    facts.extend(kpis.drain_s.map(|seconds| format!("drained {seconds:.1} s after its backends were back")));
    facts.extend(trial.kills.as_ref().map(kill_fact));
    facts
}

#[cfg(test)]
mod tests;
