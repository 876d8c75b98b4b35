//! What is known of a target's page from the last time: its lines, and the request that was made of them.
//!
//! A page hardly changes but for its numbers. So a page is compared with the last one, line by line, and while nothing
//! else differs, its numbers are written into the metrics of the last page. Neither labels nor names are read again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use twox_hash::XxHash3_64;

use super::number::number;
use super::own_times;
use super::sample::{Exemplar, Extra, TimeUnit, extra};
use super::start_time::StartTime;

/// What becomes of the value of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineUse {
    /// There is none: the line is a comment or empty.
    Comment,
    /// Nothing: the sample is left out.
    Skipped,
    /// It is that of a data point that has a time. The slot is where the point's value is.
    Gauge,
    /// The same of one that has a start time before its time, which is noticed to be new when the value falls.
    Counter,
    /// The same, but the start time is on a line of its own.
    CreatedCounter,
    /// It is a part of a data point: a number with a fraction.
    Fraction,
    /// It is a part of a data point: a count.
    Count,
    /// It is a start time, in seconds. The slot is where that is.
    Created,
    /// Rules leave it out, whatever it is.
    Dropped,
}

/// A line as it was last time.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownLine {
    /// Of the text that names the series, or of all of a comment.
    pub(super) hash: u64,
    /// Where in the metrics the eight bytes are that come of its value.
    pub(super) slot: u32,
    /// The length of what is hashed, its use, and whether it had a time.
    length_and_use: u32,
}

/// What is known of a line that is a [`LineUse::Counter`].
pub(super) type Counter = StartTime<f64>;

/// What a page says anew each time: a number for each of its lines, which is 0 for comments.
#[derive(Debug, Default)]
pub(super) struct Numbers<'p> {
    pub(super) values: Vec<f64>,
    /// What else lines have that have more than a value, in their order.
    pub(super) extras: Vec<(usize, Extra<'p>)>,
}

/// What is known of a page, but for its metrics.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) all: Vec<KnownLine>,
    /// Of the lines that are counters, in their order.
    pub(super) counters: Vec<Counter>,
    /// In the order of their slots.
    pub(super) composites: Vec<Composite>,
}

/// A data point that is made of several lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Composite {
    /// Of its labels and the name of its family.
    pub(super) hash: u64,
    pub(super) start_time: StartTime<u64>,
    /// Where its start time is. Its time is nine bytes behind it.
    pub(super) slot: u32,
    /// Where its count is.
    pub(super) count: u32,
    /// Where its first bucket is.
    pub(super) buckets: u32,
    /// How many there are, the last of which has no bound.
    pub(super) bucket_count: u32,
    /// How many lines it is made of.
    pub(super) lines: u32,
    /// Some of its numbers are on no line, but follow from others.
    pub(super) missing: Missing,
    /// Its start time is on a line of its own.
    pub(super) is_created: bool,
    /// One of its lines has a time.
    pub(super) is_timed: bool,
}

/// Which of two equal numbers of a histogram is on no line, its count or its last bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Nothing,
    Count,
    LastBucket,
    /// Both are missing: take the count of the last finite bucket.
    Both,
}

/// The text of lines is at most so long: an eighth of a gibibyte, more than any page.
const USE_SHIFT: u32 = 27;

/// The bit of lines with a time.
const TIMED: u32 = 1 << 31;

/// A field of eight bytes, with its key.
pub(super) const FIXED: usize = 9;

impl KnownLine {
    /// `None` when the text is too long to be remembered.
    pub(super) fn new(hash: u64, length: usize, used_as: LineUse) -> Option<Self> {
        let length = u32::try_from(length).ok().filter(|length| length >> USE_SHIFT == 0)?;
        Some(Self { hash, slot: 0, length_and_use: length | (used_as as u32) << USE_SHIFT })
    }

    pub(super) fn used_as(&self) -> LineUse {
        match (self.length_and_use & !TIMED) >> USE_SHIFT {
            0 => LineUse::Comment,
            2 => LineUse::Gauge,
            3 => LineUse::Counter,
            4 => LineUse::CreatedCounter,
            5 => LineUse::Fraction,
            6 => LineUse::Count,
            7 => LineUse::Created,
            8 => LineUse::Dropped,
            _ => LineUse::Skipped,
        }
    }

    pub(super) fn set_use(&mut self, used_as: LineUse) {
        let others = self.length_and_use & (TIMED | ((1 << USE_SHIFT) - 1));
        self.length_and_use = others | (used_as as u32) << USE_SHIFT;
    }

