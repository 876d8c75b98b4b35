//! Selectors with `include` and `exclude`: of namespaces and of containers.

use weir_plan::Selector;

use crate::diagnostic::Diagnostic;
use crate::document::{Fields, Located, Node, Version};
use crate::kinds::object;

/// Reads a selector of namespaces; empty lists, like none, select all.
pub(crate) fn namespaces(node: &Node<'_>) -> Selector {
    either(node, namespace)
}

/// Takes the namespaces of an input that collects: all but the system's where nothing is said.
pub(crate) fn take_collected(fields: &mut Fields<'_>) -> Selector {
    fields.optional("namespaces").map_or_else(Selector::without_system, |node| namespaces(&node))
}

/// Takes those of container logs. In the older version, empty lists leave out the system, too, and `system` asks for it.
pub(crate) fn take_of_logs(fields: &mut Fields<'_>) -> Selector {
    if fields.node().version() == Version::V1Beta1 {
        return take_collected(fields);
    }
    let Some(node) = fields.optional("namespaces") else { return Selector::without_system() };
    let Some(mut fields) = node.fields() else { return Selector::without_system() };
    let include = take(&mut fields, "include", namespace);
    let exclude = take(&mut fields, "exclude", namespace);
    let system = fields.optional("system").map(|node| node.boolean());
    fields.finish();
    match selector(include, exclude) {
        Selector::All if system.flatten() != Some(true) => Selector::without_system(),
        selector => selector,
    }
}

/// Reads a selector of containers.
pub(crate) fn containers(node: &Node<'_>) -> Selector {
    either(node, Node::string)
}

/// Reads `include` or `exclude`.
fn either<'a>(node: &Node<'a>, name: fn(&Node<'a>) -> Option<Located<String>>) -> Selector {
    let Some(mut fields) = node.fields() else { return Selector::All };
    let include = take(&mut fields, "include", name);
    let exclude = take(&mut fields, "exclude", name);
    fields.finish();
    selector(include, exclude)
}

fn selector(include: Option<Vec<String>>, exclude: Option<Vec<String>>) -> Selector {
    match (include.unwrap_or_default(), exclude.unwrap_or_default()) {
        (include, _) if !include.is_empty() => Selector::Only(include),
        (_, exclude) if !exclude.is_empty() => Selector::Except(exclude),
        _ => Selector::All,
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
