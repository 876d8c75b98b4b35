//! A growing set of small numbers, one bit each.

/// The set. Numbers beyond its end are not in it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Whether it was not there before.
    pub(crate) fn insert(&mut self, index: u32) -> bool {
        let (word, bit) = split(index);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Whether it was there before.
    pub(crate) fn remove(&mut self, index: u32) -> bool {
        let (word, bit) = split(index);
        let Some(word) = self.words.get_mut(word) else { return false };
        let old = *word & bit != 0;
        *word &= !bit;
        old
    }

    pub(crate) fn contains(&self, index: u32) -> bool {
        let (word, bit) = split(index);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// The least number of the set that is at least `from` and not in `except`.
    pub(crate) fn next_except(&self, from: u32, except: &Self) -> Option<u32> {
        let (start, _) = split(from);
        let mut mask = u64::MAX << (from % 64);
        for (at, word) in self.words.iter().enumerate().skip(start) {
            let left = word & !except.words.get(at).copied().unwrap_or(0) & mask;
            if left != 0 {
                return u32::try_from(at * 64).ok().map(|base| base + left.trailing_zeros());
            }
            mask = u64::MAX;
        }
        None
    }

    /// The least number of the set that is at least `from`.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        self.next_except(from, &Self::default())
    }
}

fn split(index: u32) -> (usize, u64) {
    ((index / 64) as usize, 1 << (index % 64))
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
}
