//! How targets are scraped and how the kubelet is reached, as plain data: what the page, the metrics and `weir targets`
//! show. `tally` is what is counted of scrapes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Serialize, Serializer};
use tokio::time::Instant;
use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Shown};
use weir_engine::view::ScrapeFigures;

use self::kubelet::{KubeletRow, KubeletStatus};
use self::tally::{Tally, TargetCounts};
use crate::inlet::Lost;
use crate::scrape::{PageReader, Taken, Target, Viewing};

mod kubelet;
mod tally;

/// Of what is not scraped, so much is kept for the page.
const MOST_DROPPED: usize = 1000;

/// How all targets are scraped, also before that starts and after it ends. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct TargetBoard(Arc<Mutex<Targets>>);

#[derive(Debug, Default)]
struct Targets {
    rows: HashMap<Target, Row>,
    dropped: Vec<DroppedTarget>,
    /// How many there are of each job, kept or not.
    dropped_counts: BTreeMap<String, u64>,
    tallies: BTreeMap<String, Tally>,
    /// What runtime metrics come from, if they are wanted.
    kubelet: Option<KubeletRow>,
    /// As many targets as there have been.
    last_id: u64,
    /// Reads pages for people, while targets are scraped.
    reader: Option<PageReader>,
}

/// One target.
#[derive(Debug, Default)]
struct Row {
    /// Tells it from all other targets that there have been.
    id: u64,
    pipelines: Vec<String>,
    next: Option<Instant>,
    last: Option<LastScrape>,
    lost_data_points: u64,
}

/// What looks like a target and is not scraped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DroppedTarget {
    /// Who would scrape it.
    pub job: String,
    /// Its address, or the name of what has none.
    pub target: String,
    /// Why it is not scraped, and what to do.
    pub reason: String,
}

/// How the last scrape of a target went.
#[derive(Debug, Clone, PartialEq)]
pub struct LastScrape {
    /// When it began.
    pub began: Instant,
    /// How long it took until the page was there, or was not.
    pub took: Duration,
    /// What went wrong, if anything.
    pub failure: Option<Failure>,
    /// Bytes of the page.
    pub bytes: usize,
    /// What came of the page.
    pub taken: Option<Taken>,
    /// What not every pipeline took.
    pub lost: Option<Lost>,
    /// Whether there was memory to remember the page.
    pub is_remembered: bool,
}

/// Why a scrape failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// In one word, for metrics.
    pub result: &'static str,
    /// For people.
    pub words: String,
}

impl Failure {
    /// Whether it is the same but for numbers, such as how many samples are on the page now.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let without_digits = |words: &str| words.chars().filter(|char| !char.is_ascii_digit()).collect::<String>();
        self.result == other.result && without_digits(&self.words) == without_digits(&other.words)
    }
}

impl TargetBoard {
    /// How the last scrape of each target went, by its address. Those that were not scraped yet are left out.
    pub fn all(&self) -> Vec<(String, LastScrape)> {
        let targets = self.targets();
        let scraped = targets.sorted().into_iter();
        scraped.filter_map(|(target, row)| Some((target.url().to_string(), row.last.clone()?))).collect()
    }

    /// Shows what looks like a target and is not scraped, instead of what was shown so far.
    pub fn set_dropped(&self, mut dropped: Vec<DroppedTarget>) {
        let mut counts = BTreeMap::new();
        for target in &dropped {
            *counts.entry(target.job.clone()).or_default() += 1;
        }
        dropped.truncate(MOST_DROPPED);
        let mut targets = self.targets();
        (targets.dropped, targets.dropped_counts) = (dropped, counts);
    }

