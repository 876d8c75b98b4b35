//! Reads a page that is not the same as the last one. Data points that were there before are copied.

use memchr::memmem;

use super::draft::{Draft, Drafted};
use super::family::{Families, Part};
use super::home::{self, Home, ScopeInfos};
use super::known::{Counter, KnownLine, LineUse, Lines, Numbers, hash};
use super::page::{Format, OverLimit, PageError, PageRules, Taken, growth, most_bytes};
use super::previous::{ByHash, Previous};
use super::sample::{BadSample, Extra, TimeUnit, value};
use super::series::{BadSeries, Series};
use super::text::{Broken, Line, MetricType, line, lines_with};

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
enum BadLine {
    #[error(transparent)]
    Broken(#[from] Broken),
    #[error(transparent)]
    Sample(#[from] BadSample),
    #[error("a line of 128 MiB or more")]
    Long,
    #[error("a line behind # EOF, which is the last one")]
    BehindEnd,
    #[error("a sample that relabeling left without a name")]
    NoName,
    #[error(transparent)]
    Over(#[from] OverLimit),
}

impl BadLine {
    /// What is wrong with a page that has it. `line` is counted from 1.
    fn at(self, line: usize) -> PageError {
        match self {
            Self::Over(over) => PageError::Labels { line, over },
            Self::Sample(BadSample::Series(cause @ BadSeries::TooManyLabels)) => {
                PageError::TooManyLabels { place: format!("line {line}"), cause: cause.to_string() }
            }
            cause => PageError::Line { line, cause: cause.to_string() },
        }
    }
}

/// A page that is read.
pub(super) struct Reader<'p, 'k> {
    draft: Draft<'k>,
    numbers: Numbers<'p>,
    /// For each line, what is known of it if it is a counter.
    counters: Vec<Counter>,
    taken: Taken,
    has_end: bool,
    rules: &'p PageRules,
    infos: ScopeInfos<'p>,
    families: Families<'p>,
    series: Series<'p>,
    previous: Previous<'k>,
    /// The name of the sample whose place was looked up last, to copy its point.
    name: &'p [u8],
    /// Whether data points may be copied from the last page.
    may_copy: bool,
    /// Whether different lines may be of the same series.
    can_merge: bool,
    /// The series that were not there last time, or all if lines can be of the same one.
    seen: ByHash<()>,
    unit: TimeUnit,
}

/// What became of it.
pub(super) struct Read<'p, 'k> {
    /// The metrics with zeros for all numbers, behind what was there before.
    pub(super) out: Vec<u8>,
    /// Where they begin.
    pub(super) start: usize,
    pub(super) lines: Lines,
    pub(super) numbers: Numbers<'p>,
    pub(super) taken: Taken,
    pub(super) previous: Previous<'k>,
    /// See [`Drafted::is_doubtful`].
    pub(super) is_doubtful: bool,
}

impl<'p, 'k> Reader<'p, 'k> {
    /// Metrics are appended to `out`. `may_copy`: data points that were there before are copied.
    pub(super) fn new(
        page: &'p [u8],
        rules: &'p PageRules,
        previous: Previous<'k>,
        may_copy: bool,
        mut out: Vec<u8>,
    ) -> Self {
        // Most pages are as long as the last one, more or less, and to count lines takes a while.
        let (count, room) = match previous.count() {
            0 => {
                let lines = memchr::memchr_iter(b'\n', page).count() + 1;
                (lines, most_bytes(page.len(), lines) + growth(page, rules))
            }
            last => (last + last / 8, previous.length() + previous.length() / 8),
        };
        out.reserve_exact(room);
        Self {
            draft: Draft::new(out, count, page.len(), rules),
            numbers: Numbers::with_capacity(count),
            counters: Vec::with_capacity(count),
            taken: Taken::default(),
            has_end: false,
            rules,
            infos: ScopeInfos::read(page),
            families: Families::default(),
            series: Series::default(),
            previous,
            name: b"",
            may_copy: may_copy && !rules.can_merge(),
            can_merge: rules.can_merge(),
            seen: ByHash::default(),
            unit: rules.time_unit(),
        }
    }

    /// Reads every line. What was there before metrics were appended to it comes back with an error.
    pub(super) fn read(mut self, page: &'p [u8]) -> Result<Read<'p, 'k>, (PageError, Vec<u8>)> {
        match self.lines(page) {
            Ok(()) => Ok(self.finish()),
            Err(error) => Err((error, self.draft.abandon())),
        }
    }

    fn lines(&mut self, page: &'p [u8]) -> Result<(), PageError> {
        self.tell(page)?;
        let mut rest = page;
        while !rest.is_empty() {
            let line = self.draft.lines.len() + 1;
            rest = self.line(rest).map_err(|cause| cause.at(line))?;
        }
        if self.rules.format == Format::OpenMetrics && !self.has_end {
            return Err(PageError::Truncated);
        }
        let (samples, limit) = (self.taken.samples - self.taken.dropped, self.rules.sample_limit);
        if samples > limit { Err(PageError::TooManySamples { samples, limit }) } else { Ok(()) }
    }

    fn finish(self) -> Read<'p, 'k> {
        let Self { draft, numbers, counters, taken, previous, .. } = self;
        let Drafted { out, start, lines, mut composites, is_doubtful } = draft.finish();
        previous.tell(&mut composites);
        let own = lines.iter().zip(counters).filter(|(line, _)| line.used_as() == LineUse::Counter);
        let counters = own.map(|(_, counter)| counter).collect();
        let mut lines = Lines { all: lines, counters, composites };
        lines.shrink_to_fit();
        Read { out, start, lines, numbers, taken, previous, is_doubtful }
    }

    /// Reads what comments tell of families, which may stand behind their samples.
    fn tell(&mut self, page: &'p [u8]) -> Result<(), PageError> {
        for (at, line) in lines_with(page, memchr::memchr_iter(b'#', page)) {
            if page[line.start..at].trim_ascii().is_empty() {
                let told = self.told(&page[line]);
                told.map_err(|cause| cause.at(memchr::memchr_iter(b'\n', &page[..at]).count() + 1))?;
            }
        }
        Ok(())
    }

    fn told(&mut self, text: &'p [u8]) -> Result<(), BadLine> {
        self.families.tell(line(text)?, self.rules.format).map_err(BadSample::from)?;
        Ok(())
    }

    /// Reads a line, and returns those after it.
    fn line(&mut self, lines: &'p [u8]) -> Result<&'p [u8], BadLine> {
        if self.has_end && self.rules.format == Format::OpenMetrics {
            return Err(BadLine::BehindEnd);
        }
        if let Some((index, before)) = self.previous.likely()
            && let Some(after) = self.numbers.read(lines, before, self.unit)
        {
            let text = &lines[..before.length()];
            if before.used_as() == LineUse::Comment {
                self.previous.found(index);
                self.comment(line(text)?, text)?;
                return Ok(after);
            }
            let is_copied = self.sample_as_before(index, text)?;
            return Ok(if is_copied { self.stretch(index, after) } else { after });
        }
        let end = memchr::memchr(b'\n', lines).unwrap_or(lines.len());
        let (text, after) = (&lines[..end], lines.get(end + 1..).unwrap_or_default());
        match line(text)? {
            Line::Sample(sample) => {
                // What is compared next time: all up to the end of the series.
                let length = sample.series.len() + (sample.series.as_ptr().addr() - text.as_ptr().addr());
                self.numbers.push(value(sample.rest, self.unit)?);
                self.sample(&text[..length])?;
            }
            comment => {
                self.numbers.push((0.0, Extra::default()));
                self.comment(comment, text)?;
            }
        }
        Ok(after)
    }

    fn comment(&mut self, comment: Line<'p>, text: &[u8]) -> Result<(), BadLine> {
        match comment {
            Line::Type(name, _) => {
                self.draft.end_family();
                self.families.get(name);
            }
            Line::End => self.has_end = true,
            Line::Help(..) | Line::Unit(..) | Line::Nothing | Line::Sample(_) => {}
        }
        self.push(hash(text), text, LineUse::Comment, Counter::default())
    }

    /// A sample of a series. `text`: what is compared next time.
    fn sample(&mut self, text: &'p [u8]) -> Result<(), BadLine> {
        let hash = hash(text);
        if let Some(index) = self.previous.find(hash) {
            return self.sample_as_before(index, text).map(|_| ());
        }
        self.taken.samples += 1;
        self.push(hash, text, LineUse::Skipped, Counter::default())?;
        self.series(hash, text, true)
    }

    /// A sample whose line was there last time. Returns whether its data point was copied.
    fn sample_as_before(&mut self, index: usize, text: &'p [u8]) -> Result<bool, BadLine> {
        let (is_first, before) = (self.previous.found(index), self.previous.line(index));
        self.taken.samples += 1;
        if before.used_as() == LineUse::Dropped {
            self.taken.dropped += 1;
            return self.push(before.hash, text, LineUse::Dropped, Counter::default()).map(|()| false);
        }
        self.push(before.hash, text, LineUse::Skipped, self.previous.counter(index))?;
        if !is_first && !self.can_merge {
            self.taken.repeated += 1;
            return Ok(false);
        }
        let is_copied = self.may_copy && self.copies(index, text).is_some();
        if !is_copied {
            self.series(before.hash, text, false)?;
        }
        Ok(is_copied)
    }

    /// Copies the data points that follow the one of this line, as far as their lines still follow it. Returns the lines
    /// after them.
    fn stretch(&mut self, index: usize, mut lines: &'p [u8]) -> &'p [u8] {
        let mut next = index + 1;
        while let Some(line) = self.previous.following(index, next)
            && let Some(after) = self.numbers.read(lines, line, self.unit)
        {
            self.counters.push(self.previous.counter(next));
            next += 1;
            lines = after;
        }
        if let Some((points, before)) = self.previous.take(index + 1..next) {
            self.taken.samples += before.len();
            self.draft.copy_points(points, before);
        }
        lines
    }

    /// Copies the data point of the line that was pushed last, if it still has the same place.
    fn copies(&mut self, index: usize, text: &'p [u8]) -> Option<()> {
        let before = self.previous.line(index);
        let composite = match before.used_as() {
            LineUse::Gauge | LineUse::Counter => None,
            LineUse::Fraction | LineUse::Count | LineUse::Created => Some(self.previous.composite(before.slot)?),
            LineUse::Comment | LineUse::Skipped | LineUse::CreatedCounter | LineUse::Dropped => return None,
        };
        if self.draft.home() != self.previous.home(before.slot) {
            self.enter(text)?;
        }
        self.continues(before, text)?;
        match composite {
            None => self.draft.copy_point(self.previous.point(before.point()?)?, before),
            Some((index, composite)) => {
                if !self.draft.copies(index) {
                    self.draft.copy_composite(index, composite, self.previous.point(composite.point())?);
                }
                self.draft.copy_part(before);
            }
        }
        Some(())
    }

    /// Enters the home of the sample that this text names.
    fn enter(&mut self, text: &'p [u8]) -> Option<()> {
        self.series.read(text.trim_ascii_start()).ok()?;
        self.rules.settle(&mut self.series).ok().filter(|is_kept| *is_kept)?;
        let home = Home::take(&mut self.series, self.rules);
        self.draft.enter(home.as_ref(), &mut self.infos);
        Some(())
    }

    /// Goes on with the metric that this line was of last time, if it still is.
    fn continues(&mut self, before: &KnownLine, text: &'p [u8]) -> Option<()> {
        let (index, metric) = self.previous.metric(before.slot)?;
        let ends_name = |byte: &u8| matches!(byte, b'{' | b' ' | b'\t');
        let text = text.trim_ascii_start();
        let is_named_so = text.strip_prefix(self.name).is_some_and(|rest| rest.first().is_none_or(ends_name));
        if is_named_so && self.draft.continues(index) {
            return Some(());
        }
        let name = &text[..text.iter().position(ends_name).unwrap_or(text.len())];
        let mut member = self.families.member(name, false);
        if member.metric_type == MetricType::Summary {
            member = self.families.member(name, memmem::find(text, b"quantile").is_some());
        }
        let is_same = match before.used_as() {
            LineUse::Gauge => metric.name == name && matches!(member.part, Part::Gauge | Part::Sum),
            LineUse::Counter => metric.name == name && member.part == Part::Counter,
            _ => {
                let is_composite = member.part.is_of_composite(member.metric_type);
                is_composite
                    && metric.name == member.name
                    && metric.is_summary == (member.metric_type == MetricType::Summary)
            }
        };
        if is_same {
            self.name = name;
            self.draft.resume(index, metric.name, &member);
        }
        is_same.then_some(())
    }

    /// Adds the line that was pushed last by reading the series that its text names. `is_new`: the line was not there
    /// last time.
    fn series(&mut self, hash: u64, text: &'p [u8], is_new: bool) -> Result<(), BadLine> {
        self.series.read(text.trim_ascii_start()).map_err(BadSample::from)?;
        if !self.rules.settle(&mut self.series)? {
            self.taken.dropped += 1;
            self.draft.drop_line();
            return Ok(());
        }
        if self.series.name.is_empty() {
            return Err(BadLine::NoName);
        }
        let identity = if self.can_merge { self.series.hash() } else { hash };
        if (is_new || self.can_merge) && self.seen.insert(identity, ()).is_some() {
            self.taken.repeated += 1;
            return Ok(());
        }
        self.taken.added += usize::from(is_new);
        self.place();
        Ok(())
    }

    /// Writes the sample whose series was read last to its place.
    fn place(&mut self) {
        let home = Home::take(&mut self.series, self.rules);
        match self.series.name.as_ref() {
            home::TARGET_INFO => self.draft.target_info(home.as_ref(), &self.series),
            home::SCOPE_INFO => {}
            name => {
                let member = self.families.member(name, self.series.label(b"quantile").is_some());
                self.draft.enter(home.as_ref(), &mut self.infos);
                self.draft.sample(&self.series, &member);
            }
        }
    }

    fn push(&mut self, hash: u64, text: &[u8], used_as: LineUse, counter: Counter) -> Result<(), BadLine> {
        let mut line = KnownLine::new(hash, text.len(), used_as).ok_or(BadLine::Long)?;
        line.set_timed(self.numbers.is_timed());
        self.draft.lines.push(line);
        self.counters.push(counter);
        Ok(())
    }
}
