//! The lines that `weir load log-files` writes, and how one is known again in a log record.
//!
//! The text of a line is `weir-line CONTAINER STREAM SEQUENCE LENGTH filler SEQUENCE`: numbers of fixed width, so that a
//! prebuilt text is stamped and not formatted; the length of the text, so that one that was cut is noticed; a filler
//! that is the same in all lines, so that a part in the wrong place is noticed; and the sequence at the end again, so
//! that the head of one line and the tail of another are no line. Sequences of a stream begin with 1 and have no gaps.

mod tally;

use memchr::memmem;
use serde::{Deserialize, Serialize};

pub(crate) use self::tally::LineTally;
pub use self::tally::{LineReport, StreamReport};

const PREFIX: &[u8] = b"weir-line ";
const CONTAINER: Digits = Digits { at: PREFIX.len(), width: 6 };
const STREAM_AT: usize = CONTAINER.end() + 1;
const SEQUENCE: Digits = Digits { at: STREAM_AT + 2, width: 12 };
const LENGTH: Digits = Digits { at: SEQUENCE.end() + 1, width: 9 };
const HEAD: usize = LENGTH.end() + 1;
/// A blank and the sequence.
const TAIL: usize = 1 + SEQUENCE.width;

/// Length of the shortest text.
pub(crate) const SHORTEST: usize = HEAD + TAIL;
/// How many containers have a number.
pub(crate) const CONTAINERS: u32 = 1_000_000;

/// No character that any format escapes.
const FILLER: &[u8] =
    b"GET /orders/4711/items took 12 ms, 3 rows, cache miss; user signed in from 10.9.8.7 with a valid token: ";

/// Which of its two streams a container wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output
    Stdout,
    /// Standard error
    Stderr,
}

impl Stream {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Its name, as the runtimes write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    fn letter(self) -> u8 {
        match self {
            Self::Stdout => b'o',
            Self::Stderr => b'e',
        }
    }
}

/// Which line it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineId {
    pub(crate) container: u32,
    pub(crate) stream: Stream,
    pub(crate) sequence: u64,
}

/// What a log record turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// A whole line.
    Line(LineId),
    /// It begins like a line, and is not one: cut, or put together wrongly.
    Damaged,
    /// Nothing of this generator's, or the rest of a line.
    Unmarked,
}

/// A text of `length` bytes, at least [`SHORTEST`], to be stamped.
pub(crate) fn text(length: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(length);
    text.extend_from_slice(PREFIX);
    text.resize(HEAD, b' ');
    LENGTH.put(&mut text, length as u64);
    text.extend(FILLER.iter().cycle().take(length.saturating_sub(SHORTEST)));
    text.resize(length.max(SHORTEST), b' ');
    text
}

/// Makes `text` the text of this line.
pub(crate) fn stamp(text: &mut [u8], id: LineId) {
    CONTAINER.put(text, id.container.into());
    text[STREAM_AT] = id.stream.letter();
    SEQUENCE.put(text, id.sequence);
    let tail = text.len() - SEQUENCE.width;
    text.copy_within(SEQUENCE.at..SEQUENCE.end(), tail);
}

/// Reads the body of a log record, or a part of a record that may hold one: a text, or JSON with a text in it.
pub(crate) fn find(body: &[u8]) -> Finding {
    if body.starts_with(PREFIX) {
        return read(body).map_or(Finding::Damaged, Finding::Line);
    }
    let json = body.first() == Some(&b'{') && body.last() == Some(&b'}');
    match find_within(body) {
        Finding::Line(_) if !json => Finding::Damaged,
        finding => finding,
    }
}

/// Reads encoded attributes or JSON: a text that something else surrounds.
pub(crate) fn find_within(bytes: &[u8]) -> Finding {
    let Some(at) = memmem::find(bytes, PREFIX) else { return Finding::Unmarked };
    let text = &bytes[at..];
    let length = LENGTH.get(text).and_then(|length| usize::try_from(length).ok());
    let line = length.and_then(|length| {
        let ends = matches!(text.get(length), None | Some(b'"' | b'\\'));
        text.get(..length).filter(|_| ends).and_then(read)
    });
    line.map_or(Finding::Damaged, Finding::Line)
}

/// Reads JSON in which a text may stand more than once: then all have to be the same.
pub(crate) fn find_all_within(bytes: &[u8]) -> Finding {
    let mut findings = memmem::find_iter(bytes, PREFIX).map(|at| find_within(&bytes[at..]));
    let Some(first) = findings.next() else { return Finding::Unmarked };
    if findings.all(|other| other == first) { first } else { Finding::Damaged }
}

/// Reads a text that is nothing else.
fn read(text: &[u8]) -> Option<LineId> {
    let sequence = SEQUENCE.get(text)?;
    let container = u32::try_from(CONTAINER.get(text)?).ok()?;
    let stream = Stream::ALL.into_iter().find(|stream| stream.letter() == text[STREAM_AT])?;
    let whole = text.len() >= SHORTEST
        && LENGTH.get(text)? == text.len() as u64
        && text[text.len() - SEQUENCE.width..] == text[SEQUENCE.at..SEQUENCE.end()]
        && [CONTAINER.end(), STREAM_AT + 1, SEQUENCE.end(), LENGTH.end(), text.len() - TAIL]
            .iter()
            .all(|&at| text[at] == b' ')
        && is_filler(&text[HEAD..text.len() - TAIL]);
    whole.then_some(LineId { container, stream, sequence })
}

fn is_filler(bytes: &[u8]) -> bool {
    bytes.chunks(FILLER.len()).all(|chunk| FILLER.starts_with(chunk))
}

/// Where a number of fixed width stands.
struct Digits {
    at: usize,
    width: usize,
}

impl Digits {
    const fn end(&self) -> usize {
        self.at + self.width
    }

    fn put(&self, text: &mut [u8], mut number: u64) {
        for digit in text[self.at..self.end()].iter_mut().rev() {
            *digit = b"0123456789"[(number % 10) as usize];
            number /= 10;
        }
    }

    fn get(&self, text: &[u8]) -> Option<u64> {
        let digits = text.get(self.at..self.end())?;
        digits
            .iter()
            .try_fold(0, |number: u64, digit| digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0')))
    }
}

/// A line that tests look for.
#[cfg(test)]
pub(crate) mod example {
    use super::{LineId, Stream, stamp, text};

    pub(crate) const ID: LineId = LineId { container: 3, stream: Stream::Stdout, sequence: 99 };

    pub(crate) fn line() -> String {
        let mut text = text(120);
        stamp(&mut text, ID);
        String::from_utf8(text).unwrap()
    }
}

#[cfg(test)]
mod tests;