    /// Whether it had a time behind its value.
    pub(super) fn is_timed(&self) -> bool {
        self.length_and_use & TIMED != 0
    }

    pub(super) fn set_timed(&mut self, is_timed: bool) {
        self.length_and_use = self.length_and_use & !TIMED | if is_timed { TIMED } else { 0 };
    }

    pub(super) fn length(&self) -> usize {
        (self.length_and_use & ((1 << USE_SHIFT) - 1)) as usize
    }

    /// The same line, when its data point is elsewhere.
    pub(super) fn shifted(&self, by: isize) -> Self {
        Self { slot: shifted(self.slot, by), ..*self }
    }

    /// Where the body of its data point begins, if it has one of its own.
    pub(super) fn point(&self) -> Option<usize> {
        match self.used_as() {
            LineUse::Gauge => Some(self.slot as usize - FIXED - 1),
            LineUse::Counter | LineUse::CreatedCounter => Some(self.slot as usize - 2 * FIXED - 1),
            _ => None,
        }
    }

    /// Writes a value to its place among the metrics. `time` is the time of its point, in nanoseconds since the epoch.
    /// `counters`: those of this line and the lines after it.
    fn put<'c>(&self, metrics: &mut [u8], value: f64, time: u64, counters: &mut impl Iterator<Item = &'c mut Counter>) {
        let slot = self.slot as usize;
        match self.used_as() {
            LineUse::Comment | LineUse::Skipped | LineUse::Dropped => {}
            LineUse::Gauge | LineUse::CreatedCounter => {
                write(metrics, slot, value.to_bits());
                write(metrics, slot - FIXED, time);
            }
            LineUse::Counter => {
                write(metrics, slot, value.to_bits());
                write(metrics, slot - FIXED, time);
                let start = counters.next().map_or(time, |counter| counter.observe(value, time));
                write(metrics, slot - 2 * FIXED, start);
            }
            LineUse::Fraction => write(metrics, slot, value.to_bits()),
            LineUse::Count => write(metrics, slot, count(value)),
            LineUse::Created => write(metrics, slot, nanos(value)),
        }
    }
}

impl<'p> Numbers<'p> {
    pub(super) fn with_capacity(lines: usize) -> Self {
        Self { values: Vec::with_capacity(lines), extras: Vec::new() }
    }

    /// The numbers of a page that has the same lines as the last one. `with_extras`: its lines may have more than numbers.
    pub(super) fn compared(page: &'p [u8], lines: &[KnownLine], unit: TimeUnit, with_extras: bool) -> Option<Self> {
        let mut numbers = Self::with_capacity(lines.len());
        let rest = lines.iter().try_fold(page, |rest, line| {
            let rest = numbers.read(rest, line, unit)?;
            (with_extras || numbers.extras.is_empty()).then_some(rest)
        })?;
        rest.is_empty().then_some(numbers)
    }

