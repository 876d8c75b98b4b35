//! An XML document as a tree: read, and written again. Entities of the document's own are refused, never expanded.

use std::collections::HashSet;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Error, Reader, XmlVersion, escape};

use crate::scene::Meter;
use crate::value::{Failure, allocated};

/// Longest document, most nodes and deepest nesting that are looked into.
const MAX_LENGTH: usize = 1 << 20;
const MAX_NODES: usize = 1 << 16;
const MAX_DEPTH: usize = 128;
/// Most attributes of one element.
const MAX_ATTRIBUTES: usize = 1 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Document,
    Element,
    Text,
    CharData,
    Comment,
    /// Between `<?` and `?>`
    Instruction,
    /// Between `<!` and `>`
    Directive,
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// Name of an element; content of everything else.
    pub(super) data: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) parent: usize,
    pub(super) children: Vec<usize>,
}

/// Takes what is written, in parts.
pub(super) type Sink<'s> = &'s mut dyn FnMut(&str);

/// Nodes by their numbers, 0 is the document itself; and the memory that is left for more.
#[derive(Debug)]
pub(super) struct Tree(pub(super) Vec<Node>, Meter);

/// A node in a list that may have to double, its place among the children of its parent, and the notes that it is selected.
const NODE_BYTES: usize = 3 * size_of::<Node>() + 24 * size_of::<usize>();
/// The same for an attribute.
const ATTRIBUTE_BYTES: usize = 3 * size_of::<(String, String)>() + 12 * size_of::<usize>();

/// The name without its prefix.
pub(super) fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// What is wrong with a document, without any names and references from it.
fn malformed(error: impl Into<Error>) -> Failure {
    Failure::new(match error.into() {
        Error::Syntax(error) => format!("cannot parse XML: {error}"),
        Error::InvalidAttr(error) => format!("cannot parse XML: {error}"),
        Error::Escape(_) => "cannot parse XML: a reference is not valid".to_owned(),
        Error::IllFormed(_) => "cannot parse XML: it is not well-formed; each start tag needs its end tag".to_owned(),
        _ => "cannot parse XML".to_owned(),
    })
}

impl Tree {
    /// A document without anything in it.
    pub(super) fn empty(meter: Meter) -> Self {
        let (data, attributes, children) = (String::new(), Vec::new(), Vec::new());
        Self(vec![Node { kind: Kind::Document, data, attributes, parent: 0, children }], meter)
    }

    pub(super) fn parse(text: &str, meter: Meter) -> Result<Self, Failure> {
        if text.len() > MAX_LENGTH {
            return Err(Failure::text("the XML document is too long to look into"));
        }
        let mut tree = Self::empty(meter);
        let mut reader = Reader::from_str(text);
        let mut open = vec![0];
        loop {
            let parent = open.last().copied().unwrap_or_default();
            match reader.read_event().map_err(malformed)? {
                Event::Start(start) => {
                    if open.len() > MAX_DEPTH {
                        return Err(Failure::text("the XML document is nested too deep"));
                    }
                    open.push(tree.element(parent, &start)?);
                }
                Event::Empty(start) => drop(tree.element(parent, &start)?),
                Event::End(_) => drop(open.pop()),
                Event::Text(text) => tree.text(parent, &text.xml10_content())?,
                Event::GeneralRef(reference) => {
                    let reference = format!("&{};", &*reference);
                    tree.text(parent, &escape::unescape(&reference).map_err(malformed)?)?;
                }
                Event::CData(text) => drop(tree.add(parent, Kind::CharData, text.xml10_content())?),
                Event::Comment(text) => drop(tree.add(parent, Kind::Comment, &*text)?),
                Event::Decl(content) => drop(tree.add(parent, Kind::Instruction, content.trim_end())?),
                Event::PI(content) => drop(tree.add(parent, Kind::Instruction, content.trim_end())?),
                Event::DocType(content) => drop(tree.add(parent, Kind::Directive, format!("DOCTYPE {}", &*content))?),
                Event::Eof if open.len() > 1 => return Err(Failure::text("cannot parse XML: an element has no end")),
                Event::Eof if tree.has_element() => return Ok(tree),
                Event::Eof => return Err(Failure::text("cannot parse XML: there is no element")),
            }
        }
    }

    fn has_element(&self) -> bool {
        self.0[0].children.iter().any(|child| self.0[*child].kind == Kind::Element)
    }

