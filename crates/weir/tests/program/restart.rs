//! The end of the process, expected or not, and the start after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use weir_loadtest::sink::Sink;
use weir_testkit::backend::{Backend, Say};
use weir_testkit::clients::{SPANS, ids, request, send_all, send_singly};
use weir_testkit::data_dir::DataDir;
use weir_testkit::eventually;
use weir_testkit::http::{self, PROTOBUF};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::{DOWN, arrived, faults, sink};

use crate::process::{Weir, manifest};

/// Data reaches the disk at once.
const HASTY: [&str; 2] = ["--spill-after", "10ms"];

async fn start(dir: &DataDir, sink: &Sink, further: &[&str]) -> Weir {
    let arguments = [&["--data-dir", dir.arg()], &HASTY[..], further].concat();
    Weir::start(&manifest("backend", sink.grpc), &arguments).await
}

/// The backend gets everything from `weir`, which finds all of it on disk.
async fn delivers_what_it_found(weir: &Weir, dir: &DataDir, sink: &Sink, expected: Vec<u64>) {
    let items = expected.len() as u64;
    eventually("everything arrives", async || sink.report(false).unique >= items).await;
    assert_eq!(arrived(sink), expected);
    Scrape::settled(weir.metrics, "backend").await;
    let scrape = Scrape::of(weir.metrics).await;
    let books = scrape.books("backend");
    assert_eq!((books.recovered, books.accepted, books.delivered), (items, 0, items));
    assert_eq!(scrape.figure("weir_pipeline_backlog_items", "backend"), 0.0);
    dir.becomes_empty().await;
}

async fn survives_a_kill(fsync: &[&str]) {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let weir = start(&dir, &sink, fsync).await;
    send_all(weir.grpc, 0..100, 1000).await;
    for number in 100..110 {
        assert_eq!(http::post(weir.http, PROTOBUF, None, &request(number, 100)).await.status, 200);
    }
    assert_eq!(Scrape::of(weir.metrics).await.books("backend").pending, 110 * SPANS);
    weir.kill().await;

    let weir = start(&dir, &sink, fsync).await;
    assert_eq!(Scrape::of(weir.metrics).await.books("backend").recovered, 110 * SPANS);
    weir.kill().await;

    sink.set_faults(faults("{}"));
    let weir = start(&dir, &sink, fsync).await;
    delivers_what_it_found(&weir, &dir, &sink, ids(0..110)).await;
    assert_eq!(sink.report(false).duplicates, 0, "nothing was delivered before");
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    survives_a_kill(&[]).await;
}

/// What these modes give up is what a loss of power costs, not the end of the process.
#[tokio::test]
async fn without_a_forced_write_it_survives_a_kill_too() {
    survives_a_kill(&["--fsync", "interval", "--fsync-interval", "1h"]).await;
    survives_a_kill(&["--fsync", "never"]).await;
}

#[tokio::test]
async fn regular_forced_writes_deliver_as_well() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let weir = start(&dir, &sink, &["--fsync", "interval", "--fsync-interval", "10ms"]).await;
    send_all(weir.grpc, 0..50, 1000).await;
    sink.set_faults(faults("{}"));
    eventually("everything arrives", async || arrived(&sink) == ids(0..50)).await;
    dir.becomes_empty().await;
    let scrape = Scrape::of(weir.metrics).await;
    assert_eq!(scrape.books("backend").delivered, 50 * SPANS);
    assert_eq!(scrape.get("weir_journal_write_failures_total"), 0.0);
}

/// What a backend takes in the next moments.
#[derive(Clone, Default)]
struct Appetite(Arc<AtomicUsize>);

impl Appetite {
    fn requests(&self, requests: usize) {
        self.0.store(requests, Ordering::SeqCst);
    }

    fn is_sated(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }

    fn say(&self) -> Say {
        let takes = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |requests| requests.checked_sub(1));
        if takes.is_ok() { Say::Ok } else { Say::Code(14, "later", None) }
    }
}

