//! Encoded metrics while they wait for the next page, compressed.
//!
//! Labels of neighbours are alike, and the numbers in what is kept are zeros, so that little of it is left. LZ4 takes half
//! the time that zstd takes, and all of it is inflated for each page.

use std::io;

use lz4::block::{CompressionMode, compress_bound, compress_to_buffer, decompress_to_buffer};

/// Fast rather than small: labels that are alike are found at any speed. From 4 on, random ones take more room.
const SPEED: CompressionMode = CompressionMode::FAST(3);

/// Shorter metrics are kept as they are: there is little to gain.
const SHORT: usize = 4 << 10;

/// Metrics are compressed in parts of this length. LZ4 looks back no further, and what is new stays in the processor's
/// cache.
const PART: usize = 64 << 10;

/// What LZ4 takes beside its input and output, at most.
const TABLE: usize = 16 << 10;

/// Memory that packing so many bytes takes, beside these and what is packed, which grows to twice its length at most.
/// Unpacking takes none.
pub(super) fn work(length: usize) -> usize {
    if length < SHORT { 0 } else { length / 2 + 2 * PART + TABLE }
}

/// Bytes, compressed if that makes them shorter.
#[derive(Debug, Default)]
pub(super) struct Packed {
    bytes: Vec<u8>,
    /// Where each part ends in them; nothing when they are not compressed.
    ends: Vec<usize>,
    /// Of what was packed.
    length: usize,
}

impl Packed {
    pub(super) fn new(metrics: &[u8]) -> io::Result<Self> {
        let length = metrics.len();
        let compressed = if length < SHORT { None } else { Self::compressed(metrics)? };
        Ok(compressed.unwrap_or_else(|| Self { bytes: metrics.to_vec(), ends: Vec::new(), length }))
    }

    /// `None` when that is not shorter.
    fn compressed(metrics: &[u8]) -> io::Result<Option<Self>> {
        let length = metrics.len();
        let mut room = vec![0; compress_bound(PART)?];
        let mut bytes = Vec::with_capacity(length / 4);
        let mut ends = Vec::with_capacity(length.div_ceil(PART));
        for part in metrics.chunks(PART) {
            let count = compress_to_buffer(part, Some(SPEED), false, &mut room)?;
            if bytes.len() + count >= length {
                return Ok(None);
            }
            bytes.extend_from_slice(&room[..count]);
            ends.push(bytes.len());
        }
        bytes.shrink_to_fit();
        Ok(Some(Self { bytes, ends, length }))
    }

    /// Bytes of what was packed.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Memory that it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// Appends what was packed.
    pub(super) fn unpack(&self, out: &mut Vec<u8>) -> io::Result<()> {
        if self.ends.is_empty() {
            out.extend_from_slice(&self.bytes);
            return Ok(());
        }
        let end = out.len() + self.length;
        out.reserve_exact(self.length);
        let mut start = 0;
        for next in &self.ends {
            let at = out.len();
            let length = PART.min(end - at);
            out.resize(at + length, 0);
            let length = i32::try_from(length).map_err(io::Error::other)?;
            decompress_to_buffer(&self.bytes[start..*next], Some(length), &mut out[at..])?;
            start = *next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_unpacked_behind_what_is_there() {
        for length in [0, SHORT - 1, SHORT, 3 * SHORT, PART, PART + 1, 5 * PART / 2] {
            let text: Vec<u8> = b"series{label=\"value\"}".iter().copied().cycle().take(length).collect();
            let packed = Packed::new(&text).unwrap();
            assert_eq!(packed.memory() < length, length >= SHORT, "{length}");
            let mut out = b"before".to_vec();
            packed.unpack(&mut out).unwrap();
            assert_eq!(out, [b"before", text.as_slice()].concat());
        }
    }

    #[test]
    fn what_does_not_become_shorter_is_kept_as_it_is() {
        let noise: Vec<u8> =
            std::iter::successors(Some(1_u64), |last| Some(last.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 7))
                .flat_map(|number| [number.to_le_bytes()[7]])
                .take(3 * PART)
                .collect();
        let packed = Packed::new(&noise).unwrap();
        assert_eq!((packed.bytes.len(), packed.ends.len()), (noise.len(), 0));
        let mut out = Vec::new();
        packed.unpack(&mut out).unwrap();
        assert!(out == noise);
    }
}
