//! What converting a point costs, and remembering a series: `cargo run --release -p weir-temporality --example
//! throughput`. 5,000 series of a sum with 7 attributes each, in requests of 500 points.

use std::error::Error;
use std::io::{Write, stdout};
use std::time::Instant;

use weir_otlp::build::Encoder;
use weir_temporality::{Converter, Counts, Limits};

const SERIES: u64 = 5_000;
const POINTS: u64 = 500;
const ROUNDS: u64 = 200;
const SECOND: u64 = 1_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut converter = Converter::new(Limits::default(), SECOND);
    let mut out = stdout().lock();
    let (mut best, mut first) = (f64::INFINITY, 0.0);
    for round in 1..=ROUNDS {
        let now = (1 + 30 * round) * SECOND;
        let requests: Vec<_> = (0..SERIES / POINTS).map(|part| request(part * POINTS, now, round)).collect();
        let start = Instant::now();
        let mut converted = 0;
        for request in &requests {
            let Counts { converted: points, .. } = converter.convert(request, now)?.counts;
            converted += points;
        }
        let nanoseconds = start.elapsed().as_secs_f64() * 1e9 / SERIES as f64;
        if converted == 0 {
            first = nanoseconds;
        } else {
            best = nanoseconds.min(best);
        }
    }
    writeln!(out, "first point of a series   {first:5.0} ns")?;
    writeln!(out, "every other point         {best:5.0} ns (best of {} rounds)", ROUNDS - 1)?;
    writeln!(out, "memory per series         {:5} bytes", converter.bytes() / converter.series())?;
    Ok(())
}

/// A request with a cumulative sum of `POINTS` points.
fn request(first: u64, now: u64, value: u64) -> Vec<u8> {
    let mut out = Encoder::default();
    let resource_metrics = out.open(1, 100_000);
    let resource = out.open(1, 100);
    attribute(&mut out, 1, "service.name", "checkout");
    attribute(&mut out, 1, "k8s.pod.uid", "0b7c1c54-6a3e-4a39-8f9b-1e2f0f5bd1a9");
    out.close(resource);
    let scope_metrics = out.open(2, 100_000);
    let metric = out.open(2, 100_000);
    out.bytes(1, b"http.server.requests");
    let sum = out.open(7, 100_000);
    for series in first..first + POINTS {
        let point = out.open(1, 250);
        out.fixed64(2, SECOND / 2);
        out.fixed64(3, now);
        out.fixed64(6, value * series);
        for key in ["method", "route", "status", "zone", "version", "tenant"] {
            attribute(&mut out, 7, key, "some value of it");
        }
        attribute(&mut out, 7, "series", &series.to_string());
        out.close(point);
    }
    out.varint(2, 2);
    out.varint(3, 1);
    for message in [sum, metric, scope_metrics, resource_metrics] {
        out.close(message);
    }
    out.into_bytes()
}

fn attribute(out: &mut Encoder, number: u32, key: &str, value: &str) {
    let attribute = out.open(number, 40);
    out.bytes(1, key.as_bytes());
    let any_value = out.open(2, 20);
    out.bytes(1, value.as_bytes());
    out.close(any_value);
    out.close(attribute);
}