/// An end in order is quick however much there is to do, and what was delivered before is not delivered again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_leaves_the_backlog_for_the_next_start() {
    let (dir, appetite) = (DataDir::new(), Appetite::default());
    let script = appetite.clone();
    let backend = Backend::scripted(move |_, _| script.say()).await;
    let manifest = manifest("backend", backend.address);
    let arguments = [&["--data-dir", dir.arg(), "--drain-timeout", "1h"], &HASTY[..]].concat();
    let mut weir = Weir::start(&manifest, &arguments).await;
    // Of about a MiB each: a backlog of several requests to the backend.
    let requests = 24;
    send_singly(weir.grpc, 0..requests, 100_000).await;
    appetite.requests(3);
    eventually("the backend takes some of it", async || appetite.is_sated()).await;
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    let before = backend.taken_ids();
    let taken = before.len() as u64;
    assert!(taken > 0 && taken < requests * SPANS, "{taken}");
    let stopped = weir.logged("stopped").unwrap();
    let pending = requests * SPANS - taken;
    assert_eq!((&stopped["pending"], &stopped["dropped"]), (&pending.into(), &0.into()), "{stopped}");
    assert_eq!((&stopped["delivered"], &stopped["balanced"]), (&taken.into(), &true.into()), "{stopped}");

    appetite.requests(usize::MAX);
    let weir = Weir::start(&manifest, &arguments).await;
    Scrape::settled(weir.metrics, "backend").await;
    let mut all = backend.taken_ids();
    let again = before.iter().filter(|id| all.iter().filter(|other| other == id).count() > 1).count();
    assert_eq!(again, 0, "what was delivered before came again");
    // A backend that takes long to answer may be asked twice.
    all.dedup();
    assert_eq!(all, ids(0..requests), "everything arrives");
    let books = Scrape::of(weir.metrics).await.books("backend");
    assert_eq!((books.recovered, books.delivered), (pending, pending));
    dir.becomes_empty().await;
}

/// Clients that wait while the process is told to end: what cannot be delivered goes to the journal, not back to them.
#[tokio::test]
async fn sigterm_while_clients_wait_keeps_their_data() {
    let (dir, sink) = (DataDir::new(), sink(r#"{"stall": 100}"#).await);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "2s", "--drain-timeout", "1s"];
    let mut weir = Weir::start(&manifest("backend", sink.grpc), &arguments).await;
    let client = weir_testkit::grpc::Grpc::connect(weir.grpc).await;
    let body = request(0, 100);
    let end = async {
        eventually("the backend has the request", async || sink.report(false).requests > 0).await;
        weir.signal(Signal::TERM);
        weir.wait().await
    };
    let (answer, end) = tokio::join!(client.try_export(&body), end);
    assert_eq!(end.code(), Some(0));
    let stopped = weir.logged("stopped").unwrap_or_else(|| panic!("{:?}", weir.logs()));
    assert_eq!(stopped["balanced"], true, "{stopped}");
    // Either answer will do, as long as it is true.
    let answer = answer.expect("an answer");
    sink.set_faults(faults("{}"));
    let weir = start(&dir, &sink, &[]).await;
    let found = Scrape::of(weir.metrics).await.books("backend").recovered;
    match answer.code {
        0 => delivers_what_it_found(&weir, &dir, &sink, ids(0..1)).await,
        _ => {
            weir_testkit::clients::is_polite(&answer);
            assert_eq!(found, 0);
        }
    }
}

/// Whoever asks twice does not want to wait, not even for the journal; what was acknowledged is safe there already.
#[tokio::test]
async fn a_second_signal_ends_at_once_and_costs_nothing() {
    let (dir, backend) = (DataDir::new(), Backend::holding().await);
    let manifest = manifest("backend", backend.address);
    let arguments = [&["--data-dir", dir.arg(), "--drain-timeout", "1h"], &HASTY[..]].concat();
    let mut weir = Weir::start(&manifest, &arguments).await;
    send_all(weir.grpc, 0..20, 100).await;
    weir.signal(Signal::TERM);
    eventually("it drains", async || http::get(weir.health, "/").await.status == 503).await;
    weir.hurry().await;
    assert_eq!(weir.wait().await.code(), Some(1));
    assert!(weir.logs().iter().all(serde_json::Value::is_object), "nothing but log lines: {:?}", weir.logs());

    backend.answer();
    let weir = Weir::start(&manifest, &arguments).await;
    assert_eq!(Scrape::settled(weir.metrics, "backend").await.recovered, 20 * SPANS);
    assert!(ids(0..20).iter().all(|id| backend.taken_ids().binary_search(id).is_ok()));
}
