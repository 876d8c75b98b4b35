//! Patterns of the language to the regular expressions of the `regex` crate.
//!
//! Patterns are written for Go: classes like `\d` and word boundaries are ASCII there, `\Q..\E` quotes, and in a class
//! only `[:` opens another. The engine matches in linear time; the size of a compiled pattern is limited (OTTL-4).

use regex::{Regex, RegexBuilder};

use crate::program::Syntax;

/// Bytes a compiled pattern may take; a hundred times what real ones need.
const MAX_COMPILED: usize = 1 << 20;
/// Longest source of a pattern.
const MAX_SOURCE: usize = 16 << 10;
/// Deepest nesting of groups.
const MAX_NESTING: u32 = 64;

/// Compiles a pattern.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn compile(source: &str, syntax: Syntax) -> Result<Regex, String> {
    if source.len() > MAX_SOURCE {
        return Err(format!("pattern longer than {MAX_SOURCE} bytes"));
    }
    let translated = match syntax {
        Syntax::Regex => from_go(source),
        Syntax::Glob => from_glob(source),
    };
    let mut builder = RegexBuilder::new(&translated);
    builder.size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).nest_limit(MAX_NESTING);
    builder.dot_matches_new_line(syntax == Syntax::Glob);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "pattern that is too large when compiled".to_owned(),
        error => {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            format!("invalid pattern: {reason}")
        }
    })
}

