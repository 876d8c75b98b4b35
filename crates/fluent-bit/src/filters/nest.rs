//! `nest`: puts fields into an object, or lifts those of an object out of it.

use std::borrow::Cow;

use weir_plan::Section;

use super::fields::{Field, Fields, Misfit, Value};
use super::keys::Keys;
use crate::members::{MOST_FIELDS, Members};
use crate::text::Wrong;

pub(crate) struct Nest {
    operation: Operation,
    /// The name of the object.
    under: String,
    prefix: Prefix,
}

enum Operation {
    /// Fields with these names, or whose names begin like this.
    Nest(Vec<(String, bool)>),
    Lift,
}

enum Prefix {
    Same,
    Add(String),
    Remove(String),
}

impl Nest {
    pub(crate) fn compile(section: &Section) -> Result<Self, Vec<Wrong>> {
        let known =
            ["operation", "wildcard", "nest_under", "nested_under", "add_prefix", "prefix_with", "remove_prefix"];
        let mut keys = Keys::new("nest", section, &known);
        let nests = match keys.required("operation", "operation lift") {
            Some(line) if line.value.reveal() == "nest" => true,
            Some(line) if line.value.reveal() == "lift" => false,
            Some(line) => {
                keys.refuse(line, "has an unknown value", "nest or lift");
                false
            }
            None => false,
        };
        let text = |key: &str| keys.last(key).map(|line| line.value.reveal().to_owned());
        let (add, remove) = (text("add_prefix").or_else(|| text("prefix_with")), text("remove_prefix"));
        if let Some(line) = keys.last("remove_prefix").filter(|_| add.is_some()) {
            keys.refuse(line, "stands beside add_prefix", "one of the two");
        }
        let prefix = add.map(Prefix::Add).or(remove.map(Prefix::Remove)).unwrap_or(Prefix::Same);
        let (own, example) =
            if nests { ("nest_under", "nest_under NAME") } else { ("nested_under", "nested_under NAME") };
        let under = keys.required(own, example).map(|line| line.value.reveal().to_owned());
        let operation = if nests {
            keys.required("wildcard", "wildcard app_*");
            let wildcard = |text: &str| match text.strip_suffix('*') {
                Some(prefix) => (prefix.to_owned(), true),
                None => (text.to_owned(), false),
            };
            Operation::Nest(keys.all("wildcard").map(|line| wildcard(line.value.reveal())).collect())
        } else {
            Operation::Lift
        };
        keys.done(under.map(|under| Self { operation, under, prefix }))
    }

    pub(crate) fn apply<'a>(&'a self, record: &mut Fields<'a>) -> Result<bool, Misfit> {
        match &self.operation {
            Operation::Nest(wildcards) => self.nest(wildcards, record),
            Operation::Lift => self.lift(record),
        }
    }

    fn nest<'a>(&'a self, wildcards: &[(String, bool)], record: &mut Fields<'a>) -> Result<bool, Misfit> {
        let matches = |name: &str| {
            wildcards.iter().any(|(text, is_prefix)| if *is_prefix { name.starts_with(text) } else { name == text })
        };
        let mut inside = Fields { list: Vec::new(), room: record.room };
        for field in record.list.iter().filter(|field| matches(&field.name)) {
            let name = self.renamed(Cow::Borrowed(&*field.name), &mut inside)?;
            inside.put(name, field.value.borrowed())?;
        }
        if inside.list.is_empty() {
            return Ok(false);
        }
        let object = inside.object()?;
        record.room = inside.room;
        record.remove(|field| matches(&field.name));
        record.put(&self.under, object)?;
        Ok(true)
    }

    fn lift<'a>(&'a self, record: &mut Fields<'a>) -> Result<bool, Misfit> {
        let Some(at) = record.find(&self.under) else { return Ok(false) };
        let Value::Json(json) = &record.list[at].value else { return Ok(false) };
        let room = record.room;
        // What is a part of the line itself stays there.
        let lifted = match json {
            Cow::Borrowed(json) => self.lifted(json, room, Cow::Borrowed)?,
            Cow::Owned(json) => self.lifted(json, room, |value| Cow::Owned(value.to_owned()))?,
        };
        let Some(lifted) = lifted else { return Ok(false) };
        if record.list.len() + lifted.list.len() > MOST_FIELDS {
            return Err(Misfit::Fields);
        }
        record.room = lifted.room;
        record.list.remove(at);
        lifted.list.into_iter().try_for_each(|Field { name, value }| record.put(name, value))?;
        Ok(true)
    }

    /// The fields of an object; nothing for another value.
    fn lifted<'a, 't>(
        &self,
        json: &'t str,
        room: usize,
        keep: impl Fn(&'t str) -> Cow<'a, str>,
    ) -> Result<Option<Fields<'a>>, Misfit> {
        let mut members = Members::default();
        if members.read(json, MOST_FIELDS).is_err() {
            return Ok(None);
        }
        let mut lifted = Fields { list: Vec::new(), room };
        for member in members.of(json) {
            lifted.take(member.key.len() + member.value.len())?;
            let name = self.renamed(Cow::Owned(member.name().into_owned()), &mut lifted)?;
            lifted.put(name, Value::Json(keep(member.value)))?;
        }
        Ok(Some(lifted))
    }

    fn renamed<'a>(&self, name: Cow<'a, str>, room: &mut Fields<'_>) -> Result<Cow<'a, str>, Misfit> {
        match &self.prefix {
            Prefix::Add(prefix) => {
                room.take(prefix.len() + name.len())?;
                Ok(Cow::Owned(format!("{prefix}{name}")))
            }
            Prefix::Remove(prefix) => Ok(match (name.strip_prefix(prefix.as_str()).map(str::len), name) {
                (None, name) => name,
                (Some(length), Cow::Borrowed(name)) => Cow::Borrowed(&name[name.len() - length..]),
                (Some(length), Cow::Owned(name)) => Cow::Owned(name[name.len() - length..].to_owned()),
            }),
            Prefix::Same => Ok(name),
        }
    }
}
