//! `weir why`: where the items of a pipeline went, in sentences; the way of a single item; the last hour; or which configuration
//! is in use, what became of the last ones, and what differs between two.

mod configuration;
mod differences;
mod hour;
mod in_use;
mod item;
mod on_disk;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;
use weir_loadtest::output::printed;
use weir_units::parse_positive_duration;

use crate::ask::{Admin, AskArgs, LOSSES, number, sum, wrong_port};
use crate::before_books;
use crate::cli::Format;
use crate::health::not_set_up;
use crate::tables::{bytes, legible, rate, time, whole_seconds};
use differences::Between;

const EXAMPLES: &str = "\
Examples:
  weir why                                   where everything went, pipeline by pipeline
  weir why traces/shop                       one of them
  weir why --item 4bf92f3577b34da6a3ce929d0e0e4736        the way of the spans of a trace that passes from now on, or waits
  weir why logs/all --item 'order 4711' -d 2m
  weir why traces/shop --hour                its last hour: what came, went, was lost and waited, and when that was worst
  weir why traces/shop --in-use              what it takes, its rules, its backend and its settings
  weir why --configuration                   what became of the last configurations, the newest first
  weir why --configuration --format json | jq -r '.[] | select(.what == \"refused\") | .error'
  weir why --differences                     what is not as it was before the last change
  weir why traces/shop --differences=3       the same of one pipeline since configuration 3; with =3..5 up to configuration 5

What came in is delivered, filtered by a rule, dropped, rejected by the backend, or pending: the numbers of these add up to
what came in, and the difference is said. The way of an item can be told while it passes, so send it again; what clients push
and no pipeline takes is found, too. Recent items, and samples of what was refused for good or given up, are looked through
before, and so is what waits on the disk: one search reads up to 256 MiB of it, for 15 seconds at most, and says where --from
lets the next one go on.

Of the last 50 configurations since its start, a process says when each came and by what: start, sighup, files_changed, daily,
secret or saved; which pipelines it added, changed or removed; who changed these last, which is the newest manager of the fields
of an object or the file that they are in; and why it was refused.

With --hour, each line is of some time that ended at UNTIL, in UTC. IN/S and OUT/S are items a second that came in and were
delivered, LOST all that were dropped or rejected in that time, and PENDING the most that were owed to the backend at once. There
are as many lines as a terminal has room for, and twelve at most where there is none.

With --in-use and --differences there is what the page shows of inputs, rules, backends and settings, and as process what the
Telemetry says; that has nothing that may be secret, such as credentials, certificates, paths of backends, and texts of filters
of Fluent Bit. A pipeline that was changed in nothing else has no differences, and --configuration says that it was changed.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WhyArgs {
    /// The pipeline; without it, all; with --item also traces/* for all of a signal
    #[arg(value_name = "PIPELINE")]
    pipeline: Option<String>,
    #[command(flatten)]
    admin: AskArgs,
    /// Look for items with this trace id, span id or text
    #[arg(long, value_name = "TEXT")]
    item: Option<String>,
    /// Go on with what waits on the disk from this place, where an earlier search ended
    #[arg(long, requires = "item", value_name = "PLACE")]
    from: Option<String>,
    /// How long to look for items
    #[arg(short, long, default_value = "30s", value_parser = parse_positive_duration, value_name = "DURATION")]
    duration: Duration,
    /// Show what became of the last configurations instead: what brought each, and what it did or why it is not used
    #[arg(long, group = "topic", conflicts_with_all = ["pipeline", "item", "duration"])]
    configuration: bool,
    /// Show the last hour instead: items that came, were delivered or lost, and waited, step by step, and the worst of it
    #[arg(long, group = "topic", conflicts_with_all = ["item", "duration"])]
    hour: bool,
    /// Show the configuration in use instead: inputs, rules in their effective order, backend and settings
    #[arg(long, group = "topic", conflicts_with_all = ["item", "duration"])]
    in_use: bool,
    /// Show what differs between two configurations instead, by their numbers in --configuration [default: between the one
    /// before and the one in use]
    #[arg(long, group = "topic", conflicts_with_all = ["item", "duration"], require_equals = true,
        value_parser = differences::between, value_name = "FROM[..TO]")]
    differences: Option<Option<Between>>,
    /// How the last hour and configurations are shown
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT", requires = "topic")]
    format: Format,
}

/// Runs the command.
pub(crate) fn run(args: &WhyArgs) -> anyhow::Result<ExitCode> {
    let (admin, pipeline) = (args.admin.admin()?, args.pipeline.as_deref());
    if args.configuration {
        return configuration::show(&admin, args.format);
    }
    if args.hour {
        return hour::show(&admin, pipeline, args.format);
    }
    if args.in_use {
        return in_use::show(&admin, pipeline, args.format);
    }
    if let Some(between) = args.differences {
        return differences::show(&admin, between, pipeline, args.format);
    }
    match &args.item {
        Some(text) => item::find(args, &admin, text),
        None => explain(args, &admin),
    }
}

