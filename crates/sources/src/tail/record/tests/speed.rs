//! How fast records are made, on one core: `cargo test --release -p weir-sources speed -- --nocapture`. Without a
//! release build the figures mean nothing; what is asserted is that all records are there.

use std::time::Instant;

use super::*;

const JSON: &str = concat!(
    r#"{"time":"2026-11-23T12:00:00.123456789Z","level":"info","message":"order was placed and payment authorised","#,
    r#""logger":"com.example.shop.OrderService","thread":"http-nio-8080-exec-7","status":200,"duration_ms":12.75,"#,
    r#""trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"b7ad6b7169203331","path":"/api/v1/orders/4711"}"#,
);

#[test]
fn of_all_lines_there_are_records() {
    let plain = "GET /api/v1/orders/4711 200 12ms ".repeat(6);
    let nested = r#"{"kubernetes":{"labels":{"app":"cart","tier":"\tbackend"}},"l":[1,2,3],"#.to_owned() + &JSON[1..];
    for (name, text, shape) in [
        ("plain text", &plain[..], KEEP),
        ("JSON of ten fields", JSON, KEEP),
        ("JSON of ten fields, text dropped", JSON, DROP),
        ("JSON with objects and escapes", &nested, KEEP),
    ] {
        let best = (0..ROUNDS).map(|_| nanos(text, shape)).min().unwrap_or_default() as f64 / f64::from(COUNT);
        println!("{name}: {} bytes, {best:.0} ns, {:.0} MB/s", text.len(), text.len() as f64 / best * 1e3);
    }
}

const ROUNDS: u32 = if cfg!(debug_assertions) { 1 } else { 50 };
const COUNT: u32 = 4_000;

fn nanos(text: &str, shape: RecordShape) -> u128 {
    let start = Instant::now();
    let mut builder = RequestBuilder::new(&SOURCE, shape, Size { expected: 4 << 20, most: 8 << 20 });
    for _ in 0..COUNT {
        builder.push(&entry(std::hint::black_box(text.as_bytes())), &mut Attributes::default(), 8).unwrap();
    }
    assert_eq!(builder.items(), COUNT);
    std::hint::black_box(builder.into_bytes());
    start.elapsed().as_nanos()
}
