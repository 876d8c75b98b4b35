//! The least that a scraper costs, to compare Weir with (`scripts/bench-mover.sh`): it receives pages over HTTP, and sends
//! as many bytes as requests made of them have over a plain TCP connection. It looks at none of them.
//!
//! One thread does it all, without an async runtime, HTTP/2 or memory that comes and goes.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;

/// Bytes that are read and written at once, as Weir does.
const READ_BYTES: usize = 64 << 10;
const WRITE_BYTES: usize = 128 << 10;

/// Move bytes as a scraper does.
#[derive(Parser)]
enum Cli {
    /// Take requests of so many bytes, and answer each with one byte
    Sink { port: u16, bytes: usize },
    /// Fetch pages in turn, and send a request for each
    Scrape(Scrape),
}

#[derive(clap::Args)]
struct Scrape {
    /// Port of `weir load scrape-targets`
    targets: u16,
    /// Port of the sink; 0 sends nothing
    sink: u16,
    /// Length of a request
    bytes: usize,
    /// Samples on a page
    #[arg(long, default_value_t = 10_000)]
    samples: u32,
    #[arg(long, default_value_t = 20)]
    count: u32,
    /// Milliseconds from one page to the next
    #[arg(long, default_value_t = 100)]
    every: u64,
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse() {
        Cli::Sink { port, bytes } => sink(port, bytes),
        Cli::Scrape(scrape) => scrape.run(),
    }
}

fn sink(port: u16, bytes: usize) -> anyhow::Result<()> {
    let (mut peer, _) = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?.accept()?;
    let mut room = vec![0; 4 * READ_BYTES];
    let mut missing = bytes;
    loop {
        let most = missing.min(room.len());
        match peer.read(&mut room[..most])? {
            0 => return Ok(()),
            read => missing -= read,
        }
        if missing == 0 {
            peer.write_all(b"k")?;
            missing = bytes;
        }
    }
}

impl Scrape {
    #[expect(clippy::print_stdout, reason = "the figure is what it is for")]
    #[expect(clippy::disallowed_methods, reason = "there is one thread, and no runtime")]
    fn run(&self) -> anyhow::Result<()> {
        let connect = |port| TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        let mut targets: Vec<TcpStream> =
            (0..self.count).map(|_| connect(self.targets)).collect::<Result<_, _>>().context("no targets")?;
        let mut sink = if self.sink == 0 { None } else { Some(connect(self.sink).context("no sink")?) };
        let (mut page, request) = (vec![0; READ_BYTES], vec![7; self.bytes]);
        let (began, before, mut pages) = (Instant::now(), cpu_seconds()?, 0_u32);
        while began.elapsed() < Duration::from_secs(self.seconds) {
            let target = pages % self.count;
            fetch(&mut targets[target as usize], target, &mut page)?;
            if let Some(sink) = &mut sink {
                request.chunks(WRITE_BYTES).try_for_each(|part| sink.write_all(part))?;
                sink.read_exact(&mut page[..1])?;
            }
            pages += 1;
            sleep((Duration::from_millis(self.every) * pages).saturating_sub(began.elapsed()));
        }
        let samples = f64::from(pages) * f64::from(self.samples);
        println!("{pages} pages, {:.0} ns for each sample", (cpu_seconds()? - before) / samples * 1e9);
        Ok(())
    }
}

/// Reads a page of a target to its end.
fn fetch(target: &mut TcpStream, number: u32, page: &mut [u8]) -> anyhow::Result<()> {
    write!(target, "GET /targets/{number}/metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    let mut read = target.read(page)?;
    let head = String::from_utf8_lossy(&page[..read.min(1 << 10)]).to_ascii_lowercase();
    let (head, _) = head.split_once("\r\n\r\n").context("a head that does not come at once")?;
    let length = head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next()?.parse::<usize>().ok());
    let whole = head.len() + 4 + length.context("a page without its length")?;
    while read < whole {
        read += target.read(page)?;
    }
    Ok(())
}

/// CPU time of this thread, which is all of the process.
fn cpu_seconds() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/self/schedstat")?;
    Ok(stat.split(' ').next().context("no time")?.parse::<f64>()? / 1e9)
}
