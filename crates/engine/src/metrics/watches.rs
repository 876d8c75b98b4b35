//! Metrics of what of a cluster is watched, and of who speaks for the cluster.

use super::Kind::{Counter, Gauge};
use super::{Metric, Samples, Value, one};
use crate::view::{Snapshot, WatchFigures};

const WATCHED: &[&str] = &["watched", "scope"];

/// A sample for each watch.
fn each<'a, V: Into<Value<'a>> + 'a>(snapshot: &'a Snapshot, read: fn(&'a WatchFigures) -> V) -> Samples<'a> {
    let watches = snapshot.sources.watches.iter();
    Box::new(watches.map(move |figures| (vec![figures.watched.into(), figures.scope.into()], read(figures).into())))
}

pub(super) const METRICS: [Metric; 6] = [
    Metric {
        name: "weir_watch_objects",
        kind: Gauge,
        labels: WATCHED,
        help: "Objects of the cluster that are known",
        samples: |snapshot| each(snapshot, |figures| figures.objects),
    },
    Metric {
        name: "weir_watch_events_total",
        kind: Counter,
        labels: WATCHED,
        help: "Changes of objects that were seen",
        samples: |snapshot| each(snapshot, |figures| figures.events),
    },
    Metric {
        name: "weir_watch_lists_total",
        kind: Counter,
        labels: WATCHED,
        help: "How often all objects were listed",
        samples: |snapshot| each(snapshot, |figures| figures.lists),
    },
    Metric {
        name: "weir_watch_errors_total",
        kind: Counter,
        labels: WATCHED,
        help: "Attempts to watch that failed",
        samples: |snapshot| each(snapshot, |figures| figures.errors),
    },
    Metric {
        name: "weir_watch_last_event_seconds",
        kind: Gauge,
        labels: WATCHED,
        help: "Time since anything was heard of a watch",
        samples: |snapshot| each(snapshot, |figures| figures.silence),
    },
    Metric {
        name: "weir_cluster_leader",
        kind: Gauge,
        labels: &[],
        help: "Whether this process speaks for the cluster",
        samples: |snapshot| match snapshot.sources.leads {
            Some(leads) => one(leads),
            None => Box::new(std::iter::empty()),
        },
    },
];
