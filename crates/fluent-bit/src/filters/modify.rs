//! `modify`: changes fields, if conditions hold.

mod condition;

use std::borrow::Cow;

use weir_plan::{Section, SectionLine};

use super::fields::{Field, Fields, Misfit, Value};
use super::keys::Keys;
use super::pattern::Pattern;
use crate::text::Wrong;
use condition::Condition;

pub(crate) struct Modify {
    /// All of them must hold.
    conditions: Vec<Condition>,
    rules: Vec<Rule>,
}

enum Rule {
    Set(String, String),
    Add(String, String),
    Remove(String),
    RemoveWildcard(String),
    RemoveRegex(Pattern),
    Rename { from: String, to: String, is_hard: bool },
    Copy { from: String, to: String, is_hard: bool },
    MoveToStart(String),
    MoveToEnd(String),
}

/// Keys with one name each.
const ONE: [&str; 5] = ["remove", "remove_wildcard", "remove_regex", "move_to_start", "move_to_end"];
/// Keys with a name and a value, or another name.
const TWO: [&str; 7] = ["set", "add", "add_if_not_present", "rename", "hard_rename", "copy", "hard_copy"];

impl Modify {
    pub(crate) fn compile(section: &Section) -> Result<Self, Vec<Wrong>> {
        let known: Vec<&str> = ONE.into_iter().chain(TWO).chain(["condition"]).collect();
        let mut keys = Keys::new("modify", section, &known);
        let (mut conditions, mut rules) = (Vec::new(), Vec::new());
        for line in keys.lines.clone() {
            let Some(words) = words(line.value.reveal()) else {
                keys.refuse(line, "has a quotation mark without its other one", "quotes around a value with spaces");
                continue;
            };
            if line.key == "condition" {
                conditions.extend(Condition::compile(line, &words, &mut keys));
            } else {
                rules.extend(Rule::compile(line, words, &mut keys));
            }
        }
        if rules.is_empty() && keys.wrong.is_empty() {
            keys.wrong.push(Wrong::new(0, "filter modify changes nothing", "a line such as: remove password"));
        }
        keys.done(Some(Self { conditions, rules }))
    }

    pub(crate) fn apply<'a>(&'a self, record: &mut Fields<'a>) -> Result<bool, Misfit> {
        if !self.conditions.iter().all(|condition| condition.holds(record)) {
            return Ok(false);
        }
        let (mut changed, mut misfit) = (false, None);
        for rule in &self.rules {
            match rule.apply(record) {
                Ok(did) => changed |= did,
                // What is to be removed is removed all the same.
                Err(why) => misfit = misfit.or(Some(why)),
            }
        }
        misfit.map_or(Ok(changed), Err)
    }
}

impl Rule {
    fn compile(line: &SectionLine, words: Vec<String>, keys: &mut Keys<'_>) -> Option<Self> {
        let wants_one = ONE.contains(&line.key.as_str());
        let expected = if wants_one { "one name" } else { "a name and a value; one with spaces stands in quotes" };
        let mut words = words.into_iter();
        let (Some(first), second, None) = (words.next(), words.next(), words.next()) else {
            keys.refuse(line, "has too many values or none", expected);
            return None;
        };
        Some(match (line.key.as_str(), second) {
            ("remove", None) => Self::Remove(first),
            ("remove_wildcard", None) => Self::RemoveWildcard(beginning(first)),
            ("remove_regex", None) => Self::RemoveRegex(keys.pattern(line, &first)?),
            ("move_to_start", None) => Self::MoveToStart(beginning(first)),
            ("move_to_end", None) => Self::MoveToEnd(beginning(first)),
            ("set", Some(value)) => Self::Set(first, value),
            ("add" | "add_if_not_present", Some(value)) => Self::Add(first, value),
            ("rename", Some(to)) => Self::Rename { from: first, to, is_hard: false },
            ("hard_rename", Some(to)) => Self::Rename { from: first, to, is_hard: true },
            ("copy", Some(to)) => Self::Copy { from: first, to, is_hard: false },
            ("hard_copy", Some(to)) => Self::Copy { from: first, to, is_hard: true },
            _ => {
                keys.refuse(line, "has the wrong number of values", expected);
                return None;
            }
        })
    }

