//! Heads of HTTP/2 requests, on their way to the library.
//!
//! One byte of a compressed head may stand for a field that takes a hundred times as much memory, and a part of a head
//! is kept until the rest comes. Whoever takes requests sees none of that. So this wrapper follows the frames that a
//! client sends:
//!
//! - After some heads the tasks of the requests have their turn, and their answers are written, before more is read.
//! - The room for a head that has begun is paid for until the head ends. That must be soon, because many such heads
//!   would leave no room for anybody.
//! - What heads leave behind for later heads is paid for as long as it is there, except what one small head leaves. So
//!   are trailers.
//!
//! What is not HTTP/2 passes through.

mod costs;
mod paid;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use self::costs::{Partial, ReadBuffer, Trailers};
pub(super) use self::paid::Kept;
use super::streams::Streams;
use crate::budget::{Funds, Permit};
use crate::http2::{Fields, Fragment, Frames, TEXT_BUFFER_BYTES};
use crate::writes::writes_go_on;

/// Bytes of heads, and of what counts like heads, that are read before requests have their turn.
const BYTES_AT_ONCE: usize = 4 * 1024;
/// A head counts as at least so many bytes, so sixteen heads are read at once.
const HEAD_BYTES: usize = 256;
/// A frame of a body that is smaller than this, and not the last one of its body, counts as [`SMALL_DATA_BYTES`]. The
/// library keeps 300 bytes for each frame that its request has not taken, and keeps room for as many as there ever were
/// until the connection ends.
const SMALL_DATA: usize = 1024;
const SMALL_DATA_BYTES: usize = 128;

/// The library reads into a buffer of this size, or into a larger one after larger frames.
const READ_BUFFER_BYTES: usize = 8 * 1024;
/// What is not paid for: the buffer that texts are decoded into, and the buffers that one head keeps.
const KEPT_ASIDE: usize = READ_BUFFER_BYTES + 2 * TEXT_BUFFER_BYTES;

/// A stream whose heads are followed.
#[derive(Debug)]
pub(super) struct Heads<T> {
    inner: T,
    funds: Funds,
    frames: Frames,
    /// Bytes of heads since requests had their turn.
    taken: usize,
    /// Nothing is read while one of its requests waits for room.
    streams: Arc<Streams>,
    /// What was read with them, for after that.
    read_ahead: Option<ReadAhead>,
    /// The head that has begun.
    partial: Option<Partial>,
    fields: Fields,
    trailers: Trailers,
    buffer: ReadBuffer,
    /// What was paid for last.
    keeps: usize,
    kept: Arc<Kept>,
}

/// What was read and is not handed out yet.
#[derive(Debug)]
struct ReadAhead {
    bytes: Bytes,
    _permit: Permit,
}

impl<T> Heads<T> {
    pub(super) fn new(inner: T, funds: Funds, streams: Arc<Streams>) -> Self {
        Self {
            inner,
            funds,
            streams,
            frames: Frames::of_client(),
            taken: 0,
            read_ahead: None,
            partial: None,
            fields: Fields::default(),
            trailers: Trailers::default(),
            buffer: ReadBuffer::default(),
            keeps: 0,
            kept: Arc::default(),
        }
    }

    /// What pays for the buffers that the library keeps.
    pub(super) fn kept(&self) -> Arc<Kept> {
        Arc::clone(&self.kept)
    }

    /// Follows what the client said until there were enough heads. Returns how far it came. The library has `room` for
    /// so much of it. Fails when there is no room for a head.
    fn follow(&mut self, said: &[u8], room: usize) -> io::Result<usize> {
        self.buffer.note(room, self.frames.held());
        let mut bytes = said;
        while let Some(fragment) = self.frames.next(&mut bytes) {
            match fragment {
                Fragment::Data { length, is_last: false } if length < SMALL_DATA => {
                    self.taken += SMALL_DATA_BYTES;
                    if self.taken >= BYTES_AT_ONCE {
                        break;
                    }
                }
                Fragment::Other | Fragment::Data { .. } => {}
                Fragment::Begins { stream, is_last } => self.begin(stream, is_last)?,
                Fragment::Head { length, fields } => {
                    self.taken += length;
                    self.fields.read(fields);
                    self.trailers.read(length);
                    self.pay_for_part(length, 0)?;
                }
                Fragment::Ends => {
                    self.end()?;
                    if self.taken >= BYTES_AT_ONCE {
                        break;
                    }
                }
            }
        }
        let now = said.len() - bytes.len();
        self.buffer.left -= now;
        Ok(now)
    }

    /// A head begins, or goes on in another frame.
    fn begin(&mut self, stream: u32, is_last: bool) -> io::Result<()> {
        self.taken += HEAD_BYTES;
        if self.partial.is_none() {
            self.trailers.begin(stream);
        }
        if !is_last {
            self.partial.get_or_insert_with(Partial::new);
        }
        self.pay_for_part(0, self.buffer.bytes)
    }

    /// Pays for more of a head that goes on, when it is one.
    fn pay_for_part(&mut self, bytes: usize, buffer: usize) -> io::Result<()> {
        let Some(partial) = &mut self.partial else { return Ok(()) };
        enough(partial.pay(bytes, buffer, &self.funds))
    }

