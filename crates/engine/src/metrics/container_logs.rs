//! Metrics of container logs, for all containers together: their number is not bounded, so each one is on a page
//! instead.

use super::Kind::{Counter, Gauge};
use super::{Metric, Samples, Value, one};
use crate::view::{ContainerLogFigures, Snapshot};

/// The one sample of a metric, where container logs are read.
fn if_read<'a>(snapshot: &'a Snapshot, read: impl Fn(&'a ContainerLogFigures) -> Value<'a>) -> Samples<'a> {
    match &snapshot.sources.container_logs {
        Some(figures) => one(read(figures)),
        None => Box::new(std::iter::empty()),
    }
}

/// A sample for each kind of something.
fn each_if_read<'a>(
    snapshot: &'a Snapshot,
    read: fn(&'a ContainerLogFigures) -> &'a Vec<(&'static str, u64)>,
) -> Samples<'a> {
    let kinds = snapshot.sources.container_logs.iter().flat_map(read);
    Box::new(kinds.map(|(kind, count)| (vec![(*kind).into()], (*count).into())))
}

pub(super) const METRICS: [Metric; 14] = [
    Metric {
        name: "weir_container_logs_containers",
        kind: Gauge,
        labels: &[],
        help: "Containers whose output is read",
        samples: |snapshot| if_read(snapshot, |figures| figures.containers.into()),
    },
    Metric {
        name: "weir_container_logs_stuck_containers",
        kind: Gauge,
        labels: &[],
        help: "Of these, those with unread output of which nothing became safe for 30 s",
        samples: |snapshot| if_read(snapshot, |figures| figures.stuck.into()),
    },
    Metric {
        name: "weir_container_logs_containers_without_memory",
        kind: Gauge,
        labels: &[],
        help: "Containers that are not read because there is no memory for their state",
        samples: |snapshot| if_read(snapshot, |figures| figures.without_memory.into()),
    },
    Metric {
        name: "weir_container_logs_open_files",
        kind: Gauge,
        labels: &[],
        help: "Files of containers that are open",
        samples: |snapshot| if_read(snapshot, |figures| figures.open_files.into()),
    },
    Metric {
        name: "weir_container_logs_removed_open_bytes",
        kind: Gauge,
        labels: &[],
        help: "Bytes of files that were removed, and stay on the disk until they are read",
        samples: |snapshot| if_read(snapshot, |figures| figures.removed_open_bytes.into()),
    },
    Metric {
        name: "weir_container_logs_behind_bytes",
        kind: Gauge,
        labels: &[],
        help: "Unread output: bytes that are neither delivered nor in the journal yet",
        samples: |snapshot| if_read(snapshot, |figures| figures.bytes_behind.into()),
    },
    Metric {
        name: "weir_container_logs_most_behind_bytes",
        kind: Gauge,
        labels: &[],
        help: "The same, of the container that has most of them",
        samples: |snapshot| if_read(snapshot, |figures| figures.most_bytes_behind.into()),
    },
    Metric {
        name: "weir_container_logs_most_behind_seconds",
        kind: Gauge,
        labels: &[],
        help: "The age of the oldest of these bytes",
        samples: |snapshot| if_read(snapshot, |figures| figures.most_behind.into()),
    },
    Metric {
        name: "weir_container_logs_records_total",
        kind: Counter,
        labels: &[],
        help: "Log records that were read and are safe",
        samples: |snapshot| if_read(snapshot, |figures| figures.records.into()),
    },
    Metric {
        name: "weir_container_logs_read_bytes_total",
        kind: Counter,
        labels: &[],
        help: "Bytes of files that were read and are safe",
        samples: |snapshot| if_read(snapshot, |figures| figures.bytes.into()),
    },
    Metric {
        name: "weir_container_logs_rotations_total",
        kind: Counter,
        labels: &[],
        help: "Files that were rotated while they were known",
        samples: |snapshot| if_read(snapshot, |figures| figures.rotations.into()),
    },
    Metric {
        name: "weir_container_logs_nul_bytes_total",
        kind: Counter,
        labels: &[],
        help: "NUL bytes that were left out",
        samples: |snapshot| if_read(snapshot, |figures| figures.nul_bytes.into()),
    },
    Metric {
        name: "weir_container_logs_odd_records_total",
        kind: Counter,
        labels: &["kind"],
        help: "Records that are not quite what was written, by what is odd about them",
        samples: |snapshot| each_if_read(snapshot, |figures| &figures.odd),
    },
    Metric {
        name: "weir_container_logs_lost_bytes_total",
        kind: Counter,
        labels: &["reason"],
        help: "Bytes that were written and could not be read, by the reason",
        samples: |snapshot| each_if_read(snapshot, |figures| &figures.lost_bytes),
    },
];
