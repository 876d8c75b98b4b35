//! Decoding helpers: a YAML node with its field path, and a mapping whose fields are taken one by one.
//!
//! Everything that can be said about any document is said here (wrong type, missing field, unknown field with "did
//! you mean"), so that the modules of the kinds are lists of their fields. It knows no kind and no field by name.

use std::fmt::Write as _;
use std::rc::Rc;

use crate::diagnostic::{Diagnostic, Excerpt, Findings, Place, quoted, quoted_key};
use crate::document::suggest;
use crate::document::yaml::{At, Content, Entry, Yaml};

/// Longest key that is written into a field path as it is, in bytes.
const MAX_PLAIN_KEY: usize = 63;

/// A checked value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

/// A node of a document.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    yaml: &'a Yaml,
    place: Place,
    secret: bool,
    findings: &'a Findings,
}

impl<'a> Node<'a> {
    /// The root of a document.
    pub(crate) fn root(file: Rc<str>, yaml: &'a Yaml, findings: &'a Findings) -> Self {
        let place = place_at(file, yaml.at, String::new(), Excerpt::Key);
        Self { yaml, place, secret: false, findings }
    }

    /// The same node: from here on, no value is shown in any message.
    pub(crate) fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// The same node: its values may be shown again.
    pub(crate) fn public(mut self) -> Self {
        self.secret = false;
        self
    }

    pub(crate) fn findings(&self) -> &'a Findings {
        self.findings
    }

    /// Where the node stands. Only a scalar on one line that is not secret may be shown: one on several lines may
    /// have taken in a secret by a missing line.
    pub(crate) fn place(&self) -> Place {
        let scalar = !matches!(self.yaml.content, Content::List(_) | Content::Map(_));
        let excerpt = match (self.secret, scalar) {
            (false, true) if self.yaml.at.one_line => Excerpt::Line,
            (false, false) => Excerpt::Block,
            _ => Excerpt::Key,
        };
        Place { excerpt, ..self.place.clone() }
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(&self.place(), message)
    }

    /// Warns of a part that is read and checked, and does nothing yet.
    pub(crate) fn warn_not_active(&self, what: &str) {
        self.findings.push(Diagnostic::warning(&self.place(), format!("not active yet: {what}")));
    }

    pub(crate) fn string(&self) -> Option<Located<String>> {
        match &self.yaml.content {
            Content::Text(text) => Some(Located { value: text.clone(), place: self.place() }),
            Content::Number(_) | Content::Bool(_) => self.wrong_scalar("a string: put the value in quotes"),
            _ => self.wrong_type("a string"),
        }
    }

    /// The text, if it is one; nothing is reported.
    pub(crate) fn text(&self) -> Option<&'a str> {
        match &self.yaml.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is a text of no characters.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.yaml.content, Content::Text(text) if text.is_empty())
    }

    /// A string that is one of `choices`, a `what` ("protocol").
    pub(crate) fn choice<T: Copy>(&self, what: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.string()?;
        let found = choices.iter().find(|(name, _)| *name == text.value);
        if found.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.findings.push(
                self.error(format!("{} is not a {what}", text.place.shown(&text.value)))
                    .value(&text.value)
                    .expected(suggest::one_of(&names, &text.value)),
            );
        }
        found.map(|(_, value)| *value)
    }

    pub(crate) fn boolean(&self) -> Option<bool> {
        match &self.yaml.content {
            Content::Bool(value) => Some(*value),
            Content::Text(_) | Content::Number(_) => self.wrong_scalar("true or false"),
            _ => self.wrong_type("true or false"),
        }
    }

    /// A whole number from 1.
    pub(crate) fn positive_integer(&self) -> Option<u32> {
        const EXPECTED: &str = "a whole number, at least 1";
        match &self.yaml.content {
            Content::Number(text) => {
                let number = text.parse().ok().filter(|number| *number > 0);
                number.or_else(|| self.wrong_scalar(EXPECTED))
            }
            Content::Text(_) | Content::Bool(_) => self.wrong_scalar(EXPECTED),
            _ => self.wrong_type(EXPECTED),
        }
    }

    pub(crate) fn list(&self) -> Vec<Node<'a>> {
        let Content::List(items) = &self.yaml.content else {
            self.wrong_type::<()>("a list");
            return Vec::new();
        };
        let item = |(index, yaml): (usize, &'a Rc<Yaml>)| {
            let field = format!("{}[{index}]", self.place.field);
            Node { yaml, place: place_at(self.place.file.clone(), yaml.at, field, Excerpt::Key), ..self.clone() }
        };
        items.iter().enumerate().map(item).collect()
    }

    /// The list's items as strings.
    pub(crate) fn strings(&self) -> Vec<Located<String>> {
        self.list().iter().filter_map(Node::string).collect()
    }

    /// A mapping with keys of the user's choice.
    pub(crate) fn map(&self) -> Vec<(&'a str, Node<'a>)> {
        self.map_of(|_| true)
    }

    /// Of a mapping with keys of the user's choice, those that are wanted.
    pub(crate) fn map_of(&self, wanted: impl Fn(&str) -> bool) -> Vec<(&'a str, Node<'a>)> {
        let entries = self.entries().unwrap_or_default().iter().filter(|entry| wanted(&entry.key));
        entries.map(|entry| (entry.key.as_str(), self.child(entry))).collect()
    }

    /// A mapping with known fields.
    pub(crate) fn fields(&self) -> Option<Fields<'a>> {
        let entries = self.entries()?;
        Some(Fields { node: self.clone(), entries, known: Vec::new() })
    }

    fn entries(&self) -> Option<&'a [Entry]> {
        match &self.yaml.content {
            Content::Map(entries) => Some(entries),
            _ => self.wrong_type("a mapping"),
        }
    }

    fn child(&self, entry: &'a Entry) -> Node<'a> {
        let field = child_field(&self.place.field, &entry.key);
        // Nothing has no place of its own.
        let at = if matches!(entry.value.content, Content::Null) { entry.key_at } else { entry.value.at };
        let place = place_at(self.place.file.clone(), at, field, Excerpt::Key);
        Node { yaml: &entry.value, place, ..self.clone() }
    }

    /// Reports a scalar of the wrong type, which is shown unless it is secret.
    fn wrong_scalar<T>(&self, expected: &str) -> Option<T> {
        let (kind, text) = match &self.yaml.content {
            Content::Bool(value) => ("boolean", value.to_string()),
            Content::Number(text) => ("number", text.clone()),
            Content::Text(text) => ("string", quoted(text)),
            _ => return self.wrong_type(expected),
        };
        let place = self.place();
        let diagnostic = match place.excerpt {
            Excerpt::Key | Excerpt::Block => Diagnostic::error(&place, format!("found a {kind}")),
            Excerpt::Line => Diagnostic::error(&place, format!("found the {kind} {text}")).value(&text),
        };
        self.findings.push(diagnostic.expected(expected));
        None
    }

    /// Reports a node of the wrong shape. The value is not shown: where a mapping belongs, a scalar may be a secret
    /// written one level too high.
    fn wrong_type<T>(&self, expected: &str) -> Option<T> {
        let found = match &self.yaml.content {
            Content::Null => "nothing",
            Content::Bool(_) => "a boolean",
            Content::Number(_) => "a number",
            Content::Text(_) => "a string",
            Content::List(_) => "a list",
            Content::Map(_) => "a mapping",
        };
        let place = self.place().hidden();
        self.findings.push(Diagnostic::error(&place, format!("found {found}")).expected(expected));
        None
    }
}

