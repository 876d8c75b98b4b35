//! Patterns that are no literals: the sender of the telemetry may write them. A few small ones are kept for the items
//! that follow. A request may have only so many of them, because compiling one takes far longer than matching it.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use weir_re2::Regex;

use super::Scene;
use crate::pattern::{self, Origin};
use crate::program::Syntax;
use crate::value::Failure;

/// So many are kept.
const KEPT: usize = 8;

/// At most this many are compiled for one request and one group of rules.
const MOST: usize = 1000;

const TOO_MANY: Failure = Failure::text("the request has more different patterns than rules may compile");

/// Patterns of a request.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    /// The latest ones, and what they were made of.
    kept: VecDeque<(String, Syntax, Arc<Regex>)>,
    compiled: usize,
}

/// A pattern to match with.
#[derive(Debug)]
pub(crate) enum Matcher<'a> {
    /// Compiled with its statement.
    Ready(&'a Regex),
    /// Compiled for the request.
    Made(Arc<Regex>),
}

impl Deref for Matcher<'_> {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        match self {
            Self::Ready(regex) => regex,
            Self::Made(regex) => regex,
        }
    }
}

impl Patterns {
    fn find(&self, source: &str, syntax: Syntax) -> Option<Arc<Regex>> {
        let found = self.kept.iter().find(|(text, kind, _)| text == source && *kind == syntax);
        found.map(|(_, _, regex)| Arc::clone(regex))
    }

    fn compile(&mut self, source: &str, syntax: Syntax) -> Result<Arc<Regex>, Failure> {
        if self.compiled == MOST {
            return Err(TOO_MANY);
        }
        self.compiled += 1;
        // What is wrong with it would tell what is in the data.
        let unfit = |_| Failure::about(source, "is an invalid pattern, or one that is too large");
        let regex = Arc::new(pattern::compile(source, syntax, Origin::Telemetry).map_err(unfit)?);
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((source.to_owned(), syntax, Arc::clone(&regex)));
        Ok(regex)
    }
}

impl<'a> Scene<'a> {
    /// A pattern that is no literal.
    pub(crate) fn pattern(&mut self, source: &str, syntax: Syntax) -> Result<Matcher<'a>, Failure> {
        let found = self.patterns.find(source, syntax);
        found.map_or_else(|| self.patterns.compile(source, syntax), Ok).map(Matcher::Made)
    }
}
