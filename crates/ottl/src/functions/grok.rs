//! `ExtractGrokPatterns`: regular expressions made of named patterns.
//!
//! Source of the semantics: `ottlfuncs`, and `elastic/go-grok` 0.3 as the reference uses it. The sets of its library
//! that many people use are here, in definitions of our own. A pattern for another product has to be given in the
//! statement.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use weir_re2::Regex;

use super::{Function, Kind, STRING, function, optional, required};
use crate::pattern::{self, Origin};
use crate::program::{Arguments, Syntax};
use crate::scene::Scene;
use crate::scene::access::put;
use crate::value::{Entries, Failure, Value};

mod library;

pub(super) const FUNCTIONS: &[Function] = &[function(
    "ExtractGrokPatterns",
    &[
        required("target", STRING),
        required("pattern", Kind::Grok),
        optional("named_captures_only", Kind::Bool),
        optional("pattern_definitions", Kind::Texts),
    ],
    extract,
)
.checked(|arguments| match arguments.grok(1) {
    Some((Some(Value::String(source)), cell)) => prepared(source, arguments, cell).map(|_| ()),
    Some((Some(_), _)) => Err("the pattern must be a string".to_owned()),
    _ => definitions(arguments).map(|_| ()),
})];

/// Deepest nesting of patterns in patterns.
const MAX_DEPTH: u32 = 32;
/// Longest pattern with everything that is in it.
const MAX_EXPANDED: usize = 16 << 10;

/// A compiled pattern and what its groups are called.
#[derive(Debug)]
pub(crate) struct Grok {
    regex: Regex,
    groups: Vec<(String, Type)>,
}

/// A literal pattern is compiled once, with the statement.
pub(crate) type Cell = OnceLock<Grok>;

/// What a captured text is read as.
#[derive(Debug, Clone, Copy)]
enum Type {
    Text,
    Int,
    Double,
    Bool,
}

fn prepared<'c>(source: &str, arguments: &Arguments, cell: &'c Cell) -> Result<&'c Grok, String> {
    match cell.get() {
        Some(grok) => Ok(grok),
        None => {
            let grok = compile(source, arguments)?;
            Ok(cell.get_or_init(|| grok))
        }
    }
}

fn extract<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let dynamic;
    let grok = match arguments.grok(1) {
        Some((Some(Value::String(source)), cell)) => prepared(source, arguments, cell).map_err(Failure::new)?,
        _ => {
            let source = arguments.text(1, scene)?;
            dynamic = compile(&source, arguments).map_err(|_| Failure::about(&source, "is no grok pattern"))?;
            &dynamic
        }
    };
    let text = arguments.text(0, scene)?;
    let Some(captures) = grok.regex.captures(&text) else { return Ok(Value::map(Entries::new())) };
    let mut entries = Entries::new();
    for (index, (name, kind)) in grok.groups.iter().enumerate() {
        let Some(group) = captures.get(index).filter(|group| !name.is_empty() && !group.is_empty()) else { continue };
        let value = kind.read(group.as_str())?;
        put(&mut entries, Cow::Owned(name.clone()), value);
    }
    Ok(Value::map(entries))
}

impl Type {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::Text,
            "int" | "long" => Self::Int,
            "double" | "float" => Self::Double,
            "bool" | "boolean" => Self::Bool,
            _ => return None,
        })
    }

    fn read<'a>(self, text: &str) -> Result<Value<'a>, Failure> {
        let unfit = |what: &str| Failure::about(text, &format!("is not {what}"));
        Ok(match self {
            Self::Text => Value::text(text.to_owned()),
            Self::Int => Value::Int(text.parse().map_err(|_| unfit("an int"))?),
            Self::Double => Value::Double(text.parse().map_err(|_| unfit("a double"))?),
            Self::Bool => Value::Bool(Value::text(text).into_bool_like()?.unwrap_or_default()),
        })
    }
}

