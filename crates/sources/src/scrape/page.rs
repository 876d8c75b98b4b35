//! From a page to metrics: by comparison with the page before it, or else read anew.

use std::mem;

use super::known::{Lines, Numbers};
use super::packed::Packed;
use super::previous::Previous;
use super::protobuf;
use super::reader::{Read, Reader};
use super::{exemplars, home, stale};

pub use super::rules::{Format, OverLimit, PageRules};
pub(super) use cost::{growth, most_bytes};
pub use error::PageError;

mod cost;
mod error;

/// The last page of a target, as far as it is needed for the next one.
#[derive(Debug, Default)]
pub struct LastPage {
    lines: Lines,
    /// Encoded metrics, with zeros for all numbers: the fields of a `ScopeMetrics`, and between them those of [`home`].
    metrics: Packed,
    samples: usize,
    repeated: usize,
    dropped: usize,
    /// What was appended last for a page, if that was counted.
    data_points: Option<u64>,
    /// Whether series whose samples have times of the page get staleness markers.
    tracks_times: bool,
    /// Lines had more than a number: a time or an exemplar.
    has_extras: bool,
    /// All series have got staleness markers.
    all_stale: bool,
    /// The same of a page in protobuf. Of one kind of page nothing is known.
    protobuf: protobuf::LastPage,
}

/// What came of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Samples on the page.
    pub samples: usize,
    /// Series that were not there last time.
    pub added: usize,
    /// Samples of a series that was on the page before. They are left out.
    pub repeated: usize,
    /// Samples that rules leave out.
    pub dropped: usize,
    /// Whether all but the numbers was the same as last time.
    pub is_same: bool,
}

impl LastPage {
    /// Takes a page that was scraped at this time, in nanoseconds since the epoch. Appends its metrics to `out`, as
    /// fields of a `ScopeMetrics` with marks of resources and scopes between them, and after them staleness markers.
    ///
    /// # Errors
    /// When it is not well formed or too large. Nothing is appended then, and the last page is known as before (SCRAPE-1).
    pub fn take(
        &mut self,
        page: &[u8],
        rules: &PageRules,
        scraped: u64,
        out: &mut Vec<u8>,
    ) -> Result<Taken, PageError> {
        if rules.format == Format::Protobuf {
            let taken = self.protobuf.take(page, rules, scraped, out)?;
            *self = Self { protobuf: mem::take(&mut self.protobuf), ..Self::default() };
            return Ok(taken);
        }
        match self.compared(page, rules, true) {
            Some(numbers) => self.renew(&numbers, scraped, out),
            None => self.read(page, rules, scraped, out, true),
        }
    }

