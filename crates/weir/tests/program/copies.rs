//! A backup made while the gateway runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_loadtest::sink::Sink;
use weir_testkit::clients::{SPANS, request};
use weir_testkit::data_dir::DataDir;
use weir_testkit::eventually;
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::{arrived, faults, sink};

use crate::process::{Weir, manifest};

/// Sends from request `first` on until told to stop; what was acknowledged when.
async fn send(weir: std::net::SocketAddr, first: u64, stop: Arc<AtomicBool>, acknowledged: Arc<Acknowledged>) {
    let client = Grpc::connect(weir).await;
    let mut number = first;
    while !stop.load(Ordering::Relaxed) {
        let answer = client.export(&request(number, 2000)).await;
        assert_eq!(answer.code, OK, "{answer:?}");
        acknowledged.lock().unwrap().extend(weir_testkit::clients::ids(number..number + 1));
        number += 1;
    }
}

async fn start(dir: &DataDir, sink: &Sink) -> Weir {
    Weir::start(&manifest("backend", sink.grpc), &["--data-dir", dir.arg(), "--spill-after", "5ms"]).await
}

type Acknowledged = std::sync::Mutex<BTreeSet<u64>>;

/// What was acknowledged before the copy began, and was not delivered when it was made, is in it, although clients and
/// the backend were at work all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_made_while_running_is_a_backup() {
    let (dir, sick) = (DataDir::new(), sink(r#"{"fault": ["503:80"], "delay": "20ms:50"}"#).await);
    let weir = start(&dir, &sick).await;
    let (stop, acknowledged) = (Arc::<AtomicBool>::default(), Arc::<Acknowledged>::default());
    let load = (0..4)
        .map(|client| tokio::spawn(send(weir.grpc, client * 1_000_000, Arc::clone(&stop), Arc::clone(&acknowledged))));
    let load: Vec<_> = load.collect();
    let mut copies = Vec::new();
    for round in 1..=3 {
        eventually("there is something to copy", async || {
            acknowledged.lock().unwrap().len() as u64 >= round * 60 * SPANS && dir.length() > 0
        })
        .await;
        let owed = acknowledged.lock().unwrap().clone();
        let copy = dir.copy();
        let delivered = arrived(&sick);
        let owed: Vec<u64> = owed.into_iter().filter(|id| delivered.binary_search(id).is_err()).collect();
        copies.push((copy, owed));
    }
    stop.store(true, Ordering::Relaxed);
    for client in load {
        client.await.unwrap();
    }
    for (copy, owed) in copies {
        let other = sink("{}").await;
        let weir = start(&copy, &other).await;
        Scrape::settled(weir.metrics, "backend").await;
        let restored = arrived(&other);
        let missing: Vec<_> = owed.iter().filter(|id| restored.binary_search(id).is_err()).collect();
        assert!(missing.is_empty(), "{} of {} are not in the copy", missing.len(), owed.len());
        // What was written while its file was copied may be torn in the copy, and counted as damaged there.
        copy.becomes_empty().await;
    }
    // The original was not disturbed.
    sick.set_faults(faults("{}"));
    weir.kill().await;
    let weir = start(&dir, &sick).await;
    Scrape::settled(weir.metrics, "backend").await;
    let arrived = arrived(&sick);
    assert!(acknowledged.lock().unwrap().iter().all(|id| arrived.binary_search(id).is_ok()));
}
