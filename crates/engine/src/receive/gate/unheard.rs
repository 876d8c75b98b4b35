//! A bound on what a client sends over TLS while nothing of it arrives above TLS.
//!
//! The TLS library keeps up to 64 KiB of an incomplete handshake message, which may begin at any time, and all of a
//! client's certificates as long as the connection lives. So this counts the bytes below TLS since something was heard
//! above it: the end of the handshake, or the content of a record. Beyond the bound, reading fails, which closes the
//! connection. Nothing is heard of a record before it is complete, so the bound is above the largest record.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use crate::writes::writes_go_on;

/// A client's part of a handshake is shorter with any reasonable chain of certificates, and a record has 18 KiB at
/// most.
const MOST_UNHEARD_BYTES: usize = 20 * 1024;
/// Bytes that come in the same read behind something that is heard are not counted, so reads are small.
const READ_BYTES: usize = 4 * 1024;

/// Bytes that were read since something was heard.
#[derive(Debug, Clone, Default)]
pub(super) struct Unheard(Arc<AtomicUsize>);

impl Unheard {
    /// Something was heard.
    fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The stream below TLS.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    inner: S,
    unheard: Unheard,
    in_handshake: bool,
    /// Before the next read, it is checked whether the handshake has ended. What comes after the handshake is not a
    /// part of it.
    rests: bool,
}

impl<S> Bounded<S> {
    pub(super) fn new(inner: S, unheard: Unheard) -> Self {
        Self { inner, unheard, in_handshake: true, rests: false }
    }

    /// The handshake has ended.
    pub(super) fn is_shaken(&mut self) {
        (self.in_handshake, self.rests) = (false, false);
        self.unheard.end();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.rests) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let left = MOST_UNHEARD_BYTES.saturating_sub(self.unheard.0.load(Ordering::Relaxed));
        if left == 0 {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let room = into.remaining().min(left).min(READ_BYTES);
        let mut piece = ReadBuf::new(into.initialize_unfilled_to(room));
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut piece))?;
        let read = piece.filled().len();
        into.advance(read);
        self.unheard.0.fetch_add(read, Ordering::Relaxed);
        self.rests = self.in_handshake;
        Poll::Ready(Ok(()))
    }
}

writes_go_on!(Bounded);

/// The stream above TLS.
#[derive(Debug)]
pub(super) struct Heard<S> {
    inner: S,
    unheard: Unheard,
}

impl<S> Heard<S> {
    pub(super) fn new(inner: S, unheard: Unheard) -> Self {
        Self { inner, unheard }
    }
}

impl<S: AsyncBufRead + Unpin> AsyncRead for Heard<S> {
    /// Reads from one record at most, however much is wanted. TLS itself would read the next ones before it tells of
    /// the first.
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let heard = ready!(Pin::new(&mut self.inner).poll_fill_buf(cx))?;
        let taken = heard.len().min(into.remaining());
        into.put_slice(&heard[..taken]);
        Pin::new(&mut self.inner).consume(taken);
        self.unheard.end();
        Poll::Ready(Ok(()))
    }
}

writes_go_on!(Heard);
