//! Decoding helpers: a YAML node with its field path, and a mapping whose fields are taken one by one (`fields`).
//!
//! Everything that can be said about any document is said here: wrong type, missing field, unknown field with "did you
//! mean". A node knows this from its table. In debug builds, code that reads anything but what the table says panics. A
//! node without a table gives what it is asked for. This module knows no kind and no field by name.

mod fields;

use std::fmt::Write as _;
use std::rc::Rc;

use crate::diagnostic::{Diagnostic, Excerpt, Findings, Place, quoted, quoted_key};
use crate::document::suggest;
use crate::document::table::{Api, Object, Type, Version};
use crate::document::yaml::{At, Content, Entry, Yaml};

pub(crate) use fields::Fields;

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
    /// What it should be.
    of: Type,
    /// A boolean that says the opposite of what the table means.
    opposite: bool,
    api: Api,
    findings: &'a Findings,
}

impl<'a> Node<'a> {
    /// The root of a document.
    pub(crate) fn root(file: Rc<str>, yaml: &'a Yaml, findings: &'a Findings) -> Self {
        let place = place_at(file, yaml.at, String::new(), Excerpt::Key);
        let api = Api { group: "", version: Version::V1Beta1 };
        Self { yaml, place, secret: false, of: Type::Any, opposite: false, api, findings }
    }

    /// The same node, read by a table.
    pub(crate) fn of(&self, object: &'static Object, api: Api) -> Self {
        Self { of: Type::Object(object), api, ..self.clone() }
    }

    /// The version of its document.
    pub(crate) fn version(&self) -> Version {
        self.api.version
    }

    /// The code that reads a node and the table that checks it have to agree.
    fn expect(&self, expected: bool) {
        debug_assert!(expected || matches!(self.of, Type::Any), "the table says otherwise of {}", self.place.field);
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

    /// Where the node stands. Only a scalar on one line that is not secret may be shown: because of a missing line, a
    /// scalar on several lines may include a secret.
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

    pub(crate) fn string(&self) -> Option<Located<String>> {
        self.expect(matches!(self.of, Type::Text(_) | Type::Formed(_) | Type::OneOf(..)));
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

    /// The text, or the digits of a number, if it is one; nothing is reported.
    pub(crate) fn scalar(&self) -> Option<&'a str> {
        match &self.yaml.content {
            Content::Text(text) | Content::Number(text) => Some(text),
            _ => None,
        }
    }

    /// Its fields if it is a mapping; nothing is reported.
    pub(crate) fn part(&self) -> Option<Fields<'a>> {
        matches!(self.yaml.content, Content::Map(_)).then(|| self.fields()).flatten()
    }

    /// Its items if it is a list; nothing is reported.
    pub(crate) fn items(&self) -> Vec<Node<'a>> {
        if matches!(self.yaml.content, Content::List(_)) { self.list() } else { Vec::new() }
    }

    /// Whether it is a text whose lines stand as they are in the document.
    pub(crate) fn is_literal(&self) -> bool {
        self.yaml.at.literal
    }

    /// Whether it is a text of no characters.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(&self.yaml.content, Content::Text(text) if text.is_empty())
    }

    /// Whether it is an empty text, or a mapping with no text but empty ones, and with nothing else.
    fn says_nothing(&self) -> bool {
        let is_empty = |yaml: &Yaml| match &yaml.content {
            Content::Null => true,
            Content::Text(text) => text.is_empty(),
            _ => false,
        };
        match (self.of, &self.yaml.content) {
            (Type::Object(_), Content::Map(entries)) => entries.iter().all(|entry| is_empty(&entry.value)),
            (Type::Text(_) | Type::Formed(_), _) => is_empty(self.yaml),
            _ => false,
        }
    }

    /// A string that is one of the names of the table, which are these.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let Type::OneOf(what, names) = self.of else { return None };
        self.expect(choices.iter().map(|(name, _)| name).eq(names));
        let chosen = self.one_of(what, names)?;
        choices.get(chosen).map(|(_, value)| *value)
    }

    /// Which of these names of a `what` ("protocol") it is.
    pub(crate) fn one_of(&self, what: &str, names: &[&str]) -> Option<usize> {
        let text = self.string()?;
        let found = names.iter().position(|name| *name == text.value);
        if found.is_none() {
            self.findings.push(
                self.error(format!("{} is not a {what}", text.place.shown(&text.value)))
                    .value(&text.value)
                    .expected(suggest::one_of(names, &text.value)),
            );
        }
        found
    }

    pub(crate) fn boolean(&self) -> Option<bool> {
        self.expect(matches!(self.of, Type::Boolean));
        match &self.yaml.content {
            Content::Bool(value) => Some(*value != self.opposite),
            Content::Text(_) | Content::Number(_) => self.wrong_scalar("true or false"),
            _ => self.wrong_type("true or false"),
        }
    }

    /// A whole number from 1.
    pub(crate) fn positive_integer(&self) -> Option<u32> {
        const EXPECTED: &str = "a whole number, at least 1";
        self.expect(matches!(self.of, Type::Count));
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
        self.expect(matches!(self.of, Type::List(_)));
        let of = if let Type::List(of) = self.of { *of } else { Type::Any };
        let item = |(index, yaml): (usize, &'a Rc<Yaml>)| {
            let field = format!("{}[{index}]", self.place.field);
            Node { yaml, place: place_at(self.place.file.clone(), yaml.at, field, Excerpt::Key), of, ..self.clone() }
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

    /// The wanted entries of a mapping with keys of the user's choice.
    pub(crate) fn map_of(&self, wanted: impl Fn(&str) -> bool) -> Vec<(&'a str, Node<'a>)> {
        self.expect(matches!(self.of, Type::Map(_)));
        let of = if let Type::Map(of) = self.of { *of } else { Type::Any };
        let entries = self.entries().unwrap_or_default().iter().filter(|entry| wanted(&entry.key));
        entries.map(|entry| (entry.key.as_str(), self.child(entry, of))).collect()
    }

    /// A mapping with known fields.
    pub(crate) fn fields(&self) -> Option<Fields<'a>> {
        self.expect(matches!(self.of, Type::Object(_)));
        let entries = self.entries()?;
        Some(Fields::new(self.clone(), entries))
    }

    /// Checks a node that nobody reads against the table, all the way down.
    pub(crate) fn check(&self) {
        match self.of {
            Type::Any => {}
            Type::Text(_) | Type::Formed(_) => drop(self.string()),
            Type::Boolean => drop(self.boolean()),
            Type::Count => drop(self.positive_integer()),
            Type::OneOf(what, names) => drop(self.one_of(what, names)),
            Type::List(_) => self.list().iter().for_each(Node::check),
            Type::Map(_) => self.map().iter().for_each(|(_, node)| node.check()),
            Type::Object(_) => self.fields().into_iter().for_each(Fields::finish),
        }
    }

    fn entries(&self) -> Option<&'a [Entry]> {
        match &self.yaml.content {
            Content::Map(entries) => Some(entries),
            _ => self.wrong_type("a mapping"),
        }
    }

    fn child(&self, entry: &'a Entry, of: Type) -> Node<'a> {
        let field = child_field(&self.place.field, &entry.key);
        // Nothing has no place of its own.
        let at = if matches!(entry.value.content, Content::Null) { entry.key_at } else { entry.value.at };
        let place = place_at(self.place.file.clone(), at, field, Excerpt::Key);
        Node { yaml: &entry.value, place, of, ..self.clone() }
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
