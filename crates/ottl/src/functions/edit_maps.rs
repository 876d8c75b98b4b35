//! Editors of maps: keys removed, kept, merged, counted, shortened.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Function, Kind, MAP, STRING, function, optional, required};
use crate::program::{Arguments, Expr, Syntax};
use crate::scene::Scene;
use crate::value::places::Distinct;
use crate::value::text::char_boundary;
use crate::value::{Entries, Failure, Value, entry_heap};

const TARGET: super::Parameter = required("target", Kind::MapPath);
const PATTERN: super::Parameter = required("pattern", Kind::Pattern(Syntax::Regex));

pub(super) const FUNCTIONS: &[Function] = &[
    function("delete_key", &[TARGET, required("key", STRING)], delete_key),
    function("delete_matching_keys", &[TARGET, PATTERN], delete_matching_keys),
    function("keep_keys", &[TARGET, required("keys", Kind::Values)], keep_keys).checked(|arguments| {
        let mut literals = arguments.expressions(1).iter().filter_map(Expr::as_literal);
        match literals.find(|value| !matches!(value, Value::String(_))) {
            Some(value) => Err(format!("a key must be a string, not a {}", value.type_name())),
            None => Ok(()),
        }
    }),
    function("keep_matching_keys", &[TARGET, PATTERN], keep_matching_keys),
    function(
        "merge_maps",
        &[TARGET, required("source", MAP), required("strategy", Kind::OneOf(&["insert", "update", "upsert"]))],
        merge_maps,
    ),
    function("limit", &[TARGET, required("limit", Kind::Int), required("priority_keys", Kind::Texts)], limit).checked(
        |arguments| {
            let priority = i64::try_from(arguments.literal_texts(2).len()).unwrap_or(i64::MAX);
            match arguments.literal_int(1) {
                Some(limit) if limit >= priority => Ok(()),
                _ => Err("the limit must be at least the number of priority keys".to_owned()),
            }
        },
    ),
    function(
        "truncate_all",
        &[
            TARGET,
            required("limit", Kind::Int),
            optional("utf8_safe", Kind::Bool),
            optional("truncation_marker", Kind::Text),
        ],
        truncate_all,
    )
    .checked(|arguments| {
        let marker = i64::try_from(arguments.literal_text(3).unwrap_or_default().len()).unwrap_or(i64::MAX);
        match arguments.literal_int(1) {
            Some(limit) if limit >= marker => Ok(()),
            _ => Err("the limit must not be negative or less than the length of the marker".to_owned()),
        }
    }),
    function(
        "flatten",
        &[
            TARGET,
            optional("prefix", Kind::Text),
            optional("depth", Kind::Int),
            optional("resolve_conflicts", Kind::Bool),
        ],
        flatten,
    )
    .checked(|arguments| match arguments.literal_int(2) {
        Some(depth) if depth < 1 => Err("the depth must be at least 1".to_owned()),
        _ => Ok(()),
    }),
    function("stringify_all", &[TARGET], stringify_all),
    function("clear", &[TARGET], clear),
];

fn delete_key<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let key = arguments.text(1, scene)?;
    scene.edit_map(arguments.path(0)?, |map| map.remove(&key))?;
    Ok(Value::Nil)
}

fn delete_matching_keys<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let pattern = arguments.pattern(1, scene)?;
    scene.edit_map(arguments.path(0)?, |map| map.retain(|key| !pattern.is_match(key)))?;
    Ok(Value::Nil)
}

fn keep_matching_keys<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let pattern = arguments.pattern(1, scene)?;
    scene.edit_map(arguments.path(0)?, |map| map.retain(|key| pattern.is_match(key)))?;
    Ok(Value::Nil)
}

fn keep_keys<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let keys = arguments.values(1, scene)?.into_iter().map(Value::into_text).collect::<Result<Vec<_>, _>>()?;
    scene.edit_map(arguments.path(0)?, |map| map.retain(|key| keys.iter().any(|kept| kept == key)))?;
    Ok(Value::Nil)
}

fn merge_maps<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let source = arguments.entries(1, scene)?;
    let strategy = arguments.literal_text(2).unwrap_or_default();
    scene.edit_map(arguments.path(0)?, |map| {
        let mut merged = Distinct::default();
        for (key, value) in source {
            let takes = match strategy {
                "upsert" => true,
                "update" => map.contains(&key),
                _ => !map.contains(&key) && !merged.contains(&key),
            };
            if takes {
                merged.put(key, value);
            }
        }
        map.put(merged.entries)
    })?;
    Ok(Value::Nil)
}

