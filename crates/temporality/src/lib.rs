//! Cumulative to delta: metrics that count since the start of their process become what was added since the last point.
//!
//! A [`Converter`] remembers the last point of each series and rewrites requests on their bytes: what it does not
//! convert stays as it was sent, unknown fields included. The rules are those of the `cumulativetodelta` processor of
//! the OpenTelemetry Collector, with `initial_value: auto`; `docs/temporality.md` tells them to users, with the places
//! where we differ.
//!
//! This crate must not know async code, sockets, files, pipelines or the clock: time is a parameter.
//!
//! Invariants, cited in code and tests:
//! - **DELTA-1** while a series is remembered, the sum of its deltas, those owed included, is what it was given since
//!   its first point: no request that was refused and undone, in whatever order, is lost or counted twice.
//! - **DELTA-2** no point is ever counted twice because its series was forgotten: a series is taken for a new one only
//!   if it started after all forgotten series were last seen.
//! - **DELTA-3** after every conversion and undo, what is remembered takes at most `Limits::max_bytes`; series
//!   forgotten for want of memory are counted.
//! - **DELTA-4** every data point of a request is converted, passed on or dropped, and counted as such.
//! - **DELTA-5** a request whose points were dropped because of points that came before relies on these. It says so as
//!   long as the requests that brought them may be undone.

#![forbid(unsafe_code)]

mod convert;
mod counts;
mod exponential;
mod histogram;
mod identity;
mod packed;
mod point;
mod reliance;
mod series;
mod snapshot;
mod undo;
mod value;

use std::borrow::Cow;
use std::io;
use std::time::Duration;

pub use counts::{Counts, Dropped, Forgotten, Passed};
pub use reliance::Reliance;
pub use snapshot::SnapshotError;
pub use undo::{Undo, Undone};
use weir_otlp::{NoRoom, Room};

use crate::series::SeriesTable;

/// What a converter may remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Memory of all series. A sum takes about 120 bytes, a histogram 170 and an exponential one 220, and one to three
    /// more per bucket.
    /// Default 64 MiB: 550,000 sums.
    pub max_bytes: usize,
    /// How long a series is remembered after its last point, by the caller's clock. Default 1 h.
    pub max_staleness: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: 64 << 20, max_staleness: Duration::from_secs(3600) }
    }
}

/// The last point of every series, and what to make of the next one.
#[derive(Debug)]
pub struct Converter {
    table: SeriesTable,
}

/// A request after conversion.
#[derive(Debug)]
pub struct Converted<'a> {
    /// The request; borrowed when nothing in it was to be converted, and empty when all of it was dropped.
    pub request: Cow<'a, [u8]>,
    /// What became of its points.
    pub counts: Counts,
    /// Takes the conversion back, should the request be refused. Dropped once the request is accepted.
    pub undo: Undo,
    /// What has to be accepted as well before this request is (DELTA-5).
    pub reliance: Option<Reliance>,
}

impl Converter {
    /// A converter that knows no series. `now` is in nanoseconds since the Unix epoch, like all times here: a series
    /// that started later is a new one, and its first point is a delta already.
    pub fn new(limits: Limits, now: u64) -> Self {
        Self { table: SeriesTable::new(limits, now) }
    }

    /// Converts the cumulative sums and histograms of a valid request to delta temporality, with as much memory as
    /// there is.
    ///
    /// # Errors
    /// None; see [`convert_within`](Self::convert_within).
    pub fn convert<'a>(&mut self, request: &'a [u8], now: u64) -> Result<Converted<'a>, NoRoom> {
        self.convert_within(request, now, &mut |_| true)
    }

    /// The same, with memory that `pay` gives: so many bytes more each time, or false when there are none. When it is
    /// done, what it leaves behind are the request and [`Undo::bytes`].
    ///
    /// # Errors
    /// [`NoRoom`] when `pay` says so. Nothing is remembered of the request then.
    pub fn convert_within<'a>(
        &mut self,
        request: &'a [u8],
        now: u64,
        pay: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Converted<'a>, NoRoom> {
        convert::convert(&mut self.table, request, now, Room::new(pay))
    }

    /// Takes back the conversion of a request that was refused in the end, so that the client can send it again
    /// (DELTA-1). A series that stands where the conversion left it goes back; to one that has moved on since, the
    /// delta is owed, and added to its next one.
    pub fn undo(&mut self, undo: Undo) -> Undone {
        let Undo { steps, open } = undo;
        let undone = self.table.undo(steps);
        open.take_back();
        undone
    }

    /// From now on, what is remembered takes at most `bytes`. Returns what had to be forgotten for that.
    pub fn set_max_bytes(&mut self, bytes: usize) -> Forgotten {
        self.table.limits.max_bytes = bytes;
        let mut forgotten = Forgotten::default();
        self.table.forget(&mut forgotten);
        forgotten
    }

    /// Forgets all series, like a new converter.
    pub fn begin_anew(&mut self, now: u64) {
        *self = Self::new(self.table.limits, now);
    }

    /// Series remembered.
    pub fn series(&self) -> usize {
        self.table.len()
    }

    /// Bytes that they take, after a conversion or an undo at most `Limits::max_bytes` (DELTA-3).
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Whether every conversion stands or was taken back.
    pub fn is_decided(&self) -> bool {
        !self.table.conversions.any_open(u64::MAX)
    }

    /// All that is remembered, for [`Converter::restore`] in the next process. Take it when everything [is
    /// decided](Converter::is_decided) and nothing more will be converted.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A list takes all there is, and so does this.
        let _ = self.write_snapshot(&mut bytes, &mut |_| true);
        bytes
    }

    /// The same, written piece by piece, with memory for the largest series once more, which `pay` is asked for.
    ///
    /// # Errors
    /// What `out` says, or [`io::ErrorKind::OutOfMemory`] when `pay` has no room.
    pub fn write_snapshot(&self, out: &mut dyn io::Write, pay: &mut dyn FnMut(usize) -> bool) -> io::Result<()> {
        snapshot::write(&self.table, out, pay)
    }

    /// A converter that goes on where `snapshot` was taken; series not seen for longer than `Limits::max_staleness` are
    /// forgotten. A snapshot serves once: restored again after more was converted, it would have that delivered twice.
    /// The caller deletes it before the first conversion.
    ///
    /// # Errors
    /// [`SnapshotError`] when the bytes are damaged or not a snapshot of this version.
    pub fn restore(snapshot: &[u8], limits: Limits, now: u64) -> Result<Self, SnapshotError> {
        Ok(Self { table: snapshot::decode(snapshot, limits, now)? })
    }
}