    fn element(&mut self, parent: usize, start: &BytesStart<'_>) -> Result<usize, Failure> {
        let element = self.add(parent, Kind::Element, start.name().as_ref())?;
        for (index, attribute) in start.attributes().enumerate() {
            // Each is compared with those before it.
            if index >= MAX_ATTRIBUTES {
                return Err(Failure::text("an element of the XML document has too many attributes"));
            }
            let attribute = attribute.map_err(malformed)?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(malformed)?.into_owned();
            self.add_attribute(element, (attribute.key.as_ref().to_owned(), value))?;
        }
        Ok(element)
    }

    fn add_attribute(&mut self, element: usize, (name, value): (String, String)) -> Result<(), Failure> {
        self.1.take(ATTRIBUTE_BYTES + allocated(name.len()) + allocated(value.len()))?;
        self.0[element].attributes.push((name, value));
        Ok(())
    }

    /// Text that goes on after a reference is one node.
    fn text(&mut self, parent: usize, text: &str) -> Result<(), Failure> {
        let last = self.0[parent].children.last().copied();
        match last.and_then(|last| self.0.get_mut(last)).filter(|last| last.kind == Kind::Text) {
            Some(last) => {
                self.1.take(2 * text.len())?;
                last.data.push_str(text);
            }
            None => drop(self.add(parent, Kind::Text, text)?),
        }
        Ok(())
    }

    /// Adds a node behind the other children of its parent.
    pub(super) fn add(&mut self, parent: usize, kind: Kind, data: impl Into<String>) -> Result<usize, Failure> {
        if self.0.len() >= MAX_NODES {
            return Err(Failure::text("the XML document has too many nodes"));
        }
        let (index, data) = (self.0.len(), data.into());
        self.1.take(NODE_BYTES + allocated(data.len()))?;
        self.0.push(Node { kind, data, attributes: Vec::new(), parent, children: Vec::new() });
        self.0[parent].children.push(index);
        Ok(index)
    }

    /// Adds a copy of a node of another tree, with everything in it.
    pub(super) fn graft(&mut self, parent: usize, other: &Self, node: usize) -> Result<(), Failure> {
        let source = &other.0[node];
        let copy = self.add(parent, source.kind, source.data.clone())?;
        source.attributes.iter().try_for_each(|attribute| self.add_attribute(copy, attribute.clone()))?;
        source.children.iter().try_for_each(|child| self.graft(copy, other, *child))
    }

    /// Takes nodes out of the tree.
    pub(super) fn remove(&mut self, nodes: &HashSet<usize>) {
        let parents: HashSet<usize> = nodes.iter().map(|node| self.0[*node].parent).collect();
        for parent in parents {
            self.0[parent].children.retain(|child| !nodes.contains(child));
        }
    }

    /// The text in a node.
    pub(super) fn inner_text(&self, node: usize, out: &mut String) {
        let node = &self.0[node];
        match node.kind {
            Kind::Text | Kind::CharData => out.push_str(&node.data),
            _ => node.children.iter().for_each(|child| self.inner_text(*child, out)),
        }
    }

    /// Writes a node in parts. For the document, it writes what is in it.
    pub(super) fn write(&self, node: usize, out: Sink<'_>) {
        let node = &self.0[node];
        let (start, end) = match node.kind {
            Kind::Document => return node.children.iter().for_each(|child| self.write(*child, out)),
            Kind::Text => return write_text(&node.data, out),
            Kind::Element => {
                ["<", &node.data].into_iter().for_each(&mut *out);
                for (name, value) in &node.attributes {
                    [" ", name, "=\""].into_iter().for_each(&mut *out);
                    write_text(value, out);
                    out("\"");
                }
                out(">");
                node.children.iter().for_each(|child| self.write(*child, out));
                return ["</", &node.data, ">"].into_iter().for_each(out);
            }
            Kind::CharData => ("<![CDATA[", "]]>"),
            Kind::Comment => ("<!--", "-->"),
            Kind::Instruction => ("<?", "?>"),
            Kind::Directive => ("<!", ">"),
        };
        [start, &node.data, end].into_iter().for_each(out);
    }
}

/// Writes a text; characters that would not be text become references.
pub(super) fn write_text(text: &str, out: Sink<'_>) {
    for part in text.split_inclusive(['&', '<', '>', '"', '\'']) {
        let (before, reference) = match part.as_bytes().last() {
            Some(b'&') => (&part[..part.len() - 1], "&amp;"),
            Some(b'<') => (&part[..part.len() - 1], "&lt;"),
            Some(b'>') => (&part[..part.len() - 1], "&gt;"),
            Some(b'"') => (&part[..part.len() - 1], "&#34;"),
            Some(b'\'') => (&part[..part.len() - 1], "&#39;"),
            _ => (part, ""),
        };
        [before, reference].into_iter().for_each(&mut *out);
    }
}
