//! The judgement about a metric agent: what arrived of the pages that it read.
//!
//! Definitions, per sink and summed over sinks:
//! - a page that was taken to the end is owed whole. It is lost when none of its samples arrived, and torn when some did.
//! - a page that was not taken to the end may arrive whole or not at all.

use std::collections::HashMap;

use serde::Serialize;

use super::super::metric_agent::{Measured, ScrapeTrial};
use super::super::trial::Part;
use super::super::{Settings, SystemKind};
use super::checks::{self, Check};
use super::{Course, Judgement, Kpis, MIB, Seen, backlog_fact, disk_fact, label, of_subject};
use crate::ids::IdSet;
use crate::load::scrape_targets::PagesReport;
use crate::series::PageReport;
use crate::sink::SinkReport;

/// What `result.json` says of pages beside what it says of everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PageKpis {
    /// Pages that were taken to the end.
    pub scrapes: u64,
    /// Of these, pages of which nothing arrived, summed over sinks.
    pub scrapes_lost: u64,
    /// Pages of which a part arrived, summed over sinks.
    pub scrapes_torn: u64,
    /// Samples of pages that were not served, or are not what stood on one, summed over sinks.
    pub damaged: u64,
    /// Samples that arrived for each second of the agent's CPU time, in the measured time.
    pub samples_per_cpu_s: f64,
    /// Median of the agent's resident memory in MiB.
    pub memory_mb_median: f64,
    /// CPU seconds per second of the targets and of the sinks.
    pub targets_cpu_cores: f64,
    /// The same of the sinks.
    pub sinks_cpu_cores: f64,
}

/// Share of the judge's cores above which it may have kept an agent waiting.
const BUSY: f64 = 0.7;

/// What a sink has of the pages that were served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Compared {
    whole: u64,
    lost: u64,
    torn: u64,
    /// Samples that are missing.
    missing: u64,
    damaged: u64,
}

/// Judges a trial.
pub(crate) fn judge(part: &Part<'_>, settings: &Settings, trial: &ScrapeTrial) -> Judgement {
    let reported = |sink: &SinkReport| sink.scraped.clone().unwrap_or_default();
    let compared: Vec<Compared> = trial.sinks.iter().map(|sink| compare(&trial.served, &reported(sink))).collect();
    let kpis = kpis(part, trial, &compared);
    let mut checks = vec![checks::of_end(trial.stop_error.as_ref())];
    if part.system.kind == SystemKind::Weir {
        checks.extend(promises(part, settings, trial, &kpis));
        checks.extend(checks::of_weir_itself(settings, &kpis, &trial.readings));
    }
    let course = Course::of(trial.window, &trial.readings, None, of_subject(part, &trial.sinks));
    Judgement {
        label: label(part),
        refused_without_hint: 0,
        accepted_bytes: page_bytes(trial),
        facts: facts(settings, trial, &kpis, &compared),
        warnings: doubts(settings, trial),
        failures: checks::failures(&checks),
        checks,
        course: Course { away: part.script.away(), ..course },
        kpis,
    }
}

/// Scrape by scrape.
fn compare(pages: &PagesReport, sink: &PageReport) -> Compared {
    let mut samples: HashMap<(u32, u64), u64> =
        sink.scrapes.iter().map(|&(target, scrape, samples)| ((target, scrape), samples)).collect();
    let mut compared = Compared { damaged: sink.damaged, ..Compared::default() };
    for (target, served) in (0..).zip(&pages.targets) {
        for (ranges, owed) in [(&served.whole, true), (&served.cut, false)] {
            for scrape in ranges.iter().flat_map(|&(first, last)| first..=last) {
                match samples.remove(&(target, scrape)).unwrap_or(0) {
                    arrived if arrived == pages.samples => compared.whole += 1,
                    0 if owed => {
                        compared.lost += 1;
                        compared.missing += pages.samples;
                    }
                    0 => (),
                    arrived => {
                        compared.torn += 1;
                        compared.missing += pages.samples.saturating_sub(arrived);
                    }
                }
            }
        }
    }
    compared.damaged += samples.values().sum::<u64>();
    compared
}

