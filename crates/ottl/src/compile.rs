//! Trees to programs: names are resolved, arguments checked, literals prepared.
//!
//! Every mistake that can be found without an item is found here, and reported with its place in the text (OTTL-2).

use std::ops::Range;

use crate::ast;
use crate::context::{self, Context, LEVELS, Level};
use crate::error::Fault;
use crate::program::{Action, Argument, Call, Entry, Expr, Is, Lambda, LambdaBody, Path, Statement, Target, Test};
use crate::value::{Value, compare};

mod arguments;
mod names;

pub(crate) use names::{unknown_function, without_context};

/// Compiles everything of one group for one context.
pub(crate) struct Compiler {
    pub(crate) context: Context,
    /// The contexts that a path may name, those of items first.
    available: Vec<Context>,
    /// Whether a path may go without its context.
    pub(crate) bare_paths: bool,
    /// Whether statements are compiled. Otherwise conditions stand for whole groups.
    pub(crate) in_statements: bool,
    /// Literal keys per level. At run time they are known by their place here.
    keys: [Vec<String>; LEVELS],
    /// Parameters of the lambdas around; `None` for `_`.
    locals: Vec<Option<String>>,
}

impl Compiler {
    pub(crate) fn new(context: Context, available: Vec<Context>, bare_paths: bool) -> Self {
        Self { context, available, bare_paths, in_statements: false, keys: Default::default(), locals: Vec::new() }
    }

    /// How many literal keys there are per level.
    pub(crate) fn slots(&self) -> [usize; LEVELS] {
        self.keys.each_ref().map(Vec::len)
    }

    /// Compiles a statement.
    pub(crate) fn statement(&mut self, statement: &ast::Statement) -> Result<Statement, Fault> {
        let call = self.call(&statement.editor)?;
        let test = match &statement.condition {
            Some(condition) => self.test(condition)?,
            None => Test::Literal(true),
        };
        Ok(Statement { action: self.action(call), test })
    }

    /// What a call does, in the shortest way.
    fn action(&mut self, mut call: Call) -> Action {
        let short = match (call.function.name, &mut call.arguments.0[..]) {
            ("set", [Argument::Path(target), Argument::Value(value)]) => set_entry(target, value),
            ("delete_key", [Argument::Path(map), Argument::Value(key)]) => self.delete_entry(map, key),
            _ => None,
        };
        short.unwrap_or(Action::Call(call))
    }

    fn delete_entry(&mut self, map: &Path, key: &Expr) -> Option<Action> {
        match (map.target, &map.keys[..], key) {
            (Target::Map(level), [], Expr::Literal(Value::String(key))) => {
                Some(Action::Delete(Entry { level, slot: self.slot(level, key), key: key.to_string() }))
            }
            _ => None,
        }
    }

    /// Compiles a condition.
    pub(crate) fn test(&mut self, condition: &ast::Condition) -> Result<Test, Fault> {
        Ok(match condition {
            ast::Condition::Literal(value) => Test::Literal(*value),
            ast::Condition::Call(call) => Test::Value(Expr::Call(Box::new(self.call(call)?))),
            ast::Condition::Compare(comparison) => {
                let left = self.value(&comparison.left)?;
                let right = self.value(&comparison.right)?;
                match (&left, &right) {
                    (Expr::Literal(left), Expr::Literal(right)) => {
                        Test::Literal(compare::compare(left, comparison.operator, right))
                    }
                    (Expr::Path(path), Expr::Literal(Value::String(text)))
                    | (Expr::Literal(Value::String(text)), Expr::Path(path)) => {
                        match is_text(path, comparison.operator, text) {
                            Some(is) => Test::Is(Box::new(is)),
                            None => Test::Compare { left, operator: comparison.operator, right },
                        }
                    }
                    _ => Test::Compare { left, operator: comparison.operator, right },
                }
            }
            ast::Condition::Not(inner) => match self.test(inner)? {
                Test::Literal(value) => Test::Literal(!value),
                test => Test::Not(Box::new(test)),
            },
            ast::Condition::And(all) => self.joined(all, false, Test::And)?,
            ast::Condition::Or(all) => self.joined(all, true, Test::Or)?,
        })
    }

    /// Joins tests. A literal that decides stands for all of them; any other literal is left out.
    fn joined(&mut self, all: &[ast::Condition], decides: bool, join: fn(Vec<Test>) -> Test) -> Result<Test, Fault> {
        let mut tests = all.iter().map(|condition| self.test(condition)).collect::<Result<Vec<_>, _>>()?;
        if tests.iter().any(|test| matches!(test, Test::Literal(value) if *value == decides)) {
            return Ok(Test::Literal(decides));
        }
        tests.retain(|test| !matches!(test, Test::Literal(_)));
        Ok(match tests.len() {
            0 => Test::Literal(!decides),
            1 => tests.remove(0),
            _ => join(tests),
        })
    }

