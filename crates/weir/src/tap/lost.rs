//! `weir tap PIPELINE --lost`: samples of what backends refused for good and of what was given up, an item a line.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::{iter, mem, slice};

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use weir_loadtest::output::is_read;

use super::{Format, Line, TapArgs, summary, words};
use crate::ask::{Admin, moment, number};
use crate::tables::{count, cut, legible_json};

/// Where samples of what was lost are, and the way that it has gone.
const LOST: [(&str, &str); 2] = [("/rejected", "rejected"), ("/dropped", "dropped")];

/// Where the items of a request are.
const ITEMS: [&[&str]; 7] = [
    &["resourceSpans", "scopeSpans", "spans"],
    &["resourceLogs", "scopeLogs", "logRecords"],
    &["resourceMetrics", "scopeMetrics", "metrics", "gauge", "dataPoints"],
    &["resourceMetrics", "scopeMetrics", "metrics", "sum", "dataPoints"],
    &["resourceMetrics", "scopeMetrics", "metrics", "histogram", "dataPoints"],
    &["resourceMetrics", "scopeMetrics", "metrics", "exponentialHistogram", "dataPoints"],
    &["resourceMetrics", "scopeMetrics", "metrics", "summary", "dataPoints"],
];

/// Samples of what was lost of this pipeline, or of those that a tap of this name looks at, each with its `way`.
///
/// # Errors
/// When the admin port does not answer.
pub(crate) fn samples(admin: &Admin, pipeline: &str) -> anyhow::Result<Vec<Value>> {
    let mut lost = Vec::new();
    for (path, way) in LOST {
        let Value::Array(samples) = admin.get(path)? else { continue };
        for mut sample in samples.into_iter().filter(|sample| is_asked_for(sample, pipeline)) {
            sample["way"] = json!(way);
            lost.push(sample);
        }
    }
    Ok(lost)
}

/// Whether it is of this pipeline, or of one of those that a tap of this name looks at: `traces/*`, or `*`.
pub(crate) fn is_asked_for(of: &Value, pipeline: &str) -> bool {
    let Some(name) = of["pipeline"].as_str() else { return false };
    match pipeline.strip_suffix('*') {
        Some("") => true,
        Some(all_of) if all_of.ends_with('/') => name.starts_with(all_of),
        _ => name == pipeline,
    }
}

/// Shows their items, the oldest first, and ends.
pub(super) fn show(admin: &Admin, args: &TapArgs) -> anyhow::Result<ExitCode> {
    let mut samples = samples(admin, &args.pipeline)?;
    if samples.is_empty() {
        return nothing(admin, &args.pipeline);
    }
    // The pages have the newest first.
    samples.reverse();
    samples.sort_by_key(|sample| moment(&sample["at"]));
    let (first, mut left_out) = beginning(admin, args, &samples);
    let columns = args.columns();
    let (mut shown, mut unread) = (0_usize, 0_usize);
    for sample in samples.iter().skip(first) {
        let request = request(admin, args, sample);
        unread += usize::from(request.is_err());
        for line in lines(args.format, sample, &request).skip(mem::take(&mut left_out)) {
            if !is_read(writeln!(io::stdout(), "{}", cut(line, columns)))? {
                return Ok(ExitCode::SUCCESS);
            }
            shown += 1;
        }
    }
    match args.format {
        Format::Text => say(format_args!(
            "{} shown, of {}; `weir why` counts all that was lost",
            count(shown, "item"),
            count(samples.len(), "sample")
        )),
        Format::Json if unread > 0 => say(format_args!(
            "{} not shown: only the beginning is kept, or it cannot be read; without --format json there is a line of each",
            count(unread, "request")
        )),
        Format::Json => Ok(()),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn say(words: impl Display) -> anyhow::Result<()> {
    writeln!(io::stderr(), "{words}").context("cannot write to standard error")
}

/// There is no sample; perhaps because there is no such pipeline.
fn nothing(admin: &Admin, pipeline: &str) -> anyhow::Result<ExitCode> {
    let now = admin.get("/api/now")?;
    if !now["pipelines"].as_array().into_iter().flatten().any(|of| is_asked_for(of, pipeline)) {
        bail!("there is no pipeline {pipeline:?}: `weir why` has all that there are");
    }
    say("there is no sample of anything that was lost; `weir why` counts all that was")?;
    Ok(ExitCode::SUCCESS)
}

/// At which sample the last `-n` items begin, and how many of that one are not among them. Requests are read once more for
/// that, so that there is one at a time in memory.
fn beginning(admin: &Admin, args: &TapArgs, samples: &[Value]) -> (usize, usize) {
    let Some(most) = args.n.and_then(|n| usize::try_from(n).ok()) else { return (0, 0) };
    let mut found = 0;
    for (at, sample) in samples.iter().enumerate().rev() {
        found += match (request(admin, args, sample), args.format) {
            (Ok(request), _) => number_of_items(&request),
            (Err(_), Format::Text) => 1,
            (Err(_), Format::Json) => 0,
        };
        if found >= most {
            return (at, found - most);
        }
    }
    (0, 0)
}

/// The request of a sample as OTLP/JSON, or why there is none.
fn request(admin: &Admin, args: &TapArgs, sample: &Value) -> Result<Value, String> {
    if sample["truncated"] == true {
        return Err("only its beginning is kept".to_owned());
    }
    let ask = json!({"signal": sample["signal"], "otlp": sample["otlp"], "redact": !args.no_redact});
    match admin.post("/api/sample", &ask) {
        Ok(mut answer) if number_of_items(&answer["sample"]) > 0 => Ok(answer["sample"].take()),
        Ok(_) => Err("no item of it is kept".to_owned()),
        Err(error) => Err(format!("it cannot be read: {error:#}")),
    }
}

/// A line for each item of a sample.
fn lines<'a>(
    format: Format,
    sample: &'a Value,
    request: &'a Result<Value, String>,
) -> Box<dyn Iterator<Item = String> + 'a> {
    let items = number(&sample["items"]);
    match (request, format) {
        (Ok(request), Format::Text) => {
            let known = u64::try_from(number_of_items(request)).unwrap_or(u64::MAX);
            // Of what was given up on the disk, a sample has the first item alone.
            let among = if items > known { format!(", among {}", count(items, "item")) } else { String::new() };
            Box::new(taken_apart(request).map(move |item| line(sample, &among, summary(&item))))
        }
        (Ok(request), Format::Json) => Box::new(taken_apart(request).map(|item| legible_json(&item.to_string()))),
        (Err(why), Format::Text) => {
            let what = format!("a request of {}: {why}", count(items, "item"));
            Box::new(iter::once(line(sample, "", what)))
        }
        (Err(_), Format::Json) => Box::new(iter::empty()),
    }
}