    /// Takes a page as [`take`](Self::take) does if all but its numbers is the same as last time, and its lines have
    /// nothing but numbers. `None`: it is not, and nothing is done.
    ///
    /// # Errors
    /// When there is no memory for it. The last page is known as before.
    pub fn take_same(
        &mut self,
        page: &[u8],
        rules: &PageRules,
        scraped: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Taken>, PageError> {
        if rules.format == Format::Protobuf {
            return Ok(None);
        }
        let numbers = self.compared(page, rules, false);
        numbers.map(|numbers| self.renew(&numbers, scraped, out)).transpose()
    }

    /// The numbers of a page that has the same lines as the last one. `with_extras`: its lines may have more than numbers.
    fn compared<'p>(&self, page: &'p [u8], rules: &PageRules, with_extras: bool) -> Option<Numbers<'p>> {
        if self.all_stale || self.lines.all.is_empty() {
            return None;
        }
        Numbers::compared(page, &self.lines.all, rules.time_unit(), with_extras)
    }

    /// Appends the metrics of the last page with the numbers of one that has the same lines.
    fn renew(&mut self, numbers: &Numbers<'_>, scraped: u64, out: &mut Vec<u8>) -> Result<Taken, PageError> {
        let start = out.len();
        self.metrics.unpack(out)?;
        self.put(numbers, scraped, out, start);
        self.data_points = Some(self.lines.points() as u64);
        let Self { samples, repeated, dropped, .. } = *self;
        Ok(Taken { samples, added: 0, repeated, dropped, is_same: true })
    }

    /// Takes a page that has other lines than the last one. `may_copy`: data points that were there before are copied
    /// from it. That makes it faster, and nothing else.
    fn read(
        &mut self,
        page: &[u8],
        rules: &PageRules,
        scraped: u64,
        out: &mut Vec<u8>,
        may_copy: bool,
    ) -> Result<Taken, PageError> {
        let mut previous_metrics = Vec::new();
        self.metrics.unpack(&mut previous_metrics)?;
        let read = |out, may_copy| {
            let previous = Previous::new(&self.lines, &previous_metrics, self.repeated > 0);
            Reader::new(page, rules, previous, may_copy, out).read(page)
        };
        let before = out.len();
        let mut done = read(mem::take(out), may_copy);
        if let Ok(Read { out, is_doubtful: true, .. }) = &mut done {
            out.truncate(before);
            done = read(mem::take(out), false);
        }
        let Read { out: made, start, lines, numbers, taken, previous, .. } = match done {
            Ok(read) => read,
            Err((error, made)) => {
                *out = made;
                return Err(error);
            }
        };
        *out = made;
        let (mut markers, mut data_points) = (Vec::new(), lines.points());
        if !self.all_stale {
            let points = previous.stale_points(self.tracks_times, &lines.composites);
            data_points += points.len();
            stale::append_stale(&previous_metrics, &points, scraped, &mut markers);
        }
        drop(previous);
        drop(previous_metrics);
        let Taken { samples, repeated, dropped, .. } = taken;
        let tracks_times = rules.track_timestamps_staleness;
        let metrics = Packed::new(&out[start..]).inspect_err(|_| out.truncate(start))?;
        let data_points = Some(data_points as u64);
        *self = Self { lines, metrics, samples, repeated, dropped, data_points, tracks_times, ..Self::default() };
        self.put(&numbers, scraped, out, start);
        out.extend_from_slice(&markers);
        out.shrink_to_fit();
        Ok(taken)
    }

    /// Puts the numbers of a page into its metrics, which begin at `start`.
    fn put(&mut self, numbers: &Numbers<'_>, scraped: u64, out: &mut Vec<u8>, start: usize) {
        self.lines.put(numbers, &mut out[start..], scraped);
        self.has_extras = !numbers.extras.is_empty();
        let exemplars = self.lines.exemplars(numbers, scraped);
        if !exemplars.is_empty() {
            let metrics = out.split_off(start);
            exemplars::with_exemplars(&metrics, exemplars, out);
        }
    }

    /// Appends a staleness marker for every series: its target could not be scraped. Returns whether there is any.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn mark_all_stale(&mut self, scraped: u64, out: &mut Vec<u8>) -> Result<bool, PageError> {
        let has_markers = self.protobuf.mark_all_stale(scraped, out)?;
        if self.all_stale {
            return Ok(has_markers);
        }
        let mut metrics = Vec::new();
        self.metrics.unpack(&mut metrics)?;
        let all = Previous::new(&self.lines, &metrics, false).stale_points(self.tracks_times, &[]);
        stale::append_stale(&metrics, &all, scraped, out);
        if !all.is_empty() {
            home::copy_infos(&metrics, out);
        }
        self.all_stale = true;
        Ok(has_markers || !all.is_empty())
    }

    /// What [`mark_all_stale`](Self::mark_all_stale) appended last has not arrived: it may be appended again.
    pub fn mark_stale_again(&mut self) {
        self.all_stale = false;
        self.protobuf.mark_stale_again();
    }

    /// Data points that were appended for the last page; `None` when nobody has counted them.
    pub fn data_points(&self) -> Option<u64> {
        self.data_points
    }

    /// Bytes of the metrics of the last page.
    pub fn length(&self) -> usize {
        self.metrics.length()
    }
}

#[cfg(test)]
mod tests;
