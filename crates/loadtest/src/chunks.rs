//! A received body as the chunks it arrived in, read as one buffer without copying them together.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

/// Received chunks, none of them empty.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    chunks: VecDeque<Bytes>,
    remaining: usize,
}

impl Chunks {
    /// Adds what arrived next.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.remaining += chunk.len();
            self.chunks.push_back(chunk);
        }
    }
}

impl Buf for Chunks {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        self.chunks.front().map_or(&[], |chunk| chunk)
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.remaining, "cannot advance {count} bytes: {} remain", self.remaining);
        self.remaining -= count;
        while let Some(front) = self.chunks.front_mut() {
            if count < front.len() {
                front.advance(count);
                return;
            }
            count -= front.len();
            self.chunks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_read_as_one_buffer() {
        let mut chunks = Chunks::default();
        for part in ["ab", "", "cde", "f"] {
            chunks.push(Bytes::from_static(part.as_bytes()));
        }
        assert_eq!(chunks.remaining(), 6);
        chunks.advance(1);
        assert_eq!(chunks.chunk(), b"b");
        chunks.advance(2);
        assert_eq!(chunks.copy_to_bytes(3), "def");
        assert!(!chunks.has_remaining());
    }
}
