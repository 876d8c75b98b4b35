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

    /// Whether `text`, which is not empty, stands anywhere in what remains.
    pub(crate) fn contains(&self, text: &[u8]) -> bool {
        let longest_start = text.len() - 1;
        // The end of what came before, where the text may have begun.
        let mut seam = Vec::new();
        for chunk in &self.chunks {
            seam.extend_from_slice(&chunk[..chunk.len().min(longest_start)]);
            if contains(&seam, text) || contains(chunk, text) {
                return true;
            }
            if chunk.len() > longest_start {
                seam.clear();
                seam.extend_from_slice(&chunk[chunk.len() - longest_start..]);
            }
            seam.drain(..seam.len().saturating_sub(longest_start));
        }
        false
    }
}

/// Whether `text`, which is not empty, stands anywhere in `bytes`.
pub(crate) fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
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

    #[test]
    fn a_text_is_found_across_chunks_of_any_length() {
        let whole = b"a request that holds k8s.pod.name and more";
        for length in 1..whole.len() {
            let mut chunks = Chunks::default();
            for part in whole.chunks(length) {
                chunks.push(Bytes::copy_from_slice(part));
            }
            for (text, found) in
                [("k8s.pod.name", true), ("a", true), ("more", true), ("k8s.pod.uid", false), ("aa", false)]
            {
                assert_eq!(chunks.contains(text.as_bytes()), found, "{text} in chunks of {length}");
            }
        }
        assert!(!Chunks::default().contains(b"a"));
    }
}
