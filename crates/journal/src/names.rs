//! Names of queues by the numbers that one segment gives them. Plain data.

use std::collections::BTreeMap;

/// What all names of a file may take together: as many as can be found, of 400 bytes each.
const MAX_BYTES: usize = 1 << 20;
/// What a name takes beside its bytes.
const BESIDE: usize = 64;

/// The first name of each number.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: BTreeMap<u16, String>,
    bytes: usize,
}

impl Names {
    /// A name that a file gives. If there is no room for it, it counts as damaged.
    pub(crate) fn learn(&mut self, number: u16, name: String) {
        let bytes = name.len() + BESIDE;
        if self.bytes + bytes <= MAX_BYTES && !self.names.contains_key(&number) {
            self.bytes += bytes;
            self.names.insert(number, name);
        }
    }

    /// In the place of one that is no use.
    pub(crate) fn replace(&mut self, number: u16, name: String) {
        self.names.insert(number, name);
    }

    pub(crate) fn get(&self, number: u16) -> Option<&str> {
        self.names.get(&number).map(String::as_str)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &str)> {
        self.names.iter().map(|(number, name)| (*number, name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_take_limited_room() {
        let mut names = Names::default();
        (0..u16::MAX).for_each(|number| names.learn(number, "n".repeat(1024)));
        assert_eq!(names.iter().count(), MAX_BYTES / (1024 + BESIDE));
        names.learn(0, "other".to_owned());
        assert_eq!((names.get(0).map(str::len), names.get(u16::MAX - 1)), (Some(1024), None));
    }
}
