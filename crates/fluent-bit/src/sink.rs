//! Where bytes go: into a buffer, or nowhere, to learn how many there are.

use std::ops::Range;

/// Takes bytes.
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]);

    /// Bytes so far.
    fn len(&self) -> usize;

    /// Puts bytes once more that were put before.
    fn repeat(&mut self, range: Range<usize>);

    /// Replaces bytes that were put before.
    fn set(&mut self, at: usize, bytes: [u8; 4]);

    /// Puts a string with the escapes that JSON wants, without quotation marks.
    fn put_escaped(&mut self, text: &str) {
        let mut rest = text.as_bytes();
        while let Some(at) = first_escape(rest) {
            self.put(&rest[..at]);
            match rest[at] {
                b'\n' => self.put(b"\\n"),
                b'\r' => self.put(b"\\r"),
                b'\t' => self.put(b"\\t"),
                byte @ (b'"' | b'\\') => self.put(&[b'\\', byte]),
                byte => self.put(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)]),
            }
            rest = &rest[at + 1..];
        }
        self.put(rest);
    }
}

fn hex(digit: u8) -> u8 {
    if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }
}

/// Where the first byte is that cannot stand in a string of JSON. Whole blocks are looked at without a branch.
pub(crate) fn first_escape(text: &[u8]) -> Option<usize> {
    const BLOCK: usize = 32;
    let is_escape = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let is_clean = |block: &&[u8]| !block.iter().fold(false, |found, byte| found | is_escape(byte));
    let clean = text.chunks_exact(BLOCK).take_while(is_clean).count() * BLOCK;
    text[clean..].iter().position(is_escape).map(|at| clean + at)
}

/// Counts.
#[derive(Debug, Default)]
pub(crate) struct Length(pub(crate) usize);

impl Sink for Length {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn len(&self) -> usize {
        self.0
    }

    fn repeat(&mut self, range: Range<usize>) {
        self.0 += range.len();
    }

    fn set(&mut self, _: usize, _: [u8; 4]) {}
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn repeat(&mut self, range: Range<usize>) {
        self.extend_from_within(range);
    }

    fn set(&mut self, at: usize, bytes: [u8; 4]) {
        self[at..at + 4].copy_from_slice(&bytes);
    }
}

impl<S: Sink> Sink for &mut S {
    fn put(&mut self, bytes: &[u8]) {
        (**self).put(bytes);
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn repeat(&mut self, range: Range<usize>) {
        (**self).repeat(range);
    }

    fn set(&mut self, at: usize, bytes: [u8; 4]) {
        (**self).set(at, bytes);
    }
}
