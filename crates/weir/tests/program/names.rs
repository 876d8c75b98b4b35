//! Pipelines that are removed, renamed, returned, and changed between two starts.

use rustix::process::Signal;
use weir_testkit::clients::{SPANS, ids, send_all};
use weir_testkit::data_dir::DataDir;
use weir_testkit::eventually;
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::{DOWN, arrived, sink};

use crate::process::{Weir, manifest};

async fn start(dir: &DataDir, manifests: &str) -> Weir {
    Weir::start(manifests, &["--data-dir", dir.arg(), "--spill-after", "10ms"]).await
}

async fn end(mut weir: Weir) {
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
}

const ORPHANED: &str = "weir_journal_orphaned_items{queue=\"traces/shop\"}";

#[tokio::test]
async fn the_backlog_of_a_removed_pipeline_is_reported_kept_and_found_again() {
    let (dir, away, other) = (DataDir::new(), sink(DOWN).await, sink("{}").await);
    let others = manifest("other", other.grpc);
    let weir = start(&dir, &(manifest("shop", away.grpc) + &others)).await;
    send_all(weir.grpc, 0..20, 100).await;
    end(weir).await;

    // Under another name: nobody's data but its own.
    let renamed = sink("{}").await;
    let without = manifest("store", renamed.grpc) + &others;
    for run in 1..=2 {
        let weir = start(&dir, &without).await;
        let line = weir.logs().into_iter().find(|line| line["queue"] == "traces/shop").expect("a log line");
        assert_eq!((&line["level"], &line["items"]), (&"WARN".into(), &(20 * SPANS).into()), "{line}");
        assert_eq!(Scrape::of(weir.metrics).await.get(ORPHANED), (20 * SPANS) as f64);
        send_all(weir.grpc, 20 * run..20 * run + 20, 100).await;
        eventually("others are delivered", async || arrived(&renamed).len() as u64 == 20 * run * SPANS).await;
        assert_eq!(Scrape::of(weir.metrics).await.get(ORPHANED), (20 * SPANS) as f64, "kept");
        if run == 1 { end(weir).await } else { weir.kill().await }
    }
    assert!(!dir.files().is_empty());

    // Back under its name, with another endpoint: its data goes there.
    let new = sink("{}").await;
    let weir = start(&dir, &(manifest("shop", new.grpc) + &without)).await;
    Scrape::settled(weir.metrics, "shop").await;
    assert_eq!(arrived(&new), ids(0..20));
    let scrape = Scrape::of(weir.metrics).await;
    assert_eq!(scrape.books("shop").recovered, 20 * SPANS);
    assert_eq!(scrape.sum("weir_journal_orphaned_items", ""), 0.0);
    dir.becomes_empty().await;
    assert_eq!((arrived(&away).len(), arrived(&other), arrived(&renamed)), (0, ids(0..60), ids(20..60)));
}

/// Pipelines come and go; each entry is owed to those that there were.
#[tokio::test]
async fn a_new_pipeline_gets_what_is_new() {
    let (dir, old, new) = (DataDir::new(), sink(DOWN).await, sink("{}").await);
    let weir = start(&dir, &manifest("old", old.grpc)).await;
    send_all(weir.grpc, 0..10, 100).await;
    end(weir).await;
    let weir = start(&dir, &(manifest("new", new.grpc) + &manifest("old", old.grpc))).await;
    send_all(weir.grpc, 10..20, 100).await;
    eventually("the new one has it", async || arrived(&new) == ids(10..20)).await;
    end(weir).await;
    let moved = sink("{}").await;
    let weir = start(&dir, &manifest("old", moved.grpc)).await;
    eventually("the old one has both", async || arrived(&moved) == ids(0..20)).await;
    dir.becomes_empty().await;
    assert_eq!(Scrape::of(weir.metrics).await.sum("weir_journal_orphaned_items", ""), 0.0);
}
