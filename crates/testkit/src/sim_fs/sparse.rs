//! Bytes of which most are zeros: room that is reserved and never written to takes no memory, and copies share pages.

use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: usize = 4096;

/// The bytes. Pages that are missing are zeros.
#[derive(Debug, Clone, Default)]
pub(super) struct Sparse {
    pages: BTreeMap<usize, Arc<[u8; PAGE]>>,
    len: usize,
}

impl Sparse {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Fills `buffer` from `offset` on, as far as there are bytes; how many that were.
    pub(super) fn read(&self, offset: usize, buffer: &mut [u8]) -> usize {
        let count = self.len.saturating_sub(offset).min(buffer.len());
        let buffer = &mut buffer[..count];
        for (page, at, range) in parts(offset, count) {
            let part = &mut buffer[range];
            match self.pages.get(&page) {
                Some(bytes) => part.copy_from_slice(&bytes[at..at + part.len()]),
                None => part.fill(0),
            }
        }
        count
    }

    /// Overwrites from `offset` on; what was beyond the end is extended with zeros up to there.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        for (page, at, range) in parts(offset, bytes.len()) {
            let page = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[at..at + range.len()].copy_from_slice(&bytes[range]);
        }
        self.len = self.len.max(offset + bytes.len());
    }

    /// Cuts, or extends with zeros.
    pub(super) fn resize(&mut self, len: usize) {
        if len < self.len {
            self.pages.split_off(&len.div_ceil(PAGE));
            if let Some(last) = self.pages.get_mut(&(len / PAGE)) {
                Arc::make_mut(last)[len % PAGE..].fill(0);
            }
        }
        self.len = len;
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes);
        bytes
    }
}

impl From<&[u8]> for Sparse {
    fn from(bytes: &[u8]) -> Self {
        let mut sparse = Self::default();
        sparse.write(0, bytes);
        sparse
    }
}

/// A stretch page by page: the page, where in the page, and which part of the stretch.
fn parts(offset: usize, length: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = (offset + done) % PAGE;
        let count = (PAGE - at).min(length - done);
        let part = ((offset + done) / PAGE, at, done..done + count);
        done += count;
        (count > 0).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain vector.
    #[test]
    fn is_what_a_vector_is() {
        let mut dice = fastrand::Rng::with_seed(5);
        let (mut sparse, mut plain) = (Sparse::default(), Vec::new());
        for _ in 0..3000 {
            let (offset, length) = (dice.usize(..20_000), dice.usize(..9000));
            if dice.u8(..4) == 0 {
                sparse.resize(offset);
                plain.resize(offset, 0);
            } else {
                let bytes = vec![dice.u8(..); length];
                sparse.write(offset, &bytes);
                plain.resize(plain.len().max(offset + length), 0);
                plain[offset..offset + length].copy_from_slice(&bytes);
            }
            assert_eq!(sparse.len(), plain.len());
            let mut part = vec![1; 5000];
            let count = sparse.read(offset, &mut part);
            assert_eq!(part[..count], *plain.get(offset..).map_or(&[][..], |rest| &rest[..rest.len().min(5000)]));
        }
        assert_eq!(sparse.to_vec(), plain);
    }
}