    /// These are all targets from now on, each with the pipelines that take from it.
    pub(crate) fn set_targets(&self, wanted: Vec<(Target, Vec<String>)>) {
        let mut targets = self.targets();
        let Targets { rows, last_id, .. } = &mut *targets;
        let wanted_targets: HashSet<&Target> = wanted.iter().map(|(target, _)| target).collect();
        rows.retain(|target, _| wanted_targets.contains(target));
        for (target, pipelines) in wanted {
            let new = || {
                *last_id += 1;
                Row { id: *last_id, ..Row::default() }
            };
            rows.entry(target).or_insert_with(new).pipelines = pipelines;
        }
    }

    /// The names of the pipelines that take from it; `None` once it is no target any more.
    pub(crate) fn pipelines_of(&self, target: &Target) -> Option<String> {
        self.targets().rows.get(target).map(|row| row.pipelines.join(", "))
    }

    /// It will be scraped at this time.
    pub(crate) fn set_next(&self, target: &Target, next: Instant) {
        if let Some(row) = self.targets().rows.get_mut(target) {
            row.next = Some(next);
        }
    }

    /// What reads pages for people from now on.
    pub(crate) fn set_reader(&self, reader: Option<PageReader>) {
        self.targets().reader = reader;
    }

    /// The page of the target with this id, to be read at once; `None` if there is no such target.
    pub fn viewing(&self, id: u64) -> Option<Viewing> {
        let targets = self.targets();
        let (target, _) = targets.rows.iter().find(|(_, row)| row.id == id)?;
        Some(targets.reader.as_ref()?.viewing(target))
    }

    /// Notes a scrape. Returns how the one before it went.
    pub(crate) fn note(&self, target: &Target, scrape: LastScrape) -> Option<LastScrape> {
        let mut targets = self.targets();
        targets.tallies.entry(target.job().name().to_owned()).or_default().add(&scrape);
        // A target that has left was scraped all the same.
        let row = targets.rows.get_mut(target)?;
        row.lost_data_points += scrape.lost.map_or(0, |lost| lost.data_points);
        row.last.replace(scrape)
    }

    /// Notes what was lost of a target that has left.
    pub(crate) fn note_lost(&self, target: &Target, lost: Lost) {
        self.targets().tallies.entry(target.job().name().to_owned()).or_default().add_lost(lost);
    }

    /// For the metrics.
    pub(crate) fn figures(&self) -> Vec<ScrapeFigures> {
        let targets = self.targets();
        let mut jobs: BTreeMap<&str, TargetCounts> = BTreeMap::new();
        targets.tallies.keys().for_each(|job| _ = jobs.entry(job).or_default());
        for (job, count) in &targets.dropped_counts {
            jobs.entry(job).or_default().dropped = *count;
        }
        for (target, row) in &targets.rows {
            let counts = jobs.entry(target.job().name()).or_default();
            counts.forgotten += u64::from(row.is_forgotten());
            match row.state() {
                State::Up => counts.up += 1,
                State::Down => counts.down += 1,
                State::Waiting => counts.waiting += 1,
            }
        }
        let none = Tally::default();
        let of = |job: &str| targets.tallies.get(job).unwrap_or(&none);
        jobs.into_iter().map(|(job, counts)| of(job).figures(job, counts)).collect()
    }

    fn targets(&self) -> MutexGuard<'_, Targets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Targets {
    fn sorted(&self) -> Vec<(&Target, &Row)> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by_cached_key(|(target, _)| (target.job().name(), target.url().to_string()));
        rows
    }
}

impl Row {
    /// Whether its last page was taken and could not be remembered.
    fn is_forgotten(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.failure.is_none() && !last.is_remembered)
    }

    fn state(&self) -> State {
        match &self.last {
            None => State::Waiting,
            Some(last) if last.failure.is_some() => State::Down,
            Some(_) => State::Up,
        }
    }
}

