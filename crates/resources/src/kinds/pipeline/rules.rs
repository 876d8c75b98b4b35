//! `transform` and `filter`: rules in OTTL.
//!
//! The text of a rule goes into the plan as it is written, once it compiles.

use weir_ottl::{self as ottl, Options, Origin};
use weir_plan::{Filter, Signal, Transform};

use super::removed::Removed;
use crate::diagnostic::{Diagnostic, Place, Reason};
use crate::document::{Fields, Located, Node};

/// How the published text ends, after what is wrong.
const FIX: &str = "Fix the syntax error indicated by the message or see troubleshooting: names are case-sensitive, and functions, paths, enums and kinds of arguments are checked before anything runs (docs/ottl.md)";

/// The fields `transform` and `filter` of a pipeline.
pub(crate) struct RuleFields<'a> {
    pub(crate) transforms: Vec<Transform>,
    pub(crate) filters: Vec<Filter>,
    /// The fields they stand in, as far as they are given.
    pub(crate) given: Vec<(&'static str, Node<'a>)>,
    /// What they ask for that enrichment takes away, and where.
    pub(crate) asked_in_vain: Vec<(Removed, Place)>,
}

/// Takes `transform` and `filter` from a pipeline's `spec`.
pub(crate) fn take<'a>(fields: &mut Fields<'a>, signal: Signal) -> RuleFields<'a> {
    let mut rules =
        RuleFields { transforms: Vec::new(), filters: Vec::new(), given: Vec::new(), asked_in_vain: Vec::new() };
    if let Some(node) = fields.optional("transform") {
        let asked = &mut rules.asked_in_vain;
        rules.transforms = node.list().iter().filter_map(|node| transform(node, signal, asked)).collect();
        rules.given.push(("transform", node));
    }
    if let Some(node) = fields.optional("filter") {
        let asked = &mut rules.asked_in_vain;
        rules.filters = node.list().iter().filter_map(|node| filter(node, signal, asked)).collect();
        rules.given.push(("filter", node));
    }
    rules
}

fn transform(node: &Node<'_>, signal: Signal, asked: &mut Vec<(Removed, Place)>) -> Option<Transform> {
    let mut fields = node.fields()?;
    let conditions = texts(&mut fields, "conditions");
    let statements = texts(&mut fields, "statements");
    fields.finish();
    asked.extend(asked_in_vain(conditions.iter().chain(&statements), signal));
    if statements.is_empty() {
        warn_empty(node, "statements");
    }
    let rule = Transform { conditions: values(&conditions), statements: values(&statements) };
    let group = Group { node, signal, conditions: &conditions, statements: &statements };
    if group.has_text() {
        let compiled =
            ottl::Transform::compile(signal, &Options::transform(signal), &rule.conditions, &rule.statements);
        group.report(compiled.err().unwrap_or_default());
    }
    Some(rule)
}

fn filter(node: &Node<'_>, signal: Signal, asked: &mut Vec<(Removed, Place)>) -> Option<Filter> {
    let mut fields = node.fields()?;
    let conditions = texts(&mut fields, "conditions");
    fields.finish();
    asked.extend(asked_in_vain(&conditions, signal));
    if conditions.is_empty() {
        warn_empty(node, "conditions");
    }
    let rule = Filter { conditions: values(&conditions) };
    let group = Group { node, signal, conditions: &conditions, statements: &[] };
    if group.has_text() {
        let compiled = ottl::Filter::compile(signal, &Options::filter(signal), &rule.conditions);
        group.report(compiled.err().unwrap_or_default());
    }
    Some(rule)
}

fn texts(fields: &mut Fields<'_>, key: &'static str) -> Vec<Located<String>> {
    fields.optional(key).map(|node| node.strings()).unwrap_or_default()
}

/// What texts ask for that enrichment takes away, and where.
fn asked_in_vain<'t>(
    texts: impl IntoIterator<Item = &'t Located<String>>,
    signal: Signal,
) -> impl Iterator<Item = (Removed, Place)> {
    let asked = move |text: &'t Located<String>| {
        Removed::asked_for(&text.value, signal).map(|removed| (removed, text.place.clone()))
    };
    texts.into_iter().flat_map(asked)
}

fn values(texts: &[Located<String>]) -> Vec<String> {
    texts.iter().map(|text| text.value.clone()).collect()
}

fn warn_empty(node: &Node<'_>, what: &str) {
    let message = format!("has no effect: it has no {what}");
    node.findings().push(Diagnostic::warning(&node.place(), message, "at least one, or no such entry"));
}

/// The texts that are compiled together.
struct Group<'a> {
    node: &'a Node<'a>,
    signal: Signal,
    conditions: &'a [Located<String>],
    statements: &'a [Located<String>],
}

impl Group<'_> {
    /// Whether there is something to compile, and no text is empty, which is reported.
    fn has_text(&self) -> bool {
        let example = attribute(self.signal);
        let conditions = self.conditions.iter().map(|text| (text, "condition", format!("{example} == \"shop\"")));
        let statements = self.statements.iter().map(|text| (text, "statement", format!("set({example}, \"shop\")")));
        let all: Vec<_> = conditions.chain(statements).collect();
        for (text, what, example) in &all {
            if text.value.trim().is_empty() {
                let message = format!("OTTL specification is invalid, the {what} is empty. {FIX}");
                let expected = format!("an OTTL {what}, for example {example}");
                self.push(Diagnostic::error(&text.place, message).value(&text.value).expected(expected));
            }
        }
        !all.is_empty() && all.iter().all(|(text, ..)| !text.value.trim().is_empty())
    }

    fn report(&self, errors: Vec<ottl::Error>) {
        for error in errors {
            let text = match error.origin() {
                Origin::Condition(index) => self.conditions.get(index),
                Origin::Statement(index) => self.statements.get(index),
                Origin::Group => self.statements.first().or(self.conditions.first()),
            };
            let mut message = format!("OTTL specification is invalid, {}", error.message());
            let token = text.and_then(|text| token(text, &error));
            if token.is_none() {
                message.push_str(&format!(" at line {} column {}", error.line(), error.column()));
            }
            message.push_str(&format!(". {FIX}"));
            if let Some(help) = error.help() {
                message.push_str(&format!("; {help}"));
            }
            let whole = || text.map_or_else(|| self.node.place(), |text| text.place.clone());
            self.push(Diagnostic::error(&token.unwrap_or_else(whole), message).value(error.text()));
        }
    }

    fn push(&self, diagnostic: Diagnostic) {
        self.node.findings().push(diagnostic.reason(Reason::OttlSpecInvalid));
    }
}

/// Where the blamed token stands in the document, if the text stands there as it is: on one line, and quoted at most.
fn token(text: &Located<String>, error: &ottl::Error) -> Option<Place> {
    let mut place = text.place.clone();
    let quotes = match place.width.checked_sub(text.value.chars().count()) {
        Some(0) => 0,
        Some(2) => 1,
        _ => return None,
    };
    if text.value.contains('\n') {
        return None;
    }
    place.column += quotes + error.column() - 1;
    place.width = text.value.get(error.range()).map_or(1, |token| token.chars().count().max(1));
    Some(place)
}

/// A path that exists for the items of a signal.
fn attribute(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "span.attributes[\"team\"]",
        Signal::Metrics => "datapoint.attributes[\"team\"]",
        Signal::Logs => "log.attributes[\"team\"]",
    }
}
