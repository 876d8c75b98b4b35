//! What is seen of items that wait on the disk, and of those that an earlier process left there.

use weir_testkit::data_dir::DataDir;
use weir_testkit::sink::{DOWN, faults};

use super::*;

/// What waited there is followed to its end.
#[tokio::test]
async fn what_becomes_of_items_on_the_disk_is_seen() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let limit = "metadata:\n  annotations:\n    weir.dev/backlog-max-bytes: 1Mi";
    let manifest = manifest("shop", sink.grpc).replace("metadata:", limit);
    let weir = Weir::start(&manifest, &["--data-dir", dir.arg(), "--spill-after", "10ms"]).await;
    let port = admin(&weir);
    let small = "span.name == \"GET /orders/1\" or span.name == \"GET /orders/2\"";
    let tap = open(port, &json!({"pipeline": "traces/shop", "where": small})).await;
    let becomes = async |number: u64, way: &str| {
        let is = async || caught(&read(port, tap).await).contains(&named(number, way));
        eventually(&format!("span {number} is {way}"), is).await;
    };
    send(&weir, 1, 1).await;
    becomes(1, "stored").await;
    sink.set_faults(faults("{}"));
    becomes(1, "delivered").await;
    sink.set_faults(faults(DOWN));
    send(&weir, 2, 1).await;
    becomes(2, "stored").await;
    // Clients are asked to come again until the backend has been away for some seconds. Then the oldest goes.
    for first in [101, 201] {
        let large = payload::encoded(first, 70, 10_000);
        let is_taken = async || Grpc::connect(weir.grpc).await.export(&large).await.code == OK;
        eventually("there is room", is_taken).await;
    }
    becomes(2, "dropped").await;
    eventually("there is a sample", async || get(port, "/dropped").await.1[0].is_object()).await;
    let (code, lines, said) = told(port, &["tap", "traces/shop", "--lost"]).await;
    assert!(code == Some(0) && lines.contains("traces/shop dropped for backlog_full ("), "{lines} {said}");
}

/// Of what an earlier process left on the disk, a few items are known: those that were read to be sent.
#[tokio::test]
async fn a_few_items_from_before_the_start_are_known() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let (manifest, path) = (manifest("shop", sink.grpc), "/api/recent?pipeline=traces/shop");
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms"];
    let weir = Weir::start(&manifest, &arguments).await;
    send(&weir, 1, 10).await;
    assert_eq!(get(admin(&weir), path).await.1["recovered"], json!([]), "it came since the start");
    weir.kill().await;

    let weir = Weir::start(&manifest, &arguments).await;
    let port = admin(&weir);
    let recovered = async || names(&get(port, path).await.1["recovered"]);
    let all = |way: &str| [4, 3, 2, 1].map(|number| named(number, way)).to_vec();
    eventually("it was read to be sent", async || recovered().await == all("stored")).await;
    let (_, recent) = get(port, path).await;
    assert_eq!((&recent["count"], &recent["items"]), (&json!(0), &json!([])), "rules were applied to it: {recent}");
    assert_eq!(get(port, &format!("{path}&text=nowhere")).await.1["recovered"], json!([]));

    let (code, lines, said) = told(port, &["why", "--item", &format!("{:032x}", 1), "-d", "1s"]).await;
    let line = "traces/shop stored, written before the start: span \"GET /orders/1\"";
    assert!(code == Some(0) && lines.contains(line), "{lines}");
    assert_eq!(lines.matches("\"GET /orders/1\"").count(), 1, "it is told once: {lines}");
    assert!(said.contains("Looked through 1 record on the disk (") && said.contains("): 1 item with it."), "{said}");
    for pipeline in ["traces/*", "traces/shop"] {
        let (code, lines, said) = told(port, &["why", pipeline, "--item", "GET /orders/9", "-d", "1s"]).await;
        let line = "traces/shop stored, waits on the disk since then: span \"GET /orders/9\"";
        assert!(code == Some(0) && lines.contains(line), "{lines} {said}");
    }
    let (code, _, said) = told(port, &["why", "--item", "GET /orders/99", "-d", "1s"]).await;
    assert!(code == Some(1) && said.contains("): 0 items with it."), "{said}");
    assert!(said.contains("its sender has not sent it"), "all of it was looked at: {said}");
    let (code, _, said) = told(port, &["why", "--item", "GET /orders/9", "--from", "elsewhere", "-d", "1s"]).await;
    assert!(code == Some(1) && said.contains("is no place where a search has ended"), "{said}");
    let (_, lines, _) = told(port, &["tap", "traces/shop", "--recent"]).await;
    assert_eq!(lines.matches(" stored, written before the start: ").count(), 4, "{lines}");

    sink.set_faults(faults("{}"));
    eventually("it is delivered", async || recovered().await == all("delivered")).await;
    send(&weir, 21, 1).await;
    assert_eq!(get(port, path).await.1["count"], 1);
    assert_eq!(recovered().await, all("delivered"), "what comes later is another thing");
}
