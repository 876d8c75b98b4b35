//! A disk that takes no more: what is acknowledged is safe all the same, and what cannot be kept is not acknowledged.
//!
//! Two real ways to get there. A limit on the size of files that the process may write makes writes fail for any user
//! on any system; a small file system (`disk.rs`) is really full.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use weir_testkit::clients::{SPANS, ids, is_polite, request, send, send_all, send_singly};
use weir_testkit::data_dir::DataDir;
use weir_testkit::eventually;
use weir_testkit::grpc::{Answer, Grpc, OK};
use weir_testkit::http::{self, PROTOBUF};
use weir_testkit::metrics::{Scrape, whole};
use weir_testkit::sink::{DOWN, arrived, faults, sink};

use crate::destinations::top;
use crate::disk::{Disk, HASTY};
use crate::process::{Weir, manifest};

fn arguments(dir: &str) -> [&str; 4] {
    ["--data-dir", dir, HASTY[0], HASTY[1]]
}

/// The ids of the requests from `first` on that were answered OK; every other answer is a refusal with a hint.
fn acknowledged(first: u64, answers: &[Answer]) -> Vec<u64> {
    let mut ids = Vec::new();
    for (number, answer) in (first..).zip(answers) {
        if answer.code == OK {
            ids.extend(weir_testkit::clients::ids(number..number + 1));
        } else {
            is_polite(answer);
        }
    }
    ids
}

#[tokio::test]
async fn what_cannot_be_written_is_not_acknowledged() {
    let (dir, sick, healthy) = (DataDir::new(), sink(DOWN).await, sink("{}").await);
    let manifests = manifest("sick", sick.grpc) + &manifest("healthy", healthy.grpc);
    let weir = Weir::start(&manifests, &arguments(dir.arg())).await;
    send_all(weir.grpc, 0..20, 1000).await;

    weir.limit_files(Some(0));
    let answers = send(weir.grpc, 20..40, 1000).await;
    assert_eq!(acknowledged(20, &answers), Vec::<u64>::new(), "nobody is told OK");
    let answer = http::post(weir.http, PROTOBUF, None, &request(40, 1000)).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1, "{answer:?}");
    let grpc = &answers[0];
    assert!(grpc.message.contains("the disk is full or cannot be written to"), "{grpc:?}");
    let scrape = Scrape::of(weir.metrics).await;
    assert_eq!(scrape.get("weir_journal_failed"), 1.0);
    assert!(scrape.get("weir_journal_write_failures_total") >= 1.0);
    let failed = weir.logs().into_iter().find(|line| line["level"] == "ERROR").unwrap();
    assert!(failed["message"].as_str().unwrap().contains("cannot write to the journal"), "{failed}");
    eventually("the other backend has got it", async || {
        let arrived = arrived(&healthy);
        if ids(0..41).into_iter().all(|id| arrived.binary_search(&id).is_ok()) {
            return true;
        }
        // What is refused before it has left, for one backend as for the other, is sent again by its client.
        send(weir.grpc, 20..41, 1000).await;
        false
    })
    .await;
    let books = scrape.books("sick");
    assert_eq!((books.accepted, books.dropped), (20 * SPANS, 0), "what was acknowledged is kept");

    weir.limit_files(None);
    let client = Grpc::connect(weir.grpc).await;
    eventually("the journal is back", async || {
        let answer = client.export(&request(41, 1000)).await;
        answer.code == OK
    })
    .await;
    assert_eq!(Scrape::of(weir.metrics).await.get("weir_journal_failed"), 0.0);
    weir.kill().await;

    sick.set_faults(faults("{}"));
    let weir = Weir::start(&manifests, &arguments(dir.arg())).await;
    eventually("everything acknowledged arrives", async || {
        let arrived = arrived(&sick);
        ids(0..20).into_iter().chain(ids(41..42)).all(|id| arrived.binary_search(&id).is_ok())
    })
    .await;
    Scrape::settled(weir.metrics, "sick").await;
    dir.becomes_empty().await;
}

/// Where not even the pid of the process can be written down.
#[tokio::test]
async fn a_full_disk_keeps_nobody_from_starting() {
    let (dir, sink) = (DataDir::new(), sink("{}").await);
    let full = ["sh", "-c", "ulimit -S -f 0; exec \"$0\" \"$@\""];
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "60s"];
    let weir = Weir::start_under(&full, &manifest("backend", sink.grpc), &arguments).await;
    send_all(weir.grpc, 0..5, 100).await;
    assert_eq!(arrived(&sink), ids(0..5), "what its backend takes in time needs no disk");
}