fn explain(args: &WhyArgs, admin: &Admin) -> anyhow::Result<ExitCode> {
    let (page, health) = (admin.get("/api/now")?, admin.get("/health/pipelines")?);
    let (configuration, past) = (admin.get(configuration::PATH)?, admin.get(LOSSES)?);
    let name = args.pipeline.as_deref();
    let orphans = page["orphans"].as_array().into_iter().flatten();
    let orphans: Vec<_> = orphans.filter(|of| name.is_none_or(|name| of["pipeline"] == *name)).collect();
    let wanted = match wanted(name, pipelines_of("/api/now", &page)?) {
        Err(_) if !orphans.is_empty() => Vec::new(),
        found => found?,
    };
    let (mut out, lost_before) = (String::new(), before_books::words(&page, &past));
    for pipeline in wanted {
        let of = |list: &Value| {
            list.as_array().into_iter().flatten().find(|of| of["pipeline"] == pipeline["pipeline"]).cloned()
        };
        let rules = of(&configuration["pipelines"]).unwrap_or_default();
        // Writing to a String cannot fail.
        let health = of(&health).unwrap_or_default();
        let _ = story(&mut out, pipeline, &rules["rules"], (&health, &past), lost_before.is_some());
    }
    // One that has lost nothing and owes nothing has no story, unless it is asked for.
    for orphan in orphans.into_iter().filter(|of| name.is_some() || has_story(of)) {
        let _ = sums(&mut out, orphan, &past);
        let _ = writeln!(out, "  {}\n", orphaned(orphan, !page["journal"].is_null()));
    }
    if name.is_none() {
        let _ = of_no_pipeline(&mut out, &page);
    }
    if let Some(words) = lost_before {
        let _ = writeln!(out, "{words} `weir top --logs` and `weir targets` say of which containers and targets.");
    }
    // Whatever process was asked, a terminal obeys none of its words.
    let shown: String = out.lines().map(|line| legible(line) + "\n").collect();
    printed(io::stdout().write_all(shown.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

fn has_story(orphan: &Value) -> bool {
    let books = &orphan["books"];
    number(&books["pending"]) + sum(&books["dropped"]) + sum(&books["rejected"]) > 0
}

/// What no pipeline got.
fn of_no_pipeline(out: &mut String, page: &Value) -> std::fmt::Result {
    let unclaimed: u64 = page["unclaimed"].as_array().into_iter().flatten().map(number).sum();
    if unclaimed > 0 {
        writeln!(
            out,
            "{unclaimed} items were answered OK and dropped, because no pipeline takes them: look at the namespaces of \
             `input.otlp`, and at `weir tap '*' --edge unclaimed`"
        )?;
    }
    let refused = reasons(&page["refused_requests"], |_| None);
    if !refused.is_empty() {
        writeln!(
            out,
            "Requests of clients were refused: {refused}. They were told why; what they gave up then, only they know."
        )?;
    }
    Ok(())
}

/// The pipelines that a page shows.
fn pipelines_of<'a>(path: &str, page: &'a Value) -> anyhow::Result<&'a [Value]> {
    let missing = || wrong_port(&format!("{path} shows no pipelines"));
    page["pipelines"].as_array().map(Vec::as_slice).with_context(missing)
}

/// The one of this name, or all.
fn wanted<'a>(name: Option<&str>, all: &'a [Value]) -> anyhow::Result<Vec<&'a Value>> {
    let wanted: Vec<_> = all.iter().filter(|of| name.is_none_or(|name| of["pipeline"] == *name)).collect();
    if wanted.is_empty() {
        bail!(unknown(name, all.iter().filter_map(|of| of["pipeline"].as_str())));
    }
    Ok(wanted)
}

fn unknown<'a>(name: Option<&str>, names: impl Iterator<Item = &'a str>) -> String {
    match name {
        Some(name) => {
            let names = names.collect::<Vec<_>>().join(", ");
            format!("there is no pipeline {name:?}; there are: {}", legible(&names))
        }
        None => "there is no pipeline: nothing is taken from anybody".to_owned(),
    }
}

/// Of a pipeline that somebody has removed. `has_disk`: there is a data directory.
fn orphaned(pipeline: &Value, has_disk: bool) -> &'static str {
    match (number(&pipeline["books"]["pending"]), has_disk) {
        (0, _) => "It is not configured any more.",
        (_, true) => {
            "It is not configured any more: what is pending stays on the disk, is delivered once it is configured again, and \
             is given up when a process has run for 24 h without it."
        }
        (_, false) => {
            "It is not configured any more: what is pending is delivered until --drain-timeout is over, and what is left \
             then is dropped."
        }
    }
}

