//! Heads of HTTP/2 requests, on their way to the library.
//!
//! A byte of a compressed head may stand for a field that takes a hundred times as much, and a part of a head is kept until
//! the rest comes. None of that is seen by whoever takes requests. So this wrapper follows the frames that a client sends:
//! after some heads the requests have their turn, and their answers are written, before more is read; and the room for a
//! head that has begun is paid for until it ends, which must be soon: many of them would leave no room for anybody. What is
//! not HTTP/2 passes through.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::budget::{Funds, Permit};

/// What a client of HTTP/2 says first (RFC 9113 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Of heads that are read before their requests have their turn.
const BYTES_AT_ONCE: usize = 4 * 1024;
/// A head counts as so many bytes at least: that makes sixteen of them.
const HEAD_BYTES: usize = 256;
/// What the library keeps of a head that goes on in another frame: up to six frames, in a buffer that doubles, and the
/// fields of those that it has decoded.
const PARTIAL_HEAD_BYTES: usize = 176 * 1024;
/// For the rest of such a head, which a client has when it sends the beginning.
const PARTIAL_HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// Types of frames, and a flag (RFC 9113 6.2, 6.10).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// A stream whose heads are followed.
#[derive(Debug)]
pub(super) struct Heads<T> {
    inner: T,
    funds: Funds,
    place: Place,
    /// Bytes of heads since requests had their turn.
    taken: usize,
    /// The head that has begun.
    partial: Option<Partial>,
}

/// What pays for a part of a head, and for how long.
#[derive(Debug)]
struct Partial {
    _permit: Permit,
    timeout: Pin<Box<Sleep>>,
}

/// Where in what the client says the next byte is.
#[derive(Debug)]
enum Place {
    /// So many bytes after the first one, all of them those of a client of HTTP/2.
    Preface(usize),
    /// In the head of a frame, of which so many bytes are here.
    Frame([u8; 9], usize),
    /// In a frame that has so many bytes more.
    Payload { left: usize, is_head: bool },
    /// In another protocol.
    Elsewhere,
}

impl<T> Heads<T> {
    pub(super) fn new(inner: T, funds: Funds) -> Self {
        Self { inner, funds, place: Place::Preface(0), taken: 0, partial: None }
    }

    /// Goes over what the client said; fails when there is no room for a head.
    fn follow(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some(first) = bytes.first() {
            let mut step = 1;
            self.place = match self.place {
                Place::Preface(at) if PREFACE[at] != *first => Place::Elsewhere,
                Place::Preface(at) if at + 1 == PREFACE.len() => Place::Frame([0; 9], 0),
                Place::Preface(at) => Place::Preface(at + 1),
                Place::Frame(mut head, at) => {
                    head[at] = *first;
                    if at + 1 < head.len() { Place::Frame(head, at + 1) } else { self.enter(head)? }
                }
                Place::Payload { left, is_head } => {
                    step = left.min(bytes.len());
                    self.taken += if is_head { step } else { 0 };
                    payload(left - step, is_head)
                }
                Place::Elsewhere => return Ok(()),
            };
            bytes = &bytes[step..];
        }
        Ok(())
    }

    /// What comes after the head of a frame.
    fn enter(&mut self, head: [u8; 9]) -> io::Result<Place> {
        let [high, middle, low, kind, flags, ..] = head;
        let is_head = kind == HEADERS || kind == CONTINUATION;
        if is_head {
            self.taken += HEAD_BYTES;
            if flags & END_HEADERS != 0 {
                self.partial = None;
            } else if self.partial.is_none() {
                let permit = self.funds.find(|budget| budget.try_take(PARTIAL_HEAD_BYTES));
                let _permit = permit.ok_or(io::ErrorKind::OutOfMemory)?;
                self.partial = Some(Partial { _permit, timeout: Box::pin(sleep(PARTIAL_HEAD_TIMEOUT)) });
            }
        }
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        Ok(payload(length, is_head))
    }
}

fn payload(left: usize, is_head: bool) -> Place {
    if left > 0 { Place::Payload { left, is_head } } else { Place::Frame([0; 9], 0) }
}

