//! A mapping whose fields are taken one by one: what is missing, unknown, or does not go together.

use super::{Excerpt, Located, Node, child_field, place_at};
use crate::diagnostic::{Diagnostic, Findings, Place};
use crate::document::suggest;
use crate::document::table::{Api, DefaultValue, Field, Group, Object, Older, Rule, Type, Version};
use crate::document::yaml::{Content, Entry};

/// A mapping whose fields are asked for by name. [`finish`](Self::finish) checks those nobody asked for.
pub(crate) struct Fields<'a> {
    node: Node<'a>,
    entries: &'a [Entry],
    taken: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(node: Node<'a>, entries: &'a [Entry]) -> Self {
        Self { node, entries, taken: Vec::new() }
    }

    /// The field's node; nothing when it is absent or null, or the version of the document has no such field.
    pub(crate) fn optional(&mut self, name: &'static str) -> Option<Node<'a>> {
        self.taken.push(name);
        let Type::Object(_) = self.node.of else { return self.child(name, Type::Any) };
        let field = self.field(name);
        self.node.expect(field.is_some());
        let field = field?;
        self.given(field, field.key(self.node.api.version)?)
    }

    /// The field's node; reports it when it is absent or null.
    pub(crate) fn required(&mut self, name: &'static str) -> Option<Node<'a>> {
        let found = self.optional(name);
        let field = self.field(name);
        self.node.expect(field.is_some_and(|field| field.required));
        if found.is_none() {
            self.report_missing(field.and_then(|field| field.key(self.node.api.version)).unwrap_or(name));
        }
        found
    }

    /// A boolean: as given or, where it is not given or wrong, as the table has it.
    pub(crate) fn boolean(&mut self, name: &'static str) -> bool {
        let default = self.default_of(name);
        self.node.expect(matches!(default, DefaultValue::Boolean(_)));
        let given = self.optional(name).and_then(|node| node.boolean());
        given.unwrap_or(default == DefaultValue::Boolean(true))
    }

    /// A text: as given or as the table has it. `None` if neither has one, or it was reported.
    pub(crate) fn text(&mut self, name: &'static str) -> Option<Located<String>> {
        let default = self.default_of(name);
        match (self.optional(name), default) {
            (Some(node), _) => node.string(),
            (None, DefaultValue::Text(text)) => Some(Located { value: text.to_owned(), place: self.node.place() }),
            (None, _) => None,
        }
    }

    /// One of the names of the table, which are these: as given or as the table has it. `None` was reported.
    pub(crate) fn choice<T: Copy>(&mut self, name: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let default = self.default_of(name);
        let default = choices.iter().find(|(choice, _)| matches!(default, DefaultValue::Text(text) if text == *choice));
        self.node.expect(default.is_some());
        match self.optional(name) {
            Some(node) => node.choice(choices),
            None => default.map(|(_, value)| *value),
        }
    }

    /// The fields of a mapping. One that is not given, or is none, has no fields, so that all of them are as the table
    /// has them.
    pub(crate) fn mapping(&mut self, name: &'static str) -> Fields<'a> {
        let given = self.optional(name).and_then(|node| node.fields());
        given.unwrap_or_else(|| {
            let of = self.field(name).map_or(Type::Any, |field| field.of);
            Fields::new(Node { of, ..self.node.clone() }, &[])
        })
    }

    /// Whether the fields that go together do.
    pub(crate) fn are_together(&self) -> bool {
        self.broken_groups().next().is_none()
    }

    /// Where what is wrong is reported.
    pub(crate) fn findings(&self) -> &'a Findings {
        self.node.findings
    }

    /// The mapping itself.
    pub(crate) fn node(&self) -> &Node<'a> {
        &self.node
    }

    /// Reports every field that is not known and fields that do not go together, and checks those that nobody asked for.
    pub(crate) fn finish(self) {
        self.broken_groups().for_each(|group| self.report_group(group));
        self.unknown(|_| true).for_each(|entry| self.report_unknown(entry, "unknown field"));
        let is_checked =
            |field: &&Field| !self.taken.contains(&field.name) || field.key(self.node.api.version).is_none();
        self.table().filter(is_checked).for_each(|field| self.check(field));
    }

    /// For a mapping that others write to as well: reports what starts with `ours` and is not known. What belongs to
    /// others only has to be text.
    pub(crate) fn finish_ours(self, ours: &str) {
        self.node.expect(self.object().is_some_and(|object| object.open));
        self.unknown(|key| key.starts_with(ours)).for_each(|entry| self.report_unknown(entry, "unknown annotation"));
        for entry in self.unknown(|key| !key.starts_with(ours)) {
            self.node.child(entry, Type::Any).string();
        }
    }

    fn object(&self) -> Option<&'static Object> {
        if let Type::Object(object) = self.node.of { Some(object) } else { None }
    }

    fn table(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.object().into_iter().flat_map(Object::fields)
    }

    fn field(&self, name: &str) -> Option<&'static Field> {
        self.table().find(|field| field.name == name)
    }

    fn default_of(&self, name: &str) -> DefaultValue {
        self.field(name).map_or(DefaultValue::None, |field| field.default)
    }

    /// The groups of which too many or too few fields are given.
    fn broken_groups(&self) -> impl Iterator<Item = &'static Group> {
        let groups = self.object().into_iter().flat_map(|object| object.groups_in(self.node.api.version));
        groups.filter(|group| {
            let given = group.names.iter().filter(|name| self.counts_as_given(group, name));
            !group.allows(given.count())
        })
    }

    fn counts_as_given(&self, group: &Group, name: &str) -> bool {
        let field = self.field(name);
        self.node.expect(field.is_some());
        let key = field.and_then(|field| field.key(self.node.api.version));
        let node = field.zip(key).and_then(|(field, key)| self.child(key, field.of));
        node.is_some_and(|node| !(group.empty_is_missing && node.says_nothing()))
    }

    fn report_group(&self, group: &Group) {
        let (_, key) = self.node.place.field.rsplit_once('.').unwrap_or_default();
        let place = self.node.place();
        // What stands where a value is missing may be the value.
        let place = if group.rule == Rule::AtLeastOne { place.hidden() } else { place };
        self.node.findings.push(Diagnostic::error(&place, group.message.replace("{field}", key)));
    }

    fn given(&self, field: &Field, key: &str) -> Option<Node<'a>> {
        let node = self.child(key, field.of)?;
        let secret = field.secret.unwrap_or(node.secret);
        let opposite = field.is_opposite(self.node.api.version);
        Some(Node { secret, opposite, ..node })
    }

    fn child(&self, key: &str, of: Type) -> Option<Node<'a>> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        (!matches!(entry.value.content, Content::Null)).then(|| self.node.child(entry, of))
    }

    fn check(&self, field: &Field) {
        let Some(key) = field.key(self.node.api.version) else {
            if let (Older::Missing, Some(node)) = (field.older, self.given(field, field.name)) {
                let Api { group, version } = self.node.api;
                let diagnostic = node.error(format!("{} is not available in {}", field.name, version.name()));
                let expected = format!("apiVersion {group}/{}", Version::V1Beta1.name());
                self.node.findings.push(diagnostic.expected(expected));
            }
            return;
        };
        match self.given(field, key) {
            Some(node) => node.check(),
            None if field.required => self.report_missing(key),
            None => {}
        }
    }

    fn unknown(&self, of: impl Fn(&str) -> bool) -> impl Iterator<Item = &'a Entry> {
        let is_known = |entry: &Entry| {
            self.table().any(|field| {
                let missing = matches!(field.older, Older::Missing) && field.name == entry.key;
                missing || field.key(self.node.api.version).is_some_and(|key| key == entry.key)
            })
        };
        self.entries.iter().filter(move |entry| of(&entry.key) && !is_known(entry))
    }

    fn report_missing(&self, key: &str) {
        let place = Place { field: child_field(&self.node.place.field, key), ..self.node.place().hidden() };
        self.node.findings.push(Diagnostic::error(&place, "is required"));
    }

    fn report_unknown(&self, entry: &Entry, message: &str) {
        let field = child_field(&self.node.place.field, &entry.key);
        let place = place_at(self.node.place.file.clone(), entry.key_at, field, Excerpt::Key);
        let known: Vec<_> = self.table().filter_map(|field| field.key(self.node.api.version)).collect();
        let nothing_to_say = self.node.findings.is_full() || known.is_empty();
        let expected = if nothing_to_say { String::new() } else { suggest::one_of(&known, &entry.key) };
        self.node.findings.push(Diagnostic::error(&place, message).expected(expected));
    }
}
