//! Evaluation of compiled expressions, conditions and calls.

use std::borrow::Cow;

use super::Scene;
use crate::program::{Action, Call, Entry, Expr, Lambda, LambdaBody, Test};
use crate::value::compare::compare;
use crate::value::{Failure, Value, math};

impl<'a> Scene<'a> {
    /// The value of an expression.
    ///
    /// # Errors
    /// When a function fails, a key is missing, or values do not go together.
    pub(crate) fn eval(&mut self, expr: &'a Expr) -> Result<Value<'a>, Failure> {
        match expr {
            Expr::Literal(value) => Ok(value.lend()),
            Expr::Path(path) => {
                let value = self.get(path)?;
                self.claim(value)
            }
            Expr::Call(call) => self.call(call),
            Expr::Negate(inner) => math::negate(&self.eval(inner)?),
            Expr::Math(first, rest) => {
                let mut result = self.eval(first)?;
                for (operator, right) in rest {
                    result = math::calculate(&result, *operator, &self.eval(right)?)?;
                }
                Ok(result)
            }
            Expr::List(items) => {
                let values = items.iter().map(|item| self.eval(item)).collect::<Result<_, _>>()?;
                Ok(Value::list(values))
            }
            Expr::Map(items) => {
                let entries = items.iter().map(|(key, item)| Ok((key.as_str().into(), self.eval(item)?)));
                Ok(Value::map(entries.collect::<Result<_, _>>()?))
            }
        }
    }

    /// Whether a condition holds.
    ///
    /// # Errors
    /// As [`eval`](Self::eval); what comes after the part that decides is not evaluated.
    pub(crate) fn test(&mut self, test: &'a Test) -> Result<bool, Failure> {
        match test {
            Test::Literal(value) => Ok(*value),
            Test::Value(expr) => match self.eval(expr)? {
                Value::Bool(value) => Ok(value),
                other => Err(Failure::new(format!("a condition must be true or false, not a {}", other.type_name()))),
            },
            Test::Compare { left, operator, right } => {
                let room = self.room;
                let left = self.eval(left)?;
                let right = self.eval(right)?;
                self.room = room;
                Ok(compare(&left, *operator, &right))
            }
            Test::Is(is) => {
                let draft = self.draft(is.entry.level);
                Ok(draft.is_text(&is.entry.key, is.entry.slot, &is.text, &is.encoded) == is.equal)
            }
            Test::Not(inner) => Ok(!self.test(inner)?),
            Test::And(tests) => {
                for test in tests {
                    if !self.test(test)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Test::Or(tests) => {
                for test in tests {
                    if self.test(test)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Does what a statement says.
    ///
    /// # Errors
    /// As [`call`](Self::call), or when the change fails.
    pub(crate) fn act(&mut self, action: &'a Action) -> Result<(), Failure> {
        match action {
            Action::Set(target, value) => {
                let value = self.eval(value)?;
                self.put(target, value)
            }
            Action::Copy(target, source) => match self.entry(source.level, &source.key, Some(source.slot)) {
                Some(value) => {
                    let value = self.claim(value.readable()?)?;
                    self.put(target, value)
                }
                None => Ok(()),
            },
            Action::Delete(entry) => self.change(entry.level, |draft| draft.remove(&entry.key, Some(entry.slot))),
            Action::Call(call) => self.call(call).map(drop),
        }
    }

    /// Gives an entry a value. One of nil leaves it as it is.
    fn put(&mut self, entry: &'a Entry, value: Value<'a>) -> Result<(), Failure> {
        match value {
            Value::Nil => Ok(()),
            value => self.put_entry(entry.level, Cow::Borrowed(&entry.key), Some(entry.slot), value),
        }
    }

    /// The result of a function, after its keys.
    ///
    /// # Errors
    /// When the function fails or a key is missing.
    pub(crate) fn call(&mut self, call: &'a Call) -> Result<Value<'a>, Failure> {
        let room = self.room;
        let mut result = (call.function.call)(&call.arguments, self)?;
        for key in &call.keys {
            result = result.index(&self.eval(key)?)?;
        }
        // Of what was made on the way only the result is left.
        self.room = room;
        self.claim(result)
    }

    /// The result of a lambda for these arguments, one for each of its parameters.
    ///
    /// # Errors
    /// When its body fails.
    pub(crate) fn call_lambda<const N: usize>(
        &mut self,
        lambda: &'a Lambda,
        arguments: [Value<'a>; N],
    ) -> Result<Value<'a>, Failure> {
        self.locals.truncate(lambda.base);
        self.locals.extend(arguments);
        // The compiler saw to it that there are as many as the body knows; a shorter list could only come from a
        // function that calls its lambda with less than it declared.
        self.locals.resize(lambda.base + lambda.parameters, Value::Nil);
        let room = self.room;
        let result = match &lambda.body {
            LambdaBody::Value(expr) => self.eval(expr),
            LambdaBody::Test(test) => self.test(test).map(Value::Bool),
        };
        self.locals.truncate(lambda.base);
        self.room = room;
        self.claim(result?)
    }
}
