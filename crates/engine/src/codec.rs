//! Compression of request bodies, in both directions, within limits.

mod chunk_writer;
mod deflate;
mod inflate;
#[cfg(test)]
mod tests;
mod zstd_frames;

use weir_plan::Compression;

pub(crate) use deflate::{deflate, encoder_bytes, most_deflated, most_deflated_of};
pub(crate) use inflate::{InflateError, InflateLimits, inflate};

/// Bodies as they arrive, by their `content-encoding` or `grpc-encoding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    Zstd,
    Deflate,
    Snappy,
}

impl Encoding {
    /// The encoding a header names; `None` when it is not supported.
    pub(crate) fn from_header(value: &str) -> Option<Self> {
        match value.trim() {
            "" | "identity" => Some(Self::Identity),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            "deflate" | "zlib" => Some(Self::Deflate),
            "snappy" | "x-snappy-framed" => Some(Self::Snappy),
            _ => None,
        }
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
