//! The heads of backends' answers, on their way to the HTTP/2 library.
//!
//! The library takes in all heads that have arrived, those of answers and those before answers (1xx). One byte of a
//! head may stand for a field that takes a hundred times as much memory. So after some heads the tasks of the requests
//! have their turn; they keep little of them.
//!
//! The library remembers fields for the answers to come, up to 4 KiB. But of a field that only requests have, because
//! it says where they go, the library keeps the whole buffer in which the answer came. No answer has such fields, so a
//! connection ends when many of them are remembered.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, ReadBuf};

use crate::http2::{Fields, Fragment, Frames};
use crate::writes::writes_go_on;

/// A few of these may be harmless: every name that begins with a colon counts as one, so the name of the status does,
/// too, if it is spelled out.
const MOST_TARGETS: usize = 4;

/// Heads that are taken before requests have their turn.
const HEADS_AT_ONCE: usize = 4;
/// What is read at once. Some of it is kept for later.
const READ_BYTES: usize = 8 * 1024;

/// A connection whose answers' heads are followed.
#[derive(Debug)]
pub(super) struct AnswerHeads<T> {
    inner: T,
    frames: Frames,
    fields: Fields,
    /// Heads since requests had their turn.
    heads: usize,
    /// What was read with them, for after that.
    rest: Bytes,
}

impl<T> AnswerHeads<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, frames: Frames::of_server(), fields: Fields::default(), heads: 0, rest: Bytes::new() }
    }

    /// Follows what the backend said until there were enough heads. Returns how far it came.
    fn follow(&mut self, said: &[u8]) -> io::Result<usize> {
        let mut bytes = said;
        while self.heads < HEADS_AT_ONCE
            && let Some(fragment) = self.frames.next(&mut bytes)
        {
            match fragment {
                Fragment::Head { fields, .. } => self.fields.read(fields),
                Fragment::Ends => {
                    self.fields.end(0);
                    self.heads += 1;
                }
                Fragment::Other | Fragment::Data { .. } | Fragment::Begins { .. } => {}
            }
            if self.fields.targets() > MOST_TARGETS {
                return Err(io::Error::other("answers have header fields that only requests have"));
            }
        }
        Ok(said.len() - bytes.len())
    }

    /// Hands out what was read, and keeps the rest for later.
    fn hand_out(&mut self, mut said: Bytes, into: &mut ReadBuf<'_>) -> io::Result<()> {
        let room = said.len().min(into.remaining());
        let now = self.follow(&said[..room])?;
        into.put_slice(&said.split_to(now));
        self.rest = said;
        Ok(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for AnswerHeads<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.heads == HEADS_AT_ONCE {
            self.heads = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            return Poll::Ready(self.hand_out(rest, into));
        }
        let room = into.remaining().min(READ_BYTES);
        let mut buffer = ReadBuf::new(into.initialize_unfilled_to(room));
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer))?;
        let said = buffer.filled();
        let (read, now) = (said.len(), self.follow(said)?);
        self.rest = Bytes::copy_from_slice(&said[now..read]);
        into.advance(now);
        Poll::Ready(Ok(()))
    }
}

writes_go_on!(AnswerHeads);

impl<T: Connection> Connection for AnswerHeads<TokioIo<T>> {
    fn connected(&self) -> Connected {
        self.inner.inner().connected()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncWriteExt, duplex};
    use tokio::task::unconstrained;

    use super::*;

    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

    /// HEADERS that end the head.
    fn head(fields: &[u8]) -> Vec<u8> {
        let length = u8::try_from(fields.len()).unwrap();
        [&[0, 0, length, 1, 4, 0, 0, 0, 1][..], fields].concat()
    }

    /// Follows all of it.
    fn follow(answers: &mut AnswerHeads<()>, mut said: &[u8]) -> io::Result<()> {
        while !said.is_empty() {
            answers.heads = 0;
            said = &said[answers.follow(said)?..];
        }
        Ok(())
    }

    #[test]
    fn paths_are_no_part_of_answers() {
        let mut answers = AnswerHeads::new(());
        follow(&mut answers, SETTINGS).unwrap();
        // The status, by the table of every connection and in letters, and a field that is to be remembered.
        let honest = [head(&[0x88]), head(b"\x40\x07:status\x03200"), head(b"\x40\x01x\x01y").repeat(200)].concat();
        follow(&mut answers, &honest).unwrap();
        let paths: Vec<u8> = (0..5).flat_map(|number| head(&[0x88, 0x44, 2, b'/', number])).collect();
        assert!(follow(&mut answers, &paths).unwrap_err().to_string().contains("only requests have"));
        let mut elsewhere = AnswerHeads::new(());
        follow(&mut elsewhere, b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        follow(&mut elsewhere, &paths).unwrap();
    }

    /// However it is read, all of it arrives.
    #[tokio::test]
    async fn requests_have_their_turn_after_some_heads() {
        let head = head(&[0x88]);
        let said = [SETTINGS, &head.repeat(2000)].concat();
        for room in [5, 100, 3 * READ_BYTES] {
            let (near, mut far) = duplex(said.len());
            far.write_all(&said).await.unwrap();
            let mut answers = AnswerHeads::new(near);
            let (mut heard, mut turn, mut buffer) = (Vec::new(), 0, vec![0; room]);
            while heard.len() < said.len() {
                let mut into = ReadBuf::new(&mut buffer);
                let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut answers).poll_read(cx, &mut into)));
                let is_ready = unconstrained(polled).await.is_ready();
                turn = usize::from(is_ready) * (turn + into.filled().len());
                assert!(turn <= SETTINGS.len() + HEADS_AT_ONCE * head.len(), "{turn} bytes at once");
                heard.extend_from_slice(into.filled());
            }
            assert!(heard == said, "{room}");
        }
    }
}
