//! YAML text to a tree of nodes with positions.
//!
//! It knows the YAML that Kubernetes tools write and read (booleans such as `yes` included) and nothing of what the
//! documents mean. Its cost is bounded for any input: nesting depth and the expansion of aliases have limits, and the
//! text is read as events, without recursion. Every document of a file is read on its own, so that a syntax error in
//! one leaves the others to be checked.

mod scalar;

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use crate::diagnostic::{Diagnostic, Excerpt, Place, quoted_key};

/// Nesting that no real document reaches.
const MAX_DEPTH: usize = 64;

/// What aliases may add to one file, in [`Yaml::weight`] units (about bytes). Enough for a shared block of settings
/// used in many pipelines; far below what an exponential expansion needs to hurt.
const MAX_ALIAS_WEIGHT: usize = 1 << 20;

/// How many bytes a document needs for each of its keys, values and collections, except for the first ones. Their
/// memory does not depend on their text: a document with fewer bytes for each would take many times as much memory as
/// others of its length. Real documents have more, even as compact JSON.
const BYTES_PER_NODE: usize = 4;
const FREE_NODES: usize = 16 * 1024;

/// Syntax errors kept per file. More would help nobody.
const MAX_ERRORS: usize = 1000;

/// What a node weighs beside its text.
const NODE_WEIGHT: usize = 32;

/// A node with its position. It has no `Debug`: its text may be secret.
pub(crate) struct Yaml {
    pub(crate) at: At,
    pub(crate) content: Content,
    /// Size with all aliases expanded.
    weight: usize,
}

/// What a node is.
pub(crate) enum Content {
    /// Nothing, `~` or `null`.
    Null,
    /// A plain boolean.
    Bool(bool),
    /// A plain number, as written.
    Number(String),
    /// Any other scalar.
    Text(String),
    /// A sequence.
    List(Vec<Rc<Yaml>>),
    /// A mapping in the order of the text, keys unique.
    Map(Vec<Entry>),
}

/// A key and its value.
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_at: At,
    pub(crate) value: Rc<Yaml>,
}

/// Where a node starts: line and column from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// In characters; 1 when the node ends on another line.
    pub(crate) width: usize,
    /// Whether it ends on the line on which it starts.
    pub(crate) one_line: bool,
    /// A text whose lines stand as they are, from this line on (`|`).
    pub(crate) literal: bool,
}

/// What is wrong with the text itself.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) at: At,
    pub(crate) message: String,
}

impl SyntaxError {
    pub(crate) fn diagnostic(self, file: &Rc<str>) -> Diagnostic {
        let At { line, column, width, .. } = self.at;
        let place = Place { file: file.clone(), line, column, width, field: String::new(), excerpt: Excerpt::Key };
        Diagnostic::error(&place, self.message)
    }
}

/// The documents of one file, empty ones left out, and the syntax errors in it.
pub(crate) struct Documents {
    pub(crate) roots: Vec<Rc<Yaml>>,
    pub(crate) errors: Vec<SyntaxError>,
}

impl Documents {
    fn error(&mut self, error: SyntaxError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }
}

/// Reads all documents of a text.
pub(crate) fn parse(text: &str) -> Documents {
    let mut roots = Vec::new();
    let errors = each(text, |root| roots.push(root));
    Documents { roots, errors }
}

/// Gives each document of a text, empty ones left out, before it reads the next one: the nodes of a large text take
/// many times as much memory. Returns the syntax errors.
pub(crate) fn each(text: &str, mut take: impl FnMut(Rc<Yaml>)) -> Vec<SyntaxError> {
    let mut documents = Documents { roots: Vec::new(), errors: Vec::new() };
    let mut alias_budget = MAX_ALIAS_WEIGHT;
    for (first_line, text) in split(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        let mut builder = Builder::new(first_line, alias_budget, documents);
        if let Err(error) = builder.read(text) {
            builder.documents.error(error);
        }
        alias_budget = builder.alias_budget;
        documents = builder.documents;
        documents.roots.drain(..).filter(|root| !matches!(root.content, Content::Null)).for_each(&mut take);
    }
    documents.errors
}

