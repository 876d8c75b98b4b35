//! The points of the last page, while the next one is read.

use crate::scrape::previous::ByHash;
use crate::scrape::start_time::StartTime;

/// A data point as it was last time.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownPoint {
    /// Of its kind, its name and its labels.
    pub(super) hash: u64,
    start_time: StartTime<f64>,
    /// The page said when it was.
    is_timed: bool,
}

/// The points of this page, and which of the last page were found again.
#[derive(Debug)]
pub(super) struct Points<'k> {
    previous: &'k [KnownPoint],
    is_found: Vec<bool>,
    /// Where the next point is likely to be.
    next: usize,
    /// Made when a point is elsewhere.
    places: Option<ByHash<usize>>,
    /// Those that were not there last time, and those that are none.
    new: ByHash<()>,
    pub(super) points: Vec<KnownPoint>,
    /// Hashes of samples of the last page that were none of a point, in order.
    previous_infos: &'k [u64],
    /// The same of this page, as they came.
    pub(super) infos: Vec<u64>,
    /// Samples of points that were not there last time.
    pub(super) added: usize,
    /// Samples of points that were on this page before.
    pub(super) repeated: usize,
}

impl KnownPoint {
    /// Whether a staleness marker says that it is gone. `tracks_times`: also if the page said when it was.
    pub(super) fn gets_marker(&self, tracks_times: bool) -> bool {
        tracks_times || !self.is_timed
    }

    /// When the point began, which has this value or count now. `created`: the page says when.
    pub(super) fn begun(&mut self, value: f64, time: u64, created: Option<u64>) -> u64 {
        match created {
            Some(created) => {
                self.start_time = StartTime::created(created, value);
                created
            }
            None => self.start_time.observe(value, time),
        }
    }
}

impl<'k> Points<'k> {
    /// What was on the last page, and on this one `most` points.
    pub(super) fn new((previous, previous_infos): (&'k [KnownPoint], &'k [u64]), most: usize) -> Self {
        Self {
            previous,
            is_found: vec![false; previous.len()],
            next: 0,
            places: None,
            new: ByHash::default(),
            points: Vec::with_capacity(most),
            previous_infos,
            infos: Vec::new(),
            added: 0,
            repeated: 0,
        }
    }

    /// Adds a point that is made of so many samples. `is_timed`: the page says when it was. Returns nothing if it was on this page before.
    pub(super) fn add(&mut self, hash: u64, samples: usize, is_timed: bool) -> Option<&mut KnownPoint> {
        let before = self.find(hash);
        let is_first = match before {
            Some(index) => !std::mem::replace(&mut self.is_found[index], true),
            None => self.new.insert(hash, ()).is_none(),
        };
        if !is_first {
            self.repeated += samples;
            return None;
        }
        let known = before.map(|index| self.previous[index]);
        self.added += if known.is_none() { samples } else { 0 };
        let known = known.unwrap_or(KnownPoint { hash, start_time: StartTime::default(), is_timed });
        self.points.push(KnownPoint { is_timed, ..known });
        self.points.last_mut()
    }

    /// Adds samples that say something of the target or of a scope, and become no point. Returns whether they are the first
    /// of their series on this page.
    pub(super) fn add_info(&mut self, hash: u64, samples: usize) -> bool {
        if self.new.insert(hash, ()).is_some() {
            self.repeated += samples;
            return false;
        }
        let is_known = self.previous_infos.binary_search(&hash).is_ok();
        self.added += if is_known { 0 } else { samples };
        self.infos.push(hash);
        true
    }

    /// Whether all points of the last page are on this one, in the same order, and no others.
    pub(super) fn are_same(&self) -> bool {
        self.points.iter().map(|point| point.hash).eq(self.previous.iter().map(|point| point.hash))
    }

    /// Whether a point of the last page is on this one, too.
    pub(super) fn is_still_present(&self, index: usize) -> bool {
        self.is_found.get(index).is_some_and(|is_found| *is_found)
    }

    fn find(&mut self, hash: u64) -> Option<usize> {
        let index = match self.previous.get(self.next) {
            Some(likely) if likely.hash == hash => self.next,
            _ => {
                let all = || self.previous.iter().enumerate().map(|(index, point)| (point.hash, index)).collect();
                *self.places.get_or_insert_with(all).get(&hash)?
            }
        };
        self.next = index + 1;
        Some(index)
    }
}