#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
fn page_bytes(trial: &ScrapeTrial) -> f64 {
    (trial.served.whole() * trial.served.page_bytes) as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts of a load test are far below 2^53")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=missing first")]
fn kpis(part: &Part<'_>, trial: &ScrapeTrial, compared: &[Compared]) -> Kpis {
    let ScrapeTrial { served, sinks, measured, settled, readings, .. } = trial;
    let seen = Seen { sinks, readings, settled, kills: None };
    let sum = |count: fn(&Compared) -> u64| compared.iter().map(count).sum::<u64>();
    let of_sinks =
        |count: fn(&PageReport) -> u64| sinks.iter().filter_map(|sink| sink.scraped.as_ref()).map(count).sum();
    let accepted = served.whole() * served.samples;
    let accepted_per_s = accepted as f64 / served.seconds;
    let missing = sum(|compared| compared.missing);
    let pending = settled.held.clamp(0.0, missing as f64) as u64;
    let per_sample = 1e6 / (measured.arrived.max(1) as f64);
    Kpis {
        duration_s: measured.seconds,
        accepted,
        exported: of_sinks(|pages| pages.samples),
        lost: missing - pending,
        pending,
        duplicated: of_sinks(|pages| pages.duplicates),
        accepted_per_s,
        exported_per_s: measured.arrived as f64 / measured.seconds,
        cpu_cores: measured.cpu_seconds / measured.seconds,
        // When nothing arrived, all CPU time is for what is still to come.
        cpu_s_per_million: if measured.arrived > 0 { measured.cpu_seconds * per_sample } else { 0.0 },
        pages: Some(PageKpis {
            scrapes: served.whole(),
            scrapes_lost: sum(|compared| compared.lost),
            scrapes_torn: sum(|compared| compared.torn),
            damaged: sum(|compared| compared.damaged),
            samples_per_cpu_s: measured.arrived as f64 / measured.cpu_seconds.max(0.01),
            memory_mb_median: median(&readings.memory_bytes) / MIB,
            targets_cpu_cores: measured.targets_cpu_seconds / measured.seconds,
            sinks_cpu_cores: measured.sinks_cpu_seconds / measured.seconds,
        }),
        ..seen.kpis(part, accepted_per_s)
    }
}

#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^53 bytes")]
fn median(values: &[u64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0) as f64
}

/// A page is read once, and nobody asks a target for it again.
fn promises(part: &Part<'_>, settings: &Settings, trial: &ScrapeTrial, kpis: &Kpis) -> Vec<Check> {
    let pages = kpis.pages.clone().unwrap_or_default();
    let none = |promise: &str, count: u64, broken: &str| {
        Check::new(promise, count.to_string(), (count > 0).then(|| format!("{count} {broken}")))
    };
    let waited = settings.settle.as_secs_f64();
    let held = (kpis.pending > 0)
        .then(|| format!("{} points were still held after {waited} s: use a longer --settle", kpis.pending));
    let targets = &trial.served.targets;
    let idle = targets.iter().filter(|target| IdSet::from_ranges(&target.whole).is_empty()).count();
    let unasked = (idle > 0 && trial.served.refused + trial.served.hung == 0)
        .then(|| format!("{idle} of {} targets were never scraped", targets.len()));
    let lost = "pages that it read to the end are lost, or were held to the end";
    let mut checks = vec![
        none("no page that it read to the end is lost", pages.scrapes_lost, lost),
        none("no page arrives in part", pages.scrapes_torn, "pages arrived in part"),
        none("every sample is what stood on a page", pages.damaged, "samples are not what stood on a page"),
        Check::new(format!("nothing is held any more after {waited} s"), format!("{} pending", kpis.pending), held),
        Check::new("every target is scraped", format!("{} pages of {}", pages.scrapes, targets.len()), unasked),
    ];
    // A backend that goes away may have taken a request and not said so, and is sent it again.
    if part.script.away().is_none() {
        checks.push(none("no sample arrives twice", kpis.duplicated, "samples arrived twice"));
    }
    checks
}

