//! Connections that tell when they have ended.
//!
//! A request that comes at the very moment at which its connection ends may be forgotten by the HTTP library: nobody will
//! ever answer it (<https://github.com/hyperium/hyper/issues/4122>). So whoever waits for an answer learns, too, that the
//! connection is gone. Waiting for the end of its patience would let data lie for half a minute.

use std::future::{Future, pending};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Extensions;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection};
use tokio::sync::watch;
use tokio::time::sleep;

/// An answer that came with the end of its connection is there after this time.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A connection that tells when it has ended, which is when the HTTP library lets it go.
#[derive(Debug)]
pub(super) struct Ending<T> {
    inner: T,
    end: watch::Sender<()>,
}

/// Learns of the end of one connection.
#[derive(Debug, Clone)]
struct End(watch::Receiver<()>);

impl<T> Ending<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, end: watch::Sender::new(()) }
    }
}

/// The answer of a request, or nothing when its connection has ended without one.
pub(super) async fn unless_ended<A>(answer: impl Future<Output = A>, connection: CaptureConnection) -> Option<A> {
    tokio::select! {
        biased;
        answer = answer => Some(answer),
        () = has_ended(connection) => None,
    }
}

async fn has_ended(mut connection: CaptureConnection) {
    let mut about = Extensions::new();
    // Nothing is known of connections that do not come about. Their requests are answered.
    if let Some(connected) = &*connection.wait_for_connection_metadata().await {
        connected.get_extras(&mut about);
    }
    let Some(End(mut end)) = about.remove() else { return pending().await };
    while end.changed().await.is_ok() {}
    sleep(LAST_WORDS).await;
}

impl<T: Connection> Connection for Ending<T> {
    fn connected(&self) -> Connected {
        self.inner.connected().extra(End(self.end.subscribe()))
    }
}

impl<T: Read + Unpin> Read for Ending<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, into)
    }
}

impl<T: Write + Unpin> Write for Ending<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
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
