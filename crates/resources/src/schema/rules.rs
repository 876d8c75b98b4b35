//! Rules of the table in the Common Expression Language, in which an API server evaluates them.

use serde_json::{Value, json};

use crate::document::Version;
use crate::document::table::{Clash, DefaultValue, Field, Group, Object, Rule, Term, Type};

/// All rules of a mapping that stands under `key`.
pub(super) fn of_object(object: &'static Object, key: &str, version: Version) -> Vec<Value> {
    let groups = object
        .groups_in(version)
        .filter_map(|group| Some(rule(of_group(object, group, version)?, &group.message.replace("{field}", key))));
    let clashes = object.clashes_in(version).filter_map(|clash| {
        let Clash { terms, message, only: _ } = clash;
        let terms: Option<Vec<_>> = terms.iter().map(|term| of_term(object, term, version)).collect();
        Some(rule(format!("!({})", terms?.join(" && ")), message))
    });
    let kept = object.kept.iter().filter_map(|(name, message)| {
        let key = object.field(name)?.key(version)?;
        Some(rule(format!("has(self.{key}) == has(oldSelf.{key})"), message))
    });
    groups.chain(clashes).chain(kept).collect()
}

fn rule(rule: String, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

fn of_group(object: &'static Object, group: &Group, version: Version) -> Option<String> {
    let given: Option<Vec<_>> = group.names.iter().map(|name| is_given(object, group, name, version)).collect();
    let given = given?;
    let how_many = || format!("[{}].filter(given, given).size()", given.join(", "));
    Some(match (group.rule, &given[..]) {
        (Rule::AtMostOne, [one, other]) => format!("!({one} && {other})"),
        (Rule::AtMostOne, _) => format!("{} <= 1", how_many()),
        (Rule::AtLeastOne, _) => given.join(" || "),
        (Rule::ExactlyOne, [one, other]) | (Rule::AllOrNone, [one, other]) => {
            let equals = if group.rule == Rule::AllOrNone { "==" } else { "!=" };
            format!("({one}) {equals} ({other})")
        }
        (Rule::ExactlyOne, _) => format!("{} == 1", how_many()),
        (Rule::AllOrNone, _) => format!("{} in [0, {}]", how_many(), given.len()),
    })
}

/// Whether a field of a group counts as given.
fn is_given(object: &'static Object, group: &Group, name: &str, version: Version) -> Option<String> {
    let field = object.field(name)?;
    let path = format!("self.{}", field.key(version)?);
    if !group.empty_is_missing {
        return Some(format!("has({path})"));
    }
    Some(match field.of {
        Type::Object(object) => {
            let says_something = |field: &Field| Some(is_filled(field, &format!("{path}.{}", field.key(version)?)));
            let fields: Vec<_> = object.fields().filter_map(says_something).collect();
            format!("has({path}) && ({})", fields.join(" || "))
        }
        _ => is_filled(field, &path),
    })
}

/// Whether a field is there, and is no empty text.
fn is_filled(field: &Field, path: &str) -> String {
    match field.of {
        Type::Text(_) | Type::Formed(_) => format!("(has({path}) && {path} != '')"),
        _ => format!("has({path})"),
    }
}

fn of_term(object: &'static Object, term: &Term, version: Version) -> Option<String> {
    let (Term::Given(path) | Term::Missing(path) | Term::Is(path, _) | Term::True(path)) = term;
    let (keys, field) = object.at(path, version)?;
    let path = format!("self.{}", keys.join("."));
    let chain = |keys: &[&str]| format!("has(self.{})", keys.join("."));
    let is_there: Vec<_> = (1..=keys.len()).map(|length| chain(&keys[..length])).collect();
    let is_there = is_there.join(" && ");
    Some(match (term, field.of) {
        (Term::Given(_), Type::Text(_) | Type::Formed(_)) => format!("{is_there} && {path} != ''"),
        (Term::Given(_), _) => is_there,
        (Term::Missing(_), _) => format!("!({is_there})"),
        (Term::Is(_, text), _) if field.default == DefaultValue::Text(text) => {
            format!("(!({is_there}) || {path} == '{text}')")
        }
        (Term::Is(_, text), _) => format!("{is_there} && {path} == '{text}'"),
        (Term::True(_), _) => format!("{is_there} && {path}"),
    })
}
