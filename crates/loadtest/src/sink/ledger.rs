//! What the sink received, and the report about it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::ids::IdSet;
use crate::latency::{Latencies, LatencySummary};
use crate::runtime::unix_nanos;
use crate::spans::Scan;

/// The sink's books; a request is recorded in one step or not at all.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    books: Mutex<Books>,
}

#[derive(Debug)]
struct Books {
    since: Instant,
    requests: u64,
    accepted_requests: u64,
    received: u64,
    ids: IdSet,
    duplicates: u64,
    without_id: u64,
    bytes: u64,
    wire_bytes: u64,
    largest_request_bytes: u64,
    partial_rejected: u64,
    refused: BTreeMap<String, u64>,
    latencies: Latencies,
}

impl Default for Books {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            requests: 0,
            accepted_requests: 0,
            received: 0,
            ids: IdSet::default(),
            duplicates: 0,
            without_id: 0,
            bytes: 0,
            wire_bytes: 0,
            largest_request_bytes: 0,
            partial_rejected: 0,
            refused: BTreeMap::new(),
            latencies: Latencies::default(),
        }
    }
}

/// What the sink saw, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SinkReport {
    /// Seconds since the start or the last reset.
    pub seconds: f64,
    /// Requests that arrived, whatever became of them.
    pub requests: u64,
    /// Requests answered OK, partial successes included.
    pub accepted_requests: u64,
    /// Spans recorded, duplicates included.
    pub received: u64,
    /// Different span ids recorded.
    pub unique: u64,
    /// Spans recorded whose id had been recorded before.
    pub duplicates: u64,
    /// Spans recorded that had no valid id.
    pub without_id: u64,
    /// Uncompressed bytes of recorded requests.
    pub bytes: u64,
    /// Bytes of recorded requests as they were sent.
    pub wire_bytes: u64,
    /// Uncompressed bytes of the largest recorded request.
    pub largest_request_bytes: u64,
    /// Spans rejected by partial successes.
    pub partial_rejected: u64,
    /// Requests that were not accepted, by code, `reset`, `stall`, `too_large`, `malformed` or `aborted`.
    pub refused: BTreeMap<String, u64>,
    /// Time from a span's start to its arrival, one observation per request and start time.
    pub latency_ms: LatencySummary,
    /// Recorded ids as inclusive ranges, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<(u64, u64)>>,
}

/// Size of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Uncompressed message.
    pub(crate) bytes: u64,
    /// Body as it was sent.
    pub(crate) wire_bytes: u64,
}

impl Ledger {
    /// Counts a request that arrived.
    pub(crate) fn arrived(&self) {
        self.lock().requests += 1;
    }

    /// Records the spans of a request that will be answered OK.
    pub(crate) fn record(&self, scan: &Scan, size: Size, partial_rejected: u64) {
        let now = unix_nanos();
        let mut books = self.lock();
        books.accepted_requests += 1;
        books.received += scan.spans;
        books.without_id += scan.without_id;
        books.bytes += size.bytes;
        books.wire_bytes += size.wire_bytes;
        books.largest_request_bytes = books.largest_request_bytes.max(size.bytes);
        books.partial_rejected += partial_rejected;
        for run in &scan.runs {
            let length = run.end() - run.start() + 1;
            let new = books.ids.insert(run.clone());
            books.duplicates += length - new;
        }
        for (start, _) in &scan.starts {
            books.latencies.record(now.saturating_sub(*start), 1);
        }
    }

    /// Counts a request that was not accepted.
    pub(crate) fn refuse(&self, reason: &str) {
        *self.lock().refused.entry(reason.to_owned()).or_default() += 1;
    }

    /// Forgets everything.
    pub(crate) fn reset(&self) {
        *self.lock() = Books::default();
    }

    /// Forgets latencies: what a warm-up left behind.
    pub(crate) fn reset_latency(&self) {
        self.lock().latencies.clear();
    }

    /// The books as they are now.
    pub(crate) fn report(&self, with_ids: bool) -> SinkReport {
        let books = self.lock();
        SinkReport {
            seconds: books.since.elapsed().as_secs_f64(),
            requests: books.requests,
            accepted_requests: books.accepted_requests,
            received: books.received,
            unique: books.ids.len(),
            duplicates: books.duplicates,
            without_id: books.without_id,
            bytes: books.bytes,
            wire_bytes: books.wire_bytes,
            largest_request_bytes: books.largest_request_bytes,
            partial_rejected: books.partial_rejected,
            refused: books.refused.clone(),
            latency_ms: books.latencies.summary(),
            ids: with_ids.then(|| books.ids.ranges()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
