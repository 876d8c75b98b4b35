//! `weir why --hour`: the last hour of pipelines, in as many steps as there is room for, and when it was worst.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use weir_legible::rfc3339_seconds;
use weir_loadtest::output::printed;

use super::{Format, pipelines_of, waiting, wanted};
use crate::ask::{Admin, moment, number, wrong_port};
use crate::tables::{count, legible, legible_json, rate, rows_of_terminal, table, time};

const PATH: &str = "/api/history";
/// The process reads names as they are, but for the character between their parts.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

const HEAD: [&str; 5] = ["until", "in/s", "out/s", "lost", "pending"];
/// Columns of a point.
const ACCEPTED: usize = 0;
const DELIVERED: usize = 1;
const LOST: usize = 2;
const PENDING: usize = 3;

/// Rows of a pipeline where no terminal says how many have room.
const ROWS: usize = 12;
/// Rows of a pipeline in a small terminal, or beside many others, and in a large one.
const FEWEST_ROWS: usize = 6;
const MOST_ROWS: usize = 60;
/// Lines beside them: its sums, the head of the table, and what was worst.
const BESIDE_ROWS: usize = 9;
/// Seconds of a row, if the points are as long as that.
const STEPS: [u64; 8] = [1, 5, 10, 30, 60, 120, 300, 600];
/// So many seconds without a delivery are worth a line. Less is a batch that takes its time.
const STANDSTILL: u64 = 10;

/// Items that were accepted, delivered and lost between two points in time, and those that were pending at its end.
type Point = [u64; 4];

