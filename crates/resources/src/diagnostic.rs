//! Diagnostics: what is wrong in a configuration, where, and what would be right.
//!
//! It knows nothing about what is being checked. No secret value ever enters a [`Diagnostic`]; rendering takes care
//! that none is quoted from the source text either.

mod condition;
mod render;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use weir_plan::PipelineId;

pub use condition::Reason;

/// Diagnostics kept per load: a file that is wrong everywhere must not cost memory without end.
const MAX_DIAGNOSTICS: usize = 1000;

/// Characters of an offending value that are shown.
const MAX_SHOWN_CHARS: usize = 80;

/// How much a diagnostic matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// The configuration is used; something in it deserves attention.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// One finding about one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Name of the [`Source`](crate::Source), as given by the caller.
    pub file: String,
    /// Line, counted from 1; 0 when there is no text that could have one.
    pub line: usize,
    /// Column in characters, counted from 1; 0 as for the line.
    pub column: usize,
    /// Path of the field within its document, for example `spec.output.otlp.endpoint.value`; empty when the finding
    /// concerns a whole document or file.
    pub field: String,
    /// The offending value, shortened when it is long. Absent for anything that may be secret.
    pub value: Option<String>,
    /// What is wrong, one line, lower case unless it is a published text.
    pub message: String,
    /// What would be right; empty only of an error whose message says it.
    pub expected: String,
    /// Error or warning.
    pub severity: Severity,
    /// The pipeline it belongs to; nothing for what is wrong with a file, or with another kind of document.
    pub pipeline: Option<PipelineId>,
    /// The reason a condition `ConfigurationGenerated` would give for it; nothing for what an API server would refuse.
    pub reason: Option<Reason>,
    width: usize,
    excerpt: Excerpt,
}

impl Diagnostic {
    pub(crate) fn error(place: &Place, message: impl Into<String>) -> Self {
        Self::new(place, Severity::Error, message, "")
    }

    /// The configuration is used all the same, so whoever reads this has to be told what would be right.
    pub(crate) fn warning(place: &Place, message: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::new(place, Severity::Warning, message, expected)
    }

    /// An error or a warning, as the case may be.
    pub(crate) fn new(
        place: &Place,
        severity: Severity,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            file: place.file.to_string(),
            line: place.line,
            column: place.column,
            field: place.field.clone(),
            value: None,
            message: message.into(),
            expected: expected.into(),
            severity,
            pipeline: None,
            reason: None,
            width: place.width,
            excerpt: place.excerpt,
        }
    }

    /// Sets the offending value, unless the place says that it must not be shown.
    pub(crate) fn value(mut self, value: &str) -> Self {
        self.value = (self.excerpt == Excerpt::Line).then(|| shorten(value));
        self
    }

    pub(crate) fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = expected.into();
        self
    }

    pub(crate) fn reason(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }

    /// What a condition would say: which pipeline, and why.
    fn fmt_condition(&self, f: &mut impl fmt::Write) -> fmt::Result {
        if let Some(pipeline) = &self.pipeline {
            write!(f, "{pipeline}: ")?;
        }
        match self.reason {
            Some(reason) => write!(f, "{}: ", reason.name()),
            None => Ok(()),
        }
    }

    /// Shows the finding with its source line and a caret, as compilers do. `source_text` is the text of the source
    /// named [`file`](Self::file). Values that may be secret are shown as `***`.
    pub fn render(&self, source_text: &str, color: bool) -> String {
        render::render(self, source_text, color)
    }
}

/// One line. The alternate form (`{:#}`) also says which pipeline it is about, and the reason of its condition.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}: ", self.file, self.severity)?,
            line => write!(f, "{}:{line}:{}: {}: ", self.file, self.column, self.severity)?,
        }
        if f.alternate() {
            self.fmt_condition(f)?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)?;
        if !self.expected.is_empty() {
            write!(f, "; expected {}", self.expected)?;
        }
        Ok(())
    }
}

/// Everything found in a configuration that cannot be used: its errors and its warnings, by file, line and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The findings, at least one of them an error.
    pub diagnostics: Vec<Diagnostic>,
}

impl Report {
    /// The findings in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.diagnostics.iter()
    }
}

