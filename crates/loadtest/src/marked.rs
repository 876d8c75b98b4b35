//! Items that ask to be dropped. The generator marks a share of all ids, a filter drops these items, and the judge
//! knows from the id alone which must arrive and which must not.

use serde::{Deserialize, Serialize};

use crate::ids::IdSet;

/// Attribute of every item when some are marked: [`DROP`] on those that are, [`KEEP`] on the others.
pub(crate) const KEY: &str = "load.drop";
pub(crate) const DROP: u8 = b'1';
pub(crate) const KEEP: u8 = b'0';

/// So many of each hundred ids are marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    percent: u8,
}

const HUNDRED: u64 = 100;

impl Marked {
    /// Marks `percent` of each hundred ids, at most all.
    pub(crate) fn new(percent: u8) -> Self {
        Self { percent: percent.min(100) }
    }

    /// How many of each hundred.
    pub(crate) fn percent(self) -> u8 {
        self.percent
    }

    /// Whether a filter is to drop the item with this id.
    pub(crate) fn drops(self, id: u64) -> bool {
        id % HUNDRED < u64::from(self.percent)
    }

    /// Of `ids`, those that a filter is to let through.
    pub(crate) fn kept(self, ids: &IdSet) -> IdSet {
        let mut kept = IdSet::default();
        for (first, last) in ids.ranges() {
            for hundred in first / HUNDRED..=last / HUNDRED {
                let start = (hundred * HUNDRED).saturating_add(self.percent.into());
                let end = (hundred * HUNDRED).saturating_add(HUNDRED - 1);
                // Empty where nothing is kept.
                kept.insert(start.max(first)..=end.min(last));
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_is_not_dropped() {
        for percent in [0, 50, 97, 100] {
            let marked = Marked::new(percent);
            let ids = IdSet::from_ranges(&[(1, 250), (398, 401), (1_000, 1_000)]);
            let kept = marked.kept(&ids);
            let expected: Vec<u64> =
                (1..=250).chain(398..=401).chain([1_000]).filter(|&id| !marked.drops(id)).collect();
            let ranges: Vec<u64> = kept.ranges().into_iter().flat_map(|(first, last)| first..=last).collect();
            assert_eq!(ranges, expected, "{percent}");
        }
        assert_eq!(Marked::new(97).kept(&IdSet::from_ranges(&[(100, 199)])).ranges(), [(197, 199)]);
    }
}
