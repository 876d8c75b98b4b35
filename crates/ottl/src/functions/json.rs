//! `ParseJSON`: a text to maps and lists in one pass, which counts the memory that it needs before it takes it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{Function, STRING, function, required};
use crate::program::Arguments;
use crate::scene::access::owned;
use crate::scene::{Scene, TOO_LARGE};
use crate::value::{Entries, Failure, Value, allocated};

pub(super) const FUNCTIONS: &[Function] = &[function("ParseJSON", &[required("target", STRING)], parse_json)];

fn parse_json<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let parsed = match arguments.text(0, scene)? {
        Cow::Borrowed(text) => read(text, scene.room())?,
        Cow::Owned(text) => {
            let parsed = read(&text, scene.room())?;
            // The copy has the texts too that are borrowed so far.
            scene.check_length(parsed.heap().saturating_mul(2).saturating_add(text.len()))?;
            owned(parsed)
        }
    };
    match parsed {
        Value::Map(_) | Value::List(_) => Ok(parsed),
        _ => Err(Failure::text("cannot parse JSON: it is neither an object nor an array")),
    }
}

/// The value of a JSON text; it takes at most so many bytes of memory.
fn read(text: &str, room: usize) -> Result<Value<'_>, Failure> {
    let mut room = MemoryLeft { left: room, exhausted: false };
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Reader(&mut room).deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    match value {
        Err(_) if room.exhausted => Err(TOO_LARGE),
        value => value.map_err(|error| Failure::new(format!("cannot parse JSON: {error}"))),
    }
}

/// Memory that may still be taken.
struct MemoryLeft {
    left: usize,
    exhausted: bool,
}

impl MemoryLeft {
    fn take<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.has(bytes)?;
        self.left -= bytes;
        Ok(())
    }

    fn has<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.exhausted |= bytes > self.left;
        if self.exhausted { Err(E::custom(&TOO_LARGE)) } else { Ok(()) }
    }

    /// Adds an element to a list that grows by no more than was taken for it.
    fn push<T, E: Error>(&mut self, list: &mut Vec<T>, element: T) -> Result<(), E> {
        if list.len() == list.capacity() {
            let more = list.len().max(1);
            self.take(more * size_of::<T>())?;
            list.reserve_exact(more);
        }
        list.push(element);
        Ok(())
    }

    /// A copy of a text.
    fn text<E: Error>(&mut self, text: &str) -> Result<String, E> {
        self.take(allocated(text.len()))?;
        Ok(text.to_owned())
    }
}

/// Reads a value. Every number is a double.
struct Reader<'r>(&'r mut MemoryLeft);

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Value::Nil)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Value::Bool(value))
    }

    #[expect(clippy::cast_precision_loss, reason = "the language reads every JSON number as a double")]
    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Value::Double(value as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "the language reads every JSON number as a double")]
    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Value::Double(value as f64))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Value::Double(value))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Value::text(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Value::text(self.0.text(text)?))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = elements.next_element_seed(Reader(&mut *self.0))? {
            self.0.push(&mut values, value)?;
        }
        Ok(Value::list(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Entries::new();
        while let Some(key) = map.next_key_seed(KeyReader(&mut *self.0))? {
            let value = map.next_value_seed(Reader(&mut *self.0))?;
            self.0.push(&mut entries, (key, value))?;
        }
        // Sorting takes as much again for a moment.
        self.0.has(size_of_val(&entries[..]))?;
        Ok(Value::map(sorted(entries)))
    }
}

/// Entries in the order of their keys. If a key occurs twice, the last value counts.
fn sorted(mut entries: Entries<'_>) -> Entries<'_> {
    entries.sort_by(|(left, _), (right, _)| left.cmp(right));
    entries.dedup_by(|(later, value), (earlier, kept)| {
        let same = later == earlier;
        if same {
            std::mem::swap(value, kept);
        }
        same
    });
    entries
}

/// Reads a key.
struct KeyReader<'r>(&'r mut MemoryLeft);

impl<'de> DeserializeSeed<'de> for KeyReader<'_> {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeyReader<'_> {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        self.0.text(text).map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) {
        let expected: serde_json::Value = serde_json::from_str(text).unwrap();
        let value = read(text, 1 << 20).unwrap();
        assert_eq!(value.clone().into_any_text(1 << 20).unwrap(), expected.to_string(), "{text}");
        let taken = least_room(text);
        assert!(value.heap() <= taken, "{text}: {} of {taken}", value.heap());
        assert!(taken == 0 || read(text, taken - 1).err() == Some(TOO_LARGE), "{text}");
    }

    /// The least limit that is enough.
    fn least_room(text: &str) -> usize {
        (0..1 << 14).find(|room| read(text, *room).is_ok()).expect("it takes less")
    }

    #[test]
    fn texts_are_read_as_serde_reads_them() {
        check(r#"{"b": [true, false, null], "a": {"z": "", "y": {}}, "c": [[], [[]]]}"#);
        check(r#"{"twice": "first", "other": "x", "twice": "second"}"#);
        check(r#"["\u00e9\n\"", "plain", {"esc\\aped": "a\tb", "esc\\aped": "again"}]"#);
        check(r#"{"": [], "\u0000": "\ud83d\ude00"}"#);
        check("[0.5, -2.5, 1e300]");
        let list: Vec<String> = (0..25).rev().map(|key| format!("\"{key}\": \"{key}\"")).collect();
        check(&format!("{{{}}}", list.join(",")));
    }
}
