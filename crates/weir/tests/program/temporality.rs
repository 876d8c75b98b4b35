//! Conversion to delta over the end of a process, and with points that come twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::unix::pipe;
use weir_testkit::backend::{Backend, Say};
use weir_testkit::data_dir::DataDir;
use weir_testkit::eventually;
use weir_testkit::grpc::{Answer, Grpc, OK, UNAVAILABLE, frame};
use weir_testkit::signals::{counter, counter_of, deltas};

use crate::process::{Weir, manifest};

async fn count(weir: &Weir, second: u64, value: i64) {
    let answer = export(&Grpc::connect(weir.grpc).await, &counter(second, value)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
}

async fn export(client: &Grpc, request: &[u8]) -> Answer {
    client.call(weir_plan::Signal::Metrics.grpc_method(), None, frame(request, false)).await
}

/// A pipeline to a backend that wants deltas.
fn converting(backend: &Backend) -> String {
    manifest("backend", backend.address)
        .replace("TracePipeline", "MetricPipeline")
        .replace("    otlp:\n", "    otlp:\n      temporality: delta\n")
}

/// What a backend has taken of all counters.
fn arrived(backend: &Backend) -> Vec<i64> {
    let taken = backend.captured().into_iter().filter(|request| request.taken);
    taken.flat_map(|request| deltas(&request.plain)).map(|(_, value)| value).collect()
}

/// A backend that takes nothing until it is well.
async fn sick() -> (Backend, Arc<AtomicBool>) {
    let well = Arc::new(AtomicBool::new(false));
    let is_well = Arc::clone(&well);
    let says = move |_, _: &_| match is_well.load(Ordering::SeqCst) {
        true => Say::Ok,
        false => Say::Code(14, "later", None),
    };
    (Backend::scripted(says).await, well)
}

#[tokio::test]
async fn an_orderly_stop_remembers_every_series_and_a_kill_none() {
    let (dir, backend) = (DataDir::new(), Backend::start().await);
    let manifest = converting(&backend);
    let start = async || Weir::start(&manifest, &["--data-dir", dir.arg()]).await;
    let arrived = || arrived(&backend);

    let mut weir = start().await;
    count(&weir, 1, 10).await;
    count(&weir, 2, 15).await;
    eventually("the first delta arrives", async || arrived() == [5]).await;
    weir.signal(rustix::process::Signal::TERM);
    assert!(weir.wait().await.success());

    let weir = start().await;
    count(&weir, 3, 22).await;
    eventually("counting went on", async || arrived() == [5, 7]).await;
    weir.kill().await;

    let weir = start().await;
    count(&weir, 4, 30).await;
    count(&weir, 5, 31).await;
    eventually("counting begins anew", async || arrived() == [5, 7, 1]).await;
    drop(weir);
}

/// The disk hangs for the last of three pipelines; the first has been read by then.
#[tokio::test]
async fn a_start_that_is_given_up_leaves_what_it_has_read() {
    let (dir, backends) = (DataDir::new(), [Backend::start().await, Backend::start().await, Backend::start().await]);
    let manifests = ["a", "b", "c"].into_iter().zip(&backends);
    let manifests = manifests.map(|(name, backend)| converting(backend).replace("backend", name)).collect::<String>();
    let arguments = ["--data-dir", dir.arg()];
    let mut weir = Weir::start(&manifests, &arguments).await;
    count(&weir, 1, 10).await;
    weir.signal(rustix::process::Signal::TERM);
    assert!(weir.wait().await.success());

    let state = std::path::Path::new(dir.arg()).join("state");
    let files = ["b", "c"].map(|name| state.join(format!("temporality-metrics-{name}")));
    for file in &files {
        std::fs::rename(file, file.with_extension("kept")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(file).status().unwrap().success());
    }
    let output = Weir::give_up(&manifests, &arguments, async || {
        // It can be opened once somebody wants to read it. Nobody opens the other one.
        let is_read = async || pipe::OpenOptions::new().open_sender(&files[0]).is_ok();
        eventually("the second is to be read", is_read).await;
    })
    .await;
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && log.contains("stopped before it was ready"), "{log}");
    for file in &files {
        std::fs::rename(file.with_extension("kept"), file).unwrap();
    }

    let weir = Weir::start(&manifests, &arguments).await;
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "no other process is to use it");
    count(&weir, 2, 15).await;
    eventually("counting went on", async || backends.each_ref().map(arrived) == [[5], [5], [5]]).await;
}

