//! Request bodies made of shared bytes: what was received is sent, without a copy in between.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::COPY_BELOW_BYTES;

/// The body of a request, in several pieces, none of them empty.
#[derive(Debug)]
pub(crate) struct Chunks {
    chunks: VecDeque<Bytes>,
    /// Bytes that have not gone out.
    remaining: usize,
    is_compressed: bool,
    progress: Progress,
}

/// How far a body has come on its way.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<AtomicBool>);

impl Progress {
    /// Whether all of the body went out. What a backend says earlier cannot be about the data.
    pub(super) fn is_sent(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Chunks {
    /// The pieces as they are.
    pub(super) fn plain(chunks: Vec<Bytes>, is_compressed: bool) -> Self {
        let chunks: VecDeque<_> = chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect();
        let remaining = chunks.iter().map(Bytes::len).sum();
        Self { chunks, remaining, is_compressed, progress: Progress::default() }
    }

    /// The pieces as one gRPC message (five bytes of prefix: compressed flag and length).
    pub(super) fn grpc(chunks: Vec<Bytes>, is_compressed: bool) -> Self {
        let mut body = Self::plain(chunks, is_compressed);
        let mut prefix = BytesMut::with_capacity(5);
        prefix.put_u8(u8::from(is_compressed));
        // Batches are a few MiB; saturation would only make the backend refuse the request.
        prefix.put_u32(u32::try_from(body.remaining).unwrap_or(u32::MAX));
        body.chunks.push_front(prefix.freeze());
        body.remaining += 5;
        body
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// To look at while the body is sent.
    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    #[cfg(test)]
    pub(super) fn pieces(&self) -> usize {
        self.chunks.len()
    }
}

impl Buf for Chunks {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        self.chunks.front().map(AsRef::as_ref).unwrap_or_default()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let places = slices.iter_mut().zip(&self.chunks);
        places.map(|(slice, chunk)| *slice = IoSlice::new(chunk)).count()
    }

    /// What went out is let go piece by piece.
    fn advance(&mut self, mut count: usize) {
        self.remaining -= count;
        while let Some(first) = self.chunks.front_mut() {
            let here = count.min(first.len());
            first.advance(here);
            count -= here;
            if first.has_remaining() {
                return;
            }
            self.chunks.pop_front();
        }
        self.progress.0.store(true, Ordering::Release);
    }
}

/// Bytes that [`join_small`] would copy.
pub(super) fn small_bytes(bodies: &[Bytes]) -> usize {
    if bodies.len() < 2 {
        return 0;
    }
    bodies.iter().map(Bytes::len).filter(|len| *len < COPY_BELOW_BYTES).sum()
}

/// Joins neighbouring small pieces into one; large ones stay shared.
pub(super) fn join_small(bodies: Vec<Bytes>) -> Vec<Bytes> {
    let mut joined = Vec::new();
    let mut small = BytesMut::with_capacity(small_bytes(&bodies));
    for body in bodies {
        if body.len() < COPY_BELOW_BYTES {
            small.extend_from_slice(&body);
        } else {
            if !small.is_empty() {
                joined.push(small.split().freeze());
            }
            joined.push(body);
        }
    }
    if !small.is_empty() {
        joined.push(small.freeze());
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_keeps_the_bytes_and_shares_the_large() {
        let large = Bytes::from(vec![9; COPY_BELOW_BYTES]);
        let bodies = vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c"), large.clone(), Bytes::from_static(b"d")];
        let joined = join_small(bodies.clone());
        assert_eq!(joined.concat(), bodies.concat());
        assert_eq!(joined.len(), 3);
        assert_eq!(joined[1].as_ptr(), large.as_ptr());
    }

    #[test]
    fn a_body_has_gone_out_with_its_last_byte_whatever_pieces_are_empty() {
        let (large, empty) = (Bytes::from(vec![9; COPY_BELOW_BYTES]), Bytes::new());
        let pieces = [vec![large.clone(), empty.clone()], vec![empty.clone(), large, empty]];
        let bodies = pieces.map(|pieces| [Chunks::plain(pieces.clone(), false), Chunks::grpc(pieces, false)]);
        for mut body in bodies.into_iter().flatten() {
            let progress = body.progress();
            while body.has_remaining() {
                assert!(!progress.is_sent() && !body.chunk().is_empty(), "a piece is left");
                body.advance(body.remaining().min(1000));
            }
            assert!(progress.is_sent());
        }
    }

    #[test]
    fn pieces_go_out_in_order_however_much_at_a_time() {
        let pieces: Vec<_> = (1..40_u8).map(|length| Bytes::from(vec![length; length.into()])).collect();
        let whole = pieces.concat();
        for step in [1, 7, 100, whole.len()] {
            let (mut body, mut out) = (Chunks::plain(pieces.clone(), false), Vec::new());
            while body.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 3];
                let count = body.chunks_vectored(&mut slices);
                let there: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                let taken = there.len().min(step);
                out.extend_from_slice(&there[..taken]);
                body.advance(taken);
            }
            assert!(out == whole && body.chunk().is_empty(), "{step} bytes at a time");
        }
    }

    #[test]
    fn a_grpc_message_is_prefixed_with_flag_and_length() {
        let mut body = Chunks::grpc(vec![Bytes::from_static(b"abc"), Bytes::from_static(b"de")], true);
        assert_eq!(body.remaining(), 10);
        assert_eq!(body.chunks.make_contiguous().concat(), b"\x01\0\0\0\x05abcde");
    }
}
