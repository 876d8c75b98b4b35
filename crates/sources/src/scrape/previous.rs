//! The lines of the last page, while the next one is read that differs from it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::known::{Composite, KnownLine, hash};

/// Keys that are hashes already.
pub(super) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Same>>;

/// Takes a hash as it is.
#[derive(Debug, Default)]
pub(super) struct Same(u64);

/// Most series stand where they stood before, a few lines up or down.
const NEAR: usize = 8;

/// The lines of the last page, and which of them were found again.
#[derive(Debug)]
pub(super) struct Previous<'k> {
    lines: &'k [KnownLine],
    composites: &'k [Composite],
    /// Its metrics, which lines have their slots in.
    metrics: &'k [u8],
    is_found: Vec<bool>,
    /// Where the next line is likely to be.
    next: usize,
    /// Made when a line is searched for that is not near.
    places: Option<ByHash<usize>>,
}

impl<'k> Previous<'k> {
    pub(super) fn new(lines: &'k [KnownLine], composites: &'k [Composite], metrics: &'k [u8]) -> Self {
        Self { lines, composites, metrics, is_found: vec![false; lines.len()], next: 0, places: None }
    }

    /// The line, if it is the one that is likely. The text may have a value behind what is hashed.
    pub(super) fn likely(&mut self, text: &[u8]) -> Option<&'k KnownLine> {
        let line = self.lines.get(self.next)?;
        let length = line.length();
        let is_whole = text.get(length) == Some(&b' ');
        (is_whole && hash(&text[..length]) == line.hash).then(|| self.found(self.next))
    }

    /// The line with this hash.
    pub(super) fn find(&mut self, hash: u64) -> Option<&'k KnownLine> {
        let near = self.lines.iter().skip(self.next).take(NEAR).position(|line| line.hash == hash);
        let index = match near {
            Some(at) => self.next + at,
            None => {
                let all = || self.lines.iter().enumerate().map(|(index, line)| (line.hash, index)).collect();
                *self.places.get_or_insert_with(all).get(&hash)?
            }
        };
        Some(self.found(index))
    }

    /// The data point of a line that has one of its own, as it was encoded.
    pub(super) fn point(&self, line: &KnownLine) -> Option<&'k [u8]> {
        let start = line.point()?;
        // The length stands before the body, in as few bytes as it needs; points have at least two fields.
        let mut width = 1;
        while width < 5 && self.metrics.get(start - width - 1) != Some(&KEY) {
            width += 1;
        }
        let length = self.metrics.get(start - width..start)?;
        let length = length.iter().rev().fold(0_usize, |length, byte| length << 7 | usize::from(byte & 0x7f));
        self.metrics.get(start..start + length)
    }

    /// What several lines were together.
    pub(super) fn composites(&self) -> ByHash<&'k Composite> {
        self.composites.iter().map(|composite| (composite.hash, composite)).collect()
    }

    /// Where the points begin that were not found again, in order. `is_left`: whether a composite is.
    pub(super) fn gone(&self, is_left: impl Fn(&Composite) -> bool) -> Vec<usize> {
        let lines = self.lines.iter().zip(&self.is_found).filter(|(_, is_found)| !**is_found);
        let lines = lines.filter_map(|(line, _)| line.point());
        let composites = self.composites.iter().filter(|composite| !is_left(composite)).map(Composite::point);
        let mut points: Vec<usize> = lines.chain(composites).collect();
        points.sort_unstable();
        points
    }

    fn found(&mut self, index: usize) -> &'k KnownLine {
        self.is_found[index] = true;
        self.next = index + 1;
        &self.lines[index]
    }
}

/// The key of a data point in its metric.
const KEY: u8 = weir_otlp::field::short_key(weir_otlp::field::gauge::DATA_POINTS, weir_otlp::cursor::WireType::Len);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
