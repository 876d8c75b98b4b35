//! Templates of replacements: `$1`, `${1}`, `$name`, `${name}`, and `$$` for a dollar sign.

use std::sync::LazyLock;

/// Appends a template to `out`, with the value that `group` has for each name in it, if any. A dollar sign that starts
/// no name stands for itself.
pub(crate) fn expand<'t>(template: &str, out: &mut String, group: impl Fn(&str) -> Option<&'t str>) {
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = match (after.strip_prefix('$'), leading_name(after)) {
            (Some(after), _) => {
                out.push('$');
                after
            }
            (None, Some((name, after))) => {
                out.push_str(group(name).unwrap_or_default());
                after
            }
            (None, None) => {
                out.push('$');
                after
            }
        };
    }
    out.push_str(rest);
}

/// The group number that a name stands for, if it is one: without leading zeros and not too large.
pub(crate) fn number(name: &str) -> Option<usize> {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    if is_number { name.parse().ok() } else { None }
}

/// `name` or `{name}` at the start of a text, and what follows.
fn leading_name(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('{');
    let from = inner.unwrap_or(text);
    let end = from.find(|char| !is_of_name(char)).unwrap_or(from.len());
    let (name, rest) = from.split_at(end);
    let rest = if inner.is_some() { rest.strip_prefix('}')? } else { rest };
    (!name.is_empty()).then_some((name, rest))
}

/// Letters, digits and underscores. Letters beyond ASCII count, too, although no group has such a name.
fn is_of_name(char: char) -> bool {
    static WORD: LazyLock<Option<regex::Regex>> = LazyLock::new(|| regex::Regex::new(r"^[\p{L}\p{Nd}]$").ok());
    let is_word = || WORD.as_ref().is_some_and(|word| word.is_match(char.encode_utf8(&mut [0; 4])));
    char == '_' || if char.is_ascii() { char.is_ascii_alphanumeric() } else { is_word() }
}
