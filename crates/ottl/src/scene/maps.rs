//! Maps that editors change: the map of a message, or a map inside a value.

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
    ///
    /// # Errors
    /// When the message has too many fields to look into.
    pub(crate) fn remove(&mut self, key: &str) -> Result<(), Failure> {
        match self {
            Self::Message(scene, level) => scene.change(*level, |draft| draft.remove(key, None)),
            Self::Entries(entries, places) => {
                if let Some(index) = places.find(entries, key) {
                    entries.remove(index);
                    places.forget();
                }
                Ok(())
            }
        }
    }

    /// Removes the entries whose key is not to be kept.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(&str) -> bool) -> Result<(), Failure> {
        match self {
            Self::Message(scene, level) => scene.change(*level, |draft| draft.retain(keeps)),
            Self::Entries(entries, places) => {
                entries.retain(|(key, _)| keeps(key));
                places.forget();
                Ok(())
            }
        }
    }

    /// Gives keys, of which no two are the same, a value: all of them, or none when it fails.
    ///
    /// # Errors
    /// When a value cannot be stored or the request would grow too much.
    pub(crate) fn put(&mut self, changed: Entries<'a>) -> Result<(), Failure> {
        match self {
            Self::Message(scene, level) => scene.put_entries(*level, changed),
            Self::Entries(entries, places) => {
                put_all(entries, places, changed);
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

    /// Replaces all entries, or none when it fails; of a key that occurs twice the last value counts.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(crate) fn replace_all(&mut self, all: Entries<'a>) -> Result<(), Failure> {
        match self {
            Self::Message(scene, level) => scene.replace_entries(*level, all),
            Self::Entries(entries, places) => {
                entries.clear();
                places.forget();
                put_all(entries, places, all);
                Ok(())
            }
        }
    }
}

fn put_all<'a>(entries: &mut Entries<'a>, places: &mut Places<'a>, changed: Entries<'a>) {
    for (key, value) in changed {
        match places.find(entries, &key) {
            Some(place) => entries[place].1 = value,
            None => entries.push((key, value)),
        }
    }
}

impl<'a> Scene<'a> {
    /// Changes the map a path leads to. `edit` must make its change in one step, so that it fails before or not at all.
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
        let value = self.get(path)?;
        // Editors look at a copy.
        self.check_length(2 * value.unfolding())?;
        let mut entries = self.entries(value)?;
        edit(&mut MapEditor::Entries(&mut entries, Places::default()))?;
        self.set(path, Value::map(entries))
    }
}
