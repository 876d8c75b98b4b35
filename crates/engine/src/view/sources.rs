//! The figures that sources in this process report.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ContainerLogFigures;
use crate::histogram::HistogramFigures;

/// What sources tell of themselves. Each changes its own part.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceFigures {
    /// `None` where no container logs are read.
    pub container_logs: Option<ContainerLogFigures>,
    /// How targets are scraped, for each job.
    pub scrapes: Vec<ScrapeFigures>,
    /// Data points of runtime metrics that were made and that not every pipeline took, by the reason.
    pub runtime_lost: BTreeMap<&'static str, u64>,
    /// What of a cluster is watched.
    pub watches: Vec<WatchFigures>,
    /// Whether this process speaks for the cluster; `None` where nobody elects who does.
    pub leads: Option<bool>,
}

/// How something of a cluster is watched. Counts are since the start.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchFigures {
    /// Which kind of objects.
    pub watched: &'static str,
    /// For whom: `node` or `cluster`.
    pub scope: &'static str,
    /// Objects that are known.
    pub objects: u64,
    /// Changes that were seen.
    pub events: u64,
    /// How often all objects were listed: once, and again when changes were missed.
    pub lists: u64,
    /// Attempts that failed.
    pub errors: u64,
    /// Since the last change, or since it was last heard that there is none.
    pub silence: Duration,
}

/// How the targets of one job are scraped. Counts are since the start; the rest is as of the source's last report.
#[derive(Debug, Clone, PartialEq)]
pub struct ScrapeFigures {
    /// Which one.
    pub job: String,
    /// Targets by their state.
    pub targets: Vec<(&'static str, u64)>,
    /// What looks like a target, and is not scraped.
    pub dropped_targets: u64,
    /// Targets whose last page found no memory to be remembered.
    pub forgotten_targets: u64,
    /// Scrapes by their result.
    pub scrapes: Vec<(&'static str, u64)>,
    /// How long they took.
    pub durations: HistogramFigures,
    /// Bytes of pages that were read.
    pub bytes: u64,
    /// Samples on these pages.
    pub samples: u64,
    /// Data points that were made and that not every pipeline took, by the reason.
    pub lost: Vec<(&'static str, u64)>,
}

impl SourceFigures {
    /// Memory that it has elsewhere, in bytes.
    pub(crate) fn heap(&self) -> usize {
        let scrapes: usize = self.scrapes.iter().map(ScrapeFigures::bytes_in_memory).sum();
        let watches = self.watches.len() * size_of::<WatchFigures>();
        scrapes + watches + self.runtime_lost.len() * size_of::<(&str, u64)>()
    }
}

impl ScrapeFigures {
    fn bytes_in_memory(&self) -> usize {
        let counts = self.targets.len() + self.scrapes.len() + self.lost.len();
        size_of::<Self>() + self.job.len() + counts * size_of::<(&str, u64)>()
    }
}
