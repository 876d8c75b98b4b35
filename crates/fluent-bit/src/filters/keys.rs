//! The lines of a section, read key by key.

use weir_plan::{Section, SectionLine};

use super::accessor::{self, Accessor};
use super::pattern::{MOST_COMPILED, Pattern};
use crate::text::{Wrong, boolean};

/// A section, and what is wrong with it.
pub(crate) struct Keys<'s> {
    pub(crate) plugin: &'static str,
    pub(crate) lines: Vec<&'s SectionLine>,
    pub(crate) wrong: Vec<Wrong>,
}

/// Lines that Fluent Bit itself reads, not the plugin. They change nothing here.
const COMMON: [&str; 2] = ["alias", "log_level"];

impl<'s> Keys<'s> {
    /// The lines of a plugin, which knows `known` keys. Others are wrong.
    pub(crate) fn new(plugin: &'static str, section: &'s Section, known: &[&str]) -> Self {
        let is_name = |line: &SectionLine| line.key == "name";
        let mut keys = Self { plugin, lines: Vec::new(), wrong: Vec::new() };
        for line in section.lines.iter().filter(|line| !is_name(line) && !COMMON.contains(&line.key.as_str())) {
            if known.contains(&line.key.as_str()) {
                keys.lines.push(line);
                continue;
            }
            keys.wrong.push(unknown(line.number, &line.key, &format!("filter {plugin}"), known));
        }
        keys
    }

    pub(crate) fn all(&self, key: &str) -> impl Iterator<Item = &'s SectionLine> + use<'s, '_> {
        let key = key.to_owned();
        self.lines.iter().copied().filter(move |line| line.key == key)
    }

    /// The value of a key that counts once: that of its last line.
    pub(crate) fn last(&self, key: &str) -> Option<&'s SectionLine> {
        self.all(key).last()
    }

    /// A key that there must be.
    pub(crate) fn required(&mut self, key: &str, example: &str) -> Option<&'s SectionLine> {
        let line = self.last(key);
        if line.is_none() {
            let message = format!("filter {} has no {key}", self.plugin);
            self.wrong.push(Wrong::new(0, message, format!("a line such as: {example}")));
        }
        line
    }

    pub(crate) fn refuse(&mut self, line: &SectionLine, what: &str, expected: &str) {
        let message = format!("{} of filter {} {what}", line.key, self.plugin);
        self.wrong.push(Wrong::new(line.number, message, expected));
    }

    pub(crate) fn flag(&mut self, key: &str) -> bool {
        let Some(line) = self.last(key) else { return false };
        boolean(line.value.reveal()).unwrap_or_else(|| {
            self.refuse(line, "is neither on nor off", "on or off");
            false
        })
    }

    pub(crate) fn accessor(&mut self, line: &SectionLine, text: &str) -> Option<Accessor> {
        let found = Accessor::parse(text);
        if found.is_none() {
            self.refuse(line, "has a name that cannot be read", accessor::EXPECTED);
        }
        found
    }

    pub(crate) fn pattern(&mut self, line: &SectionLine, text: &str) -> Option<Pattern> {
        let compiled = Pattern::new(text);
        compiled
            .map_err(|reason| {
                let expected =
                    "a regular expression without look-around, backreferences and possessive or atomic parts";
                self.refuse(line, &format!("has a regular expression that {reason}"), expected);
            })
            .ok()
    }

    /// Two words of a value: up to the first space, and the rest.
    pub(crate) fn pair(&mut self, line: &'s SectionLine, expected: &str) -> Option<(&'s str, &'s str)> {
        let value = line.value.reveal();
        let pair = value.split_once(' ').map(|(first, rest)| (first, rest.trim()));
        let pair = pair.filter(|(_, rest)| !rest.is_empty());
        if pair.is_none() {
            self.refuse(line, "has one value", expected);
        }
        pair
    }

    /// What was made of the section, unless something is wrong with it.
    pub(crate) fn done<T>(self, made: Option<T>) -> Result<T, Vec<Wrong>> {
        match made {
            Some(made) if self.wrong.is_empty() => Ok(made),
            _ => Err(self.wrong),
        }
    }
}

/// What the patterns in a line take at most once they are compiled, whatever plugin it is of.
pub fn max_pattern_bytes(line: &SectionLine) -> usize {
    let patterns = match line.key.as_str() {
        "regex" | "exclude" | "remove_regex" => 1,
        // Some have one for names and one for values.
        "condition" => 2,
        _ => 0,
    };
    patterns * MOST_COMPILED
}

/// A key that a plugin does not have.
pub fn unknown(line: usize, key: &str, plugin: &str, known: &[&str]) -> Wrong {
    let is_plain = key.len() <= 63 && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let key = if is_plain { key } else { "(not shown)" };
    Wrong::new(line, format!("key {key} of {plugin} is not supported"), format!("one of: {}", known.join(", ")))
}
