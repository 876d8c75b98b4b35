//! A group of statements and conditions: compiled together, evaluated together.

use bumpalo::Bump;

use crate::compile::Compiler;
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
    /// Bytes by which the request may grow. A statement that would add more fails for the item.
    pub max_growth: usize,
}

/// How often a statement or a condition applied, and how often it failed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Times it was executed, or held.
    pub matched: u64,
    /// Times it failed. What it failed for stays as it was.
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
        let mut keep = |origin, text: &String, fault| errors.push(Error::new(origin, text, fault));
        let mut hints = Hints::default();
        let mut parsed_conditions = Vec::new();
        for (index, text) in conditions.iter().enumerate() {
            match parser::condition(text) {
                Ok(condition) => {
                    hints.condition(&condition);
                    parsed_conditions.push((index, text, condition));
                }
                Err(fault) => keep(Origin::Condition(index), text, fault),
            }
        }
        let mut parsed_statements = Vec::new();
        for (index, text) in statements.iter().enumerate() {
            match parser::statement(text) {
                Ok(statement) => {
                    hints.statement(&statement);
                    parsed_statements.push((index, text, statement));
                }
                Err(fault) => keep(Origin::Statement(index), text, fault),
            }
        }
        let texts = statements.iter().chain(conditions);
        let context = match options.fixed.map_or_else(|| hints.infer(signal, &options.contexts), Ok) {
            Ok(context) => context,
            Err(problem) => {
                let text = texts.into_iter().next().map_or("", String::as_str);
                // A group that cannot be read at all says so; what it cannot be inferred from is no news then.
                if errors.is_empty() {
                    errors.push(Error::new(Origin::Group, text, explain(&problem, text, options)));
                }
                return Err(errors);
            }
        };
        let mut compiler = Compiler::new(context, options.fixed.is_some());
        let mut group = Self { signal, context, conditions: Vec::new(), statements: Vec::new(), slots: [0; LEVELS] };
        for (index, text, condition) in &parsed_conditions {
            match compiler.test(condition) {
                Ok(test) => group.conditions.push(test),
                Err(fault) => errors.push(Error::new(Origin::Condition(*index), text, fault)),
            }
        }
        compiler.in_statements = true;
        for (index, text, statement) in &parsed_statements {
            match compiler.statement(statement) {
                Ok(statement) => group.statements.push(statement),
                Err(fault) => errors.push(Error::new(Origin::Statement(*index), text, fault)),
            }
        }
        group.slots = compiler.slots();
        errors.sort_by_key(Error::origin);
        if errors.is_empty() { Ok(group) } else { Err(errors) }
    }

    /// A scene for one request.
    pub(crate) fn scene<'a>(&self, request: &'a [u8], arena: &'a Bump, limits: &Limits) -> Scene<'a> {
        Scene::new(request, arena, &self.slots, i128::from(limits.now_unix_nano), limits.max_growth)
    }

    /// The first condition that holds; one that fails is counted and passed over.
    pub(crate) fn first_match<'a>(&'a self, scene: &mut Scene<'a>, tallies: &mut [Tally]) -> bool {
        for (test, tally) in self.conditions.iter().zip(tallies) {
            match scene.test(test).and_then(|holds| scene.check_size().map(|()| holds)) {
                Ok(true) => {
                    tally.matched += 1;
                    return true;
                }
                Ok(false) => {}
                Err(failure) => tally.failed(&failure),
            }
        }
        false
    }
}

fn explain(problem: &NoContext, text: &str, options: &Options) -> Fault {
    let valid = options.contexts.iter().map(|context| context.name()).collect::<Vec<_>>().join(", ");
    let at = |context: Context| {
        let start = text.find(&format!("{context}.")).unwrap_or_default();
        start..(start + context.name().len()).min(text.len())
    };
    match problem {
        NoContext::NoPath => {
            let fault = Fault::new(0..text.len(), "no path names a context to evaluate this in");
            fault.help(format!("start paths with one of {valid}"))
        }
        NoContext::NotAvailable(context) => {
            let fault = Fault::new(at(*context), format!("the context {context} is not available here"));
            fault.help(format!("available are {valid}"))
        }
        NoContext::Lacks(context, name) => {
            let start = text.find(name.as_str()).unwrap_or_default();
            let range = start..(start + name.len()).min(text.len());
            Fault::new(range, format!("\"{name}\" does not exist in the context {context}"))
        }
    }
}