fn from_go(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut rest = source;
    let mut in_class = false;
    while let Some(char) = rest.chars().next() {
        let taken = match char {
            '\\' => escape(rest, in_class, &mut out),
            '[' if in_class && !rest.starts_with("[:") => {
                out.push_str("\\[");
                1
            }
            '[' if in_class => posix_class(rest, &mut out),
            '[' => {
                in_class = true;
                open_class(rest, &mut out)
            }
            ']' => {
                in_class = false;
                out.push(']');
                1
            }
            // Operators on sets in the `regex` crate, plain characters in Go.
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(char);
                1
            }
            // A brace that starts no repetition stands for itself in Go.
            '{' if !in_class && !is_repetition(rest) => {
                out.push_str("\\{");
                1
            }
            '-' if in_class && rest.starts_with("--") => {
                out.push_str("\\-");
                1
            }
            _ => {
                out.push(char);
                char.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out
}

/// Whether a text starts with `{1}`, `{1,}` or `{1,2}`.
fn is_repetition(rest: &str) -> bool {
    let Some((inner, _)) = rest[1..].split_once('}') else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match inner.split_once(',') {
        Some((least, most)) => is_number(least) && (most.is_empty() || is_number(most)),
        None => is_number(inner),
    }
}

/// The start of a class, where a bracket stands for itself; how many bytes that was.
fn open_class(rest: &str, out: &mut String) -> usize {
    out.push('[');
    let mut taken = 1;
    if rest[taken..].starts_with('^') {
        out.push('^');
        taken += 1;
    }
    if rest[taken..].starts_with(']') {
        out.push_str("\\]");
        taken += 1;
    }
    taken
}

fn posix_class(rest: &str, out: &mut String) -> usize {
    match rest.find(":]") {
        Some(end) => {
            out.push_str(&rest[..end + 2]);
            end + 2
        }
        None => {
            out.push_str("\\[");
            1
        }
    }
}

/// An escape; how many bytes that was.
fn escape(rest: &str, in_class: bool, out: &mut String) -> usize {
    let Some(next) = rest[1..].chars().next() else {
        out.push('\\');
        return 1;
    };
    let class = match next {
        'd' => Some("0-9"),
        'w' => Some("0-9A-Za-z_"),
        's' => Some("\\t\\n\\x0C\\r "),
        'D' => Some("^0-9"),
        'W' => Some("^0-9A-Za-z_"),
        'S' => Some("^\\t\\n\\x0C\\r "),
        _ => None,
    };
    match (class, next) {
        (Some(class), 'd' | 'w' | 's') if in_class => out.push_str(class),
        (Some(class), _) => out.extend(["[", class, "]"]),
        (None, 'b' | 'B') if !in_class => out.extend(["(?-u:\\", if next == 'b' { "b" } else { "B" }, ")"]),
        (None, 'Q') => {
            let quoted = &rest[2..];
            let end = quoted.find("\\E");
            out.push_str(&regex::escape(&quoted[..end.unwrap_or(quoted.len())]));
            return end.map_or(rest.len(), |end| end + 4);
        }
        (None, '0'..='7') => {
            let digits = rest[1..].bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
            match u32::from_str_radix(&rest[1..=digits], 8) {
                // One digit is a reference to a group, which the engine refuses.
                Ok(code) if digits > 1 || next == '0' => out.push_str(&format!("\\x{{{code:x}}}")),
                _ => out.extend(["\\", &rest[1..=digits]]),
            }
            return 1 + digits;
        }
        (None, 'p' | 'P' | 'x') if rest[2..].starts_with('{') => {
            let length = rest.find('}').map_or(rest.len(), |end| end + 1);
            out.push_str(&rest[..length]);
            return length;
        }
        // Word boundaries in the `regex` crate, plain characters in Go.
        (None, '<' | '>') => out.push(next),
        (None, next) => {
            out.push('\\');
            out.push(next);
        }
    }
    1 + next.len_utf8()
}

/// A glob matches the whole text: `*` and `**` any characters, `?` one, `[a-z]` and `[!a-z]` one of a class,
/// `{a,b}` one of several globs.
fn from_glob(source: &str) -> String {
    let mut out = String::from("^(?:");
    let mut depth = 0u32;
    let mut chars = source.chars();
    while let Some(char) = chars.next() {
        match char {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            '\\' => out.push_str(&regex::escape(&chars.next().map_or("\\".to_owned(), String::from))),
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
                    member => out.push_str(&regex::escape(&String::from(member))),
                });
                chars = class[end..].chars();
            }
            ']' => out.push(']'),
            char => out.push_str(&regex::escape(&String::from(char))),
        }
    }
    out.push_str(")$");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        compile(pattern, Syntax::Regex).unwrap_or_else(|error| panic!("{pattern}: {error}")).is_match(text)
    }

    #[test]
    fn go_patterns_mean_what_they_mean_in_go() {
        assert!(matches(r"^http(s)?:\/\/a\.b(\..*)?:(4318|4317).*", "https://a.b.c:4317/x"));
        assert!(matches(r"^\d+$", "42") && !matches(r"^\d+$", "٤٢"));
        assert!(matches(r"^[\w.]+$", "a_1.") && !matches(r"^\w+$", "é"));
        assert!(matches(r"^[^\d]$", "x") && matches(r"^[\D]$", "x"));
        assert!(matches(r"\bfoo\b", "a foo b"));
        assert!(matches(r"^\Qa.b\E+$", "a.bb"));
        assert!(matches(r"^[]a&&[b]+$", "]&[b"));
        assert!(matches(r"^[[:alpha:]]+$", "abc"));
        assert!(matches(r"^\<b\>$", "<b>"));
        assert!(compile("(", Syntax::Regex).unwrap_err().starts_with("invalid pattern: "));
        assert!(compile("((a{100}){100}){100}", Syntax::Regex).unwrap_err().contains("too large"));
    }

    #[test]
    fn globs_match_whole_texts() {
        let glob = |pattern: &str, text: &str| compile(pattern, Syntax::Glob).unwrap().is_match(text);
        assert!(glob("/user/*/list/*", "/user/a/b/list/c"));
        assert!(!glob("user", "users") && glob("us?r", "user"));
        assert!(glob("{a,b*}[!x][0-9].c", "bcd1.c") && !glob("a[!x]", "ax"));
    }
}