/// Ready means that a request would be taken.
#[tokio::test]
async fn without_a_disk_and_a_backend_it_is_not_ready() {
    let (dir, sick, other) = (DataDir::new(), sink(DOWN).await, sink(DOWN).await);
    let manifests = manifest("sick", sick.grpc) + &manifest("other", other.grpc);
    let weir = Weir::start(&manifests, &arguments(dir.arg())).await;
    send_all(weir.grpc, 0..10, 1000).await;
    assert_eq!(http::get(weir.health, "/").await.status, 200);
    weir.limit_files(Some(0));
    assert_eq!(acknowledged(10, &send(weir.grpc, 10..11, 1000).await), Vec::<u64>::new());
    let health = http::get(weir.health, "/").await;
    assert_eq!((health.status, health.text().as_str()), (503, "{\"status\":\"refusing\"}\n"));

    other.set_faults(faults("{}"));
    eventually("a backend that takes everything is enough", async || {
        // With the disk still failing.
        acknowledged(11, &send(weir.grpc, 11..12, 1000).await);
        assert_eq!(Scrape::of(weir.metrics).await.get("weir_journal_failed"), 1.0);
        http::get(weir.health, "/").await.status == 200
    })
    .await;

    other.set_faults(faults(DOWN));
    weir.limit_files(None);
    let client = Grpc::connect(weir.grpc).await;
    eventually("the journal is back", async || client.export(&request(12, 1000)).await.code == OK).await;
    assert_eq!(http::get(weir.health, "/").await.status, 200);
}

/// The journal is not needed while backends take everything.
#[tokio::test]
async fn healthy_backends_do_not_need_the_disk() {
    let (dir, sink) = (DataDir::new(), sink("{}").await);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "60s"];
    let weir = Weir::start(&manifest("backend", sink.grpc), &arguments).await;
    weir.limit_files(Some(0));
    send_all(weir.grpc, 0..50, 100).await;
    assert_eq!(arrived(&sink), ids(0..50));
    assert_eq!(Scrape::of(weir.metrics).await.get("weir_journal_write_failures_total"), 0.0);
}

/// Writes that end in the middle of a group, again and again: each is either whole or was never acknowledged.
#[tokio::test]
async fn writes_cut_short_by_the_disk_are_not_acknowledged() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let manifest = manifest("backend", sink.grpc);
    let weir = Weir::start(&manifest, &arguments(dir.arg())).await;
    weir.limit_files(Some(100_000));
    let mut kept = acknowledged(0, &send(weir.grpc, 0..60, 1000).await);
    assert!(!kept.is_empty(), "something fits");
    weir.limit_files(Some(300_001));
    kept.extend(acknowledged(60, &send(weir.grpc, 60..120, 3000).await));
    let failures = Scrape::of(weir.metrics).await.get("weir_journal_write_failures_total");
    assert!(failures >= 2.0, "{failures}");
    weir.kill().await;

    sink.set_faults(faults("{}"));
    let weir = Weir::start(&manifest, &arguments(dir.arg())).await;
    Scrape::settled(weir.metrics, "backend").await;
    let arrived = arrived(&sink);
    let missing: Vec<u64> = kept.into_iter().filter(|id| arrived.binary_search(id).is_err()).collect();
    assert_eq!(missing, Vec::<u64>::new(), "acknowledged and lost");
    assert_eq!(Scrape::of(weir.metrics).await.books("backend").dropped, 0);
    dir.becomes_empty().await;
}

/// Takes all the room that is left.
fn fill(dir: &Path) -> PathBuf {
    let path = dir.join("somebody else's");
    let mut file = std::fs::File::create(&path).unwrap();
    let block = vec![1; 1 << 16];
    while file.write(&block).is_ok_and(|written| written > 0) {}
    path
}

