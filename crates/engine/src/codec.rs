//! Compression of request bodies, in both directions, within limits.
//!
//! Inflating draws every byte from the memory budget before it is written, and stops at a size and at a ratio: a
//! compressed bomb is refused, not expanded.

mod pieces;

use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::Compression as Level;
use weir_plan::{Compression, Protocol};
use zstd::zstd_safe;

use crate::budget::Permit;
use pieces::Pieces;

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

/// Why a compressed body was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InflateError {
    #[error("cannot decompress the request: {0}")]
    Corrupt(io::Error),
    #[error("request too large: more than {limit} bytes when decompressed, which is the limit; send smaller batches")]
    TooLarge { limit: usize },
    #[error("the request decompresses to more than {limit} times its size, which is the limit")]
    TooDense { limit: usize },
    #[error("no memory left to decompress the request")]
    NoMemory,
}

/// Limits on what a compressed body may become.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InflateLimits {
    /// Largest result, in bytes.
    pub(crate) bytes: usize,
    /// Largest result as a multiple of the compressed size.
    pub(crate) ratio: usize,
}

/// Results up to this size are never called a bomb: tiny bodies compress at any ratio.
const RATIO_APPLIES_FROM: usize = 1024 * 1024;

/// The room asked for at once while a body grows.
const STEP_BYTES: usize = 64 * 1024;

/// zstd frames may ask their reader for a window this large (what RFC 8878 tells every reader to support).
const ZSTD_WINDOW: usize = 8 << 20;

/// A block of a zstd frame becomes no more than this.
const ZSTD_BLOCK_BYTES: usize = 128 * 1024;

/// What a decoder has for itself: the largest are zstd's and framed snappy's.
const DECODER_BYTES: usize = 160 * 1024;

/// A snappy stream that is framed starts with this chunk; one that does not is a raw block.
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
            // One stream is all there can be: the decoders stop at its end, whatever follows.
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

/// zstd decodes into the buffer of the result, so that there is no window beside it.
fn inflate_zstd(body: &[u8], limits: InflateLimits, permit: &mut Permit) -> Result<Vec<u8>, InflateError> {
    let Frames { window, most } = Frames::of(body).map_err(InflateError::Corrupt)?;
    if window > ZSTD_WINDOW {
        let problem = format!("a zstd window of {window} bytes, the limit is {ZSTD_WINDOW}");
        return Err(InflateError::Corrupt(io::Error::new(io::ErrorKind::InvalidData, problem)));
    }
    let densest = body.len().saturating_mul(limits.ratio).max(RATIO_APPLIES_FROM);
    let room = most.min(limits.bytes).min(densest);
    if !permit.grow(room) {
        return Err(InflateError::NoMemory);
    }
    let mut out = Vec::with_capacity(room);
    match zstd_safe::DCtx::create().decompress(&mut out, body) {
        Ok(_) => Ok(out),
        Err(code) if room < most && is_too_long(code) => {
            check(room + 1, body.len(), limits)?;
            Err(InflateError::TooDense { limit: limits.ratio })
        }
        Err(code) => Err(InflateError::Corrupt(zstd_error(code))),
    }
}

fn zstd_error(code: zstd_safe::ErrorCode) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, zstd_safe::get_error_name(code))
}

/// Whether there was not enough room for the result.
fn is_too_long(code: zstd_safe::ErrorCode) -> bool {
    zstd_safe::get_error_name(code) == "Destination buffer is too small"
}

/// What the frames of a zstd body say of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frames {
    /// The largest window that one of them wants.
    window: usize,
    /// Most bytes that they become together.
    most: usize,
}

impl Frames {
    /// Looks at the head of each frame, and of its blocks where it does not say its size.
    fn of(body: &[u8]) -> io::Result<Self> {
        let (mut window, mut most, mut rest) = (0, 0usize, body);
        while !rest.is_empty() {
            let length = zstd_safe::find_frame_compressed_size(rest).map_err(zstd_error)?;
            let (frame, later) = rest.split_at(length.min(rest.len()));
            if !is_skippable(frame) {
                let size = zstd_safe::get_frame_content_size(frame).ok().flatten().map(saturated);
                window = window.max(zstd_window(frame, size));
                most = most.saturating_add(size.unwrap_or_else(|| most_in_blocks(frame)));
            }
            rest = later;
        }
        Ok(Self { window, most })
    }
}