impl<'a> IntoIterator for &'a Report {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Report {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.diagnostics.into_iter()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.diagnostics.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

/// How much of a value, and of its line, may be shown with a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excerpt {
    /// The value and its line.
    Line,
    /// The key only: the value, or what lies beside it, may be secret.
    Key,
    /// The line that a mapping or a list begins with, masked unless its key is one whose values are public.
    Block,
}

/// A place in a source, with the path of the field found there.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) file: Rc<str>,
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// Characters to underline.
    pub(crate) width: usize,
    pub(crate) field: String,
    pub(crate) excerpt: Excerpt,
}

impl Place {
    /// A file or directory, not something in it.
    pub(crate) fn whole(file: &str) -> Self {
        Self { line: 0, column: 0, ..Self::start_of(file) }
    }

    /// The first character of a file.
    pub(crate) fn start_of(file: &str) -> Self {
        Self { file: file.into(), line: 1, column: 1, width: 1, field: String::new(), excerpt: Excerpt::Block }
    }

    /// The same place, its value not to be shown.
    pub(crate) fn hidden(&self) -> Self {
        Self { excerpt: Excerpt::Key, ..self.clone() }
    }

    /// The value that stands here, for a message: quoted, or a note that it is not shown.
    pub(crate) fn shown(&self, value: &str) -> String {
        match self.excerpt {
            Excerpt::Line => quoted(value),
            Excerpt::Key | Excerpt::Block => "(value not shown)".to_owned(),
        }
    }

    /// `file:line:column`, for messages that name a second place.
    pub(crate) fn position(&self) -> String {
        format!("{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Collects what is found during one load. Shared by reference, so that checking code reads as plain functions.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    kept: RefCell<Vec<Diagnostic>>,
    more: Cell<usize>,
    errors: Cell<usize>,
}

impl Findings {
    pub(crate) fn push(&self, diagnostic: Diagnostic) {
        if diagnostic.severity == Severity::Error {
            self.errors.set(self.errors.get() + 1);
        }
        let mut kept = self.kept.borrow_mut();
        if kept.len() < MAX_DIAGNOSTICS {
            kept.push(diagnostic);
        } else {
            self.more.set(self.more.get() + 1);
        }
    }

    pub(crate) fn extend(&self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        diagnostics.into_iter().for_each(|diagnostic| self.push(diagnostic));
    }

    /// How many findings are kept: a mark for [`attribute`](Self::attribute).
    pub(crate) fn mark(&self) -> usize {
        self.kept.borrow().len()
    }

    /// Says of all findings since a mark which pipeline they belong to.
    pub(crate) fn attribute(&self, mark: usize, pipeline: &PipelineId) {
        for diagnostic in self.kept.borrow_mut().iter_mut().skip(mark) {
            diagnostic.pipeline = Some(pipeline.clone());
        }
    }

    /// Whether more findings are only counted, so that nobody need work out what to say.
    pub(crate) fn is_full(&self) -> bool {
        self.kept.borrow().len() >= MAX_DIAGNOSTICS
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors.get() > 0
    }

    /// Everything found, sorted.
    pub(crate) fn into_sorted(self) -> Vec<Diagnostic> {
        let mut all = sorted(self.kept.into_inner());
        if self.more.get() > 0
            && let Some(last) = all.last()
        {
            let mut end = Place::start_of(&last.file);
            end.line = last.line;
            let message = format!("{} more problems are not shown", self.more.get());
            let severity = if self.errors.get() > 0 { Severity::Error } else { Severity::Warning };
            all.push(Diagnostic::new(&end, severity, message, format!("{MAX_DIAGNOSTICS} at most")));
        }
        all
    }
}

/// By file, line and column.
pub(crate) fn sorted(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    diagnostics
}

/// A mapping key as it appears in messages: quoted, or `?` when it looks like more than a name, because then a
/// missing colon may have made a value part of it.
pub(crate) fn quoted_key(key: &str) -> String {
    let name = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./<".contains(&b));
    if name { quoted(key) } else { "?".to_owned() }
}

/// A value as it appears in messages: quoted, escaped, shortened.
pub(crate) fn quoted(value: &str) -> String {
    format!("{:?}", shorten(value))
}

fn shorten(value: &str) -> String {
    match value.char_indices().nth(MAX_SHOWN_CHARS) {
        None => value.to_owned(),
        Some((end, _)) => format!("{}...", &value[..end]),
    }
}
