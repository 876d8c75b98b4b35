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
    let directory = TempDir::new().unwrap();
    let output = directory.path().display().to_string();
    let all = [&["loadtest", "-d", "1", "--warmup", "0", "-o", &output], arguments].concat();
    let ended = command(&all).output().await.unwrap();
    let text = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{arguments:?}: {text}");
    let result = std::fs::read(directory.path().join("result.json")).unwrap();
    serde_json::from_slice(&result).unwrap()
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

#[tokio::test]
async fn a_matrix_has_a_row_for_each_number_of_clients() {
    let rows = loadtest(&["-t", "logs", "--scenario", "matrix", "--rate", "50", "--batch", "5", "-s", "100"]).await;
    assert_eq!(rows.len(), 9);
    let accepted = |row: &Value| row["accepted"].as_u64().unwrap();
    assert!(accepted(&rows[8]) > 20 * accepted(&rows[0]), "a hundred clients against one: {rows:?}");
}