/// Shows the hour of one pipeline, or of all.
pub(super) fn show(admin: &Admin, pipeline: Option<&str>, format: Format) -> anyhow::Result<ExitCode> {
    let now = admin.get("/api/now")?;
    let all = pipelines_of("/api/now", &now)?;
    let query = |name: &str| format!("{PATH}?pipeline={}", utf8_percent_encode(name, NAME));
    let page = admin.get(&pipeline.map_or_else(|| PATH.to_owned(), query));
    // Who names none that there is wants to know which there are.
    let page = page.map_err(|error| wanted(pipeline, all).err().unwrap_or(error))?;
    let mut out = io::stdout().lock();
    if format == Format::Json {
        printed(writeln!(out, "{}", legible_json(&page.to_string())))?;
        return Ok(ExitCode::SUCCESS);
    }
    let hours = wanted(pipeline, pipelines_of(PATH, &page)?)?;
    let ends = moment(&page["ends_at"]).with_context(|| wrong_port(&format!("{PATH} does not say when it ends")))?;
    let ends = u64::try_from(ends.as_second()).unwrap_or_default();
    let rows = rows_of_terminal().map_or(ROWS, |rows| rows_of_each(rows, hours.len()));
    for of in hours {
        printed(tell(&mut out, &Hour::of(of, &page, ends), &now, rows))?;
    }
    if let left_out @ 1.. = number(&page["left_out"]) {
        printed(writeln!(out, "There is no room for the history of {}.", count(left_out, "more pipeline")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// So many that all pipelines can be seen at once, if they can.
fn rows_of_each(rows: usize, pipelines: usize) -> usize {
    (rows / pipelines.max(1)).saturating_sub(BESIDE_ROWS).clamp(FEWEST_ROWS, MOST_ROWS)
}

/// The last hour of a pipeline.
struct Hour<'a> {
    pipeline: &'a str,
    /// The oldest first.
    points: Vec<Point>,
    /// Seconds of a point.
    step: u64,
    /// When the newest ended, in seconds since the Unix epoch.
    ends: u64,
    losses: Vec<&'a Value>,
}

impl<'a> Hour<'a> {
    fn of(of: &'a Value, page: &'a Value, ends: u64) -> Self {
        let points = of["points"].as_array().into_iter().flatten();
        let point = |of: &Value| [ACCEPTED, DELIVERED, LOST, PENDING].map(|column| number(&of[column]));
        let losses = page["losses"].as_array().into_iter().flatten();
        Self {
            pipeline: of["pipeline"].as_str().unwrap_or("-"),
            points: points.map(point).collect(),
            step: number(&page["step_seconds"]).max(1),
            ends,
            losses: losses.filter(|loss| loss["pipeline"] == of["pipeline"]).collect(),
        }
    }

    /// When the last point but so many ended.
    fn until(&self, newer: usize) -> String {
        rfc3339_seconds(self.ends.saturating_sub(self.seconds(newer)))
    }

    /// How long so many points are.
    fn seconds(&self, points: usize) -> u64 {
        self.step.saturating_mul(points as u64)
    }

    fn rows(&self, most: usize) -> Vec<[String; 5]> {
        let each = self.points_of_a_row(most);
        // From the newest on: what is left for the oldest may be less.
        let newest_first = self.points.rchunks(each).enumerate();
        let rows: Vec<_> = newest_first.map(|(newer, of)| self.row(newer.saturating_mul(each), of)).collect();
        rows.into_iter().rev().collect()
    }

    fn points_of_a_row(&self, most: usize) -> usize {
        let mut each = STEPS.iter().map(|seconds| usize::try_from(seconds.div_ceil(self.step)).unwrap_or(usize::MAX));
        let fits = each.find(|each| self.points.len().div_ceil(*each) <= most);
        fits.unwrap_or_else(|| self.points.len().div_ceil(most))
    }

    fn row(&self, newer: usize, of: &[Point]) -> [String; 5] {
        let seconds = self.seconds(of.len());
        let pending = of.iter().map(|point| point[PENDING]).max().unwrap_or_default();
        [
            self.until(newer),
            per_second(sum(of, ACCEPTED), seconds),
            per_second(sum(of, DELIVERED), seconds),
            sum(of, LOST).to_string(),
            pending.to_string(),
        ]
    }

    /// The most of a column in one point, and when that ended first; `None` if there was nothing of it.
    fn most(&self, column: usize) -> Option<(u64, String)> {
        let newest_first = self.points.iter().rev().map(|point| point[column]).enumerate();
        let (newer, items) = newest_first.max_by_key(|(_, items)| *items).filter(|(_, items)| *items > 0)?;
        Some((items, self.until(newer)))
    }

    /// For how many seconds nothing was delivered while something was pending, at the longest, and until when.
    fn standstill(&self) -> Option<(u64, String)> {
        let (mut lasts, mut longest, mut end) = (0, 0, 0);
        for (point, number) in self.points.iter().zip(1..) {
            lasts = if point[DELIVERED] == 0 && point[PENDING] > 0 { lasts + 1 } else { 0 };
            if lasts > longest {
                (longest, end) = (lasts, number);
            }
        }
        let seconds = self.seconds(longest);
        (longest > 0 && seconds >= STANDSTILL).then(|| (seconds, self.until(self.points.len().saturating_sub(end))))
    }
}

fn sum(points: &[Point], column: usize) -> u64 {
    points.iter().fold(0, |sum, point| sum.saturating_add(point[column]))
}

/// Items a second in so many seconds.
fn per_second(items: u64, seconds: u64) -> String {
    if items == 0 { "-".to_owned() } else { rate(items as f64 / seconds.max(1) as f64) }
}

/// Sums, rows, and what was worst.
fn tell(out: &mut impl Write, hour: &Hour<'_>, now: &Value, rows: usize) -> io::Result<()> {
    let (points, name) = (&hour.points, legible(hour.pipeline));
    if points.is_empty() {
        return writeln!(out, "{name}: nothing is known yet");
    }
    let [came, went, lost] = [ACCEPTED, DELIVERED, LOST].map(|column| sum(points, column));
    let lasts = time(hour.seconds(points.len()));
    writeln!(out, "{name}: {came} items came in, {went} were delivered and {lost} lost in the last {lasts}")?;
    table(out, HEAD, hour.rows(rows).into_iter())?;
    let mut notes = Vec::new();
    worst(&mut notes, hour)?;
    let mut pipelines = now["pipelines"].as_array().into_iter().flatten();
    let now = pipelines.find(|of| of["pipeline"] == *hour.pipeline).map(waiting).unwrap_or_default();
    if !now.is_empty() {
        writeln!(notes, "  pending now: {now}")?;
    }
    if !notes.is_empty() {
        writeln!(out)?;
        out.write_all(&notes)?;
    }
    writeln!(out)
}

fn worst(out: &mut impl Write, hour: &Hour<'_>) -> io::Result<()> {
    if let Some((items, until)) = hour.most(LOST) {
        writeln!(out, "  most lost: {} in {} until {until}", count(items, "item"), time(hour.step))?;
    }
    if let Some((items, until)) = hour.most(PENDING) {
        writeln!(out, "  most pending: {} at {until}", count(items, "item"))?;
    }
    if let Some((seconds, until)) = hour.standstill() {
        writeln!(out, "  nothing was delivered for {} until {until}, while items were pending", time(seconds))?;
    }
    for loss in &hour.losses {
        let [way, reason, first, last] =
            ["way", "reason", "first_at", "last_at"].map(|field| legible(loss[field].as_str().unwrap_or("-")));
        let items = count(number(&loss["items"]), "item");
        writeln!(out, "  {way} since the start: {items}, {reason}, first at {first}, last at {last}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(points: Vec<Value>) -> Value {
        json!({"step_seconds": 1, "ends_at": "1970-01-01T01:00:00Z", "left_out": 0,
            "pipelines": [{"pipeline": "traces/a", "points": points}],
            "losses": [{"pipeline": "traces/a", "way": "dropped", "reason": "over\u{1b}flow", "items": 3,
                "first_at": "1970-01-01T00:59:00Z", "last_at": "1970-01-01T00:59:00Z"},
                {"pipeline": "traces/b", "way": "dropped", "reason": "expired", "items": 1}]})
    }

    fn told(page: &Value, now: &Value, rows: usize) -> String {
        let mut out = Vec::new();
        tell(&mut out, &Hour::of(&page["pipelines"][0], page, 3600), now, rows).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_hour_is_a_few_rows_and_what_was_worst() {
        // For 30 seconds there is no backend, and then three items are given up.
        let point = |second: u64| match second {
            3530..3560 => json!([10, 0, if second == 3539 { 3 } else { 0 }, 10 * (second - 3529)]),
            3560 => json!([10, 307, 0, 0]),
            _ => json!([10, 10, 0, 0]),
        };
        let page = page((0..3600).map(point).collect());
        let now = json!({"pipelines": [{"pipeline": "traces/a", "books": {"pending": 7}, "pending_bytes": 2048,
            "oldest_seconds": 61.0, "backlog": {"items": 3}}]});
        let expected = "\
traces/a: 36000 items came in, 35997 were delivered and 3 lost in the last 1h00m

UNTIL                 IN/S  OUT/S  LOST  PENDING
1970-01-01T00:10:00Z    10     10     0        0
1970-01-01T00:20:00Z    10     10     0        0
1970-01-01T00:30:00Z    10     10     0        0
1970-01-01T00:40:00Z    10     10     0        0
1970-01-01T00:50:00Z    10     10     0        0
1970-01-01T01:00:00Z    10   10.0     3      300

  most lost: 3 items in 1s until 1970-01-01T00:59:00Z
  most pending: 300 items at 1970-01-01T00:59:20Z
  nothing was delivered for 30s until 1970-01-01T00:59:20Z, while items were pending
  dropped since the start: 3 items, over flow, first at 1970-01-01T00:59:00Z, last at 1970-01-01T00:59:00Z
  pending now: 2.0 KiB, the oldest for 1m01s; 3 on the disk

";
        assert_eq!(told(&page, &now, 6), expected);
        assert_eq!(told(&page, &now, 59).lines().filter(|line| line.starts_with("1970")).count(), 30);
    }

    #[test]
    fn rows_are_as_many_as_have_room() {
        for points in [0, 1, 11, 12, 13, 59, 61, 700, 3599, 3600, 50_000] {
            for step in [1, 2, 8, 64, u64::MAX] {
                let hour = Hour { pipeline: "a", points: vec![[1; 4]; points], step, ends: 7, losses: Vec::new() };
                for most in [6, 12, 60] {
                    assert!(hour.rows(most).len() <= most, "{points} {step} {most}");
                }
            }
        }
        assert_eq!([rows_of_each(24, 1), rows_of_each(24, 50), rows_of_each(500, 1)], [15, 6, 60]);
    }

    #[test]
    fn whatever_is_answered_is_told() {
        for points in [json!(null), json!([]), json!("x")] {
            let mut page = page(Vec::new());
            page["pipelines"][0]["points"] = points;
            assert_eq!(told(&page, &json!(null), 12), "traces/a: nothing is known yet\n");
        }
        let mut page = page(vec![json!([u64::MAX, -1, "x"]), json!(null), json!([u64::MAX, 1, u64::MAX, u64::MAX])]);
        page["step_seconds"] = json!(u64::MAX);
        assert!(told(&page, &json!(null), 12).contains("most pending: 18446744073709551615 items"));
    }

    #[test]
    fn few_items_are_not_none() {
        let each = [0, 1, 30, 6_000].map(|items| per_second(items, 60));
        assert_eq!(each, ["-", "0.017", "0.5", "100"]);
    }
}
