//! Generated items: every type of value, nested, empty, absent, in letters of several scripts.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::subject::Subject;

const KINDS: [&str; 9] =
    ["span", "spanevent", "log", "metric", "exemplar", "sum", "histogram", "exponentialHistogram", "summary"];

/// Keys of generated attributes; generated statements ask for them.
pub(crate) const KEYS: [&str; 8] = ["s", "i", "d", "b", "l", "m", "y", "ключ"];

const TEXTS: [&str; 12] = [
    "",
    "a",
    "GET /user/17",
    "Zoë ŉ ß",
    "日本語🎉",
    "42",
    "-1.5e3",
    "true",
    "key=value other=\"quoted value\"",
    "2024-02-29T12:34:56Z",
    "{\"a\":[1,{\"b\":null}]}",
    "some_name-With CAPS",
];

/// So many generated items.
pub(crate) fn generate(rng: &mut Rng, count: usize) -> Vec<Subject> {
    (0..count).map(|index| subject(rng, KINDS[index % KINDS.len()])).collect()
}

fn subject(rng: &mut Rng, kind: &str) -> Subject {
    let item = match kind {
        "span" => span(rng),
        "spanevent" => json!({"name": text(rng), "timeUnixNano": time(rng), "attributes": map(rng)}),
        "log" => log(rng),
        "metric" => metric(rng),
        "exemplar" => json!({"asDouble": double(rng), "timeUnixNano": time(rng), "filteredAttributes": map(rng)}),
        "sum" => json!({"asInt": int(rng).to_string(), "timeUnixNano": time(rng), "attributes": map(rng)}),
        _ => distribution(rng, kind),
    };
    let resource = json!({"attributes": map(rng), "droppedAttributesCount": rng.u32(0..3)});
    let scope = if rng.bool() { json!({}) } else { json!({"name": text(rng), "attributes": map(rng)}) };
    Subject { kind: kind.to_owned(), item, resource, scope }
}

fn span(rng: &mut Rng) -> Value {
    let mut span = json!({
        "name": text(rng),
        "kind": rng.u32(0..6),
        "startTimeUnixNano": time(rng),
        "endTimeUnixNano": time(rng),
        "attributes": map(rng),
        "traceState": if rng.bool() { "a=1,b=2" } else { "" },
        "flags": rng.u32(0..512),
    });
    if rng.bool() {
        span["traceId"] = json!(format!("{:032x}", rng.u128(1..)));
        span["spanId"] = json!(format!("{:016x}", rng.u64(1..)));
        span["status"] = json!({"code": rng.u32(0..3), "message": text(rng)});
        span["events"] = json!([{"name": text(rng)}, {"attributes": map(rng)}]);
        span["links"] = json!([{"traceId": format!("{:032x}", rng.u128(1..)), "attributes": map(rng)}]);
    }
    span
}

fn log(rng: &mut Rng) -> Value {
    let mut log = json!({
        "timeUnixNano": time(rng),
        "severityNumber": rng.u32(0..25),
        "severityText": text(rng),
        "attributes": map(rng),
    });
    if rng.u8(0..8) > 0 {
        log["body"] = any(rng, 3);
    }
    log
}

fn metric(rng: &mut Rng) -> Value {
    let points = json!([{"asDouble": double(rng), "attributes": map(rng)}, {"asInt": int(rng).to_string()}]);
    let data = match rng.u8(0..3) {
        0 => json!({"gauge": {"dataPoints": points}}),
        1 => json!({"sum": {"dataPoints": points, "aggregationTemporality": rng.u32(0..3), "isMonotonic": rng.bool()}}),
        _ => json!({"histogram": {"dataPoints": [distribution(rng, "histogram")], "aggregationTemporality": 2}}),
    };
    let mut metric = json!({"name": text(rng), "unit": text(rng), "description": text(rng), "metadata": map(rng)});
    metric.as_object_mut().unwrap().extend(data.as_object().cloned().unwrap());
    metric
}

fn distribution(rng: &mut Rng, kind: &str) -> Value {
    let mut point = json!({"count": "6", "sum": double(rng), "timeUnixNano": time(rng), "attributes": map(rng)});
    match kind {
        "histogram" => {
            point["bucketCounts"] = json!(["1", "2", "3"]);
            point["explicitBounds"] = json!([0.5, 1]);
        }
        "exponentialHistogram" => {
            point["scale"] = json!(rng.i32(-2..3));
            point["zeroCount"] = json!("1");
            point["positive"] = json!({"offset": rng.i32(-3..3), "bucketCounts": ["1", "300"]});
        }
        _ => point["quantileValues"] = json!([{"quantile": 0.5, "value": double(rng)}, {"quantile": 1, "value": 3}]),
    }
    point
}

fn time(rng: &mut Rng) -> String {
    if rng.u8(0..4) == 0 {
        "0".to_owned()
    } else {
        rng.u64(1_600_000_000_000_000_000..1_700_000_000_000_000_000).to_string()
    }
}

fn text(rng: &mut Rng) -> &'static str {
    TEXTS[rng.usize(..TEXTS.len())]
}

fn int(rng: &mut Rng) -> i64 {
    const INTS: [i64; 8] = [0, 1, -1, 5, 42, 1_500_000_000, i64::MAX, i64::MIN];
    INTS[rng.usize(..INTS.len())]
}

fn double(rng: &mut Rng) -> f64 {
    const DOUBLES: [f64; 8] = [0.0, 1.0, -2.5, 0.1, 1e-7, 123_456_789.125, 1e6, 7e15];
    DOUBLES[rng.usize(..DOUBLES.len())]
}

/// Attributes; most have a value of the type their key stands for, some have another one.
fn map(rng: &mut Rng) -> Value {
    let mut map = Map::new();
    for key in KEYS {
        let value = match (rng.u8(0..8), key) {
            (0, _) => continue,
            (1, _) => any(rng, 2),
            (_, "s") => json!(text(rng)),
            (_, "i") => json!(int(rng)),
            (_, "d") => json!(double(rng)),
            (_, "b") => json!(rng.bool()),
            (_, "l") => list(rng, 2),
            (_, "m") => nested(rng, 2),
            (_, "y") => bytes(rng),
            _ => any(rng, 2),
        };
        map.insert(key.to_owned(), value);
    }
    Value::Object(map)
}

fn any(rng: &mut Rng, depth: u32) -> Value {
    match rng.u8(0..if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => json!(int(rng)),
        3 => json!(double(rng)),
        4 => bytes(rng),
        5 | 6 => json!(text(rng)),
        7 => list(rng, depth - 1),
        _ => nested(rng, depth - 1),
    }
}

fn bytes(rng: &mut Rng) -> Value {
    let choices = ["", "AP8=", "AQIDBAUGBwg=", "AQIDBAUGBwgJCgsMDQ4PEA==", "YWJj"];
    json!({"$bytes": choices[rng.usize(..choices.len())]})
}

fn list(rng: &mut Rng, depth: u32) -> Value {
    let length = rng.usize(0..4);
    // Lists of one type are more usual than mixed ones, and the only ones some functions take.
    match rng.u8(0..3) {
        0 => (0..length).map(|_| json!(text(rng))).collect(),
        1 => (0..length).map(|_| json!(int(rng))).collect(),
        _ => (0..length).map(|_| any(rng, depth)).collect(),
    }
}

fn nested(rng: &mut Rng, depth: u32) -> Value {
    let keys = ["k", "deep", "x", "s"];
    let chosen = keys.into_iter().filter(|_| rng.bool()).collect::<Vec<_>>();
    chosen.into_iter().map(|key| (key.to_owned(), any(rng, depth))).collect()
}