/// Cuts a text before each `---` line: at the start of a line it is a document marker wherever it stands (YAML 1.2
/// 9.1.2). Lines with only comments or directives stay with the document that follows them. Gives the number of lines
/// before each part.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut start_line, mut has_content, mut offset) = (0, 0, false, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if has_content && is_marker(line) {
            parts.push((start_line, &text[start..offset]));
            (start, start_line) = (offset, number);
        }
        let trimmed = line.trim();
        has_content |= !(trimmed.is_empty() || trimmed.starts_with(['#', '%']));
        offset += line.len();
    }
    parts.push((start_line, &text[start..]));
    parts
}

fn is_marker(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// A collection that is being read.
struct Frame {
    at: At,
    anchor: usize,
    weight: usize,
    kind: FrameKind,
}

enum FrameKind {
    List(Vec<Rc<Yaml>>),
    Map { entries: Vec<Entry>, lines: HashMap<String, usize>, pending: Option<(String, At)> },
}

struct Builder {
    line_offset: usize,
    alias_budget: usize,
    /// How many more the document may have.
    nodes: usize,
    anchors: HashMap<usize, Rc<Yaml>>,
    stack: Vec<Frame>,
    documents: Documents,
}

impl Builder {
    fn new(line_offset: usize, alias_budget: usize, documents: Documents) -> Self {
        Self { line_offset, alias_budget, nodes: FREE_NODES, anchors: HashMap::new(), stack: Vec::new(), documents }
    }

    fn read(&mut self, text: &str) -> Result<(), SyntaxError> {
        self.nodes = FREE_NODES + text.len() / BYTES_PER_NODE;
        let mut parser = Parser::new_from_str(text);
        while let Some(next) = parser.next_event() {
            let (event, span) = next.map_err(|error| self.scan_error(&error))?;
            self.event(event, span)?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), SyntaxError> {
        let at = self.at(span);
        if matches!(event, Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..) | Event::Alias(_)) {
            let message = || format!("too many values: of each, a document has {BYTES_PER_NODE} bytes and more");
            self.nodes = self.nodes.checked_sub(1).ok_or_else(|| SyntaxError { at, message: message() })?;
        }
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let content = scalar::resolve(&text, style, tag.as_deref())
                    .map_err(|message| SyntaxError { at, message: message.to_owned() })?;
                let at = At { literal: style == ScalarStyle::Literal, ..at };
                self.scalar(at, anchor, text.into_owned(), content);
                Ok(())
            }
            Event::SequenceStart(anchor, tag) => self.open(at, anchor, tag.as_deref(), FrameKind::List(Vec::new())),
            Event::MappingStart(anchor, tag) => {
                let kind = FrameKind::Map { entries: Vec::new(), lines: HashMap::new(), pending: None };
                self.open(at, anchor, tag.as_deref(), kind)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.close();
                Ok(())
            }
            Event::Alias(anchor) => self.alias(at, anchor),
        }
    }

    fn scalar(&mut self, at: At, anchor: usize, text: String, content: Content) {
        let node = Rc::new(Yaml { at, content, weight: NODE_WEIGHT + text.len() });
        self.remember(anchor, &node);
        match self.pending_key() {
            // A key is the text as written: `on: x` has the key "on".
            Some(pending @ None) => *pending = Some((text, at)),
            _ => self.attach(node),
        }
    }

    /// The slot for the next key, when the innermost collection is a mapping.
    fn pending_key(&mut self) -> Option<&mut Option<(String, At)>> {
        match &mut self.stack.last_mut()?.kind {
            FrameKind::Map { pending, .. } => Some(pending),
            FrameKind::List(_) => None,
        }
    }

    fn open(&mut self, at: At, anchor: usize, tag: Option<&Tag>, kind: FrameKind) -> Result<(), SyntaxError> {
        scalar::check_collection_tag(tag).map_err(|message| SyntaxError { at, message: message.to_owned() })?;
        if let Some(None) = self.pending_key() {
            return Err(SyntaxError { at, message: "a mapping key must be a string".to_owned() });
        }
        if self.stack.len() == MAX_DEPTH {
            return Err(SyntaxError { at, message: format!("nested deeper than {MAX_DEPTH} levels") });
        }
        self.stack.push(Frame { at, anchor, weight: NODE_WEIGHT, kind });
        Ok(())
    }

    fn close(&mut self) {
        // The parser pairs every end with its start.
        let Some(Frame { at, anchor, weight, kind }) = self.stack.pop() else { return };
        let content = match kind {
            FrameKind::List(items) => Content::List(items),
            FrameKind::Map { entries, .. } => Content::Map(entries),
        };
        let node = Rc::new(Yaml { at, content, weight });
        self.remember(anchor, &node);
        self.attach(node);
    }

    fn alias(&mut self, at: At, anchor: usize) -> Result<(), SyntaxError> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(SyntaxError { at, message: "the alias stands inside the node it names".to_owned() });
        };
        self.alias_budget = self.alias_budget.checked_sub(node.weight).ok_or_else(|| SyntaxError {
            at,
            message: format!("aliases expand to more than {} KiB", MAX_ALIAS_WEIGHT / 1024),
        })?;
        if let Some(pending @ None) = self.pending_key() {
            let Content::Text(key) = &node.content else {
                return Err(SyntaxError { at, message: "a mapping key must be a string".to_owned() });
            };
            *pending = Some((key.clone(), at));
            return Ok(());
        }
        self.attach(node);
        Ok(())
    }

    /// Anchors count from 1; 0 is none.
    fn remember(&mut self, anchor: usize, node: &Rc<Yaml>) {
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(node));
        }
    }

    fn attach(&mut self, node: Rc<Yaml>) {
        let Some(frame) = self.stack.last_mut() else {
            self.documents.roots.push(node);
            return;
        };
        frame.weight = frame.weight.saturating_add(node.weight);
        match &mut frame.kind {
            FrameKind::List(items) => items.push(node),
            FrameKind::Map { entries, lines, pending } => {
                let Some((key, key_at)) = pending.take() else { return };
                frame.weight = frame.weight.saturating_add(key.len());
                if let Some(first) = lines.get(&key) {
                    let key = quoted_key(&key);
                    let message = format!("duplicate key {key}, first given on line {first}");
                    self.documents.error(SyntaxError { at: key_at, message });
                    return;
                }
                lines.insert(key.clone(), key_at.line);
                entries.push(Entry { key, key_at, value: node });
            }
        }
    }

    fn at(&self, span: Span) -> At {
        let one_line = span.start.line() == span.end.line();
        let width = if one_line { span.len().max(1) } else { 1 };
        At { width, one_line, ..self.mark(span.start) }
    }

    fn mark(&self, mark: Marker) -> At {
        At {
            line: self.line_offset + mark.line().max(1),
            column: mark.col() + 1,
            width: 1,
            one_line: true,
            literal: false,
        }
    }

    fn scan_error(&self, error: &ScanError) -> SyntaxError {
        SyntaxError { at: self.mark(*error.marker()), message: format!("invalid YAML: {}", error.info()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let errors = each(text, |_| ()).into_iter();
        errors.map(|SyntaxError { at, message }| format!("{}:{}: {message}", at.line, at.column)).collect()
    }

    #[test]
    fn a_document_has_no_more_values_than_its_length_can_explain() {
        let message = "too many values: of each, a document has 4 bytes and more";
        for kind in ["[],", "a: ,", "{a: },"] {
            let (few, many) = (kind.repeat(5_000), kind.repeat(70_000));
            assert_eq!(errors(&format!("x: [{few}]\n")), Vec::<String>::new(), "{kind}");
            let error = errors(&format!("fine: 1\n---\nx: [{many}]\n---\nfine: 1\n"));
            assert!(error.len() == 1 && error[0].starts_with("3:") && error[0].ends_with(message), "{kind} {error:?}");
        }
        let pod = r#"{"name":"cart","ready":true,"restartCount":0,"started":true,"f:a":{".":{}}},"#;
        assert_eq!(errors(&format!("[{}]", pod.repeat(10_000))), Vec::<String>::new());
    }
}
