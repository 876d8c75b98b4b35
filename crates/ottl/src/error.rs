//! Errors in a statement or a condition, with their place.

use std::fmt;
use std::ops::Range;

use strsim::osa_distance;

/// Why OTTL text was refused. It renders as one sentence, the line in question and a caret under the offending token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    origin: Origin,
    text: String,
    range: Range<usize>,
    message: String,
    help: Option<String>,
}

/// Which of the texts of a group is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// All of them together.
    Group,
    /// The condition at this place, from 0.
    Condition(usize),
    /// The statement at this place, from 0.
    Statement(usize),
}

impl Error {
    pub(crate) fn new(origin: Origin, text: &str, fault: Fault) -> Self {
        let Fault { range, message, help } = fault;
        let end = range.end.min(text.len());
        Self { origin, text: text.to_owned(), range: range.start.min(end)..end, message, help }
    }

    /// The same error, of another one of several texts.
    pub(crate) fn at(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// Which text is wrong.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The statement or condition as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is wrong, without the position.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What would be right, when that can be guessed.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// Bytes of the text that are blamed; empty at the end of the text.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Line of the first byte blamed, from 1.
    pub fn line(&self) -> usize {
        self.before().matches('\n').count() + 1
    }

    /// Column of the first byte blamed, in characters from 1.
    pub fn column(&self) -> usize {
        self.before()[self.line_start()..].chars().count() + 1
    }

    fn before(&self) -> &str {
        self.text.get(..self.range.start).unwrap_or(&self.text)
    }

    fn line_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |newline| newline + 1)
    }

    /// The line in question and, below it, carets under the offending token. Without line breaks at the ends.
    pub fn excerpt(&self) -> String {
        let start = self.line_start();
        let line = self.text[start..].lines().next().unwrap_or_default();
        // Tabs stay tabs, so that the carets stand below the token whatever the width of a tab.
        let indent: String = self.before()[start..].chars().map(|char| if char == '\t' { '\t' } else { ' ' }).collect();
        let blamed = self.text.get(self.range.clone()).unwrap_or_default();
        let width = blamed.lines().next().unwrap_or_default().chars().count().max(1);
        format!("{line}\n{indent}{}", "^".repeat(width))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.message, self.line(), self.column())?;
        if let Some(help) = &self.help {
            write!(f, "; {help}")?;
        }
        for line in self.excerpt().lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// An error before it knows the text it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) range: Range<usize>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

impl Fault {
    pub(crate) fn new(range: Range<usize>, message: impl Into<String>) -> Self {
        Self { range, message: message.into(), help: None }
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// Adds "did you mean", when one of the valid names is close to the given one.
    pub(crate) fn did_you_mean<'n>(self, name: &str, valid: impl IntoIterator<Item = &'n str>) -> Self {
        match closest(name, valid) {
            Some(close) => self.help(format!("did you mean \"{close}\"?")),
            None => self,
        }
    }
}

/// Longest name that is compared with others; the distance costs time with the square of the length.
const LONGEST_COMPARED: usize = 64;

/// The name that differs least from the given one, if it differs little.
fn closest<'n>(name: &str, valid: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    if name.len() > LONGEST_COMPARED {
        return None;
    }
    let budget = name.chars().count() / 3 + 1;
    let scored = valid.into_iter().filter(|other| other.len() <= LONGEST_COMPARED).map(|other| {
        let distance = if other.eq_ignore_ascii_case(name) { 0 } else { osa_distance(name, other) };
        (distance, other)
    });
    scored.filter(|(distance, _)| *distance <= budget).min().map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rendered_error_points_at_the_token() {
        let text = "set(span.name,\n\t\"é\" + isMatch())";
        let start = text.find("isMatch").unwrap();
        let fault =
            Fault::new(start..start + 7, "unknown function \"isMatch\"").did_you_mean("isMatch", ["Len", "IsMatch"]);
        let error = Error::new(Origin::Statement(0), text, fault);
        assert_eq!((error.line(), error.column()), (2, 8));
        assert_eq!(
            error.to_string(),
            "unknown function \"isMatch\" at line 2 column 8; did you mean \"IsMatch\"?\n  \
             \t\"é\" + isMatch())\n  \t      ^^^^^^^"
        );
    }

    #[test]
    fn names_far_from_all_others_get_no_advice() {
        assert_eq!(closest("replace_patern", ["replace_pattern", "replace_match"]), Some("replace_pattern"));
        assert_eq!(closest("frobnicate", ["set", "Len"]), None);
    }
}
