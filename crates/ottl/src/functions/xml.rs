//! Converters of XML documents: parts taken out, put in, removed, and documents as maps.
//!
//! Source of the semantics: `pkg/ottl/ottlfuncs` of the reference, version 0.158.

use std::collections::HashSet;

use super::{Function, Kind, STRING, function, optional, required};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::{Failure, Value};

mod maps;
mod tree;
mod xpath;

use tree::{Kind as NodeKind, Sink, Tree, write_text};
pub(crate) use xpath::{XPath, parse};

const TARGET: super::Parameter = required("target", STRING);
const XPATH: super::Parameter = required("x_path", Kind::XPath);

pub(super) const FUNCTIONS: &[Function] = &[
    function("GetXML", &[TARGET, XPATH], get_xml),
    function("InsertXML", &[TARGET, XPATH, required("sub_document", STRING)], insert_xml),
    function("RemoveXML", &[TARGET, XPATH], remove_xml),
    function("ConvertAttributesToElementsXML", &[TARGET, optional("x_path", Kind::XPath)], attributes_to_elements),
    function(
        "ConvertTextToElementsXML",
        &[TARGET, optional("x_path", Kind::XPath), optional("element_name", Kind::Text)],
        text_to_elements,
    ),
    function("ParseXML", &[TARGET], maps::parse_xml),
    function("ParseSimplifiedXML", &[TARGET], maps::parse_simplified_xml),
];

/// The document in an argument.
fn document<'a>(arguments: &'a Arguments, index: usize, scene: &mut Scene<'a>) -> Result<Tree, Failure> {
    let text = arguments.text(index, scene)?;
    scene.check_length(text.len())?;
    Tree::parse(&text, scene.meter())
}

/// The document to search or to edit, which may be empty.
fn target<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Tree, Failure> {
    if arguments.text(0, scene)?.is_empty() { Ok(Tree::empty(scene.meter())) } else { document(arguments, 0, scene) }
}

fn written<'a>(tree: &Tree, scene: &Scene<'a>) -> Result<Value<'a>, Failure> {
    let mut out = String::new();
    append(scene, &mut out, &|out| tree.write(0, out))?;
    Ok(Value::text(out))
}

/// Appends what `write` writes, if there is memory for it.
fn append(scene: &Scene<'_>, out: &mut String, write: &dyn Fn(Sink<'_>)) -> Result<(), Failure> {
    let mut length = out.len();
    write(&mut |part| length += part.len());
    // When it does not fit, it moves to a buffer twice as large.
    scene.check_length(length + if out.is_empty() { 0 } else { 2 * length })?;
    out.reserve(length - out.len());
    write(&mut |part| out.push_str(part));
    Ok(())
}

fn select(arguments: &Arguments, tree: &Tree) -> Result<Vec<xpath::Selected>, Failure> {
    arguments.xpath(1).map_or_else(|| Ok(Vec::new()), |path| path.select(tree))
}

fn get_xml<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let tree = target(arguments, scene)?;
    let mut out = String::new();
    for selected in select(arguments, &tree)? {
        match tree.0[selected.node].kind {
            _ if selected.attribute.is_some() => {
                let value = xpath::value(&tree, selected);
                append(scene, &mut out, &|out| write_text(&value, out))?;
            }
            NodeKind::CharData => append(scene, &mut out, &|out| write_text(&tree.0[selected.node].data, out))?,
            NodeKind::Element | NodeKind::Text => append(scene, &mut out, &|out| tree.write(selected.node, out))?,
            _ => {}
        }
    }
    Ok(Value::text(out))
}

fn insert_xml<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let (mut tree, inserted) = (target(arguments, scene)?, document(arguments, 2, scene)?);
    for selected in select(arguments, &tree)? {
        let kind = tree.0[selected.node].kind;
        if selected.attribute.is_some() || !matches!(kind, NodeKind::Element | NodeKind::Document) {
            return Err(Failure::text("the XPath selects something that is no element"));
        }
        inserted.0[0].children.iter().try_for_each(|child| tree.graft(selected.node, &inserted, *child))?;
    }
    written(&tree, scene)
}

fn remove_xml<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let mut tree = target(arguments, scene)?;
    let mut gone = HashSet::new();
    // From the last one on, so that the places of attributes stay right.
    for selected in select(arguments, &tree)?.into_iter().rev() {
        match (selected.attribute, tree.0[selected.node].kind) {
            (Some(attribute), _) => drop(tree.0[selected.node].attributes.remove(attribute)),
            (None, NodeKind::Element | NodeKind::Text | NodeKind::Comment | NodeKind::CharData) => {
                gone.insert(selected.node);
            }
            _ => {}
        }
    }
    tree.remove(&gone);
    written(&tree, scene)
}

fn attributes_to_elements<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let mut tree = document(arguments, 0, scene)?;
    let selected = match arguments.xpath(1) {
        Some(path) => path.select(&tree)?,
        None => parse("//@*").map_err(Failure::new)?.select(&tree)?,
    };
    let attributes: Vec<(usize, usize)> =
        selected.into_iter().filter_map(|selected| Some((selected.node, selected.attribute?))).collect();
    for (node, index) in &attributes {
        let Some((name, value)) = tree.0[*node].attributes.get(*index).cloned() else { continue };
        let element = tree.add(*node, NodeKind::Element, tree::local(&name))?;
        tree.add(element, NodeKind::Text, value)?;
    }
    for (node, index) in attributes.into_iter().rev() {
        tree.0[node].attributes.remove(index);
    }
    written(&tree, scene)
}

fn text_to_elements<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let mut tree = document(arguments, 0, scene)?;
    let name = arguments.literal_text(2).filter(|name| !name.is_empty()).unwrap_or("value");
    let selected = match arguments.xpath(1) {
        Some(path) => path.select(&tree)?.into_iter().filter(|selected| selected.attribute.is_none()).collect(),
        None => vec![xpath::Selected { node: 0, attribute: None }],
    };
    let mut done = vec![false; tree.0.len()];
    for selected in selected {
        wrap_texts(&mut tree, selected.node, name, &mut done)?;
    }
    written(&tree, scene)
}

/// Makes an element of each text that has something beside it, here and in everything inside.
fn wrap_texts(tree: &mut Tree, node: usize, name: &str, done: &mut [bool]) -> Result<(), Failure> {
    if done.get(node).is_none_or(|done| *done) || !matches!(tree.0[node].kind, NodeKind::Element | NodeKind::Document) {
        return Ok(());
    }
    done[node] = true;
    let children = tree.0[node].children.clone();
    children.iter().try_for_each(|child| wrap_texts(tree, *child, name, done))?;
    let kinds = || children.iter().map(|child| tree.0[*child].kind);
    let texts: Vec<usize> = children.iter().copied().filter(|child| tree.0[*child].kind == NodeKind::Text).collect();
    if kinds().filter(|kind| matches!(kind, NodeKind::Element | NodeKind::Text)).count() <= 1 {
        return Ok(());
    }
    for text in texts {
        let content = std::mem::replace(&mut tree.0[text].data, name.to_owned());
        tree.0[text].kind = NodeKind::Element;
        tree.add(text, NodeKind::Text, content)?;
    }
    Ok(())
}
