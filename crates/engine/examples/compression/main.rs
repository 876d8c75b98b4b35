//! What compressing and inflating cost, in MB of plain bytes per CPU second, and how many times smaller requests become.
//!
//! `cargo run --release -p weir-engine --example compression`. It measures libraries, not a pipeline; nothing is asserted.

mod payload;

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::time::Duration;

use libdeflater::{CompressionLvl, Compressor, Decompressor};
use rustix::time::{ClockId, clock_gettime};

const SIZES: [usize; 4] = [4 << 10, 64 << 10, 512 << 10, 4 << 20];
const ROUND: Duration = Duration::from_millis(60);
const ROUNDS: usize = 3;

type Compress = Box<dyn Fn(&[u8]) -> Vec<u8>>;
type Inflate = fn(&[u8], usize) -> Vec<u8>;

/// A library at a level.
struct Way {
    name: String,
    compress: Compress,
    inflate: Inflate,
}

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    writeln!(out, "| payload | size | with | times smaller | compress MB/s | inflate MB/s |")?;
    writeln!(out, "|---|--:|---|--:|--:|--:|")?;
    let wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    for (name, make) in payload::ALL.into_iter().filter(|(name, _)| wanted(name)) {
        for size in SIZES {
            let plain = &make(size)[..size];
            for way in ways() {
                let small = (way.compress)(plain);
                assert!((way.inflate)(&small, plain.len()) == plain, "{} is not what it was", way.name);
                let compress = megabytes(plain.len(), || drop(black_box((way.compress)(black_box(plain)))));
                let inflate = megabytes(plain.len(), || drop(black_box((way.inflate)(black_box(&small), plain.len()))));
                let ratio = plain.len() as f64 / small.len() as f64;
                let (name_of, kib) = (&way.name, plain.len() >> 10);
                writeln!(out, "| {name} | {kib} KiB | {name_of} | {ratio:.2} | {compress:.0} | {inflate:.0} |")?;
            }
        }
    }
    Ok(())
}

/// The best of several rounds.
fn megabytes(bytes: usize, run: impl Fn()) -> f64 {
    let mut best = 0f64;
    for _ in 0..ROUNDS {
        let (start, mut runs) = (cpu_time(), 0u32);
        while cpu_time() - start < ROUND {
            run();
            runs += 1;
        }
        best = best.max(f64::from(runs) * bytes as f64 / 1e6 / (cpu_time() - start).as_secs_f64());
    }
    best
}

/// Of this thread, so that other processes do not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for level in 1..=6 {
        let compress = move |plain: &[u8]| zlib_rs(plain, level);
        ways.push(Way { name: format!("zlib-rs {level}"), compress: Box::new(compress), inflate: inflate_zlib_rs });
    }
    for level in 1..=6 {
        let compress = move |plain: &[u8]| libdeflate(plain, level);
        ways.push(Way {
            name: format!("libdeflate {level}"),
            compress: Box::new(compress),
            inflate: inflate_libdeflate,
        });
    }
    for level in [-1, 1, 3] {
        let compress = move |plain: &[u8]| zstd::bulk::compress(plain, level).expect("memory");
        ways.push(Way { name: format!("zstd {level}"), compress: Box::new(compress), inflate: inflate_zstd });
    }
    let snappy: Compress = Box::new(|plain| snap::raw::Encoder::new().compress_vec(plain).expect("memory"));
    ways.push(Way { name: "snappy".to_owned(), compress: snappy, inflate: inflate_snappy });
    ways
}

fn zlib_rs(plain: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
    encoder.write_all(plain).and_then(|()| encoder.finish()).expect("memory")
}

fn inflate_zlib_rs(small: &[u8], size: usize) -> Vec<u8> {
    let mut plain = Vec::with_capacity(size + 1);
    flate2::bufread::MultiGzDecoder::new(small).read_to_end(&mut plain).expect("what was compressed");
    plain
}

/// A compressor for each request: none is kept, as none would be paid for.
fn libdeflate(plain: &[u8], level: i32) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::new(level).expect("a level there is"));
    let mut small = vec![0; compressor.gzip_compress_bound(plain.len())];
    let length = compressor.gzip_compress(plain, &mut small).expect("room for the largest");
    small.truncate(length);
    small.shrink_to_fit();
    small
}

fn inflate_libdeflate(small: &[u8], size: usize) -> Vec<u8> {
    let mut plain = vec![0; size];
    let length = Decompressor::new().gzip_decompress(small, &mut plain).expect("what was compressed");
    plain.truncate(length);
    plain
}

fn inflate_zstd(small: &[u8], size: usize) -> Vec<u8> {
    zstd::bulk::decompress(small, size).expect("what was compressed")
}

fn inflate_snappy(small: &[u8], _: usize) -> Vec<u8> {
    snap::raw::Decoder::new().decompress_vec(small).expect("what was compressed")
}
