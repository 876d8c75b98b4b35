//! Request compression: names, inflating with a limit, and deflating for the generator.

use std::io::{self, Read, Write};

use bytes::Buf;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::chunks::Chunks;

/// Compression the generator can apply, and a gateway can be told to apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Bodies go as they are.
    None,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

impl Compression {
    /// Its name in `grpc-encoding` and `content-encoding`; none when bodies go as they are.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }

    /// Compresses `body`.
    pub(crate) fn compress(self, body: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(body.to_vec()),
            Self::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(body)?;
                encoder.finish()
            }
            Self::Zstd => zstd::bulk::compress(body, 1),
        }
    }
}

/// Most a body may inflate to: a backend has a limit too.
pub(crate) const INFLATED_LIMIT_BYTES: u64 = 256 << 20;

/// First bytes of the snappy framing format; HTTP senders use it, gRPC senders use raw blocks.
const SNAPPY_STREAM: [u8; 6] = [0xff, 0x06, 0x00, 0x00, b's', b'N'];

/// Inflates a body that was sent with `encoding`.
///
/// # Errors
/// The encoding is unknown, the body is damaged, or it inflates beyond [`INFLATED_LIMIT_BYTES`].
pub(crate) fn inflate(body: Chunks, encoding: &str) -> Result<Vec<u8>, String> {
    let result = match encoding {
        "gzip" => read_limited(flate2::read::MultiGzDecoder::new(body.reader())),
        "deflate" | "zlib" => read_limited(flate2::read::ZlibDecoder::new(body.reader())),
        "zstd" => zstd::stream::read::Decoder::new(body.reader()).and_then(read_limited),
        "snappy" | "x-snappy-framed" => inflate_snappy(body),
        other => return Err(format!("cannot inflate body: encoding \"{other}\" is not supported")),
    };
    result.map_err(|err| format!("cannot inflate {encoding} body: {err}"))
}

fn inflate_snappy(mut body: Chunks) -> io::Result<Vec<u8>> {
    let body = body.copy_to_bytes(body.remaining());
    if body.starts_with(&SNAPPY_STREAM) {
        return read_limited(snap::read::FrameDecoder::new(body.reader()));
    }
    let length = snap::raw::decompress_len(&body).map_err(io::Error::other)?;
    if u64::try_from(length).unwrap_or(u64::MAX) > INFLATED_LIMIT_BYTES {
        return Err(over_limit());
    }
    snap::raw::Decoder::new().decompress_vec(&body).map_err(io::Error::other)
}

fn read_limited(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut inflated = Vec::with_capacity(1 << 20);
    let mut reader = reader.take(INFLATED_LIMIT_BYTES + 1);
    let count = reader.read_to_end(&mut inflated)?;
    if u64::try_from(count).unwrap_or(u64::MAX) > INFLATED_LIMIT_BYTES {
        return Err(over_limit());
    }
    Ok(inflated)
}

fn over_limit() -> io::Error {
    io::Error::other(format!("more than {INFLATED_LIMIT_BYTES} bytes"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn chunks(body: &[u8]) -> Chunks {
        let mut chunks = Chunks::default();
        for part in body.chunks(7) {
            chunks.push(Bytes::copy_from_slice(part));
        }
        chunks
    }

    #[test]
    fn every_encoding_inflates_what_was_deflated() {
        let body = b"telemetry ".repeat(1000);
        for compression in [Compression::Gzip, Compression::Zstd] {
            let sent = compression.compress(&body).unwrap();
            assert!(sent.len() < body.len() / 4);
            assert_eq!(inflate(chunks(&sent), compression.name().unwrap()), Ok(body.clone()));
        }
        let raw = snap::raw::Encoder::new().compress_vec(&body).unwrap();
        assert_eq!(inflate(chunks(&raw), "snappy"), Ok(body.clone()));
        let mut framed = snap::write::FrameEncoder::new(Vec::new());
        framed.write_all(&body).unwrap();
        assert_eq!(inflate(chunks(&framed.into_inner().unwrap()), "snappy"), Ok(body.clone()));
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(&body).unwrap();
        assert_eq!(inflate(chunks(&zlib.finish().unwrap()), "deflate"), Ok(body));
    }

    #[test]
    fn damaged_and_unknown_bodies_are_refused() {
        for encoding in ["gzip", "zstd", "snappy", "deflate", "brotli"] {
            assert!(inflate(chunks(b"\xf0not compressed at all"), encoding).is_err(), "{encoding}");
        }
    }
}
