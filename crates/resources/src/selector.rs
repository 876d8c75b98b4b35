//! Selectors with `include` and `exclude`: of namespaces and of containers.

use weir_plan::Namespaces;

use crate::diagnostic::Diagnostic;
use crate::node::{Fields, Located, Node};
use crate::object;

/// Reads a selector of namespaces; empty lists, like none, select all.
pub(crate) fn namespaces(node: &Node<'_>) -> Namespaces {
    let Some(mut fields) = node.fields() else { return Namespaces::All };
    let include = take(&mut fields, "include", namespace);
    let exclude = take(&mut fields, "exclude", namespace);
    fields.finish();
    check_exclusive(node, include.is_some() && exclude.is_some());
    match (include.unwrap_or_default(), exclude.unwrap_or_default()) {
        (include, _) if !include.is_empty() => Namespaces::Only(include),
        (_, exclude) if !exclude.is_empty() => Namespaces::Except(exclude),
        _ => Namespaces::All,
    }
}

/// Checks a selector of namespaces as the older version has it for container logs, with `system`.
pub(crate) fn check_namespaces_with_system(node: &Node<'_>) {
    let Some(mut fields) = node.fields() else { return };
    let include = take(&mut fields, "include", namespace).is_some();
    let exclude = take(&mut fields, "exclude", namespace).is_some();
    let system = fields.optional("system").map(|node| node.boolean()).is_some();
    fields.finish();
    if u8::from(include) + u8::from(exclude) + u8::from(system) > 1 {
        let message = "Only one of 'include', 'exclude' or 'system' can be defined";
        node.findings().push(node.error(message));
    }
}

/// Checks a selector of containers.
pub(crate) fn check_containers(node: &Node<'_>) {
    let Some(mut fields) = node.fields() else { return };
    let include = take(&mut fields, "include", Node::string);
    let exclude = take(&mut fields, "exclude", Node::string);
    fields.finish();
    check_exclusive(node, include.is_some() && exclude.is_some());
}

fn check_exclusive(node: &Node<'_>, both: bool) {
    if both {
        node.findings().push(node.error("Only one of 'include' or 'exclude' can be defined"));
    }
}

/// Takes a list of names; nothing when it is not given.
fn take<'a>(
    fields: &mut Fields<'a>,
    key: &'static str,
    name: fn(&Node<'a>) -> Option<Located<String>>,
) -> Option<Vec<String>> {
    let items = fields.optional(key)?.list();
    Some(items.iter().filter_map(name).map(|name| name.value).collect())
}

fn namespace(node: &Node<'_>) -> Option<Located<String>> {
    let name = node.string()?;
    if object::is_label(&name.value) {
        return Some(name);
    }
    let message = format!("{} is not a namespace", name.place.shown(&name.value));
    let expected = "at most 63 lower case letters, digits or '-', starting and ending with a letter or digit";
    node.findings().push(Diagnostic::error(&name.place, message).value(&name.value).expected(expected));
    None
}
