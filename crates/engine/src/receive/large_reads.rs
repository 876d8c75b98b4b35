//! Fewer, larger reads from a client's socket, and none from a client that does not read.
//!
//! The HTTP/2 library reads in pieces of 8 KiB, two system calls for each frame. Once a client has filled such a piece,
//! this wrapper reads at once as much as a client may send in a row, and hands it out, until there is less to read
//! again. Small requests never pay for the large buffer. The buffer is paid for until the next read; without room for
//! it, reads stay small. Between reads it holds no memory, so that an idle connection costs nothing
//! (`docs/decisions/005-coalesced-writes.md`).
//!
//! The library keeps what it has read until the tasks of its streams take it, and these tasks pay for it then. So the
//! tasks get their turn after each read that may not be the last one, and before the permit of the read is given back.
//! Without that, each of many connections would keep a whole flow-control window. Writes pass through. While a write
//! waits for the client to read, nothing is read from the client, because every request is one more answer to keep.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use crate::budget::{Budget, Permit};

/// How much is read at once: a small part of the memory budget. No more than the largest flow-control window comes at
/// once.
const READ_PART: usize = 1024;
const READ_MIN: usize = 64 * 1024;
const READ_MAX: usize = 256 * 1024;

/// A stream that is read in large pieces.
#[derive(Debug)]
pub(super) struct LargeReads<T> {
    inner: T,
    /// Read and not yet handed out.
    rest: BytesMut,
    /// Pays for `rest`, and for what was handed out of the same read.
    permit: Option<Permit>,
    budget: Budget,
    /// The last read filled its room, so there is more.
    flows: bool,
    /// Others have their turn before the next read.
    rests: bool,
    /// A write waits for the client to read.
    stalls: bool,
    /// Who wants to read when it does not any more.
    reader: Option<Waker>,
}

impl<T> LargeReads<T> {
    pub(super) fn new(inner: T, budget: Budget) -> Self {
        let rest = BytesMut::new();
        Self { inner, rest, permit: None, budget, flows: false, rests: false, stalls: false, reader: None }
    }

    /// How much is read at once: the least while others need the memory.
    fn most(&self) -> usize {
        let part = if self.budget.is_scarce() { 0 } else { self.budget.capacity() / READ_PART };
        part.clamp(READ_MIN, READ_MAX)
    }

    /// Notes whether a write has to wait.
    fn wrote<R>(&mut self, result: Poll<R>) -> Poll<R> {
        self.stalls = result.is_pending();
        if !self.stalls
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
        result
    }
}

impl<T: AsyncRead + Unpin> LargeReads<T> {
    /// Reads as much as the caller has room for.
    fn poll_small(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let room = into.remaining();
        ready!(Pin::new(&mut self.inner).poll_read(cx, into))?;
        self.flows = into.remaining() == 0 && room > 0;
        self.rests = self.flows;
        Poll::Ready(Ok(()))
    }

