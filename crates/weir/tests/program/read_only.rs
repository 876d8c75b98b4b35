//! A disk that the kernel makes read-only under a running gateway, as it does when it meets an error.

use weir_testkit::clients::{ids, is_polite, request, send, send_all};
use weir_testkit::eventually;
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::{DOWN, arrived, faults, sink};

use crate::disk::Disk;
use crate::process::manifest;

/// What is on it is delivered all the same. It cannot be noted as delivered, so it is once more after the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_becomes_read_only_is_still_read() {
    let Some(disk) = Disk::fragile().await else { return };
    let sink = sink(DOWN).await;
    let manifest = manifest("backend", sink.grpc);
    let weir = disk.start(&manifest).await;
    send_all(weir.grpc, 0..20, 1000).await;
    disk.fail(&weir);
    for answer in send(weir.grpc, 20..30, 1000).await {
        is_polite(&answer);
    }
    assert_eq!(Scrape::of(weir.metrics).await.get("weir_journal_failed"), 1.0);

    sink.set_faults(faults("{}"));
    Scrape::settled(weir.metrics, "backend").await;
    let here = arrived(&sink);
    assert!(ids(0..20).iter().all(|id| here.binary_search(id).is_ok()), "{here:?}");
    eventually("it is said that this is not written down", async || {
        Scrape::of(weir.metrics).await.get("weir_journal_tidy_failures_total") >= 1.0
    })
    .await;
    let client = Grpc::connect(weir.grpc).await;
    eventually("its backend has what comes in time", async || client.export(&request(30, 1000)).await.code == OK).await;
    weir.kill().await;

    let before = sink.report(false).duplicates;
    let weir = disk.start(&manifest).await;
    let books = Scrape::settled(weir.metrics, "backend").await;
    let again = ids(0..20).len() as u64;
    assert_eq!((books.recovered, books.delivered, books.dropped), (again, again, 0), "{books:?}");
    assert_eq!(sink.report(false).duplicates - before, again);
}
