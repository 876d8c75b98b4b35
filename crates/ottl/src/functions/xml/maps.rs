//! `ParseXML` and `ParseSimplifiedXML`: documents as maps.

use std::borrow::Cow;
use std::collections::HashMap;

use super::document;
use super::tree::{Kind, Node, Tree, local};
use crate::program::Arguments;
use crate::scene::access::put;
use crate::scene::{Meter, Scene};
use crate::value::{Entries, Failure, Value, allocated};

pub(super) fn parse_xml<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let tree = document(arguments, 0, scene)?;
    let top = &tree.0[0].children;
    let root = top.iter().position(|child| tree.0[*child].kind == Kind::Element);
    let root = root.ok_or(Failure::text("cannot parse XML: there is no element"))?;
    if root + 1 < top.len() {
        return Err(Failure::text("cannot parse XML: something follows the element"));
    }
    whole(&tree, &tree.0[top[root]], &mut scene.meter())
}

/// An element in the list of its parent, with its four entries and the copies of names and of texts that are joined.
const ELEMENT_BYTES: usize = 2 * size_of::<Value<'_>>() + 4 * size_of::<(Cow<'_, str>, Value<'_>)>() + 64;

/// An element as its tag, its text, its attributes and the elements in it.
fn whole<'a>(tree: &Tree, element: &Node, meter: &mut Meter) -> Result<Value<'a>, Failure> {
    let children = || element.children.iter().map(|child| &tree.0[*child]);
    let mut entries: Entries<'a> = vec![("tag".into(), Value::text(local(&element.data).to_owned()))];
    let texts = || children().filter(|child| matches!(child.kind, Kind::Text | Kind::CharData));
    let length: usize = texts().map(|text| text.data.len()).sum();
    meter.take(ELEMENT_BYTES + element.data.len() + 3 * length)?;
    let content: String = texts().map(|text| text.data.trim()).collect();
    if !content.is_empty() {
        entries.push(("content".into(), Value::text(content)));
    }
    if !element.attributes.is_empty() {
        let mut attributes = Entries::new();
        for (name, value) in &element.attributes {
            meter.take(2 * size_of::<(Cow<'_, str>, Value<'_>)>() + allocated(name.len()) + allocated(value.len()))?;
            put(&mut attributes, Cow::Owned(local(name).to_owned()), Value::text(value.clone()));
        }
        entries.push(("attributes".into(), Value::map(attributes)));
    }
    let elements = children().filter(|child| child.kind == Kind::Element).map(|child| whole(tree, child, meter));
    let elements: Vec<Value<'a>> = elements.collect::<Result<_, _>>()?;
    if !elements.is_empty() {
        entries.push(("children".into(), Value::list(elements)));
    }
    Ok(Value::map(entries))
}

pub(super) fn parse_simplified_xml<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let tree = document(arguments, 0, scene)?;
    simplified(&tree, &tree.0[0], &mut scene.meter()).map(Value::map)
}

/// Names counted, and lists by their names, in tables that may have to double; and what an entry takes.
const NAME_BYTES: usize =
    3 * (size_of::<(&str, usize)>() + size_of::<(&str, (usize, Vec<Value<'_>>))>()) + ELEMENT_BYTES;

/// Texts by the names of their elements. Elements of the same name become a list; empty ones are left out.
fn simplified<'a>(tree: &Tree, parent: &Node, meter: &mut Meter) -> Result<Entries<'a>, Failure> {
    let elements = || parent.children.iter().map(|child| &tree.0[*child]).filter(|child| child.kind == Kind::Element);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    meter.take(elements().count() * NAME_BYTES)?;
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
            Some(text) => {
                meter.take(allocated(name.len()) + allocated(text.len()))?;
                Value::text(text.to_owned())
            }
            None => match simplified(tree, child, meter)? {
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
    Ok(entries)
}

/// The first text of an element that contains no elements; `None` when it is empty.
fn leaf<'t>(tree: &'t Tree, element: &Node) -> Option<&'t str> {
    let children = || element.children.iter().map(|child| &tree.0[*child]);
    if children().any(|child| child.kind == Kind::Element) {
        return None;
    }
    let first = children().find(|child| matches!(child.kind, Kind::Text | Kind::CharData));
    first.map(|text| &*text.data).filter(|text| !text.is_empty())
}
