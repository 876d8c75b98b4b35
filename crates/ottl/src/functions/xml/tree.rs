//! An XML document as a tree: read, and written again. Entities of the document's own are refused, never expanded.

use std::collections::HashSet;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Error, Reader, XmlVersion, escape};

use crate::scene::TOO_LARGE;
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

/// Nodes by their numbers, of which 0 is the document itself; and the memory that may still be taken for them.
#[derive(Debug)]
pub(super) struct Tree(pub(super) Vec<Node>, usize);

/// A node with its place among its parent's. Lists may have twice the room that they need.
const NODE_BYTES: usize = 2 * size_of::<Node>() + 4 * size_of::<usize>();
const ATTRIBUTE_BYTES: usize = 2 * size_of::<(String, String)>();

/// The name without its prefix.
pub(super) fn local(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// What is wrong with a document, without the names and references in it.
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
    /// A document without anything in it, which may take so many bytes of memory.
    pub(super) fn empty(room: usize) -> Self {
        let (data, attributes, children) = (String::new(), Vec::new(), Vec::new());
        Self(vec![Node { kind: Kind::Document, data, attributes, parent: 0, children }], room)
    }

    /// Takes memory, before it is there.
    ///
    /// # Errors
    /// When there is not so much.
    pub(super) fn pay(&mut self, bytes: usize) -> Result<(), Failure> {
        self.1 = self.1.checked_sub(bytes).ok_or(TOO_LARGE)?;
        Ok(())
    }

    pub(super) fn parse(text: &str, room: usize) -> Result<Self, Failure> {
        if text.len() > MAX_LENGTH {
            return Err(Failure::text("the XML document is too long to look into"));
        }
        let mut tree = Self::empty(room);
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
            let name = attribute.key.as_ref().to_owned();
            self.pay(ATTRIBUTE_BYTES + allocated(name.len()) + allocated(value.len()))?;
            let attributes = &mut self.0[element].attributes;
            if attributes.len() == attributes.capacity() {
                attributes.reserve_exact(attributes.len().max(1));
            }
            attributes.push((name, value));
        }
        Ok(element)
    }

    /// Text that goes on after a reference is one node.
    fn text(&mut self, parent: usize, text: &str) -> Result<(), Failure> {
        let last = self.0[parent].children.last().copied();
        self.pay(2 * text.len())?;
        match last.and_then(|last| self.0.get_mut(last)).filter(|last| last.kind == Kind::Text) {
            Some(last) => last.data.push_str(text),
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
        self.pay(NODE_BYTES + allocated(data.len()))?;
        self.0.push(Node { kind, data, attributes: Vec::new(), parent, children: Vec::new() });
        self.0[parent].children.push(index);
        Ok(index)
    }

    /// Adds a copy of a node of another tree, with everything in it.
    pub(super) fn graft(&mut self, parent: usize, other: &Self, node: usize) -> Result<(), Failure> {
        let source = &other.0[node];
        let attribute =
            |(name, value): &(String, String)| ATTRIBUTE_BYTES + allocated(name.len()) + allocated(value.len());
        self.pay(source.attributes.iter().map(attribute).sum())?;
        let copy = self.add(parent, source.kind, source.data.clone())?;
        self.0[copy].attributes.clone_from(&source.attributes);
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

    /// Writes a node; the document as what is in it.
    pub(super) fn write(&self, node: usize, out: &mut String) {
        let node = &self.0[node];
        let (start, end) = match node.kind {
            Kind::Document => return node.children.iter().for_each(|child| self.write(*child, out)),
            Kind::Text => return write_text(&node.data, out),
            Kind::Element => {
                out.extend(["<", &node.data]);
                for (name, value) in &node.attributes {
                    out.extend([" ", name, "=\""]);
                    write_text(value, out);
                    out.push('"');
                }
                out.push('>');
                node.children.iter().for_each(|child| self.write(*child, out));
                return out.extend(["</", &node.data, ">"]);
            }
            Kind::CharData => ("<![CDATA[", "]]>"),
            Kind::Comment => ("<!--", "-->"),
            Kind::Instruction => ("<?", "?>"),
            Kind::Directive => ("<!", ">"),
        };
        out.extend([start, &node.data, end]);
    }
}

pub(super) fn write_text(text: &str, out: &mut String) {
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            char => out.push(char),
        }
    }
}
