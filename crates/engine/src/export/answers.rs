//! Answers of backends, on their way to the HTTP/2 library.
//!
//! The library remembers fields for the answers that come, which is 4 KiB; but of a field that says where a request is sent
//! to it keeps the whole buffer in which the answer came. No answer has such fields: a connection that has many of them
//! remembered ends.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http2::{Fields, Frames, Piece};

/// A few may be none: what begins with a colon counts as one, as the name of the status does, if it is written in letters.
const MOST_TARGETS: usize = 4;

/// A connection whose answers are followed.
#[derive(Debug)]
pub(super) struct Answers<T> {
    inner: T,
    frames: Frames,
    fields: Fields,
}

impl<T> Answers<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, frames: Frames::of_server(), fields: Fields::default() }
    }

    fn follow(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some(piece) = self.frames.next(&mut bytes) {
            match piece {
                Piece::Head { fields, .. } => self.fields.read(fields),
                Piece::Ends => drop(self.fields.end(0)),
                Piece::Other | Piece::Begins { .. } => {}
            }
            if self.fields.targets() > MOST_TARGETS {
                return Err(io::Error::other("answers have header fields that only requests have"));
            }
        }
        Ok(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Answers<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, into))?;
        Poll::Ready(self.follow(&into.filled()[before..]))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Answers<T> {
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

impl<T: Connection> Connection for Answers<TokioIo<T>> {
    fn connected(&self) -> Connected {
        self.inner.inner().connected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HEADERS that end the head.
    fn head(fields: &[u8]) -> Vec<u8> {
        let length = u8::try_from(fields.len()).unwrap();
        [&[0, 0, length, 1, 4, 0, 0, 0, 1][..], fields].concat()
    }

    #[test]
    fn paths_are_no_part_of_answers() {
        const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
        let mut answers = Answers::new(());
        answers.follow(SETTINGS).unwrap();
        // The status, by the table of every connection and in letters, and a field that is to be remembered.
        let honest = [head(&[0x88]), head(b"\x40\x07:status\x03200"), head(b"\x40\x01x\x01y").repeat(200)].concat();
        answers.follow(&honest).unwrap();
        let paths: Vec<u8> = (0..5).flat_map(|number| head(&[0x88, 0x44, 2, b'/', number])).collect();
        assert!(answers.follow(&paths).unwrap_err().to_string().contains("only requests have"));
        let mut elsewhere = Answers::new(());
        elsewhere.follow(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        elsewhere.follow(&paths).unwrap();
    }
}
