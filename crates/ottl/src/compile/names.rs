//! Paths and functions by name.

use std::ops::Range;

use super::Compiler;
use crate::ast;
use crate::context::{self, Context};
use crate::error::Fault;
use crate::functions::{self, Function};
use crate::paths::{self, Codec, Field};
use crate::program::{Path, Target};

impl Compiler {
    /// Resolves a path and its keys.
    pub(super) fn path(&mut self, path: &ast::Path) -> Result<Path, Fault> {
        if let Some(local) = self.local(path)? {
            let keys = self.keys_of(&path.segments[0])?;
            return Ok(Path { target: Target::Local(local), keys, slot: None });
        }
        let (context, segments) = self.context_of(path)?;
        let Some((last, before)) = segments.split_last() else {
            let valid = paths::of(context).iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let fault = Fault::new(path.range.clone(), format!("\"{context}\" is a context and no value"));
            return Err(fault.help(format!("it has {valid}")));
        };
        if let Some(key) = before.iter().flat_map(|segment| &segment.keys).next() {
            return Err(Fault::new(key.range.clone(), "only the last part of a path can be indexed"));
        }
        let name = segments.iter().map(|segment| segment.name.as_str()).collect::<Vec<_>>().join(".");
        let range = segments[0].range.start..last.range.end;
        let target = self.target(context, &name, range)?;
        let keys = self.keys_of(last)?;
        if let Some(key) = last.keys.first()
            && !is_indexable(target)
        {
            return Err(Fault::new(key.range.clone(), format!("\"{name}\" cannot be indexed")));
        }
        if let (Target::Field(Field { codec: Codec::TraceState, .. }), Some(key)) = (target, last.keys.get(1)) {
            return Err(Fault::new(key.range.clone(), "a member of a trace state is a string and cannot be indexed"));
        }
        let slot = self.first_slot(target, &keys);
        Ok(Path { target, keys, slot })
    }

    fn local(&self, path: &ast::Path) -> Result<Option<usize>, Fault> {
        let Some(first) = path.segments.first() else { return Ok(None) };
        let found = self.locals.iter().rposition(|local| local.as_deref() == Some(first.name.as_str()));
        if found.is_some() && path.segments.len() > 1 {
            let fault = Fault::new(path.range.clone(), format!("\"{}\" is a parameter and has no fields", first.name));
            return Err(fault.help("use a key in brackets"));
        }
        Ok(found)
    }

    fn keys_of(&mut self, segment: &ast::Segment) -> Result<Vec<crate::program::Expr>, Fault> {
        segment.keys.iter().map(|key| self.value(key)).collect()
    }