    /// Reads more than that, paid for by `permit`, and hands it out later.
    fn poll_large(&mut self, cx: &mut Context<'_>, most: usize, permit: Permit) -> Poll<io::Result<()>> {
        let mut fresh = BytesMut::with_capacity(most);
        let read = ready!(poll_read_buf(Pin::new(&mut self.inner), cx, &mut fresh))?;
        self.flows = read >= most / 2;
        if read > 0 {
            self.rests = true;
            self.rest = fresh;
            self.permit = Some(permit);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads as much at once as there may be.
    fn poll_fresh(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.stalls {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if std::mem::take(&mut self.rests) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.permit = None;
        let most = self.most();
        let large = self.flows && into.remaining() < most;
        match large.then(|| self.budget.try_take(most)).flatten() {
            Some(permit) => self.poll_large(cx, most, permit),
            None => self.poll_small(cx, into),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for LargeReads<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            ready!(self.poll_fresh(cx, into))?;
        }
        let n = self.rest.len().min(into.remaining());
        into.put_slice(&self.rest[..n]);
        self.rest.advance(n);
        if self.rest.is_empty() {
            self.rest = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for LargeReads<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::task::unconstrained;
    use tokio::time::timeout;

    use super::*;
    use crate::budget::OVERHEAD_BYTES;

    #[tokio::test]
    async fn bytes_arrive_in_order_whatever_the_sizes() {
        let (near, mut far) = duplex(3 * READ_MIN);
        let budget = Budget::new(2 * READ_MIN);
        let mut near = LargeReads::new(near, budget.clone());
        let sent: Vec<u8> = (0..5 * READ_MIN).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let writer = async {
            far.write_all(&sent).await.unwrap();
            far.shutdown().await.unwrap();
        };
        let reader = async {
            let mut received = vec![0; 100];
            near.read_exact(&mut received).await.unwrap();
            let mut large = vec![0; 2 * READ_MIN];
            near.read_exact(&mut large).await.unwrap();
            received.append(&mut large);
            near.read_to_end(&mut received).await.unwrap();
            received
        };
        let ((), received) = tokio::join!(writer, reader);
        assert!(received == sent);
        assert_eq!((near.rest.capacity(), budget.used()), (0, 0), "nothing is kept between reads");
    }

    #[tokio::test]
    async fn with_more_memory_more_is_read_at_once() {
        let large = READ_PART * 100_000;
        for (capacity, taken, most) in [
            (2 * READ_MIN, 0, READ_MIN),
            (large, 0, 100_000),
            (large, large / 3 * 2, READ_MIN),
            (READ_PART << 30, 0, READ_MAX),
        ] {
            let (near, mut far) = duplex(2 * READ_MAX);
            let budget = Budget::new(capacity);
            let others = budget.try_take(taken).unwrap();
            let used = budget.used();
            let mut near = LargeReads::new(near, budget.clone());
            far.write_all(&[7; 2 * READ_MAX]).await.unwrap();
            near.read_exact(&mut [0; 200]).await.unwrap();
            near.read_exact(&mut [0; 1]).await.unwrap();
            assert_eq!((near.rest.len(), budget.used() - used), (most - 1, most + OVERHEAD_BYTES));
            drop(others);
        }
    }

    /// The first read is small, as always.
    #[tokio::test]
    async fn a_read_is_paid_for_until_others_had_their_turn() {
        let (near, mut far) = duplex(4 * READ_MIN);
        let budget = Budget::new(10 * READ_MIN);
        let mut near = LargeReads::new(near, budget.clone());
        far.write_all(&[7; 3 * READ_MIN]).await.unwrap();
        let mut used = Vec::new();
        for _ in 0..24 {
            let mut piece = [0; READ_MIN / 8];
            let mut read = std::pin::pin!(unconstrained(near.read_exact(&mut piece)));
            while poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await.is_pending() {
                used.push(budget.used());
                assert!(used.len() < 10);
            }
        }
        let large = READ_MIN + OVERHEAD_BYTES;
        assert_eq!(used, [0, large, large]);
    }

    #[tokio::test]
    async fn nothing_is_read_while_a_write_waits() {
        let (near, mut far) = duplex(100);
        let mut near = LargeReads::new(near, Budget::new(READ_MIN));
        far.write_all(b"question").await.unwrap();
        assert!(timeout(Duration::ZERO, near.write_all(&[7; 150])).await.is_err());
        let mut question = [0; 8];
        let mut read = std::pin::pin!(near.read_exact(&mut question));
        assert!(poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await.is_pending());
    }

    #[tokio::test]
    async fn what_is_not_handed_out_is_paid_for_and_without_room_reads_stay_small() {
        for (capacity, used) in [(2 * READ_MIN, READ_MIN + OVERHEAD_BYTES), (READ_MIN, 0)] {
            let (near, mut far) = duplex(2 * READ_MIN);
            let budget = Budget::new(capacity);
            let mut near = LargeReads::new(near, budget.clone());
            far.write_all(&[7; READ_MIN]).await.unwrap();
            let mut piece = [0; 100];
            near.read_exact(&mut piece).await.unwrap();
            assert_eq!(budget.used(), 0, "the first read is small");
            near.read_exact(&mut piece).await.unwrap();
            assert_eq!(budget.used(), used);
        }
    }
}
