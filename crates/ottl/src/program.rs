//! Compiled statements and conditions: every name is resolved, every constant prepared.

use weir_re2::Regex;

use crate::ast::{Comparison, MathOperator};
use crate::context::Level;
use crate::functions::xml::XPath;
use crate::functions::{Function, grok};
use crate::paths::Field;
use crate::strptime::Format;
use crate::value::zone::Zone;
use crate::value::{List, Map, Value};

/// What computes a value.
#[derive(Debug)]
pub(crate) enum Expr {
    Literal(Value<'static>),
    Path(Path),
    Call(Box<Call>),
    Negate(Box<Expr>),
    Math(Box<Expr>, Vec<(MathOperator, Expr)>),
    List(Vec<Expr>),
    Map(Vec<(String, Expr)>),
}

impl Expr {
    /// The value of a literal.
    pub(crate) fn as_literal(&self) -> Option<&Value<'static>> {
        match self {
            Self::Literal(value) => Some(value),
            _ => None,
        }
    }
}

/// What decides.
#[derive(Debug)]
pub(crate) enum Test {
    Literal(bool),
    /// A value that must be a truth value.
    Value(Expr),
    Compare {
        left: Expr,
        operator: Comparison,
        right: Expr,
    },
    /// Whether an attribute is a text: what most conditions consist of.
    Is(Box<Is>),
    Not(Box<Test>),
    And(Vec<Test>),
    Or(Vec<Test>),
}

/// An entry of a message's map, named by a literal key.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) level: Level,
    pub(crate) key: String,
    /// Number of the key among the literal keys of its level.
    pub(crate) slot: usize,
}

/// A comparison of an entry with a literal text.
#[derive(Debug)]
pub(crate) struct Is {
    pub(crate) entry: Entry,
    pub(crate) text: String,
    /// The text as an `AnyValue`.
    pub(crate) encoded: Vec<u8>,
    /// Whether it holds when they are equal.
    pub(crate) equal: bool,
}

/// A place in the telemetry.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) target: Target,
    /// Keys after the path.
    pub(crate) keys: Vec<Expr>,
    /// Number of the first key among the literal keys of its level, if it is one of them.
    pub(crate) slot: Option<usize>,
}

/// What a path leads to, before its keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// The map of a message: attributes, metadata.
    Map(Level),
    /// A field of a message.
    Field(Field),
    /// The body of a log record.
    Body,
    /// The body of a log record as text.
    BodyText,
    /// What the statements of a group remember for one item.
    Cache,
    /// Position of a span event in its span.
    EventIndex,
    /// The type of a metric.
    MetricType,
    /// A parameter of a lambda, by its place on the stack.
    Local(usize),
}

/// A function and its arguments.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: &'static Function,
    pub(crate) arguments: Arguments,
    /// Keys applied to the result.
    pub(crate) keys: Vec<Expr>,
}

/// Arguments in the order of the parameters.
#[derive(Debug)]
pub(crate) struct Arguments(pub(crate) Vec<Argument>);

/// An argument as its parameter wants it.
#[derive(Debug)]
pub(crate) enum Argument {
    /// An optional argument that is not there.
    Missing,
    Value(Expr),
    Values(Vec<Expr>),
    Path(Path),
    Pattern(Pattern),
    Grok(Expr, grok::Cell),
    XPath(XPath),
    TimeFormat(Format),
    Zone(Zone),
    Text(String),
    Texts(Vec<String>),
    Int(i64),
    Double(f64),
    Doubles(Vec<f64>),
    Bool(bool),
    Lambda(Lambda),
}

/// A pattern: compiled with the statement when it is a literal.
#[derive(Debug)]
pub(crate) enum Pattern {
    Ready(Box<Regex>),
    Dynamic(Expr, Syntax),
}

/// How a pattern is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// A regular expression in Go's syntax.
    Regex,
    /// A glob of `gobwas/glob`, which matches the whole text.
    Glob,
}

/// A function written in place, or a function passed on.
#[derive(Debug)]
pub(crate) struct Lambda {
    /// Where its parameters start on the stack.
    pub(crate) base: usize,
    /// How many parameters it has.
    pub(crate) parameters: usize,
    pub(crate) body: LambdaBody,
}

/// What a lambda evaluates to.
#[derive(Debug)]
pub(crate) enum LambdaBody {
    Value(Expr),
    Test(Test),
}

/// What is to be done, and the condition for that.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) action: Action,
    pub(crate) test: Test,
}

/// A call of an editor. The most frequent calls have variants of their own, so that no call is made.
#[derive(Debug)]
pub(crate) enum Action {
    /// `set` of an entry.
    Set(Entry, Expr),
    /// `set` of an entry to what the second one is.
    Copy(Entry, Entry),
    /// `delete_key` of an entry.
    Delete(Entry),
    /// Everything else.
    Call(Call),
}

impl Action {
    /// Whether points before the current one are looked at.
    pub(crate) fn remembers_points(&self) -> bool {
        matches!(self, Self::Call(call) if call.function.remembers_points)
    }
}

impl Value<'static> {
    /// The literal, lent to one evaluation.
    pub(crate) fn lend(&self) -> Value<'_> {
        match self {
            Self::String(text) => Value::String(text.as_ref().into()),
            Self::Bytes(bytes) => Value::Bytes(bytes.as_ref().into()),
            Self::Map(Map::Tree(entries)) => {
                Value::map(entries.iter().map(|(key, value)| (key.as_ref().into(), value.lend())).collect())
            }
            Self::List(List::Tree(values)) => Value::list(values.iter().map(Value::lend).collect()),
            other => other.clone(),
        }
    }
}
