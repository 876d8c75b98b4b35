//! `export`.

use std::io::{BufRead, BufReader};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde_json::Value;
use weir_testkit::payload;

use super::directory::{DataDir, Ended, command};

fn three_entries() -> DataDir {
    let mut dir = DataDir::new(1 << 20);
    dir.append(&["traces/a", "traces/b"], 30);
    dir.append(&["traces/b"], 20);
    dir.append(&["traces/a"], 10);
    dir
}

/// The ids of the spans in JSON lines, and how many lines there are.
fn json_ids(ended: &Ended) -> (usize, Vec<u64>) {
    let mut ids = Vec::new();
    for line in ended.text().lines() {
        let request: Value = serde_json::from_str(line).unwrap();
        let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        ids.extend(spans.iter().map(|span| u64::from_str_radix(span["spanId"].as_str().unwrap(), 16).unwrap()));
    }
    (ended.text().lines().count(), ids)
}

/// The requests in a stream of protobuf.
fn requests(mut stream: &[u8]) -> Vec<ExportTraceServiceRequest> {
    let mut requests = Vec::new();
    while !stream.is_empty() {
        requests.push(ExportTraceServiceRequest::decode_length_delimited(&mut stream).unwrap());
    }
    requests
}

#[test]
fn json_lines_hold_what_the_pipeline_is_owed_oldest_first() {
    let dir = three_entries();
    for name in ["a", "traces/a"] {
        let ended = dir.weir("export", &["--pipeline", name]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert_eq!(json_ids(&ended), (2, (1..=10).chain(21..=30).collect()));
        assert!(ended.err.contains("exported") && ended.err.contains("items=20"), "{}", ended.err);
    }
    assert_eq!(json_ids(&dir.weir("export", &["--pipeline", "b"])), (2, (1..=20).collect()));
}

#[test]
fn protobuf_comes_out_as_it_went_in() {
    let dir = three_entries();
    let ended = dir.weir("export", &["--pipeline", "b", "--format", "protobuf"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(requests(&ended.out), [payload::request(1, 10, 20), payload::request(11, 10, 20)]);
}

#[test]
fn a_file_gets_the_same_and_nothing_goes_to_standard_output() {
    let dir = three_entries();
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("export");
    std::fs::write(&file, "what was there before, and was longer than nothing").unwrap();
    for format in ["json", "protobuf"] {
        let arguments = ["--pipeline", "a", "--format", format];
        let straight = dir.weir("export", &arguments);
        let ended = dir.weir("export", &[&arguments[..], &["--output", file.to_str().unwrap()]].concat());
        assert_eq!((ended.code, ended.out.len()), (Some(0), 0), "{}", ended.err);
        assert!(std::fs::read(&file).unwrap() == straight.out);
    }
}

#[test]
fn a_device_is_a_file_too() {
    let ended = three_entries().weir("export", &["--pipeline", "a", "--output", "/dev/null"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let dir = three_entries();
    for output in ["/no/such/directory/export.json", "/dev/full"] {
        let ended = dir.weir("export", &["--pipeline", "a", "--output", output]);
        assert_eq!(ended.code, Some(1));
        assert!(ended.err.contains("cannot") && ended.err.contains(output), "{}", ended.err);
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut dir = DataDir::new(32 << 20);
    // Far more than a pipe holds.
    for _ in 0..2000 {
        dir.append(&["traces/a"], 0);
    }
    for format in ["json", "protobuf"] {
        let mut child = command("export", dir.path(), &["--pipeline", "a", "--format", format]).spawn().unwrap();
        let mut reader = BufReader::with_capacity(100, child.stdout.take().unwrap());
        assert!(!reader.fill_buf().unwrap().is_empty());
        drop(reader);
        let ended = child.wait_with_output().unwrap();
        let err = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), err.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_pipeline_for_which_nothing_waits_is_told_which_there_are() {
    let dir = three_entries();
    for name in ["c", "traces/c", "trace/a", "", "/a"] {
        let ended = dir.weir("export", &["--pipeline", name]);
        assert_eq!((ended.code, ended.out.len()), (Some(1), 0), "{name}");
        assert!(ended.err.contains("something waits for: traces/a, traces/b"), "{name}: {}", ended.err);
    }
    let ended = DataDir::new(1 << 20).weir("export", &["--pipeline", "a"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("or for any other"), "{}", ended.err);
}

#[test]
fn a_name_of_several_signals_needs_its_signal() {
    let mut dir = three_entries();
    dir.append(&["logs/a"], 0);
    let ended = dir.weir("export", &["--pipeline", "a"]);
    assert_eq!((ended.code, ended.out.len()), (Some(1), 0));
    assert!(ended.err.contains("write one of: logs/a, traces/a"), "{}", ended.err);
    assert_eq!(json_ids(&dir.weir("export", &["--pipeline", "traces/a"])).0, 2);

    // What is no trace has no JSON yet.
    let ended = dir.weir("export", &["--pipeline", "logs/a"]);
    assert_eq!((ended.code, ended.out.len()), (Some(1), 0));
    assert!(ended.err.contains("--format protobuf"), "{}", ended.err);
    assert_eq!(dir.weir("export", &["--pipeline", "logs/a", "--format", "protobuf"]).code, Some(0));
}

#[test]
fn what_is_damaged_is_named_and_the_rest_exported() {
    let mut dir = DataDir::new(8 << 10);
    for _ in 0..6 {
        dir.append(&["traces/a"], 0);
    }
    dir.close();
    let first = &dir.segments()[0];
    dir.damage(first, "GET /orders/1");
    let ended = dir.weir("export", &["--pipeline", "a"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(json_ids(&ended), (5, (11..=60).collect()));
    assert!(ended.err.contains(first.file_name().unwrap().to_str().unwrap()), "{}", ended.err);
    assert!(ended.err.contains("checksum") && ended.err.contains("left_out=1"), "{}", ended.err);
}

#[test]
fn what_is_no_request_is_left_out_of_json_and_told() {
    let mut dir = three_entries();
    dir.append_payload(&["traces/a"], 0, b"\x0a\x05no".to_vec());
    let ended = dir.weir("export", &["--pipeline", "a"]);
    assert_eq!((ended.code, json_ids(&ended).0), (Some(1), 2));
    assert!(ended.err.contains("not an OTLP request") && ended.err.contains("left_out=1"), "{}", ended.err);
    assert!(ended.err.contains("entries=2 items=20"), "{}", ended.err);
    let ended = dir.weir("export", &["--pipeline", "a", "--format", "protobuf"]);
    assert_eq!((ended.code, ended.out.ends_with(b"\x04\x0a\x05no")), (Some(0), true), "{}", ended.err);
}

#[test]
fn what_has_no_name_in_json_is_told() {
    let mut dir = DataDir::new(1 << 20);
    let unknown_field_31 = b"\xf8\x01\x05".to_vec();
    dir.append_payload(&["traces/a"], 0, [payload::encoded(1, 10, 20), unknown_field_31].concat());
    let ended = dir.weir("export", &["--pipeline", "a"]);
    assert_eq!((ended.code, json_ids(&ended).0), (Some(0), 1), "{}", ended.err);
    assert!(ended.err.contains("fields=1") && ended.err.contains("--format protobuf"), "{}", ended.err);
}

/// Damage that costs the pipeline nothing is told, and nothing is missing.
#[test]
fn what_is_damaged_elsewhere_is_not_missing_here() {
    let mut dir = DataDir::new(1 << 20);
    dir.append_payload(&["traces/b"], 0, b"of somebody else".to_vec());
    let first = dir.append(&["traces/a"], 0);
    dir.append(&["traces/a", "traces/b"], 0);
    dir.complete("traces/a", &first);
    dir.close();
    dir.damage(&dir.segments()[0], "of somebody else");
    dir.damage(&dir.segments()[0].with_extension("ack"), "traces/a");
    let ended = dir.weir("export", &["--pipeline", "a"]);
    assert_eq!((ended.code, json_ids(&ended)), (Some(0), (1, (21..=30).collect())), "{}", ended.err);
    assert!(ended.err.contains("left_out=0") && ended.err.contains("nothing is missing here"), "{}", ended.err);
    let ended = dir.weir("export", &["--pipeline", "b"]);
    assert_eq!((ended.code, json_ids(&ended).0), (Some(1), 1), "{}", ended.err);
    assert!(ended.err.contains("left_out=1") && ended.err.contains("checksum"), "{}", ended.err);
}