    /// Returns whether it changed something.
    fn apply<'a>(&'a self, record: &mut Fields<'a>) -> Result<bool, Misfit> {
        match self {
            Self::Set(name, value) => record.put(name, Value::of(value)).map(|()| true),
            Self::Add(name, _) if record.find(name).is_some() => Ok(false),
            Self::Add(name, value) => record.put(name, Value::of(value)).map(|()| true),
            Self::Remove(name) => Ok(record.remove(|field| field.name == *name)),
            Self::RemoveWildcard(prefix) => Ok(record.remove(|field| field.name.starts_with(prefix))),
            Self::RemoveRegex(pattern) => Ok(record.remove(|field| pattern.is_match(&field.name))),
            Self::Rename { from, to, is_hard } => Ok(rename(record, from, to, *is_hard)),
            Self::Copy { from, to, is_hard } => copy(record, from, to, *is_hard),
            Self::MoveToStart(prefix) => Ok(reorder(record, |field| !field.name.starts_with(prefix))),
            Self::MoveToEnd(prefix) => Ok(reorder(record, |field| field.name.starts_with(prefix))),
        }
    }
}

/// A beginning of names; Fluent Bit takes it with a star at its end as well.
fn beginning(text: String) -> String {
    text.strip_suffix('*').map_or_else(|| text.clone(), str::to_owned)
}

/// Gives a field another name. Only a hard one takes the name from another field.
fn rename<'a>(record: &mut Fields<'a>, from: &str, to: &'a str, is_hard: bool) -> bool {
    if record.find(from).is_none() || from == to || (record.find(to).is_some() && !is_hard) {
        return false;
    }
    record.remove(|field| field.name == to);
    if let Some(at) = record.find(from) {
        record.list[at].name = Cow::Borrowed(to);
    }
    true
}

/// Copies a field, next to itself.
fn copy<'a>(record: &mut Fields<'a>, from: &str, to: &'a str, is_hard: bool) -> Result<bool, Misfit> {
    if record.find(from).is_none() || from == to || (record.find(to).is_some() && !is_hard) {
        return Ok(false);
    }
    let Some(bytes) = record.get(from).map(Value::owned_bytes) else { return Ok(false) };
    record.take(bytes)?;
    let Some(value) = record.get(from).cloned() else { return Ok(false) };
    record.put(to, value)?;
    let moved = record.list.pop();
    if let (Some(at), Some(field)) = (record.find(from), moved) {
        record.list.insert(at + 1, field);
    }
    Ok(true)
}

/// Puts some fields behind all others, and keeps their order otherwise.
fn reorder(record: &mut Fields<'_>, is_late: impl Fn(&Field<'_>) -> bool) -> bool {
    let before: Vec<usize> = record.list.iter().map(|field| usize::from(is_late(field))).collect();
    record.list.sort_by_key(|field| is_late(field));
    !before.is_sorted()
}

/// The words of a value. One in quotation marks may have spaces; nothing if the second mark is missing.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let (word, after) = if matches!(first, '"' | '\'') {
            quoted(&rest[1..], first)?
        } else {
            let end = rest.find(' ').unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        };
        words.push(word);
        rest = after.trim_start();
    }
    Some(words)
}

/// What stands before the next quotation mark, and the rest behind it. A mark with a backslash before it ends nothing.
fn quoted(text: &str, mark: char) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == mark {
            return Some((word, &text[at + 1..]));
        }
        match letters.peek() {
            Some((_, next)) if letter == '\\' && *next == mark => {
                word.push(mark);
                letters.next();
            }
            _ => word.push(letter),
        }
    }
    None
}
