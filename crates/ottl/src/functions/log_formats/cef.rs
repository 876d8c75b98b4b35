//! `ParseCEF`: the Common Event Format, behind whatever header a transport added.

use std::borrow::Cow;

use super::super::parse::map_of;
use super::{entry, unescaped};
use crate::scene::Scene;
use crate::value::{Entries, Failure};

/// What stands between the pipes of the header, after the version.
const HEADER: [&str; 6] = [
    "cef.device_vendor",
    "cef.device_product",
    "cef.device_version",
    "cef.device_event_class_id",
    "cef.name",
    "cef.severity",
];

pub(super) fn parse<'a>(text: &str, scene: &Scene<'a>) -> Result<Entries<'a>, Failure> {
    const START: &str = "CEF:";
    let start = text.find(START).ok_or(Failure::text("the CEF message lacks \"CEF:\""))?;
    let (version, mut rest) = field(&text[start + START.len()..]);
    if version.is_empty() {
        return Err(Failure::text("the CEF message lacks its version"));
    }
    let mut entries = vec![entry("cef.version", version)];
    for name in HEADER {
        let header = rest.ok_or(Failure::text("the CEF header lacks fields"))?;
        let (value, after) = field(header);
        entries.push(entry(name, unescaped(value, &[('|', '|'), ('\\', '\\')])));
        rest = after;
    }
    let extensions = extensions(rest.unwrap_or_default()).map(|(key, value)| {
        let value = unescaped(value, &[('\\', '\\'), ('=', '='), ('n', '\n'), ('r', '\r')]);
        (key.to_owned(), value)
    });
    entries.push((Cow::Borrowed("cef.extensions"), map_of(scene, extensions)?));
    Ok(entries)
}

/// The text before the next pipe without a backslash in front, and what comes after it.
fn field(text: &str) -> (&str, Option<&str>) {
    let mut bytes = text.bytes().enumerate();
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'\\' if matches!(text.as_bytes().get(index + 1), Some(b'|' | b'\\')) => drop(bytes.next()),
            b'|' => return (&text[..index], Some(&text[index + 1..])),
            _ => {}
        }
    }
    (text, None)
}

/// Keys and values: a value goes on until the next key, which stands behind a space and before an equals sign.
fn extensions(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut next = find_key(text, 0);
    std::iter::from_fn(move || {
        let (start, equals) = next?;
        next = find_key(text, equals + 1);
        let end = next.map_or(text.len(), |(start, _)| start);
        Some((&text[start..equals], text[equals + 1..end].trim_end_matches(' ')))
    })
}

/// Where the next key starts and where the equals sign behind it is.
fn find_key(text: &str, from: usize) -> Option<(usize, usize)> {
    let is_key = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut start = (from == 0 || text.as_bytes().get(from - 1) == Some(&b' ')).then_some(from);
    for (index, byte) in text.bytes().enumerate().skip(from) {
        match start {
            Some(start) if byte == b'=' && start < index => return Some((start, index)),
            Some(_) if is_key(byte) => {}
            _ => start = None,
        }
        if byte == b' ' {
            start = Some(index + 1);
        }
    }
    None
}
