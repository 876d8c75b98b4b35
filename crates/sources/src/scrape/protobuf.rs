//! Pages in protobuf: metric families of the package `io.prometheus.client`, each after its length.
//!
//! They are read anew each time: a message cannot be compared with its like before it is taken apart. `check` says
//! whether messages are well formed, `survey` how much there is on a page, `message` and `native` what they say, `series`
//! which series their points are of and `shape` what they become, `draft` encodes metrics, and `points` finds the points
//! of the last page again.

mod check;
mod draft;
mod field;
mod message;
mod native;
mod points;
mod series;
mod shape;
mod survey;

use std::{iter, mem};

use weir_otlp::Fault;
use weir_otlp::common::Message;
use weir_otlp::cursor::Cursor;
use weir_otlp::field::{gauge, metric, scope_data};

use super::home::{self, ScopeInfos};
use super::packed::{self, Packed};
use super::page::{PageError, PageRules, Taken};
use super::previous::PreviousPoint;
use super::rules::OverLimit;
use super::series::BadSeries;
use super::stale;
use draft::Draft;
use message::{Family, read_labels};
use native::BadBuckets;
use points::{KnownPoint, Points};
use survey::Survey;

/// The points of the last page of a target.
#[derive(Debug, Default)]
pub(super) struct LastPage {
    points: Vec<KnownPoint>,
    /// Hashes of samples that said something of the target or of a scope, in order.
    infos: Vec<u64>,
    /// For each point, in the same order, a staleness marker: the fields of a `ScopeMetrics`.
    stale_markers: Packed,
    /// Whether series whose points have times of the page get staleness markers.
    tracks_times: bool,
    /// All is of the target and in Weir's scope, and nothing more is said of these.
    is_plain: bool,
    /// All series have got staleness markers.
    all_stale: bool,
}

