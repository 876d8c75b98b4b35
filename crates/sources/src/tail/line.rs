//! Lines as container runtimes write them.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;
use serde::de::{self, Deserialize, Deserializer, Visitor};

#[cfg(test)]
mod tests;

/// Where a container wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// How lines are written in a file. Without a format, they are text and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `2026-11-23T12:00:00.000000000Z stdout F text`, of containerd and CRI-O.
    Cri,
    /// `{"log":"text\n","stream":"stdout","time":"…"}`, of Docker.
    Docker,
}

/// One line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// `None` where lines do not say.
    pub(crate) stream: Option<Stream>,
    /// Nanoseconds since the Unix epoch; 0 where lines do not say.
    pub(crate) unix_nanos: u64,
    /// What the container wrote, without the end of the line.
    pub(crate) text: Cow<'a, [u8]>,
    /// The container's line goes on in the next line of the same stream.
    pub(crate) is_partial: bool,
    /// The line goes on in the file, or went on where nothing can be read any more. No format says so: it is for
    /// whoever cuts a line that is too long, or takes one whose end is missing.
    pub(crate) is_cut: bool,
}

impl Format {
    /// How the lines of a file are written, by the first of these lines that tells.
    pub(crate) fn told_in(lines: &[u8]) -> Option<Self> {
        lines.split(|byte| *byte == b'\n').find_map(Self::told_by)
    }

    /// How the lines of a file are written in which this line is, if it tells. Applications write JSON with a `log`, too:
    /// only a line that names its stream is a runtime's.
    pub(crate) fn told_by(line: &[u8]) -> Option<Self> {
        let line = &line[line.iter().take_while(|byte| **byte == 0).count()..];
        let tells = |format: &Self| format.parse(line).is_some_and(|line| line.stream.is_some());
        [Self::Cri, Self::Docker].into_iter().find(tells)
    }

    /// Reads a line without its `\n`. `None` when it is not of this format: it is [`Line::of_text`] then.
    pub(crate) fn parse(self, line: &[u8]) -> Option<Line<'_>> {
        match self {
            Self::Cri => cri(line),
            Self::Docker => docker(line),
        }
    }
}

impl<'a> Line<'a> {
    /// A line of which nothing is known but its text.
    pub(crate) fn of_text(text: &'a [u8]) -> Self {
        Self { stream: None, unix_nanos: 0, text: Cow::Borrowed(text), is_partial: false, is_cut: false }
    }
}

/// `2026-11-23T12:00:00.123456789+01:00`, and the space behind it.
const LONGEST_CRI_TIME: usize = 36;

/// `TIME STREAM TAG[:TAG...] TEXT`. Of the tags only the first one means something, and it only if it is `P`: that is how
/// the kubelet reads them, so that runtimes may add others. Text is taken as it is, with a `\r` at its end.
fn cri(line: &[u8]) -> Option<Line<'_>> {
    let time_end = memchr(b' ', &line[..line.len().min(LONGEST_CRI_TIME)])?;
    let unix_nanos = unix_nanos(&line[..time_end])?;
    let rest = &line[time_end + 1..];
    let (stream, rest) = match rest.strip_prefix(b"stdout ") {
        Some(rest) => (Stream::Stdout, rest),
        None => (Stream::Stderr, rest.strip_prefix(b"stderr ")?),
    };
    let tags_end = memchr(b' ', rest);
    let (tags, text) = rest.split_at(tags_end.unwrap_or(rest.len()));
    let first = tags.split(|byte| *byte == b':').next();
    let is_partial = first == Some(b"P");
    // Nothing behind it: these are tags only if they are tags that exist, and otherwise text that must not be lost.
    if tags_end.is_none() && !is_partial && first != Some(b"F") {
        return None;
    }
    let text = Cow::Borrowed(text.get(1..).unwrap_or_default());
    Some(Line { stream: Some(stream), unix_nanos, text, is_partial, is_cut: false })
}

#[derive(serde::Deserialize)]
struct DockerLine<'a> {
    #[serde(borrow)]
    log: Text<'a>,
    #[serde(borrow, default)]
    stream: Option<Text<'a>>,
    #[serde(borrow, default)]
    time: Option<Text<'a>>,
}

