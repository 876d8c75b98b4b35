//! Metrics of scraping, for all targets of a job together: their number is not bounded, so each one is on a page instead.
//! The last one is of runtime metrics.

use std::borrow::Cow;

use super::Kind::{Counter, Gauge, Histogram};
use super::{Metric, Samples, Value};
use crate::view::{ScrapeFigures, Snapshot};

const JOB: &[&str] = &["job"];

/// A sample for each job.
fn each<'a, V: Into<Value<'a>> + 'a>(snapshot: &'a Snapshot, read: fn(&'a ScrapeFigures) -> V) -> Samples<'a> {
    let jobs = snapshot.sources.scrapes.iter();
    Box::new(jobs.map(move |figures| (vec![Cow::Borrowed(&*figures.job)], read(figures).into())))
}

/// A sample for each job and each kind of something.
fn each_kind<'a>(snapshot: &'a Snapshot, read: fn(&'a ScrapeFigures) -> &'a Vec<(&'static str, u64)>) -> Samples<'a> {
    Box::new(snapshot.sources.scrapes.iter().flat_map(move |figures| {
        let job = &*figures.job;
        read(figures).iter().map(move |(kind, count)| (vec![job.into(), (*kind).into()], (*count).into()))
    }))
}

pub(super) const METRICS: [Metric; 9] = [
    Metric {
        name: "weir_scrape_targets",
        kind: Gauge,
        labels: &["job", "state"],
        help: "Targets by how their last scrape went",
        samples: |snapshot| each_kind(snapshot, |figures| &figures.targets),
    },
    Metric {
        name: "weir_scrape_dropped_targets",
        kind: Gauge,
        labels: JOB,
        help: "What looks like a target and is not scraped",
        samples: |snapshot| each(snapshot, |figures| figures.dropped_targets),
    },
    Metric {
        name: "weir_scrape_forgotten_targets",
        kind: Gauge,
        labels: JOB,
        help: "Targets whose last page found no room in --memory to be remembered",
        samples: |snapshot| each(snapshot, |figures| figures.forgotten_targets),
    },
    Metric {
        name: "weir_scrapes_total",
        kind: Counter,
        labels: &["job", "result"],
        help: "Scrapes by their result",
        samples: |snapshot| each_kind(snapshot, |figures| &figures.scrapes),
    },
    Metric {
        name: "weir_scrape_duration_seconds",
        kind: Histogram,
        labels: JOB,
        help: "Time from the request for a page to its last byte, or to the failure",
        samples: |snapshot| each(snapshot, |figures| &figures.durations),
    },
    Metric {
        name: "weir_scraped_bytes_total",
        kind: Counter,
        labels: JOB,
        help: "Bytes of pages that were read",
        samples: |snapshot| each(snapshot, |figures| figures.bytes),
    },
    Metric {
        name: "weir_scraped_samples_total",
        kind: Counter,
        labels: JOB,
        help: "Samples on these pages",
        samples: |snapshot| each(snapshot, |figures| figures.samples),
    },
    Metric {
        name: "weir_scrape_lost_data_points_total",
        kind: Counter,
        labels: &["job", "reason"],
        help: "Data points of scrapes that not every pipeline took until the next scrape, by the reason",
        samples: |snapshot| each_kind(snapshot, |figures| &figures.lost),
    },
    Metric {
        name: "weir_runtime_lost_data_points_total",
        kind: Counter,
        labels: &["reason"],
        help: "Data points of runtime metrics that not every pipeline took until the next ones, by the reason",
        samples: |snapshot| {
            let lost = snapshot.sources.runtime_lost.iter();
            Box::new(lost.map(|(reason, count)| (vec![Cow::Borrowed(*reason)], (*count).into())))
        },
    },
];
