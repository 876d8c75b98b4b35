//! A disk that gives back other bytes than were written: what is readable is delivered, what is not is counted, and
//! somebody is told.

use std::path::Path;

use rustix::process::Signal;
use weir_testkit::clients::{SPANS, ids, request, send_singly};
use weir_testkit::data_dir::{DataDir, find, flip};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::{arrived, closed_port, sink};

use crate::process::{Weir, command, manifest};

/// Requests in the journal, each by itself.
const REQUESTS: u64 = 30;

/// A directory that a gateway has left with its backlog in it.
async fn filled() -> DataDir {
    let dir = DataDir::new();
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "5ms"];
    let mut weir = Weir::start(&manifest("backend", closed_port().await), &arguments).await;
    send_singly(weir.grpc, 0..REQUESTS, 100).await;
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    dir
}

/// Where the payload of a request lies in a file.
fn payload_at(file: &Path, number: u64) -> u64 {
    let bytes = std::fs::read(file).unwrap();
    find(&bytes, &request(number, 100)).unwrap() as u64
}

#[tokio::test]
async fn one_damaged_request_costs_itself_and_is_reported() {
    let (dir, sink) = (filled().await, sink("{}").await);
    let file = dir.largest();
    flip(&file, payload_at(&file, 12) + 100);
    let mut weir = Weir::start(&manifest("backend", sink.grpc), &["--data-dir", dir.arg()]).await;
    Scrape::settled(weir.metrics, "backend").await;
    assert_eq!(arrived(&sink), [ids(0..12), ids(13..REQUESTS)].concat());
    let scrape = Scrape::of(weir.metrics).await;
    let books = scrape.books("backend");
    assert_eq!((books.recovered, books.dropped), (REQUESTS * SPANS, SPANS), "{books:?}");
    let counted =
        "weir_pipeline_dropped_items_total{pipeline=\"backend\",signal=\"traces\",reason=\"journal_damaged\"}";
    assert_eq!(scrape.get(counted), SPANS as f64);
    assert_eq!(scrape.get("weir_journal_damaged_items_total"), SPANS as f64);
    assert!(scrape.get("weir_journal_damaged_bytes_total") > 0.0);
    let is_damage = |line: &serde_json::Value| line["message"].as_str().unwrap().contains("damaged");
    assert!(weir.logs().iter().any(|line| line["level"] == "ERROR" && is_damage(line)), "{:?}", weir.logs());
    dir.becomes_empty().await;
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
}

/// Somebody takes a file of the journal: what was in it is damage with an amount, for the tool and for the next start.
#[tokio::test]
async fn a_segment_that_is_gone_is_reported() {
    let (dir, sink) = (filled().await, sink("{}").await);
    std::fs::remove_file(dir.largest()).unwrap();
    let amount = format!("{REQUESTS} entries, {} items): the file is gone", REQUESTS * SPANS);
    let verify = command(&["journal", "verify", dir.arg()]).output().await.unwrap();
    let said = String::from_utf8(verify.stdout).unwrap();
    assert!(verify.status.code() == Some(1) && said.contains(&amount), "{said}");

    let weir = Weir::start(&manifest("backend", sink.grpc), &["--data-dir", dir.arg()]).await;
    let scrape = Scrape::of(weir.metrics).await;
    assert_eq!(scrape.get("weir_journal_damaged_items_total"), (REQUESTS * SPANS) as f64);
    assert!(scrape.get("weir_journal_damaged_bytes_total") > 0.0);
    let is_told = |line: &serde_json::Value| line["message"].as_str().unwrap().contains(&amount);
    assert!(weir.logs().iter().any(|line| line["level"] == "ERROR" && is_told(line)), "{:?}", weir.logs());
}
