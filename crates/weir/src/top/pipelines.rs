//! The pipelines of a process with their rates, and what is wrong with them.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Room, columns, heading, rows_and_words, words};
use crate::ask::{number, sum};
use crate::before_books;
use crate::health::not_set_up;
use crate::tables::{bytes, cut, legible, rate, time, whole_seconds};

const HEAD: [&str; 11] =
    ["pipeline", "state", "in/s", "in B/s", "out/s", "out B/s", "filtered/s", "lost", "pending", "waiting", "oldest"];

/// What was counted of each pipeline at a time.
pub(super) struct Sums {
    at: Instant,
    /// Accepted, delivered, filtered items; accepted and delivered bytes.
    of: HashMap<String, [u64; 5]>,
}

impl Sums {
    pub(super) fn of(page: &Value) -> Self {
        let all = page["pipelines"].as_array().into_iter().flatten().map(|pipeline| {
            let books = &pipeline["books"];
            let items = [number(&books["accepted"]), number(&books["delivered"]), sum(&books["filtered"])];
            let bytes = ["accepted_bytes", "delivered_bytes"].map(|field| number(&pipeline[field]));
            let ([accepted, delivered, filtered], [bytes_in, bytes_out]) = (items, bytes);
            (words(&pipeline["pipeline"]), [accepted, delivered, filtered, bytes_in, bytes_out])
        });
        Self { at: Instant::now(), of: all.collect() }
    }
}

/// A pipeline.
pub(super) struct Line {
    pipeline: String,
    state: String,
    /// What the backend did last.
    backend: String,
    message: Option<String>,
    /// Why it cannot be set up as it is configured.
    setup_error: Option<String>,
    /// Accepted, delivered and filtered items a second.
    rates: [f64; 3],
    /// Accepted and delivered bytes a second, before compression.
    byte_rates: [u64; 2],
    lost: u64,
    pending: u64,
    pending_bytes: u64,
    oldest_seconds: u64,
}

impl Line {
    pub(super) fn as_json(&self) -> Value {
        let Self { pipeline, state, backend, message, setup_error, rates, byte_rates, .. } = self;
        let Self { lost, pending, pending_bytes, oldest_seconds, .. } = self;
        let [bytes_in, bytes_out] = byte_rates;
        let [accepted, delivered, filtered] = rates.map(|rate| (rate * 10.0).round() / 10.0);
        json!({
            "pipeline": pipeline, "state": state, "backend": backend, "message": message, "setup_error": setup_error,
            "accepted_per_second": accepted, "delivered_per_second": delivered, "filtered_per_second": filtered,
            "accepted_bytes_per_second": bytes_in, "delivered_bytes_per_second": bytes_out, "lost": lost, "pending": pending,
            "pending_bytes": pending_bytes, "oldest_seconds": oldest_seconds,
        })
    }

    /// A trouble is told when it has lasted for some seconds. Until then the backend's last answer says that something waits.
    fn waits(&self) -> bool {
        self.backend != "ok" && self.pending > 0
    }

    fn is_well(&self) -> bool {
        self.state == "healthy" && !self.waits() && self.setup_error.is_none()
    }

    fn word(&self) -> String {
        let is_new = self.state == "healthy" && self.waits();
        match self.backend.as_str() {
            _ if self.setup_error.is_some() => "cannot be set up".to_owned(),
            _ if !is_new => self.state.clone(),
            "unsent" => "requests fail here".to_owned(),
            backend => format!("backend {backend}"),
        }
    }

    fn row(&self) -> [String; 11] {
        let Self { pipeline, rates: [accepted, delivered, filtered], lost, .. } = self;
        let [bytes_in, bytes_out] = self.byte_rates.map(|rate| if rate == 0 { "-".to_owned() } else { bytes(rate) });
        let rate = |rate: &f64| if *rate == 0.0 { "-".to_owned() } else { format!("{rate:.0}") };
        let age = if self.pending == 0 { "-".to_owned() } else { time(self.oldest_seconds) };
        let [accepted, delivered, filtered] = [accepted, delivered, filtered].map(rate);
        let (pending, size) = (self.pending.to_string(), bytes(self.pending_bytes));
        let lost = lost.to_string();
        [pipeline.clone(), self.word(), accepted, bytes_in, delivered, bytes_out, filtered, lost, pending, size, age]
    }
}

