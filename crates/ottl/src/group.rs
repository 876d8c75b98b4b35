//! A group of statements and conditions: compiled together, evaluated together.

use bumpalo::Bump;

use crate::ast;
use crate::compile::{Compiler, unknown_function, without_context};
use crate::context::{Context, LEVELS};
use crate::error::{Error, Fault, Origin};
use crate::infer::{Hints, NoContext};
use crate::parser;
use crate::program::{Statement, Test};
use crate::scene::Scene;
use crate::value::Failure;
use weir_otlp::Signal;

/// How paths are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    contexts: Vec<Context>,
    fixed: Option<Context>,
}

impl Options {
    /// The context is inferred from the paths of a group, each of which must name one: one of these.
    pub fn inferred(contexts: impl Into<Vec<Context>>) -> Self {
        Self { contexts: contexts.into(), fixed: None }
    }

    /// Everything is evaluated in this context, and a path without a context means it.
    pub fn fixed(context: Context) -> Self {
        Self { contexts: vec![context], fixed: Some(context) }
    }

    /// What a `transform` of a pipeline may use.
    pub fn transform(signal: Signal) -> Self {
        let own: &[Context] = match signal {
            Signal::Traces => &[Context::Span, Context::SpanEvent],
            Signal::Metrics => &[Context::Metric, Context::DataPoint],
            Signal::Logs => &[Context::Log],
        };
        Self::inferred([own, &[Context::Resource, Context::Scope]].concat())
    }

    /// What a `filter` of a pipeline may use.
    pub fn filter(signal: Signal) -> Self {
        let own: &[Context] = match signal {
            Signal::Traces => &[Context::Span],
            Signal::Metrics => &[Context::Metric, Context::DataPoint],
            Signal::Logs => &[Context::Log],
        };
        Self::inferred([own, &[Context::Resource, Context::Scope]].concat())
    }
}

/// What one apply may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Nanoseconds since the Unix epoch: what `Now()` returns.
    pub now_unix_nano: u64,
    /// Bytes by which the request may grow, less what is removed. A statement that would add more fails for the item.
    pub max_growth: usize,
    /// Memory that may be taken at once by the cache, by changes that are not yet part of the request, and by what one
    /// condition or statement calculates, in bytes. A condition or statement that would take more fails for the item.
    pub max_scratch: usize,
}

/// How often a statement or a condition applied, and how often it failed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Times it was executed, or held.
    pub matched: u64,
    /// How often it failed. An item that it failed for stays as it was.
    pub errors: u64,
    /// Why it failed the first time.
    pub first_error: Option<String>,
}

impl Tally {
    pub(crate) fn failed(&mut self, failure: &Failure) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| failure.to_string());
    }
}

/// A compiled group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) signal: Signal,
    pub(crate) context: Context,
    pub(crate) conditions: Vec<Test>,
    pub(crate) statements: Vec<Statement>,
    slots: [usize; LEVELS],
}

impl Group {
    /// Compiles a group, or says everything that is wrong with it.
    pub(crate) fn compile(
        signal: Signal,
        options: &Options,
        conditions: &[String],
        statements: &[String],
    ) -> Result<Self, Vec<Error>> {
        let mut errors = Vec::new();
        let parsed = Parsed {
            conditions: parsed(conditions, parser::condition, Origin::Condition, &mut errors),
            statements: parsed(statements, parser::statement, Origin::Statement, &mut errors),
        };
        let available: Vec<Context> =
            options.contexts.iter().copied().filter(|context| context.is_of(signal)).collect();
        let context = match parsed.context(signal, options) {
            Ok(context) => context,
            Err(problem) => {
                // A group that cannot be read at all says so; what it cannot be inferred from is no news then.
                if errors.is_empty() {
                    errors.push(explain(&problem, &parsed, &available));
                }
                return Err(errors);
            }
        };
        let mut compiler = Compiler::new(context, available, options.fixed.is_some());
        let conditions = compiled(&parsed.conditions, |condition| compiler.test(condition), &mut errors);
        compiler.in_statements = true;
        let statements = compiled(&parsed.statements, |statement| compiler.statement(statement), &mut errors);
        errors.sort_by_key(Error::origin);
        let group = Self { signal, context, conditions, statements, slots: compiler.slots() };
        if errors.is_empty() { Ok(group) } else { Err(errors) }
    }

    /// A scene for one request.
    pub(crate) fn scene<'a>(&self, request: &'a [u8], arena: &'a Bump, limits: &Limits) -> Scene<'a> {
        Scene::new(request, arena, &self.slots, limits)
    }

    /// The number of the first condition that holds. A condition that fails is counted and skipped.
    pub(crate) fn first_match<'a>(&'a self, scene: &mut Scene<'a>, tallies: &mut [Tally]) -> Option<usize> {
        for (number, (test, tally)) in self.conditions.iter().zip(tallies).enumerate() {
            scene.begin_statement();
            match scene.test(test).and_then(|holds| scene.check_size().map(|()| holds)) {
                Ok(true) => {
                    tally.matched += 1;
                    return Some(number);
                }
                Ok(false) => {}
                Err(failure) => tally.failed(&failure),
            }
        }
        None
    }
}

