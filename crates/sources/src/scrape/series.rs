//! The name and the labels of a series, read from the text of a line.

use std::borrow::Cow;

use super::known::hash_all;
use super::text::end_of_quote;

/// A name and labels that are read for one line after the other.
#[derive(Debug, Default)]
pub(super) struct Series<'p> {
    pub(super) name: Cow<'p, [u8]>,
    /// In the order of the text. A label with an empty value is none.
    pub(super) labels: Vec<Label<'p>>,
    /// Names of labels with an empty value.
    empty: Vec<Cow<'p, [u8]>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Label<'p> {
    pub(super) name: Cow<'p, [u8]>,
    pub(super) value: Cow<'p, [u8]>,
}

/// What is wrong with a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadSeries {
    #[error("labels are not written as name=\"value\", separated by commas")]
    Syntax,
    #[error("a name with more than letters, digits, _ and : that is not in quotes")]
    Name,
    #[error("a series without a name")]
    NoName,
    #[error("a label without a name")]
    NoLabelName,
    #[error("a series with two names")]
    TwoNames,
    #[error("the same label twice")]
    Repeated,
    #[error("text that is not UTF-8")]
    NotUtf8,
    #[error("a sample or an exemplar with more than {MOST_LABELS} labels: let the target use fewer")]
    TooManyLabels,
}

/// Labels of a sample or an exemplar at most, those without a value included. Samples of real pages have some dozens.
pub(super) const MOST_LABELS: usize = 1000;

/// Up to so many labels, each is compared with those before it: that is faster than to sort them.
const FEW_LABELS: usize = 16;

/// What a label takes at most beside its texts.
pub(super) const LABEL_BYTES: usize = 32;

impl<'p> Series<'p> {
    /// Reads `name`, `name{label="value",...}` or `{"name",label="value",...}`.
    pub(super) fn read(&mut self, text: &'p [u8]) -> Result<(), BadSeries> {
        self.labels.clear();
        self.empty.clear();
        if std::str::from_utf8(text).is_err() {
            return Err(BadSeries::NotUtf8);
        }
        let end = text.iter().position(|byte| matches!(byte, b'{' | b' ' | b'\t')).unwrap_or(text.len());
        self.name = Cow::Borrowed(&text[..end]);
        if self.name.first().is_some_and(u8::is_ascii_digit) || !self.name.iter().all(is_of_name) {
            return Err(BadSeries::Name);
        }
        let rest = text[end..].trim_ascii_start();
        if !rest.is_empty() {
            self.read_labels(rest.strip_prefix(b"{").ok_or(BadSeries::Syntax)?)?;
        }
        if self.name.is_empty() { Err(BadSeries::NoName) } else { Ok(()) }
    }

    /// The value of a label.
    pub(super) fn label(&self, name: &[u8]) -> Option<&[u8]> {
        self.labels.iter().find(|label| label.name == name).map(|label| label.value.as_ref())
    }

    /// Whether the text has a label of this name. `or_empty`: one with an empty value counts.
    pub(super) fn says(&self, name: &[u8], or_empty: bool) -> bool {
        self.label(name).is_some() || or_empty && self.empty.iter().any(|empty| empty.as_ref() == name)
    }

    /// A number that stands for the name and the labels, in their order.
    pub(super) fn hash(&self) -> u64 {
        let labels = self.labels.iter().flat_map(|label| [label.name.as_ref(), label.value.as_ref()]);
        hash_all(std::iter::once(self.name.as_ref()).chain(labels))
    }

    /// Bytes that it takes at most when it is encoded.
    pub(super) fn bytes(&self) -> usize {
        self.name.len() + self.labels.iter().map(Label::bytes).sum::<usize>()
    }

    /// Reads labels alone: `{label="value",...}`.
    pub(super) fn read_labels_alone(&mut self, text: &'p [u8]) -> Result<(), BadSeries> {
        self.labels.clear();
        self.empty.clear();
        self.name = Cow::Borrowed(b"exemplar");
        if std::str::from_utf8(text).is_err() {
            return Err(BadSeries::NotUtf8);
        }
        self.read_labels(text.strip_prefix(b"{").ok_or(BadSeries::Syntax)?)
    }

    /// Reads what follows the opening brace, up to the closing one.
    fn read_labels(&mut self, mut rest: &'p [u8]) -> Result<(), BadSeries> {
        loop {
            rest = rest.trim_ascii_start();
            if rest == b"}" {
                let is_repeated = self.labels.len() > FEW_LABELS && has_repeated(&self.labels);
                return if is_repeated { Err(BadSeries::Repeated) } else { Ok(()) };
            }
            if self.labels.len() + self.empty.len() >= MOST_LABELS {
                return Err(BadSeries::TooManyLabels);
            }
            let ((name, is_quoted), after) = label_name(rest)?;
            rest = after.trim_ascii_start();
            match rest.strip_prefix(b"=") {
                Some(after) => rest = self.read_value(name, after)?,
                None if is_quoted && self.name.is_empty() => self.name = name,
                None if is_quoted => return Err(BadSeries::TwoNames),
                None => return Err(BadSeries::Syntax),
            }
            rest = rest.trim_ascii_start();
            rest = match rest.first() {
                Some(b',') => &rest[1..],
                Some(b'}') => rest,
                _ => return Err(BadSeries::Syntax),
            };
        }
    }

