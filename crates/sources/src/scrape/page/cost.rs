//! The memory that pages take while they are taken, and what is remembered of them (SCRAPE-2).

use super::{Format, LastPage, PageError, PageRules};
use crate::scrape::series::Series;
use crate::scrape::text::{Line, line, lines_with};
use crate::scrape::{home, packed};

/// What a line takes while a page is read: what is known of it twice, its value and what else it has, its places in
/// tables, and its part of a histogram.
const LINE_BYTES: usize = 320;

/// What a line takes while a page is compared: its number.
const SAME_LINE_BYTES: usize = 8;

/// What a line of the last page takes meanwhile: its place in a table, the number of counters before it, and more.
const LAST_LINE_BYTES: usize = 64;

impl LastPage {
    /// Memory that it takes, in bytes.
    pub fn memory(&self) -> usize {
        self.lines.memory() + self.metrics.memory() + self.protobuf.memory()
    }

    /// Memory that [`take_same`](Self::take_same) and a request of its result take. `None`: it would come to nothing.
    pub fn work_if_same(&self) -> Option<usize> {
        let may_be_same = !self.all_stale && !self.lines.all.is_empty() && !self.has_extras;
        let length = self.metrics.length();
        // Metrics are there twice when a request sorts them by their homes.
        may_be_same.then(|| 2 * length + SAME_LINE_BYTES * self.lines.all.len())
    }

    /// Memory that a page takes while it is taken, beside the page itself and what is known of the last one.
    ///
    /// # Errors
    /// When a page in protobuf is not well formed or has too many samples.
    pub fn work(&self, page: &[u8], rules: &PageRules) -> Result<usize, PageError> {
        if rules.format == Format::Protobuf {
            return self.protobuf.work(page, rules);
        }
        let lines = memchr::memchr_iter(b'\n', page).count() + 1;
        let most = most_bytes(page.len(), lines) + growth(page, rules);
        let last = self.metrics.length();
        let infos = home::infos_work(page.len(), home::info_bytes(page));
        let tables = LINE_BYTES * lines + LAST_LINE_BYTES * self.lines.all.len() + packed::work(most) + infos;
        // First, the last page's metrics are there beside the new ones, and staleness markers are written. Then the new ones
        // are packed, or written again with exemplars. If they are much longer than the last ones, they grow to twice their
        // length.
        let markers = if self.all_stale { 0 } else { 2 * last };
        let grown = if self.lines.all.is_empty() { 0 } else { most };
        let copies = if has_exemplars(page) { 4 } else { 2 };
        Ok(tables + grown + (most + last + markers).max(copies * most + last))
    }

    /// Memory that [`mark_all_stale`](Self::mark_all_stale) takes.
    pub fn work_to_mark_stale(&self) -> usize {
        let length = if self.all_stale { 0 } else { self.metrics.length() };
        3 * length + LAST_LINE_BYTES * self.lines.all.len() + self.protobuf.work_to_mark_stale()
    }
}

/// Whether a page may have exemplars: there is a `#` within some line.
pub(super) fn has_exemplars(page: &[u8]) -> bool {
    lines_with(page, memchr::memchr_iter(b'#', page)).any(|(at, line)| !page[line.start..at].trim_ascii().is_empty())
}

/// How much longer rules make the series of a page in text.
pub(in crate::scrape) fn growth(page: &[u8], rules: &PageRules) -> usize {
    if !rules.can_merge() {
        return 0;
    }
    let (mut series, mut growth) = (Series::default(), 0);
    for text in page.split(|byte| *byte == b'\n') {
        if let Ok(Line::Sample(sample)) = line(text)
            && series.read(sample.series).is_ok()
        {
            growth += rules.growth(&mut series);
        }
    }
    growth
}

/// What the metrics of a page take at most, if rules do not make them longer.
pub(in crate::scrape) fn most_bytes(length: usize, lines: usize) -> usize {
    2 * length + 128 * lines
}
