//! Sets of ids: what was acknowledged, what arrived, and the difference.
//!
//! Ids are dense sequence numbers in practice, so ranges go in and come out cheaply; any 64-bit id works.

use std::ops::RangeInclusive;

use roaring::RoaringTreemap;

/// A set of ids of one signal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IdSet {
    ids: RoaringTreemap,
}

impl IdSet {
    /// Adds a range; returns how many of its ids were new.
    pub fn insert(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.ids.insert_range(range)
    }

    /// How many ids it holds.
    pub fn len(&self) -> u64 {
        self.ids.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Adds everything `other` holds.
    pub fn merge(&mut self, other: &Self) {
        self.ids |= &other.ids;
    }

    /// How many ids of `self` are not in `other`.
    pub fn missing_from(&self, other: &Self) -> u64 {
        self.ids.difference_len(&other.ids)
    }

    /// How many ids are in both.
    pub fn common_with(&self, other: &Self) -> u64 {
        self.ids.intersection_len(&other.ids)
    }

    /// The ids of `self` that are not in `other`.
    pub fn minus(&self, other: &Self) -> Self {
        Self { ids: &self.ids - &other.ids }
    }

    /// The set as inclusive ranges in ascending order, neither overlapping nor adjacent.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (high, bitmap) in self.ids.bitmaps() {
            let base = u64::from(high) << 32;
            let mut ids = bitmap.iter();
            // Run by run and not id by id: a long test has hundreds of millions of them.
            while let Some(run) = ids.next_range() {
                let (first, end) = (base + u64::from(*run.start()), base + u64::from(*run.end()));
                match ranges.last_mut() {
                    Some((_, last)) if last.checked_add(1) == Some(first) => *last = end,
                    _ => ranges.push((first, end)),
                }
            }
        }
        ranges
    }

    /// Builds a set from inclusive ranges in any order; a range that ends before it starts is empty.
    pub fn from_ranges(ranges: &[(u64, u64)]) -> Self {
        let mut set = Self::default();
        for &(first, last) in ranges {
            set.insert(first..=last);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_insert_says_how_much_of_it_is_new() {
        let mut set = IdSet::default();
        assert_eq!(set.insert(1..=512), 512);
        assert_eq!(set.insert(500..=600), 88);
        assert_eq!(set.insert(1..=600), 0);
        assert_eq!(set.len(), 600);
    }

    #[test]
    fn ranges_are_merged_sorted_and_reversible() {
        let set = IdSet::from_ranges(&[(10, 12), (1, 3), (4, 5), (u64::MAX, u64::MAX), (9, 8)]);
        assert_eq!(set.ranges(), [(1, 5), (10, 12), (u64::MAX, u64::MAX)]);
        assert_eq!(IdSet::from_ranges(&set.ranges()), set);
        let across = [((1 << 32) - 5, (1 << 32) + 5), (1 << 40, (1 << 40) + 200_000)];
        assert_eq!(IdSet::from_ranges(&across).ranges(), across, "a range may cross the set's inner blocks");
    }

    #[test]
    fn differences_are_exact() {
        let acknowledged = IdSet::from_ranges(&[(1, 100)]);
        let arrived = IdSet::from_ranges(&[(1, 40), (51, 200)]);
        assert_eq!(acknowledged.missing_from(&arrived), 10);
        assert_eq!(acknowledged.minus(&arrived).ranges(), [(41, 50)]);
        assert_eq!(acknowledged.common_with(&arrived), 90);
    }
}
