//! Which tests there are, and what the page says of them, from made-up outcomes.

use clap::Parser;
use serde_json::json;

use super::*;
use crate::report::history::Figures;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: AllArgs,
}

fn args(line: &str) -> AllArgs {
    let words = std::iter::once("all").chain(line.split_whitespace());
    Cli::parse_from(words).args
}

fn names(line: &str) -> Vec<String> {
    let name =
        |test: LoadtestArgs| test.scripts().unwrap().pop().map_or("self-monitor".to_owned(), |script| script.name);
    args(line).tests().unwrap().into_iter().map(name).collect()
}

#[test]
fn everything_that_was_published_is_tested() {
    let all = names("");
    assert_eq!(all.len(), 20, "{all:?}");
    for name in
        ["traces", "metrics-multi-backpressure", "logs-otel", "logagent", "metricagent-backpressure", "self-monitor"]
    {
        assert!(all.contains(&name.to_owned()), "{name}: {all:?}");
    }
    assert!(!all.contains(&"logs-otel-multi".to_owned()), "nobody published that");
    assert_eq!(names("--only traces --only metricagent*"), ["traces", "metricagent", "metricagent-backpressure"]);
    let error = args("--only nothing").tests().unwrap_err().to_string();
    assert!(error.contains("traces, traces-multi"), "{error}");
}

#[test]
fn peers_go_where_they_can() {
    let tests = args("--peer otelcol=a --peer vmagent=b").tests().unwrap();
    let peers = |wanted: Test| tests.iter().find(|test| test.test == wanted).map(|test| test.peers.len());
    assert_eq!(
        [Test::Traces, Test::Metricagent, Test::LogsFluentbit, Test::SelfMonitor].map(peers),
        [1, 2, 0, 0].map(Some)
    );
}

fn figures(system: &str, accepted_per_s: f64) -> Figures {
    let row = json!({"system": system, "scenario": "traces", "accepted_per_s": accepted_per_s, "cpu_cores": 0.5});
    row.as_object().cloned().unwrap()
}

fn ended(scenario: &str, rows: Vec<Figures>, failures: &[&str]) -> Ended {
    let outcome = Outcome {
        scenario: scenario.to_owned(),
        text: String::new(),
        result: None,
        rows,
        series: serde_json::Value::Null,
        section: Section::default(),
        failures: failures.iter().map(|failure| (*failure).to_owned()).collect(),
        error: None,
    };
    Ended { test: Test::Traces, scenario: scenario.to_owned(), load: String::new(), seconds: 63.0, outcome }
}

#[test]
fn a_line_says_how_a_test_went() {
    let passed = progress_line(&ended("traces", vec![figures("weir", 5.0)], &[]), 3, 20);
    assert_eq!(passed, "[ 3/20] traces: passed in 63 s: 5/s accepted, 0.50 cores\n");
    let failed = progress_line(&ended("traces", vec![figures("weir", 5.0)], &["3 lost"]), 20, 20);
    assert_eq!(failed, "[20/20] traces: FAILED in 63 s: 5/s accepted, 0.50 cores\n    3 lost\n");
}

#[test]
fn versions_stand_below_each_other() {
    let environment = |version: &str| Environment { version: version.to_owned(), ..Environment::default() };
    let before = Environment { started: "2026-01-02T03:04:05Z".to_owned(), ..environment("0.1.0") };
    let earlier = [Entry { rows: vec![figures("weir", 7.0)], ..Entry::new("load test", "traces", before) }];
    let now = [
        ended("traces", vec![figures("weir", 9.0), figures("otelcol", 3.0)], &[]),
        ended("traces-multi", vec![figures("weir", 8.0)], &[]),
    ];
    let table = versions::tables(&now, &earlier, &environment("0.2.0")).unwrap().remove(0);
    let rows: Vec<(&str, &str, &str)> =
        table.rows.iter().map(|row| (row.cells[0].as_str(), row.cells[1].as_str(), row.cells[5].as_str())).collect();
    assert_eq!(
        rows[..3],
        [("weir 0.2.0, now", "9", "8"), ("otelcol, now", "3", ""), ("weir 0.1.0, 2026-01-02", "7", "")]
    );
    assert_eq!(rows[3], ("published: Collector 0.158.0", "24378", "16780"));
    assert_eq!((rows.len(), table.groups.len(), table.header.len()), (6, 2, 9));
    let overview = overview::table(&now);
    assert_eq!(overview.rows[1].cells[0], "traces, otelcol");
}
