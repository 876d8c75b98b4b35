//! Items that a backend refuses for good: they are found and shown, and everything beside them is delivered.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde_json::Value;
use weir_engine::Settings;
use weir_plan::{Pipeline, Protocol};
use weir_testkit::backend::{Backend, Captured, Say};
use weir_testkit::clients::{SPANS, send_all, send_singly};
use weir_testkit::data_dir::DataDir;
use weir_testkit::poison::{BAD, REQUESTS, good, is_bad, others_send, picky, without_others};
use weir_testkit::{eventually, http, payload};

use crate::support::{Gateway, on_disk, output, pipeline};

async fn rejected(gateway: &Gateway) -> Vec<Value> {
    let page = http::get(gateway.at.admin, "/rejected").await;
    assert_eq!(page.status, 200);
    serde_json::from_slice(&page.body).unwrap()
}

/// The id of the one span that a sample shows.
fn id_of(sample: &Value) -> u64 {
    let otlp = base64::engine::general_purpose::STANDARD.decode(sample["otlp"].as_str().unwrap()).unwrap();
    let ids = payload::ids(&ExportTraceServiceRequest::decode(otlp.as_slice()).unwrap());
    assert_eq!((ids.len(), &sample["truncated"]), (1, &false.into()), "{sample}");
    ids[0]
}

async fn only_the_bad_are_rejected(gateway: &Gateway, backend: &Backend, code: &str) {
    let others = others_send(gateway.at.grpc, async || {
        gateway.books("backend").rejected.values().sum::<u64>() >= BAD.len() as u64
    });
    let others = others.await * SPANS;
    gateway.settle().await;
    assert_eq!(without_others(backend.taken_ids()), good(), "everything else arrives, once");
    let books = gateway.books("backend");
    assert_eq!((books.delivered - others, books.dropped.len()), (REQUESTS * SPANS - BAD.len() as u64, 0), "{books:?}");
    assert_eq!(books.rejected.iter().collect::<Vec<_>>(), [(&code.to_owned(), &(BAD.len() as u64))]);
    let samples = rejected(gateway).await;
    assert_eq!(samples.iter().map(id_of).collect::<BTreeSet<_>>(), BTreeSet::from(BAD));
    assert_eq!(samples.len(), BAD.len());
    for sample in samples {
        assert_eq!((&sample["pipeline"], &sample["items"]), (&"traces/backend".into(), &1.into()), "{sample}");
        assert_eq!(sample["code"], code, "{sample}");
        assert!(sample["message"].as_str().unwrap().contains("a span without a trace"), "{sample}");
        assert!(sample["at"].as_str().unwrap() > "2023-11-14T00:00:00.000Z", "{sample}");
    }
}

#[tokio::test]
async fn live_requests_lose_nothing_but_the_bad_spans() {
    for (protocol, code, name) in
        [(Protocol::Grpc, 3, "INVALID_ARGUMENT"), (Protocol::Http, 400, "400"), (Protocol::Http, 422, "422")]
    {
        let (dir, away) = (DataDir::new(), Arc::default());
        let backend = picky(&away, code).await;
        let settings = Settings { spill_after: Duration::from_secs(60), ..on_disk(&dir).await };
        let pipeline = Pipeline { output: output(backend.address, protocol), ..pipeline("backend", backend.address) };
        let gateway = Gateway::with(vec![pipeline], settings).await;
        let (sent, checked) =
            (send_all(gateway.at.grpc, 0..REQUESTS, 100), only_the_bad_are_rejected(&gateway, &backend, name));
        tokio::join!(sent, checked);
        assert!(dir.files().is_empty(), "{name}: nothing had to be written");
    }
}

/// The same for what has to be read back, by the process that wrote it and by the next.
#[tokio::test]
async fn the_backlog_loses_nothing_but_the_bad_spans() {
    for restarts in [false, true] {
        let (dir, away) = (DataDir::new(), Arc::new(AtomicBool::new(true)));
        let backend = picky(&away, 3).await;
        let settings = Settings { spill_after: Duration::from_millis(5), ..on_disk(&dir).await };
        let mut gateway = Gateway::with(vec![pipeline("backend", backend.address)], settings).await;
        send_all(gateway.at.grpc, 0..REQUESTS, 100).await;
        assert_eq!(gateway.books("backend").pending, REQUESTS * SPANS);
        if restarts {
            gateway.stop().await;
            gateway = Gateway::with(vec![pipeline("backend", backend.address)], on_disk(&dir).await).await;
        }
        away.store(false, Ordering::SeqCst);
        only_the_bad_are_rejected(&gateway, &backend, "INVALID_ARGUMENT").await;
        dir.becomes_empty().await;
    }
}

/// A tenant that does not exist refuses everything: nothing is known about any span then, and nothing is given up.
#[tokio::test]
async fn a_backend_that_refuses_everything_sees_few_requests_and_loses_nothing() {
    let hopeless = Arc::new(AtomicBool::new(true));
    let script = Arc::clone(&hopeless);
    let refuse = move |_, request: &Captured| {
        if script.load(Ordering::SeqCst) || is_bad(request) {
            Say::Code(3, "a span without a trace", None)
        } else {
            Say::Ok
        }
    };
    let (dir, backend) = (DataDir::new(), Backend::scripted(refuse).await);
    let settings = Settings { spill_after: Duration::from_millis(5), ..on_disk(&dir).await };
    let gateway = Gateway::with(vec![pipeline("backend", backend.address)], settings).await;
    send_singly(gateway.at.grpc, 0..REQUESTS, 100).await;
    eventually("it is asked for a while", async || backend.captured().len() > 30).await;
    let books = gateway.books("backend");
    assert_eq!((books.pending, books.rejected.len()), (REQUESTS * SPANS, 0), "{books:?}");

    // Once it takes something, what it still refuses is bad.
    hopeless.store(false, Ordering::SeqCst);
    only_the_bad_are_rejected(&gateway, &backend, "INVALID_ARGUMENT").await;
}
