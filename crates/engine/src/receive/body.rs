//! Reads request bodies within limits of time, into buffers that are paid for as bytes arrive.

use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};
use tokio::time::Instant;

use super::Refusal;
use super::streams::Stream;
use crate::budget::Permit;
use crate::buffer::{self, Buffer};
use crate::inlet::ADMIT_PATIENCE;

/// Every byte that arrives gives the rest of its body this much more time: a second for 64 KiB. A declared length gives
/// none.
const PER_BYTE: Duration = Duration::from_nanos(1_000_000_000 / (64 * 1024));

/// The room for a body is less than this many times what has arrived of it. Each step copies what is there; with large
/// steps that is a seventh of the body at most.
const GROWTH: usize = 8;
/// The same while memory is scarce, and others may need the room that is not used yet. Then all of the body may be
/// copied once.
const SCARCE_GROWTH: usize = 2;

/// While memory is scarce, a body gives way to others if it sends nothing for this long, or less than 16 KiB in each
/// such period.
const STALL: Duration = Duration::from_secs(1);
/// While memory is scarce, every byte that arrives gives its body this many times [`PER_BYTE`]: a second for 16 KiB.
const SCARCE_FACTOR: u32 = 4;

/// Room for a body of `length` bytes of which `arrived` are here. The steps are chosen so that the last one has all of
/// it.
fn room_for(arrived: usize, length: usize, growth: usize) -> usize {
    let mut room = length;
    while room / growth >= arrived {
        room /= growth;
    }
    room
}

/// A request body as a stream of bytes.
///
/// A declared length takes no memory: room is paid for as bytes arrive. Many half-read bodies cannot wait for each
/// other for ever: only few may wait, and not for long, and a request that is refused gives back what it has.
pub(super) struct BodyReader<'a> {
    incoming: Incoming,
    stream: &'a Stream,
    /// Received and not yet read.
    rest: Bytes,
    /// What was read.
    read: Buffer,
    /// When the next bytes must be here. It moves with what arrives, and is never further away than `timeout`.
    deadline: Instant,
    /// The same while memory is scarce.
    stalls_at: Instant,
    timeout: Duration,
    started: Instant,
    /// How long it may still wait for room.
    patience: Duration,
}

impl<'a> BodyReader<'a> {
    /// `permit` is for the body alone, and stands for nothing yet.
    pub(super) fn new(incoming: Incoming, stream: &'a Stream, timeout: Duration, permit: Permit) -> Self {
        let started = Instant::now();
        let (deadline, stalls_at) = (started + timeout, started + STALL);
        let (rest, read, patience) = (Bytes::new(), Buffer::empty(permit), ADMIT_PATIENCE);
        Self { incoming, stream, rest, read, deadline, stalls_at, timeout, started, patience }
    }

    /// Fills `buffer`; false when the body ends first.
    pub(super) async fn read_exact(&mut self, buffer: &mut [u8]) -> Result<bool, Refusal> {
        let mut filled = 0;
        while filled < buffer.len() {
            if !self.rest.has_remaining() && !self.next().await? {
                return Ok(false);
            }
            let n = self.rest.len().min(buffer.len() - filled);
            self.rest.copy_to_slice(&mut buffer[filled..filled + n]);
            filled += n;
        }
        Ok(true)
    }

    /// Reads exactly `length` bytes; if they stay where they are, there is room in front of them. False when the body
    /// ends first.
    pub(super) async fn read(&mut self, length: usize, stays: bool) -> Result<bool, Refusal> {
        while self.read.len() < length {
            if !self.rest.has_remaining() && !self.next().await? {
                return Ok(false);
            }
            let n = self.rest.len().min(length - self.read.len());
            if n > self.read.room() {
                let growth = if self.read.permit().is_scarce() { SCARCE_GROWTH } else { GROWTH };
                let room = room_for(self.read.len() + n, length, growth);
                let front = if stays && room == length { buffer::front_for(length, self.read.permit()) } else { 0 };
                self.enlarge(front, room).await?;
            }
            self.read.push(&self.rest.split_to(n));
        }
        Ok(true)
    }

