//! The map of a message: attributes, metadata.

use std::borrow::Cow;

use super::{Draft, Entry, Slot, State, fingerprint};
use crate::value::{Entries, Value, wire};

impl<'a> Draft<'a> {
    /// The value of a key. `slot` is the number of the key, when a statement names it as a literal.
    pub(crate) fn get(&mut self, key: &str, slot: Option<usize>) -> Option<Value<'a>> {
        match self.find(key, slot) {
            Slot::Entry(index) => Some(self.value_of(&self.entries[index])),
            Slot::Added(index) => Some(self.added[index].1.clone()),
            Slot::Absent | Slot::Unknown => None,
        }
    }

    /// Gives a key a value.
    pub(crate) fn put(&mut self, key: Cow<'a, str>, slot: Option<usize>, value: Value<'a>) {
        self.changed = true;
        self.pending += size(key.len(), &value);
        match self.find(&key, slot) {
            Slot::Entry(index) => {
                self.drop_replaced(index);
                self.entries[index].state = State::Replaced(self.replaced.len());
                self.replaced.push(value);
            }
            Slot::Added(index) => {
                let old = std::mem::replace(&mut self.added[index].1, value);
                self.pending -= size(key.len(), &old);
            }
            Slot::Absent | Slot::Unknown => {
                self.added.push((key, value));
                match slot.and_then(|slot| self.slots.get_mut(slot)) {
                    Some(slot) => *slot = Slot::Added(self.added.len() - 1),
                    None => self.forget_slots(),
                }
            }
        }
    }

    /// Forgets the value that an earlier statement gave an entry.
    fn drop_replaced(&mut self, index: usize) {
        let entry = &self.entries[index];
        if let State::Replaced(index) = entry.state {
            let old = std::mem::replace(&mut self.replaced[index], Value::Nil);
            self.pending -= size(entry.key.len(), &old);
        }
    }

    /// Removes a key, if it is there.
    pub(crate) fn remove(&mut self, key: &str) {
        match self.find(key, None) {
            Slot::Entry(index) => {
                self.drop_replaced(index);
                self.entries[index].state = State::Removed;
                let stale = self.slots.iter_mut().find(|slot| **slot == Slot::Entry(index));
                stale.into_iter().for_each(|slot| *slot = Slot::Unknown);
            }
            Slot::Added(index) => {
                let (key, old) = self.added.remove(index);
                self.pending -= size(key.len(), &old);
                self.forget_slots();
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
                self.drop_replaced(index);
                self.entries[index].state = State::Removed;
                removed = true;
            }
        }
        let pending = &mut self.pending;
        self.added.retain(|(key, value)| {
            let keep = keeps(key);
            if !keep {
                *pending -= size(key.len(), value);
                removed = true;
            }
            keep
        });
        if removed {
            self.changed = true;
            self.forget_slots();
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

    /// Whether the entry is one of the message as it came.
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

    fn find(&mut self, key: &str, slot: Option<usize>) -> Slot {
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

    fn search(&self, key: &str) -> Slot {
        let bytes = key.as_bytes();
        let mut candidates = memchr::memchr_iter(fingerprint(bytes), &self.prints);
        let entry = candidates.find(|index| {
            let entry = &self.entries[*index];
            entry.key == bytes && entry.state != State::Removed
        });
        match entry {
            Some(index) => Slot::Entry(index),
            None => self.added.iter().position(|(other, _)| other == key).map_or(Slot::Absent, Slot::Added),
        }
    }

    /// Entries moved or came: what was found before may be wrong.
    fn forget_slots(&mut self) {
        self.slots.fill(Slot::Unknown);
    }
}

/// Upper bound for the bytes that an entry takes.
fn size(key: usize, value: &Value<'_>) -> usize {
    key + value.encoded_size().unwrap_or_default()
}
