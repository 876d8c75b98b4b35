//! `transform` and `filter`: rules in OTTL.
//!
//! The text of a rule goes into the plan as it is written, once [`check`] has nothing against it.

use weir_plan::{Filter, Signal, Transform};

use crate::diagnostic::{Diagnostic, Findings, Reason};
use crate::node::{Fields, Located, Node};

/// What a text in OTTL is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Changes items.
    Statement,
    /// Decides whether the statements of a transform run.
    TransformCondition,
    /// Decides whether an item is removed.
    FilterCondition,
}

/// The rules of a pipeline.
pub(crate) struct Rules<'a> {
    pub(crate) transforms: Vec<Transform>,
    pub(crate) filters: Vec<Filter>,
    /// The fields they stand in, as far as they are given.
    pub(crate) given: Vec<(&'static str, Node<'a>)>,
}

/// Takes `transform` and `filter` from a pipeline's `spec`.
pub(crate) fn take<'a>(fields: &mut Fields<'a>, signal: Signal) -> Rules<'a> {
    let mut rules = Rules { transforms: Vec::new(), filters: Vec::new(), given: Vec::new() };
    if let Some(node) = fields.optional("transform") {
        rules.transforms = node.list().iter().filter_map(|node| transform(node, signal)).collect();
        rules.given.push(("transform", node));
    }
    if let Some(node) = fields.optional("filter") {
        rules.filters = node.list().iter().filter_map(|node| filter(node, signal)).collect();
        rules.given.push(("filter", node));
    }
    rules
}

fn transform(node: &Node<'_>, signal: Signal) -> Option<Transform> {
    let mut fields = node.fields()?;
    let conditions = texts(&mut fields, "conditions", Role::TransformCondition, signal);
    let statements = texts(&mut fields, "statements", Role::Statement, signal);
    fields.finish();
    if statements.is_empty() {
        warn_empty(node, "statements");
    }
    Some(Transform { conditions, statements })
}

fn filter(node: &Node<'_>, signal: Signal) -> Option<Filter> {
    let mut fields = node.fields()?;
    let conditions = texts(&mut fields, "conditions", Role::FilterCondition, signal);
    fields.finish();
    if conditions.is_empty() {
        warn_empty(node, "conditions");
    }
    Some(Filter { conditions })
}

fn warn_empty(node: &Node<'_>, what: &str) {
    let message = format!("has no effect: it has no {what}");
    node.findings().push(Diagnostic::warning(&node.place().hidden(), message));
}

fn texts(fields: &mut Fields<'_>, key: &'static str, role: Role, signal: Signal) -> Vec<String> {
    let Some(node) = fields.optional(key) else { return Vec::new() };
    let texts = node.strings();
    texts.iter().for_each(|text| check(text, role, signal, node.findings()));
    texts.into_iter().map(|text| text.value).collect()
}

/// Checks one text, in its place in the document. What is wrong is reported.
fn check(text: &Located<String>, role: Role, signal: Signal, findings: &Findings) {
    if !text.value.trim().is_empty() {
        return;
    }
    let (what, example) = match role {
        Role::Statement => ("statement", format!("set({}, \"shop\")", attribute(signal))),
        Role::TransformCondition | Role::FilterCondition => ("condition", format!("{} == \"shop\"", attribute(signal))),
    };
    let message = format!("OTTL specification is invalid, the {what} is empty");
    let diagnostic = Diagnostic::error(&text.place, message).reason(Reason::OttlSpecInvalid);
    findings.push(diagnostic.value(&text.value).expected(format!("an OTTL {what}, for example {example}")));
}

/// A path that exists for the items of a signal.
fn attribute(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "span.attributes[\"team\"]",
        Signal::Metrics => "datapoint.attributes[\"team\"]",
        Signal::Logs => "log.attributes[\"team\"]",
    }
}