/// A mapping whose fields are asked for by name. [`finish`](Self::finish) reports those nobody asked for.
pub(crate) struct Fields<'a> {
    node: Node<'a>,
    entries: &'a [Entry],
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The field's node; nothing when it is absent or null.
    pub(crate) fn optional(&mut self, key: &'static str) -> Option<Node<'a>> {
        self.known.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        (!matches!(entry.value.content, Content::Null)).then(|| self.node.child(entry))
    }

    /// The field's node; reports it when it is absent or null.
    pub(crate) fn required(&mut self, key: &'static str) -> Option<Node<'a>> {
        let found = self.optional(key);
        if found.is_none() {
            let place = Place { field: child_field(&self.node.place.field, key), ..self.node.place().hidden() };
            self.node.findings.push(Diagnostic::error(&place, "is required"));
        }
        found
    }

    /// Takes fields that may be there and mean nothing here.
    pub(crate) fn ignore(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
    }

    /// The mapping itself.
    pub(crate) fn node(&self) -> &Node<'a> {
        &self.node
    }

    /// Reports every field that is not known.
    pub(crate) fn finish(self) {
        self.unknown(|_| true).for_each(|entry| self.report_unknown(entry, "unknown field"));
    }

    /// For a mapping that others write to as well: reports what starts with `ours` and is not known. What belongs to
    /// others has to be text, and no more.
    pub(crate) fn finish_ours(self, ours: &str) {
        self.unknown(|key| key.starts_with(ours)).for_each(|entry| self.report_unknown(entry, "unknown annotation"));
        for entry in self.unknown(|key| !key.starts_with(ours)) {
            self.node.child(entry).string();
        }
    }

    fn unknown(&self, of: impl Fn(&str) -> bool) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| of(&entry.key) && !self.known.contains(&entry.key.as_str()))
    }

    fn report_unknown(&self, entry: &Entry, message: &str) {
        let field = child_field(&self.node.place.field, &entry.key);
        let place = place_at(self.node.place.file.clone(), entry.key_at, field, Excerpt::Key);
        let nothing_to_say = self.node.findings.is_full() || self.known.is_empty();
        let expected = if nothing_to_say { String::new() } else { suggest::one_of(&self.known, &entry.key) };
        self.node.findings.push(Diagnostic::error(&place, message).expected(expected));
    }
}

fn place_at(file: Rc<str>, at: At, field: String, excerpt: Excerpt) -> Place {
    Place { file, line: at.line, column: at.column, width: at.width, field, excerpt }
}

/// `parent.key`, or `parent["key"]` for a key that is not a plain name.
fn child_field(parent: &str, key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let plain = (1..=MAX_PLAIN_KEY).contains(&key.len()) && key.chars().all(plain);
    let mut field = parent.to_owned();
    if !plain {
        // Writing to a String cannot fail.
        let _ = write!(field, "[{}]", quoted_key(key));
        return field;
    }
    if !field.is_empty() {
        field.push('.');
    }
    field + key
}