/// The backlog that is too large for the disk loses its oldest; nobody else notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_larger_than_the_disk_loses_its_oldest() {
    let Some(disk) = Disk::small(100).await else { return };
    let (sick, healthy) = (sink(DOWN).await, sink("{}").await);
    let manifests = manifest("sick", sick.grpc) + &manifest("healthy", healthy.grpc);
    let weir = disk.start(&manifests).await;
    let requests = 120;
    // Of a MiB each, one after the other, so that the oldest are those with the lowest numbers.
    send_singly(weir.grpc, 0..requests, 100_000).await;
    eventually("the healthy pipeline has everything", async || arrived(&healthy) == ids(0..requests)).await;
    let scrape = Scrape::of(weir.metrics).await;
    let dropped =
        scrape.get("weir_pipeline_dropped_items_total{pipeline=\"sick\",signal=\"traces\",reason=\"disk_full\"}");
    let dropped = whole(dropped);
    let books = scrape.books("sick");
    assert!(dropped > 0 && books.pending > 0 && books.dropped == dropped, "{books:?}");
    assert_eq!((books.accepted, scrape.books("healthy").dropped), (requests * SPANS, 0));
    // Nine tenths of the disk are for the journal, and a last file may take a little more.
    eventually("it is shown that hardly any room is left", async || {
        let (_, rows) = top(&weir, &["--memory", "--format", "json"]).await;
        let rows: Value = serde_json::from_str(&rows).unwrap();
        let [used, free] = ["disk_bytes", "disk_free_bytes"].map(|of| rows[0]["journal"][of].as_u64().unwrap());
        free <= used / 4 && ((85 << 20)..=(95 << 20)).contains(&(used + free))
    })
    .await;

    sick.set_faults(faults("{}"));
    Scrape::settled(weir.metrics, "sick").await;
    let arrived = arrived(&sick);
    assert_eq!(Scrape::of(weir.metrics).await.books("sick").delivered, arrived.len() as u64);
    assert!(ids(0..requests).ends_with(&arrived), "the newest are kept: {arrived:?}");
}

/// Where giving data up would help nobody, because others have filled the disk or the user does not allow it, clients are
/// asked to send again until there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_filled_by_others_refuses_and_recovers() {
    let refuse = "metadata:\n  annotations:\n    weir.dev/backlog-overflow: refuse\n";
    for annotations in ["metadata:\n", refuse] {
        let Some(disk) = Disk::small(64).await else { return };
        let sink = sink(DOWN).await;
        let manifest = manifest("backend", sink.grpc).replace("metadata:\n", annotations);
        let weir = disk.start(&manifest).await;
        send_singly(weir.grpc, 0..20, 1000).await;
        let filler = fill(&disk.seen_by(&weir));
        let mut kept = ids(0..20);
        // Until the room that the journal has set aside for itself is used up as well.
        let mut next = 20;
        eventually("the disk is full for the journal too", async || {
            let answers = send(weir.grpc, next..next + 16, 100_000).await;
            kept.extend(acknowledged(next, &answers));
            next += 16;
            answers.iter().all(|answer| answer.code != OK)
        })
        .await;
        assert_eq!(Scrape::of(weir.metrics).await.get("weir_journal_failed"), 1.0);

        std::fs::remove_file(filler).unwrap();
        let client = Grpc::connect(weir.grpc).await;
        eventually("there is room again", async || {
            let is_ok = client.export(&request(next, 1000)).await.code == OK;
            kept.extend(if is_ok { ids(next..next + 1) } else { Vec::new() });
            next += 1;
            is_ok
        })
        .await;
        sink.set_faults(faults("{}"));
        let books = Scrape::settled(weir.metrics, "backend").await;
        assert_eq!(books.dropped, 0, "{annotations:?}: {books:?}");
        let arrived = arrived(&sink);
        let missing: Vec<u64> = kept.into_iter().filter(|id| arrived.binary_search(id).is_err()).collect();
        assert_eq!(missing, Vec::<u64>::new(), "{annotations:?}: acknowledged and lost");
    }
}

/// There is room again: nothing more is given up, not even once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_a_disk_has_room_again_nothing_more_is_dropped() {
    let Some(disk) = Disk::small(100).await else { return };
    let sink = sink(DOWN).await;
    let weir = disk.start(&manifest("backend", sink.grpc)).await;
    let filler = disk.seen_by(&weir).join("somebody else's");
    std::fs::write(&filler, vec![1; 60 << 20]).unwrap();
    // Of a MiB each.
    send_all(weir.grpc, 0..40, 100_000).await;
    let dropped = async || Scrape::of(weir.metrics).await.books("backend").dropped;
    let before = dropped().await;
    assert!(before > 0, "the disk was full");

    std::fs::remove_file(filler).unwrap();
    send_all(weir.grpc, 40..60, 100_000).await;
    assert_eq!(dropped().await, before);
    sink.set_faults(faults("{}"));
    let books = Scrape::settled(weir.metrics, "backend").await;
    assert_eq!((books.dropped, books.delivered), (before, 60 * SPANS - before), "{books:?}");
}