    /// Reads the number of a line if it is the same as this one of the last page. Returns the lines after it.
    pub(super) fn read(&mut self, lines: &'p [u8], line: &KnownLine, unit: TimeUnit) -> Option<&'p [u8]> {
        let (text, rest) = lines.split_at_checked(line.length())?;
        if hash(text) != line.hash {
            return None;
        }
        if line.used_as() == LineUse::Comment {
            let after = if rest.is_empty() { rest } else { rest.strip_prefix(b"\n")? };
            self.values.push(0.0);
            return Some(after);
        }
        let (value, rest) = number(rest.strip_prefix(b" ")?)?;
        let (extra, after) = match rest.split_first() {
            None => (Extra::default(), rest),
            Some((b'\n', after)) => (Extra::default(), after),
            Some(_) => {
                let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                (extra(&rest[..end], unit).ok()?, rest.get(end + 1..).unwrap_or_default())
            }
        };
        if extra.time.is_some() != line.is_timed() {
            return None;
        }
        self.push((value, extra));
        Some(after)
    }

    /// Whether the line that was read last has a time.
    pub(super) fn is_timed(&self) -> bool {
        self.extras.last().is_some_and(|(line, extra)| line + 1 == self.values.len() && extra.time.is_some())
    }

    /// Adds what was read of a line.
    pub(super) fn push(&mut self, (value, extra): (f64, Extra<'p>)) {
        if extra != Extra::default() {
            self.extras.push((self.values.len(), extra));
        }
        self.values.push(value);
    }
}

impl Lines {
    /// Writes the numbers of a page to their places among its metrics.
    pub(super) fn put(&mut self, numbers: &Numbers<'_>, metrics: &mut [u8], scraped: u64) {
        let mut counters = self.counters.iter_mut();
        let mut extras = numbers.extras.iter().peekable();
        for (index, (line, value)) in self.all.iter().zip(&numbers.values).enumerate() {
            let own = extras.next_if(|(line, _)| *line == index);
            let time = own.and_then(|(_, extra)| extra.time).unwrap_or(scraped);
            line.put(metrics, *value, time, &mut counters);
        }
        let extras = numbers.extras.iter().map(|(index, extra)| (&self.all[*index], extra));
        own_times::finish(&mut self.composites, metrics, &own_times::own_times(extras), scraped);
    }

    /// The exemplars of a page, with the slots of their lines. One without a time has that of its sample.
    pub(super) fn exemplars<'p>(&self, numbers: &Numbers<'p>, scraped: u64) -> Vec<(u32, Exemplar<'p>)> {
        let of_line = |(index, extra): &(usize, Extra<'p>)| {
            let exemplar = extra.exemplar?;
            let time = exemplar.time.or(extra.time).or(Some(scraped));
            Some((self.all[*index].slot, Exemplar { time, ..exemplar }))
        };
        numbers.extras.iter().filter_map(of_line).collect()
    }

    /// How many data points are made of them.
    pub(super) fn points(&self) -> usize {
        self.composites.len() + self.all.iter().filter(|line| line.point().is_some()).count()
    }

    /// Memory that it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.all.capacity() * size_of::<KnownLine>()
            + self.counters.capacity() * size_of::<Counter>()
            + self.composites.capacity() * size_of::<Composite>()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.all.shrink_to_fit();
        self.counters.shrink_to_fit();
        self.composites.shrink_to_fit();
    }
}

impl Composite {
    /// Where the body of its data point begins.
    pub(super) fn point(&self) -> usize {
        self.slot as usize - 1
    }

    /// Moves all its places.
    pub(super) fn shift(&mut self, by: isize) {
        for place in [&mut self.slot, &mut self.count, &mut self.buckets] {
            *place = shifted(*place, by);
        }
    }

    /// Makes a data point of what its lines have written.
    pub(super) fn finish(&mut self, metrics: &mut [u8], time: u64) {
        let (count, first) = (self.count as usize, self.buckets as usize);
        let bucket = |index: u32| first + 8 * index as usize;
        match (self.missing, self.bucket_count.checked_sub(1)) {
            (Missing::Count, Some(last)) => write(metrics, count, read(metrics, bucket(last))),
            (Missing::LastBucket, Some(last)) => write(metrics, bucket(last), read(metrics, count)),
            (Missing::Both, Some(last)) if last > 0 => {
                let counted = read(metrics, bucket(last - 1));
                write(metrics, bucket(last), counted);
                write(metrics, count, counted);
            }
            _ => {}
        }
        // On lines, a bucket has what those before it have as well.
        for index in (1..self.bucket_count).rev() {
            let own = read(metrics, bucket(index)).saturating_sub(read(metrics, bucket(index - 1)));
            write(metrics, bucket(index), own);
        }
        let start = self.start_time.observe(read(metrics, count), time);
        let slot = self.slot as usize;
        if !self.is_created {
            write(metrics, slot, start);
        }
        write(metrics, slot + FIXED, time);
    }
}

/// Of this process alone: nobody can write a page with many texts whose hashes fill one place of a table.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));

/// A number that stands for a text.
pub(super) fn hash(text: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(*SEED, text)
}

/// The same of several texts.
pub(super) fn hash_all<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = XxHash3_64::with_seed(*SEED);
    for text in texts {
        hasher.write(text);
        hasher.write_u8(0xff);
    }
    hasher.finish()
}

/// Seconds since the epoch, in nanoseconds.
pub(super) fn nanos(seconds: f64) -> u64 {
    let whole = seconds.trunc();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and NaN becomes 0")]
    let (whole, fraction) = (whole as u64, ((seconds - whole) * 1e9) as u64);
    whole.saturating_mul(1_000_000_000).saturating_add(fraction)
}

/// A place among the metrics. They are smaller than a page can make them: see the limit of its size.
pub(super) fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

pub(super) fn shifted(place: u32, by: isize) -> u32 {
    offset((place as usize).saturating_add_signed(by))
}

fn count(value: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and NaN becomes 0")]
    let count = value as u64;
    count
}

fn write(metrics: &mut [u8], at: usize, number: u64) {
    metrics[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

fn read(metrics: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&metrics[at..at + 8]);
    u64::from_le_bytes(bytes)
}