/// The texts of a group that could be read.
struct Parsed<'t> {
    conditions: Vec<Tree<'t, ast::Condition>>,
    statements: Vec<Tree<'t, ast::Statement>>,
}

/// What a text says, and which one it is.
struct Tree<'t, T> {
    origin: Origin,
    text: &'t str,
    tree: T,
}

impl<'t> Parsed<'t> {
    /// The texts, statements first.
    fn texts(&self) -> impl Iterator<Item = (Origin, &'t str)> {
        let statements = self.statements.iter().map(|parsed| (parsed.origin, parsed.text));
        statements.chain(self.conditions.iter().map(|parsed| (parsed.origin, parsed.text)))
    }

    /// The first mention in a text, and that text; statements first.
    fn first<M>(&self, mention: fn(Hints) -> Option<M>) -> Option<(Origin, &'t str, M)> {
        fn of<'t, T, M>(
            parsed: &Tree<'t, T>,
            hint: fn(&mut Hints, &T),
            mention: fn(Hints) -> Option<M>,
        ) -> Option<(Origin, &'t str, M)> {
            let mut hints = Hints::default();
            hint(&mut hints, &parsed.tree);
            mention(hints).map(|found| (parsed.origin, parsed.text, found))
        }
        let mut conditions = self.conditions.iter().filter_map(|parsed| of(parsed, Hints::condition, mention));
        let mut statements = self.statements.iter().filter_map(|parsed| of(parsed, Hints::statement, mention));
        statements.next().or_else(|| conditions.next())
    }

    /// The context that is given, or that the paths name.
    fn context(&self, signal: Signal, options: &Options) -> Result<Context, NoContext> {
        if let Some(fixed) = options.fixed {
            return Ok(fixed);
        }
        let mut hints = Hints::default();
        self.conditions.iter().for_each(|parsed| hints.condition(&parsed.tree));
        self.statements.iter().for_each(|parsed| hints.statement(&parsed.tree));
        hints.infer(signal, &options.contexts)
    }
}

fn parsed<'t, T>(
    texts: &'t [String],
    parse: fn(&str) -> Result<T, Fault>,
    origin: fn(usize) -> Origin,
    errors: &mut Vec<Error>,
) -> Vec<Tree<'t, T>> {
    let mut all = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let origin = origin(index);
        match parse(text) {
            Ok(tree) => all.push(Tree { origin, text, tree }),
            Err(fault) => errors.push(Error::new(origin, text, fault)),
        }
    }
    all
}

fn compiled<T, C>(
    all: &[Tree<'_, T>],
    mut compile: impl FnMut(&T) -> Result<C, Fault>,
    errors: &mut Vec<Error>,
) -> Vec<C> {
    let mut done = Vec::with_capacity(all.len());
    for Tree { origin, text, tree } in all {
        match compile(tree) {
            Ok(compiled) => done.push(compiled),
            Err(fault) => errors.push(Error::new(*origin, text, fault)),
        }
    }
    done
}

/// Why a group has no context. The error points at the text that asks for something that does not exist.
fn explain(problem: &NoContext, parsed: &Parsed<'_>, available: &[Context]) -> Error {
    let first = parsed.texts().next().map_or("", |(_, text)| text);
    let find = |word: &str, width: usize| {
        let found = parsed.texts().find_map(|(origin, text)| text.find(word).map(|start| (origin, text, start)));
        let (origin, text, start) = found.unwrap_or((Origin::Group, first, 0));
        (origin, text, start..(start + width).min(text.len()))
    };
    let valid = available.iter().map(|context| context.name()).collect::<Vec<_>>().join(", ");
    match problem {
        NoContext::NoPath => {
            if let Some((origin, text, path)) = parsed.first(|hints| hints.bare) {
                return Error::new(origin, text, without_context(&path, None, available));
            }
            if let Some((origin, text, call)) = parsed.first(|hints| hints.unknown) {
                return Error::new(origin, text, unknown_function(&call.name, &call.name_range));
            }
            let fault = Fault::new(0..first.len(), "no path names a context to evaluate this in");
            Error::new(Origin::Group, first, fault.help(format!("start paths with one of {valid}")))
        }
        NoContext::NotAvailable(context) => {
            let (origin, text, range) = find(&format!("{context}."), context.name().len());
            let fault = Fault::new(range, format!("the context {context} is not available here"));
            Error::new(origin, text, fault.help(format!("available are {valid}")))
        }
        NoContext::Lacks(context, name) => {
            let (origin, text, range) = find(name, name.len());
            Error::new(origin, text, Fault::new(range, format!("\"{name}\" does not exist in the context {context}")))
        }
    }
}