/// RFC 8878 3.1.2: a frame of which nothing comes begins with one of sixteen numbers.
fn is_skippable(frame: &[u8]) -> bool {
    matches!(frame, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// The window that a frame of this size wants, if it says its size (RFC 8878 3.1.1.1).
fn zstd_window(frame: &[u8], size: Option<usize>) -> usize {
    const SINGLE_SEGMENT: u8 = 1 << 5;
    match frame {
        [_, _, _, _, descriptor, window, ..] if descriptor & SINGLE_SEGMENT == 0 => {
            let base = 1u64 << (10 + (window >> 3));
            let window = saturated(base + base / 8 * u64::from(window & 7));
            size.map_or(window, |size| size.min(window))
        }
        _ => size.unwrap_or(usize::MAX),
    }
}

/// Most bytes that come of the blocks of a frame that does not say its size (RFC 8878 3.1.1.2).
fn most_in_blocks(frame: &[u8]) -> usize {
    const COMPRESSED: usize = 2;
    const REPEATED: usize = 1;
    // Magic number, descriptor, window, dictionary: without a size there always is a window.
    let dictionary = frame.get(4).map_or(0, |descriptor| [0, 1, 2, 4][usize::from(descriptor & 3)]);
    let (mut most, mut at) = (0usize, 6 + dictionary);
    while let Some([low, middle, high]) = frame.get(at..).and_then(|rest| rest.first_chunk()) {
        let header = u32::from_le_bytes([*low, *middle, *high, 0]) as usize;
        let (is_last, kind, size) = (header & 1 == 1, header >> 1 & 3, header >> 3);
        most = most.saturating_add(if kind == COMPRESSED { ZSTD_BLOCK_BYTES } else { size });
        at += 3 + if kind == REPEATED { 1 } else { size };
        if is_last {
            break;
        }
    }
    most
}

fn saturated(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// RFC 1950 2.2: the first two bytes of a zlib stream. What has none is raw deflate, which some clients send.
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

fn check(size: usize, compressed: usize, limits: InflateLimits) -> Result<(), InflateError> {
    if size > limits.bytes {
        return Err(InflateError::TooLarge { limit: limits.bytes });
    }
    if size > RATIO_APPLIES_FROM && size / limits.ratio > compressed {
        return Err(InflateError::TooDense { limit: limits.ratio });
    }
    Ok(())
}

/// A compressed body: its size, and what it says it becomes (0 when it does not).
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
        // Grow by a quarter: few copies, and at most a fifth paid for and unused.
        let step = if first > 1 { first } else { STEP_BYTES.max(out.len() / 4) };
        let step = step.min(limits.bytes + 1 - out.len().min(limits.bytes));
        first = 0;
        // What has to grow may be there twice for a moment.
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

/// The level gzip is spent at. Telemetry repeats itself: level 1 finds most of it at a quarter of the time.
const GZIP_LEVEL: u32 = 1;
/// zstd's fastest regular level.
const ZSTD_LEVEL: i32 = 1;

/// A raw block of snappy consists of blocks of this length, of which none looks back into another.
const SNAPPY_BLOCK: usize = 64 * 1024;

/// Most bytes that so many become when they cannot be compressed: gzip, at the level that is used here, writes nine bits for
/// some bytes.
pub(crate) fn most_deflated(bytes: usize) -> usize {
    bytes.saturating_add(bytes / 8 + 4096)
}

/// What a compressor has for itself while it works on so many bytes: the largest is zstd's.
pub(crate) fn encoder_bytes(compression: Compression, bytes: usize) -> usize {
    match compression {
        Compression::None => 0,
        Compression::Gzip | Compression::Snappy => 384 << 10,
        Compression::Zstd => (512 << 10) + bytes.min(1 << 20),
    }
}

/// Compresses the concatenation of `chunks` for a backend, into at most `room` bytes.
///
/// # Errors
/// [`io::ErrorKind::OutOfMemory`] when that is more.
pub(crate) fn deflate(
    compression: Compression,
    protocol: Protocol,
    chunks: &[Bytes],
    room: usize,
) -> io::Result<Vec<Bytes>> {
    let size: usize = chunks.iter().map(Bytes::len).sum();
    // One piece is enough for most telemetry.
    let out = Pieces::new(size / 8 + 256, room);
    let done = match compression {
        Compression::None => return Ok(chunks.to_vec()),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(out, Level::new(GZIP_LEVEL));
            write_all(&mut encoder, chunks)?;
            encoder.finish()?
        }
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

/// A raw block: its length, then what each part of it becomes as a block of its own, without the length of that.
fn deflate_snappy_block(chunks: &[Bytes], size: usize, mut out: Pieces) -> io::Result<Pieces> {
    let mut encoder = snap::raw::Encoder::new();
    let mut deflated = vec![0; snap::raw::max_compress_len(SNAPPY_BLOCK)];
    let mut write = |part: &mut Vec<u8>, out: &mut Pieces| {
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

/// The header value that names a compression, `None` for none.
pub(crate) fn header_value(compression: Compression) -> Option<&'static str> {
    match compression {
        Compression::None => None,
        Compression::Gzip => Some("gzip"),
        Compression::Snappy => Some("snappy"),
        Compression::Zstd => Some("zstd"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    const LIMITS: InflateLimits = InflateLimits { bytes: 16 << 20, ratio: 500 };

    fn inflate_with(encoding: Encoding, body: &[u8], limits: InflateLimits) -> Result<Vec<u8>, InflateError> {
        let budget = Budget::new(64 << 20);
        let mut permit = budget.try_take(body.len()).unwrap();
        let inflated = inflate(encoding, body, limits, &mut permit)?;
        assert!(permit.bytes() >= body.len() + inflated.len(), "what was written was not paid for");
        Ok(inflated)
    }

    /// Like `unwrap_err`, without printing megabytes when there is none.
    fn refusal(encoding: Encoding, body: &[u8], limits: InflateLimits) -> InflateError {
        inflate_with(encoding, body, limits).map(|inflated| inflated.len()).unwrap_err()
    }

    fn sample() -> Vec<u8> {
        (0..300_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect()
    }

    fn deflated(compression: Compression, protocol: Protocol, chunks: &[Bytes]) -> Vec<u8> {
        let size = chunks.iter().map(Bytes::len).sum();
        deflate(compression, protocol, chunks, most_deflated(size)).unwrap().concat()
    }

    #[test]
    fn what_cannot_be_compressed_becomes_little_more_and_never_more_than_there_is_room_for() {
        for size in [1, 1000, SNAPPY_BLOCK - 1, SNAPPY_BLOCK, 3_000_000] {
            let noise: Bytes = std::iter::repeat_with(|| fastrand::u8(..)).take(size).collect();
            for compression in [Compression::Gzip, Compression::Zstd, Compression::Snappy] {
                for protocol in [Protocol::Grpc, Protocol::Http] {
                    let all = deflated(compression, protocol, std::slice::from_ref(&noise));
                    assert!(all.len() <= most_deflated(size), "{compression:?} {protocol:?} {size}: {}", all.len());
                    let refused =
                        deflate(compression, protocol, std::slice::from_ref(&noise), all.len() - 1).unwrap_err();
                    assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory, "{compression:?} {protocol:?} {size}");
                }
            }
        }
    }

    #[test]
    fn what_we_compress_we_inflate() {
        let chunks: Vec<Bytes> = sample().chunks(7_001).map(Bytes::copy_from_slice).collect();
        let cases = [
            (Compression::Gzip, Protocol::Grpc, Encoding::Gzip),
            (Compression::Zstd, Protocol::Http, Encoding::Zstd),
            (Compression::Snappy, Protocol::Grpc, Encoding::Snappy),
            (Compression::Snappy, Protocol::Http, Encoding::Snappy),
        ];
        for (compression, protocol, encoding) in cases {
            let small = deflated(compression, protocol, &chunks);
            assert!(small.len() < sample().len());
            assert_eq!(inflate_with(encoding, &small, LIMITS).unwrap(), sample(), "{compression:?} {protocol:?}");
        }
    }

    #[test]
    fn deflate_is_read_with_and_without_its_zlib_header() {
        for body in both_deflated(&sample()) {
            assert_eq!(inflate_with(Encoding::Deflate, &body, LIMITS).unwrap(), sample());
        }
    }

    /// With its zlib header and without.
    fn both_deflated(plain: &[u8]) -> [Vec<u8>; 2] {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Level::new(1));
        zlib.write_all(plain).unwrap();
        let mut raw = flate2::write::DeflateEncoder::new(Vec::new(), Level::new(1));
        raw.write_all(plain).unwrap();
        [zlib.finish().unwrap(), raw.finish().unwrap()]
    }

    #[test]
    fn bombs_are_refused_by_ratio_and_by_size() {
        let zeros = vec![0; 8 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Level::best());
        gzip.write_all(&zeros).unwrap();
        let zstd = zstd::encode_all(&*zeros, 1).unwrap();
        for (encoding, bomb) in [(Encoding::Gzip, gzip.finish().unwrap()), (Encoding::Zstd, zstd)] {
            let refused = refusal(encoding, &bomb, LIMITS);
            assert!(matches!(refused, InflateError::TooDense { limit: 500 }), "{refused}");
            let limits = InflateLimits { bytes: 1 << 20, ratio: usize::MAX };
            let refused = refusal(encoding, &bomb, limits);
            assert!(matches!(refused, InflateError::TooLarge { limit: 0x10_0000 }), "{refused}");
        }
    }

    /// A frame with a window of 2^`log` bytes that does not say its size.
    fn windowed(log: u32, bytes: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(log).unwrap();
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_window_of_every_frame_is_looked_at() {
        let small = zstd::encode_all(&b"small"[..], 1).unwrap();
        let skippable = b"\x53\x2a\x4d\x18\x03\0\0\0abc";
        for log in [20, 22, 23] {
            let large = windowed(log, &sample());
            let frames = [skippable, &small[..], &large, skippable, &small].concat();
            assert_eq!(Frames::of(&frames).unwrap().window, 1 << log);
            let inflated = inflate_with(Encoding::Zstd, &frames, LIMITS).unwrap();
            assert!(inflated == [b"small", &sample()[..], b"small"].concat());
        }
        let beyond = [&small[..], &windowed(24, &sample())].concat();
        assert!(matches!(refusal(Encoding::Zstd, &beyond, LIMITS), InflateError::Corrupt(_)));
    }

    #[test]
    fn a_zstd_body_has_room_for_all_that_its_frames_may_become() {
        let noise: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(300_000).collect();
        for plain in [sample(), noise, vec![7; 400_000], Vec::new()] {
            let said = zstd::bulk::compress(&plain, 1).unwrap();
            assert_eq!(Frames::of(&[&said[..], &said].concat()).unwrap().most, 2 * plain.len());
            let unsaid = windowed(20, &plain);
            let most = Frames::of(&unsaid).unwrap().most;
            assert!(most >= plain.len() && most <= 4 * plain.len() + ZSTD_BLOCK_BYTES, "{most} for {}", plain.len());
            assert!(inflate_with(Encoding::Zstd, &[unsaid, said].concat(), LIMITS).unwrap() == plain.repeat(2));
        }
        assert_eq!(Frames::of(b"").unwrap(), Frames { window: 0, most: 0 });
    }

    #[test]
    fn a_size_that_is_not_true_costs_no_more_than_the_limits() {
        let body = deflated(Compression::Gzip, Protocol::Grpc, &[Bytes::from(sample())]);
        for lie in [0_u32, 1, 1 << 20, u32::MAX] {
            let mut body = body.clone();
            let trailer = body.len() - 4;
            body[trailer..].copy_from_slice(&lie.to_le_bytes());
            // flate2 checks the size after the data: a wrong one is an error, never memory.
            assert!(inflate_with(Encoding::Gzip, &body, LIMITS).is_err(), "{lie}");
        }
        let two_members = [body.clone(), body].concat();
        assert_eq!(inflate_with(Encoding::Gzip, &two_members, LIMITS).unwrap(), sample().repeat(2));
    }

    #[test]
    fn inflating_stops_when_the_budget_does() {
        let body = deflated(Compression::Gzip, Protocol::Grpc, &[Bytes::from(sample())]);
        let budget = Budget::new(body.len() + 200_000);
        let mut permit = budget.try_take(body.len()).unwrap();
        let refused = inflate(Encoding::Gzip, &body, LIMITS, &mut permit).unwrap_err();
        assert!(matches!(refused, InflateError::NoMemory), "{refused}");
    }

    /// Telemetry, compressed in every way that is taken.
    fn compressed() -> impl Iterator<Item = (Encoding, Vec<u8>)> {
        let plain = b"telemetry telemetry";
        let ours = [
            (Compression::Gzip, Encoding::Gzip),
            (Compression::Zstd, Encoding::Zstd),
            (Compression::Snappy, Encoding::Snappy),
        ];
        let ours = ours.map(|(compression, encoding)| {
            (encoding, deflated(compression, Protocol::Http, &[Bytes::from_static(plain)]))
        });
        ours.into_iter().chain(both_deflated(plain).map(|body| (Encoding::Deflate, body)))
    }

    #[test]
    fn what_follows_a_compressed_body_is_not_left_out() {
        for (encoding, body) in compressed() {
            for rest in [&b"\x01"[..], b"garbage, and more of it", &body] {
                // In some formats a second stream goes on with the first.
                let inflated = inflate_with(encoding, &[&body, rest].concat(), LIMITS);
                let all = rest == body && inflated.as_ref().is_ok_and(|all| all == &b"telemetry telemetry".repeat(2));
                assert!(inflated.is_err() || all, "{encoding:?} and {rest:?} gave {inflated:?}");
            }
        }
    }

    #[test]
    fn every_truncation_of_a_compressed_body_is_refused() {
        for (encoding, body) in compressed() {
            for length in 1..body.len() {
                let result = inflate_with(encoding, &body[..length], LIMITS);
                assert!(result.is_err(), "{encoding:?} cut to {length} of {} gave {result:?}", body.len());
            }
        }
    }
}
