//! What a generator run did: counted while it runs, reported at its end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::client::Outcome;
use crate::ids::IdSet;
use crate::latency::{Latencies, LatencySummary};
use crate::runtime::unix_nanos;
use crate::timeline::{Interval, Timeline};

/// Counters a progress line reads while workers run.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) acked: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) unknown: AtomicU64,
    timeline: Mutex<Timeline>,
}

impl Progress {
    /// Acknowledged items, second by second.
    pub(crate) fn timeline(&self) -> Vec<Interval> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner).intervals()
    }

    /// Whether the server has answered anybody.
    pub(crate) fn is_answered(&self) -> bool {
        self.acked.load(Ordering::Relaxed) > 0 || self.refused.load(Ordering::Relaxed) > 0
    }

    fn note_acked(&self, items: u64) {
        self.acked.fetch_add(items, Ordering::Relaxed);
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner).record(unix_nanos(), items);
    }
}

/// One worker's books; merged at the end.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) sent_items: u64,
    pub(crate) acked_items: u64,
    pub(crate) refused_items: u64,
    pub(crate) unknown_items: u64,
    pub(crate) partial_rejected: u64,
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) refused_without_hint: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) connect_failures: u64,
    pub(crate) bytes: u64,
    pub(crate) acked: IdSet,
    pub(crate) refused_ids: IdSet,
    pub(crate) unknown: IdSet,
    pub(crate) latency: Latencies,
    pub(crate) lateness: Latencies,
}

/// Most different error texts kept in a report.
const ERROR_TEXTS: usize = 20;

impl Tally {
    /// Books the outcome of sending `count` items from `first_id` on.
    pub(crate) fn settle(&mut self, outcome: &Outcome, first_id: u64, count: u64, progress: &Progress) {
        let ids = first_id..=first_id + (count - 1);
        match outcome {
            Outcome::Acked { rejected } => {
                self.acked_items += count.saturating_sub(*rejected);
                self.partial_rejected += rejected;
                // Which items a partial success rejected is not said, so none of the request is an obligation.
                if *rejected == 0 {
                    self.acked.insert(ids);
                } else {
                    self.unknown.insert(ids);
                }
                progress.note_acked(count.saturating_sub(*rejected));
            }
            Outcome::Refused { code, hint } => {
                self.refused_items += count;
                self.refused_ids.insert(ids);
                self.refused_without_hint += u64::from(hint.is_none());
                *self.refused.entry(code.to_string()).or_default() += 1;
                progress.refused.fetch_add(count, Ordering::Relaxed);
            }
            Outcome::Unknown(error) => {
                self.unknown_items += count;
                self.unknown.insert(ids);
                if self.errors.len() < ERROR_TEXTS || self.errors.contains_key(error) {
                    *self.errors.entry(error.clone()).or_default() += 1;
                }
                progress.unknown.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Adds what another worker booked.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.sent_items += other.sent_items;
        self.acked_items += other.acked_items;
        self.refused_items += other.refused_items;
        self.unknown_items += other.unknown_items;
        self.partial_rejected += other.partial_rejected;
        self.refused_without_hint += other.refused_without_hint;
        self.connect_failures += other.connect_failures;
        self.bytes += other.bytes;
        for (from, to) in [(&other.refused, &mut self.refused), (&other.errors, &mut self.errors)] {
            for (key, count) in from {
                *to.entry(key.clone()).or_default() += count;
            }
        }
        self.acked.merge(&other.acked);
        self.refused_ids.merge(&other.refused_ids);
        self.unknown.merge(&other.unknown);
        self.latency.merge(&other.latency);
        self.lateness.merge(&other.lateness);
    }
}

/// What the generator did, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Seconds from the first request due to the last answer.
    pub seconds: f64,
    /// Requests sent.
    pub requests: u64,
    /// Items sent.
    pub sent_items: u64,
    /// Items acknowledged.
    pub acked_items: u64,
    /// Items in refused requests.
    pub refused_items: u64,
    /// Items in requests without a whole answer.
    pub unknown_items: u64,
    /// Items that partial successes named as rejected.
    pub partial_rejected: u64,
    /// Refused requests by code.
    pub refused: BTreeMap<String, u64>,
    /// Refused requests that had no retry hint.
    pub refused_without_hint: u64,
    /// Requests without a whole answer by cause.
    pub errors: BTreeMap<String, u64>,
    /// Attempts to connect that failed.
    pub connect_failures: u64,
    /// Bytes of request bodies sent.
    pub bytes: u64,
    /// Acknowledged items per second.
    pub acked_per_s: f64,
    /// Acknowledged items, second by second.
    #[serde(default)]
    pub timeline: Vec<Interval>,
    /// Time from when a request was due to the end of its OK answer.
    pub latency_ms: LatencySummary,
    /// How much later than due requests were sent.
    pub lateness_ms: LatencySummary,
    /// CPU seconds of this process.
    pub cpu_seconds: f64,
    /// CPU seconds per second and core it may use, 0 to 1.
    pub busy: f64,
    /// Why the generator itself was the limit, when it was.
    pub bottleneck: Option<String>,
    /// Ids by outcome.
    pub ids: LoadIds,
}

/// Ids by outcome, as inclusive ranges.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadIds {
    /// Answered OK: an obligation to deliver.
    pub acked: Vec<(u64, u64)>,
    /// Refused at least once. Whoever sends them again has most of them in `acked`, too.
    #[serde(default)]
    pub refused: Vec<(u64, u64)>,
    /// Not answered, or a partial success: may or may not arrive.
    pub unknown: Vec<(u64, u64)>,
}
