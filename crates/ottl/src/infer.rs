//! Which context a group of statements and conditions is evaluated in.
//!
//! As in `pkg/ottl/context_inferrer.go`, it is the innermost context that a path names. If a function or an enum does
//! not exist there, it is the first of the contexts inside it that has them all.

use std::collections::BTreeSet;

use crate::ast::{Call, Condition, LambdaBody, Path, Statement, Value, ValueKind};
use crate::context::{self, Context};
use crate::functions;
use weir_otlp::Signal;

/// What the texts of a group mention.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    contexts: BTreeSet<usize>,
    functions: BTreeSet<String>,
    enums: BTreeSet<String>,
    /// The first path that names no context.
    pub(crate) bare: Option<Path>,
    /// The first call of a function that no context has.
    pub(crate) unknown: Option<Call>,
    /// Parameters of the lambdas around.
    locals: Vec<String>,
}

/// Why there is no context for a group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoContext {
    /// No path names one.
    NoPath,
    /// The context that is named is not available for this signal or this use.
    NotAvailable(Context),
    /// The context that is named lacks a function or an enum, and so do the contexts inside it.
    Lacks(Context, String),
}

impl Hints {
    /// The context for what was mentioned, of those available.
    pub(crate) fn infer(&self, signal: Signal, available: &[Context]) -> Result<Context, NoContext> {
        let named = self.contexts.first().map(|index| context::ALL[*index]).ok_or(NoContext::NoPath)?;
        if !available.contains(&named) || !named.is_of(signal) {
            return Err(NoContext::NotAvailable(named));
        }
        let inside = context::ALL.into_iter().filter(|other| *other != named && other.sees(named));
        let inside = inside.filter(|other| available.contains(other) && other.is_of(signal));
        let mut candidates = std::iter::once(named).chain(inside);
        match candidates.find(|candidate| self.lacking(*candidate).is_none()) {
            Some(context) => Ok(context),
            None => Err(NoContext::Lacks(named, self.lacking(named).unwrap_or_default())),
        }
    }

    /// A function or an enum that exists, but not in this context.
    fn lacking(&self, context: Context) -> Option<String> {
        let exists = |name: &str| functions::find(name).is_none_or(|function| function.exists_in(context));
        let function = self.functions.iter().find(|name| !exists(name));
        let known = |context, name: &str| context::enums(context).any(|(other, _)| other == name);
        let missing = |name: &&String| {
            // What no context has is reported where it stands, with advice.
            !known(context, name) && context::ALL.into_iter().any(|context| known(context, name))
        };
        function.or_else(|| self.enums.iter().find(missing)).cloned()
    }

    pub(crate) fn statement(&mut self, statement: &Statement) {
        self.call(&statement.editor);
        statement.condition.iter().for_each(|condition| self.condition(condition));
    }

    pub(crate) fn condition(&mut self, condition: &Condition) {
        match condition {
            Condition::Literal(_) => {}
            Condition::Call(call) => self.call(call),
            Condition::Compare(comparison) => {
                self.value(&comparison.left);
                self.value(&comparison.right);
            }
            Condition::Not(inner) => self.condition(inner),
            Condition::And(all) | Condition::Or(all) => all.iter().for_each(|inner| self.condition(inner)),
        }
    }

    fn call(&mut self, call: &Call) {
        self.functions.insert(call.name.clone());
        if functions::find(&call.name).is_none() {
            self.unknown.get_or_insert_with(|| call.clone());
        }
        call.arguments.iter().for_each(|argument| self.value(&argument.value));
        call.keys.iter().for_each(|key| self.value(key));
    }

    fn value(&mut self, value: &Value) {
        match &value.kind {
            ValueKind::Name(name) => drop(self.enums.insert(name.clone())),
            ValueKind::Path(path) => self.path(path),
            ValueKind::Call(call) => self.call(call),
            ValueKind::Negate(inner) => self.value(inner),
            ValueKind::Math(first, rest) => {
                self.value(first);
                rest.iter().for_each(|(_, value)| self.value(value));
            }
            ValueKind::List(values) => values.iter().for_each(|value| self.value(value)),
            ValueKind::Map(entries) => entries.iter().for_each(|(_, value)| self.value(value)),
            ValueKind::Lambda(lambda) => {
                let before = self.locals.len();
                self.locals.extend(lambda.parameters.iter().map(|(name, _)| name.clone()));
                match &*lambda.body {
                    LambdaBody::Value(value) => self.value(value),
                    LambdaBody::Condition(condition) => self.condition(condition),
                }
                self.locals.truncate(before);
            }
            ValueKind::Nil
            | ValueKind::Bool(_)
            | ValueKind::Int(_)
            | ValueKind::Float(_)
            | ValueKind::String(_)
            | ValueKind::Bytes(_) => {}
        }
    }

    fn path(&mut self, path: &Path) {
        path.segments.iter().flat_map(|segment| &segment.keys).for_each(|key| self.value(key));
        let Some(first) = path.segments.first().filter(|first| !self.locals.contains(&first.name)) else { return };
        match Context::named(&first.name) {
            Some(named) if path.segments.len() > 1 => {
                self.contexts.extend(context::ALL.iter().position(|context| *context == named));
            }
            Some(_) => {}
            None => drop(self.bare.get_or_insert_with(|| path.clone())),
        }
    }
}
