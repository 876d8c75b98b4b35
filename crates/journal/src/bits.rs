//! A set of numbers, one bit each where they lie close together.

use std::collections::BTreeMap;

/// The set: words by their place, those without a bit left out. So it takes no more memory than what was put in stands
/// for on disk, whatever the numbers are.
#[derive(Debug, Default, Clone)]
pub(crate) struct Bits {
    words: BTreeMap<u32, u64>,
}

impl Bits {
    /// Whether it was not there before.
    pub(crate) fn insert(&mut self, index: u32) -> bool {
        let (at, bit) = split(index);
        let word = self.words.entry(at).or_default();
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Whether it was there before.
    pub(crate) fn remove(&mut self, index: u32) -> bool {
        let (at, bit) = split(index);
        let Some(word) = self.words.get_mut(&at) else { return false };
        let old = *word & bit != 0;
        *word &= !bit;
        if *word == 0 {
            self.words.remove(&at);
        }
        old
    }

    pub(crate) fn contains(&self, index: u32) -> bool {
        let (at, bit) = split(index);
        self.word(at) & bit != 0
    }

    /// The least number of the set that is at least `from` and not in `except`.
    pub(crate) fn next_except(&self, from: u32, except: &Self) -> Option<u32> {
        let (start, _) = split(from);
        self.words.range(start..).find_map(|(at, word)| {
            let mask = if *at == start { u64::MAX << (from % 64) } else { u64::MAX };
            let left = word & !except.word(*at) & mask;
            (left != 0).then(|| at * 64 + left.trailing_zeros())
        })
    }

    /// The least number of the set that is at least `from`.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        self.next_except(from, &Self::default())
    }

    /// Where the run of consecutive numbers that are in the set and not in `except`, and that begins with `first`, ends;
    /// at `limit` at the latest.
    pub(crate) fn run_end_except(&self, first: u32, limit: u32, except: &Self) -> u32 {
        let mut end = first;
        while end < limit {
            let (at, _) = split(end);
            let left = (self.word(at) & !except.word(at)) >> (end % 64);
            let run = left.trailing_ones();
            end = end.saturating_add(run);
            if run == 0 || !end.is_multiple_of(64) {
                break;
            }
        }
        end.min(limit)
    }

    fn word(&self, at: u32) -> u64 {
        self.words.get(&at).copied().unwrap_or(0)
    }
}

fn split(index: u32) -> (u32, u64) {
    (index / 64, 1 << (index % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_in_it() {
        let (mut set, mut other) = (Bits::default(), Bits::default());
        for index in [0, 63, 64, 200] {
            assert!(set.insert(index));
            assert!(!set.insert(index));
        }
        other.insert(63);
        let all = |from, except: &Bits| {
            std::iter::successors(set.next_except(from, except), |last| set.next_except(last + 1, except))
                .collect::<Vec<_>>()
        };
        assert_eq!(all(0, &Bits::default()), [0, 63, 64, 200]);
        assert_eq!(all(1, &other), [64, 200]);
        assert_eq!(all(201, &other), []);
        assert!(set.remove(63) && !set.remove(63) && !set.remove(100_000));
        assert!(!set.contains(63) && set.contains(200) && !set.contains(100_000));
        assert_eq!(set.next(1), Some(64));
    }

    #[test]
    fn runs_end_where_a_number_is_missing() {
        let (mut set, mut other) = (Bits::default(), Bits::default());
        assert!((10..200).all(|index| set.insert(index)));
        assert_eq!([set.run_end_except(10, 1000, &other), set.run_end_except(63, 1000, &other)], [200, 200]);
        assert_eq!([set.run_end_except(10, 150, &other), set.run_end_except(200, 300, &other)], [150, 200]);
        other.insert(128);
        assert_eq!([set.run_end_except(10, 1000, &other), set.run_end_except(128, 1000, &other)], [128, 128]);
        set.insert(u32::MAX);
        assert_eq!(set.run_end_except(u32::MAX, u32::MAX, &other), u32::MAX);
    }

    /// A number takes no room for those before it, nor one that was removed.
    #[test]
    fn numbers_far_apart_take_little_room() {
        let mut set = Bits::default();
        for index in [0, 76_000_000, u32::MAX] {
            assert!(set.insert(index));
        }
        assert_eq!((set.words.len(), set.next(1), set.next(76_000_001)), (3, Some(76_000_000), Some(u32::MAX)));
        assert!(set.remove(0) && set.remove(u32::MAX));
        assert_eq!(set.words.len(), 1);
    }
}
