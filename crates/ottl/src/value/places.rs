//! Where the keys of a long map are. To search all of them for each key of another map would take the square of their
//! number, and a client may send many.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Entries, Failure, Value, allocated};
use crate::scene::Meter;

/// Up to this many entries are searched one by one, which is faster and needs no memory.
pub(crate) const FEW: usize = 64;

/// An entry and its place, in a list and a table that may have to double, without their texts.
const ENTRY_BYTES: usize = 3 * (size_of::<(Cow<'_, str>, Value<'_>)>() + size_of::<(Cow<'_, str>, usize)>());

/// The places of keys in entries that only grow. A key that occurs twice is found at its first place.
#[derive(Debug, Default)]
pub(crate) struct Places<'a> {
    known: HashMap<Cow<'a, str>, usize>,
    /// How many of the entries are known.
    seen: usize,
}

impl<'a> Places<'a> {
    /// The place of a key.
    pub(crate) fn find(&mut self, entries: &[(Cow<'a, str>, Value<'a>)], key: &str) -> Option<usize> {
        if entries.len() <= FEW {
            return entries.iter().position(|(other, _)| other == key);
        }
        for (place, (key, _)) in entries.iter().enumerate().skip(self.seen) {
            self.known.entry(key.clone()).or_insert(place);
        }
        self.seen = entries.len();
        self.known.get(key).copied()
    }

    /// Entries moved or went away, so what was known may be wrong.
    pub(crate) fn forget(&mut self) {
        if self.seen > 0 {
            *self = Self::default();
        }
    }
}

/// Entries of which no two have the same key.
#[derive(Debug, Default)]
pub(crate) struct Distinct<'a> {
    pub(crate) entries: Entries<'a>,
    places: Places<'a>,
}

impl<'a> Distinct<'a> {
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self { entries: Entries::with_capacity(entries), places: Places::default() }
    }

    /// Whether a key is there.
    pub(crate) fn contains(&mut self, key: &str) -> bool {
        self.places.find(&self.entries, key).is_some()
    }

    /// Adds an entry, or gives a key that is there another value, if there is memory for it.
    ///
    /// # Errors
    /// When there is not.
    pub(crate) fn put_within(&mut self, meter: &mut Meter, key: String, value: Value<'a>) -> Result<(), Failure> {
        meter.take(ENTRY_BYTES + 2 * allocated(key.len()) + value.heap())?;
        self.put(Cow::Owned(key), value);
        Ok(())
    }

    /// Adds an entry, or gives an existing key another value.
    pub(crate) fn put(&mut self, key: Cow<'a, str>, value: Value<'a>) {
        match self.places.find(&self.entries, &key) {
            Some(place) => self.entries[place].1 = value,
            None => self.entries.push((key, value)),
        }
    }
}
