//! The lines of a page in Prometheus's text formats (0.0.4 and 1.0.0) and in OpenMetrics 1.0.
//!
//! A line is taken apart no further than needed to know what it is: the text that names a series stays as it is, and
//! [`super::series`] reads it when it was not seen before.

use std::ops::Range;

use memchr::memchr2;

/// What a family of metrics is, by its `TYPE` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricType {
    Counter,
    Gauge,
    Histogram,
    GaugeHistogram,
    Summary,
    Info,
    StateSet,
    /// `untyped`, `unknown`, or a word that is not known.
    Unknown,
}

/// A line of a page. Texts are as they were written, escapes included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'p> {
    Type(&'p [u8], MetricType),
    Help(&'p [u8], &'p [u8]),
    Unit(&'p [u8], &'p [u8]),
    /// `# EOF` of OpenMetrics.
    End,
    /// An empty line or another comment.
    Nothing,
    Sample(Sample<'p>),
}

/// A line with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample<'p> {
    /// The name and the labels.
    pub(super) series: &'p [u8],
    /// All that follows the white space after it: the value, and maybe a timestamp and an exemplar.
    pub(super) rest: &'p [u8],
}

/// A line that is none of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    #[error("no value after the name and labels")]
    NoValue,
    #[error("labels without an end")]
    OpenLabels,
    #[error("a line that begins with no name")]
    NoName,
}

impl MetricType {
    fn of(word: &[u8]) -> Self {
        match word {
            b"counter" => Self::Counter,
            b"gauge" => Self::Gauge,
            b"histogram" => Self::Histogram,
            b"gaugehistogram" => Self::GaugeHistogram,
            b"summary" => Self::Summary,
            b"info" => Self::Info,
            b"stateset" => Self::StateSet,
            _ => Self::Unknown,
        }
    }

    /// The word of OpenMetrics for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::GaugeHistogram => "gaugehistogram",
            Self::Summary => "summary",
            Self::Info => "info",
            Self::StateSet => "stateset",
            Self::Unknown => "unknown",
        }
    }
}

/// The lines of a page that have one of these places in them, in order, each with the first such place.
pub(super) fn lines_with(
    page: &[u8],
    places: impl Iterator<Item = usize>,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    let mut next_line = 0;
    places.filter_map(move |at| {
        if at < next_line {
            return None;
        }
        let start = memchr::memrchr(b'\n', &page[next_line..at]).map_or(next_line, |end| next_line + end + 1);
        next_line = memchr::memchr(b'\n', &page[at..]).map_or(page.len(), |length| at + length);
        Some((at, start..next_line))
    })
}

/// Reads a line, which is given without the line feed that ends it.
pub(super) fn line(text: &[u8]) -> Result<Line<'_>, Broken> {
    let text = text.strip_suffix(b"\r").unwrap_or(text).trim_ascii_start();
    match text.first() {
        None => Ok(Line::Nothing),
        Some(b'#') => Ok(comment(&text[1..])),
        Some(_) => sample(text).map(Line::Sample),
    }
}

fn comment(text: &[u8]) -> Line<'_> {
    let (word, rest) = split(text.trim_ascii_start());
    if word == b"EOF" && rest.is_empty() {
        return Line::End;
    }
    let (name, rest) = family_name(rest);
    if name.is_empty() {
        return Line::Nothing;
    }
    match word {
        b"TYPE" => Line::Type(name, MetricType::of(rest.trim_ascii())),
        b"HELP" => Line::Help(name, rest),
        b"UNIT" => Line::Unit(name, rest.trim_ascii()),
        _ => Line::Nothing,
    }
}

/// The name of a family, which may be quoted, and what follows the space after it.
fn family_name(text: &[u8]) -> (&[u8], &[u8]) {
    let (name, rest) = match text.strip_prefix(b"\"") {
        Some(quoted) => match end_of_quote(quoted) {
            Some(end) => (&quoted[..end], &quoted[end + 1..]),
            None => return (&[], &[]),
        },
        None => text.split_at(memchr2(b' ', b'\t', text).unwrap_or(text.len())),
    };
    (name, rest.get(1..).unwrap_or_default())
}

