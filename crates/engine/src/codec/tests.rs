use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression as Level;
use weir_plan::Protocol;

use super::deflate::SNAPPY_BLOCK;
use super::zstd_frames::{Frames, ZSTD_BLOCK_BYTES};
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
    deflate(compression, protocol, chunks, most_deflated(compression, chunks)).unwrap().concat()
}

#[test]
fn what_cannot_be_compressed_becomes_little_more_and_never_more_than_there_is_room_for() {
    for size in [1, 1000, SNAPPY_BLOCK - 1, SNAPPY_BLOCK, 3_000_000] {
        let noise: Bytes = std::iter::repeat_with(|| fastrand::u8(..)).take(size).collect();
        for compression in [Compression::Gzip, Compression::Zstd, Compression::Snappy] {
            for protocol in [Protocol::Grpc, Protocol::Http] {
                let chunks = std::slice::from_ref(&noise);
                let all = deflated(compression, protocol, chunks);
                let most = most_deflated(compression, chunks);
                assert!(all.len() <= most, "{compression:?} {protocol:?} {size}: {}", all.len());
                let refused = deflate(compression, protocol, chunks, all.len() - 1).unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory, "{compression:?} {protocol:?} {size}");
            }
        }
    }
}

#[test]
fn what_gzip_joins_takes_of_the_room_there_is() {
    let noise: Bytes = std::iter::repeat_with(|| fastrand::u8(..)).take(100_000).collect();
    let chunks = [noise.slice(..30_000), noise.slice(30_000..)];
    let all = deflated(Compression::Gzip, Protocol::Grpc, &chunks);
    assert!(inflate_with(Encoding::Gzip, &all, LIMITS).unwrap() == noise);
    assert!(most_deflated(Compression::Gzip, &chunks) >= noise.len() + all.len());
    for room in [noise.len() + all.len() - 1, noise.len(), noise.len() - 1, 0] {
        let refused = deflate(Compression::Gzip, Protocol::Grpc, &chunks, room).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory, "{room}");
    }
    let fits = deflate(Compression::Gzip, Protocol::Grpc, &chunks, noise.len() + all.len()).unwrap();
    assert!(fits.concat() == all);
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
    let ours = ours
        .map(|(compression, encoding)| (encoding, deflated(compression, Protocol::Http, &[Bytes::from_static(plain)])));
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
