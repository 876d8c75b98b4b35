//! `ParseXML` and `ParseSimplifiedXML`: documents as maps.

use std::borrow::Cow;
use std::collections::HashMap;

use super::document;
use super::tree::{Kind, Node, Tree, local};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::scene::access::put;
use crate::value::{Entries, Failure, Value, allocated};

/// A list of entries has room for four at least.
const FEW: usize = 4;

/// The document in an argument, which there is room for as maps, too.
fn paid<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Tree, Failure> {
    let mut tree = document(arguments, 0, scene)?;
    tree.pay(tree.0.iter().map(map_bytes).sum())?;
    Ok(tree)
}

/// The most that a node takes as a part of maps.
fn map_bytes(node: &Node) -> usize {
    let entry = size_of::<(Cow<'_, str>, Value<'_>)>();
    let (data, attributes) = (allocated(node.data.len()), &node.attributes);
    if node.kind != Kind::Element {
        return 2 * data;
    }
    let texts: usize = attributes.iter().map(|(name, value)| allocated(name.len()) + allocated(value.len())).sum();
    let lists = if attributes.is_empty() { FEW } else { FEW + attributes.len().next_power_of_two().max(FEW) };
    data + texts + lists * entry + 2 * size_of::<Value<'_>>()
}

pub(super) fn parse_xml<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let tree = paid(arguments, scene)?;
    let top = &tree.0[0].children;
    let root = top.iter().position(|child| tree.0[*child].kind == Kind::Element);
    let root = root.ok_or(Failure::text("cannot parse XML: there is no element"))?;
    if root + 1 < top.len() {
        return Err(Failure::text("cannot parse XML: something follows the element"));
    }
    Ok(whole(&tree, &tree.0[top[root]]))
}

/// An element as its tag, its text, its attributes and the elements in it.
fn whole<'a>(tree: &Tree, element: &Node) -> Value<'a> {
    let children = || element.children.iter().map(|child| &tree.0[*child]);
    let mut entries: Entries<'a> = vec![("tag".into(), Value::text(local(&element.data).to_owned()))];
    let texts = children().filter(|child| matches!(child.kind, Kind::Text | Kind::CharData));
    let content: String = texts.map(|text| text.data.trim()).collect();
    if !content.is_empty() {
        entries.push(("content".into(), Value::text(content)));
    }
    if !element.attributes.is_empty() {
        let mut attributes = Entries::new();
        for (name, value) in &element.attributes {
            put(&mut attributes, Cow::Owned(local(name).to_owned()), Value::text(value.clone()));
        }
        entries.push(("attributes".into(), Value::map(attributes)));
    }
    let elements: Vec<Value<'a>> =
        children().filter(|child| child.kind == Kind::Element).map(|child| whole(tree, child)).collect();
    if !elements.is_empty() {
        entries.push(("children".into(), Value::list(elements)));
    }
    Value::map(entries)
}

pub(super) fn parse_simplified_xml<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let tree = paid(arguments, scene)?;
    Ok(Value::map(simplified(&tree, &tree.0[0])))
}

/// Texts by the names of the elements they stand in; elements of the same name are a list, empty ones are left out.
fn simplified<'a>(tree: &Tree, parent: &Node) -> Entries<'a> {
    let elements = || parent.children.iter().map(|child| &tree.0[*child]).filter(|child| child.kind == Kind::Element);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    elements().for_each(|child| *counts.entry(local(&child.data)).or_default() += 1);
    let mut entries = Entries::new();
    let mut lists: HashMap<&str, (usize, Vec<Value<'a>>)> = HashMap::new();
    for child in elements().filter(|child| !child.children.is_empty()) {
        let name = local(&child.data);
        let repeated = counts.get(name).is_some_and(|count| *count > 1);
        // A list is there even when nothing is put into it.
        if repeated && !lists.contains_key(name) {
            lists.insert(name, (entries.len(), Vec::new()));
            entries.push((Cow::Owned(name.to_owned()), Value::Nil));
        }
        let value = match leaf(tree, child) {
            Some(text) => Value::text(text),
            None => match simplified(tree, child) {
                inner if inner.is_empty() => continue,
                inner => Value::map(inner),
            },
        };
        match lists.get_mut(name) {
            Some((_, list)) => list.push(value),
            None => entries.push((Cow::Owned(name.to_owned()), value)),
        }
    }
    for (index, list) in lists.into_values() {
        entries[index].1 = Value::list(list);
    }
    entries
}

/// The first text of an element without elements in it; none when it is empty.
fn leaf(tree: &Tree, element: &Node) -> Option<String> {
    let children = || element.children.iter().map(|child| &tree.0[*child]);
    if children().any(|child| child.kind == Kind::Element) {
        return None;
    }
    let first = children().find(|child| matches!(child.kind, Kind::Text | Kind::CharData));
    first.map(|text| text.data.clone()).filter(|text| !text.is_empty())
}
