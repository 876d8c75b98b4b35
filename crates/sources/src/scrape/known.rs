//! What is known of a target's page from the last time: its lines, and the request that was made of them.
//!
//! A page hardly changes but for its numbers. So a page is compared with the last one, line by line, and while nothing
//! else differs, numbers are written over those of the last request. Neither labels nor names are read again.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

use super::number::number;
use super::sample::{Extra, TimeUnit, extra};

/// What becomes of the value of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// There is none, or it is left out.
    Nothing,
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
}

/// A line as it was last time.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownLine {
    /// Of the text that names the series, or of all of a comment.
    pub(super) hash: u64,
    /// The value of a counter.
    pub(super) last: f64,
    /// When the counter began, in nanoseconds since the epoch.
    pub(super) start: u64,
    /// Where in the metrics the eight bytes are that come of its value.
    pub(super) slot: u32,
    /// The length of what is hashed, and the role.
    length_and_role: u32,
}

/// A data point that is made of several lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Composite {
    /// Of its labels and the name of its family.
    pub(super) hash: u64,
    pub(super) last_count: u64,
    pub(super) start: u64,
    /// Where its start time is. Its time is nine bytes behind it.
    pub(super) slot: u32,
    /// Where its count is.
    pub(super) count: u32,
    /// Where its first bucket is.
    pub(super) buckets: u32,
    /// How many there are, the last of which has no bound.
    pub(super) bucket_count: u32,
    /// Some of its numbers are on no line, but follow from others.
    pub(super) missing: Missing,
    /// Its start time is on a line of its own.
    pub(super) is_created: bool,
}

/// Which of two equal numbers of a histogram is on no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Nothing,
    /// The count, which is that of the last bucket.
    Count,
    /// The last bucket.
    LastBucket,
}

/// The text of lines is at most so long: a sixteenth of a gibibyte, more than any page.
const ROLE_SHIFT: u32 = 28;

/// A field of eight bytes, with its key.
pub(super) const FIXED: usize = 9;

impl KnownLine {
    /// `None` when the text is too long to be remembered.
    pub(super) fn new(hash: u64, length: usize, role: Role) -> Option<Self> {
        let length = u32::try_from(length).ok().filter(|length| length >> ROLE_SHIFT == 0)?;
        Some(Self { hash, last: 0.0, start: 0, slot: 0, length_and_role: length | (role as u32) << ROLE_SHIFT })
    }

    pub(super) fn role(&self) -> Role {
        match self.length_and_role >> ROLE_SHIFT {
            1 => Role::Gauge,
            2 => Role::Counter,
            3 => Role::CreatedCounter,
            4 => Role::Fraction,
            5 => Role::Count,
            6 => Role::Created,
            _ => Role::Nothing,
        }
    }

    pub(super) fn set_role(&mut self, role: Role) {
        self.length_and_role = self.length_and_role & ((1 << ROLE_SHIFT) - 1) | (role as u32) << ROLE_SHIFT;
    }

    pub(super) fn length(&self) -> usize {
        (self.length_and_role & ((1 << ROLE_SHIFT) - 1)) as usize
    }

    /// Where the body of its data point begins, if it has one of its own.
    pub(super) fn point(&self) -> Option<usize> {
        match self.role() {
            Role::Gauge => Some(self.slot as usize - FIXED - 1),
            Role::Counter | Role::CreatedCounter => Some(self.slot as usize - 2 * FIXED - 1),
            _ => None,
        }
    }

    /// Writes a value to its place among the metrics. `time` is the time of its point, in nanoseconds since the epoch.
    pub(super) fn put(&mut self, metrics: &mut [u8], value: f64, time: u64) {
        let slot = self.slot as usize;
        match self.role() {
            Role::Nothing => {}
            Role::Gauge | Role::CreatedCounter => {
                write(metrics, slot, value.to_bits());
                write(metrics, slot - FIXED, time);
            }
            Role::Counter => {
                if self.start == 0 || value < self.last {
                    self.start = time;
                }
                self.last = value;
                write(metrics, slot, value.to_bits());
                write(metrics, slot - FIXED, time);
                write(metrics, slot - 2 * FIXED, self.start);
            }
            Role::Fraction => write(metrics, slot, value.to_bits()),
            Role::Count => write(metrics, slot, count(value)),
            Role::Created => write(metrics, slot, nanos(value)),
        }
    }
}

impl Composite {
    /// Where the body of its data point begins.
    pub(super) fn point(&self) -> usize {
        self.slot as usize - 1
    }

    /// Makes a data point of what its lines have written.
    pub(super) fn finish(&mut self, metrics: &mut [u8], time: u64) {
        let (count, first) = (self.count as usize, self.buckets as usize);
        let bucket = |index: u32| first + 8 * index as usize;
        match (self.missing, self.bucket_count.checked_sub(1)) {
            (Missing::Count, Some(last)) => write(metrics, count, read(metrics, bucket(last))),
            (Missing::LastBucket, Some(last)) => write(metrics, bucket(last), read(metrics, count)),
            _ => {}
        }
        // On lines, a bucket has what those before it have as well.
        for index in (1..self.bucket_count).rev() {
            let own = read(metrics, bucket(index)).saturating_sub(read(metrics, bucket(index - 1)));
            write(metrics, bucket(index), own);
        }
        let total = read(metrics, count);
        if self.start == 0 || total < self.last_count {
            self.start = time;
        }
        self.last_count = total;
        let slot = self.slot as usize;
        if !self.is_created {
            write(metrics, slot, self.start);
        }
        write(metrics, slot + FIXED, time);
    }
}

/// Compares a page with the lines of the last one, and writes its numbers over those in `metrics`. Returns how many
/// samples there are, and those with more than a value. `None` when anything but the numbers is different; lines and
/// `metrics` have some numbers of the page then.
pub(super) fn compare<'p>(
    page: &'p [u8],
    lines: &mut [KnownLine],
    metrics: &mut [u8],
    (scraped, unit): (u64, TimeUnit),
) -> Option<Vec<(usize, Extra<'p>)>> {
    let mut at = 0;
    let mut extras = Vec::new();
    for (index, line) in lines.iter_mut().enumerate() {
        let end = at + line.length();
        if hash(page.get(at..end)?) != line.hash {
            return None;
        }
        at = end;
        if line.role() == Role::Nothing && page.get(at).is_none_or(|byte| *byte == b'\n') {
            at += 1;
            continue;
        }
        let (value, rest) = number(page.get(at..)?.strip_prefix(b" ")?)?;
        match rest.first() {
            None => at = page.len() + 1,
            Some(b'\n') => at = page.len() - rest.len() + 1,
            Some(_) => {
                let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                let extra = extra(&rest[..end], unit).ok()?;
                line.put(metrics, value, extra.time.unwrap_or(scraped));
                extras.push((index, extra));
                at = page.len() - rest.len() + end + 1;
                continue;
            }
        }
        line.put(metrics, value, scraped);
    }
    (at >= page.len()).then_some(extras)
}

/// A number that stands for a text.
pub(super) fn hash(text: &[u8]) -> u64 {
    XxHash3_64::oneshot(text)
}

/// The same of several texts.
pub(super) fn hash_all<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = XxHash3_64::new();
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