/// How each target is scraped, and what is not scraped, as JSON.
impl Page for TargetBoard {
    fn show(&self, _: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        let targets = self.targets();
        let urls: usize = targets.rows.keys().map(|target| target.url().to_string().len()).sum();
        if !body.reserve(urls + targets.rows.len() * (size_of::<TargetStatus<'_>>() + 64)) {
            return None;
        }
        let all = TargetList {
            targets: targets.sorted().into_iter().map(|(target, row)| TargetStatus::new(target, row)).collect(),
            dropped: &targets.dropped,
            kubelet: targets.kubelet.as_ref().map(KubeletStatus::new),
            dropped_not_shown: targets.dropped_counts.values().sum::<u64>() - targets.dropped.len() as u64,
        };
        serde_json::to_writer_pretty(&mut *body, &all).ok()?;
        body.write_all(b"\n").ok()?;
        Some(Shown::JSON)
    }
}

/// The page.
#[derive(Debug, Serialize)]
struct TargetList<'a> {
    targets: Vec<TargetStatus<'a>>,
    dropped: &'a [DroppedTarget],
    dropped_not_shown: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubelet: Option<KubeletStatus<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Up,
    Down,
    /// For the first scrape.
    Waiting,
}

/// How a target is scraped.
#[derive(Debug, Serialize)]
struct TargetStatus<'a> {
    id: u64,
    job: &'a str,
    #[serde(serialize_with = "as_text")]
    url: &'a http::Uri,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    pipelines: &'a [String],
    #[serde(flatten)]
    last: Option<LastStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_in_seconds: Option<f64>,
    lost_data_points: u64,
}

/// How its last scrape went.
#[derive(Debug, Serialize)]
struct LastStatus {
    seconds_ago: f64,
    took_seconds: f64,
    bytes: usize,
    samples: usize,
    samples_after_relabeling: usize,
    samples_repeated: usize,
    series: usize,
    series_added: usize,
    is_remembered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
}

impl<'a> TargetStatus<'a> {
    fn new(target: &'a Target, row: &'a Row) -> Self {
        let Row { id, pipelines, next, last, lost_data_points } = row;
        let until = |next: Instant| next.saturating_duration_since(Instant::now()).as_secs_f64();
        Self {
            id: *id,
            job: target.job().name(),
            url: target.url(),
            state: row.state(),
            error: last.as_ref().and_then(|last| Some(last.failure.as_ref()?.words.as_str())),
            pipelines,
            last: last.as_ref().map(LastStatus::new),
            next_in_seconds: next.map(until),
            lost_data_points: *lost_data_points,
        }
    }
}

impl LastStatus {
    fn new(last: &LastScrape) -> Self {
        let Taken { samples, added, repeated, dropped, .. } = last.taken.unwrap_or_default();
        Self {
            seconds_ago: last.began.elapsed().as_secs_f64(),
            took_seconds: last.took.as_secs_f64(),
            bytes: last.bytes,
            samples,
            samples_after_relabeling: samples - dropped,
            samples_repeated: repeated,
            series: samples - dropped - repeated,
            series_added: added,
            is_remembered: last.is_remembered,
            lost: last.lost.map(|lost| format!("{} data points: {}", lost.data_points, lost.why)),
        }
    }
}

fn as_text<S: Serializer>(text: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrape::Job;

    #[test]
    fn losses_are_counted_before_the_first_scrape() {
        let board = TargetBoard::default();
        board.set_targets(vec![(Target::new("http://127.0.0.1:1/metrics", Job::Static).unwrap(), Vec::new())]);
        assert_eq!(board.figures()[0].lost, [("no_memory", 0), ("no_room", 0), ("too_large", 0)]);
    }

    #[test]
    fn failures_that_differ_in_numbers_alone_are_said_once() {
        let failure = |result, words: &str| Failure { result, words: words.to_owned() };
        let many = failure("limit", "60007 samples are more than 50000");
        assert!(many.is_like(&failure("limit", "612 samples are more than 50000")));
        assert!(!many.is_like(&failure("too_large", "60007 samples are more than 50000")));
        assert!(!many.is_like(&failure("limit", "a sample has more than 1000 labels")));
    }
}
