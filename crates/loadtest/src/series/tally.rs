//! Which samples of which scrapes arrived, and how often.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Finding, Lines};

/// The books about the samples of `weir load scrape-targets`.
#[derive(Debug, Default)]
pub(crate) struct PageTally {
    scrapes: BTreeMap<(u32, u64), Arrived>,
    samples: u64,
    duplicates: u64,
    ended: u64,
    damaged: u64,
    foreign: u64,
}

impl PageTally {
    /// Books what a request brought; says how many samples are new.
    pub(crate) fn add(&mut self, points: &[Finding]) -> u64 {
        let before = self.samples;
        // Points of a scrape come together: it is looked up once for all of them.
        for points in points.chunk_by(|a, b| scrape_of(a) == scrape_of(b)) {
            match scrape_of(&points[0]) {
                Some(scrape) => self.add_samples(scrape, points),
                None => points.iter().for_each(|point| self.add_other(*point)),
            }
        }
        self.samples - before
    }

    fn add_samples(&mut self, scrape: (u32, u64), points: &[Finding]) {
        let arrived = self.scrapes.entry(scrape).or_default();
        for point in points {
            let Finding::Sample { series, lines, .. } = *point else { continue };
            if arrived.insert(series, lines) {
                self.samples += lines.count();
            } else {
                self.duplicates += lines.count();
            }
        }
    }

    fn add_other(&mut self, point: Finding) {
        match point {
            Finding::Ended => self.ended += 1,
            Finding::Damaged => self.damaged += 1,
            Finding::Foreign => self.foreign += 1,
            Finding::Sample { .. } => (),
        }
    }

    /// The books as they are now; each scrape only on request.
    pub(crate) fn report(&self, with_scrapes: bool) -> PageReport {
        let scrape = |(&(target, scrape), arrived): (&(u32, u64), &Arrived)| (target, scrape, arrived.samples);
        PageReport {
            samples: self.samples,
            duplicates: self.duplicates,
            ended: self.ended,
            damaged: self.damaged,
            foreign: self.foreign,
            scrapes: if with_scrapes { self.scrapes.iter().map(scrape).collect() } else { Vec::new() },
        }
    }
}

fn scrape_of(point: &Finding) -> Option<(u32, u64)> {
    match *point {
        Finding::Sample { target, scrape, .. } => Some((target, scrape)),
        Finding::Ended | Finding::Damaged | Finding::Foreign => None,
    }
}

/// What is there of one scrape: a bit for each point that can arrive by itself.
#[derive(Debug, Default)]
struct Arrived {
    /// By the number of the line, then of the series.
    seen: Vec<Vec<u64>>,
    samples: u64,
}

impl Arrived {
    /// Says whether it is new.
    #[expect(clippy::cast_possible_truncation, reason = "a series' number has seven digits")]
    fn insert(&mut self, series: u64, lines: Lines) -> bool {
        let (word, bit) = (series as usize / 64, 1 << (series % 64));
        let line = lines.number();
        if self.seen.len() <= line {
            self.seen.resize(line + 1, Vec::new());
        }
        let seen = &mut self.seen[line];
        if seen.len() <= word {
            seen.resize(word + 1, 0);
        }
        let is_new = seen[word] & bit == 0;
        seen[word] |= bit;
        if is_new {
            self.samples += lines.count();
        }
        is_new
    }
}

/// What arrived of the samples of `weir load scrape-targets`, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PageReport {
    /// Samples, as lines of pages: a histogram has many. Each once.
    pub samples: u64,
    /// Samples that had arrived before.
    pub duplicates: u64,
    /// Points that say that a series has ended.
    pub ended: u64,
    /// Points whose labels or values are not what stood on a page.
    pub damaged: u64,
    /// Points of somebody else, as metrics about scrapes are.
    pub foreign: u64,
    /// Target, scrape, and how many of its samples arrived, each once, when asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scrapes: Vec<(u32, u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::super::Part;
    use super::*;

    fn sample(target: u32, series: u64, scrape: u64, lines: Lines) -> Finding {
        Finding::Sample { target, series, scrape, lines }
    }

    #[test]
    fn samples_are_counted_once_for_each_scrape() {
        let (one, many) = (Lines::All(1), Lines::All(12));
        let mut tally = PageTally::default();
        tally.add(&[sample(0, 0, 1, one), sample(0, 500, 1, many), sample(1, 0, 1, one), Finding::Ended]);
        tally.add(&[Finding::Foreign, sample(0, 500, 1, many), sample(0, 500, 2, many), Finding::Damaged]);
        let expected = PageReport {
            samples: 26,
            duplicates: 12,
            ended: 1,
            damaged: 1,
            foreign: 1,
            scrapes: vec![(0, 1, 13), (0, 2, 12), (1, 1, 1)],
        };
        assert_eq!(tally.report(true), expected);
        assert_eq!(tally.report(false).scrapes, []);
    }

    #[test]
    fn lines_that_come_one_by_one_are_counted_one_by_one() {
        let parts = [Part::At(0), Part::At(9), Part::Sum, Part::Count];
        let points = parts.map(|part| sample(0, 500, 1, Lines::One(part)));
        let mut tally = PageTally::default();
        tally.add(&points);
        tally.add(&points[1..3]);
        let PageReport { samples, duplicates, scrapes, .. } = tally.report(true);
        assert_eq!((samples, duplicates, scrapes), (4, 2, vec![(0, 1, 4)]));
    }
}
