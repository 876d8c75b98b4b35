//! What a scalar means: text, number, boolean or nothing.
//!
//! Plain scalars follow what Kubernetes tools accept (YAML 1.1 booleans), so that a manifest means here what it means
//! to `kubectl`. Tags outside the core schema are refused.

use saphyr_parser::{ScalarStyle, Tag};

use super::Content;

/// The tag is not named: an unquoted password may start with `!`.
const UNSUPPORTED_TAG: &str = "this tag is not supported; a text that starts with '!' must be in quotes";

pub(super) fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Content, &'static str> {
    match tag {
        None if style == ScalarStyle::Plain => Ok(plain(text)),
        None => Ok(Content::Text(text.to_owned())),
        Some(tag) if is_non_specific(tag) => Ok(Content::Text(text.to_owned())),
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Ok(Content::Text(text.to_owned())),
        Some(tag) if tag.is_yaml_core_schema() && matches!(&*tag.suffix, "bool" | "int" | "float" | "null") => {
            Ok(plain(text))
        }
        Some(_) => Err(UNSUPPORTED_TAG),
    }
}

pub(super) fn check_collection_tag(tag: Option<&Tag>) -> Result<(), &'static str> {
    match tag {
        None => Ok(()),
        Some(tag) if is_non_specific(tag) => Ok(()),
        Some(tag) if tag.is_yaml_core_schema() && matches!(&*tag.suffix, "map" | "seq") => Ok(()),
        Some(_) => Err(UNSUPPORTED_TAG),
    }
}

/// The tag `!` alone: not plain, whatever it is.
fn is_non_specific(tag: &Tag) -> bool {
    tag.suffix.is_empty() && matches!(&*tag.handle, "" | "!") || tag.handle.is_empty() && tag.suffix == "!"
}

fn plain(text: &str) -> Content {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Content::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Content::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Content::Bool(false),
        _ if is_number(text) => Content::Number(text.to_owned()),
        _ => Content::Text(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    if let Some(hex) = unsigned.strip_prefix("0x") {
        return !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit() || b == b'_');
    }
    if let Some(octal) = unsigned.strip_prefix("0o") {
        return !octal.is_empty() && octal.bytes().all(|b| matches!(b, b'0'..=b'7' | b'_'));
    }
    let digits = unsigned.strip_prefix('.').unwrap_or(unsigned);
    digits.starts_with(|c: char| c.is_ascii_digit()) && unsigned.replace('_', "").parse::<f64>().is_ok()
}
