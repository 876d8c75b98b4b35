//! A set of numbers that takes less than a bit for each of them where they lie close together.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The set: words by their place, in blocks. A block exists if one of its numbers is in the set. It takes no more
/// memory than that number stands for on disk, whatever the numbers are.
#[derive(Debug, Default, Clone)]
pub(crate) struct Bits {
    blocks: BTreeMap<u32, Block>,
}

/// 64 words. A full word costs nothing, because a queue that takes nothing is owed all of many entries.
#[derive(Debug, Default, Clone)]
struct Block {
    /// Words of which every bit is set.
    full: u64,
    /// Words of which some are.
    some: u64,
    /// The latter.
    words: Box<[u64]>,
}

impl Block {
    fn word(&self, place: u32) -> u64 {
        let bit = 1 << place;
        match self.some & bit {
            0 if self.full & bit == 0 => 0,
            0 => u64::MAX,
            _ => self.words[self.some_before(bit)],
        }
    }

    fn some_before(&self, bit: u64) -> usize {
        (self.some & (bit - 1)).count_ones() as usize
    }

    fn set_word(&mut self, place: u32, word: u64) {
        let bit = 1 << place;
        let (was_some, is_some) = (self.some & bit != 0, word != 0 && word != u64::MAX);
        let among = self.some_before(bit);
        match (was_some, is_some) {
            (true, true) => self.words[among] = word,
            (false, false) => {}
            // No more room than for the words there are.
            (true, false) => self.words = [&self.words[..among], &self.words[among + 1..]].concat().into(),
            (false, true) => self.words = [&self.words[..among], &[word], &self.words[among..]].concat().into(),
        }
        self.some = if is_some { self.some | bit } else { self.some & !bit };
        self.full = if word == u64::MAX { self.full | bit } else { self.full & !bit };
    }
}

impl Bits {
    /// Whether it was not there before.
    pub(crate) fn insert(&mut self, index: u32) -> bool {
        let (at, bit) = split(index);
        let block = self.blocks.entry(at / 64).or_default();
        let word = block.word(at % 64);
        let new = word & bit == 0;
        if new {
            block.set_word(at % 64, word | bit);
        }
        new
    }

    /// Whether it was there before.
    pub(crate) fn remove(&mut self, index: u32) -> bool {
        let (at, bit) = split(index);
        let Some(block) = self.blocks.get_mut(&(at / 64)) else { return false };
        let word = block.word(at % 64);
        let old = word & bit != 0;
        if old {
            block.set_word(at % 64, word & !bit);
        }
        if block.full | block.some == 0 {
            self.blocks.remove(&(at / 64));
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
        self.blocks.range(start / 64..).find_map(|(number, block)| {
            let except = except.blocks.get(number);
            let first = if *number == start / 64 { start % 64 } else { 0 };
            (first..64).find_map(|place| {
                let at = number * 64 + place;
                let mask = if at == start { u64::MAX << (from % 64) } else { u64::MAX };
                let left = block.word(place) & !except.map_or(0, |block| block.word(place)) & mask;
                (left != 0).then(|| at * 64 + left.trailing_zeros())
            })
        })
    }

    /// The greatest number of the set that is less than `until` and not in `except`.
    pub(crate) fn last_except(&self, until: u32, except: &Self) -> Option<u32> {
        let (end, bit) = split(until);
        self.blocks.range(..=end / 64).rev().find_map(|(number, block)| {
            let except = except.blocks.get(number);
            (0..64).rev().map(|place| number * 64 + place).filter(|at| *at <= end).find_map(|at| {
                let mask = if at == end { bit - 1 } else { u64::MAX };
                let left = block.word(at % 64) & !except.map_or(0, |block| block.word(at % 64)) & mask;
                (left != 0).then(|| at * 64 + 63 - left.leading_zeros())
            })
        })
    }

    /// The least number of the set that is at least `from`.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        self.next_except(from, &Self::default())
    }

    /// The end of the run of consecutive numbers that begins with `first`, and that are in the set and not in `except`;
    /// `limit` at the latest.
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

    /// The runs of consecutive numbers, ascending.
    pub(crate) fn runs(&self) -> impl Iterator<Item = RangeInclusive<u32>> {
        let mut from = Some(0);
        std::iter::from_fn(move || {
            let first = self.next(from?)?;
            let last = self.run_end_except(first, u32::MAX, &Self::default()).saturating_sub(1).max(first);
            from = last.checked_add(1);
            Some(first..=last)
        })
    }

    fn word(&self, at: u32) -> u64 {
        self.blocks.get(&(at / 64)).map_or(0, |block| block.word(at % 64))
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
        assert!(set.runs().eq([10..=199, u32::MAX..=u32::MAX]));
    }

    /// A number takes no room for the numbers before it, and none once it is removed.
    #[test]
    fn numbers_far_apart_take_little_room() {
        let mut set = Bits::default();
        for index in [0, 76_000_000, u32::MAX] {
            assert!(set.insert(index));
        }
        assert_eq!((set.blocks.len(), set.next(1), set.next(76_000_001)), (3, Some(76_000_000), Some(u32::MAX)));
        assert!(set.remove(0) && set.remove(u32::MAX));
        assert_eq!(set.blocks.len(), 1);
    }

    /// Whatever is put in and taken out again, in whatever order.
    #[test]
    fn blocks_hold_what_a_plain_set_does() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut set, mut plain) = (Bits::default(), std::collections::BTreeSet::new());
        for _ in 0..2_000 {
            let first = random.u32(..3 * 4096);
            let insert = random.bool();
            for number in first..first + random.u32(1..300) {
                match insert {
                    true => assert_eq!(set.insert(number), plain.insert(number)),
                    false => assert_eq!(set.remove(number), plain.remove(&number)),
                }
            }
            let from = random.u32(..3 * 4096);
            assert_eq!(set.next(from), plain.range(from..).next().copied());
            let run = (from..).take_while(|number| plain.contains(number)).count();
            assert_eq!(set.run_end_except(from, u32::MAX, &Bits::default()) as usize, from as usize + run);
        }
        assert!(set.runs().flatten().eq(plain.iter().copied()));
        assert!(set.runs().zip(set.runs().skip(1)).all(|(run, next)| run.end() + 1 < *next.start()));
        let all = |set: &Bits| std::iter::successors(set.next(0), |last| set.next(last + 1)).collect::<Vec<_>>();
        assert_eq!(all(&set), plain.iter().copied().collect::<Vec<_>>());
        let taken = (0..5 * 4096).filter(|number| set.remove(*number)).count();
        assert!(taken == plain.len() && set.blocks.is_empty());
    }

    #[test]
    fn words_that_are_full_cost_nothing() {
        let mut set = Bits::default();
        assert!((0..4096).all(|number| set.insert(number)) && set.blocks.len() == 1 && set.blocks[&0].words.is_empty());
        assert!(set.remove(100) && set.blocks[&0].words.len() == 1);
    }
}