/// Whether the judge limited the figures.
#[expect(clippy::cast_precision_loss, reason = "numbers of cores are small")]
fn doubts(settings: &Settings, trial: &ScrapeTrial) -> Vec<String> {
    let Measured { seconds, sinks_cpu_seconds, targets_cpu_seconds, .. } = trial.measured;
    let used = (sinks_cpu_seconds + targets_cpu_seconds) / seconds;
    let cores = settings.layout.judge.len();
    let doubt = format!("the judge may have been the limit: targets and sinks used {used:.2} of {cores} cores");
    (used > BUSY * cores as f64).then_some(doubt).into_iter().collect()
}

fn facts(settings: &Settings, trial: &ScrapeTrial, kpis: &Kpis, compared: &[Compared]) -> Vec<String> {
    let pages = kpis.pages.clone().unwrap_or_default();
    let PagesReport { samples, page_bytes: bytes, refused, hung, .. } = trial.served;
    let whole: u64 = compared.iter().map(|compared| compared.whole).sum();
    let mut facts = vec![
        format!(
            "{:.0} samples for each second of CPU time; {:.0} MB of memory (median); targets used {:.2} cores, sinks {:.2}",
            pages.samples_per_cpu_s, pages.memory_mb_median, pages.targets_cpu_cores, pages.sinks_cpu_cores,
        ),
        format!(
            "{} pages of {samples} samples and {bytes} bytes read, {} cut, {refused} refused, {hung} hung; {whole} arrived whole, {} lost, {} torn",
            pages.scrapes,
            trial.served.cut(),
            pages.scrapes_lost,
            pages.scrapes_torn,
        ),
    ];
    facts.extend(backlog_fact(kpis, settings.settle, "points"));
    facts.extend(disk_fact(kpis, page_bytes(trial)));
    facts.extend(kpis.drain_s.map(|seconds| format!("drained {seconds:.1} s after its backends were back")));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::scrape_targets::TargetReport;

    /// Pages of twenty samples, of which two targets served three each, the last one of the first cut off.
    fn compared(scrapes: &[(u32, u64, u64)]) -> Compared {
        let target =
            |whole: &[(u64, u64)], cut: &[(u64, u64)]| TargetReport { whole: whole.to_vec(), cut: cut.to_vec() };
        let targets = vec![target(&[(1, 2)], &[(3, 3)]), target(&[(1, 3)], &[])];
        let pages = PagesReport { series: 10, samples: 20, targets, ..PagesReport::default() };
        compare(&pages, &PageReport { scrapes: scrapes.to_vec(), ..PageReport::default() })
    }

    const ALL: [(u32, u64, u64); 5] = [(0, 1, 20), (0, 2, 20), (1, 1, 20), (1, 2, 20), (1, 3, 20)];

    #[test]
    fn a_page_arrives_whole_or_is_lost_or_torn() {
        let whole = Compared { whole: 5, ..Compared::default() };
        assert_eq!(compared(&ALL), whole);
        assert_eq!(compared(&[&ALL[..], &[(0, 3, 20)]].concat()), Compared { whole: 6, ..whole }, "cut, and complete");
        assert_eq!(compared(&[&ALL[..], &[(0, 3, 4)]].concat()), Compared { torn: 1, missing: 16, ..whole });
        assert_eq!(compared(&ALL[1..]), Compared { whole: 4, lost: 1, missing: 20, ..whole });
        let torn = [&ALL[1..], &[(0, 1, 19)]].concat();
        assert_eq!(compared(&torn), Compared { whole: 4, torn: 1, missing: 1, ..whole });
        assert_eq!(compared(&[&ALL[..], &[(1, 4, 20)]].concat()), Compared { damaged: 20, ..whole }, "never served");
    }
}
