//! Compression of request bodies, in both directions, within limits.

mod chunk_writer;
mod deflate;
mod inflate;
#[cfg(test)]
mod tests;
mod zstd_frames;

use weir_plan::Compression;

use crate::budget::Permit;
pub(crate) use deflate::{deflate, encoder_bytes, most_deflated, most_deflated_of};

pub use inflate::InflateError;
pub(crate) use inflate::{InflateLimits, inflate};

/// Bodies as they arrive, by their `content-encoding` or `grpc-encoding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    Identity,
    /// gzip, RFC 1952.
    Gzip,
    /// zstd, RFC 8878.
    Zstd,
    /// zlib, RFC 1950, or deflate alone, RFC 1951.
    Deflate,
    /// Snappy, framed or as one block.
    Snappy,
}

impl Encoding {
    /// The encoding a header names; `None` when it is not supported.
    pub fn from_header(value: &str) -> Option<Self> {
        match value.trim() {
            "" | "identity" => Some(Self::Identity),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            "deflate" | "zlib" => Some(Self::Deflate),
            "snappy" | "x-snappy-framed" => Some(Self::Snappy),
            _ => None,
        }
    }

    /// Inflates a body to `most` bytes at most, whatever its ratio. `permit` pays for the body, and grows by what is
    /// written before that is written.
    ///
    /// # Errors
    /// When the body is broken or becomes too large, or when there is no memory for it.
    pub fn inflate(self, body: &[u8], most: usize, permit: &mut Permit) -> Result<Vec<u8>, InflateError> {
        inflate(self, body, InflateLimits { bytes: most, ratio: usize::MAX }, permit)
    }
}

/// The header value that names a compression, `None` for none.
pub(crate) fn header_value(compression: Compression) -> Option<&'static str> {
    match compression {
        Compression::None => None,
        Compression::Gzip => Some("gzip"),
        Compression::Snappy => Some("snappy"),
        Compression::Zstd => Some("zstd"),
    }
}
