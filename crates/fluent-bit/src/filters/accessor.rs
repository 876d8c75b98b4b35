//! Names of values in a record: a plain name, or `$name['part'][0]`.

use std::borrow::Cow;

use super::fields::{Fields, Value};
use crate::json::Lexer;

/// Where a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accessor {
    name: String,
    path: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(usize),
}

pub(crate) const EXPECTED: &str = "a name, or $name['part']['part']";

impl Accessor {
    /// Reads a name. Only one that begins with `$` has parts.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let Some(rest) = text.strip_prefix('$') else {
            return (!text.is_empty()).then(|| Self { name: text.to_owned(), path: Vec::new() });
        };
        let (name, mut rest) = rest.split_at(rest.find('[').unwrap_or(rest.len()));
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '/' | '@');
        if name.is_empty() || !name.chars().all(is_name) || name == "TAG" || name.parse::<u32>().is_ok() {
            return None;
        }
        let mut path = Vec::new();
        while !rest.is_empty() {
            let (step, after) = step(rest)?;
            path.push(step);
            rest = after;
        }
        Some(Self { name: name.to_owned(), path })
    }

    /// The name of the field that the value is, or is in.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a part of a field.
    pub(crate) fn is_nested(&self) -> bool {
        !self.path.is_empty()
    }

    pub(crate) fn get<'f>(&self, fields: &'f Fields<'_>) -> Option<Cow<'f, Value<'f>>> {
        let value = fields.get(&self.name)?;
        if self.path.is_empty() {
            return Some(Cow::Borrowed(value));
        }
        let Value::Json(json) = value else { return None };
        let found = self.path.iter().try_fold(&**json, |json, step| match step {
            Step::Name(name) => member(json, name),
            Step::Index(index) => element(json, *index),
        })?;
        Some(Cow::Owned(Value::Json(Cow::Borrowed(found))))
    }
}

/// `['name']`, in which a quotation mark is written twice, or `[0]`.
fn step(text: &str) -> Option<(Step, &str)> {
    let rest = text.strip_prefix('[')?;
    let Some(mut quoted) = rest.strip_prefix('\'') else {
        let (digits, after) = rest.split_once(']')?;
        return Some((Step::Index(digits.parse().ok()?), after));
    };
    let mut name = String::new();
    loop {
        let (part, after) = quoted.split_once('\'')?;
        name.push_str(part);
        match after.strip_prefix('\'') {
            Some(more) => {
                name.push('\'');
                quoted = more;
            }
            None => return Some((Step::Name(name), after.strip_prefix(']')?)),
        }
    }
}

/// The member of an object; of equal names the last one counts.
pub(crate) fn member<'t>(object: &'t str, wanted: &str) -> Option<&'t str> {
    let mut lexer = Lexer::new(object);
    let mut found = None;
    lexer.expect(b'{').ok()?;
    while lexer.peek() == Some(b'"') {
        let name = crate::json::unescape(lexer.string().ok()?);
        lexer.expect(b':').ok()?;
        let value = value(object, &mut lexer)?;
        if name == wanted {
            found = Some(value);
        }
        lexer.take(b',');
    }
    found
}

fn element(array: &str, index: usize) -> Option<&str> {
    let mut lexer = Lexer::new(array);
    lexer.expect(b'[').ok()?;
    for _ in 0..index {
        value(array, &mut lexer)?;
        lexer.expect(b',').ok()?;
    }
    value(array, &mut lexer)
}

fn value<'t>(text: &'t str, lexer: &mut Lexer<'_>) -> Option<&'t str> {
    lexer.peek()?;
    let start = lexer.at();
    lexer.value(&mut (), 0).ok()?;
    text.get(start..lexer.at())
}
