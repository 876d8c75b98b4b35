//! Heads of HTTP/2 requests, on their way to the library.
//!
//! A byte of a compressed head may stand for a field that takes a hundred times as much, and a part of a head is kept until
//! the rest comes. None of that is seen by whoever takes requests. So this wrapper follows the frames that a client sends:
//! after some heads the requests have their turn, and their answers are written, before more is read; and the room for a
//! head that has begun is paid for until it ends, which must be soon: many of them would leave no room for anybody. What is
//! not HTTP/2 passes through. What heads leave behind for the heads after them is paid for as long as it is there.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

use super::fields::Fields;
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

/// A buffer that the library keeps for a field in its table, and one that it decodes into.
const KEPT_BYTES: usize = 56 * 1024;
/// So many of them are not paid for: clients have one path for each signal, and one authority.
const KEPT_ASIDE: usize = 4;

/// Types of frames, and flags (RFC 9113 6.2, 6.10).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
/// What a priority takes before the fields.
const PRIORITY_BYTES: usize = 5;

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
    fields: Fields,
    kept: Arc<Kept>,
}

/// What the library keeps of heads that were read.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// One for each buffer beyond those that are set aside.
    permits: Mutex<Vec<Permit>>,
    first: Notify,
}

impl Kept {
    /// Resolves when there is something to pay for.
    pub(super) async fn begins(&self) {
        self.first.notified().await;
    }

    /// Whether nothing is paid for.
    pub(super) fn is_nothing(&self) -> bool {
        self.permits().is_empty()
    }

    /// Pays for so many buffers; false when there is no room.
    fn pay(&self, buffers: usize, funds: &Funds) -> bool {
        let mut permits = self.permits();
        permits.truncate(buffers);
        let more = buffers - permits.len();
        permits.extend((0..more).map_while(|_| funds.find(|budget| budget.try_take(KEPT_BYTES))));
        if more > 0 {
            self.first.notify_one();
        }
        permits.len() == buffers
    }

    fn permits(&self) -> MutexGuard<'_, Vec<Permit>> {
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    /// In a frame that has so many bytes more and is no head.
    Payload(usize),
    /// In a frame of a head.
    Head(Head),
    /// In another protocol.
    Elsewhere,
}

/// A frame with a head, or a part of one.
#[derive(Debug, Clone, Copy)]
struct Head {
    left: usize,
    /// The next byte says how much of the end is padding.
    is_padded: bool,
    /// Before the fields.
    skipped: usize,
    padding: usize,
    /// It is the last of its head.
    ends: bool,
}

impl<T> Heads<T> {
    pub(super) fn new(inner: T, funds: Funds) -> Self {
        let (place, fields) = (Place::Preface(0), Fields::default());
        Self { inner, funds, place, taken: 0, partial: None, fields, kept: Arc::default() }
    }

    /// What pays for the buffers that the library keeps.
    pub(super) fn kept(&self) -> Arc<Kept> {
        Arc::clone(&self.kept)
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
                Place::Payload(left) => {
                    step = left.min(bytes.len());
                    payload(left - step)
                }
                Place::Head(mut head) => {
                    step = self.read(&mut head, bytes);
                    self.head(head)?
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
        let left = u32::from_be_bytes([0, high, middle, low]) as usize;
        if !is_head {
            return Ok(payload(left));
        }
        let has = |flag| kind == HEADERS && flags & flag != 0;
        let skipped = if has(PRIORITY) { PRIORITY_BYTES } else { 0 };
        self.head(Head { left, is_padded: has(PADDED), skipped, padding: 0, ends: flags & END_HEADERS != 0 })
    }

    /// Reads some bytes of a head; how many.
    fn read(&mut self, head: &mut Head, bytes: &[u8]) -> usize {
        let fields = head.left.saturating_sub(head.padding);
        let step = match head {
            Head { is_padded: true, .. } => {
                (head.is_padded, head.padding) = (false, usize::from(bytes[0]));
                1
            }
            Head { skipped: 1.., .. } => {
                let step = head.skipped.min(head.left).min(bytes.len());
                head.skipped -= step;
                step
            }
            _ if fields > 0 => {
                let step = fields.min(bytes.len());
                self.fields.read(&bytes[..step]);
                step
            }
            _ => head.left.min(bytes.len()),
        };
        head.left -= step;
        self.taken += step;
        step
    }

    /// What comes after some bytes of a head.
    fn head(&mut self, head: Head) -> io::Result<Place> {
        if head.left > 0 {
            return Ok(Place::Head(head));
        }
        if head.ends {
            let kept = self.fields.end().saturating_sub(KEPT_ASIDE);
            if !self.kept.pay(kept, &self.funds) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
        }
        Ok(payload(0))
    }
}

fn payload(left: usize) -> Place {
    if left > 0 { Place::Payload(left) } else { Place::Frame([0; 9], 0) }
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

    /// Each in a frame of its own, with padding and a priority before and after.
    #[tokio::test]
    async fn what_the_table_keeps_is_paid_for() {
        let path = |number: u8| [&[3, 0, 0, 0, 0, 9, 0x44, 2, b'/', number][..], &[0x44; 3]].concat();
        let frame = |number| {
            let payload = path(number);
            [&[0, 0, 13, HEADERS, END_HEADERS | PADDED | PRIORITY, 0, 0, 0, 1][..], &payload].concat()
        };
        let said = [PREFACE.to_vec(), (0..7).flat_map(frame).collect()].concat();
        for piece in [1, 5, 10_000] {
            let (mut heads, budget) = heads(4 * KEPT_BYTES);
            said.chunks(piece).for_each(|piece| heads.follow(piece).unwrap());
            assert_eq!(budget.used(), (7 - KEPT_ASIDE) * (KEPT_BYTES + OVERHEAD_BYTES));
            let more = heads.follow(&frame(7));
            assert_eq!(more.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        }
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