/// All pipelines; what is not well stands first.
pub(super) fn lines(page: &Value, health: &Value, before: &Sums, now: &Sums) -> Vec<Line> {
    let since = now.at.duration_since(before.at).max(Duration::from_millis(1));
    let (seconds, millis) = (since.as_secs_f64(), u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    let verdicts = health.as_array().into_iter().flatten();
    let verdicts: HashMap<&str, &Value> = verdicts.filter_map(|of| Some((of["pipeline"].as_str()?, of))).collect();
    let line = |pipeline: &Value| {
        let (name, books) = (words(&pipeline["pipeline"]), &pipeline["books"]);
        let sums = now.of.get(&name).copied().unwrap_or_default();
        let old = before.of.get(&name).copied().unwrap_or(sums);
        let grown = |of: usize| sums[of].saturating_sub(old[of]);
        let rate = |of| grown(of) as f64 / seconds;
        let verdict = verdicts.get(name.as_str());
        let setup_error = pipeline["setup_error"].as_str();
        let message = verdict.and_then(|of| of["message"].as_str()).map(str::to_owned);
        Line {
            state: verdict.map_or_else(|| "-".to_owned(), |of| words(&of["state"])),
            backend: words(&pipeline["backend"]["state"]),
            message: message.or_else(|| setup_error.map(not_set_up)),
            setup_error: setup_error.map(str::to_owned),
            rates: [0, 1, 2].map(rate),
            byte_rates: [3, 4].map(|of| grown(of).saturating_mul(1000) / millis),
            lost: sum(&books["dropped"]).saturating_add(sum(&books["rejected"])),
            pending: number(&books["pending"]),
            pending_bytes: number(&pipeline["pending_bytes"]),
            oldest_seconds: pipeline["oldest_seconds"].as_f64().map_or(0, whole_seconds),
            pipeline: name,
        }
    };
    let mut lines: Vec<_> = page["pipelines"].as_array().into_iter().flatten().map(line).collect();
    lines.sort_by_key(Line::is_well);
    lines
}

/// What pipelines lose now, and why.
fn losing(past: &Value) -> impl Iterator<Item = String> {
    past["losses"].as_array().into_iter().flatten().filter_map(|loss| {
        let now = loss["items_per_second"].as_f64().filter(|now| *now > 0.0)?;
        let [pipeline, way, reason] = ["pipeline", "way", "reason"].map(|field| words(&loss[field]));
        Some(format!("{pipeline}: {} items a second are {way} now: {reason}", rate(now)))
    })
}

/// The lines, with what is wrong beneath, what is lost now, and what was lost that is in none of them. `past`: how fast
/// losses grow.
pub(super) fn text(out: &mut Vec<u8>, page: &Value, lines: &[Line], past: &Value, room: Room) -> io::Result<()> {
    writeln!(out, "{}", cut(heading(page), columns(room)))?;
    let error = page["configuration"]["error"].as_str();
    let error = error.map(|error| format!("The newest configuration is not used: {}", legible(error)));
    let wrong = lines.iter().filter_map(|line| Some(format!("{}: {}", line.pipeline, legible(line.message.as_ref()?))));
    let lost_before = before_books::words(page, past).map(|words| legible(&words));
    let rows: Vec<_> = lines.iter().map(Line::row).collect();
    rows_and_words(out, HEAD, &rows, error.into_iter().chain(wrong).chain(losing(past)).chain(lost_before), room)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(accepted: u64, delivered: u64) -> Value {
        let pipeline = |name: &str, pending: u64| {
            let backend = if name == "traces/c" { "refused" } else { "ok" };
            json!({"pipeline": name, "accepted_bytes": 1024 * accepted, "delivered_bytes": 100 * delivered, "pending_bytes": 2048, "oldest_seconds": 61.2, "backend": {"state": backend}, "books": {
                "accepted": accepted, "delivered": delivered, "filtered": {"filter": 5}, "dropped": {"overflow": 2},
                "rejected": {"400": 1}, "pending": pending}})
        };
        json!({"version": "1", "uptime_seconds": 3.0, "health": "ready", "connections": 1,
            "memory": {"total_bytes": 1024, "parts": [{"used_bytes": 512}]}, "journal": {"disk_bytes": 0},
            "configuration": {"error": null}, "pipelines": [pipeline("traces/a", 0), pipeline("traces/b", 7), pipeline("traces/c", 7)]})
    }

    #[test]
    fn what_is_wrong_comes_first_and_is_explained() {
        let health = json!([{"pipeline": "traces/a", "state": "healthy"}, {"pipeline": "traces/c", "state": "healthy"},
            {"pipeline": "traces/b", "state": "nothing_delivered", "message": "Nothing was delivered."}]);
        let before = Sums::of(&page(0, 0));
        let now = Sums { at: before.at + Duration::from_secs(2), of: Sums::of(&page(200, 100)).of };
        let mut out = Vec::new();
        let past = json!({"losses": [
            {"pipeline": "traces/c", "way": "dropped", "reason": "overflow", "items_per_second": 0.4},
            {"pipeline": "traces/c", "way": "rejected", "reason": "400", "items_per_second": 0.0}]});
        let lines = lines(&page(200, 100), &health, &before, &now);
        text(&mut out, &page(200, 100), &lines, &past, Room::ENDLESS).unwrap();
        let expected = "\
weir 1, up 3s, ready: 512 B of 1.0 KiB memory in use, 0 B on the disk, 1 clients

PIPELINE              STATE  IN/S     IN B/S  OUT/S  OUT B/S  FILTERED/S  LOST  PENDING  WAITING  OLDEST
traces/b  nothing_delivered   100  100.0 KiB     50  4.9 KiB           -     3        7  2.0 KiB   1m01s
traces/c    backend refused   100  100.0 KiB     50  4.9 KiB           -     3        7  2.0 KiB   1m01s
traces/a            healthy   100  100.0 KiB     50  4.9 KiB           -     3        0  2.0 KiB       -

traces/b: Nothing was delivered.

traces/c: 0.4 items a second are dropped now: overflow
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    /// Data of one that cannot be set up may flow all the same, with what it had before.
    #[test]
    fn what_cannot_be_set_up_is_not_well() {
        let mut page = page(1, 1);
        page["pipelines"][0]["setup_error"] = json!("no such function");
        let health = json!([{"pipeline": "traces/a", "state": "healthy"}]);
        let sums = Sums::of(&page);
        let lines = lines(&page, &health, &sums, &sums);
        let line = lines.iter().find(|line| line.pipeline == "traces/a").unwrap();
        assert_eq!((line.word().as_str(), line.is_well()), ("cannot be set up", false));
        assert!(line.message.as_ref().unwrap().contains("no such function"), "{:?}", line.message);
        assert_eq!(line.as_json()["setup_error"], "no such function");
    }

    /// Nothing scrolls out of a small terminal.
    #[test]
    fn there_are_no_more_rows_than_a_terminal_has() {
        let pipeline = |number: usize| json!({"pipeline": format!("traces/{number}"), "books": {}});
        let verdict = |number: usize| {
            json!({"pipeline": format!("traces/{number}"), "state": "nothing_delivered",
            "message": "Nothing was delivered. ".repeat(20)})
        };
        for (pipelines, rows, columns) in [(3, 24, 80), (50, 24, 80), (2, 8, 40), (1, 60, 200), (30, 10, 100)] {
            let mut page = page(1, 1);
            page["pipelines"] = (0..pipelines).map(pipeline).collect();
            let health = (0..pipelines).map(verdict).collect();
            let sums = Sums::of(&page);
            let mut out = Vec::new();
            let lines = lines(&page, &health, &sums, &sums);
            text(&mut out, &page, &lines, &Value::Null, Room { rows, columns }).unwrap();
            let out = String::from_utf8(out).unwrap();
            let taken: usize = out.lines().map(|line| line.chars().count().div_ceil(columns).max(1)).sum();
            assert!(taken < rows, "{taken} of {rows} rows:\n{out}");
        }
    }
}
