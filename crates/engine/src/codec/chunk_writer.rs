//! The output of a compressor, in chunks of memory that were paid for before.

use std::io::{self, Write};

use bytes::Bytes;

/// A body in chunks: when more comes, the chunks that are there need not be moved.
#[derive(Debug)]
pub(super) struct ChunkWriter {
    full: Vec<Bytes>,
    last: Vec<u8>,
    /// Length of a chunk.
    step: usize,
    /// Bytes that further chunks may have.
    room: usize,
}

impl ChunkWriter {
    /// At most `room` bytes, in chunks of `step`.
    pub(super) fn new(step: usize, room: usize) -> Self {
        Self { full: Vec::new(), last: Vec::new(), step, room }
    }

    pub(super) fn into_chunks(mut self) -> Vec<Bytes> {
        self.last.shrink_to_fit();
        self.full.push(self.last.into());
        self.full
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.last.len() == self.last.capacity() {
            let next = self.step.min(self.room);
            if next == 0 {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.room -= next;
            let full = std::mem::replace(&mut self.last, Vec::with_capacity(next));
            if !full.is_empty() {
                self.full.push(full.into());
            }
        }
        let fits = bytes.len().min(self.last.capacity() - self.last.len());
        self.last.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