/// A string in JSON that need not be Unicode: what is wrong in it is seen to where the record is made.
struct Text<'a>(Cow<'a, [u8]>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(TextVisitor).map(Self)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, [u8]>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(bytes))
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(bytes.to_vec()))
    }
}

fn docker(line: &[u8]) -> Option<Line<'_>> {
    // An array of strings would do for serde.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let DockerLine { log: Text(mut text), stream, time } = serde_json::from_slice(line).ok()?;
    let stream = match stream.as_ref().map(|Text(name)| &**name) {
        Some(b"stdout") => Some(Stream::Stdout),
        Some(b"stderr") => Some(Stream::Stderr),
        _ => None,
    };
    let unix_nanos = time.map_or(Some(0), |Text(time)| unix_nanos(&time))?;
    let is_partial = text.last() != Some(&b'\n');
    if !is_partial {
        match &mut text {
            Cow::Borrowed(text) => *text = &text[..text.len() - 1],
            Cow::Owned(text) => text.truncate(text.len() - 1),
        }
    }
    Some(Line { stream, unix_nanos, text, is_partial, is_cut: false })
}

/// Nanoseconds since the Unix epoch of a time in the form of RFC 3339, from 1970 until they do not fit an `i64`, in 2262.
fn unix_nanos(time: &[u8]) -> Option<u64> {
    let (date_and_time, rest) = time.split_first_chunk()?;
    let (nanos, zone) = fraction(rest)?;
    let seconds = seconds(date_and_time)? - offset_seconds(zone)?;
    let nanos = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    u64::try_from(nanos).ok()
}

/// Seconds since the Unix epoch of `2026-11-23T12:00:00`. A leap second is the first one of the next minute.
fn seconds(text: &[u8; 19]) -> Option<i64> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b'T' | b't', rest @ ..] = text else { return None };
    let [h0, h1, b':', n0, n1, b':', s0, s1] = rest else { return None };
    let year = pair(*y0, *y1)? * 100 + pair(*y2, *y3)?;
    let days = days(year, pair(*m0, *m1)?, pair(*d0, *d1)?)?;
    let (hour, minute, second) = (pair(*h0, *h1)?, pair(*n0, *n1)?, pair(*s0, *s1)?);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    is_time.then_some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days of a year that is not a leap year before its months.
const DAYS_BEFORE: [i64; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];

/// Leap days before 1970, if the calendar had always been this one.
const LEAP_DAYS_BEFORE_1970: i64 = 477;

/// Days from the Unix epoch to a date.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let index = usize::try_from(month).ok()?.checked_sub(1)?;
    let (before, until) = (DAYS_BEFORE.get(index)?, DAYS_BEFORE.get(index + 1)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let leap_day = i64::from(is_leap && month == 2);
    if day < 1 || day > until - before + leap_day {
        return None;
    }
    let past = year - 1;
    let leap_days = past / 4 - past / 100 + past / 400 - LEAP_DAYS_BEFORE_1970 + i64::from(is_leap && month > 2);
    Some((year - 1970) * 365 + leap_days + before + day - 1)
}

/// The nanoseconds of `.123`, and what comes behind them.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(text) = text.strip_prefix(b".") else { return Some((0, text)) };
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (fraction, rest) = text.split_at(digits);
    let missing = 9_u32.checked_sub(u32::try_from(digits).ok()?)?;
    let value = fraction.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    (digits > 0).then_some((value * 10_i64.pow(missing), rest))
}

/// How far a zone is before UTC: `Z`, `+01:00`.
fn offset_seconds(zone: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match zone {
        b"Z" | b"z" => return Some(0),
        [b'+', h0, h1, b':', m0, m1] => (1, pair(*h0, *h1)?, pair(*m0, *m1)?),
        [b'-', h0, h1, b':', m0, m1] => (-1, pair(*h0, *h1)?, pair(*m0, *m1)?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

/// The number that two digits are.
fn pair(tens: u8, ones: u8) -> Option<i64> {
    let are_digits = tens.is_ascii_digit() && ones.is_ascii_digit();
    are_digits.then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}