impl<T: AsyncRead + Unpin> AsyncRead for Heads<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.taken >= BYTES_AT_ONCE {
            self.taken = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = into.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, into)?;
        self.follow(&into.filled()[before..])?;
        // Only now: what is here is in time, however busy the process was.
        if let Some(partial) = &mut self.partial
            && partial.timeout.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read.map(Ok)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Heads<T> {
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::unconstrained;

    use super::*;
    use crate::budget::{Budget, OVERHEAD_BYTES};

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let [.., high, middle, low] = length.to_be_bytes();
        [&[high, middle, low, kind, flags, 0, 0, 0, 1][..], &vec![7; length]].concat()
    }

    fn heads(room: usize) -> (Heads<()>, Budget) {
        let budget = Budget::new(room);
        (Heads::new((), Funds([Budget::new(0), budget.clone()])), budget)
    }

    /// However what was said is cut into reads.
    #[tokio::test]
    async fn a_head_that_has_begun_is_paid_for_until_it_ends() {
        let said = [PREFACE, &frame(4, 0, 6), &frame(HEADERS, 0, 300), &frame(CONTINUATION, 0, 0)].concat();
        let end = [frame(CONTINUATION, END_HEADERS, 200), frame(0, END_HEADERS, 5000)].concat();
        for piece in [1, 7, 100, 10_000] {
            let (mut heads, budget) = heads(2 * PARTIAL_HEAD_BYTES);
            said.chunks(piece).for_each(|piece| heads.follow(piece).unwrap());
            assert_eq!(budget.used(), PARTIAL_HEAD_BYTES + OVERHEAD_BYTES);
            end.chunks(piece).for_each(|piece| heads.follow(piece).unwrap());
            assert_eq!((budget.used(), heads.taken), (0, 3 * HEAD_BYTES + 500));
        }
        let (mut heads, _) = heads(PARTIAL_HEAD_BYTES);
        assert_eq!(heads.follow(&said).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    }

    async fn send_on(mut far: DuplexStream, more: &'static [u8]) {
        while far.write_all(more).await.is_ok() {
            tokio::time::sleep(PARTIAL_HEAD_TIMEOUT / 10).await;
        }
    }

    /// Also when there is always a little more of it.
    #[tokio::test(start_paused = true)]
    async fn a_head_that_has_begun_ends_soon() {
        for more in [&[0][..], &[]] {
            let (near, mut far) = duplex(1 << 20);
            let mut near = Heads::new(near, heads(2 * PARTIAL_HEAD_BYTES).0.funds);
            far.write_all(&[PREFACE, &frame(HEADERS, 0, 300)[..]].concat()).await.unwrap();
            let client = tokio::spawn(send_on(far, more));
            let mut said = Vec::new();
            let read = tokio::time::timeout(2 * PARTIAL_HEAD_TIMEOUT, near.read_to_end(&mut said));
            assert_eq!(read.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
            client.abort();
        }
    }

    #[test]
    fn other_protocols_are_none_of_its_business() {
        let (mut heads, budget) = heads(2 * PARTIAL_HEAD_BYTES);
        heads.follow(b"PRI * HTTP/1.1\r\n\r\n").unwrap();
        heads.follow(&frame(HEADERS, 0, 300)).unwrap();
        assert_eq!((budget.used(), heads.taken), (0, 0));
    }

    #[tokio::test]
    async fn after_some_heads_others_have_their_turn() {
        let (near, mut far) = duplex(1 << 20);
        let mut near = Heads::new(near, Funds([Budget::new(0), Budget::new(0)]));
        let head = frame(HEADERS, END_HEADERS, 10);
        far.write_all(&[PREFACE, &head.repeat(1000)].concat()).await.unwrap();
        let mut piece = vec![0; PREFACE.len()];
        near.read_exact(&mut piece).await.unwrap();
        let mut piece = vec![0; head.len()];
        let mut most = 0;
        let mut in_a_row = 0;
        for _ in 0..1000 {
            let mut read = std::pin::pin!(unconstrained(near.read_exact(&mut piece)));
            in_a_row += 1;
            while poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await.is_pending() {
                assert!(in_a_row > 0, "it rests once");
                in_a_row = 0;
            }
            most = most.max(in_a_row);
        }
        assert_eq!(most, 16);
    }
}