/// What came in, and what became of it, in numbers that add up.
fn sums(out: &mut String, pipeline: &Value, past: &Value) -> std::fmt::Result {
    let books = &pipeline["books"];
    let came = number(&books["accepted"]) + number(&books["recovered"]);
    writeln!(out, "{}: {came} items came in", pipeline["pipeline"].as_str().unwrap_or("-"))?;
    let mut line = |what: &str, items: u64, why: String| {
        let share = if came == 0 { 0.0 } else { items as f64 * 100.0 / came as f64 };
        writeln!(out, "{}", format!("  {what:<10} {items:>14}  {share:>5.1} %  {why}").trim_end())
    };
    line("delivered", number(&books["delivered"]), String::new())?;
    line("filtered", sum(&books["filtered"]), reasons(&books["filtered"], |_| None))?;
    for way in ["dropped", "rejected"] {
        let rate = |reason: &str| rate_of(past, &pipeline["pipeline"], way, reason);
        line(way, sum(&books[way]), reasons(&books[way], rate))?;
    }
    line("pending", number(&books["pending"]), waiting(pipeline))?;
    line("difference", books["difference"].as_i64().unwrap_or_default().unsigned_abs(), difference(books).to_owned())
}

/// Where the items of a pipeline went. `past`: how fast losses grow. `lost_before`: something was lost before it came into
/// any books, perhaps its own.
fn story(
    out: &mut String,
    pipeline: &Value,
    rules: &Value,
    (health, past): (&Value, &Value),
    lost_before: bool,
) -> std::fmt::Result {
    sums(out, pipeline, past)?;
    let books = &pipeline["books"];
    for rule in pipeline["rules"].as_array().into_iter().flatten() {
        what_a_rule_did(out, rule, rules)?;
    }
    if let Some(said) = backend_said(pipeline) {
        writeln!(out, "  {said}")?;
    }
    let backend = &pipeline["backend"];
    let fault = || pipeline["setup_error"].as_str().map(not_set_up);
    match health["message"].as_str().map(str::to_owned).or_else(fault) {
        Some(message) => writeln!(out, "  {}\n", legible(&message)),
        None if backend["state"].as_str().is_none_or(|state| state == "ok") => {
            let lost = sum(&books["dropped"]) + sum(&books["rejected"]);
            let said = match (lost, lost_before) {
                (0, false) => "All is well.",
                (0, true) => "Nothing is wrong in its books.",
                _ => "Nothing else is wrong now.",
            };
            writeln!(out, "  {said}\n")
        }
        None => writeln!(out, "  That is too short, or too little, to be a trouble as yet.\n"),
    }
}

/// How the backend of a pipeline stands, in its words, if it has said anything.
fn backend_said(pipeline: &Value) -> Option<String> {
    let backend = &pipeline["backend"];
    let message = backend["message"].as_str().filter(|message| !message.is_empty())?;
    let lasts = backend["lasts_seconds"].as_f64().map_or(0, whole_seconds);
    let (state, code) = (backend["state"].as_str().unwrap_or("-"), backend["code"].as_str().unwrap_or_default());
    let said = format!("{code} {message}");
    let stands = if state == "unsent" { "Requests fail here".to_owned() } else { format!("The backend is {state}") };
    Some(format!("{stands} for {}: {}", time(lasts), legible(said.trim_start())))
}

/// Conditions of filters that removed something, and rules that failed.
fn what_a_rule_did(out: &mut String, rule: &Value, texts: &Value) -> std::fmt::Result {
    let (filtered, errors) = (number(&rule["filtered"]), number(&rule["errors"]));
    if filtered == 0 && errors == 0 {
        return Ok(());
    }
    let field = rule["field"].as_str().unwrap_or("-");
    let text = texts.as_array().into_iter().flatten().find(|of| of["field"] == rule["field"]);
    let text = text.and_then(|of| of["text"].as_str()).map_or_else(String::new, |text| format!(": {text}"));
    if filtered > 0 {
        writeln!(out, "  {field} removed {filtered}{text}")?;
    }
    if errors > 0 {
        let cause = rule["cause"].as_str().unwrap_or("no cause is known");
        writeln!(out, "  {field} failed for {errors}, which stayed as they were{text}: {cause}")?;
    }
    Ok(())
}

fn waiting(pipeline: &Value) -> String {
    let books = &pipeline["books"];
    // Of one that is not configured any more, nothing else is known.
    if number(&books["pending"]) == 0 || pipeline["pending_bytes"].is_null() {
        return String::new();
    }
    let oldest = pipeline["oldest_seconds"].as_f64().map_or(0, whole_seconds);
    let on_disk = pipeline["backlog"]["items"].as_u64().unwrap_or_default();
    format!("{}, the oldest for {}; {on_disk} on the disk", bytes(number(&pipeline["pending_bytes"])), time(oldest))
}

