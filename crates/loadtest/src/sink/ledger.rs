//! What the sink received, and the report about it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::ids::IdSet;
use crate::latency::{Latencies, LatencySummary};
use crate::lines::{LineReport, LineTally};
use crate::runtime::unix_nanos;
use crate::scan::Scan;
use crate::series::{PageReport, PageTally};
use crate::signal::Signal;
use crate::timeline::{Interval, Timeline};

/// The sink's books; a request is recorded in one step or not at all.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    books: Mutex<Books>,
    wants: Wants,
}

/// What items are looked through for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    /// Log records for the lines of `weir load log-files`.
    pub(crate) lines: bool,
    /// Data points for the samples of `weir load scrape-targets`.
    pub(crate) pages: bool,
}

#[derive(Debug)]
struct Books {
    since: Instant,
    requests: u64,
    accepted_requests: u64,
    received: BTreeMap<Signal, u64>,
    /// Each signal has ids of its own.
    ids: BTreeMap<Signal, IdSet>,
    duplicates: u64,
    without_id: u64,
    bytes: u64,
    wire_bytes: u64,
    largest_request_bytes: u64,
    partial_rejected: u64,
    without_text: u64,
    refused: BTreeMap<String, u64>,
    latencies: Latencies,
    timeline: Timeline,
    lines: LineTally,
    pages: PageTally,
}

impl Default for Books {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            requests: 0,
            accepted_requests: 0,
            received: BTreeMap::new(),
            ids: BTreeMap::new(),
            duplicates: 0,
            without_id: 0,
            bytes: 0,
            wire_bytes: 0,
            largest_request_bytes: 0,
            partial_rejected: 0,
            without_text: 0,
            refused: BTreeMap::new(),
            latencies: Latencies::default(),
            timeline: Timeline::default(),
            lines: LineTally::default(),
            pages: PageTally::default(),
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
    /// Items recorded (spans, data points, log records), duplicates included.
    pub received: u64,
    /// The same by signal.
    pub received_by_signal: BTreeMap<Signal, u64>,
    /// Different ids recorded.
    pub unique: u64,
    /// Items recorded whose id had been recorded before.
    pub duplicates: u64,
    /// Items recorded that had no id of the generator's.
    pub without_id: u64,
    /// Uncompressed bytes of recorded requests.
    pub bytes: u64,
    /// Bytes of recorded requests as they were sent.
    pub wire_bytes: u64,
    /// Uncompressed bytes of the largest recorded request.
    pub largest_request_bytes: u64,
    /// Items rejected by partial successes.
    pub partial_rejected: u64,
    /// Requests recorded that lacked the text expected in every request.
    pub without_text: u64,
    /// Requests that were not accepted, by code, `reset`, `stall`, `too_large`, `malformed` or `aborted`.
    pub refused: BTreeMap<String, u64>,
    /// Time from when an item was made to its arrival, one observation per request and time: of spans their start, of points
    /// and records their time.
    pub latency_ms: LatencySummary,
    /// Different items that arrived and their latencies, second by second, when ids were asked for. Where lines or samples
    /// are looked for, these are the items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Interval>,
    /// Recorded ids of each signal as inclusive ranges, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<BTreeMap<Signal, Vec<(u64, u64)>>>,
    /// What arrived of the lines of `weir load log-files`, when they were looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_lines: Option<LineReport>,
    /// What arrived of the samples of `weir load scrape-targets`, when they were looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scraped: Option<PageReport>,
}

impl SinkReport {
    /// Recorded ids of one signal; none when they were not asked for.
    pub fn ids_of(&self, signal: Signal) -> &[(u64, u64)] {
        self.ids.as_ref().and_then(|ids| ids.get(&signal)).map_or(&[], Vec::as_slice)
    }
}

/// A request beside its items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Envelope {
    /// Length of the uncompressed message.
    pub(crate) bytes: u64,
    /// Length of the body as it was sent.
    pub(crate) wire_bytes: u64,
    /// Items that a partial success rejects.
    pub(crate) partial_rejected: u64,
    /// Whether the text that is expected in every request is not in it.
    pub(crate) lacks_text: bool,
}

impl Ledger {
    /// Empty books.
    pub(crate) fn new(wants: Wants) -> Self {
        Self { books: Mutex::default(), wants }
    }

    /// What is to be found in items before they are recorded.
    pub(crate) fn wants(&self) -> Wants {
        self.wants
    }

    /// Counts a request that arrived.
    pub(crate) fn arrived(&self) {
        self.lock().requests += 1;
    }

    /// Records the items of a request that will be answered OK.
    pub(crate) fn record(&self, signal: Signal, scan: &Scan, envelope: Envelope) {
        let now = unix_nanos();
        let mut books = self.lock();
        // Through the guard once, so that the fields can be borrowed each for itself.
        let books = &mut *books;
        books.accepted_requests += 1;
        *books.received.entry(signal).or_default() += scan.items;
        books.without_id += scan.without_id;
        books.bytes += envelope.bytes;
        books.wire_bytes += envelope.wire_bytes;
        books.largest_request_bytes = books.largest_request_bytes.max(envelope.bytes);
        books.partial_rejected += envelope.partial_rejected;
        books.without_text += u64::from(envelope.lacks_text);
        let ids = books.ids.entry(signal).or_default();
        let mut with_new_id = 0;
        for run in &scan.runs {
            let length = run.end() - run.start() + 1;
            let new = ids.insert(run.clone());
            books.duplicates += length - new;
            with_new_id += new;
        }
        let found = books.lines.add(&scan.lines) + books.pages.add(&scan.samples);
        books.timeline.record(now, if self.wants == Wants::default() { with_new_id } else { found });
        for (time, _) in &scan.times {
            let latency = now.saturating_sub(*time);
            books.latencies.record(latency, 1);
            books.timeline.record_latency(latency);
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
            received: books.received.values().sum(),
            received_by_signal: books.received.clone(),
            unique: books.ids.values().map(IdSet::len).sum(),
            duplicates: books.duplicates,
            without_id: books.without_id,
            bytes: books.bytes,
            wire_bytes: books.wire_bytes,
            largest_request_bytes: books.largest_request_bytes,
            partial_rejected: books.partial_rejected,
            without_text: books.without_text,
            refused: books.refused.clone(),
            latency_ms: books.latencies.summary(),
            timeline: if with_ids { books.timeline.intervals() } else { Vec::new() },
            ids: with_ids.then(|| books.ids.iter().map(|(signal, ids)| (*signal, ids.ranges())).collect()),
            log_lines: self.wants.lines.then(|| books.lines.report(with_ids)),
            scraped: self.wants.pages.then(|| books.pages.report(with_ids)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