/// Patterns that the statement defines, by name.
fn definitions(arguments: &Arguments) -> Result<HashMap<&str, &str>, String> {
    let definition = |text: &'_ String| -> Result<(), String> {
        match text.split_once('=') {
            Some((name, _)) if name.contains(':') => Err(format!("the name \"{name}\" of a pattern has a colon")),
            Some(_) => Ok(()),
            None => Err(format!("\"{text}\" is not of the form NAME=pattern")),
        }
    };
    arguments.literal_texts(3).iter().try_for_each(definition)?;
    Ok(arguments.literal_texts(3).iter().filter_map(|text| text.split_once('=')).collect())
}

fn compile(source: &str, arguments: &Arguments) -> Result<Grok, String> {
    let named_only = arguments.literal_bool(2).unwrap_or_default();
    let mut expansion =
        Expansion { definitions: definitions(arguments)?, named_only, out: String::new(), names: Vec::new() };
    expansion.add(source, 0)?;
    let regex = pattern::compile(&expansion.out, Syntax::Regex, Origin::Statement)?;
    let groups = regex.group_names().iter().map(|group| {
        let known = group.strip_prefix(GROUP).and_then(|index| expansion.names.get(index.parse::<usize>().ok()?));
        known.cloned().unwrap_or_else(|| (group.clone(), Type::Text))
    });
    let groups: Vec<(String, Type)> = groups.collect();
    if named_only && groups.iter().all(|(name, _)| name.is_empty()) {
        return Err("the pattern must have at least one named group".to_owned());
    }
    Ok(Grok { regex, groups })
}

/// Starts the names of groups: a name may occur twice in a grok pattern, but not in a regular expression.
const GROUP: &str = "__";

/// A pattern while other patterns are put into it.
struct Expansion<'d> {
    definitions: HashMap<&'d str, &'d str>,
    named_only: bool,
    out: String,
    names: Vec<(String, Type)>,
}

impl Expansion<'_> {
    fn add(&mut self, pattern: &str, depth: u32) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("patterns stand in each other more than {MAX_DEPTH} deep"));
        }
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once("%{") {
            self.out.push_str(before);
            match after.split_once('}').filter(|(reference, _)| is_reference(reference)) {
                Some((reference, after)) => {
                    self.reference(reference, depth)?;
                    rest = after;
                }
                None => {
                    self.out.push_str("%{");
                    rest = after;
                }
            }
        }
        self.out.push_str(rest);
        if self.out.len() > MAX_EXPANDED {
            return Err(format!("the pattern is longer than {MAX_EXPANDED} bytes with all patterns in it"));
        }
        Ok(())
    }

    /// `NAME`, `NAME:group` or `NAME:group:type`.
    fn reference(&mut self, reference: &str, depth: u32) -> Result<(), String> {
        let mut parts = reference.split(':');
        let name = parts.next().unwrap_or_default();
        let (group, kind) = (parts.next(), parts.next());
        let own = self.definitions.get(name).copied().or_else(|| library::find(name));
        let definition = own.ok_or_else(|| format!("unknown grok pattern \"{name}\""))?.to_owned();
        let kind = match kind {
            Some(kind) => Type::of(kind).ok_or_else(|| {
                format!(
                    "\"{kind}\" is no type of a group; there are string, int, long, double, float, bool and boolean"
                )
            })?,
            None => Type::Text,
        };
        if group.is_none() && self.named_only {
            self.out.push_str("(?:");
        } else {
            self.out.push_str(&format!("(?P<{GROUP}{}>", self.names.len()));
            self.names.push((group.unwrap_or(name).to_owned(), kind));
        }
        self.add(&definition, depth + 1)?;
        self.out.push(')');
        Ok(())
    }
}

fn is_reference(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut parts = text.split(':').enumerate();
    parts.all(|(index, part)| {
        index < 3 && !part.is_empty() && part.bytes().all(|byte| is_word(byte) || (index == 1 && byte == b'.'))
    })
}
