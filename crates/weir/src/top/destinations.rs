//! `weir top --destinations`: how each backend stands, how soon it answered lately, for how long it has been sent the
//! credentials that it is sent, and its answers by code.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Room, columns, heading, rows_and_words, words};
use crate::ask::{moment, number, sum};
use crate::tables::{age, bytes, cut, legible, time, whole_seconds};

const HEAD: [&str; 12] = [
    "pipeline",
    "backend",
    "for",
    "pending",
    "waiting",
    "on disk",
    "taken",
    "at once",
    "half in",
    "99% in",
    "credentials",
    "answers",
];

pub(super) fn json(page: &Value) -> Value {
    sick_first(page).into_iter().map(as_json).collect()
}

/// As many as there is room for, with the words of backends beneath.
pub(super) fn text(out: &mut Vec<u8>, page: &Value, room: Room) -> io::Result<()> {
    writeln!(out, "{}", cut(heading(page), columns(room)))?;
    let now_ms = unix_ms(&page["at"]).unwrap_or_default();
    let lines = sick_first(page);
    let rows: Vec<_> = lines.iter().map(|of| row(of, now_ms)).collect();
    let said = lines.iter().filter_map(|of| Some(format!("{}: {}", words(&of["pipeline"]), said(of)?)));
    rows_and_words(out, HEAD, &rows, said, room)
}

fn sick_first(page: &Value) -> Vec<&Value> {
    let mut lines: Vec<_> = page["pipelines"].as_array().into_iter().flatten().collect();
    lines.sort_by_key(|of| of["backend"]["state"] == "ok");
    lines
}

fn as_json(of: &Value) -> Value {
    let (backend, lately) = (&of["backend"], &of["latency_lately"]);
    json!({
        "pipeline": of["pipeline"], "backend": backend["state"], "lasts_seconds": backend["lasts_seconds"],
        "message": said(of), "pending": of["books"]["pending"], "pending_bytes": of["pending_bytes"],
        "backlog_bytes": of["backlog"]["bytes"], "last_taken_at": of["last_taken_at"],
        "in_flight": of["in_flight"], "concurrency_limit": of["concurrency_limit"],
        "retries_left": of["retry_budget"]["left"], "is_probing": of["is_probing"],
        "next_probe_seconds": of["next_probe_seconds"],
        "answers_lately": lately["requests"], "p50_lately_seconds": quantile(lately, 0.5),
        "p99_lately_seconds": quantile(lately, 0.99), "credentials": of["credentials"], "codes": of["codes"],
    })
}

fn row(of: &Value, now_ms: u64) -> [String; 12] {
    let (backend, backlog, lately) = (&of["backend"], &of["backlog"], &of["latency_lately"]);
    let taken = unix_ms(&of["last_taken_at"]);
    [
        words(&of["pipeline"]),
        words(&backend["state"]),
        time(backend["lasts_seconds"].as_f64().map_or(0, whole_seconds)),
        number(&of["books"]["pending"]).to_string(),
        bytes(number(&of["pending_bytes"])),
        if backlog.is_null() { "-".to_owned() } else { bytes(number(&backlog["bytes"])) },
        age(taken, now_ms),
        format!("{}/{}", number(&of["in_flight"]), number(&of["concurrency_limit"])),
        within(lately, 0.5),
        within(lately, 0.99),
        age(unix_ms(&of["credentials"]["taken_up_at"]), now_ms),
        answers(&of["codes"]),
    ]
}

fn unix_ms(time: &Value) -> Option<u64> {
    u64::try_from(moment(time)?.as_millisecond()).ok()
}

/// The backend's words while it takes nothing, or those with which it last refused what is lost.
fn said(of: &Value) -> Option<String> {
    let backend = &of["backend"];
    let [code, message, refusal] =
        ["code", "message", "last_refusal"].map(|field| legible(backend[field].as_str().unwrap_or_default()));
    let now = match message.as_str() {
        "" => code,
        said if said.starts_with(code.as_str()) => message,
        said => format!("{code}: {said}"),
    };
    let before = if sum(&of["books"]["rejected"]) > 0 { refusal } else { String::new() };
    [now, before].into_iter().find(|words| !words.is_empty())
}

