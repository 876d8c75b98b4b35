//! The functions of the language: what they are called, what they take, what they do.
//!
//! A function is one entry in the table of its topic: a name, parameters and an implementation. The compiler checks
//! arguments against the parameters and prepares literals, so an implementation finds what it declared. Source of the
//! semantics: `pkg/ottl/ottlfuncs` of the reference, version 0.158.

use crate::context::Context;
use crate::program::{Arguments, Syntax};
use crate::scene::Scene;
use crate::value::{Failure, Value};

mod arguments;
mod collections;
mod edit_maps;
mod edit_values;
mod encodings;
mod format;
pub(crate) mod grok;
mod hashes;
mod ids;
mod json;
mod lists;
mod log_formats;
mod metrics;
mod network;
mod parse;
mod replace;
mod span_names;
mod strings;
mod times;
mod types;
pub(crate) mod xml;

/// A function.
pub(crate) struct Function {
    /// Name; editors start with a lower case letter, converters with an upper case one.
    pub(crate) name: &'static str,
    /// Parameters in order; optional ones stand last.
    pub(crate) parameters: &'static [Parameter],
    /// The only contexts it exists in; all when empty.
    pub(crate) contexts: &'static [Context],
    /// Whether it exists in the statements of transforms only.
    pub(crate) in_statements: bool,
    /// Whether it looks at the data points before the current one.
    pub(crate) remembers_points: bool,
    /// What the compiler cannot see from the parameters alone.
    pub(crate) check: fn(&Arguments) -> Result<(), String>,
    /// What it does. Editors return nothing.
    pub(crate) call: Implementation,
}

/// What a function does with its arguments.
pub(crate) type Implementation = for<'a> fn(&'a Arguments, &mut Scene<'a>) -> Result<Value<'a>, Failure>;

/// A parameter of a function.
#[derive(Debug)]
pub(crate) struct Parameter {
    /// Name for named arguments.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Whether it may be left out.
    pub(crate) optional: bool,
}

/// What may stand for a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any value.
    Any,
    /// A value of this type. A literal of another type is refused when the statement is compiled.
    Typed(Type),
    /// A value that can be read as text, a number and so on.
    Like,
    /// A path that can be assigned to.
    Path,
    /// A path to a map.
    MapPath,
    /// A path to a list.
    ListPath,
    /// A list of values in brackets.
    Values,
    /// A list of strings in brackets.
    Texts,
    /// A pattern: a literal is compiled with the statement.
    Pattern(Syntax),
    /// A grok pattern: a literal is compiled with the statement.
    Grok,
    /// A path into XML documents.
    XPath,
    /// A format of a time in strptime directives: a string literal.
    TimeFormat,
    /// The name of a time zone: a string literal.
    Zone,
    /// A string literal.
    Text,
    /// One of these string literals.
    OneOf(&'static [&'static str]),
    /// An integer literal.
    Int,
    /// A literal with a fraction.
    Double,
    /// A list of literals with a fraction, in brackets.
    Doubles,
    /// `true` or `false`.
    Bool,
    /// A lambda with so many parameters.
    Lambda(usize),
    /// The name of a converter that takes one value.
    Function,
}

/// A type of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    String,
    Int,
    Map,
    List,
    Time,
    Duration,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Int => "int",
            Self::Map => "map",
            Self::List => "list",
            Self::Time => "time",
            Self::Duration => "duration",
        }
    }
}

/// A string.
const STRING: Kind = Kind::Typed(Type::String);
/// An integer.
const INT: Kind = Kind::Typed(Type::Int);
/// A map.
const MAP: Kind = Kind::Typed(Type::Map);
/// A list.
const LIST: Kind = Kind::Typed(Type::List);

const fn required(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, kind, optional: false }
}

const fn optional(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, kind, optional: true }
}

/// A function of all contexts.
const fn function(name: &'static str, parameters: &'static [Parameter], call: Implementation) -> Function {
    Function { name, parameters, contexts: &[], in_statements: false, remembers_points: false, check: |_| Ok(()), call }
}

impl Function {
    const fn only_in(self, contexts: &'static [Context]) -> Self {
        Self { contexts, ..self }
    }

    /// Only in the statements of transforms, in these contexts.
    const fn only_in_statements(self, contexts: &'static [Context]) -> Self {
        Self { contexts, in_statements: true, ..self }
    }

    const fn remembering_points(self) -> Self {
        Self { remembers_points: true, ..self }
    }

