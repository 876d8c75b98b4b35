//! Which lines are one stack trace: for each language, a table of states, and of the lines that lead from one to
//! another.
//!
//! Lines of several languages begin alike, so a trace may be in several states at once. It goes on as long as one is
//! left.

mod dotnet;
mod go;
mod java;
mod python;
mod ruby;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use memchr::memmem::Finder;
use weir_plan::{Language, Multiline};

/// States in which a trace may be after a line. None: the line is not of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct States(u32);

/// A line that is compared.
#[derive(Debug, Clone, Copy)]
struct TraceLine<'a> {
    /// Without white space at both ends.
    text: &'a [u8],
    is_indented: bool,
}

/// A line that looks like this leads from one of some states to others.
struct Rule {
    from: States,
    looks: fn(TraceLine<'_>) -> bool,
    to: States,
}

/// How a language writes its traces.
struct Grammar {
    /// Where a line leads that begins a trace.
    begin: fn(TraceLine<'_>) -> States,
    rules: &'static [Rule],
}

const fn grammar(language: Language) -> &'static Grammar {
    match language {
        Language::Java => &java::GRAMMAR,
        Language::Python => &python::GRAMMAR,
        Language::Go => &go::GRAMMAR,
        Language::Ruby => &ruby::GRAMMAR,
        Language::Dotnet => &dotnet::GRAMMAR,
    }
}

fn grammars(multiline: Multiline) -> impl Iterator<Item = &'static Grammar> {
    Language::ALL.into_iter().filter(move |(_, language)| multiline.has(*language)).map(|(_, of)| grammar(of))
}

impl States {
    const NONE: Self = Self(0);

    /// A state by its number: no two languages share one.
    const fn only(number: u32) -> Self {
        Self(1 << number)
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// After the first line of a trace.
    pub(super) fn begin(multiline: Multiline, line: &[u8]) -> Self {
        let line = TraceLine::new(line);
        // Most lines of those who write no traces as text.
        if line.text.first() == Some(&b'{') {
            return Self::NONE;
        }
        grammars(multiline).fold(Self::NONE, |states, grammar| states.or((grammar.begin)(line)))
    }

    /// After one more line.
    pub(super) fn after(self, multiline: Multiline, line: &[u8]) -> Self {
        let line = TraceLine::new(line);
        let rules = grammars(multiline).flat_map(|grammar| grammar.rules);
        let fits = |rule: &&Rule| self.0 & rule.from.0 != 0 && (rule.looks)(line);
        rules.filter(fits).fold(Self::NONE, |states, rule| states.or(rule.to))
    }

    /// Whether the line is not of a trace.
    pub(super) fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl<'a> TraceLine<'a> {
    fn new(line: &'a [u8]) -> Self {
        let is_indented = line.first().is_some_and(|first| matches!(first, b' ' | b'\t'));
        Self { text: line.trim_ascii(), is_indented }
    }
}

fn is_blank(line: TraceLine<'_>) -> bool {
    line.text.is_empty()
}

/// A text that is searched for in every line. Those who are not looked at cost nothing.
type Needle = LazyLock<Finder<'static>>;

const fn needle(make: fn() -> Finder<'static>) -> Needle {
    LazyLock::new(make)
}

/// Whether a text has a name that ends with the needle, in front of a `:` or at the end.
fn names(text: &[u8], needle: &Needle) -> bool {
    let length = needle.needle().len();
    let is_name = |at: usize| {
        let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
        text[..at].last().is_some_and(is_inner) && matches!(text.get(at + length), None | Some(b':'))
    };
    needle.find_iter(text).any(is_name)
}

fn starts_with_any(text: &[u8], beginnings: &[&[u8]]) -> bool {
    beginnings.iter().any(|beginning| text.starts_with(beginning))
}
