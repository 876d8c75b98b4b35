//! Sections of Fluent Bit's configuration: lines of a key and a value.
//!
//! Lines are trimmed; empty ones and those that begin with `#` say nothing. A value is everything behind the first space.

use std::fmt;

/// A line as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'t> {
    /// In the text, from 1.
    pub number: usize,
    /// As it was written: it means the same in upper and lower case.
    pub key: &'t str,
    /// Without spaces around it.
    pub value: &'t str,
}

/// A line that is wrong, and why. It quotes no values, because they may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The line in its text, from 1; 0 for what concerns the whole section.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub expected: String,
}

impl Wrong {
    /// What is wrong with a line.
    pub fn new(line: usize, message: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { line, message: message.into(), expected: expected.into() }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}; expected {}", self.message, self.expected)
    }
}

/// The lines of a section.
///
/// # Errors
/// The number of the first line without a value.
pub fn lines(text: &str) -> Result<Vec<Line<'_>>, usize> {
    let lines = text.lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !(line.is_empty() || line.starts_with('#')));
    lines
        .map(|(number, line)| {
            let (key, value) = line.split_once(' ').ok_or(number + 1)?;
            Ok(Line { number: number + 1, key, value: value.trim() })
        })
        .collect()
}

/// A part of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'t> {
    /// Text as it is.
    Text(&'t str),
    /// The name in `${NAME}`.
    Variable(&'t str),
}

/// A value, taken apart at its variables.
pub fn pieces(value: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = value;
    while let Some((before, name, after)) = next_variable(rest) {
        pieces.extend([Piece::Text(before), Piece::Variable(name)]);
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| *piece != Piece::Text(""));
    pieces
}

fn next_variable(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("${")?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name.trim(), after))
}

/// Whether a text stands for true, for false, or for neither.
pub fn boolean(text: &str) -> Option<bool> {
    let is = |names: [&str; 3]| names.iter().any(|name| text.eq_ignore_ascii_case(name));
    if is(["on", "true", "yes"]) {
        return Some(true);
    }
    is(["off", "false", "no"]).then_some(false)
}