/// Whichever of two is the duplicate: it is not safe because of one that is not.
#[tokio::test]
async fn a_repeated_point_is_refused_with_the_first_and_taken_when_it_is_sent_again() {
    let (dir, (backend, well)) = (DataDir::new(), sick().await);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "500ms"];
    let weir = Weir::start(&converting(&backend), &arguments).await;
    count(&weir, 1, 10).await;

    let client = Grpc::connect(weir.grpc).await;
    assert_eq!(export(&client, &counter_of("other", 1, 100)).await.code, OK);

    weir.limit_files(Some(0));
    let once = counter(2, 15);
    let with_other = [counter(2, 15), counter_of("other", 2, 103)].concat();
    for (one, other) in [(&once, &once), (&once, &with_other), (&with_other, &once)] {
        let (one, other) = tokio::join!(export(&client, one), export(&client, other));
        assert_eq!([one.code, other.code], [UNAVAILABLE; 2], "{one:?} {other:?}");
        assert!(one.retry_after.is_some() && other.retry_after.is_some(), "{one:?} {other:?}");
    }

    weir.limit_files(None);
    well.store(true, Ordering::SeqCst);
    eventually("they are taken", async || export(&client, &with_other).await.code == OK).await;
    eventually("they arrive", async || arrived(&backend) == [5, 3]).await;
    assert_eq!(export(&client, &with_other).await.code, OK);
    count(&weir, 3, 22).await;
    eventually("they have arrived once", async || arrived(&backend) == [5, 3, 7]).await;
}

/// Both are acknowledged when the first is.
#[tokio::test]
async fn a_repeated_point_is_acknowledged_with_the_first() {
    let (dir, (backend, well)) = (DataDir::new(), sick().await);
    let weir = Weir::start(&converting(&backend), &["--data-dir", dir.arg(), "--spill-after", "500ms"]).await;
    count(&weir, 1, 10).await;
    let client = Grpc::connect(weir.grpc).await;
    let request = counter(2, 15);
    let (one, other) = tokio::join!(export(&client, &request), export(&client, &request));
    assert_eq!([one.code, other.code], [OK; 2], "{one:?} {other:?}");
    weir.kill().await;

    well.store(true, Ordering::SeqCst);
    let _weir = Weir::start(&converting(&backend), &["--data-dir", dir.arg()]).await;
    eventually("what was acknowledged arrives", async || arrived(&backend) == [5]).await;
}

/// Nobody knows of the first one any more.
#[tokio::test]
async fn a_repeated_point_is_not_acknowledged_before_a_kill() {
    let (dir, (backend, well)) = (DataDir::new(), sick().await);
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "1h"];
    let weir = Weir::start(&converting(&backend), &arguments).await;
    count(&weir, 1, 10).await;

    let client = Grpc::connect(weir.grpc).await;
    let waits = |request: Vec<u8>| {
        let client = client.clone();
        let path = weir_plan::Signal::Metrics.grpc_method();
        tokio::spawn(async move { client.try_call(path, frame(&request, false)).await })
    };
    let first = waits(counter(2, 15));
    eventually("the first is under way", async || !backend.captured().is_empty()).await;
    let second = waits(counter(2, 15));
    // What is sent later is answered, many times.
    for _ in 0..20 {
        assert_eq!(export(&client, &counter_of("other", 1, 1)).await.code, OK);
    }
    weir.kill().await;
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (None, None), "neither is acknowledged");

    well.store(true, Ordering::SeqCst);
    let weir = Weir::start(&converting(&backend), &arguments).await;
    for (second, value) in [(2, 15), (3, 22)] {
        count(&weir, second, value).await;
    }
    eventually("counting begins anew", async || arrived(&backend) == [7]).await;
}
