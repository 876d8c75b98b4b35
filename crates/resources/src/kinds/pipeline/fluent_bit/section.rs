//! A section of Fluent Bit's configuration: where its lines stand, and what its variables stand for.

use weir_fluent_bit::text::{self, Piece, Wrong};
use weir_plan::{Secret, Section, SectionLine};

use super::Variables;
use crate::diagnostic::{Diagnostic, Findings, Place, quoted_key};
use crate::document::{Located, Node, suggest};
use crate::kinds::value::Resolver;

/// A section as written.
pub(crate) struct Text {
    /// What it is, in messages.
    what: &'static str,
    /// Where the text stands.
    place: Place,
    /// The line of the text that stands there, if its lines are those of the document.
    first_line: Option<usize>,
    lines: Vec<Line>,
}

pub(super) struct Line {
    number: usize,
    /// In lower case.
    key: String,
    value: String,
}

impl Text {
    /// Reads a section; one that cannot be read is reported.
    pub(super) fn decode(node: &Node<'_>, what: &'static str) -> Option<Self> {
        let Located { value, place } = node.string()?;
        let first_line = value.lines().position(|line| !line.trim().is_empty()).map(|blank| blank + 1);
        let mut text = Self { what, place, first_line: first_line.filter(|_| node.is_literal()), lines: Vec::new() };
        match text::lines(&value) {
            Ok(lines) => {
                text.lines.extend(lines.into_iter().map(|line| Line {
                    number: line.number,
                    key: line.key.to_ascii_lowercase(),
                    value: line.value.to_owned(),
                }));
                Some(text)
            }
            Err(number) => {
                let expected = "a key, a space and a value in each line";
                text.push(number, "invalid line (not shown)".to_owned(), expected, node.findings());
                None
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The value of `name`.
    pub(super) fn plugin(&self) -> Option<&str> {
        let named = self.lines.iter().rfind(|line| line.key == "name");
        named.map(|line| line.value.as_str())
    }

    /// Reports what the reference refuses. Returns whether there is nothing.
    pub(super) fn check(&self, forbidden: &[&str], findings: &Findings) -> bool {
        let what = self.what;
        let mut is_right = true;
        if self.plugin().is_none() {
            is_right = false;
            self.push(0, format!("{what} configuration must have name attribute"), "", findings);
        }
        for line in self.lines.iter().filter(|line| forbidden.contains(&line.key.as_str())) {
            is_right = false;
            let message = match line.key.as_str() {
                "match" => format!("{what} plugin contains match condition. Match conditions are forbidden"),
                key => format!("{what} plugin contains forbidden configuration key '{key}'"),
            };
            self.push(line.number, message, "", findings);
        }
        is_right
    }

    /// The section with the values of its variables. `None` has been reported.
    pub(super) fn section(&self, variables: &Variables<'_>, resolver: Resolver<'_>) -> Option<Section> {
        let lines: Vec<_> = self.lines.iter().map(|line| self.line(line, variables, resolver)).collect();
        Some(Section { lines: lines.into_iter().collect::<Option<_>>()? })
    }

    fn line(&self, line: &Line, variables: &Variables<'_>, resolver: Resolver<'_>) -> Option<SectionLine> {
        let mut value = String::new();
        for piece in text::pieces(&line.value) {
            match piece {
                Piece::Text(text) => value.push_str(text),
                Piece::Variable(name) => {
                    let Some(variable) = variables.get(name) else {
                        let known: Vec<&str> = variables.keys().copied().collect();
                        let message = format!("variable {} is not defined", quoted_key(name));
                        let expected = match known.as_slice() {
                            [] => "a variable of spec.variables, which there are none of".to_owned(),
                            known => suggest::one_of(known, name),
                        };
                        self.push(line.number, message, &expected, resolver.findings);
                        return None;
                    };
                    value.push_str(variable.as_ref()?);
                }
            }
        }
        Some(SectionLine { number: line.number, key: line.key.clone(), value: Secret::new(value) })
    }

    /// Where a line stands; 0 is the whole section.
    pub(super) fn place(&self, number: usize) -> Place {
        let below = self.first_line.and_then(|first| number.checked_sub(first));
        Place { line: self.place.line + below.unwrap_or(0), ..self.place.hidden() }
    }

    pub(super) fn push(&self, number: usize, message: String, expected: &str, findings: &Findings) {
        // The number of a line is told where the place does not tell it.
        let message = match (number, self.first_line) {
            (1.., None) if self.lines.len() > 1 => format!("line {number}: {message}"),
            _ => message,
        };
        findings.push(Diagnostic::error(&self.place(number), message).expected(expected));
    }

    pub(super) fn report(&self, wrong: Vec<Wrong>, resolver: Resolver<'_>) {
        for Wrong { line, message, expected } in wrong {
            self.push(line, message, &expected, resolver.findings);
        }
    }
}
