//! Request bodies made of shared bytes: what was received is sent, without a copy in between.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

use super::COPY_BELOW_BYTES;

/// A body of known length in several pieces.
#[derive(Debug)]
pub(crate) struct Chunks {
    chunks: VecDeque<Bytes>,
    remaining: u64,
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

/// A piece of a body on its way. The last one notes when it went out.
#[derive(Debug)]
pub(crate) struct Chunk {
    bytes: Bytes,
    progress: Option<Progress>,
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if self.bytes.is_empty()
            && let Some(progress) = &self.progress
        {
            progress.0.store(true, Ordering::Release);
        }
    }
}

impl Chunks {
    /// The pieces as they are. Empty ones are left out: nobody would notice that the last of them went out.
    pub(super) fn plain(chunks: Vec<Bytes>) -> Self {
        let chunks: VecDeque<_> = chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect();
        let remaining = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Self { chunks, remaining, progress: Progress::default() }
    }

    /// To look at while the body is sent.
    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The pieces as one gRPC message (five bytes of prefix: compressed flag and length).
    pub(super) fn grpc(chunks: Vec<Bytes>, compressed: bool) -> Self {
        let mut body = Self::plain(chunks);
        let mut prefix = BytesMut::with_capacity(5);
        prefix.put_u8(u8::from(compressed));
        // Batches are a few MiB; saturation would only make the backend refuse the request.
        prefix.put_u32(u32::try_from(body.remaining).unwrap_or(u32::MAX));
        body.chunks.push_front(prefix.freeze());
        body.remaining += 5;
        body
    }
}

impl Body for Chunks {
    type Data = Chunk;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Chunk>, Infallible>>> {
        let Some(bytes) = self.chunks.pop_front() else { return Poll::Ready(None) };
        self.remaining -= bytes.len() as u64;
        let progress = self.chunks.is_empty().then(|| self.progress.clone());
        Poll::Ready(Some(Ok(Frame::data(Chunk { bytes, progress }))))
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
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
    use http_body_util::BodyExt;

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

    /// Takes a body as connections do: they write nothing for an empty piece.
    async fn write(mut body: Chunks) {
        let progress = body.progress();
        while let Some(frame) = body.frame().await {
            let mut data = frame.unwrap().into_data().unwrap();
            assert!(!progress.is_sent(), "a piece is left");
            while data.has_remaining() {
                data.advance(data.remaining().min(1000));
            }
        }
    }

    #[tokio::test]
    async fn a_body_has_gone_out_with_its_last_byte_whatever_pieces_are_empty() {
        let (large, empty) = (Bytes::from(vec![9; COPY_BELOW_BYTES]), Bytes::new());
        let pieces = [vec![large.clone(), empty.clone()], vec![empty.clone(), large, empty]];
        let bodies = pieces.map(|pieces| [Chunks::plain(pieces.clone()), Chunks::grpc(pieces, false)]);
        for body in bodies.into_iter().flatten() {
            let progress = body.progress();
            write(body).await;
            assert!(progress.is_sent());
        }
    }

    #[test]
    fn a_grpc_message_is_prefixed_with_flag_and_length() {
        let mut body = Chunks::grpc(vec![Bytes::from_static(b"abc"), Bytes::from_static(b"de")], true);
        assert_eq!(body.size_hint().exact(), Some(10));
        assert_eq!(body.chunks.make_contiguous().concat(), b"\x01\0\0\0\x05abcde");
    }
}
