//! Which tests there are, and what the page says of them, from made-up outcomes.

use clap::Parser;
use serde_json::json;

use super::super::prepared::beside_versions;
use super::*;
use crate::report::Table;
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

/// The matrix of the load-test kit, which calls the metric agent `metrics-agent` and the first test of Fluent Bit `logs`;
/// and the log agent, of which it has no automated test.
#[test]
fn everything_that_was_published_is_tested() {
    let each =
        |test: &str| ["", "-multi", "-backpressure", "-multi-backpressure"].map(|suffix| format!("{test}{suffix}"));
    let matrix = ["traces", "metrics", "logs-fluentbit"].map(each).concat();
    let others = ["metricagent", "metricagent-backpressure", "self-monitor", "logs-otel", "logs-otel-batch"];
    let all = names("");
    for name in matrix.into_iter().chain(others.map(str::to_owned)).chain(each("logagent")) {
        assert!(all.contains(&name), "{name}: {all:?}");
    }
    assert_eq!(all.len(), 21, "nobody published more: {all:?}");
    assert_eq!(names("--only traces --only metricagent*"), ["traces", "metricagent", "metricagent-backpressure"]);
    assert_eq!(names("--only logs-otel"), ["logs-otel"], "a name is a whole one");
    let error = args("--only nothing").tests().unwrap_err().to_string();
    assert!(error.contains("traces, traces-multi"), "{error}");
}

#[test]
fn the_log_gateway_is_tested_in_both_setups() {
    let tests = args("--only logs-otel*").tests().unwrap();
    let setups: Vec<_> = tests.iter().map(|test| (test.overlay, test.connections())).collect();
    assert_eq!(setups, [(Some(Overlay::Base), 80), (Some(Overlay::Batch), 80)]);
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

/// One of another test, with a row of Weir.
fn ended_of(test: Test, scenario: &str, row: serde_json::Value) -> Ended {
    let rows = vec![row.as_object().cloned().unwrap()];
    Ended { test, load: "2000 producers; points".to_owned(), ..ended(scenario, rows, &[]) }
}

fn environment(version: &str) -> Environment {
    Environment { version: version.to_owned(), ..Environment::default() }
}

/// The table of these tests, which nobody ran before.
fn table_of(ended: &[Ended]) -> Table {
    let mut tables = versions::tables(ended, &[], &environment("0.2.0")).unwrap();
    assert_eq!(tables.len(), 1);
    tables.remove(0)
}

/// The cells of a row behind its name.
fn cells<'a>(table: &'a Table, name: &str) -> Vec<&'a str> {
    let row = table.rows.iter().find(|row| row.cells[0] == name);
    let row = row.unwrap_or_else(|| panic!("{name}: {:?}", table.rows));
    row.cells[1..].iter().map(String::as_str).collect()
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
    let before = Environment { started: "2026-01-02T03:04:05Z".to_owned(), ..environment("0.1.0") };
    let rows = vec![figures("weir", 7.0)];
    let earlier = [Entry { passed: true, rows, ..Entry::new("load test", "traces", before) }];
    let now = [
        ended("traces", vec![figures("weir", 9.0), figures("otelcol", 3.0)], &[]),
        ended("traces-multi", vec![figures("weir", 8.0)], &[]),
    ];
    let table = versions::tables(&now, &earlier, &environment("0.2.0")).unwrap().remove(0);
    let rows: Vec<(&str, &str, &str)> =
        table.rows.iter().map(|row| (row.cells[0].as_str(), row.cells[1].as_str(), row.cells[7].as_str())).collect();
    assert_eq!(
        rows[..3],
        [("weir 0.2.0, now", "9", "8"), ("otelcol, now", "3", ""), ("weir 0.1.0, 2026-01-02", "7", "")]
    );
    assert_eq!(rows[3], ("published: Collector 0.158.0", "24378", "16780"));
    let published: Vec<&str> = rows[3..].iter().map(|(name, ..)| *name).collect();
    let newest = ["Collector 0.158.0", "Collector 0.157.0", "Collector 0.156.0", "expected, about"];
    assert_eq!(published, newest.map(|name| format!("published: {name}")));
    assert_eq!(rows[6], ("published: expected, about", "20000", "13000"));
    assert!(table.rows.iter().all(|row| row.cells.len() == table.header.len()), "{:?}", table.rows);
    assert_eq!(table.groups.iter().map(|(_, columns)| *columns).collect::<Vec<_>>(), [6, 6]);
    let overview = overview::table(&now);
    assert_eq!(overview.rows[1].cells[0], "traces, otelcol");
}

