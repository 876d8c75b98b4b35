//! Maps that editors change: the map of a message, or a map inside a value.

use std::borrow::Cow;

use super::Scene;
use crate::context::Level;
use crate::program::{Path, Target};
use crate::value::places::Places;
use crate::value::{Entries, Failure, Value};

/// A map that is being changed.
pub(crate) enum MapEditor<'s, 'a> {
    /// The map of a message.
    Message(&'s mut Scene<'a>, Level),
    /// A map that is put back afterwards, and where its keys are.
    Entries(&'s mut Entries<'a>, Places<'a>),
}

impl<'a> MapEditor<'_, 'a> {
    /// How many entries there are.
    pub(crate) fn len(&mut self) -> usize {
        match self {
            Self::Message(scene, level) => scene.draft(*level).len(),
            Self::Entries(entries, _) => entries.len(),
        }
    }

    /// Whether the key is there.
    pub(crate) fn contains(&mut self, key: &str) -> bool {
        match self {
            Self::Message(scene, level) => scene.draft(*level).contains(key),
            Self::Entries(entries, places) => places.find(entries, key).is_some(),
        }
    }

    /// Removes a key, if it is there.
    pub(crate) fn remove(&mut self, key: &str) {
        match self {
            Self::Message(scene, level) => {
                scene.change(*level, |draft| draft.remove(key));
            }
            Self::Entries(entries, places) => {
                if let Some(index) = places.find(entries, key) {
                    entries.remove(index);
                    places.forget();
                }
            }
        }
    }

    /// Removes the entries whose key is not to be kept.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(&str) -> bool) {
        match self {
            Self::Message(scene, level) => {
                scene.change(*level, |draft| draft.retain(keeps));
            }
            Self::Entries(entries, places) => {
                entries.retain(|(key, _)| keeps(key));
                places.forget();
            }
        }
    }

    /// Gives a key a value.
    ///
    /// # Errors
    /// When the value cannot be stored or the request would grow too much.
    pub(crate) fn put(&mut self, key: Cow<'a, str>, value: Value<'a>) -> Result<(), Failure> {
        match self {
            Self::Message(scene, level) => scene.put_entry(*level, key, None, value),
            Self::Entries(entries, places) => {
                match places.find(entries, &key) {
                    Some(place) => entries[place].1 = value,
                    None => entries.push((key, value)),
                }
                Ok(())
            }
        }
    }

    /// All entries, to look at.
    pub(crate) fn entries(&mut self) -> Entries<'a> {
        match self {
            Self::Message(scene, level) => scene.draft(*level).all_entries(),
            Self::Entries(entries, _) => entries.clone(),
        }
    }

    /// Replaces all entries; of a key that occurs twice the last value counts.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(crate) fn replace_all(&mut self, entries: Entries<'a>) -> Result<(), Failure> {
        self.retain(|_| false);
        entries.into_iter().try_for_each(|(key, value)| self.put(key, value))
    }
}

impl<'a> Scene<'a> {
    /// Changes the map a path leads to.
    ///
    /// # Errors
    /// When it leads to something else, or the change fails; the request may grow only so much.
    pub(crate) fn edit_map(
        &mut self,
        path: &'a Path,
        edit: impl FnOnce(&mut MapEditor<'_, 'a>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if let (Target::Map(level), []) = (path.target, &path.keys[..]) {
            return edit(&mut MapEditor::Message(self, level));
        }
        let mut entries = self.get(path)?.into_map()?.into_entries();
        edit(&mut MapEditor::Entries(&mut entries, Places::default()))?;
        self.set(path, Value::map(entries))
    }
}