    /// A head has ended.
    fn end(&mut self) -> io::Result<()> {
        // What is remembered of a head in several frames may keep everything that the head took.
        let buffer = self.partial.take().map_or(self.buffer.bytes, |partial| partial.cost());
        let keeps = self.fields.end(buffer).saturating_sub(KEPT_ASIDE) + self.trailers.end(buffer);
        let changes = std::mem::replace(&mut self.keeps, keeps) != keeps;
        enough(!changes || self.kept.pay(keeps, &self.funds))
    }
}

fn enough(is_paid: bool) -> io::Result<()> {
    if is_paid { Ok(()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
}

impl<T: AsyncRead + Unpin> Heads<T> {
    /// Reads what there is, and keeps the rest for later.
    fn poll_fresh(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (before, room) = (into.filled().len(), into.remaining());
        ready!(Pin::new(&mut self.inner).poll_read(cx, into))?;
        let fresh = &into.filled()[before..];
        let now = self.follow(fresh, room)?;
        let later = &fresh[now..];
        if !later.is_empty() {
            let permit = self.funds.find(|budget| budget.try_take(later.len()));
            let _permit = permit.ok_or(io::ErrorKind::OutOfMemory)?;
            self.read_ahead = Some(ReadAhead { bytes: Bytes::copy_from_slice(later), _permit });
            into.set_filled(before + now);
        }
        Poll::Ready(Ok(()))
    }

    /// Hands out more of what was read before.
    fn hand_out(&mut self, mut ahead: ReadAhead, into: &mut ReadBuf<'_>) -> io::Result<()> {
        let room = into.remaining();
        let now = self.follow(&ahead.bytes[..ahead.bytes.len().min(room)], room)?;
        into.put_slice(&ahead.bytes.split_to(now));
        self.read_ahead = Some(ahead).filter(|ahead| !ahead.bytes.is_empty());
        Ok(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Heads<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.taken >= BYTES_AT_ONCE {
            self.taken = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.streams.poll_may_read(cx));
        let read = match self.read_ahead.take() {
            Some(ahead) => Poll::Ready(self.hand_out(ahead, into)?),
            None => self.poll_fresh(cx, into)?,
        };
        // Only now, because what is here is in time, however busy the process was.
        if let Some(partial) = &mut self.partial
            && partial.is_late(cx)
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read.map(Ok)
    }
}

writes_go_on!(Heads);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::unconstrained;

    use super::costs::PARTIAL_HEAD_TIMEOUT;
    use super::*;
    use crate::budget::{Budget, OVERHEAD_BYTES};

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    /// Types of frames, and flags.
    const HEADERS: u8 = 1;
    const CONTINUATION: u8 = 9;
    const END_HEADERS: u8 = 4;
    const PADDED: u8 = 8;
    const PRIORITY: u8 = 0x20;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let [.., high, middle, low] = length.to_be_bytes();
        [&[high, middle, low, kind, flags, 0, 0, 0, 1][..], &vec![7; length]].concat()
    }

    /// Follows all of it.
    fn follow(heads: &mut Heads<()>, mut said: &[u8]) -> io::Result<()> {
        while !said.is_empty() {
            let left = heads.buffer.left;
            let room = if left < said.len() { said.len().max(READ_BUFFER_BYTES) } else { left };
            let now = heads.follow(said, room)?;
            said = &said[now..];
        }
        Ok(())
    }

    fn over<T>(inner: T, budget: Budget) -> Heads<T> {
        let funds = Funds([Budget::new(0), budget]);
        Heads::new(inner, funds.clone(), Streams::new(funds))
    }

    fn heads(room: usize) -> (Heads<()>, Budget) {
        let budget = Budget::new(room);
        (over((), budget.clone()), budget)
    }

    /// However the bytes are cut into reads: a few bytes cost little, and more of them cost more.
    #[tokio::test]
    async fn a_head_that_has_begun_is_paid_for_as_it_arrives_until_it_ends() {
        let said = [PREFACE, &frame(4, 0, 6), &frame(HEADERS, 0, 3000)].concat();
        let few = said.len() - 2990;
        let end = [frame(CONTINUATION, END_HEADERS, 200), frame(0, END_HEADERS, 5000)].concat();
        for step in [1, 7, 100, 10_000] {
            let (mut heads, budget) = heads(200_000);
            said[..few].chunks(step).for_each(|chunk| follow(&mut heads, chunk).unwrap());
            assert!((8000..20_000).contains(&budget.used()), "{}", budget.used());
            said[few..].chunks(step).for_each(|chunk| follow(&mut heads, chunk).unwrap());
            assert!((100_000..200_000).contains(&budget.used()), "{}", budget.used());
            end.chunks(step).for_each(|chunk| follow(&mut heads, chunk).unwrap());
            assert_eq!((budget.used(), heads.taken), (0, 2 * HEAD_BYTES + 3200));
        }
        let (mut heads, _) = heads(50_000);
        assert_eq!(follow(&mut heads, &said).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    }

    /// Each in a frame of its own, with padding and a priority before and after.
    #[tokio::test]
    async fn what_the_table_keeps_is_paid_for() {
        const EACH: usize = READ_BUFFER_BYTES + TEXT_BUFFER_BYTES;
        let path = |number: u8| [&[3, 0, 0, 0, 0, 9, 0x44, 2, b'/', number][..], &[0x44; 3]].concat();
        let frame = |number| {
            let payload = path(number);
            [&[0, 0, 13, HEADERS, END_HEADERS | PADDED | PRIORITY, 0, 0, 0, 2 * number + 1][..], &payload].concat()
        };
        for step in [1, 5, 10_000] {
            let (mut heads, budget) = heads(6 * (EACH + OVERHEAD_BYTES));
            follow(&mut heads, PREFACE).unwrap();
            frame(0).chunks(step).for_each(|chunk| follow(&mut heads, chunk).unwrap());
            assert_eq!((budget.used(), heads.kept.is_little()), (0, true), "the first is set aside");
            for number in 1..7 {
                frame(number).chunks(step).for_each(|chunk| follow(&mut heads, chunk).unwrap());
                assert_eq!(budget.used(), usize::from(number) * (EACH + OVERHEAD_BYTES));
            }
            assert!(heads.kept.is_little());
            let more = follow(&mut heads, &frame(7));
            assert_eq!(more.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        }
    }

    /// What is remembered of a head in several frames keeps all buffers that the head came in.
    #[tokio::test]
    async fn what_is_remembered_of_a_head_that_went_on_is_paid_for() {
        let (mut heads, budget) = heads(400_000);
        let path = [0x44, 2, b'/', b'a'];
        follow(&mut heads, PREFACE).unwrap();
        follow(&mut heads, &[&[0, 0, 4, HEADERS, 0, 0, 0, 0, 1][..], &path].concat()).unwrap();
        // Fields whose name the table of every connection has, without a value.
        let mut more = frame(CONTINUATION, END_HEADERS, 2000);
        more[9..].chunks_mut(2).for_each(|field| field.copy_from_slice(&[0x0e, 0]));
        follow(&mut heads, &more).unwrap();
        assert!(budget.used() > 100_000, "{}", budget.used());
        drop(heads);
        assert_eq!(budget.used(), 0);
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
            let mut near = over(near, Budget::new(1 << 20));
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
        let (mut heads, budget) = heads(1 << 20);
        follow(&mut heads, b"PRI * HTTP/1.1\r\n\r\n").unwrap();
        follow(&mut heads, &frame(HEADERS, 0, 300)).unwrap();
        assert_eq!((budget.used(), heads.taken), (0, 0));
    }

    #[tokio::test]
    async fn after_some_heads_others_have_their_turn() {
        have_their_turn_after(16, &frame(HEADERS, END_HEADERS, 10), |head, number| {
            head[5..9].copy_from_slice(&(2 * number + 1).to_be_bytes());
        })
        .await;
    }

    #[tokio::test]
    async fn after_some_small_frames_of_a_body_others_have_their_turn() {
        have_their_turn_after(32, &frame(0, 0, 100), |_, _| {}).await;
    }

    async fn have_their_turn_after(most: usize, frame: &[u8], change: fn(&mut [u8], u32)) {
        let (near, mut far) = duplex(1 << 20);
        let budget = Budget::new(200_000);
        let mut near = over(near, budget.clone());
        let mut said = PREFACE.to_vec();
        for number in 0..1000 {
            let mut frame = frame.to_vec();
            change(&mut frame, number);
            said.extend_from_slice(&frame);
        }
        far.write_all(&said).await.unwrap();
        let (mut received, mut in_a_row) = (Vec::new(), 0);
        let mut buffer = [0; READ_BUFFER_BYTES];
        while received.len() < said.len() {
            let mut read = std::pin::pin!(unconstrained(near.read(&mut buffer)));
            match poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await {
                Poll::Pending => in_a_row = 0,
                Poll::Ready(read) => {
                    let read = read.unwrap();
                    in_a_row += read;
                    received.extend_from_slice(&buffer[..read]);
                }
            }
            assert!(in_a_row <= PREFACE.len() + most * frame.len(), "{in_a_row} bytes");
        }
        assert!(received == said);
        assert_eq!(budget.used(), 0, "what was kept for later was paid for, and is handed out");
    }

    #[tokio::test]
    async fn nothing_is_read_while_a_request_waits_for_room() {
        let (near, mut far) = duplex(1 << 20);
        let mut near = over(near, Budget::new(100_000));
        let stream = near.streams.open().unwrap();
        let (room, wait) = tokio::sync::oneshot::channel();
        let mut wait = std::pin::pin!(stream.unread_while(wait));
        assert!(poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx))).await.is_pending());
        far.write_all(PREFACE).await.unwrap();
        let mut buffer = [0; 100];
        let mut read = std::pin::pin!(near.read(&mut buffer));
        assert!(poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await.is_pending());
        room.send(()).unwrap();
        let (read, _) = tokio::join!(read, wait);
        assert_eq!(read.unwrap(), PREFACE.len());
    }
}
