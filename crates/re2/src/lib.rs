//! Regular expressions written for Go's `regexp`, which follows RE2, with the meaning they have there.
//!
//! The OpenTelemetry Collector and Prometheus use that package, so users' patterns are written for it. The `regex`
//! crate, which does the matching here, reads much of the same text. But it refuses some of it, and some means
//! something else to it. So a [`Regex`] translates a pattern from Go's syntax. Whatever Go refuses is refused.
//!
//! This crate must not know who uses the patterns: statements, rules, labels or telemetry.
//!
//! Invariants, cited in code and tests:
//! - **RE2-1** a pattern is taken or refused as Go does, and finds the same matches, groups and replacements.
//!   Exceptions: a pattern that is too large when compiled, or nested too deeply, is refused; names of groups may have
//!   dots; scripts of several words have classes, which Go lost with 1.25; characters newer than Unicode 15 may be of
//!   another class.
//! - **RE2-2** no pattern makes the translation panic or recurse; matching takes linear time. So does finding all
//!   matches of a text: when it would take more, they are not all found, which is said.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use regex::{Captures, RegexBuilder};

mod class;
mod escape;
mod matches;
mod template;
mod translate;
mod unicode;

pub use matches::{Matches, TooSlow};

/// A compiled pattern. A clone shares what was compiled.
#[derive(Debug, Clone)]
pub struct Regex {
    engine: regex::Regex,
    /// Names of the groups by number; empty for those without a name, as for the whole match.
    groups: Arc<[String]>,
    reach: Arc<matches::Reach>,
}

/// Why a pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// It is wrong, for this reason.
    Invalid(String),
    /// It takes more memory than allowed when it is compiled.
    TooLarge,
}

impl Error {
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid(reason.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(reason) => write!(f, "invalid pattern: {reason}"),
            Self::TooLarge => f.write_str("pattern that is too large when compiled"),
        }
    }
}

impl std::error::Error for Error {}

/// How much a matcher keeps of the states that it has been in, for each thread that matches at the same time and for
/// each direction. Texts fill it. It is several times what real patterns need.
const MAX_STATES_BYTES: usize = 256 << 10;

/// What looking for all matches may keep of a pattern that takes 1 MiB, beside it: an automaton that takes as much,
/// and 1.4 times that for its states.
pub const MAX_MEASURE_BYTES: usize = 5 << 19;

/// How deep the translation of a group nests: itself, alternatives, sequences and a repetition.
const ENGINE_LEVELS_PER_GROUP: usize = 4;

impl Regex {
    /// Compiles a pattern that takes at most `max_compiled` bytes then, in groups of at most `max_nesting` levels.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(pattern: &str, max_compiled: usize, max_nesting: usize) -> Result<Self, Error> {
        let translation = translate::translate(pattern, max_nesting)?;
        let levels = max_nesting.saturating_add(2).saturating_mul(ENGINE_LEVELS_PER_GROUP);
        let mut builder = RegexBuilder::new(&translation.pattern);
        builder.size_limit(max_compiled).dfa_size_limit(max_compiled.min(MAX_STATES_BYTES));
        let nest_limit = u32::try_from(levels).unwrap_or(u32::MAX);
        builder.nest_limit(nest_limit);
        let engine = builder.build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => Error::TooLarge,
            error => {
                let text = error.to_string();
                Error::invalid(text.lines().last().unwrap_or_default().trim_start_matches("error: "))
            }
        })?;
        let reach = Arc::new(matches::Reach::new(max_compiled, nest_limit));
        Ok(Self { engine, groups: translation.groups.into(), reach })
    }

    /// Whether it matches somewhere in a text.
    pub fn is_match(&self, text: &str) -> bool {
        self.engine.is_match(text)
    }

    /// The groups of the first match.
    pub fn captures<'t>(&self, text: &'t str) -> Option<Captures<'t>> {
        self.engine.captures(text)
    }

    /// The groups of all matches, one after the other. An empty match right behind another match does not count. It
    /// ends with an error where finding more would take more than linear time.
    pub fn captures_iter<'r, 't>(&'r self, text: &'t str) -> Matches<'r, 't> {
        Matches::new(self, text)
    }

    /// Names of the groups by number, the whole match included, which is number 0; empty for those without a name.
    pub fn group_names(&self) -> &[String] {
        &self.groups
    }

    /// Appends a template to `out`, with the groups of a match in place of `$1`, `${1}`, `$name` and `${name}`.
    pub fn expand(&self, captures: &Captures<'_>, template: &str, out: &mut String) {
        template::expand(template, out, |name| match template::number(name) {
            Some(number) => captures.get(number).map(|group| group.as_str()),
            // Several groups may have one name: the first that took part in the match counts.
            None => {
                let named = self.groups.iter().enumerate().filter(|(_, group)| *group == name);
                named.filter_map(|(number, _)| captures.get(number)).map(|group| group.as_str()).next()
            }
        });
    }
}

/// The pattern that matches a text and nothing else.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|char| class::push_literal(&mut out, u32::from(char)));
    out
}

#[cfg(test)]
mod tests;
