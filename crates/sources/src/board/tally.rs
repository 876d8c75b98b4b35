//! What is counted of the scrapes of a job.

use std::collections::BTreeMap;

use weir_engine::Histogram;
use weir_engine::view::ScrapeFigures;

use super::LastScrape;
use crate::inlet::{Loss, Lost};

/// The result of a scrape that did not fail.
const OK: &str = "ok";

/// All scrapes of a job since the start.
#[derive(Debug)]
pub(super) struct Tally {
    results: BTreeMap<&'static str, u64>,
    lost: BTreeMap<&'static str, u64>,
    durations: Histogram,
    bytes: u64,
    samples: u64,
}

/// The targets of a job now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TargetCounts {
    pub(super) up: u64,
    pub(super) down: u64,
    pub(super) waiting: u64,
    pub(super) dropped: u64,
    /// Up, and not remembered.
    pub(super) forgotten: u64,
}

impl Default for Tally {
    fn default() -> Self {
        let lost = Loss::COUNTED.map(|why| (why.as_str(), 0)).into();
        Self { results: BTreeMap::new(), lost, durations: Histogram::default(), bytes: 0, samples: 0 }
    }
}

impl Tally {
    pub(super) fn add(&mut self, scrape: &LastScrape) {
        let result = scrape.failure.as_ref().map_or(OK, |failure| failure.result);
        *self.results.entry(result).or_default() += 1;
        self.durations.observe(scrape.took);
        self.bytes += scrape.bytes as u64;
        self.samples += scrape.taken.map_or(0, |taken| taken.samples as u64);
        scrape.lost.into_iter().for_each(|lost| self.add_lost(lost));
    }

    pub(super) fn add_lost(&mut self, lost: Lost) {
        *self.lost.entry(lost.why.as_str()).or_default() += lost.data_points;
    }

    /// For the metrics.
    pub(super) fn figures(&self, job: &str, targets: TargetCounts) -> ScrapeFigures {
        let TargetCounts { up, down, waiting, dropped, forgotten } = targets;
        let list = |counts: &BTreeMap<&'static str, u64>| counts.iter().map(|(name, count)| (*name, *count)).collect();
        ScrapeFigures {
            job: job.to_owned(),
            targets: vec![("up", up), ("down", down), ("waiting", waiting)],
            dropped_targets: dropped,
            forgotten_targets: forgotten,
            scrapes: list(&self.results),
            durations: self.durations.figures(),
            bytes: self.bytes,
            samples: self.samples,
            lost: list(&self.lost),
        }
    }
}