fn limit<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let limit = usize::try_from(arguments.literal_int(1).unwrap_or_default()).unwrap_or(usize::MAX);
    let priority = arguments.literal_texts(2);
    scene.edit_map(arguments.path(0)?, |map| {
        if map.len() <= limit {
            return Ok(());
        }
        let mut kept = priority.iter().filter(|key| map.contains(key)).count();
        map.retain(|key| {
            let keep = priority.iter().any(|other| other == key);
            let room = !keep && kept < limit;
            kept += usize::from(room);
            keep || room
        })
    })?;
    Ok(Value::Nil)
}

fn truncate_all<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let limit = usize::try_from(arguments.literal_int(1).unwrap_or_default()).unwrap_or(usize::MAX);
    let marker = arguments.literal_text(3).unwrap_or_default();
    scene.edit_map(arguments.path(0)?, |map| {
        let mut changed = Distinct::default();
        for (key, value) in map.entries() {
            let Value::String(text) = value else { continue };
            if text.len() <= limit {
                continue;
            }
            // Text is UTF-8 everywhere here, so that cutting inside a character is never an option.
            let end = char_boundary(&text, limit.saturating_sub(marker.len()));
            changed.put(key, Value::text(format!("{}{marker}", &text[..end])));
        }
        map.put(changed.entries)
    })?;
    Ok(Value::Nil)
}

fn stringify_all<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let room = scene.room();
    scene.edit_map(arguments.path(0)?, |map| {
        let mut changed = Distinct::default();
        for (key, value) in map.entries() {
            if !matches!(value, Value::String(_)) {
                changed.put(key, Value::String(value.readable()?.into_any_text(room)?));
            }
        }
        map.put(changed.entries)
    })?;
    Ok(Value::Nil)
}

fn clear<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    scene.edit_map(arguments.path(0)?, |map| map.retain(|_| false))?;
    Ok(Value::Nil)
}

fn flatten<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let target = arguments.path(0)?;
    let value = scene.get(target)?;
    let entries = scene.entries(value)?;
    let mut flat = Flat {
        scene,
        entries: Distinct::default(),
        taken: HashMap::new(),
        size: 0,
        depth: arguments.literal_int(2).unwrap_or(i64::MAX),
        resolve_conflicts: arguments.literal_bool(3).unwrap_or_default(),
    };
    flat.map(entries, arguments.literal_text(1).unwrap_or_default(), 0)?;
    let entries = flat.entries.entries;
    scene.edit_map(target, |map| map.replace_all(entries))?;
    Ok(Value::Nil)
}

/// The entries of nested maps and lists at one level, their keys joined by dots.
struct Flat<'s, 'a> {
    scene: &'s Scene<'a>,
    entries: Distinct<'a>,
    /// How often a key occurred, when conflicts are resolved.
    taken: HashMap<String, u64>,
    /// Memory that the entries take: each repeats the keys around it.
    size: usize,
    depth: i64,
    resolve_conflicts: bool,
}

impl<'a> Flat<'_, 'a> {
    fn map(&mut self, entries: Entries<'a>, prefix: &str, depth: i64) -> Result<(), Failure> {
        for (key, value) in entries {
            let key = if prefix.is_empty() { key.into_owned() } else { format!("{prefix}.{key}") };
            self.value(key, value, depth)?;
        }
        Ok(())
    }

    fn value(&mut self, key: String, value: Value<'a>, depth: i64) -> Result<(), Failure> {
        match value {
            Value::Map(_) if depth < self.depth => {
                let entries = self.scene.entries(value)?;
                self.map(entries, &key, depth + 1)
            }
            Value::List(_) if depth < self.depth => {
                let mut values = self.scene.elements(value)?.into_iter().enumerate();
                values.try_for_each(|(index, value)| self.element(&key, index, value, depth + 1))
            }
            value => self.put(key, value),
        }
    }

    fn element(&mut self, list: &str, index: usize, value: Value<'a>, depth: i64) -> Result<(), Failure> {
        match value {
            Value::Map(_) if depth < self.depth => self.value(format!("{list}.{index}"), value, depth),
            // As in the reference, no dot stands between the indexes of a list in a list.
            Value::List(_) if depth < self.depth => {
                let mut values = self.scene.elements(value)?.into_iter().enumerate();
                values.try_for_each(|(inner, value)| self.value(format!("{list}.{index}{inner}"), value, depth + 2))
            }
            value if self.resolve_conflicts => self.put(list.to_owned(), value),
            value => self.put(format!("{list}.{index}"), value),
        }
    }

    fn put(&mut self, key: String, value: Value<'a>) -> Result<(), Failure> {
        let key = match self.taken.get_mut(&key) {
            _ if !self.resolve_conflicts => key,
            Some(count) => {
                *count += 1;
                format!("{key}.{}", *count - 1)
            }
            None => {
                self.taken.insert(key.clone(), 0);
                key
            }
        };
        let key = Cow::Owned(key);
        self.size += entry_heap(&key, &value);
        self.scene.check_length(self.size)?;
        self.entries.put(key, value);
        Ok(())
    }
}