    /// Whether nothing is left.
    pub(super) async fn is_at_end(&mut self) -> Result<bool, Refusal> {
        Ok(!self.rest.has_remaining() && !self.next().await?)
    }

    /// Reads a body of unknown length, at most `limit` bytes.
    pub(super) async fn read_to_end(&mut self, limit: usize) -> Result<(), Refusal> {
        while self.rest.has_remaining() || self.next().await? {
            let length = self.read.len() + self.rest.len();
            if length > limit {
                return Err(Refusal::too_large(length, limit));
            }
            if self.rest.len() > self.read.room() {
                self.enlarge(0, length.max(2 * length.min(limit / 2))).await?;
            }
            self.read.push(&std::mem::take(&mut self.rest));
        }
        Ok(())
    }

    /// Moves what is there to a larger buffer. Both buffers are paid for while both exist.
    async fn enlarge(&mut self, front: usize, room: usize) -> Result<(), Refusal> {
        if !self.read.permit().grow(room) {
            let asked = Instant::now();
            let paid = self.stream.unread_while(self.read.permit().grow_within(room, self.patience)).await;
            let waited = asked.elapsed();
            self.patience = self.patience.saturating_sub(waited);
            // The client is not to blame for it.
            self.deadline += waited;
            self.stalls_at += waited;
            if !paid {
                return Err(Refusal::no_memory());
            }
        }
        self.read.enlarge(front, room);
        Ok(())
    }

    /// What was read.
    pub(super) fn into_buffer(self) -> Buffer {
        self.read.fitting()
    }

    /// Receives more; false at the end of the body.
    async fn next(&mut self) -> Result<bool, Refusal> {
        loop {
            match self.frame().await? {
                None => return Ok(false),
                Some(Err(error)) => return Err(Refusal::aborted(error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => {
                        let more = PER_BYTE * u32::try_from(data.len()).unwrap_or(u32::MAX);
                        let now = Instant::now();
                        self.deadline = (self.deadline + more).min(now + self.timeout);
                        self.stalls_at = (self.stalls_at + SCARCE_FACTOR * more).min(now + STALL);
                        self.rest = data;
                        return Ok(true);
                    }
                    // Empty frames and trailers carry nothing for us.
                    _ => {}
                },
            }
        }
    }

    async fn frame(&mut self) -> Result<Option<Result<Frame<Bytes>, hyper::Error>>, Refusal> {
        loop {
            // What is here already is taken even when the time is up.
            let until = if self.read.permit().is_scarce() { self.stalls_at } else { Instant::now() + STALL };
            let until = self.deadline.min(until);
            match tokio::time::timeout_at(until, self.incoming.frame()).await {
                Ok(frame) => return Ok(frame),
                Err(_) if until == self.deadline => {
                    return Err(Refusal::slow_body(self.deadline.duration_since(self.started)));
                }
                Err(_) if self.read.permit().is_scarce() && self.stalls_at <= Instant::now() => {
                    return Err(Refusal::no_memory());
                }
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: [usize; 8] = [1, 7, 8, 9, 100, 16 << 10, 1_600_000, 16 << 20];

    #[test]
    fn room_is_bounded_by_what_has_arrived_and_ends_with_all_of_it() {
        for (growth, length) in [GROWTH, SCARCE_GROWTH].into_iter().flat_map(|growth| LENGTHS.map(|n| (growth, n))) {
            for arrived in [1, 2, 9, 100, 16 << 10, 1 << 20, length / 2, length].into_iter().filter(|n| *n <= length) {
                let arrived = arrived.max(1);
                let room = room_for(arrived, length, growth);
                assert!(arrived <= room && room <= length && room < growth * arrived, "{arrived} of {length}: {room}");
            }
            let (mut arrived, mut copied) = (1, 0);
            while room_for(arrived, length, growth) < length {
                copied += room_for(arrived, length, growth);
                arrived = room_for(arrived, length, growth) + 1;
            }
            assert!(copied <= length / (growth - 1), "{copied} of {length}");
        }
    }
}
