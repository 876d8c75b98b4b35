//! Patterns of the language: regular expressions as Go has them, and globs, which become such.
//!
//! The engine matches in linear time; the size of a compiled pattern is limited (OTTL-4).

use std::borrow::Cow;

use weir_re2::{MAX_MEASURE_BYTES, Regex, quote};

use crate::functions;
use crate::program::Syntax;

/// Who wrote a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Whoever wrote the statement.
    Statement,
    /// Whoever sent the telemetry.
    Telemetry,
}

impl Origin {
    /// Bytes that a compiled pattern may take. For statements this is a hundred times what real ones need.
    const fn max_compiled(self) -> usize {
        match self {
            Self::Statement => 1 << 20,
            Self::Telemetry => 64 << 10,
        }
    }

    /// Longest source of a pattern.
    const fn max_source(self) -> usize {
        match self {
            Self::Statement => 16 << 10,
            Self::Telemetry => 1 << 10,
        }
    }
}

/// When texts are long, matching keeps about as much as the compiled pattern takes for each of its groups. For a
/// pattern from telemetry, that is at most this much.
const MAX_GROUPS_BYTES: usize = 256 << 10;

/// Deepest nesting of groups.
const MAX_NESTING: usize = 64;

/// Compiles a pattern.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn compile(source: &str, syntax: Syntax, origin: Origin) -> Result<Regex, String> {
    let max_source = origin.max_source();
    if source.len() > max_source {
        return Err(format!("pattern longer than {max_source} bytes"));
    }
    let pattern = match syntax {
        Syntax::Regex => Cow::Borrowed(source),
        Syntax::Glob => Cow::Owned(from_glob(source)),
    };
    let compile = |most| Regex::new(&pattern, most, MAX_NESTING).map_err(|error| error.to_string());
    let regex = compile(origin.max_compiled())?;
    let most = MAX_GROUPS_BYTES / regex.group_names().len().max(1);
    if origin == Origin::Telemetry && most < origin.max_compiled() { compile(most) } else { Ok(regex) }
}

/// What the patterns in a condition or statement take at most once they are compiled (OTTL-4). The text need not be
/// valid: whatever looks like a call of a function that takes a pattern counts.
pub fn max_pattern_bytes(text: &str) -> usize {
    let calls = |name: &str| text.split(name).skip(1).filter(|rest| rest.trim_start().starts_with('(')).count();
    let bytes = |(name, replaces): (&str, bool)| {
        let beside = if replaces { MAX_MEASURE_BYTES } else { 0 };
        calls(name).saturating_mul(Origin::Statement.max_compiled() + beside)
    };
    functions::with_patterns().map(bytes).fold(0, usize::saturating_add)
}

/// A glob matches the whole text: `*` and `**` any characters, `?` one, `[a-z]` and `[!a-z]` one of a class,
/// `{a,b}` one of several globs.
fn from_glob(source: &str) -> String {
    let mut out = String::from("(?s)^(?:");
    let mut depth = 0u32;
    let mut chars = source.chars();
    while let Some(char) = chars.next() {
        match char {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            '\\' => out.push_str(&quote(&chars.next().map_or("\\".to_owned(), String::from))),
            '{' => {
                depth += 1;
                out.push_str("(?:");
            }
            '}' if depth > 0 => {
                depth -= 1;
                out.push(')');
            }
            ',' if depth > 0 => out.push('|'),
            '[' => {
                out.push('[');
                let class = chars.as_str();
                let end = class.find(']').unwrap_or(class.len());
                let (negated, members) = match class[..end].strip_prefix('!') {
                    Some(members) => ("^", members),
                    None => ("", &class[..end]),
                };
                out.push_str(negated);
                members.chars().for_each(|member| match member {
                    '-' => out.push('-'),
                    member => out.push_str(&quote(&String::from(member))),
                });
                chars = class[end..].chars();
            }
            ']' => out.push(']'),
            char => out.push_str(&quote(&String::from(char))),
        }
    }
    out.push_str(")$");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_functions_that_compile_patterns_are_paid_for_and_nothing_else() {
        const ONE: usize = 1 << 20;
        for (text, expected) in [
            (r#"attributes["batch.id"] == "match" and attributes["IsMatch"] != nil"#, 0),
            (r#"ismatch(span.name, "a") or Match(span.name) or Concat(["pattern"], "(") == "x""#, 0),
            (r#"IsMatch(span.name, "a") and not IsMatch (span.name, "b")"#, 2 * ONE),
            (r#"set(span.name, ExtractPatterns(span.name, "a")["b"])"#, ONE),
            (r#"merge_maps(span.attributes, ExtractGrokPatterns(span.name, "a"), "insert")"#, ONE),
            (r#"keep_matching_keys(span.attributes, "a")"#, ONE),
            (r#"replace_all_patterns(span.attributes, "value", "a", "b")"#, ONE + MAX_MEASURE_BYTES),
            (r#"replace_match(span.name, "a*", "b")"#, ONE + MAX_MEASURE_BYTES),
        ] {
            assert_eq!(max_pattern_bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn globs_match_whole_texts() {
        let glob =
            |pattern: &str, text: &str| compile(pattern, Syntax::Glob, Origin::Statement).unwrap().is_match(text);
        assert!(glob("/user/*/list/*", "/user/a/b/list/c"));
        assert!(!glob("user", "users") && glob("us?r", "user"));
        assert!(glob("{a,b*}[!x][0-9].c", "bcd1.c") && !glob("a[!x]", "ax"));
        assert!(glob("[a-c#&^]~-*", "&~-\n") && glob("a.b", "a.b") && !glob("a.b", "axb"));
    }

    #[test]
    fn patterns_of_any_size_and_depth_end_in_an_error() {
        let max_source = Origin::Statement.max_source();
        assert!(compile("((a{10}){10}){10}", Syntax::Regex, Origin::Statement).is_ok());
        assert!(compile("(?:\\pL{100}){10}", Syntax::Regex, Origin::Statement).unwrap_err().contains("too large"));
        assert!(
            compile(&"(".repeat(max_source), Syntax::Regex, Origin::Statement)
                .unwrap_err()
                .contains("more than 64 deep")
        );
        assert!(
            compile(&"{".repeat(max_source), Syntax::Glob, Origin::Statement)
                .unwrap_err()
                .contains("more than 64 deep")
        );
        assert!(
            compile(&"a".repeat(max_source + 1), Syntax::Regex, Origin::Statement)
                .unwrap_err()
                .contains("longer than 16384 bytes")
        );
    }
}
