//! What statements and conditions add to a span of 40 attributes, in nanoseconds: the best of many runs.
//!
//! `cargo bench -p weir-ottl`. It measures this crate alone, not a pipeline; nothing is asserted.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use weir_otlp::build::Encoder;
use weir_ottl::{Context, Filter, Limits, Options, Signal, Transform};

const SPANS: usize = 512;
const ROUND: Duration = Duration::from_millis(1500);
const LIMITS: Limits = Limits { now_unix_nano: 0, max_growth: 1 << 24, max_scratch: 1 << 24 };

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let request = request();
    writeln!(out, "{} bytes per span", request.len() / SPANS)?;
    let mut report = |name: &str, nanos: f64| writeln!(out, "  {name:30} {nanos:6.0} ns per span");

    let service = |operation: &str, service: &str| {
        format!(
            "attributes[\"http.method\"] == \"GET\" and attributes[\"component\"] == \"proxy\" and \
             attributes[\"OperationName\"] == \"{operation}\" and resource.attributes[\"service.name\"] == \"{service}\""
        )
    };
    let url = |pattern: &str| {
        format!(
            "attributes[\"http.method\"] == \"POST\" and attributes[\"component\"] == \"proxy\" and \
             attributes[\"OperationName\"] == \"Egress\" and IsMatch(attributes[\"http.url\"], \"{pattern}\") == true"
        )
    };
    let mut twelve: Vec<String> = ["jaeger", "grafana", "loki", "kiali", "prometheus"]
        .iter()
        .flat_map(|name| [service("Ingress", name), service("Egress", name)])
        .collect();
    twelve.extend([url("http(s)?:.*metrics.*"), url(".+/healthz(/.*)?")]);
    let filter = |conditions: &[String]| Filter::compile(Signal::Traces, &Options::fixed(Context::Span), conditions);
    let none = filter(&twelve).expect("conditions are right");
    report("12 conditions, none holds", nanos(|| drop(black_box(none.apply(&request, &LIMITS)))))?;
    let half = filter(&["attributes[\"key.017\"] == \"never\" or IsMatch(name, \"^GET /.*[0-4]$\")".to_owned()]);
    let half = half.expect("the condition is right");
    report("filter that drops half", nanos(|| drop(black_box(half.apply(&request, &LIMITS)))))?;

    let transform = |statements: &[String]| {
        let options = Options::transform(Signal::Traces);
        Transform::compile(Signal::Traces, &options, &[], statements).expect("statements are right")
    };
    let insert = transform(&["set(span.attributes[\"new\"], \"value\")".to_owned()]);
    report("insert of one attribute", nanos(|| drop(black_box(insert.apply(&request, &LIMITS)))))?;
    let renames: Vec<String> = (0..4)
        .flat_map(|index| {
            let old = format!("span.attributes[\"key.{:03}\"]", index * 9);
            let delete = format!("delete_key(span.attributes, \"key.{:03}\")", index * 9);
            [format!("set(span.attributes[\"renamed.{index}\"], {old})"), delete]
        })
        .collect();
    let rename = transform(&renames);
    report("rename of four attributes", nanos(|| drop(black_box(rename.apply(&request, &LIMITS)))))?;
    let never = transform(&["set(span.attributes[\"new\"], \"value\") where span.name == \"never\"".to_owned()]);
    report("statement that never applies", nanos(|| drop(black_box(never.apply(&request, &LIMITS)))))
}

/// Nanoseconds per span of the best run: others that share the machine only ever make a run slower.
fn nanos(mut run: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    let start = Instant::now();
    while start.elapsed() < ROUND {
        let before = Instant::now();
        run();
        best = best.min(before.elapsed());
    }
    best.as_secs_f64() * 1e9 / SPANS as f64
}

/// One resource and one scope with spans of 40 attributes with values of 64 bytes, some of them those of a proxy.
fn request() -> Vec<u8> {
    let mut out = Encoder::default();
    let resource = out.open(1, 1 << 21);
    let attributes = out.open(1, 64);
    attribute(&mut out, 1, "service.name", "shop");
    out.close(attributes);
    let scope = out.open(2, 1 << 21);
    for index in 0..SPANS {
        let span = out.open(2, 3 << 10);
        out.bytes(1, &[7; 16]);
        out.bytes(2, &[8; 8]);
        out.bytes(5, format!("GET /user/{index}").as_bytes());
        out.varint(6, 2);
        out.fixed64(7, 1_700_000_000_000_000_000);
        out.fixed64(8, 1_700_000_000_000_001_000);
        for key in 0..36 {
            attribute(&mut out, 9, &format!("key.{key:03}"), &"abcdefgh".repeat(8));
        }
        attribute(&mut out, 9, "http.method", "GET");
        attribute(&mut out, 9, "component", "proxy");
        attribute(&mut out, 9, "OperationName", "Ingress");
        attribute(&mut out, 9, "http.url", "https://shop.default.svc.cluster.local:8080/user/17");
        out.close(span);
    }
    out.close(scope);
    out.close(resource);
    out.into_bytes()
}

fn attribute(out: &mut Encoder, number: u32, key: &str, value: &str) {
    let pair = out.open(number, key.len() + value.len() + 6);
    out.bytes(1, key.as_bytes());
    let inner = out.open(2, value.len() + 2);
    out.bytes(1, value.as_bytes());
    out.close(inner);
    out.close(pair);
}