/// The time in seconds within which a part of the answers came: the upper bound of its bucket, which the last one has not.
/// `None` if there were no answers.
fn quantile(latency: &Value, part: f64) -> Option<f64> {
    let requests = number(&latency["requests"]);
    let mut left = requests as f64 * part;
    for bucket in latency["buckets"].as_array().filter(|_| requests > 0)? {
        left -= number(&bucket[1]) as f64;
        if left <= 0.0 {
            return bucket[0].as_f64().or(Some(f64::INFINITY));
        }
    }
    Some(f64::INFINITY)
}

fn within(latency: &Value, part: f64) -> String {
    match quantile(latency, part) {
        None => "-".to_owned(),
        Some(seconds) if seconds.is_infinite() => ">30s".to_owned(),
        Some(seconds) if seconds < 1.0 => format!("{}ms", (seconds * 10_000.0).round() / 10.0),
        Some(seconds) => format!("{seconds}s"),
    }
}

/// Each code with the number of its requests.
fn answers(codes: &Value) -> String {
    let name = |code: &str| if code == "none" { "no answer".to_owned() } else { legible(code) };
    let codes = codes.as_object().into_iter().flatten();
    let each: Vec<_> = codes.map(|(code, requests)| format!("{} {}", name(code), number(requests))).collect();
    if each.is_empty() { "-".to_owned() } else { each.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_answer_comes_first_with_its_words() {
        let pipeline = |name: &str, state: &str, message: &str, lately: Value, codes: Value| {
            let credentials =
                if state == "ok" { json!({"taken_up_at": "1970-01-01T00:00:39.500Z"}) } else { Value::Null };
            json!({"pipeline": name, "credentials": credentials, "pending_bytes": 2048, "in_flight": 1, "concurrency_limit": 64,
                "last_taken_at": "1970-01-01T00:01:35Z", "books": {"pending": 7}, "backlog": null,
                "backend": {"state": state, "lasts_seconds": 61.5, "code": "", "message": message},
                "latency_lately": lately, "codes": codes})
        };
        let lately = json!({"requests": 100, "buckets": [[0.001, 0], [0.0025, 60], [5.0, 39], [null, 1]]});
        let none = json!({"requests": 0, "buckets": [[0.001, 0], [null, 0]]});
        let page = json!({"version": "1", "uptime_seconds": 3.0, "health": "ready", "connections": 1, "at": "1970-01-01T00:01:40.500Z",
        "memory": {"total_bytes": 1024, "parts": [{"used_bytes": 512}]}, "journal": {"disk_bytes": 0}, "pipelines": [
            pipeline("traces/a", "ok", "", lately.clone(), json!({"200": 99, "503": 1})),
            pipeline("traces/b", "unreachable", "refused\u{1b}", none, json!({"none": 3})),
        ]});
        let mut out = Vec::new();
        text(&mut out, &page, Room::ENDLESS).unwrap();
        let expected = "\
weir 1, up 3s, ready: 512 B of 1.0 KiB memory in use, 0 B on the disk, 1 clients

PIPELINE      BACKEND    FOR  PENDING  WAITING  ON DISK  TAKEN  AT ONCE  HALF IN  99% IN  CREDENTIALS        ANSWERS
traces/b  unreachable  1m01s        7  2.0 KiB        -     5s     1/64        -       -            -    no answer 3
traces/a           ok  1m01s        7  2.0 KiB        -     5s     1/64    2.5ms      5s        1m01s  200 99, 503 1

traces/b: refused\u{20}
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(within(&lately, 1.0), ">30s");
        let rows = json(&page);
        assert_eq!((&rows[0]["p99_lately_seconds"], &rows[1]["p99_lately_seconds"]), (&Value::Null, &json!(5.0)));
    }
}
