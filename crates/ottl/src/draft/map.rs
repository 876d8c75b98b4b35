//! The map of a message: attributes, metadata.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Draft, Entry, Slot, State, fingerprint};
use crate::value::places::FEW;
use crate::value::{Entries, Value, entry_heap, wire};

impl<'a> Draft<'a> {
    /// The value of a key. `slot` is the number of the key, if a statement names it as a literal.
    pub(crate) fn get(&mut self, key: &str, slot: Option<usize>) -> Option<Value<'a>> {
        match self.find(key, slot) {
            Slot::Entry(index) => Some(self.value_of(&self.entries[index])),
            Slot::Added(index) => Some(self.added[index].1.clone()),
            Slot::Absent | Slot::Unknown => None,
        }
    }

    /// Whether a key is there.
    pub(crate) fn contains(&mut self, key: &str) -> bool {
        matches!(self.find(key, None), Slot::Entry(_) | Slot::Added(_))
    }

    /// By how much the body would grow if the entry at a place took `length` bytes.
    pub(crate) fn growth_at(&self, place: Slot, length: usize) -> isize {
        length.cast_signed() - self.len_at(place).cast_signed()
    }

    /// Bytes that the entry at a place takes.
    fn len_at(&self, place: Slot) -> usize {
        match place {
            Slot::Entry(index) => {
                let entry = &self.entries[index];
                match entry.state {
                    State::Kept => entry.end - entry.start,
                    State::Removed => 0,
                    State::Replaced(place) => length(entry.key.len(), &self.replaced[place]),
                }
            }
            Slot::Added(index) => self.added.get(index).map_or(0, |(key, value)| length(key.len(), value)),
            Slot::Absent | Slot::Unknown => 0,
        }
    }

    /// Bytes that all entries take.
    pub(crate) fn map_len(&self) -> usize {
        let entries = (0..self.entries.len()).map(Slot::Entry).chain((0..self.added.len()).map(Slot::Added));
        entries.map(|place| self.len_at(place)).sum()
    }

    /// Gives a key a value.
    pub(crate) fn put(&mut self, key: Cow<'a, str>, value: Value<'a>) {
        let place = self.find(&key, None);
        let grown = self.growth_at(place, length(key.len(), &value));
        self.put_at(place, key, None, value, grown);
    }

    /// Gives a key a value. It is known where the key is and by how much the body grows.
    pub(crate) fn put_at(
        &mut self,
        place: Slot,
        key: Cow<'a, str>,
        slot: Option<usize>,
        value: Value<'a>,
        grown: isize,
    ) {
        self.changed = true;
        self.grown += grown;
        match place {
            Slot::Entry(index) => self.replace(index, value),
            Slot::Added(index) => {
                let old = &mut self.added[index].1;
                self.held = self.held + value.heap() - old.heap();
                *old = value;
            }
            Slot::Absent | Slot::Unknown => {
                self.held += entry_heap(&key, &value);
                self.added.push((key, value));
                match slot.and_then(|slot| self.slots.get_mut(slot)) {
                    Some(slot) => *slot = Slot::Added(self.added.len() - 1),
                    None => self.slots.fill(Slot::Unknown),
                }
            }
        }
    }

    /// Gives another value to an entry that the message came with.
    fn replace(&mut self, index: usize, value: Value<'a>) {
        match self.entries[index].state {
            State::Replaced(place) => {
                let old = &mut self.replaced[place];
                self.held = self.held + value.heap() - old.heap();
                *old = value;
            }
            State::Kept | State::Removed => {
                self.held += size_of::<Value<'_>>() + value.heap();
                self.entries[index].state = State::Replaced(self.replaced.len());
                self.replaced.push(value);
            }
        }
    }

    /// Removes an entry of the message as it came.
    fn remove_entry(&mut self, index: usize) {
        self.grown -= self.len_at(Slot::Entry(index)).cast_signed();
        if let State::Replaced(place) = self.entries[index].state {
            let old = std::mem::replace(&mut self.replaced[place], Value::Nil);
            self.held -= old.heap();
        }
        self.entries[index].state = State::Removed;
    }

    /// Removes a key, if it is there.
    pub(crate) fn remove(&mut self, key: &str, slot: Option<usize>) {
        match self.find(key, slot) {
            Slot::Entry(index) => {
                self.remove_entry(index);
                let stale = self.slots.iter_mut().find(|slot| **slot == Slot::Entry(index));
                stale.into_iter().for_each(|slot| *slot = Slot::Unknown);
                self.places = None;
            }
            Slot::Added(index) => {
                let (key, old) = self.added.remove(index);
                self.grown -= length(key.len(), &old).cast_signed();
                self.held -= entry_heap(&key, &old);
                self.forget_places();
            }
            Slot::Absent | Slot::Unknown => return,
        }
        self.changed = true;
    }

    /// Removes the entries whose key is not to be kept.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(&str) -> bool) {
        let mut removed = false;
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            if entry.state != State::Removed && !keeps(std::str::from_utf8(entry.key).unwrap_or_default()) {
                self.remove_entry(index);
                removed = true;
            }
        }
        let (grown, held) = (&mut self.grown, &mut self.held);
        self.added.retain(|(key, value)| {
            let keep = keeps(key);
            if !keep {
                *grown -= length(key.len(), value).cast_signed();
                *held -= entry_heap(key, value);
                removed = true;
            }
            keep
        });
        if removed {
            self.changed = true;
            self.forget_places();
        }
    }

    /// How many entries there are.
    pub(crate) fn len(&mut self) -> usize {
        self.entries.iter().filter(|entry| entry.state != State::Removed).count() + self.added.len()
    }

    /// All entries.
    pub(crate) fn all_entries(&mut self) -> Entries<'a> {
        let kept = self.entries.iter().filter(|entry| entry.state != State::Removed);
        let key = |entry: &Entry<'a>| Cow::Borrowed(std::str::from_utf8(entry.key).unwrap_or_default());
        let kept = kept.map(|entry| (key(entry), self.value_of(entry)));
        kept.chain(self.added.iter().cloned()).collect()
    }

    /// The value that an entry has now.
    fn value_of(&self, entry: &Entry<'a>) -> Value<'a> {
        match entry.state {
            State::Replaced(index) => self.replaced[index].clone(),
            State::Kept | State::Removed => wire::any(entry.value),
        }
    }

    /// Whether a key has a text as its value. `encoded` is the `AnyValue` that holds the text.
    pub(crate) fn is_text(&mut self, key: &str, slot: usize, text: &str, encoded: &[u8]) -> bool {
        let value = match self.find(key, Some(slot)) {
            Slot::Entry(index) => {
                let entry = &self.entries[index];
                if entry.state == State::Kept && entry.value == encoded {
                    return true;
                }
                self.value_of(entry)
            }
            Slot::Added(index) => self.added[index].1.clone(),
            Slot::Absent | Slot::Unknown => return false,
        };
        matches!(value, Value::String(value) if value == text)
    }

    /// Where a key is.
    pub(crate) fn find(&mut self, key: &str, slot: Option<usize>) -> Slot {
        let known = slot.and_then(|slot| self.slots.get(slot)).copied();
        if let Some(known) = known.filter(|known| *known != Slot::Unknown) {
            return known;
        }
        let found = self.search(key);
        if let Some(slot) = slot.and_then(|slot| self.slots.get_mut(slot)) {
            *slot = found;
        }
        found
    }

    fn search(&mut self, key: &str) -> Slot {
        self.searches += 1;
        let entry = if self.searches > FEW && self.entries.len() > FEW {
            self.known_entries().get(key.as_bytes()).copied()
        } else {
            self.seek_entry(key.as_bytes())
        };
        match entry {
            Some(index) => Slot::Entry(index),
            None => self.added_places.find(&self.added, key).map_or(Slot::Absent, Slot::Added),
        }
    }

    /// The first entry with a key that is left.
    fn seek_entry(&self, key: &[u8]) -> Option<usize> {
        memchr::memchr_iter(fingerprint(key), &self.prints).find(|index| {
            let entry = &self.entries[*index];
            entry.key == key && entry.state != State::Removed
        })
    }

    /// The entries that are left by their keys.
    fn known_entries(&mut self) -> &HashMap<&'a [u8], usize> {
        self.places.get_or_insert_with(|| {
            let left = self.entries.iter().enumerate().filter(|(_, entry)| entry.state != State::Removed);
            // The first of several with the same key is put in last.
            left.rev().map(|(index, entry)| (entry.key, index)).collect()
        })
    }

    /// Entries moved or went away, so what was found before may be wrong.
    pub(super) fn forget_places(&mut self) {
        self.slots.fill(Slot::Unknown);
        self.added_places.forget();
        self.searches = 0;
        self.places = None;
    }
}

/// Bytes that an entry takes.
fn length(key: usize, value: &Value<'_>) -> usize {
    wire::entry_len(key, value.encoded_len().unwrap_or_default())
}
