//! How implementations get at their arguments.
//!
//! The compiler has given each argument the form that its parameter declares. A function that asks for another form is
//! wrong: it fails with a [`Failure`], which the tests find.

use std::borrow::Cow;

use weir_re2::Regex;

use crate::functions::grok::Cell;
use crate::functions::xml::XPath;
use crate::program::{Argument, Arguments, Expr, Lambda, Path, Pattern};
use crate::scene::Scene;
use crate::scene::patterns::Matcher;
use crate::strptime::Format;
use crate::value::zone::Zone;
use crate::value::{Entries, Failure, Time, Value};

const NOT_DECLARED: Failure = Failure::text("the argument is not of the declared form");

impl Arguments {
    fn at(&self, index: usize) -> &Argument {
        self.0.get(index).unwrap_or(&Argument::Missing)
    }

    /// Whether an optional argument is there.
    pub(crate) fn has(&self, index: usize) -> bool {
        !matches!(self.at(index), Argument::Missing)
    }

    pub(crate) fn value<'a>(&'a self, index: usize, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
        match self.at(index) {
            Argument::Value(expr) | Argument::Grok(expr, _) => scene.eval(expr),
            Argument::Path(path) => scene.get(path),
            _ => Err(NOT_DECLARED),
        }
    }

    /// The value of an argument, if it is a literal.
    pub(crate) fn literal(&self, index: usize) -> Option<&Value<'static>> {
        match self.at(index) {
            Argument::Value(expr) => expr.as_literal(),
            _ => None,
        }
    }

    /// Whether there are arguments, and all of them are literals.
    pub(crate) fn are_literals(&self) -> bool {
        let is_literal = |argument: &Argument| match argument {
            Argument::Value(expr) | Argument::Grok(expr, _) => expr.as_literal().is_some(),
            Argument::Values(values) => values.iter().all(|expr| expr.as_literal().is_some()),
            Argument::Path(_) | Argument::Lambda(_) | Argument::Pattern(Pattern::Dynamic(..)) => false,
            _ => true,
        };
        !self.0.is_empty() && self.0.iter().all(is_literal)
    }

    pub(crate) fn values<'a>(&'a self, index: usize, scene: &mut Scene<'a>) -> Result<Vec<Value<'a>>, Failure> {
        self.expressions(index).iter().map(|expr| scene.eval(expr)).collect()
    }

    /// The expressions of a list of values.
    pub(crate) fn expressions(&self, index: usize) -> &[Expr] {
        match self.at(index) {
            Argument::Values(values) => values,
            _ => &[],
        }
    }

    pub(crate) fn path(&self, index: usize) -> Result<&Path, Failure> {
        match self.at(index) {
            Argument::Path(path) => Ok(path),
            _ => Err(NOT_DECLARED),
        }
    }

    pub(crate) fn lambda(&self, index: usize) -> Result<&Lambda, Failure> {
        self.optional_lambda(index).ok_or(NOT_DECLARED)
    }

    pub(crate) fn optional_lambda(&self, index: usize) -> Option<&Lambda> {
        match self.at(index) {
            Argument::Lambda(lambda) => Some(lambda),
            _ => None,
        }
    }

    pub(crate) fn text<'a>(&'a self, index: usize, scene: &mut Scene<'a>) -> Result<Cow<'a, str>, Failure> {
        self.value(index, scene)?.into_text()
    }

    pub(crate) fn text_like<'a>(
        &'a self,
        index: usize,
        scene: &mut Scene<'a>,
    ) -> Result<Option<Cow<'a, str>>, Failure> {
        let value = self.value(index, scene)?;
        value.into_text_like(scene.room())
    }

    pub(crate) fn int<'a>(&'a self, index: usize, scene: &mut Scene<'a>) -> Result<i64, Failure> {
        self.value(index, scene)?.into_int()
    }

    /// The entries of a map.
    pub(crate) fn entries<'a>(&'a self, index: usize, scene: &mut Scene<'a>) -> Result<Entries<'a>, Failure> {
        let value = self.value(index, scene)?;
        scene.entries(value)
    }

    /// The elements of a list.
    pub(crate) fn elements<'a>(&'a self, index: usize, scene: &mut Scene<'a>) -> Result<Vec<Value<'a>>, Failure> {
        let value = self.value(index, scene)?;
        scene.elements(value)
    }

    pub(crate) fn time<'a>(&'a self, index: usize, scene: &mut Scene<'a>) -> Result<Time, Failure> {
        self.value(index, scene)?.into_time()
    }

    /// A value that is a string literal, if it is.
    pub(crate) fn constant_text(&self, index: usize) -> Option<&str> {
        match self.literal(index) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// A value that is an integer literal, if it is.
    pub(crate) fn constant_int(&self, index: usize) -> Option<i64> {
        match self.literal(index) {
            Some(Value::Int(value)) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn time_format(&self, index: usize) -> Result<&Format, Failure> {
        match self.at(index) {
            Argument::TimeFormat(format) => Ok(format),
            _ => Err(NOT_DECLARED),
        }
    }

    /// A time zone; UTC when it is not there.
    pub(crate) fn zone(&self, index: usize) -> Cow<'_, Zone> {
        match self.at(index) {
            Argument::Zone(zone) => Cow::Borrowed(zone),
            _ => Cow::Owned(Zone::utc()),
        }
    }

    /// A string literal, if it is there.
    pub(crate) fn literal_text(&self, index: usize) -> Option<&str> {
        match self.at(index) {
            Argument::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A list of string literals.
    pub(crate) fn literal_texts(&self, index: usize) -> &[String] {
        match self.at(index) {
            Argument::Texts(texts) => texts,
            _ => &[],
        }
    }

    /// An integer literal, if it is there.
    pub(crate) fn literal_int(&self, index: usize) -> Option<i64> {
        match self.at(index) {
            Argument::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// A literal with a fraction, if it is there.
    pub(crate) fn literal_double(&self, index: usize) -> Option<f64> {
        match self.at(index) {
            Argument::Double(value) => Some(*value),
            _ => None,
        }
    }

    /// A list of literals with a fraction.
    pub(crate) fn literal_doubles(&self, index: usize) -> &[f64] {
        match self.at(index) {
            Argument::Doubles(values) => values,
            _ => &[],
        }
    }

    /// `true` or `false`, if it is there.
    pub(crate) fn literal_bool(&self, index: usize) -> Option<bool> {
        match self.at(index) {
            Argument::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// A compiled pattern. A pattern that is not a literal is compiled here, unless it was just before.
    pub(crate) fn pattern<'a>(&'a self, index: usize, scene: &mut Scene<'a>) -> Result<Matcher<'a>, Failure> {
        match self.at(index) {
            Argument::Pattern(Pattern::Ready(regex)) => Ok(Matcher::Ready(regex)),
            Argument::Pattern(Pattern::Dynamic(expr, syntax)) => {
                let source = scene.eval(expr)?.into_text()?;
                scene.pattern(&source, *syntax)
            }
            _ => Err(NOT_DECLARED),
        }
    }

    /// A grok pattern: the literal, if it is one, and the place where it is kept once it is compiled.
    pub(crate) fn grok(&self, index: usize) -> Option<(Option<&Value<'static>>, &Cell)> {
        match self.at(index) {
            Argument::Grok(Expr::Literal(literal), cell) => Some((Some(literal), cell)),
            Argument::Grok(_, cell) => Some((None, cell)),
            _ => None,
        }
    }

    /// A path into XML documents, if it is there.
    pub(crate) fn xpath(&self, index: usize) -> Option<&XPath> {
        match self.at(index) {
            Argument::XPath(path) => Some(path),
            _ => None,
        }
    }

    /// The pattern, when it was compiled with the statement.
    pub(crate) fn ready_pattern(&self, index: usize) -> Option<&Regex> {
        match self.at(index) {
            Argument::Pattern(Pattern::Ready(regex)) => Some(regex),
            _ => None,
        }
    }
}
