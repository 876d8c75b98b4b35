//! Compresses request bodies for backends, into memory that was paid for before.

use std::io::{self, Write};

use bytes::Bytes;
use libdeflater::{CompressionLvl, Compressor};
use weir_plan::{Compression, Protocol};

use super::chunk_writer::ChunkWriter;

/// The level of gzip: `docs/decisions/014-what-compresses.md` says why.
const GZIP_LEVEL: CompressionLvl = match CompressionLvl::new(1) {
    Ok(level) => level,
    Err(_) => panic!("libdeflate has a level 1"),
};

/// zstd's fastest regular level.
const ZSTD_LEVEL: i32 = 1;

/// A raw block of snappy consists of blocks of this length. None of them refers back to another.
pub(super) const SNAPPY_BLOCK: usize = 64 * 1024;

/// The most memory that a compressed body takes while it is made. No compressor makes it longer by an eighth, and gzip
/// first needs the whole body in one piece.
pub(crate) fn most_deflated(compression: Compression, chunks: &[Bytes]) -> usize {
    let bytes: usize = chunks.iter().map(Bytes::len).sum();
    let joined = if compression == Compression::Gzip && chunks.len() > 1 { bytes } else { 0 };
    most_deflated_of(bytes).saturating_add(joined)
}

/// The same for a body in one piece of so many bytes.
pub(crate) fn most_deflated_of(bytes: usize) -> usize {
    bytes.saturating_add(bytes / 8 + 4096)
}

/// The memory that a compressor needs for itself while it works on so many bytes: libdeflate 198 KiB at level 1 (653
/// KiB from level 2 on); the largest is zstd's.
pub(crate) fn encoder_bytes(compression: Compression, bytes: usize) -> usize {
    match compression {
        Compression::None => 0,
        Compression::Gzip => 224 << 10,
        Compression::Snappy => 384 << 10,
        Compression::Zstd => (512 << 10) + bytes.min(1 << 20),
    }
}

/// Compresses the concatenation of `chunks` for a backend, in at most `room` bytes.
///
/// # Errors
/// [`io::ErrorKind::OutOfMemory`] when it takes more.
pub(crate) fn deflate(
    compression: Compression,
    protocol: Protocol,
    chunks: &[Bytes],
    room: usize,
) -> io::Result<Vec<Bytes>> {
    let size: usize = chunks.iter().map(Bytes::len).sum();
    // One chunk is enough for most telemetry.
    let out = ChunkWriter::new(size / 8 + 256, room);
    let done = match compression {
        Compression::None => return Ok(chunks.to_vec()),
        Compression::Gzip => return Ok(vec![deflate_gzip(chunks, size, room)?]),
        Compression::Zstd => {
            let mut encoder = zstd::stream::write::Encoder::new(out, ZSTD_LEVEL)?;
            encoder.set_pledged_src_size(Some(size as u64))?;
            write_all(&mut encoder, chunks)?;
            encoder.finish()?
        }
        // The field's gRPC peers frame snappy, its HTTP peers send one raw block.
        Compression::Snappy if protocol == Protocol::Grpc => {
            let mut encoder = snap::write::FrameEncoder::new(out);
            write_all(&mut encoder, chunks)?;
            encoder.into_inner().map_err(|error| error.into_error())?
        }
        Compression::Snappy => deflate_snappy_block(chunks, size, out)?,
    };
    Ok(done.into_chunks())
}

/// libdeflate reads one chunk and writes one chunk, so several chunks are joined first.
fn deflate_gzip(chunks: &[Bytes], size: usize, room: usize) -> io::Result<Bytes> {
    let (plain, room) = match chunks {
        [one] => (one.clone(), room),
        _ => {
            let left = room.checked_sub(size).ok_or(io::ErrorKind::OutOfMemory)?;
            (Bytes::from(chunks.concat()), left)
        }
    };
    let mut compressor = Compressor::new(GZIP_LEVEL);
    let mut deflated = vec![0; compressor.gzip_compress_bound(size).min(room)];
    let length = compressor.gzip_compress(&plain, &mut deflated).map_err(|_| io::ErrorKind::OutOfMemory)?;
    deflated.truncate(length);
    deflated.shrink_to_fit();
    Ok(deflated.into())
}

/// A raw block: its length, then each part compressed to a block of its own, without the length of that.
fn deflate_snappy_block(chunks: &[Bytes], size: usize, mut out: ChunkWriter) -> io::Result<ChunkWriter> {
    let mut encoder = snap::raw::Encoder::new();
    let mut deflated = vec![0; snap::raw::max_compress_len(SNAPPY_BLOCK)];
    let mut write = |part: &mut Vec<u8>, out: &mut ChunkWriter| {
        let length = encoder.compress(part, &mut deflated)?;
        out.write_all(&deflated[varint(part.len()).len()..length])?;
        part.clear();
        io::Result::Ok(())
    };
    out.write_all(&varint(size))?;
    let mut part = Vec::with_capacity(SNAPPY_BLOCK);
    for mut rest in chunks.iter().map(AsRef::<[u8]>::as_ref) {
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(SNAPPY_BLOCK - part.len()));
            part.extend_from_slice(now);
            rest = later;
            if part.len() == SNAPPY_BLOCK {
                write(&mut part, &mut out)?;
            }
        }
    }
    if !part.is_empty() {
        write(&mut part, &mut out)?;
    }
    Ok(out)
}

fn varint(number: usize) -> Vec<u8> {
    let mut encoder = weir_otlp::build::Encoder::default();
    encoder.element(number as u64);
    encoder.into_bytes()
}

fn write_all(writer: &mut impl Write, chunks: &[Bytes]) -> io::Result<()> {
    chunks.iter().try_for_each(|chunk| writer.write_all(chunk))
}
