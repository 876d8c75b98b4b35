//! `weir tap`: what passes a pipeline, live.

mod attributes;
mod lost;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use weir_loadtest::output::is_read;
use weir_units::parse_positive_duration;

use crate::ask::{Admin, AskArgs, moment, number};
use crate::cli::Format;
use crate::page::EdgeName;
use crate::tables::{columns_of_terminal, count, cut, legible, legible_json};

pub(crate) use lost::{is_asked_for, samples as lost_samples};

const EXAMPLES: &str = "\
Examples:
  weir tap traces/shop                                     what comes in, ten spans a second at most, for 5 minutes
  weir tap logs/all --edge removed                         what its rules remove, and which rule
  weir tap logs/all --where 'severity_number >= SEVERITY_NUMBER_ERROR' --edge out
  weir tap traces/shop --text 4bf92f3577b34da6a3ce929d0e0e4736      one trace
  weir tap traces/shop --edge after --rule 'transform[0]'  what its first transform leaves to the other rules
  weir tap 'logs/*' --edge received                        what comes in, before facts about its sender are added
  weir tap '*' --edge unclaimed                            what clients push and no pipeline takes
  weir tap logs/all --recent                               some of what passed, or was lost, before anybody looked
  weir tap logs/all --lost                                 samples of what was lost, when, and why
  weir tap logs/all --attributes                           what attributes these have, how many values, and how many bytes
  weir tap traces/shop -n 1 --format json | weir try pipelines/ --input -

Each line says when the item passed, what has become of it so far, and what it is; a terminal shows as much of it as it is
wide. The process notes in its log who opened a tap. What looks like a secret is not shown. A tap changes nothing, and costs
nothing when there is none.";

/// How often it is asked for more.
const EVERY: Duration = Duration::from_millis(500);
/// What helps when the limits of a tap are reached.
const ADVICE: &str = "look for less with --text or --where, or raise --rate, which is 200 at most";
/// The process ends taps by then.
const LONGEST: Duration = Duration::from_secs(15 * 60);

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TapArgs {
    /// The pipeline: traces/NAME, metrics/NAME or logs/NAME; traces/* for all of a signal, * for all
    #[arg(value_name = "PIPELINE")]
    pipeline: String,
    #[command(flatten)]
    admin: AskArgs,
    /// Show recent items, and end: a few that passed, that rules removed, that were lost before anybody looked, or that were on
    /// the disk when the process started
    #[arg(long, conflicts_with_all = ["edge", "rule", "text", "condition", "rate", "duration"])]
    recent: bool,
    /// Show samples of what the backend refused for good, and of what was given up, and end: each item with when and why it was
    /// lost
    #[arg(long, conflicts_with_all = ["recent", "attributes", "edge", "rule", "text", "condition", "rate", "duration"])]
    lost: bool,
    /// Show the attributes of recent items, and end: how many items have each, how many values, and what it takes
    #[arg(long, conflicts_with_all = ["recent", "edge", "rule", "text", "condition", "rate", "duration", "n", "full", "no_redact"])]
    attributes: bool,
    /// Where to look
    #[arg(long, value_enum, default_value_t = EdgeName::In, value_name = "EDGE")]
    edge: EdgeName,
    /// The rule at the edge `after`: `transform[0]` or `filter[1]`
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
    /// Only items in which this text occurs; also a trace id or span id in hexadecimal digits
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only items for which this OTTL condition holds
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Items a second, at most; up to 200
    #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=200), value_name = "NUMBER")]
    rate: u32,
    /// When it ends; at most 15 minutes
    #[arg(short, long, default_value = "5m", value_parser = parse_positive_duration, value_name = "DURATION")]
    duration: Duration,
    /// End after so many items; with --recent or --lost, show only the last
    #[arg(short, value_parser = clap::value_parser!(u64).range(1..), value_name = "NUMBER")]
    n: Option<u64>,
    /// Do not cut lines at the width of the terminal
    #[arg(long)]
    full: bool,
    /// Show what looks like a secret, too
    #[arg(long)]
    no_redact: bool,
    /// How items are shown; as JSON, each is an OTLP/JSON request on a line, for `weir try`, and attributes are one
    /// document
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    format: Format,
}