/// When an item was lost, of which pipeline, how and why, and what it is.
fn line(sample: &Value, among: &str, what: String) -> String {
    let [pipeline, way, code] = ["pipeline", "way", "code"].map(|field| words(&sample[field]));
    let message = sample["message"].as_str().filter(|message| !message.is_empty());
    let message = message.map_or_else(String::new, |message| format!(" ({message})"));
    let by = format!(" for {code}{message}{among}");
    Line { at: moment(&sample["at"]), pipeline, way, way_at: None, by, note: "", what }.to_string()
}

/// Each item of a request as a request of its own, one after another: each may have as much around it as all of them have.
fn taken_apart(request: &Value) -> impl Iterator<Item = Value> + '_ {
    ITEMS.iter().flat_map(move |path| each(request, path))
}

fn each<'a>(of: &'a Value, path: &'static [&'static str]) -> Box<dyn Iterator<Item = Value> + 'a> {
    let [field, rest @ ..] = path else { return Box::new(iter::once(of.clone())) };
    let inner = &of[*field];
    let around: Map<String, Value> = of
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| name != field)
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    Box::new(parts(inner).iter().flat_map(move |part| each(part, rest)).map(move |one| {
        let one = if inner.is_array() { Value::Array(vec![one]) } else { one };
        let mut whole = around.clone();
        whole.insert((*field).to_owned(), one);
        Value::Object(whole)
    }))
}

fn number_of_items(request: &Value) -> usize {
    fn number(of: &Value, path: &[&str]) -> usize {
        let [field, rest @ ..] = path else { return 1 };
        parts(&of[*field]).iter().map(|part| number(part, rest)).sum()
    }
    ITEMS.iter().map(|path| number(request, path)).sum()
}

/// The elements of a list, or the one thing that is there instead.
fn parts(of: &Value) -> &[Value] {
    match of {
        Value::Array(all) => all,
        Value::Object(_) => slice::from_ref(of),
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans() -> Value {
        let scope = |names: &[&str]| {
            let spans: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"scope": {"name": "s"}, "spans": spans})
        };
        json!({"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope(&["a", "b"]), scope(&["c"])]}]})
    }

    #[test]
    fn a_request_is_taken_apart_into_items_with_all_that_is_around_them() {
        let requests: Vec<_> = taken_apart(&spans()).collect();
        assert_eq!((requests.len(), number_of_items(&spans())), (3, 3));
        let last = json!({"resourceSpans": [{"resource": {"attributes": []},
            "scopeSpans": [{"scope": {"name": "s"}, "spans": [{"name": "c"}]}]}]});
        assert_eq!(requests[2], last);
        let points = |kind: &str| json!({"name": kind, kind: {"dataPoints": [{"asInt": "1"}, {"asInt": "2"}]}});
        let metrics = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [points("sum"), {"name": "none"}, points("gauge")]}]}]});
        let values: Vec<_> = taken_apart(&metrics).map(|one| summary(&one)).collect();
        let expected =
            ["gauge gauge asInt=1  | ", "gauge gauge asInt=2  | ", "sum sum asInt=1  | ", "sum sum asInt=2  | "];
        assert_eq!((values, number_of_items(&metrics)), (expected.map(str::to_owned).to_vec(), 4));
        for nothing in
            [json!(null), json!({}), json!({"resourceSpans": 1}), json!({"resourceLogs": [1, {"scopeLogs": [{}]}]})]
        {
            assert_eq!((taken_apart(&nothing).count(), number_of_items(&nothing)), (0, 0), "{nothing}");
        }
    }

    #[test]
    fn a_line_says_when_how_and_why_an_item_was_lost() {
        let sample = |items: u64, message: &str| {
            json!({"pipeline": "traces/a", "at": "1970-01-01T00:00:01.000Z", "way": "dropped",
            "code": "disk_full", "message": message, "items": items})
        };
        let begins = "1970-01-01 00:00:01.000 traces/a dropped for disk_full";
        let first = |sample: &Value, request| lines(Format::Text, sample, &request).next().unwrap();
        assert!(first(&sample(3, ""), Ok(spans())).starts_with(&format!("{begins}: span \"a\" ")));
        let among = first(&sample(12, "no\u{1b} space"), Ok(spans()));
        assert!(among.starts_with(&format!("{begins} (no  space), among 12 items: span \"a\" ")), "{among}");
        let cut = Err("only its beginning is kept".to_owned());
        assert_eq!(
            first(&sample(2, ""), cut.clone()),
            format!("{begins}: a request of 2 items: only its beginning is kept")
        );
        assert_eq!(lines(Format::Json, &sample(2, ""), &cut).count(), 0);
    }
}
