//! Which pages were read, and by whom to the end.

use serde::{Deserialize, Serialize};

use crate::ids::IdSet;

/// What was served, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PagesReport {
    /// Seconds from the start to the end.
    pub seconds: f64,
    /// Series of a page: each becomes one data point.
    pub series: u64,
    /// Samples of a page: its lines.
    pub samples: u64,
    /// Bytes of the first page.
    pub page_bytes: u64,
    /// Scrapes that were answered with 503.
    pub refused: u64,
    /// Pages of which only a half was sent.
    pub hung: u64,
    /// CPU seconds of the generator.
    pub cpu_seconds: f64,
    /// Share of its cores.
    pub busy: f64,
    /// The targets, by number.
    pub targets: Vec<TargetReport>,
}

/// The scrapes of a target by number, as inclusive ranges.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetReport {
    /// Those whose page was taken to the end.
    pub whole: Vec<(u64, u64)>,
    /// Those whose page was not: nobody knows what became of it.
    pub cut: Vec<(u64, u64)>,
}

impl PagesReport {
    /// Pages that were taken to the end.
    pub(crate) fn whole(&self) -> u64 {
        self.targets.iter().map(|target| IdSet::from_ranges(&target.whole).len()).sum()
    }

    /// Those that were not.
    pub(crate) fn cut(&self) -> u64 {
        self.targets.iter().map(|target| IdSet::from_ranges(&target.cut).len()).sum()
    }
}
