//! Relabeling as Prometheus does it: rules that change the labels of a target or of a sample, or leave it out.

use std::borrow::Cow;
use std::fmt;
use std::mem;
use std::sync::Arc;

use md5::{Digest, Md5};
use weir_re2::Regex;

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Sets the target label to the replacement when the pattern matches the source labels.
    Replace,
    /// Leaves everything out whose source labels the pattern does not match.
    Keep,
    /// Leaves everything out whose source labels the pattern matches.
    Drop,
    /// Leaves everything out whose source labels are not equal to the target label.
    KeepEqual,
    /// Leaves everything out whose source labels are equal to the target label.
    DropEqual,
    /// Sets the target label to a hash of the source labels, modulo a number.
    HashMod,
    /// Sets the target label to the source labels in lower case.
    Lowercase,
    /// Sets the target label to the source labels in upper case.
    Uppercase,
    /// Copies the labels whose names the pattern matches to the names that the replacement makes of them.
    LabelMap,
    /// Removes the labels whose names the pattern matches.
    LabelDrop,
    /// Removes the labels whose names the pattern does not match.
    LabelKeep,
}

/// A rule as it is written. What is not set is as in Prometheus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it does.
    pub action: Action,
    /// Labels whose values, joined, are what the pattern is compared with. One that is not there is empty.
    pub source_labels: Vec<String>,
    /// What stands between them.
    pub separator: String,
    /// A pattern in Go's syntax, which must match the whole text.
    pub regex: String,
    /// The label that is set. It may have groups of the pattern in it, as the replacement does.
    pub target_label: String,
    /// Its value, with `$1` and `${name}` for groups of the pattern.
    pub replacement: String,
    /// What a hash is divided by.
    pub modulus: u64,
}

/// Rules that can be applied. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Relabeling(Arc<[Step]>);

/// Labels by their names, sorted. A label with an empty value is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// Why a rule cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("relabeling rule {rule}, action {action}: {cause}")]
pub struct BadRule {
    /// Counted from 1.
    rule: usize,
    action: Action,
    cause: String,
}

/// Labels of a sample that rules make longer than [`MOST_ADDED`] allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rules make the labels more than {MOST_ADDED} bytes longer")]
pub struct TooLong;

#[derive(Debug)]
struct Step {
    rule: Rule,
    regex: Regex,
}

/// Bytes that the rules together may add to the labels of a sample. A few rules that double a label would fill any memory.
pub(super) const MOST_ADDED: usize = 1 << 20;

/// Memory that a compiled pattern takes at most. Long lists of names need a small part of it.
const MAX_COMPILED: usize = 4 << 20;

/// Groups in groups at most.
const MAX_NESTING: usize = 64;

impl Default for Rule {
    fn default() -> Self {
        Self {
            action: Action::Replace,
            source_labels: Vec::new(),
            separator: ";".to_owned(),
            regex: "(.*)".to_owned(),
            target_label: String::new(),
            replacement: "$1".to_owned(),
            modulus: 0,
        }
    }
}

impl Relabeling {
    /// Prepares rules.
    ///
    /// # Errors
    /// What is wrong with the first one that cannot be applied.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Self, BadRule> {
        let step = |(index, rule): (usize, Rule)| {
            let action = rule.action;
            Step::new(rule).map_err(|cause| BadRule { rule: index + 1, action, cause })
        };
        rules.into_iter().enumerate().map(step).collect::<Result<_, _>>().map(Self)
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether labels stay as they are: the rules only leave out.
    pub fn only_filters(&self) -> bool {
        self.0.iter().all(|step| step.rule.action.is_filter())
    }

    /// Applies the rules in their order. Returns whether what has these labels is kept. When it is not, later rules were
    /// not applied.
    ///
    /// # Errors
    /// When the labels become too long.
    pub fn apply(&self, labels: &mut Labels<'_>) -> Result<bool, TooLong> {
        let most = labels.bytes() + MOST_ADDED;
        for step in self.0.iter() {
            if !step.apply(labels) {
                return Ok(false);
            }
            if labels.bytes() > most {
                return Err(TooLong);
            }
        }
        Ok(true)
    }
}

impl Default for Relabeling {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

impl Action {
    /// Whether it leaves out, and changes nothing.
    fn is_filter(self) -> bool {
        matches!(self, Self::Keep | Self::Drop | Self::KeepEqual | Self::DropEqual)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Replace => "replace",
            Self::Keep => "keep",
            Self::Drop => "drop",
            Self::KeepEqual => "keepequal",
            Self::DropEqual => "dropequal",
            Self::HashMod => "hashmod",
            Self::Lowercase => "lowercase",
            Self::Uppercase => "uppercase",
            Self::LabelMap => "labelmap",
            Self::LabelDrop => "labeldrop",
            Self::LabelKeep => "labelkeep",
        }
    }

