//! Lines as container runtimes write them.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;
use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::time::parse_rfc3339_nanos;

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
    let unix_nanos = parse_rfc3339_nanos(&line[..time_end])?;
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
    let unix_nanos = time.map_or(Some(0), |Text(time)| parse_rfc3339_nanos(&time))?;
    let is_partial = text.last() != Some(&b'\n');
    if !is_partial {
        match &mut text {
            Cow::Borrowed(text) => *text = &text[..text.len() - 1],
            Cow::Owned(text) => text.truncate(text.len() - 1),
        }
    }
    Some(Line { stream, unix_nanos, text, is_partial, is_cut: false })
}
