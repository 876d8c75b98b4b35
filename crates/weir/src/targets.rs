//! `weir targets`: how targets are scraped, from the page of a running process; and the page of one of them.

mod page;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use weir_loadtest::output::printed;

use crate::ask::{AccessArgs, URL, wrong_port};
use crate::cli::Format;
use crate::tables::{bytes, count, legible, table, time, whole_seconds};

const EXAMPLES: &str = "\
Examples:
  weir targets                               how the process on this machine scrapes its targets
  weir targets http://127.0.0.1:55679 --format json | jq -r '.targets[] | select(.state == \"down\") | .error'
  weir targets --format json | jq -e 'all(.targets[]; .state == \"up\")'    fails when a target is not up
  weir targets --page :9100/                 what the target with this in its address answers now

URL is that of the admin port of `weir run`, which is on the loopback address unless --admin-listen says otherwise; use
`kubectl port-forward` for the one of a pod. SAMPLES are those of the last page, ADDED the series that the page before
did not have, and LOST the data points that pipelines have not taken since the start. With --page, the process fetches the
page as it does to scrape it, and notes in its log who looks; the exit code is 1 if a scrape of it would fail.";

/// Where the page is.
const PATH: &str = "/targets";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TargetsArgs {
    /// The admin port of a running process
    #[arg(default_value = URL)]
    url: String,
    /// Show the page of this target as it is now, its first 256 KiB: the address, or what no other has in it
    #[arg(long, value_name = "TARGET")]
    page: Option<String>,
    /// Show what looks like a secret on the page, too
    #[arg(long, requires = "page")]
    no_redact: bool,
    /// How it is shown
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
    #[command(flatten)]
    access: AccessArgs,
}

/// Runs the command.
pub(crate) fn run(args: &TargetsArgs) -> anyhow::Result<ExitCode> {
    let failed = || format!("cannot read the targets of {}", args.url);
    let admin = args.access.admin(args.url.trim_end_matches('/').trim_end_matches(PATH)).with_context(failed)?;
    let page = admin.get_bytes(PATH).with_context(failed)?;
    let found: Option<Value> = serde_json::from_slice(&page).ok().filter(|page: &Value| page["targets"].is_array());
    let found = found.with_context(|| wrong_port(&format!("{} shows no targets", args.url)))?;
    if let Some(wanted) = &args.page {
        return page::show(&admin, &found, (wanted, !args.no_redact), args.format);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    printed(match args.format {
        Format::Text => text(&mut out, &found),
        Format::Json => out.write_all(&page).and_then(|()| out.flush()),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(out: &mut impl Write, page: &Value) -> io::Result<()> {
    let list = |name: &str| page[name].as_array().cloned().unwrap_or_default();
    let (targets, dropped) = (list("targets"), list("dropped"));
    let of_state = |state: &str| targets.iter().filter(|target| target["state"] == state).count();
    let (up, down, waiting) = (of_state("up"), of_state("down"), of_state("waiting"));
    let not_scraped = dropped.len() as u64 + page["dropped_not_shown"].as_u64().unwrap_or_default();
    let all = count(targets.len() as u64, "target");
    writeln!(out, "{all}: {up} up, {down} down, {waiting} waiting; {not_scraped} more are not scraped")?;
    if !targets.is_empty() {
        let head = ["target", "job", "state", "samples", "added", "bytes", "took", "ago", "lost"];
        table(out, head, targets.iter().map(row))?;
    }
    let said = |target: &Value, what: &str| target[what].as_str().map(ToOwned::to_owned);
    for (what, title) in [("error", "Down:"), ("lost", "Lost:")] {
        let wrong: Vec<_> =
            targets.iter().filter_map(|target| Some((words(target, "url"), said(target, what)?))).collect();
        lines(out, title, wrong.into_iter())?;
    }
    let why = dropped.iter().map(|target| (words(target, "target"), words(target, "reason")));
    lines(out, "Not scraped:", why)?;
    let kubelet = page.get("kubelet").map(|kubelet| (words(kubelet, "url"), reached(kubelet)));
    lines(out, "Kubelet, for runtime metrics:", kubelet.into_iter())?;
    out.flush()
}

/// How the kubelet is reached.
fn reached(kubelet: &Value) -> String {
    let ago = |what: &str| time(whole_seconds(kubelet[what].as_f64().unwrap_or_default()));
    let (state, asked, since) = (words(kubelet, "state"), ago("seconds_ago"), ago("since_seconds"));
    let error = kubelet["error"].as_str().map_or_else(String::new, |error| format!(": {error}"));
    format!("{state} for {since}, asked {asked} ago{error}")
}

/// A heading and a line for each of those who have something to say.
fn lines(out: &mut impl Write, title: &str, all: impl Iterator<Item = (String, String)>) -> io::Result<()> {
    let mut all = all.peekable();
    if all.peek().is_some() {
        writeln!(out, "\n{title}")?;
    }
    all.try_for_each(|(who, why)| writeln!(out, "  {who}: {why}"))
}

fn row(target: &Value) -> [String; 9] {
    let number = |what: &str| target[what].as_u64();
    let shown = |what: &str| number(what).map_or_else(|| "-".to_owned(), |number| number.to_string());
    let seconds = |what: &str| target[what].as_f64();
    let took = seconds("took_seconds").map_or_else(|| "-".to_owned(), |seconds| format!("{:.0}ms", seconds * 1000.0));
    let ago = seconds("seconds_ago").map_or_else(|| "-".to_owned(), |ago| time(whole_seconds(ago)));
    [
        words(target, "url"),
        words(target, "job"),
        words(target, "state"),
        shown("samples"),
        shown("series_added"),
        number("bytes").map_or_else(|| "-".to_owned(), bytes),
        took,
        ago,
        shown("lost_data_points"),
    ]
}

fn words(of: &Value, what: &str) -> String {
    legible(of[what].as_str().unwrap_or("-"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_stands_beneath_the_table() {
        let up = json!({"job": "static", "url": "http://a/m", "state": "up", "samples": 7, "series_added": 1,
            "bytes": 2048, "took_seconds": 0.0123, "seconds_ago": 61.5, "lost_data_points": 0});
        let down = json!({"job": "static", "url": "http://b/m", "state": "down", "error": "answered 404",
            "lost_data_points": 3, "lost": "3 data points: no room"});
        let waiting = json!({"job": "static", "url": "http://c/m", "state": "waiting", "lost_data_points": 0});
        let dropped = json!([{"job": "pods", "target": "shop/orders", "reason": "the port is 0"}]);
        let kubelet = json!({"url": "https://node:10250", "state": "down", "error": "answered 401", "seconds_ago": 7.5,
            "since_seconds": 127.5});
        let page = json!({"targets": [up, down, waiting], "dropped": dropped, "dropped_not_shown": 2,
            "kubelet": kubelet});
        let mut out = Vec::new();
        text(&mut out, &page).unwrap();
        let expected = "\
3 targets: 1 up, 1 down, 1 waiting; 3 more are not scraped

TARGET         JOB    STATE  SAMPLES  ADDED    BYTES  TOOK    AGO  LOST
http://a/m  static       up        7      1  2.0 KiB  12ms  1m01s     0
http://b/m  static     down        -      -        -     -      -     3
http://c/m  static  waiting        -      -        -     -      -     0

Down:
  http://b/m: answered 404

Lost:
  http://b/m: 3 data points: no room

Not scraped:
  shop/orders: the port is 0

Kubelet, for runtime metrics:
  https://node:10250: down for 2m07s, asked 7s ago: answered 401
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