    fn has_target(self) -> bool {
        matches!(
            self,
            Self::Replace | Self::HashMod | Self::Lowercase | Self::Uppercase | Self::KeepEqual | Self::DropEqual
        )
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Step {
    fn new(rule: Rule) -> Result<Self, String> {
        let anchored = format!("^(?s:{})$", rule.regex);
        let regex = Regex::new(&anchored, MAX_COMPILED, MAX_NESTING)
            .map_err(|error| format!("the regex {:?}: {error}", rule.regex))?;
        if rule.action.has_target() && rule.target_label.is_empty() {
            return Err("it needs a target_label".to_owned());
        }
        if rule.action == Action::HashMod && rule.modulus == 0 {
            return Err("it needs a modulus above 0".to_owned());
        }
        Ok(Self { rule, regex })
    }

    /// Returns whether what has these labels is kept.
    fn apply(&self, labels: &mut Labels<'_>) -> bool {
        let (rule, regex) = (&self.rule, &self.regex);
        match rule.action {
            Action::Replace => self.replace(labels),
            Action::Keep => return regex.is_match(&rule.source(labels)),
            Action::Drop => return !regex.is_match(&rule.source(labels)),
            Action::KeepEqual => return rule.source(labels) == labels.get(&rule.target_label),
            Action::DropEqual => return rule.source(labels) != labels.get(&rule.target_label),
            Action::HashMod => {
                let hash = hash(&rule.source(labels)) % rule.modulus;
                labels.set(rule.target_label.clone(), hash.to_string());
            }
            Action::Lowercase => {
                let value = rule.source(labels).chars().map(lower).collect::<String>();
                labels.set(rule.target_label.clone(), value);
            }
            Action::Uppercase => {
                let value = rule.source(labels).chars().map(upper).collect::<String>();
                labels.set(rule.target_label.clone(), value);
            }
            Action::LabelMap => self.map(labels),
            Action::LabelDrop => labels.0.retain(|(name, _)| !regex.is_match(name)),
            Action::LabelKeep => labels.0.retain(|(name, _)| regex.is_match(name)),
        }
        true
    }

    fn replace(&self, labels: &mut Labels<'_>) {
        let source = self.rule.source(labels);
        let Some(groups) = self.regex.captures(&source) else { return };
        let expanded = |template: &str| {
            let mut out = String::new();
            self.regex.expand(&groups, template, &mut out);
            out
        };
        let (target, value) = (expanded(&self.rule.target_label), expanded(&self.rule.replacement));
        drop(source);
        if !target.is_empty() {
            labels.set(target, value);
        }
    }

    fn map(&self, labels: &mut Labels<'_>) {
        for (name, value) in labels.0.clone() {
            let Some(groups) = self.regex.captures(&name) else { continue };
            let mut target = String::new();
            self.regex.expand(&groups, &self.rule.replacement, &mut target);
            if !target.is_empty() {
                labels.set(target, value);
            }
        }
    }
}

impl Rule {
    /// The values of the source labels, joined.
    fn source<'l>(&self, labels: &'l Labels<'_>) -> Cow<'l, str> {
        match self.source_labels.as_slice() {
            [] => Cow::Borrowed(""),
            [name] => Cow::Borrowed(labels.get(name)),
            names => {
                let values: Vec<&str> = names.iter().map(|name| labels.get(name)).collect();
                Cow::Owned(values.join(&self.separator))
            }
        }
    }
}

impl<'a> Labels<'a> {
    /// The value of a label, which is empty when there is none.
    pub fn get(&self, name: &str) -> &str {
        self.place(name).map_or("", |at| &self.0[at].1)
    }

    /// Sets a label, or removes it when the value is empty.
    pub fn set(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        let (name, value) = (name.into(), value.into());
        match (self.place(&name), value.is_empty()) {
            (Ok(at), true) => drop(self.0.remove(at)),
            (Ok(at), false) => self.0[at].1 = value,
            (Err(_), true) => {}
            (Err(at), false) => self.0.insert(at, (name, value)),
        }
    }

    /// Takes a label out.
    pub fn take(&mut self, name: &str) -> Option<Cow<'a, str>> {
        self.place(name).ok().map(|at| self.0.remove(at).1)
    }

    /// All names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// Bytes of all names and values.
    fn bytes(&self) -> usize {
        self.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.as_ref().cmp(name))
    }
}

impl<'a> IntoIterator for Labels<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, N: Into<Cow<'a, str>>, V: Into<Cow<'a, str>>> FromIterator<(N, V)> for Labels<'a> {
    /// Of several labels with one name, the last one counts.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(all: I) -> Self {
        let mut all: Vec<(Cow<'a, str>, Cow<'a, str>)> =
            all.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all.dedup_by(|(name, value), (before, kept)| {
            let is_same = name == before;
            if is_same {
                mem::swap(kept, value);
            }
            is_same
        });
        all.retain(|(_, value)| !value.is_empty());
        Self(all)
    }
}

/// The last eight bytes of the MD5 sum, as Prometheus has it, so that targets are divided in the same way.
fn hash(text: &str) -> u64 {
    let sum = Md5::digest(text.as_bytes());
    sum[8..].iter().fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

/// A character in lower case. One that would become several stays as it is, as in Go.
fn lower(char: char) -> char {
    single(char, char.to_lowercase())
}

/// The same in upper case.
fn upper(char: char) -> char {
    single(char, char.to_uppercase())
}

fn single(char: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(mapped), None) => mapped,
        _ => char,
    }
}

#[cfg(test)]
mod tests;