#[test]
fn a_table_has_the_columns_of_the_published_pages() {
    let row = |scenario: &str, more: serde_json::Value| {
        let mut row = json!({"system": "weir", "scenario": scenario, "accepted_per_s": 1333.4, "exported_per_s": 1333.3,
            "queue_size": 3_145_728.0, "memory_mb_avg": 40.0, "cpu_cores": 0.25});
        row.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        row
    };
    let metrics = ended_of(Test::Metrics, "metrics", row("metrics", json!({})));
    let table = table_of(&[metrics]);
    assert_eq!(table.header, ["version", "accepted/s", "exported/s", "queue", "MB", "CPU", "restarts"]);
    assert_eq!(cells(&table, "weir 0.2.0, now"), ["1333", "1333", "3.0 MiB", "40", "0.25", "0"]);
    assert_eq!(cells(&table, "published: Collector 0.158.0"), ["5722", "5722", "1", "277", "1.60", ""]);
    assert!(table.title.contains("offered: 2000 producers; published"), "{}", table.title);
    let killed = table_of(&[ended_of(Test::Metrics, "metrics", row("metrics", json!({"kills": 3})))]);
    assert_eq!(cells(&killed, "weir 0.2.0, now")[5], "3");
    let base = ended_of(Test::LogsOtel, "logs-otel", row("logs-otel", json!({})));
    let batch = ended_of(Test::LogsOtel, "logs-otel-batch", row("logs-otel-batch", json!({"queue_size": 0.0})));
    let table = table_of(&[base, batch]);
    assert_eq!(table.groups, [("one pipeline".to_owned(), 6), ("one pipeline, batch".to_owned(), 6)]);
    let published = ["7193", "7195", "16824", "826", "2.50", "0, generator 1"];
    let gathered = ["16428", "16427", "0", "265", "3.00", "0, generator 1"];
    assert_eq!(cells(&table, "published: Collector 0.105.0"), [published, gathered].concat());
    assert_eq!([2, 8].map(|column| cells(&table, "weir 0.2.0, now")[column]), ["3.0 MiB", "0.0 MiB"]);
}

#[test]
fn agents_of_logs_have_what_goes_through_in_bytes() {
    let row = json!({"system": "weir", "scenario": "logs-fluentbit", "accepted_per_s": 100.0, "exported_per_s": 64.0,
        "queue_size": 0.0, "input_mb": 10.24, "duration_s": 10.0, "wire_bytes_per_item": 800.0});
    let table = table_of(&[ended_of(Test::LogsFluentbit, "logs-fluentbit", row)]);
    assert_eq!(table.header[1..3], ["KB/s in", "KB/s out"]);
    assert_eq!(cells(&table, "weir 0.2.0, now")[..5], ["1000", "50", "100", "64", "0.0 MiB"]);
    let published = ["8942", "32328", "25733", "25737", "18.5 MiB", "221", "1.80", ""];
    assert_eq!(cells(&table, "published: Fluent Bit 5.1.0, sum of 2 nodes"), published);
}

#[test]
fn the_report_of_a_self_monitor_has_it_beside_the_version_before_and_what_was_published() {
    let row = |series: u32| {
        let row = json!({"system": "weir", "scenario": "self-monitor", "series": series});
        row.as_object().cloned().unwrap()
    };
    let of = |version: &str| Environment { load: "9 pipelines".to_owned(), ..environment(version) };
    let rows = vec![row(380)];
    let earlier = [Entry { passed: true, rows, ..Entry::new("load test", "self-monitor", of("0.1.0")) }];
    let outcome = ended("self-monitor", vec![row(370)], &[]).outcome;
    let outcome = beside_versions(outcome, &of("0.2.0"), &earlier).unwrap();
    let [table] = outcome.section.tables.as_slice() else { panic!("{:?}", outcome.section.tables) };
    assert_eq!(cells(table, "weir 0.2.0, now")[1], "370");
    assert_eq!(cells(table, "weir 0.1.0, ")[1], "380");
    assert_eq!(cells(table, "published: self monitor 3.11.3")[1], "133");
}

#[test]
fn the_self_monitor_has_a_table_of_its_own_figures() {
    let row = json!({"system": "weir", "scenario": "self-monitor", "samples_per_s": 12.34, "series": 370,
        "memory_mb_avg": 30.0, "cpu_cores": 0.05, "told_s_max": 20.0, "over_s_max": 31.5, "false_alarms": 0});
    let table = table_of(&[ended_of(Test::SelfMonitor, "self-monitor", row)]);
    assert_eq!(table.header[1..5], ["samples/s", "series", "MB", "CPU"]);
    assert_eq!(cells(&table, "weir 0.2.0, now"), ["12.3", "370", "30", "0.05", "20.0", "31.5", "0"]);
    assert_eq!(cells(&table, "published: self monitor 3.11.3")[..4], ["25.0", "133", "50", "0.00"]);
    assert_eq!(cells(&table, "published: expected, about")[..2], ["15 to 22", "200 to 350"]);
    assert!(!table.title.contains("offered"), "{}", table.title);
}
