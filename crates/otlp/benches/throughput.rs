//! How fast requests are validated, cut and translated to and from JSON, in GB/s and millions of items per second of
//! one core: the best of several rounds.
//!
//! `cargo bench -p weir-otlp`. It measures this crate alone, not a pipeline; nothing is asserted.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_otlp::build::Encoder;
use weir_otlp::{Limits, Signal, count, cut, from_json, to_json, validate};

const ITEMS: usize = 512;
const ROUND: Duration = Duration::from_millis(200);
const ROUNDS: usize = 7;
const TIME: u64 = 1_700_000_000_000_000_000;

/// What the items of a payload look like.
struct Shape {
    name: &'static str,
    item: Item,
    attributes: usize,
    value: &'static str,
    value_repeats: usize,
}

#[derive(Clone, Copy)]
enum Item {
    Span,
    /// A point of a gauge of 64.
    GaugePoint,
    /// A point of a histogram of 64, with 16 buckets.
    HistogramPoint,
    /// A log record with a body of this many bytes.
    LogRecord(usize),
}

const SHAPES: [Shape; 8] = [
    span("spans, 40 attributes of 64 bytes", 40, "abcdefgh", 8),
    span("spans, 5 attributes of 64 bytes", 5, "abcdefgh", 8),
    span("spans, 5 attributes of 16 bytes", 5, "abcdefgh", 2),
    span("spans, 5 attributes of 300 bytes", 5, "abcdefghij", 30),
    span("spans, 40 attributes of 63 bytes, Japanese", 40, "テレメトリ。。", 3),
    Shape { item: Item::GaugePoint, ..span("gauge points, 10 attributes of 16 bytes", 10, "abcdefgh", 2) },
    Shape { item: Item::HistogramPoint, ..span("histogram points, 10 attributes of 16 bytes", 10, "abcdefgh", 2) },
    Shape { item: Item::LogRecord(1500), ..span("log records, 2 KB", 10, "abcdefgh", 4) },
];

const fn span(name: &'static str, attributes: usize, value: &'static str, value_repeats: usize) -> Shape {
    Shape { name, item: Item::Span, attributes, value, value_repeats }
}

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let limits = Limits::default();
    for shape in &SHAPES {
        let signal = shape.signal();
        let request = Bytes::from(request(shape));
        let json = to_json(signal, &request, &limits).map_err(io::Error::other)?.text;
        writeln!(out, "{} ({} bytes each)", shape.name, request.len() / ITEMS)?;
        let mut report = |name: &str, bytes: usize, run: &dyn Fn()| {
            let rate = best_rate(run);
            let (gigabytes, items) = (rate * bytes as f64 / 1e9, rate * ITEMS as f64 / 1e6);
            writeln!(out, "  {name:14}{gigabytes:6.2} GB/s {items:7.2} M/s")
        };
        report("validate", request.len(), &|| drop(black_box(validate(signal, black_box(&request), &limits))))?;
        report("count", request.len(), &|| _ = black_box(count(signal, black_box(&request))))?;
        report("cut in four", request.len(), &|| {
            cut(signal, black_box(&request), request.len() / 4).for_each(|part| drop(black_box(part.make())));
        })?;
        report("to JSON", request.len(), &|| drop(black_box(to_json(signal, black_box(&request), &limits))))?;
        report("from JSON", json.len(), &|| drop(black_box(from_json(signal, black_box(&json), &limits, 1 << 30))))?;
    }
    Ok(())
}

/// Runs per second of the best round.
fn best_rate(run: &dyn Fn()) -> f64 {
    let mut best = 0f64;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut runs = 0u32;
        while start.elapsed() < ROUND {
            run();
            runs += 1;
        }
        best = best.max(f64::from(runs) / start.elapsed().as_secs_f64());
    }
    best
}

impl Shape {
    fn signal(&self) -> Signal {
        match self.item {
            Item::Span => Signal::Traces,
            Item::GaugePoint | Item::HistogramPoint => Signal::Metrics,
            Item::LogRecord(_) => Signal::Logs,
        }
    }

    fn attributes(&self, request: &mut Encoder, number: u32) {
        let value = self.value.repeat(self.value_repeats);
        for index in 0..self.attributes {
            attribute(request, number, &format!("attribute{index:02}"), &value);
        }
    }
}

fn request(shape: &Shape) -> Vec<u8> {
    let mut request = Encoder::default();
    let resource_data = request.open(1, 0);
    let resource = request.open(1, 0);
    attribute(&mut request, 1, "service.name", "checkout");
    request.close(resource);
    let scope_data = request.open(2, 0);
    match shape.item {
        Item::Span => (1..=ITEMS).for_each(|id| encode_span(&mut request, shape, id as u64)),
        Item::GaugePoint | Item::HistogramPoint => (0..ITEMS / 64).for_each(|_| encode_metric(&mut request, shape)),
        Item::LogRecord(body) => (0..ITEMS).for_each(|_| encode_log_record(&mut request, shape, body)),
    }
    request.close(scope_data);
    request.close(resource_data);
    request.into_bytes()
}

fn encode_span(request: &mut Encoder, shape: &Shape, id: u64) {
    let span = request.open(2, 0);
    request.bytes(1, &[7; 16]);
    request.bytes(2, &id.to_be_bytes());
    request.bytes(4, &[9; 8]);
    request.bytes(5, b"GET /cart");
    request.varint(6, 2);
    request.fixed64(7, TIME);
    request.fixed64(8, TIME + 100_000_000);
    shape.attributes(request, 9);
    let status = request.open(15, 0);
    request.varint(3, 1);
    request.close(status);
    request.close(span);
}

/// A metric with 64 points.
fn encode_metric(request: &mut Encoder, shape: &Shape) {
    let metric = request.open(2, 0);
    request.bytes(1, b"http.server.request.duration");
    request.bytes(3, b"s");
    let is_gauge = matches!(shape.item, Item::GaugePoint);
    let data = request.open(if is_gauge { 5 } else { 9 }, 0);
    for _ in 0..64 {
        let point = request.open(1, 0);
        request.fixed64(2, TIME);
        request.fixed64(3, TIME + 10_000_000_000);
        if is_gauge {
            request.fixed64(4, 0.25f64.to_bits());
            shape.attributes(request, 7);
        } else {
            request.fixed64(4, 120);
            request.fixed64(5, 30.5f64.to_bits());
            request.bytes(6, &[1, 0, 0, 0, 0, 0, 0, 0].repeat(16));
            request.bytes(7, &0.5f64.to_le_bytes().repeat(15));
            shape.attributes(request, 9);
        }
        request.close(point);
    }
    if !is_gauge {
        // Cumulative.
        request.varint(2, 2);
    }
    request.close(data);
    request.close(metric);
}

fn encode_log_record(request: &mut Encoder, shape: &Shape, body: usize) {
    let record = request.open(2, 0);
    request.fixed64(1, TIME);
    request.fixed64(11, TIME + 1_000_000);
    request.varint(2, 9);
    request.bytes(3, b"INFO");
    let value = request.open(5, 0);
    request.bytes(1, &b"GET /cart 200 ".iter().copied().cycle().take(body).collect::<Vec<_>>());
    request.close(value);
    shape.attributes(request, 6);
    request.bytes(9, &[7; 16]);
    request.bytes(10, &[9; 8]);
    request.close(record);
}

fn attribute(request: &mut Encoder, number: u32, key: &str, value: &str) {
    let attribute = request.open(number, 0);
    request.bytes(1, key.as_bytes());
    let any = request.open(2, 0);
    request.bytes(1, value.as_bytes());
    request.close(any);
    request.close(attribute);
}
