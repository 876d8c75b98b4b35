//! The ports for those who run the gateway: who may see what, and that nobody keeps them from it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::sink::sink;
use weir_testkit::{eventually, http, in_time, payload};

use crate::process::{Weir, manifest, run};

/// Of Linux: an end of a pipe is opened only if there is the other.
const O_NONBLOCK: i32 = 0o4000;

/// The page of a process: the same on both ports, and telemetry on one of them alone.
#[tokio::test]
async fn the_page_and_what_it_asks_for_is_there() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("backend", sink.grpc), &[]).await;
    let answer = Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 1, 10)).await;
    assert_eq!(answer.code, OK);
    let admin = weir.logged("ready").unwrap()["admin"].as_str().unwrap().parse().unwrap();
    for port in [weir.metrics, admin] {
        for (path, kind) in [
            ("/", "text/html"),
            ("/page.js", "text/javascript"),
            ("/taps.js", "text/javascript"),
            ("/page.css", "text/css"),
        ] {
            let file = http::get(port, path).await;
            assert_eq!(file.status, 200, "{path}");
            assert!(file.header("content-type").starts_with(kind), "{path}");
        }
        let nothing = http::get(port, "/page.jsx").await;
        assert_eq!((nothing.status, nothing.header("content-type")), (404, "text/plain; charset=utf-8"));
    }
    assert_eq!(http::get(weir.metrics, "/rejected").await.status, 404, "telemetry is not for everybody");
    assert_eq!(http::get(admin, "/rejected").await.status, 200);
    let ask = async |path: &str| serde_json::from_str::<Value>(&http::get(weir.metrics, path).await.text()).unwrap();
    eventually("it is delivered", async || ask("/api/now").await["pipelines"][0]["books"]["delivered"] == 1).await;
    let now = ask("/api/now").await;
    let line = &now["pipelines"][0];
    assert_eq!((&line["pipeline"], &line["backend"]["state"]), (&json!("traces/backend"), &json!("ok")));
    assert_eq!((&line["books"]["accepted"], &line["books"]["difference"]), (&json!(1), &json!(0)));
    has_numbers_that_add_up(&now);
    eventually("the hour has begun", async || {
        let past = ask("/api/history?pipeline=traces/backend").await;
        let points = past["pipelines"][0]["points"].as_array().cloned().unwrap_or_default();
        points.iter().map(|point| point[1].as_u64().unwrap()).sum::<u64>() <= 1 && points.len() > 1
    })
    .await;
    let past = ask("/api/history?pipeline=traces%2Fbackend&since=1970-01-01T00%3A00%3A00Z").await;
    assert_eq!((&past["step_seconds"], &past["pipelines"][0]["pipeline"]), (&json!(1), &json!("traces/backend")));
    for (query, status, words) in [
        ("pipeline=traces/other", 404, r#"there is no history of a pipeline "traces/other""#),
        ("since=abc", 400, r#"since must be a time such as 2026-09-21T14:14:10Z, not "abc""#),
        ("sinse=2", 400, r#"there is no parameter "sinse": this path takes since and pipeline"#),
    ] {
        let answer = http::get(weir.metrics, &format!("/api/history?{query}")).await;
        let error: Value = serde_json::from_str(&answer.text()).unwrap();
        assert!(answer.status == status && error["error"].as_str().unwrap().starts_with(words), "{error}");
    }
    let later = ask("/api/history?since=9999-01-01T00:00:00Z").await;
    assert_eq!(later["pipelines"][0]["points"], json!([]));
    let since = ask(&format!("/api/history?since={}", past["ends_at"].as_str().unwrap())).await;
    assert!(since["pipelines"][0]["points"].is_array(), "the time of an answer is one to ask for: {since}");
    let times = [&past["ends_at"], &now["at"], &now["configuration"]["taken_up_at"], &line["last_taken_at"]];
    for time in times.map(|time| time.as_str().unwrap()) {
        let seconds = time.parse::<jiff::Timestamp>().unwrap().as_second();
        assert!(seconds > 1_700_000_000 && time.ends_with('Z'), "{time} of {now}");
    }
}

/// What is said of the memory, and of what would be refused.
fn has_numbers_that_add_up(now: &Value) {
    let memory = &now["memory"];
    let (parts, admission) = (memory["parts"].as_array().unwrap(), &memory["admission"]);
    let bytes = |of: &Value, field: &str| of[format!("{field}_bytes")].as_u64().unwrap();
    let [aside, used, free, fits] = ["set_aside", "used", "free", "fits"].map(|field| bytes(admission, field));
    assert_eq!(aside + used + free, memory["total_bytes"], "{memory}");
    assert_eq!(used + free, parts[0]["bytes"], "{memory}");
    let holders = memory["payload_holders"].as_array().unwrap();
    assert!(holders.iter().any(|of| of["holder"] == "clients"), "{memory}");
    assert_eq!(holders.iter().map(|of| bytes(of, "used")).sum::<u64>(), used, "{memory}");
    assert!(parts.len() > 3 && fits * admission["copies"].as_u64().unwrap() <= free, "{memory}");
    let limits = ["configured", "memory", "share"].map(|limit| bytes(&admission["limits"], limit));
    assert_eq!(limits.into_iter().min().unwrap(), bytes(admission, "largest"), "{memory}");
    assert!(admission["limits"]["read_back_bytes"].is_null(), "there is no data directory");
    assert_eq!((&admission["refused"], &now["refused_requests"]["no_memory"]), (&Value::Null, &json!(0)));
}

/// A file that is never read to its end, as on a file system that hangs.
#[tokio::test]
async fn a_configuration_that_cannot_be_read_keeps_no_signal_from_being_heard() {
    let sink = sink("{}").await;
    let mut weir = Weir::start(&manifest("backend", sink.grpc), &[]).await;
    let pipe = weir.hang();
    // From now on it waits for what is written.
    let writer = opened(&pipe).await;
    let answer = Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 1, 10)).await;
    assert_eq!(answer.code, OK, "requests are served meanwhile: {answer:?}");
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    drop(writer);
}

/// The same before there is a gateway: the signal is heard, whatever number the process has.
#[tokio::test]
async fn a_start_that_hangs_is_ended_by_a_signal() {
    let directory = tempfile::TempDir::new().unwrap();
    let pipe = directory.path().join("pipelines.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = run(&pipe).arg("--no-data-dir").spawn().unwrap();
    let writer = opened(&pipe).await;
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(in_time("the end", child.wait()).await.unwrap().code(), Some(0));
    drop(writer);
}

/// The end of a pipe to write to, as soon as somebody reads from it.
async fn opened(pipe: &Path) -> File {
    let mut writer = None;
    eventually("it is read", async || {
        writer = OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(pipe).ok();
        writer.is_some()
    })
    .await;
    writer.unwrap()
}
