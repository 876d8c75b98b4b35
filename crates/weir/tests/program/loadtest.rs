//! `weir loadtest` as its users see it, as short as it can be: every signal and every kind of processing goes through the
//! gateway, and the judge finds nothing to complain about.
//!
//! Its exit code is the verdict: nothing lost, nothing leaked, everything done that was to be done.

use serde_json::Value;
use tempfile::TempDir;

use crate::process::command;

/// Gently, to a gateway that was not built for speed, beside other tests.
const GENTLY: [&str; 4] = ["-r", "2000", "-c", "4"];

/// Runs a load test and returns the rows of its result.
async fn loadtest(arguments: &[&str]) -> Vec<Value> {
    serde_json::from_value(result(arguments).await).unwrap()
}

/// Runs a load test and returns its result.
async fn result(arguments: &[&str]) -> Value {
    let (result, _) = result_and_report(arguments).await;
    result
}

/// Runs a load test and returns its result, and its page.
async fn result_and_report(arguments: &[&str]) -> (Value, String) {
    let directory = TempDir::new().unwrap();
    // The history goes beside the results.
    let results = directory.path().join("results");
    let output = results.display().to_string();
    let all = [&["loadtest", "-d", "1", "--warmup", "0", "-o", &output], arguments].concat();
    let ended = command(&all).output().await.unwrap();
    let text = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{arguments:?}: {text}");
    let text = |name: &str| std::fs::read_to_string(results.join(name)).unwrap();
    (serde_json::from_str(&text("result.json")).unwrap(), text("report.html"))
}

#[tokio::test]
async fn every_signal_goes_through_and_is_counted() {
    for (test, batch) in [("traces", "100"), ("metrics", "20"), ("logs-otel", "100")] {
        let rows = loadtest(&[&["-t", test, "--batch", batch, "-m"], &GENTLY[..]].concat()).await;
        let row = &rows[0];
        assert_eq!(row["scenario"], format!("{test}-multi"), "{row}");
        let accepted = row["accepted"].as_u64().unwrap();
        assert!(accepted >= 1000, "{row}");
        assert_eq!((&row["exported"], &row["lost"]), (&(3 * accepted).into(), &0.into()), "{row}");
    }
}

#[tokio::test]
async fn every_processing_is_done_and_seen() {
    for (test, processing) in [
        ("logs-otel", "filter97"),
        ("traces", "filter97"),
        ("traces", "enrich"),
        ("metrics", "insert"),
        ("metrics", "rename4"),
    ] {
        let rows = loadtest(&[&["-t", test, "--batch", "50", "--processing", processing], &GENTLY[..]].concat()).await;
        let row = &rows[0];
        let (accepted, exported) = (row["accepted"].as_u64().unwrap(), row["exported"].as_u64().unwrap());
        if processing == "filter97" {
            assert_eq!(row["leaked"], 0, "{row}");
            assert!(exported > 0 && exported < accepted / 20, "{row}");
        } else {
            assert_eq!((exported, &row["leaked"]), (accepted, &Value::Null), "{row}");
        }
    }
}

#[tokio::test]
async fn what_containers_print_is_read_and_counted() {
    for scenario in [
        &["-m"][..],
        &["--scenario", "rotation", "--outage", "refused"],
        &["--scenario", "restart", "--kill-every", "400ms"],
        &["--scenario", "crash", "--kill-every", "400ms"],
        &["--scenario", "short-pods"],
    ] {
        let rows = loadtest(&[&["-t", "logagent"], scenario, &GENTLY].concat()).await;
        let row = &rows[0];
        let accepted = row["accepted"].as_u64().unwrap();
        let sinks = if scenario == ["-m"] { 3 } else { 1 };
        assert!(accepted >= 1000, "{row}");
        assert_eq!((&row["exported"], &row["lost"]), (&(sinks * accepted).into(), &0.into()), "{row}");
        assert_eq!((&row["damaged"], &row["deleted_unread"]), (&0.into(), &0.into()), "{row}");
    }
}

#[tokio::test]
async fn what_containers_print_is_counted_in_the_records_of_fluent_bit() {
    for (scenario, sinks) in [
        (&["-m"][..], 3),
        (&["-b", "--format", "json_lines", "--compression", "gzip"], 1),
        (&["--format", "json_stream"], 1),
        (&["--format", "msgpack", "--compression", "gzip"], 1),
        (&["--format", "gelf"], 1),
        (&["--scenario", "rotation", "--outage", "refused"], 1),
        (&["--scenario", "crash", "--kill-every", "400ms"], 1),
    ] {
        let rows = loadtest(&[&["-t", "logs-fluentbit"], scenario, &GENTLY].concat()).await;
        let row = &rows[0];
        let accepted = row["accepted"].as_u64().unwrap();
        assert!(accepted >= 1000, "{row}");
        assert_eq!((&row["exported"], &row["lost"]), (&(sinks * accepted).into(), &0.into()), "{row}");
        assert_eq!((&row["damaged"], &row["deleted_unread"]), (&0.into(), &0.into()), "{row}");
    }
}

