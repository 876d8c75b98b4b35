//! How fast requests are validated, cut and translated to and from JSON, in GB/s of one core: the best of
//! several rounds.
//!
//! `cargo bench -p weir-otlp`. It measures this crate alone, not a pipeline; nothing is asserted.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_otlp::build::Encoder;
use weir_otlp::{Limits, Signal, cut, from_json, to_json, validate};

const SPANS: usize = 512;
const ROUND: Duration = Duration::from_millis(200);
const ROUNDS: usize = 7;

/// What the spans of a payload look like.
struct Shape {
    name: &'static str,
    attributes: usize,
    value: &'static str,
    value_repeats: usize,
}

const SHAPES: [Shape; 4] = [
    Shape { name: "40 attributes of 64 bytes", attributes: 40, value: "abcdefgh", value_repeats: 8 },
    Shape { name: "5 attributes of 16 bytes", attributes: 5, value: "abcdefgh", value_repeats: 2 },
    Shape { name: "5 attributes of 300 bytes", attributes: 5, value: "abcdefghij", value_repeats: 30 },
    Shape {
        name: "40 attributes of 63 bytes, Japanese", attributes: 40, value: "テレメトリ。。", value_repeats: 3
    },
];

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let limits = Limits::default();
    for shape in &SHAPES {
        let request = request(shape);
        writeln!(out, "{} ({} bytes per span)", shape.name, request.len() / SPANS)?;
        let rate = best_rate(request.len(), || drop(black_box(validate(Signal::Traces, black_box(&request), &limits))));
        writeln!(out, "  validate      {rate:6.2} GB/s")?;
        let bytes = Bytes::from(request.clone());
        let rate =
            best_rate(request.len(), || drop(black_box(cut(Signal::Traces, black_box(&bytes), request.len() / 4))));
        writeln!(out, "  cut in four   {rate:6.2} GB/s")?;
        let rate = best_rate(request.len(), || drop(black_box(to_json(Signal::Traces, black_box(&request), &limits))));
        writeln!(out, "  to JSON       {rate:6.2} GB/s")?;
        let json = json(shape);
        let rate =
            best_rate(json.len(), || drop(black_box(from_json(Signal::Traces, black_box(&json), &limits, 1 << 30))));
        writeln!(out, "  from JSON     {rate:6.2} GB/s of JSON")?;
    }
    Ok(())
}

/// GB/s of the best round.
fn best_rate(bytes: usize, mut run: impl FnMut()) -> f64 {
    let mut best = 0f64;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut runs = 0;
        while start.elapsed() < ROUND {
            run();
            runs += 1;
        }
        best = best.max((bytes * runs) as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}

fn request(shape: &Shape) -> Vec<u8> {
    let mut request = Encoder::default();
    let resource_spans = request.open(1, 0);
    let resource = request.open(1, 0);
    attribute(&mut request, 1, "service.name", "checkout");
    request.close(resource);
    let scope_spans = request.open(2, 0);
    for span in 0..SPANS {
        self::span(&mut request, shape, span as u64 + 1);
    }
    request.close(scope_spans);
    request.close(resource_spans);
    request.into_bytes()
}

fn span(request: &mut Encoder, shape: &Shape, id: u64) {
    let span = request.open(2, 0);
    request.bytes(1, &[7; 16]);
    request.bytes(2, &id.to_be_bytes());
    request.bytes(4, &[9; 8]);
    request.bytes(5, b"GET /cart");
    request.varint(6, 2);
    request.fixed64(7, 1_700_000_000_000_000_000);
    request.fixed64(8, 1_700_000_000_100_000_000);
    let value = shape.value.repeat(shape.value_repeats);
    for index in 0..shape.attributes {
        attribute(request, 9, &format!("attribute{index:02}"), &value);
    }
    let status = request.open(15, 0);
    request.varint(3, 1);
    request.close(status);
    request.close(span);
}

fn attribute(request: &mut Encoder, number: u32, key: &str, value: &str) {
    let attribute = request.open(number, 0);
    request.bytes(1, key.as_bytes());
    let any = request.open(2, 0);
    request.bytes(1, value.as_bytes());
    request.close(any);
    request.close(attribute);
}

fn json(shape: &Shape) -> Vec<u8> {
    let value = shape.value.repeat(shape.value_repeats);
    let attributes: Vec<_> = (0..shape.attributes)
        .map(|index| serde_json::json!({ "key": format!("attribute{index:02}"), "value": { "stringValue": value } }))
        .collect();
    let span = serde_json::json!({
        "traceId": "07".repeat(16), "spanId": "08".repeat(8), "parentSpanId": "09".repeat(8), "name": "GET /cart",
        "kind": 2, "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000100000000",
        "attributes": attributes, "status": { "code": 1 },
    });
    let request = serde_json::json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": vec![span; SPANS] }] }] });
    request.to_string().into_bytes()
}
