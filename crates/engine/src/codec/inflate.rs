//! Decompresses what clients and backends send.
//!
//! Every byte is drawn from the memory budget before it is written, and decompression stops at a size and at a ratio: a
//! compressed bomb is refused, not expanded.

use std::io::{self, Read};

use super::Encoding;
use super::zstd_frames::inflate_zstd;
use crate::budget::Permit;

/// Why a compressed body was not taken.
#[derive(Debug, thiserror::Error)]
pub enum InflateError {
    /// It is not what its encoding says.
    #[error("cannot decompress the request: {0}")]
    Corrupt(io::Error),
    /// It becomes too large.
    #[error("request too large: more than {limit} bytes when decompressed, which is the limit; send smaller batches")]
    TooLarge {
        /// Bytes at most.
        limit: usize,
    },
    /// It becomes too large for its size.
    #[error("the request decompresses to more than {limit} times its size, which is the limit")]
    TooDense {
        /// Times its size at most.
        limit: usize,
    },
    /// There is no memory for what it becomes.
    #[error("no memory left to decompress the request")]
    NoMemory,
}

/// Limits on what a compressed body may become.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InflateLimits {
    /// Largest result, in bytes.
    pub(crate) bytes: usize,
    /// The largest result, as a multiple of the compressed size.
    pub(crate) ratio: usize,
}

/// Results up to this size are never called a bomb: tiny bodies compress at any ratio.
pub(super) const RATIO_APPLIES_FROM: usize = 1024 * 1024;

/// The room asked for at once while a body grows.
const STEP_BYTES: usize = 64 * 1024;

/// What a decoder has for itself: the largest are zstd's and framed snappy's.
const DECODER_BYTES: usize = 160 * 1024;

/// A framed snappy stream starts with this chunk. A stream that does not is a raw block.
const SNAPPY_STREAM: &[u8] = b"\xff\x06\x00\x00sNaPpY";

/// Inflates `body`; `permit` already pays for `body` and grows by what is written.
pub(crate) fn inflate(
    encoding: Encoding,
    body: &[u8],
    limits: InflateLimits,
    permit: &mut Permit,
) -> Result<Vec<u8>, InflateError> {
    let unsaid = Source { compressed: body.len(), promised: 0 };
    if encoding != Encoding::Identity && !permit.grow(DECODER_BYTES) {
        return Err(InflateError::NoMemory);
    }
    match encoding {
        Encoding::Identity => read_within(body, unsaid, limits, permit),
        Encoding::Gzip => {
            let source = Source { compressed: body.len(), promised: gzip_size(body) };
            read_within(flate2::bufread::MultiGzDecoder::new(body), source, limits, permit)
        }
        Encoding::Deflate => {
            let mut rest = body;
            let inflated = if is_zlib(body) {
                read_within(flate2::bufread::ZlibDecoder::new(&mut rest), unsaid, limits, permit)
            } else {
                read_within(flate2::bufread::DeflateDecoder::new(&mut rest), unsaid, limits, permit)
            }?;
            // There can be only one stream: the decoders stop at its end, whatever follows.
            if rest.is_empty() { Ok(inflated) } else { Err(InflateError::Corrupt(trailing(rest.len()))) }
        }
        Encoding::Zstd => inflate_zstd(body, limits, permit),
        Encoding::Snappy if body.starts_with(SNAPPY_STREAM) => {
            read_within(snap::read::FrameDecoder::new(body), unsaid, limits, permit)
        }
        Encoding::Snappy => inflate_snappy_block(body, limits, permit),
    }
}

fn trailing(bytes: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{bytes} bytes follow the end of the deflate stream"))
}

/// RFC 1950 2.2: the first two bytes of a zlib stream. A stream without them is raw deflate, which some clients send.
fn is_zlib(body: &[u8]) -> bool {
    match body {
        [method, flags, ..] => method & 0x0f == 8 && u16::from_be_bytes([*method, *flags]) % 31 == 0,
        _ => false,
    }
}

fn inflate_snappy_block(body: &[u8], limits: InflateLimits, permit: &mut Permit) -> Result<Vec<u8>, InflateError> {
    let size = snap::raw::decompress_len(body).map_err(|error| InflateError::Corrupt(error.into()))?;
    check(size, body.len(), limits)?;
    if !permit.grow(size) {
        return Err(InflateError::NoMemory);
    }
    let mut out = vec![0; size];
    let written = snap::raw::Decoder::new().decompress(body, &mut out);
    out.truncate(written.map_err(|error| InflateError::Corrupt(error.into()))?);
    Ok(out)
}

pub(super) fn check(size: usize, compressed: usize, limits: InflateLimits) -> Result<(), InflateError> {
    if size > limits.bytes {
        return Err(InflateError::TooLarge { limit: limits.bytes });
    }
    if size > RATIO_APPLIES_FROM && size / limits.ratio > compressed {
        return Err(InflateError::TooDense { limit: limits.ratio });
    }
    Ok(())
}

/// A compressed body: its size, and the size that it declares for its result (0 when it declares none).
#[derive(Debug, Clone, Copy)]
struct Source {
    compressed: usize,
    promised: usize,
}

/// The size in the trailer (RFC 1952 2.3.1, ISIZE): of the last member only, and whatever the sender wrote.
fn gzip_size(body: &[u8]) -> usize {
    body.last_chunk().map_or(0, |size| u32::from_le_bytes(*size) as usize)
}

/// Reads to the end in steps, paying for each step before it is read.
fn read_within(
    mut reader: impl Read,
    source: Source,
    limits: InflateLimits,
    permit: &mut Permit,
) -> Result<Vec<u8>, InflateError> {
    let Source { compressed, promised } = source;
    // One step is enough for a body that tells the truth.
    let mut first = promised.min(compressed.saturating_mul(limits.ratio)).saturating_add(1);
    let mut out = Vec::new();
    loop {
        // Grows by a quarter: few copies, and at most a fifth is paid for and unused.
        let step = if first > 1 { first } else { STEP_BYTES.max(out.len() / 4) };
        let step = step.min(limits.bytes + 1 - out.len().min(limits.bytes));
        first = 0;
        // A buffer that has to grow may exist twice for a moment.
        let moved = out.capacity();
        if !permit.grow(step.saturating_add(moved)) {
            return Err(InflateError::NoMemory);
        }
        out.reserve_exact(step);
        permit.give_back(moved);
        let before = out.len();
        reader.by_ref().take(step as u64).read_to_end(&mut out).map_err(InflateError::Corrupt)?;
        check(out.len(), compressed, limits)?;
        if out.len() - before < step {
            return Ok(out);
        }
    }
}
