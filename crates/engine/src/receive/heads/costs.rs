//! What the library may keep of a head that it reads, as far as this can be told from outside.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::paid::Paid;
use crate::budget::Funds;
use crate::http2::TEXT_BUFFER_BYTES;
use crate::receive::server::{MAX_HEADER_BYTES, MAX_STREAMS};

/// What the library keeps for a byte of a head that goes on in another frame. The byte is in two buffers that double,
/// and may be decoded into a third.
const ROOM_PER_BYTE: usize = 8;
/// The byte may stand for a whole field. But there are no more fields than fit into [`MAX_HEADER_BYTES`].
const FIELD_BYTES: usize = 200;
const MOST_FIELDS: usize = MAX_HEADER_BYTES as usize / 34;
/// Time for the rest of such a head. A client has all of a head when it sends the beginning.
pub(super) const PARTIAL_HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// The buffer that the library reads into, as far as that can be told from outside.
#[derive(Debug, Default)]
pub(super) struct ReadBuffer {
    pub(super) bytes: usize,
    /// Room that is left in it.
    pub(super) left: usize,
}

impl ReadBuffer {
    /// Notes that there is so much `room` behind `held` bytes of an incomplete frame. If there is more room than was
    /// left, this is another buffer, or the same one after all of it was used. If the buffer grew, what lies in it
    /// before the frame is shorter than the frame.
    pub(super) fn note(&mut self, room: usize, held: usize) {
        if room > self.left {
            self.bytes = room + 2 * held;
        }
        self.left = room;
    }
}

/// A head that has begun.
#[derive(Debug)]
pub(super) struct Partial {
    /// The buffers that its frames came in, and its bytes.
    buffers: usize,
    bytes: usize,
    paid: Paid,
    timeout: Pin<Box<Sleep>>,
}

impl Partial {
    pub(super) fn new() -> Self {
        let timeout = Box::pin(sleep(PARTIAL_HEAD_TIMEOUT));
        Self { buffers: 0, bytes: 0, paid: Paid::default(), timeout }
    }

    /// Pays for more bytes of it, and for another buffer. False when there is no room.
    pub(super) fn pay(&mut self, bytes: usize, buffer: usize, funds: &Funds) -> bool {
        self.bytes += bytes;
        self.buffers += buffer;
        let cost = self.cost();
        cost <= self.paid.bytes() || self.paid.pay(cost, funds)
    }

    /// Whether it had its time.
    pub(super) fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        self.timeout.as_mut().poll(cx).is_ready()
    }

    /// What the library may keep of it.
    pub(super) fn cost(&self) -> usize {
        self.buffers + room(self.bytes)
    }
}

/// Trailers. The library keeps them until their stream ends, for whoever reads the body of the request, even if nobody
/// does. When the stream ends cannot be told from outside. So the connection pays: for its largest trailers, as often
/// as there may be streams.
#[derive(Debug, Default)]
pub(super) struct Trailers {
    /// The last stream that began. A head of an older stream, or a second head of this one, is trailers.
    newest: u32,
    are_next: bool,
    /// Bytes of this head.
    bytes: usize,
    count: usize,
    largest: usize,
}

impl Trailers {
    /// A head of this stream begins.
    pub(super) fn begin(&mut self, stream: u32) {
        self.are_next = stream <= self.newest;
        self.newest = self.newest.max(stream);
        self.bytes = 0;
    }

    /// So many bytes of it come.
    pub(super) fn read(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// The head has ended, and came in such a buffer. Returns what all trailers take now.
    pub(super) fn end(&mut self, buffer: usize) -> usize {
        if self.are_next {
            let each = buffer + TEXT_BUFFER_BYTES + room(self.bytes);
            self.count = (self.count + 1).min(MAX_STREAMS as usize);
            self.largest = self.largest.max(each);
        }
        self.count * self.largest
    }
}

/// For so many bytes of a head.
fn room(bytes: usize) -> usize {
    bytes * ROOM_PER_BYTE + bytes.min(MOST_FIELDS) * FIELD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the library does it: it goes on in a buffer, uses it again, or takes another one.
    #[test]
    fn a_buffer_is_as_large_as_there_was_room_in_it() {
        let mut buffer = ReadBuffer::default();
        buffer.note(8192, 0);
        buffer.left = 192;
        buffer.note(192, 8000);
        assert_eq!(buffer.bytes, 8192);
        buffer.left = 92;
        buffer.note(16_393 - 8100, 8100);
        assert_eq!(buffer.bytes, 16_393 + 8100, "there may be as much before it");
        buffer.left = 0;
        buffer.note(8192, 0);
        assert_eq!(buffer.bytes, 8192);
    }
}
