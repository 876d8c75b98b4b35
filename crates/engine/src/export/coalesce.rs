//! Fewer, larger writes to a backend's socket.
//!
//! HTTP/2 libraries write each 16 KiB frame by itself, and each write walks the kernel's whole network stack. This
//! wrapper collects what is written within one turn of the connection's task, and writes it at once. The copy costs a
//! fraction of what it saves (`docs/decisions/005-coalesced-writes.md`). The wrapper knows nothing of HTTP or TLS.
//!
//! The libraries keep what a backend says until the tasks of its requests take it, and a few bytes may stand for many
//! that are kept. So these tasks get their turn after each read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::dial::Only;
use crate::budget::{Budget, Permit};

/// The most that is collected: two of the largest segments that loopback and segmentation offload take.
const CAPACITY: usize = 128 * 1024;

/// Connects over TCP, with collected writes.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    pub(super) tcp: HttpConnector<Only>,
    /// The other end is a proxy that sends requests on: they have to name their destination in full.
    pub(super) forwards: bool,
    /// Pays for what is collected. `None` for a connection or two, which need not be counted.
    pub(super) budget: Option<Budget>,
}

/// A connection with collected writes.
#[derive(Debug)]
pub(super) struct Coalesced<T> {
    inner: T,
    buffer: Vec<u8>,
    /// How much of the buffer is written already.
    written: usize,
    /// The task was woken to write what was collected last.
    woken: bool,
    /// Others have their turn before the next read.
    rests: bool,
    forwards: bool,
    budget: Option<Budget>,
    /// Pays for the buffer.
    room: Option<Permit>,
}

impl<T: Write + Unpin> Coalesced<T> {
    fn new(inner: T) -> Self {
        let (forwards, budget) = (false, None);
        Self { inner, buffer: Vec::new(), written: 0, woken: false, rests: false, forwards, budget, room: None }
    }

    /// Gets a buffer; false when there is no room for one. Requests are encoded from the same budget, so buffers leave
    /// half of it.
    fn open_buffer(&mut self) -> bool {
        if self.buffer.capacity() > 0 {
            return true;
        }
        if let Some(budget) = &self.budget {
            self.room = budget.try_take(CAPACITY).filter(|_| budget.used() <= budget.capacity() / 2);
            if self.room.is_none() {
                return false;
            }
        }
        self.buffer.reserve_exact(CAPACITY);
        true
    }

    /// Writes all that was collected.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.buffer.len() {
            let n = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.buffer[self.written..]))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += n;
        }
        self.buffer.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for Coalesced<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.buffer.len() + total > CAPACITY {
            ready!(self.poll_drain(cx))?;
            if total > CAPACITY {
                return Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
            }
        }
        if !self.open_buffer() {
            return Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        }
        slices.iter().for_each(|slice| self.buffer.extend_from_slice(slice));
        self.woken = false;
        Poll::Ready(Ok(total))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Libraries flush after each frame. So the task is only woken, and writes in its next turn, when it reads: by then
    /// it has written all its frames. A second flush without new data is a real one.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.buffer.is_empty() {
            return Pin::new(&mut self.inner).poll_flush(cx);
        }
        if self.woken {
            return self.poll_drain(cx);
        }
        self.woken = true;
        cx.waker().wake_by_ref();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<T: Read + Write + Unpin> Read for Coalesced<T> {
    /// Whoever waits for an answer reads, so nothing collected can be left behind.
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let drained = self.poll_drain(cx);
        if drained.is_ready() {
            // An idle connection keeps no buffer.
            self.buffer = Vec::new();
            (self.written, self.room) = (0, None);
        }
        if std::mem::take(&mut self.rests) && !matches!(drained, Poll::Ready(Err(_))) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = Pin::new(&mut self.inner).poll_read(cx, into);
        self.rests = read.is_ready();
        match (read, drained) {
            // A peer that closes may have said why: that is read first.
            (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(error)),
            (read, _) => read,
        }
    }
}

impl<T: Connection> Connection for Coalesced<T> {
    fn connected(&self) -> Connected {
        self.inner.connected().proxy(self.forwards)
    }
}

