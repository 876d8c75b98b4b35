//! Items that a backend refuses for good: they are found and shown, and everything beside them is delivered.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_testkit::clients::send_all;
use weir_testkit::data_dir::DataDir;
use weir_testkit::eventually;
use weir_testkit::metrics::Scrape;
use weir_testkit::poison::{BAD, REQUESTS, good, others_send, picky, without_others};

use crate::process::{Weir, manifest};

/// A kill in the middle of the search: what was found is searched again, and nothing good is lost.
#[tokio::test]
async fn a_kill_during_the_search_loses_nothing_good() {
    let (dir, away) = (DataDir::new(), Arc::new(AtomicBool::new(true)));
    let backend = picky(&away, 3).await;
    let manifest = manifest("backend", backend.address);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "5ms"];
    let weir = Weir::start(&manifest, &arguments).await;
    send_all(weir.grpc, 0..REQUESTS, 100).await;
    weir.kill().await;
    away.store(false, Ordering::SeqCst);
    let before = backend.captured().len();
    for further in 1..=5 {
        let weir = Weir::start(&manifest, &arguments).await;
        eventually("the search goes on", async || {
            backend.captured().len() >= before + further || good().len() == backend.taken_ids().len()
        })
        .await;
        weir.kill().await;
    }
    let weir = Weir::start(&manifest, &arguments).await;
    others_send(weir.grpc, async || Scrape::of(weir.metrics).await.books("backend").pending == 0).await;
    let taken: BTreeSet<u64> = without_others(backend.taken_ids()).into_iter().collect();
    assert_eq!(taken.into_iter().collect::<Vec<_>>(), good());
    let books = Scrape::of(weir.metrics).await.books("backend");
    assert!(books.rejected <= BAD.len() as u64 && books.dropped == 0, "{books:?}");
    dir.becomes_empty().await;
}