    /// Reads the value of a label, and returns what follows it.
    fn read_value(&mut self, name: Cow<'p, [u8]>, text: &'p [u8]) -> Result<&'p [u8], BadSeries> {
        let quoted = text.trim_ascii_start().strip_prefix(b"\"").ok_or(BadSeries::Syntax)?;
        let end = end_of_quote(quoted).ok_or(BadSeries::Syntax)?;
        if self.labels.len() <= FEW_LABELS && self.labels.iter().any(|label| label.name == name) {
            return Err(BadSeries::Repeated);
        }
        if end == 0 {
            self.empty.push(name);
        } else {
            self.labels.push(Label { name, value: unescaped(&quoted[..end]) });
        }
        Ok(&quoted[end + 1..])
    }
}

impl Label<'_> {
    /// Bytes that it takes at most when it is encoded.
    pub(super) fn bytes(&self) -> usize {
        LABEL_BYTES + self.name.len() + self.value.len()
    }
}

/// Whether two labels have the same name.
pub(super) fn has_repeated(labels: &[Label<'_>]) -> bool {
    let mut names: Vec<&[u8]> = labels.iter().map(|label| label.name.as_ref()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// Whether a name may have this byte without quotes.
fn is_of_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':')
}

/// The name of a label, and whether it is quoted.
type LabelName<'p> = (Cow<'p, [u8]>, bool);

/// The name of a label, and what follows it.
fn label_name(text: &[u8]) -> Result<(LabelName<'_>, &[u8]), BadSeries> {
    if let Some(quoted) = text.strip_prefix(b"\"") {
        let end = end_of_quote(quoted).ok_or(BadSeries::Syntax)?;
        return Ok(((unescaped(&quoted[..end]), true), &quoted[end + 1..]));
    }
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let end = text.iter().position(|byte| !is_of_name(byte)).unwrap_or(text.len());
    if end == 0 || text[0].is_ascii_digit() {
        return Err(BadSeries::Syntax);
    }
    Ok(((Cow::Borrowed(&text[..end]), false), &text[end..]))
}

/// A text without its escapes: `\\`, `\"` and `\n`. What else a backslash stands before stays as it is.
pub(super) fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    without_escapes(text, true)
}

/// The same of help in Prometheus's own format, where quotation marks have no escape.
pub(super) fn unescaped_help(text: &[u8]) -> Cow<'_, [u8]> {
    without_escapes(text, false)
}

fn without_escapes(text: &[u8], has_quotes: bool) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b'\\') => out.push(b'\\'),
            Some(b'"') if has_quotes => out.push(b'"'),
            Some(&other) => out.extend_from_slice(&[b'\\', other]),
            None => out.push(b'\\'),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, Vec<(String, String)>), BadSeries> {
        let mut series = Series::default();
        series.read(text.as_bytes())?;
        let owned = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap();
        let labels = series.labels.iter().map(|label| (owned(&label.name), owned(&label.value))).collect();
        Ok((owned(&series.name), labels))
    }

    fn labels<const N: usize>(name: &str, labels: [(&str, &str); N]) -> (String, Vec<(String, String)>) {
        (name.to_owned(), labels.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
    }

    #[test]
    fn names_and_labels_are_read() {
        assert_eq!(read("a"), Ok(labels("a", [])));
        assert_eq!(read("a{}"), Ok(labels("a", [])));
        assert_eq!(read(r#"a:b_c{d="e",}"#), Ok(labels("a:b_c", [("d", "e")])));
        assert_eq!(read(r#"a { d = "e" , f="}" }"#), Ok(labels("a", [("d", "e"), ("f", "}")])));
        assert_eq!(read(r#"{"a.b","c.d"="e"}"#), Ok(labels("a.b", [("c.d", "e")])));
        assert_eq!(read(r#"{c="e","a.b"}"#), Ok(labels("a.b", [("c", "e")])));
        assert_eq!(read(r#"a{b="\\\"\n\x",c=""}"#), Ok(labels("a", [("b", "\\\"\n\\x")])));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(read("{}"), Err(BadSeries::NoName));
        for wrong in ["a.b", "1a{}", "é", "<p>one</p>"] {
            assert_eq!(read(wrong), Err(BadSeries::Name), "{wrong}");
        }
        assert_eq!(read(r#"a{"b"}"#), Err(BadSeries::TwoNames));
        assert_eq!(read(r#"a{b="c",b="d"}"#), Err(BadSeries::Repeated));
        let many = |count: usize| (0..count).map(|at| format!("b{at}=\"c\"")).collect::<Vec<_>>().join(",");
        assert_eq!(read(&format!("a{{{}}}", many(MOST_LABELS))).map(|(_, labels)| labels.len()), Ok(MOST_LABELS));
        assert_eq!(read(&format!("a{{{},}}", many(MOST_LABELS + 1))), Err(BadSeries::TooManyLabels));
        for last in ["b1", "b40"] {
            assert_eq!(read(&format!("a{{{},{last}=\"d\"}}", many(50))), Err(BadSeries::Repeated), "{last}");
        }
        assert_eq!(read(&format!("a{{{}}}", "b=\"\",".repeat(MOST_LABELS + 1))), Err(BadSeries::TooManyLabels));
        for wrong in [r#"a{b}"#, r#"a{b=c}"#, r#"a{b="c" d="e"}"#, r#"a{1b="c"}"#, r#"a{,}"#, r#"a{b="c"}x"#] {
            assert_eq!(read(wrong), Err(BadSeries::Syntax), "{wrong}");
        }
    }
}