/// Two targets with two hundred series of all types.
const PAGES: [&str; 8] = [
    "-t",
    "metricagent",
    "--targets",
    "2",
    "--scrape-interval",
    "500ms",
    "--page-arg=--metrics=20",
    "--page-arg=--types=gauge,counter,histogram,summary",
];

#[tokio::test]
async fn what_targets_serve_is_scraped_and_counted() {
    for (scenario, sinks) in [
        (&["-m", "--page-arg=--churn=10"][..], 3),
        (&["--page-arg=--format=openmetrics"], 1),
        (&["--scenario", "outage"], 1),
        (&["--page-arg=--fault-503=20", "--page-arg=--hang=20", "--compression", "zstd"], 1),
    ] {
        let rows = loadtest(&[&PAGES[..], scenario].concat()).await;
        let row = &rows[0];
        // A page is 950 samples; one that was cut may have arrived as well.
        let (accepted, exported) = (row["accepted"].as_u64().unwrap(), row["exported"].as_u64().unwrap());
        assert!(accepted >= 950 && accepted == 950 * row["scrapes"].as_u64().unwrap(), "{row}");
        assert!(exported >= sinks * accepted && exported % 950 == 0, "{row}");
        for nothing in ["lost", "duplicated", "scrapes_lost", "scrapes_torn", "damaged"] {
            assert_eq!(row[nothing], 0, "{nothing}: {row}");
        }
    }
}

/// The published back-pressure: what is read meanwhile arrives when the backends are well.
#[tokio::test]
async fn pages_wait_for_backends_that_take_nothing() {
    for (more, name) in [(&["-m"][..], "metricagent-multi-backpressure"), (&[], "metricagent-backpressure")] {
        let rows = loadtest(&[&PAGES[..], &["-b"], more].concat()).await;
        let row = &rows[0];
        assert_eq!((&row["scenario"], &row["exported_per_s"]), (&name.into(), &0.0.into()), "{row}");
        let sinks = if more.is_empty() { 1 } else { 3 };
        let (accepted, exported) = (row["accepted"].as_u64().unwrap(), row["exported"].as_u64().unwrap());
        assert!(accepted >= 950 && exported >= sinks * accepted, "{row}");
        for nothing in ["lost", "pending", "duplicated", "scrapes_lost", "scrapes_torn", "damaged"] {
            assert_eq!(row[nothing], 0, "{nothing}: {row}");
        }
    }
}

/// In an outage of three seconds, four targets have ten times as much to say as the backlog may keep.
#[tokio::test]
async fn the_judge_sees_pages_that_are_lost() {
    let pages = ["--targets", "4", "--page-arg=--metrics=200", "--scrape-interval", "500ms", "--warmup", "0"];
    let hardly = ["--scenario", "outage", "-d", "6", "--annotation", "weir.dev/backlog-max-bytes=1Mi"];
    let ended = command(&[&["loadtest", "-t", "metricagent"][..], &pages, &hardly].concat()).output().await.unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(!ended.status.success() && text.contains("pages that it read to the end are lost"), "{text}");
}

#[tokio::test]
async fn a_matrix_has_a_row_for_each_number_of_clients() {
    let rows = loadtest(&["-t", "logs", "--scenario", "matrix", "--rate", "50", "--batch", "5", "-s", "100"]).await;
    assert_eq!(rows.len(), 9);
    let accepted = |row: &Value| row["accepted"].as_u64().unwrap();
    assert!(accepted(&rows[8]) > 20 * accepted(&rows[0]), "a hundred clients against one: {rows:?}");
}

/// The monitor looks ten times as often as usual, so everything is told ten times as fast.
#[tokio::test]
async fn troubles_are_told_and_nothing_else() {
    let (report, page) = result_and_report(&["-t", "self-monitor", "--weir-arg=--look-every=500ms"]).await;
    assert_eq!((&report["pipelines"], &report["false_alarms"]), (&Value::from(9), &Value::Array(Vec::new())));
    let troubles = report["troubles"].as_array().unwrap();
    assert_eq!(troubles.len(), 4);
    let are_told = |trouble: &Value| trouble["told_seconds"].as_object().is_some_and(|told| told.len() == 3);
    assert!(troubles.iter().all(are_told), "{report}");
    for said in [">told after</th>", ">samples/s</th>", ", now</th>", ">published: self monitor "] {
        assert!(page.contains(said), "{said}");
    }
}