/// What is wrong with a family.
#[derive(Debug, thiserror::Error)]
enum BadFamily {
    #[error("{}, at byte {} of a message", .0.problem, .0.offset)]
    Fault(Fault),
    #[error("no name")]
    NoName,
    #[error("the type {0}, which is not known")]
    Type(u64),
    #[error("a metric without the value that the type of its family says it has")]
    NoValue,
    #[error("a native histogram of schema {0}, which is none of -4 to 8, without other buckets")]
    Schema(i32),
    #[error("a time that is before 1970, or in more than five centuries")]
    Time,
    #[error(transparent)]
    Series(#[from] BadSeries),
    #[error(transparent)]
    Labels(#[from] OverLimit),
    #[error(transparent)]
    Buckets(#[from] BadBuckets),
}

/// What a point takes in tables while its page is read.
const TABLE_BYTES: usize = 80;

/// What each point of the last page takes meanwhile: its place in a table, and whether it was found again.
const LAST_POINT_BYTES: usize = 64;

/// A name of a family in a message is not longer.
const NAME_BYTES: usize = 100;

impl LastPage {
    /// Takes a page as [`super::page::LastPage::take`] does.
    pub(super) fn take(
        &mut self,
        page: &[u8],
        rules: &PageRules,
        scraped: u64,
        out: &mut Vec<u8>,
    ) -> Result<Taken, PageError> {
        let survey = Survey::of(page, rules)?;
        let points = Points::new((&self.points, &self.infos), survey.points);
        let mut draft = Draft::new((survey.bytes, page.len()), (rules, scraped), scope_infos(page), points);
        for (index, body) in families(page).enumerate() {
            let body = body.map_err(|fault| error(index, &[], BadFamily::Fault(fault)))?;
            Family::read(body).and_then(|family| draft.family(&family)).map_err(|cause| error(index, body, cause))?;
        }
        let (metrics, points, dropped) = draft.finish();
        let (samples, limit) = (survey.samples, rules.sample_limit);
        if samples - dropped > limit {
            return Err(PageError::TooManySamples { samples: samples - dropped, limit });
        }
        let is_same = points.are_same();
        let is_plain = !home::has_any(&metrics);
        let is_known = is_same && is_plain && self.is_plain;
        let new_markers = if is_known { None } else { Some(Packed::new(&stale_markers(&metrics))?) };
        let mut markers = Vec::new();
        if !is_same && !self.all_stale {
            self.append_stale_markers(|index| !points.is_still_present(index), scraped, &mut markers)?;
        }
        out.reserve_exact(metrics.len() + markers.len());
        out.extend_from_slice(&metrics);
        out.extend_from_slice(&markers);
        let Points { points: mut all, mut infos, added, repeated, .. } = points;
        all.shrink_to_fit();
        infos.sort_unstable();
        infos.shrink_to_fit();
        *self = Self {
            points: all,
            infos,
            stale_markers: new_markers.unwrap_or_else(|| mem::take(&mut self.stale_markers)),
            tracks_times: rules.track_timestamps_staleness,
            is_plain,
            all_stale: false,
        };
        Ok(Taken { samples, added, repeated, dropped, is_same })
    }

    /// Appends a staleness marker for every series. Returns whether there is any.
    pub(super) fn mark_all_stale(&mut self, scraped: u64, out: &mut Vec<u8>) -> Result<bool, PageError> {
        let start = out.len();
        if !self.all_stale {
            self.append_stale_markers(|_| true, scraped, out)?;
        }
        self.all_stale = true;
        let has_markers = out.len() > start;
        if has_markers {
            let mut markers = Vec::new();
            self.stale_markers.unpack(&mut markers)?;
            home::copy_infos(&markers, out);
        }
        Ok(has_markers)
    }

    /// What [`mark_all_stale`](Self::mark_all_stale) appended last may be appended again.
    pub(super) fn mark_stale_again(&mut self) {
        self.all_stale = false;
    }

    /// Appends the staleness markers of these points.
    fn append_stale_markers(
        &self,
        is_stale: impl Fn(usize) -> bool,
        scraped: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), PageError> {
        let mut markers = Vec::new();
        self.stale_markers.unpack(&mut markers)?;
        let all = all_points(&markers).into_iter().zip(&self.points).enumerate();
        let stale = all.filter(|(index, (_, point))| is_stale(*index) && point.gets_marker(self.tracks_times));
        let stale: Vec<PreviousPoint<'_>> = stale.map(|(_, (marker, _))| marker).collect();
        stale::append_stale(&markers, &stale, scraped, out);
        Ok(())
    }

    /// Memory that it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        let (points, infos) = (self.points.capacity(), self.infos.capacity());
        points * size_of::<KnownPoint>() + infos * size_of::<u64>() + self.stale_markers.memory()
    }

    /// Memory that a page takes while it is taken, beside the page itself and what is known of the last one.
    ///
    /// # Errors
    /// When the page is not well formed or has too many samples.
    pub(super) fn work(&self, page: &[u8], rules: &PageRules) -> Result<usize, PageError> {
        let Survey { points, buckets, bytes, infos, .. } = Survey::of(page, rules)?;
        // Metrics, the request that they become a part of, and staleness markers while they grow.
        let made = bytes.saturating_mul(5).saturating_add(TABLE_BYTES * points + 8 * buckets + packed::work(bytes));
        Ok(made.saturating_add(self.work_to_mark_stale() + home::infos_work(page.len(), infos)))
    }

    /// Memory that [`mark_all_stale`](Self::mark_all_stale) takes.
    pub(super) fn work_to_mark_stale(&self) -> usize {
        let length = self.stale_markers.length();
        4 * length + LAST_POINT_BYTES * self.points.len()
    }
}

/// The messages of a page.
fn families(page: &[u8]) -> impl Iterator<Item = Result<&[u8], Fault>> {
    let (mut cursor, mut is_broken) = (Cursor::new(page), false);
    iter::from_fn(move || {
        if is_broken || cursor.offset() >= page.len() {
            return None;
        }
        let body = cursor.len_delimited();
        is_broken = body.is_err();
        Some(body)
    })
}

/// What a page says of scopes, anywhere on it.
fn scope_infos(page: &[u8]) -> ScopeInfos<'_> {
    let mut infos = ScopeInfos::of_page(page.len());
    let all = families(page).map_while(Result::ok).map(Message::request);
    for family in all.filter(|family| family.bytes_field(field::family::NAME) == home::SCOPE_INFO) {
        for metric in family.messages(field::family::METRICS) {
            let mut labels = Vec::new();
            if read_labels(metric, field::metric::LABELS, &mut labels).is_ok() {
                infos.add(labels);
            }
        }
    }
    infos
}

fn error(index: usize, body: &[u8], cause: BadFamily) -> PageError {
    let name = Message::request(body).string(field::family::NAME);
    let (number, name) = (index + 1, name.chars().take(NAME_BYTES).collect());
    match cause {
        BadFamily::Labels(over) => PageError::FamilyLabels { number, name, over },
        BadFamily::Series(cause @ BadSeries::TooManyLabels) => {
            PageError::TooManyLabels { place: format!("metric family {number} ({name:?})"), cause: cause.to_string() }
        }
        cause => PageError::Family { number, name, cause: cause.to_string() },
    }
}

/// For each point of metrics, a staleness marker, and what the page says of its target.
fn stale_markers(metrics: &[u8]) -> Vec<u8> {
    let mut markers = Vec::new();
    stale::append_stale(metrics, &all_points(metrics), 0, &mut markers);
    home::copy_infos(metrics, &mut markers);
    markers
}

/// The points of metrics, in order.
fn all_points(metrics: &[u8]) -> Vec<PreviousPoint<'_>> {
    let all = Message::request(metrics).messages(scope_data::ITEMS);
    let data = all.flat_map(|whole| metric::DATA.into_iter().filter_map(move |number| whole.message(number)));
    let points = data.flat_map(|data| data.messages(gauge::DATA_POINTS)).map(Message::field_range);
    points.map(|range| PreviousPoint { start: range.start, field: &metrics[range] }).collect()
}

#[cfg(test)]
mod tests;