fn difference(books: &Value) -> &'static str {
    match books["difference"].as_i64() {
        Some(0) => "nothing is missing",
        _ => "this is a bug in weir, please report it",
    }
}

/// Each reason with its items, and how many a second these are now, if any.
fn reasons(of: &Value, rate_of: impl Fn(&str) -> Option<f64>) -> String {
    let all = of.as_object().into_iter().flatten().filter(|(_, items)| number(items) > 0);
    let now = |reason: &str| rate_of(reason).map_or_else(String::new, |now| format!(" ({}/s now)", rate(now)));
    all.map(|(reason, items)| format!("{reason} {items}{}", now(reason))).collect::<Vec<_>>().join(", ")
}

/// How many items a second are lost for a reason now; `None` if there are none.
fn rate_of(past: &Value, pipeline: &Value, way: &str, reason: &str) -> Option<f64> {
    let is_it = |loss: &&Value| loss["pipeline"] == *pipeline && loss["way"] == way && loss["reason"] == reason;
    let loss = past["losses"].as_array()?.iter().find(is_it)?;
    loss["items_per_second"].as_f64().filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_pipeline_that_is_gone_only_what_is_pending_can_be_on_the_disk() {
        let with = |pending: u64| json!({"books": {"pending": pending}});
        assert!(orphaned(&with(7), true).contains(": what is pending stays on the disk, "));
        assert!(orphaned(&with(7), false).contains(": what is pending is delivered until --drain-timeout is over, "));
        for has_disk in [false, true] {
            assert_eq!(orphaned(&with(0), has_disk), "It is not configured any more.");
        }
    }

    #[test]
    fn a_pipeline_that_cannot_be_set_up_is_not_well() {
        let pipeline = json!({"pipeline": "traces/shop", "setup_error": "no such function", "backend": {"state": "ok"},
            "books": {"accepted": 0, "difference": 0}});
        let mut out = String::new();
        story(&mut out, &pipeline, &Value::Null, (&Value::Null, &Value::Null), false).unwrap();
        let expected = "  It cannot be set up as it is configured: no such function. ";
        assert!(out.contains(expected) && !out.contains("All is well."), "{out}");
    }

    #[test]
    fn a_backend_that_nobody_asks_is_not_at_fault() {
        let backend = json!({"state": "unsent", "code": "", "message": "no token", "lasts_seconds": 7.0});
        let pipeline = json!({"pipeline": "traces/shop", "backend": backend, "books": {"difference": 0}});
        let mut out = String::new();
        story(&mut out, &pipeline, &Value::Null, (&Value::Null, &Value::Null), false).unwrap();
        assert!(out.contains("  Requests fail here for 7s: no token\n"), "{out}");
    }

    #[test]
    fn the_numbers_add_up_and_have_reasons() {
        let pipeline = json!({"pipeline": "traces/shop", "pending_bytes": 2048, "oldest_seconds": 61.0,
            "backlog": {"items": 3},
            "books": {"accepted": 90, "recovered": 10, "delivered": 60, "filtered": {"filter": 20},
                "dropped": {"overflow": 5}, "rejected": {"400": 5}, "pending": 10, "difference": 0},
            "rules": [{"field": "filter[0].conditions[1]", "filtered": 20, "errors": 0}],
            "backend": {"state": "down", "code": "unavailable", "message": "connection refused", "lasts_seconds": 7.0}});
        let rules = json!([{"field": "filter[0].conditions[1]", "text": "name == \"probe\""}]);
        let past = json!({"losses": [
            {"pipeline": "traces/other", "way": "dropped", "reason": "overflow", "items_per_second": 7.0},
            {"pipeline": "traces/shop", "way": "dropped", "reason": "overflow", "items_per_second": 0.4},
            {"pipeline": "traces/shop", "way": "rejected", "reason": "400", "items_per_second": 0.0}]});
        let health = json!({"message": "Nothing was delivered."});
        let mut out = String::new();
        story(&mut out, &pipeline, &rules, (&health, &past), false).unwrap();
        let expected = "\
traces/shop: 100 items came in
  delivered              60   60.0 %
  filtered               20   20.0 %  filter 20
  dropped                 5    5.0 %  overflow 5 (0.4/s now)
  rejected                5    5.0 %  400 5
  pending                10   10.0 %  2.0 KiB, the oldest for 1m01s; 3 on the disk
  difference              0    0.0 %  nothing is missing
  filter[0].conditions[1] removed 20: name == \"probe\"
  The backend is down for 7s: unavailable connection refused
  Nothing was delivered.

";
        assert_eq!(out, expected);
    }
}