    /// The context of a path, and the path without it.
    fn context_of<'p>(&self, path: &'p ast::Path) -> Result<(Context, &'p [ast::Segment]), Fault> {
        let (first, rest) = path.segments.split_first().ok_or_else(|| Fault::new(path.range.clone(), "empty path"))?;
        if first.name == "otelcol" {
            let fault = Fault::new(path.range.clone(), "paths of the context otelcol are not available");
            return Err(fault.help("what a client sent beside its telemetry is not kept"));
        }
        let named = Context::named(&first.name).filter(|_| !(self.bare_paths && rest.is_empty()));
        match named {
            Some(context) if self.context.sees(context) => {
                if let Some(key) = first.keys.first() {
                    return Err(Fault::new(key.range.clone(), "a context cannot be indexed"));
                }
                Ok((context, rest))
            }
            Some(context) => {
                let message = format!("the context {context} cannot be seen from {}", self.context);
                Err(Fault::new(first.range.clone(), message).help(self.visible()))
            }
            None if self.bare_paths => Ok((self.context, &path.segments)),
            None => Err(without_context(path, Some(self.context), &self.available)),
        }
    }

    fn visible(&self) -> String {
        let visible = context::ALL.into_iter().filter(|context| self.context.sees(*context));
        format!("it can use {}", visible.map(Context::name).collect::<Vec<_>>().join(", "))
    }

    fn target(&self, context: Context, name: &str, range: Range<usize>) -> Result<Target, Fault> {
        if name == "cache" {
            if context == self.context {
                return Ok(Target::Cache);
            }
            let fault = Fault::new(range, format!("the cache of {context} cannot be used in {}", self.context));
            return Err(fault.help(format!("write \"{}.cache\"", self.context)));
        }
        let entries = paths::of(context);
        if let Some((_, target)) = entries.iter().find(|(other, _)| *other == name) {
            return Ok(*target);
        }
        let fault = Fault::new(range, format!("unknown path \"{name}\" in the context {context}"));
        let fault = fault.did_you_mean(name, entries.iter().map(|(name, _)| *name));
        if fault.help.is_some() {
            return Err(fault);
        }
        let valid = entries.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        Err(fault.help(format!("{context} has {valid}")))
    }

    /// The function of a name, if it exists in this context.
    pub(super) fn function(&self, name: &str, range: &Range<usize>) -> Result<&'static Function, Fault> {
        match functions::find(name) {
            Some(function) if function.in_statements && !self.in_statements => {
                Err(Fault::new(range.clone(), format!("{name} exists in the statements of transforms only")))
            }
            Some(function) if function.exists_in(self.context) => Ok(function),
            Some(function) => {
                let only = function.contexts.iter().map(|context| context.name()).collect::<Vec<_>>().join(", ");
                let message = format!("{name} does not exist in the context {}", self.context);
                Err(Fault::new(range.clone(), message).help(format!("it exists in {only}")))
            }
            None => Err(unknown_function(name, range)),
        }
    }
}

/// Says that no context has a function of that name.
pub(crate) fn unknown_function(name: &str, range: &Range<usize>) -> Fault {
    if functions::NEEDS_USER_AGENTS == name {
        return Fault::new(range.clone(), format!("{name} is not supported: it needs a database of user agents"));
    }
    Fault::new(range.clone(), format!("unknown function \"{name}\"")).did_you_mean(name, functions::names())
}

/// Says which context a path lacks. Of the contexts that are available and have the path, it is that of the group, if
/// that is a context of items, or else the first. A path that names an outer context as well is more often about an
/// item than about that context.
pub(crate) fn without_context(path: &ast::Path, group: Option<Context>, available: &[Context]) -> Fault {
    let Some(first) = path.segments.first() else { return Fault::new(path.range.clone(), "empty path") };
    let is_outer = |context: &Context| matches!(context, Context::Resource | Context::Scope);
    let inner = || available.iter().filter(|context| !is_outer(context));
    let mut preferred = group.iter().filter(|context| !is_outer(context)).chain(inner()).chain(available);
    let has = |context: &&Context, name: &str| {
        name == "cache" || paths::of(**context).iter().any(|(other, _)| other.split('.').next() == Some(name))
    };
    if let Some(context) = preferred.find(|context| has(context, &first.name)) {
        let fault = Fault::new(first.range.clone(), format!("the path \"{}\" has no context", first.name));
        return fault.help(format!("write \"{context}.{}\"", first.name));
    }
    if path.segments.len() > 1 {
        let fault = Fault::new(first.range.clone(), format!("unknown context \"{}\"", first.name));
        return fault.did_you_mean(&first.name, context::ALL.iter().map(|context| context.name()));
    }
    let fault = Fault::new(first.range.clone(), format!("unknown path \"{}\"", first.name));
    let names = available.iter().map(|context| context.name()).collect::<Vec<_>>().join(", ");
    fault.help(format!("none of {names} has it"))
}

fn is_indexable(target: Target) -> bool {
    match target {
        Target::Map(_) | Target::Body | Target::Cache | Target::Local(_) => true,
        Target::Field(Field { codec, .. }) => codec == Codec::TraceState,
        Target::BodyText | Target::EventIndex | Target::MetricType => false,
    }
}