/// The first word, and what follows the white space after it.
fn split(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr2(b' ', b'\t', text) {
        Some(at) => (&text[..at], text[at..].trim_ascii_start()),
        None => (text, &[]),
    }
}

fn sample(text: &[u8]) -> Result<Sample<'_>, Broken> {
    let name = text.iter().position(|byte| matches!(byte, b'{' | b' ' | b'\t')).ok_or(Broken::NoValue)?;
    let after_name = text[name..].trim_ascii_start();
    let (series, rest) = if after_name.starts_with(b"{") {
        let labels = text.len() - after_name.len() + 1;
        let end = labels + end_of_labels(&text[labels..]).ok_or(Broken::OpenLabels)?;
        text.split_at(end + 1)
    } else {
        text.split_at(name)
    };
    if series.is_empty() {
        return Err(Broken::NoName);
    }
    let rest = rest.trim_ascii_start();
    if rest.is_empty() { Err(Broken::NoValue) } else { Ok(Sample { series, rest }) }
}

/// Where the brace is that ends labels. Braces in quotes are none.
pub(super) fn end_of_labels(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'}', &text[at..])?;
        if text[at] == b'}' {
            return Some(at);
        }
        at += 1;
        at += end_of_quote(&text[at..])? + 1;
    }
}

/// Where the quotation mark is that ends a quoted text. `text` begins after the first one.
pub(super) fn end_of_quote(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'\\', &text[at..])?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
        if at > text.len() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_of(text: &str) -> Result<(&str, &str), Broken> {
        match line(text.as_bytes())? {
            Line::Sample(Sample { series, rest }) => {
                Ok((std::str::from_utf8(series).unwrap(), std::str::from_utf8(rest).unwrap()))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn samples_are_told_from_their_values() {
        assert_eq!(sample_of("a 1"), Ok(("a", "1")));
        assert_eq!(sample_of("  a\t1 2"), Ok(("a", "1 2")));
        assert_eq!(sample_of("a{} 1\r"), Ok(("a{}", "1")));
        assert_eq!(sample_of(r#"a{b="}\"{",} 1"#), Ok((r#"a{b="}\"{",}"#, "1")));
        assert_eq!(sample_of(r#"a {b="c"} 1 # {d="e"} 2"#), Ok((r#"a {b="c"}"#, r#"1 # {d="e"} 2"#)));
        assert_eq!(sample_of(r#"{"a.b",c="d"} 1"#), Ok((r#"{"a.b",c="d"}"#, "1")));
        assert_eq!(sample_of("a"), Err(Broken::NoValue));
        assert_eq!(sample_of("a{} "), Err(Broken::NoValue));
        assert_eq!(sample_of(r#"a{b="c} 1"#), Err(Broken::OpenLabels));
        assert_eq!(sample_of(r#"a{b="c\"#), Err(Broken::OpenLabels));
    }

    #[test]
    fn lines_are_found_once() {
        let page = b"#a #\nb\n c # d#";
        let found: Vec<_> = lines_with(page, memchr::memchr_iter(b'#', page)).collect();
        assert_eq!(found, [(0, 0..4), (10, 7..14)]);
    }

    #[test]
    fn comments_are_told_apart() {
        assert_eq!(line(b"# TYPE a counter"), Ok(Line::Type(b"a", MetricType::Counter)));
        assert_eq!(line(b"#TYPE \"a.b\" gauge "), Ok(Line::Type(b"a.b", MetricType::Gauge)));
        assert_eq!(line(b"# TYPE a nonsense"), Ok(Line::Type(b"a", MetricType::Unknown)));
        assert_eq!(line(b"# HELP a what it is "), Ok(Line::Help(b"a", b"what it is ")));
        assert_eq!(line(b"# HELP a"), Ok(Line::Help(b"a", b"")));
        assert_eq!(line(b"# UNIT a_seconds seconds"), Ok(Line::Unit(b"a_seconds", b"seconds")));
        assert_eq!(line(b"# EOF"), Ok(Line::End));
        for nothing in [&b""[..], b"   ", b"#", b"# a remark", b"# TYPE", b"# TYPE \"a"] {
            assert_eq!(line(nothing), Ok(Line::Nothing));
        }
    }
}
