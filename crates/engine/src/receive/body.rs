//! Reading request bodies: into buffers of exactly the size that was paid for, and not forever.

use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::Refusal;
use crate::budget::Permit;

/// Every byte that arrives gives the rest of its body this much more time: a second for 64 KiB. What is only declared
/// gives none.
const PER_BYTE: Duration = Duration::from_nanos(1_000_000_000 / (64 * 1024));

/// Bodies of unknown length are paid for and read in steps of this.
const STEP_BYTES: usize = 64 * 1024;

/// A request body as a stream of bytes.
pub(super) struct BodyReader {
    incoming: Incoming,
    /// Received and not yet read.
    rest: Bytes,
    /// When the next bytes must be here; moves with what arrives.
    deadline: Instant,
    started: Instant,
}

impl BodyReader {
    pub(super) fn new(incoming: Incoming, timeout: Duration) -> Self {
        let started = Instant::now();
        Self { incoming, rest: Bytes::new(), deadline: started + timeout, started }
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

    /// Reads exactly `len` bytes, behind `front` of zeros; `None` when the body ends first.
    pub(super) async fn read(&mut self, front: usize, len: usize) -> Result<Option<Vec<u8>>, Refusal> {
        let len = front + len;
        let mut bytes = Vec::with_capacity(len);
        bytes.resize(front, 0);
        while bytes.len() < len {
            if !self.rest.has_remaining() && !self.next().await? {
                return Ok(None);
            }
            let n = self.rest.len().min(len - bytes.len());
            bytes.extend_from_slice(&self.rest.split_to(n));
        }
        Ok(Some(bytes))
    }

    /// Whether nothing is left.
    pub(super) async fn is_at_end(&mut self) -> Result<bool, Refusal> {
        Ok(!self.rest.has_remaining() && !self.next().await?)
    }

    /// Reads a body of unknown length, at most `limit` bytes.
    pub(super) async fn read_to_end(&mut self, limit: usize, permit: &mut Permit) -> Result<Vec<u8>, Refusal> {
        let mut bytes: Vec<u8> = Vec::new();
        while self.rest.has_remaining() || self.next().await? {
            let len = bytes.len() + self.rest.len();
            if len > limit {
                return Err(Refusal::too_large(len, limit));
            }
            if len > bytes.capacity() {
                let step = STEP_BYTES.max(bytes.capacity() / 2).max(self.rest.len());
                if !permit.grow(step) {
                    return Err(Refusal::no_memory());
                }
                bytes.reserve_exact(step);
            }
            bytes.extend_from_slice(&std::mem::take(&mut self.rest));
        }
        Ok(bytes)
    }

    /// Receives more; false at the end of the body.
    async fn next(&mut self) -> Result<bool, Refusal> {
        loop {
            let Ok(frame) = tokio::time::timeout_at(self.deadline, self.incoming.frame()).await else {
                return Err(Refusal::slow_body(self.deadline.duration_since(self.started)));
            };
            match frame {
                None => return Ok(false),
                Some(Err(error)) => return Err(Refusal::aborted(error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => {
                        self.deadline += PER_BYTE * u32::try_from(data.len()).unwrap_or(u32::MAX);
                        self.rest = data;
                        return Ok(true);
                    }
                    // Empty frames and trailers carry nothing for us.
                    _ => {}
                },
            }
        }
    }
}
