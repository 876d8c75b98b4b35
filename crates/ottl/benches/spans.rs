//! What statements and conditions add to a span of 40 attributes and to a small data point, in nanoseconds: the best of
//! many runs.
//!
//! `cargo bench -p weir-ottl`, or with `-- WORDS` only what has these words in its name. It measures this crate alone, not
//! a pipeline; nothing is asserted.

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
    let wanted = std::env::args().nth(1).filter(|word| !word.starts_with('-')).unwrap_or_default();
    let mut report = |name: &str, run: &dyn Fn()| {
        if name.contains(&wanted) { writeln!(out, "  {name:35} {:6.0} ns per item", nanos(run)) } else { Ok(()) }
    };

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
    report("12 conditions, none holds", &|| drop(black_box(none.apply(&request, &LIMITS))))?;
    let half = filter(&["attributes[\"key.017\"] == \"never\" or IsMatch(name, \"^GET /.*[0-4]$\")".to_owned()]);
    let half = half.expect("the condition is right");
    report("filter that drops half", &|| drop(black_box(half.apply(&request, &LIMITS))))?;

    let transform = |statements: &[String]| {
        let options = Options::transform(Signal::Traces);
        Transform::compile(Signal::Traces, &options, &[], statements).expect("statements are right")
    };
    let insert = transform(&["set(span.attributes[\"new\"], \"value\")".to_owned()]);
    report("insert of one attribute", &|| drop(black_box(insert.apply(&request, &LIMITS))))?;
    let renames =
        (0..4).flat_map(|index| rename("span", &format!("renamed.{index}"), &format!("key.{:03}", index * 9)));
    let rename_spans = transform(&renames.collect::<Vec<_>>());
    report("rename of four attributes", &|| drop(black_box(rename_spans.apply(&request, &LIMITS))))?;
    let points = points();
    let statements: Vec<String> =
        (0..4).flat_map(|index| rename("datapoint", &format!("renamed{index}"), &format!("key{index}"))).collect();
    let rename = Transform::compile(Signal::Metrics, &Options::transform(Signal::Metrics), &[], &statements);
    let rename = rename.expect("statements are right");
    report("the same for data points of 7", &|| drop(black_box(rename.apply(&points, &LIMITS))))?;
    let letters = transform(&["replace_all_patterns(span.attributes, \"value\", \"[ae]\", \"#\")".to_owned()]);
    report("replacement of many short matches", &|| drop(black_box(letters.apply(&request, &LIMITS))))?;
    let never = transform(&["set(span.attributes[\"new\"], \"value\") where span.name == \"never\"".to_owned()]);
    report("statement that never applies", &|| drop(black_box(never.apply(&request, &LIMITS))))
}

/// The statements that rename an attribute.
fn rename(item: &str, new: &str, old: &str) -> [String; 2] {
    [
        format!("set({item}.attributes[\"{new}\"], {item}.attributes[\"{old}\"])"),
        format!("delete_key({item}.attributes, \"{old}\")"),
    ]
}

/// Nanoseconds per span of the best run: others that share the machine only ever make a run slower.
fn nanos(run: &dyn Fn()) -> f64 {
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

/// One gauge with points of 7 attributes.
fn points() -> Vec<u8> {
    let mut out = Encoder::default();
    let resource = out.open(1, 1 << 19);
    let scope = out.open(2, 1 << 19);
    let metric = out.open(2, 1 << 19);
    let gauge = out.open(5, 1 << 19);
    for _ in 0..SPANS {
        let point = out.open(1, 600);
        out.fixed64(3, 1_700_000_000_000_000_000);
        out.fixed64(4, 1.5_f64.to_bits());
        for key in 0..7 {
            attribute(&mut out, 7, &format!("key{key}"), &"abcdefgh".repeat(8));
        }
        out.close(point);
    }
    for open in [gauge, metric, scope, resource] {
        out.close(open);
    }
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