type ConnectError = <HttpConnector<Only> as Service<Uri>>::Error;
type Connecting = Pin<Box<dyn Future<Output = Result<Coalesced<TokioIo<TcpStream>>, ConnectError>> + Send>>;

impl Service<Uri> for Connector {
    type Response = Coalesced<TokioIo<TcpStream>>;
    type Error = ConnectError;
    type Future = Connecting;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, forwards, budget) = (self.tcp.call(uri), self.forwards, self.budget.clone());
        Box::pin(async move { Ok(Coalesced { forwards, budget, ..Coalesced::new(connecting.await?) }) })
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::task::unconstrained;

    use super::*;

    /// Reads from a task that has written and flushed reach the peer, whatever the sizes.
    #[tokio::test]
    async fn what_is_written_arrives_in_order_once_the_writer_reads() {
        let (near, mut far) = duplex(4 * CAPACITY);
        let mut near = TokioIo::new(Coalesced::new(TokioIo::new(near)));
        let sizes = [1, 9, 16_384, CAPACITY - 1, CAPACITY + 1, 70_000];
        let sent: Vec<u8> = (0..sizes.iter().sum::<usize>()).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let mut rest = &sent[..];
        let writer = async {
            for size in sizes {
                let (now, later) = rest.split_at(size);
                rest = later;
                near.write_all(now).await.unwrap();
                near.flush().await.unwrap();
            }
            near.read_u8().await.unwrap()
        };
        let reader = async {
            let mut received = vec![0; sent.len()];
            far.read_exact(&mut received).await.unwrap();
            far.write_u8(42).await.unwrap();
            received
        };
        let (answer, received) = tokio::join!(writer, reader);
        assert_eq!(answer, 42);
        assert!(received == sent);
    }

    /// A buffer is paid for as long as there is something in it; without room, writes go straight through.
    #[tokio::test]
    async fn what_is_collected_is_paid_for() {
        let (near, mut far) = duplex(4 * CAPACITY);
        let budget = Budget::new(3 * CAPACITY);
        let mut near = TokioIo::new(Coalesced { budget: Some(budget.clone()), ..Coalesced::new(TokioIo::new(near)) });
        near.write_all(&[7; 10]).await.unwrap();
        assert!(budget.used() >= CAPACITY);
        let nothing = tokio::time::timeout(std::time::Duration::ZERO, near.read_u8()).await;
        assert!(nothing.is_err() && budget.used() == 0, "who waits for an answer keeps no buffer");
        let others = budget.try_take(2 * CAPACITY).unwrap();
        near.write_all(&[8; 10]).await.unwrap();
        let mut received = [0; 20];
        far.read_exact(&mut received).await.unwrap();
        assert_eq!(received[10..], [8; 10]);
        drop(others);
        assert_eq!(budget.used(), 0);
    }

    /// However much a backend says at once.
    #[tokio::test]
    async fn after_each_read_others_have_their_turn() {
        let (near, mut far) = duplex(CAPACITY);
        let mut near = TokioIo::new(Coalesced::new(TokioIo::new(near)));
        far.write_all(&[7; 1000]).await.unwrap();
        let mut piece = [0; 10];
        near.read_exact(&mut piece).await.unwrap();
        for _ in 0..10 {
            let mut read = std::pin::pin!(unconstrained(near.read_exact(&mut piece)));
            assert!(poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await.is_pending());
            read.await.unwrap();
        }
    }

    #[tokio::test]
    async fn small_writes_leave_as_one() {
        let (near, mut far) = duplex(4 * CAPACITY);
        let mut near = TokioIo::new(Coalesced::new(TokioIo::new(near)));
        for _ in 0..4 {
            near.write_all(&[7; 10_000]).await.unwrap();
            near.flush().await.unwrap();
        }
        let mut received = vec![0; CAPACITY];
        let nothing = tokio::time::timeout(std::time::Duration::ZERO, far.read(&mut received)).await;
        assert!(nothing.is_err(), "nothing leaves before the task's next turn");
        near.shutdown().await.unwrap();
        assert_eq!(far.read(&mut received).await.unwrap(), 40_000);
    }
}