impl TapArgs {
    /// The width of lines, if they are cut.
    fn columns(&self) -> Option<usize> {
        columns_of_terminal().filter(|_| !self.full && self.format == Format::Text)
    }

    fn show(&self, item: &Value, columns: Option<usize>) -> String {
        match self.format {
            Format::Text => cut(Line::of(item).to_string(), columns),
            Format::Json => legible_json(&item["item"].to_string()),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &TapArgs) -> anyhow::Result<ExitCode> {
    if args.duration > LONGEST {
        bail!("a tap ends after 15 minutes at most: use --duration 15m or less");
    }
    if args.pipeline.ends_with('*') && (args.recent || args.attributes) {
        bail!("recent items are those of one pipeline: name it, as traces/NAME");
    }
    let admin = args.admin.admin()?;
    if args.attributes {
        return attributes::show(&admin, &args.pipeline, args.format);
    }
    if args.recent {
        return recent(&admin, args);
    }
    if args.lost {
        return lost::show(&admin, args);
    }
    let mut wish = json!({
        "pipeline": args.pipeline, "edge": args.edge, "text": args.text, "where": args.condition,
        "items_per_second": args.rate, "seconds": args.duration.as_secs().max(1), "redact": !args.no_redact,
    });
    // Processes of older versions do not know of it.
    if let Some(rule) = &args.rule {
        wish["rule"] = json!(rule);
    }
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let columns = args.columns();
    let (mut shown, most) = (0, args.n.unwrap_or(u64::MAX));
    let pages = runtime.block_on(follow(&admin, &[wish], &mut |page| {
        for item in page["items"].as_array().into_iter().flatten() {
            if !is_read(writeln!(io::stdout(), "{}", args.show(item, columns)))? {
                return Ok(false);
            }
            shown += 1;
            if shown == most {
                return Ok(false);
            }
        }
        Ok(true)
    }))?;
    if args.format == Format::Text {
        writeln!(io::stderr(), "{}", said(&pages, shown, ADVICE)).context("cannot write to standard error")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the recent items of a pipeline, the oldest first.
fn recent(admin: &Admin, args: &TapArgs) -> anyhow::Result<ExitCode> {
    let redact = if args.no_redact { "&redact=false" } else { "" };
    let page = admin.get(&format!("/api/recent?pipeline={}{redact}", args.pipeline))?;
    let items = recent_items(&page);
    let most = args.n.and_then(|n| usize::try_from(n).ok()).unwrap_or(items.len());
    let columns = args.columns();
    for item in items.values().skip(items.len().saturating_sub(most)) {
        if !is_read(writeln!(io::stdout(), "{}", args.show(item, columns)))? {
            return Ok(ExitCode::SUCCESS);
        }
    }
    if args.format == Format::Text {
        let (shown, kept) = (count(items.len().min(most), "item"), number(&page["count"]));
        writeln!(io::stderr(), "{shown} shown; {kept} that passed are kept")
            .context("cannot write to standard error")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All lists of a page of recent items together, the oldest first: what was on the disk when the process began comes before
/// what has passed since, and its numbers are its own.
pub(crate) fn recent_items(page: &Value) -> BTreeMap<(bool, u64), Value> {
    let of = |list: &str| page[list].as_array().cloned().unwrap_or_default();
    let passed = ["items", "lost", "removed"].into_iter().flat_map(of).map(|item| ((true, number(&item["seq"])), item));
    let recovered = of("recovered").into_iter().map(|mut item| {
        let number = number(&item["seq"]);
        if let Some(of) = item.as_object_mut() {
            of.insert(IS_RECOVERED.to_owned(), json!(true));
        }
        ((false, number), item)
    });
    recovered.chain(passed).collect()
}

/// A tap of this command, and the last page of what it has caught.
struct Tap {
    path: String,
    page: Value,
}

impl Tap {
    fn open(admin: &Admin, wish: &Value) -> anyhow::Result<Self> {
        let opened = admin.post("/api/taps", wish)?;
        Ok(Self { path: format!("/api/taps/{}", opened["tap"]), page: Value::Null })
    }

    /// Each item is on one page, and its number and way on all that follow as long as it is kept.
    fn turn_over(&mut self, admin: &Admin) -> anyhow::Result<()> {
        let last = number(&self.page["last"]);
        self.page = admin.get(&format!("{}?after={last}", self.path))?;
        Ok(())
    }
}

/// Opens taps, the first of which there has to be, and shows what they have caught, page by page, until `show` says no, one
/// of them ends, or Ctrl-C. Returns the last page of each.
pub(crate) async fn follow(
    admin: &Admin,
    wishes: &[Value],
    show: &mut dyn FnMut(&Value) -> anyhow::Result<bool>,
) -> anyhow::Result<Vec<Value>> {
    let mut taps = Vec::new();
    let followed = follow_all(admin, wishes, &mut taps, show).await;
    for tap in &taps {
        // It may have ended by itself.
        let _ = admin.delete(&tap.path);
    }
    followed?;
    Ok(taps.into_iter().map(|tap| tap.page).collect())
}

/// Whatever comes of it, `taps` are those that were opened.
async fn follow_all(
    admin: &Admin,
    wishes: &[Value],
    taps: &mut Vec<Tap>,
    show: &mut dyn FnMut(&Value) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    for wish in wishes {
        match Tap::open(admin, wish) {
            Ok(tap) => taps.push(tap),
            Err(error) if taps.is_empty() => return Err(error),
            // Processes of older versions do not know all edges, and there are only so many taps.
            Err(error) => writeln!(io::stderr(), "Nobody looks at {}: {error:#}", legible(&wish["edge"].to_string()))?,
        }
    }
    loop {
        let mut is_over = tokio::select! {
            _ = tokio::signal::ctrl_c() => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        for tap in taps.iter_mut() {
            tap.turn_over(admin)?;
            is_over |= !show(&tap.page)? || tap.page["state"] == "ended";
        }
        if is_over {
            return Ok(());
        }
    }
}

/// How taps ended, in a sentence. `advice`: what their user can do if their limits were reached.
pub(crate) fn said(pages: &[Value], shown: u64, advice: &str) -> String {
    let seen: u64 = pages.iter().map(|page| number(&page["seen"])).sum();
    let more = match left_out(pages) {
        0 => String::new(),
        left_out => format!("; {left_out} were not looked at, because the limits of the tap were reached: {advice}"),
    };
    format!("{seen} items passed, {shown} were shown{more}")
}

/// How many items the taps did not look at.
pub(crate) fn left_out(pages: &[Value]) -> u64 {
    pages.iter().map(|page| number(&page["left_out"])).sum()
}

/// The field that says of an item that it was on the disk when the process began.
const IS_RECOVERED: &str = "is_recovered";

/// What an item becomes as it passes.
const AT_ONCE: [&str; 3] = ["pending", "received", "unclaimed"];

/// An item in one line.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Since when that is known.
    at: Option<Timestamp>,
    pipeline: String,
    /// What has become of it.
    pub(crate) way: String,
    /// When it became so, if that was later.
    way_at: Option<Timestamp>,
    /// By which rule, if one removed it.
    by: String,
    /// What else is known of that.
    note: &'static str,
    what: String,
}

impl Line {
    pub(crate) fn of(item: &Value) -> Self {
        let by = &item["removed_by"];
        let by = by["field"].as_str().map_or_else(String::new, |field| {
            let text = by["text"].as_str().filter(|text| !text.is_empty());
            format!(" by {field}{}", text.map_or_else(String::new, |text| format!(" ({text})")))
        });
        let (at, pipeline, way) = (moment(&item["at"]), words(&item["pipeline"]), words(&item["way"]));
        let is_recovered = item[IS_RECOVERED] == true;
        let note = if is_recovered { ", written before the start" } else { "" };
        let is_seen_at_once = AT_ONCE.contains(&way.as_str()) || (is_recovered && way == "stored");
        let way_at = moment(&item["way_at"]).filter(|_| !is_seen_at_once);
        Self { at, pipeline, way, way_at, by, note, what: summary(&item["item"]) }
    }

    /// One that a search has found on the disk.
    pub(crate) fn waiting(item: &Value) -> Self {
        Self { way_at: None, note: ", waits on the disk since then", ..Self::of(item) }
    }

    /// The same item, of which more has become since.
    pub(crate) fn gone_on(&self, at: Timestamp, way: &str) -> Self {
        Self { at: Some(at), way: way.to_owned(), way_at: None, ..self.clone() }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, pipeline, way, way_at, by, note, what } = self;
        let at = at.map_or_else(String::new, |at| time_of(at, Timestamp::now()));
        let since = way_at.map_or_else(String::new, |at| format!(" at {}", time_of(at, Timestamp::now())));
        f.write_str(&legible(&format!("{at} {pipeline} {way}{since}{by}{note}: {what}")))
    }
}

/// A time in UTC; of another day, with the date: what is kept may be old.
fn time_of(at: Timestamp, now: Timestamp) -> String {
    let [date, today] = [at, now].map(|at| at.strftime("%Y-%m-%d").to_string());
    let time = at.strftime("%H:%M:%S%.3f");
    if date == today { time.to_string() } else { format!("{date} {time}") }
}

/// What the single item of a request is.
pub(crate) fn summary(request: &Value) -> String {
    let ways = [
        ["resourceSpans", "scopeSpans", "spans"],
        ["resourceLogs", "scopeLogs", "logRecords"],
        ["resourceMetrics", "scopeMetrics", "metrics"],
    ];
    for (way, show) in ways.iter().zip([span, log_record, metric]) {
        let [resources, scopes, items] = *way;
        let resource = &request[resources][0];
        let item = &resource[scopes][0][items][0];
        if item.is_object() {
            let from = attributes(&resource["resource"]["attributes"]);
            return format!("{} | {from}", show(item));
        }
    }
    "an item that cannot be read".to_owned()
}

fn span(of: &Value) -> String {
    let time = |name: &str| of[name].as_str().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or_default();
    let took = Duration::from_nanos(time("endTimeUnixNano").saturating_sub(time("startTimeUnixNano")));
    let (name, trace, id) = (words(&of["name"]), words(&of["traceId"]), words(&of["spanId"]));
    let status = match &of["status"]["code"] {
        code if code == &json!(2) || code == "STATUS_CODE_ERROR" => " error",
        _ => "",
    };
    format!("span {name:?} {took:?}{status} trace {trace} span {id} {}", attributes(&of["attributes"]))
}

fn log_record(of: &Value) -> String {
    let severity = of["severityText"].as_str().filter(|text| !text.is_empty()).unwrap_or("log");
    format!("{severity} {} {}", value(&of["body"]), attributes(&of["attributes"]))
}

fn metric(of: &Value) -> String {
    let point = ["gauge", "sum", "histogram", "exponentialHistogram", "summary"]
        .iter()
        .map(|kind| (kind, &of[kind]["dataPoints"][0]))
        .find(|(_, point)| point.is_object());
    let Some((kind, point)) = point else { return format!("metric {}", words(&of["name"])) };
    let numbers = ["asDouble", "asInt", "sum", "count"].iter().filter(|name| !point[name].is_null());
    let numbers: Vec<_> = numbers.map(|name| format!("{name}={}", value(&point[name]))).collect();
    format!("{kind} {} {} {}", words(&of["name"]), numbers.join(" "), attributes(&point["attributes"]))
}

fn attributes(of: &Value) -> String {
    let pairs = of.as_array().into_iter().flatten();
    let pairs: Vec<_> = pairs.map(|pair| format!("{}={}", words(&pair["key"]), value(&pair["value"]))).collect();
    pairs.join(" ")
}

/// A value of OTLP/JSON, `{"stringValue": "a"}`, as it is meant.
fn value(of: &Value) -> String {
    match of {
        Value::String(text) => text.replace(char::is_control, " "),
        Value::Object(map) if map.len() == 1 => map.values().next().map_or_else(String::new, value),
        other => other.to_string(),
    }
}

fn words(of: &Value) -> String {
    of.as_str().unwrap_or("-").replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_lines() {
        let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
        let resource = json!({"attributes": [text("service.name", "shop")]});
        let span = json!({"name": "GET /", "traceId": "ab", "spanId": "cd", "startTimeUnixNano": "1000",
            "endTimeUnixNano": "2001000", "status": {"code": 2}, "attributes": [text("a", "b\u{1b}[1m")]});
        let log = json!({"severityText": "WARN", "body": {"stringValue": "no room"}});
        let point = json!({"name": "up", "gauge": {"dataPoints": [{"asDouble": 1.5}]}});
        let request = |names: [&str; 3], item: &Value| json!({names[0]: [{"resource": resource, names[1]: [{names[2]: [item]}]}]});
        let of = [
            (["resourceSpans", "scopeSpans", "spans"], span, "span \"GET /\" 2ms error trace ab span cd a=b [1m"),
            (["resourceLogs", "scopeLogs", "logRecords"], log, "WARN no room "),
            (["resourceMetrics", "scopeMetrics", "metrics"], point, "gauge up asDouble=1.5 "),
        ];
        for (names, item, expected) in of {
            assert_eq!(summary(&request(names, &item)), format!("{expected} | service.name=shop"));
        }
        let removed = json!({"at": "1970-01-01T00:00:01.000Z", "pipeline": "logs/a", "way": "removed", "item": {},
            "removed_by": {"field": "filter[0].conditions[0]", "text": "true"}});
        let recovered = json!({"recovered": [{"seq": 1, "pipeline": "logs/a", "way": "stored", "item": {}}],
            "items": [{"seq": 1}]});
        let lines: Vec<_> = recent_items(&recovered).values().map(|item| Line::of(item).to_string()).collect();
        assert_eq!(lines[0], " logs/a stored, written before the start: an item that cannot be read");
        assert_eq!(lines.len(), 2);
        let expected =
            "1970-01-01 00:00:01.000 logs/a removed by filter[0].conditions[0] (true): an item that cannot be read";
        assert_eq!(Line::of(&removed).to_string(), expected);
        let way = |way: &str| {
            json!({"at": "1970-01-01T00:00:01.000Z", "pipeline": "logs/a", "way": way, "item": {},
            "way_at": "1970-01-01T00:00:02.500Z"})
        };
        let [delivered, pending] = ["delivered", "pending"].map(|of| Line::of(&way(of)).to_string());
        assert!(delivered.contains("01.000 logs/a delivered at 1970-01-01 00:00:02.500: an item"), "{delivered}");
        assert!(pending.contains("01.000 logs/a pending: an item"), "as it passed: {pending}");
        let [one, other] =
            ["1970-01-01T23:59:59.5Z", "1970-01-02T00:00:00Z"].map(|at| at.parse::<Timestamp>().unwrap());
        assert_eq!([time_of(one, one), time_of(one, other)], ["23:59:59.500", "1970-01-01 23:59:59.500"]);
    }
}
