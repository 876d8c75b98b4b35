//! `ParseLEEF`: the Log Event Extended Format 1.0 and 2.0, behind whatever header a transport added.

use std::borrow::Cow;

use super::super::parse::map_of;
use super::entry;
use crate::scene::Scene;
use crate::value::text::from_hex;
use crate::value::{Entries, Failure};

/// What stands between the pipes of the header, after the version.
const HEADER: [&str; 4] = ["leef.vendor", "leef.product.name", "leef.product.version", "leef.event.id"];

pub(super) fn parse<'a>(text: &str, scene: &Scene<'a>) -> Result<Entries<'a>, Failure> {
    const START: &str = "LEEF:";
    let start = text.find(START).ok_or(Failure::text("the LEEF message lacks \"LEEF:\""))?;
    let header = text[start + START.len()..].split_once('|');
    let (version, rest) = header.ok_or(Failure::text("the LEEF message lacks a pipe"))?;
    if !matches!(version, "1.0" | "2.0") {
        return Err(Failure::text("the version of the LEEF message is neither 1.0 nor 2.0"));
    }
    let parts: Vec<&str> = rest.splitn(HEADER.len() + 1, '|').collect();
    if parts.len() < HEADER.len() {
        return Err(Failure::text("the LEEF header lacks fields"));
    }
    let mut entries = vec![entry("leef.version", version)];
    entries.extend(HEADER.iter().zip(&parts).map(|(name, value)| entry(name, *value)));
    let (delimiter, attributes) = match parts.get(HEADER.len()) {
        Some(attributes) if version == "2.0" => delimited(attributes)?,
        attributes => ('\t', attributes.copied().unwrap_or_default()),
    };
    let pairs = attributes.split(delimiter).filter_map(|pair| pair.split_once('='));
    let pairs = pairs.filter(|(key, _)| !key.is_empty()).map(|(key, value)| (key.to_owned(), value.to_owned()));
    entries.push((Cow::Borrowed("leef.attributes"), map_of(scene, pairs)?));
    Ok(entries)
}

/// The delimiter of the attributes, and the attributes. A field that looks like an attribute names no delimiter.
fn delimited(text: &str) -> Result<(char, &str), Failure> {
    let (field, attributes) = text.split_once('|').unwrap_or((text, ""));
    if field.contains('=') {
        return Ok(('\t', text));
    }
    let byte = match field.strip_prefix("0x").or_else(|| field.strip_prefix("0X")) {
        Some(digits) => {
            from_hex(digits.as_bytes()).filter(|bytes| bytes.len() == 1).and_then(|bytes| bytes.first().copied())
        }
        None if field.is_empty() => Some(b'\t'),
        None => field.as_bytes().first().copied().filter(|_| field.len() == 1),
    };
    // Other bytes than ASCII are only a part of a character.
    match byte.filter(u8::is_ascii) {
        Some(byte) => Ok((char::from(byte), attributes)),
        None => Err(Failure::about(field, "is no delimiter of LEEF attributes")),
    }
}