    /// Compiles a value.
    pub(crate) fn value(&mut self, value: &ast::Value) -> Result<Expr, Fault> {
        Ok(match &value.kind {
            ast::ValueKind::Nil => Expr::Literal(Value::Nil),
            ast::ValueKind::Bool(value) => Expr::Literal(Value::Bool(*value)),
            ast::ValueKind::Int(value) => Expr::Literal(Value::Int(*value)),
            ast::ValueKind::Float(value) => Expr::Literal(Value::Double(*value)),
            ast::ValueKind::String(text) => Expr::Literal(Value::text(text.clone())),
            ast::ValueKind::Bytes(bytes) => Expr::Literal(Value::Bytes(bytes.clone().into())),
            ast::ValueKind::Name(name) => Expr::Literal(Value::Int(self.enum_value(name, &value.range)?)),
            ast::ValueKind::Path(path) => Expr::Path(self.path(path)?),
            ast::ValueKind::Call(call) => Expr::Call(Box::new(self.call(call)?)),
            ast::ValueKind::Negate(inner) => Expr::Negate(Box::new(self.value(inner)?)),
            ast::ValueKind::Math(first, rest) => {
                let first = Box::new(self.operand(first)?);
                let rest = rest.iter().map(|(operator, value)| Ok((*operator, self.operand(value)?)));
                Expr::Math(first, rest.collect::<Result<_, Fault>>()?)
            }
            ast::ValueKind::List(values) => {
                let items = values.iter().map(|value| self.value(value)).collect::<Result<Vec<_>, _>>()?;
                match items.iter().map(literal).collect() {
                    Some(values) => Expr::Literal(Value::list(values)),
                    None => Expr::List(items),
                }
            }
            ast::ValueKind::Map(entries) => {
                let items = entries.iter().map(|(key, value)| Ok((key.clone(), self.value(value)?)));
                let items = items.collect::<Result<Vec<_>, Fault>>()?;
                let literals = items.iter().map(|(key, value)| Some((key.clone().into(), literal(value)?)));
                match literals.collect() {
                    Some(entries) => Expr::Literal(Value::map(entries)),
                    None => Expr::Map(items),
                }
            }
            ast::ValueKind::Lambda(_) => {
                return Err(Fault::new(
                    value.range.clone(),
                    "a lambda can only be passed to a function that takes one",
                ));
            }
        })
    }

    /// A value to calculate with. A literal that is not a number is refused.
    fn operand(&mut self, value: &ast::Value) -> Result<Expr, Fault> {
        match self.value(value)? {
            Expr::Literal(literal) if !matches!(literal, Value::Int(_) | Value::Double(_)) => {
                Err(Fault::new(value.range.clone(), format!("cannot calculate with a {}", literal.type_name())))
            }
            expr => Ok(expr),
        }
    }

    fn enum_value(&self, name: &str, range: &Range<usize>) -> Result<i64, Fault> {
        if let Some((_, value)) = context::enums(self.context).find(|(other, _)| *other == name) {
            return Ok(value);
        }
        let fault = Fault::new(range.clone(), format!("unknown enum \"{name}\" in the context {}", self.context));
        Err(fault.did_you_mean(name, context::enums(self.context).map(|(name, _)| name)))
    }

    /// Compiles a lambda that is called with so many arguments.
    fn lambda(&mut self, lambda: &ast::Lambda, range: &Range<usize>, parameters: usize) -> Result<Lambda, Fault> {
        if lambda.parameters.len() != parameters {
            let message = format!("the lambda must have {parameters} parameters, not {}", lambda.parameters.len());
            return Err(Fault::new(range.clone(), message));
        }
        let base = self.locals.len();
        let names = lambda.parameters.iter().map(|(name, _)| (name != "_").then(|| name.clone()));
        self.locals.extend(names);
        let body = match &*lambda.body {
            ast::LambdaBody::Value(value) => self.value(value).map(LambdaBody::Value),
            ast::LambdaBody::Condition(condition) => self.test(condition).map(LambdaBody::Test),
        };
        self.locals.truncate(base);
        Ok(Lambda { base, parameters, body: body? })
    }

    /// The number of the first key after a path, if it is a literal key of a message's map.
    fn first_slot(&mut self, target: Target, keys: &[Expr]) -> Option<usize> {
        match (target, keys.first()) {
            (Target::Map(level), Some(Expr::Literal(Value::String(key)))) => Some(self.slot(level, key)),
            _ => None,
        }
    }

    /// The number of a literal key of a message's map.
    fn slot(&mut self, level: Level, key: &str) -> usize {
        let known = &mut self.keys[level.index()];
        known.iter().position(|other| other == key).unwrap_or_else(|| {
            known.push(key.to_owned());
            known.len() - 1
        })
    }
}

/// A comparison that needs no values to be made.
fn is_text(path: &Path, operator: ast::Comparison, text: &str) -> Option<Is> {
    let equal = match operator {
        ast::Comparison::Equal => true,
        ast::Comparison::NotEqual => false,
        _ => return None,
    };
    let entry = entry(path)?;
    let mut encoded = weir_otlp::build::Encoder::default();
    encoded.bytes(weir_otlp::field::any_value::STRING_VALUE, text.as_bytes());
    Some(Is { entry, text: text.to_owned(), encoded: encoded.into_bytes(), equal })
}

/// `set` of an entry. Takes the value if it is such a `set`.
fn set_entry(target: &Path, value: &mut Expr) -> Option<Action> {
    let target = entry(target)?;
    let source = match value {
        Expr::Path(path) => entry(path),
        _ => None,
    };
    Some(match source {
        Some(source) => Action::Copy(target, source),
        None => Action::Set(target, std::mem::replace(value, Expr::Literal(Value::Nil))),
    })
}

/// The entry of a message's map that a path leads to, if it leads to one with a literal key.
fn entry(path: &Path) -> Option<Entry> {
    match (path.target, path.slot, &path.keys[..]) {
        (Target::Map(level), Some(slot), [Expr::Literal(Value::String(key))]) => {
            Some(Entry { level, key: key.to_string(), slot })
        }
        _ => None,
    }
}

fn literal(expr: &Expr) -> Option<Value<'static>> {
    match expr {
        Expr::Literal(value) => Some(value.clone()),
        _ => None,
    }
}
