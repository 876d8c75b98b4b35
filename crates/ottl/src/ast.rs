//! Statements and conditions as they were written: names are not resolved, and everything knows its place in the text.
//!
//! Chains of operators are lists, not nested pairs. So the parser's limit bounds the depth of a tree, however long the
//! text is.

use std::ops::Range;

/// An editor call and the condition that decides whether it runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    pub(crate) editor: Call,
    pub(crate) condition: Option<Condition>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    Literal(bool),
    /// A converter that returns a truth value.
    Call(Call),
    Compare(Box<Compare>),
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
}

/// Two values and how they shall relate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Compare {
    pub(crate) left: Value,
    pub(crate) operator: Comparison,
    pub(crate) right: Value,
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value {
    pub(crate) kind: ValueKind,
    pub(crate) range: Range<usize>,
}

/// What a value is made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ValueKind {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    String(String),
    Bytes(Vec<u8>),
    /// An enum, or the name of a function that is passed as an argument.
    Name(String),
    Path(Path),
    Call(Call),
    Negate(Box<Value>),
    /// The first value, and the operations on it from left to right.
    Math(Box<Value>, Vec<(MathOperator, Value)>),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
    Lambda(Lambda),
}

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MathOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A path to telemetry, or a parameter of a lambda.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path {
    pub(crate) segments: Vec<Segment>,
    pub(crate) range: Range<usize>,
}

/// One name in a path and the keys after it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Segment {
    pub(crate) name: String,
    pub(crate) keys: Vec<Value>,
    pub(crate) range: Range<usize>,
}

/// A call of a function.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) name_range: Range<usize>,
    pub(crate) arguments: Vec<Argument>,
    /// Keys applied to the result of a converter.
    pub(crate) keys: Vec<Value>,
    pub(crate) range: Range<usize>,
}

/// An argument, by position or by name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: Option<(String, Range<usize>)>,
    pub(crate) value: Value,
}

/// A function written in place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lambda {
    /// Names of the parameters; `_` binds nothing.
    pub(crate) parameters: Vec<(String, Range<usize>)>,
    pub(crate) body: Box<LambdaBody>,
}

/// What a lambda evaluates to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LambdaBody {
    Value(Value),
    Condition(Condition),
}