    const fn checked(self, check: fn(&Arguments) -> Result<(), String>) -> Self {
        Self { check, ..self }
    }

    /// Whether it changes telemetry.
    pub(crate) fn is_editor(&self) -> bool {
        self.name.starts_with(|first: char| first.is_ascii_lowercase())
    }

    /// Whether it exists in a context.
    pub(crate) fn exists_in(&self, context: Context) -> bool {
        self.contexts.is_empty() || self.contexts.contains(&context)
    }

    fn signature(&self) -> String {
        let parameter = |parameter: &Parameter| {
            let mark = if parameter.optional { "?" } else { "" };
            format!("{}{mark}: {}", parameter.name, parameter.kind)
        };
        let parameters: Vec<String> = self.parameters.iter().map(parameter).collect();
        format!("{}({})", self.name, parameters.join(", "))
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Any | Self::Like => "value",
            Self::Typed(kind) => kind.name(),
            Self::Path => "path",
            Self::MapPath => "path to a map",
            Self::ListPath => "path to a list",
            Self::Values => "list of values",
            Self::Texts => "list of string literals",
            Self::Pattern(Syntax::Regex) => "regular expression",
            Self::Pattern(Syntax::Glob) => "glob",
            Self::Grok => "grok pattern",
            Self::XPath => "XPath literal",
            Self::TimeFormat => "format of times",
            Self::Zone => "name of a time zone",
            Self::Text => "string literal",
            Self::OneOf(choices) => {
                let choices: Vec<String> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
                return f.write_str(&choices.join(" | "));
            }
            Self::Int => "int literal",
            Self::Double => "double literal",
            Self::Doubles => "list of double literals",
            Self::Bool => "bool literal",
            Self::Lambda(parameters) => return write!(f, "lambda of {parameters}"),
            Self::Function => "name of a converter",
        })
    }
}

const TOPICS: &[&[Function]] = &[
    edit_maps::FUNCTIONS,
    edit_values::FUNCTIONS,
    replace::FUNCTIONS,
    span_names::FUNCTIONS,
    collections::FUNCTIONS,
    encodings::FUNCTIONS,
    format::FUNCTIONS,
    grok::FUNCTIONS,
    hashes::FUNCTIONS,
    ids::FUNCTIONS,
    json::FUNCTIONS,
    lists::FUNCTIONS,
    log_formats::FUNCTIONS,
    metrics::FUNCTIONS,
    network::FUNCTIONS,
    parse::FUNCTIONS,
    strings::FUNCTIONS,
    times::FUNCTIONS,
    types::FUNCTIONS,
    xml::FUNCTIONS,
];

fn all() -> impl Iterator<Item = &'static Function> {
    TOPICS.iter().flat_map(|topic| topic.iter())
}

/// The function of the reference that needs data of a thousand patterns. Such data goes out of date.
pub(crate) const NEEDS_USER_AGENTS: &str = "UserAgent";

/// The function of that name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    all().find(|function| function.name == name)
}

/// The names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|function| function.name)
}

/// The names of functions that compile a pattern, and whether they replace what it matches.
pub(crate) fn with_patterns() -> impl Iterator<Item = (&'static str, bool)> {
    let is_pattern = |parameter: &Parameter| matches!(parameter.kind, Kind::Pattern(_) | Kind::Grok);
    let replaces = |name: &str| replace::FUNCTIONS.iter().any(|function| function.name == name);
    let with_patterns = all().filter(move |function| function.parameters.iter().any(is_pattern));
    with_patterns.map(move |function| (function.name, replaces(function.name)))
}

/// A function as documentation shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Name.
    pub name: &'static str,
    /// Name and parameters: `Concat(vals: list of values, delimiter: string)`; a parameter with `?` may be left out.
    pub signature: String,
    /// Whether it is an editor; a converter otherwise.
    pub is_editor: bool,
    /// The only contexts it exists in; all when empty.
    pub contexts: &'static [Context],
    /// Whether it exists in the statements of transforms only, not in conditions of a filter.
    pub only_in_statements: bool,
}

/// Every function that is supported, editors first, by name.
pub fn signatures() -> Vec<Signature> {
    let signature = |function: &'static Function| Signature {
        name: function.name,
        signature: function.signature(),
        is_editor: function.is_editor(),
        contexts: function.contexts,
        only_in_statements: function.in_statements,
    };
    let mut signatures: Vec<Signature> = all().map(signature).collect();
    signatures.sort_by_key(|signature| (!signature.is_editor, signature.name));
    signatures
}
