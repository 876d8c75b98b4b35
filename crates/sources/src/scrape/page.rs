//! From a page to metrics: by comparison with the page before it, or else read anew.

use std::hash::BuildHasherDefault;

use super::draft::Draft;
use super::edit;
use super::family::Families;
use super::known::{Composite, KnownLine, Role, compare, hash};
use super::previous::{ByHash, Previous};
use super::sample::{BadSample, Extra, TimeUnit, value};
use super::series::Series;
use super::text::{Broken, Line, line, lines};

/// What a page is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's own text format, 0.0.4 or 1.0.0.
    Text,
    /// OpenMetrics 1.0, which says where it ends.
    OpenMetrics,
}

/// Why a page is not taken. Nothing of it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// A line cannot be read.
    #[error("line {line}: {cause}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        cause: String,
    },
    /// A page of OpenMetrics without its last line.
    #[error("the page ends before its last line, # EOF: it is incomplete")]
    Truncated,
    /// There are too many of them.
    #[error("{samples} samples, the limit is {limit}")]
    TooManySamples {
        /// How many there are.
        samples: usize,
        /// How many there may be.
        limit: usize,
    },
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
enum BadLine {
    #[error(transparent)]
    Broken(#[from] Broken),
    #[error(transparent)]
    Sample(#[from] BadSample),
    #[error("a line of 256 MiB or more")]
    Long,
}

/// What is the same for all pages of a target.
#[derive(Debug, Clone)]
pub struct PageRules {
    /// What the page is written in.
    pub format: Format,
    /// Samples at most.
    pub sample_limit: usize,
    /// Whether samples have the times that the page says, if it does.
    pub honor_timestamps: bool,
    /// Labels that every sample gets.
    pub target_labels: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The last page of a target, as far as it is needed for the next one.
#[derive(Debug, Default)]
pub struct Known {
    lines: Vec<KnownLine>,
    composites: Vec<Composite>,
    /// Encoded metrics with the numbers of last time: the fields of a `ScopeMetrics`.
    metrics: Vec<u8>,
    samples: usize,
    repeated: usize,
    /// Whether it was said that all series are gone.
    is_gone: bool,
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
    /// Whether all but the numbers was the same as last time.
    pub is_same: bool,
}

/// A page that is read anew.
struct Reader<'p, 'k> {
    draft: Draft,
    /// The value of each line, and what else it has.
    values: Vec<(f64, Extra<'p>)>,
    samples: usize,
    added: usize,
    has_end: bool,
    families: Families<'p>,
    series: Series<'p>,
    previous: Previous<'k>,
    seen: ByHash<()>,
    repeated: usize,
    unit: TimeUnit,
}

impl Known {
    /// Takes a page that was scraped at this time, in nanoseconds since the epoch. Appends its metrics to `out`, as
    /// fields of a `ScopeMetrics`, and after them those of last time that are gone.
    ///
    /// # Errors
    /// When it is not well formed or too large. Nothing is appended then.
    pub fn take(
        &mut self,
        page: &[u8],
        rules: &PageRules,
        scraped: u64,
        out: &mut Vec<u8>,
    ) -> Result<Taken, PageError> {
        let unit = rules.format.time_unit();
        if !self.is_gone && !self.lines.is_empty() {
            let compared = compare(page, &mut self.lines, &mut self.metrics, (scraped, unit));
            if let Some(extras) = compared {
                for composite in &mut self.composites {
                    composite.finish(&mut self.metrics, scraped);
                }
                let exemplars =
                    extras.iter().filter_map(|(index, extra)| Some((self.lines[*index].slot, extra.exemplar?)));
                edit::with_exemplars(&self.metrics, exemplars.collect(), out);
                return Ok(Taken { samples: self.samples, added: 0, repeated: self.repeated, is_same: true });
            }
        }
        self.read(page, rules, scraped, out)
    }

    /// Takes a page that has other lines than the last one.
    fn read(&mut self, page: &[u8], rules: &PageRules, scraped: u64, out: &mut Vec<u8>) -> Result<Taken, PageError> {
        let previous = Previous::new(&self.lines, &self.composites, &self.metrics);
        let mut reader = Reader::new(page, rules, previous);
        reader.read(page, rules)?;
        let Reader { draft, values, samples, mut added, previous, repeated, .. } = reader;
        let (mut metrics, mut lines, mut composites) = draft.finish();
        let known = previous.composites();
        for composite in &mut composites {
            if let Some(before) = known.get(&composite.hash) {
                (composite.last_count, composite.start) = (before.last_count, before.start);
            }
        }
        for (line, (value, extra)) in lines.iter_mut().zip(&values) {
            line.put(&mut metrics, *value, extra.time.unwrap_or(scraped));
        }
        composites.iter_mut().for_each(|composite| composite.finish(&mut metrics, scraped));
        let exemplars = lines.iter().zip(&values).filter_map(|(line, (_, extra))| Some((line.slot, extra.exemplar?)));
        edit::with_exemplars(&metrics, exemplars.collect(), out);
        if self.is_gone {
            added = samples - repeated;
        } else {
            let left: ByHash<()> = composites.iter().map(|composite| (composite.hash, ())).collect();
            let gone = previous.gone(|composite| left.contains_key(&composite.hash));
            edit::append_gone(&self.metrics, &gone, scraped, out);
        }
        lines.shrink_to_fit();
        metrics.shrink_to_fit();
        *self = Self { lines, composites, metrics, samples, repeated, is_gone: false };
        Ok(Taken { samples, added, repeated, is_same: false })
    }

    /// Appends a point for every series that says that it is gone: its target could not be scraped.
    pub fn end(&mut self, scraped: u64, out: &mut Vec<u8>) {
        if !self.is_gone {
            let all = Previous::new(&self.lines, &self.composites, &self.metrics).gone(|_| false);
            edit::append_gone(&self.metrics, &all, scraped, out);
            self.is_gone = true;
        }
    }

    /// Memory that it takes, in bytes.
    pub fn memory(&self) -> usize {
        self.lines.capacity() * size_of::<KnownLine>()
            + self.composites.capacity() * size_of::<Composite>()
            + self.metrics.capacity()
    }
}

impl Format {
    fn time_unit(self) -> TimeUnit {
        match self {
            Self::Text => TimeUnit::Milliseconds,
            Self::OpenMetrics => TimeUnit::Seconds,
        }
    }
}

impl<'p, 'k> Reader<'p, 'k> {
    fn new(page: &[u8], rules: &PageRules, previous: Previous<'k>) -> Self {
        let count = memchr::memchr_iter(b'\n', page).count() + 1;
        Self {
            draft: Draft::new(most_bytes(page.len(), count), count, rules),
            values: Vec::with_capacity(count),
            samples: 0,
            added: 0,
            has_end: false,
            families: Families::default(),
            series: Series::default(),
            previous,
            seen: ByHash::with_capacity_and_hasher(count, BuildHasherDefault::default()),
            repeated: 0,
            unit: rules.format.time_unit(),
        }
    }

    /// Reads every line.
    fn read(&mut self, page: &'p [u8], rules: &PageRules) -> Result<(), PageError> {
        for (index, text) in lines(page).enumerate() {
            self.line(text).map_err(|cause| PageError::Line { line: index + 1, cause: cause.to_string() })?;
        }
        if rules.format == Format::OpenMetrics && !self.has_end {
            return Err(PageError::Truncated);
        }
        if self.samples > rules.sample_limit {
            return Err(PageError::TooManySamples { samples: self.samples, limit: rules.sample_limit });
        }
        Ok(())
    }

    fn line(&mut self, text: &'p [u8]) -> Result<(), BadLine> {
        if let Some(before) = self.previous.likely(text)
            && before.point().is_some()
        {
            let (value, extra) = value(&text[before.length() + 1..], self.unit)?;
            return self.sample_as_before(before, text, (value, extra));
        }
        match line(text)? {
            Line::Type(name, kind) => {
                self.draft.end_family();
                self.families.get(name).kind.get_or_insert(kind);
            }
            Line::Help(name, help) => self.families.get(name).help = help,
            Line::Unit(name, unit) => self.families.get(name).unit = unit,
            Line::End => self.has_end = true,
            Line::Nothing => {}
            Line::Sample(sample) => {
                // What is compared next time: all up to the end of the series.
                let length = sample.series.len() + (sample.series.as_ptr().addr() - text.as_ptr().addr());
                let value = value(sample.rest, self.unit)?;
                return self.sample(sample.series, &text[..length], value);
            }
        }
        self.draft.lines.push(KnownLine::new(hash(text), text.len(), Role::Nothing).ok_or(BadLine::Long)?);
        self.values.push((0.0, Extra::default()));
        Ok(())
    }

    /// A sample whose line was there last time.
    fn sample_as_before(&mut self, before: &KnownLine, text: &'p [u8], value: (f64, Extra<'p>)) -> Result<(), BadLine> {
        let known = &text[..before.length()];
        let point = self.previous.point(before).filter(|_| self.draft.continues(known, before.role()));
        let Some(point) = point else {
            let start = known.len() - known.trim_ascii_start().len();
            return self.sample(&known[start..], known, value);
        };
        self.samples += 1;
        if self.push(known, Some(before), value)? {
            self.draft.point_as_before(point, before.role());
        }
        Ok(())
    }

    /// A sample of this series. `known`: what is compared next time.
    fn sample(&mut self, series: &'p [u8], known: &'p [u8], value: (f64, Extra<'p>)) -> Result<(), BadLine> {
        self.samples += 1;
        self.series.read(series).map_err(BadSample::from)?;
        let before = self.previous.find(hash(known));
        self.added += usize::from(before.is_none());
        if self.push(known, before, value)? {
            let place = self.families.place(&self.series.name, self.series.label(b"quantile").is_some());
            self.draft.sample(&self.series, &place);
        }
        Ok(())
    }

    /// Pushes the line of a sample. Returns whether it is the first with this series on the page; others are left out.
    fn push(&mut self, known: &[u8], before: Option<&KnownLine>, value: (f64, Extra<'p>)) -> Result<bool, BadLine> {
        let hash = before.map_or_else(|| hash(known), |before| before.hash);
        let mut line = KnownLine::new(hash, known.len(), Role::Nothing).ok_or(BadLine::Long)?;
        if let Some(before) = before {
            (line.last, line.start) = (before.last, before.start);
        }
        self.draft.lines.push(line);
        self.values.push(value);
        let is_first = self.seen.insert(hash, ()).is_none();
        self.repeated += usize::from(!is_first);
        Ok(is_first)
    }
}

/// What the metrics of a page take at most.
fn most_bytes(length: usize, lines: usize) -> usize {
    2 * length + 128 * lines
}

/// What a line takes while a page is read: what is known of it twice, its value and what else it has, its places in
/// tables, and its part of a histogram.
const LINE_BYTES: usize = 320;

/// Memory that a page takes while it is taken, beside the page itself and what is known of it.
pub fn memory(page: &[u8]) -> usize {
    let lines = memchr::memchr_iter(b'\n', page).count() + 1;
    3 * most_bytes(page.len(), lines) + LINE_BYTES * lines
}

#[cfg(test)]
mod tests;
