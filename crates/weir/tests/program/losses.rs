//! What is lost all the same is said: in the log, once at first and then in sums, and in the metrics, for as long as there
//! are books.

use rustix::process::Signal;
use serde_json::Value;
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::http::{self, JSON};
use weir_testkit::metrics::{Scrape, whole};
use weir_testkit::sink::{DOWN, closed_port, sink};
use weir_testkit::{eventually, in_time, payload};

use crate::process::{Weir, command, manifest};

const ITEMS: u64 = 100;

/// Sends requests of 200 KB until the metrics say that more than one was given up.
async fn overfill(weir: &Weir) {
    let (client, mut first) = (Grpc::connect(weir.grpc).await, 1);
    eventually("a pipeline is full", async || {
        for _ in 0..10 {
            assert_eq!(client.export(&payload::encoded(first, ITEMS, 2000)).await.code, OK);
            first += ITEMS;
        }
        dropped(&Scrape::of(weir.metrics).await, "memory_full") > 5 * ITEMS
    })
    .await;
}

fn dropped(scrape: &Scrape, reason: &str) -> u64 {
    whole(scrape.sum("weir_pipeline_dropped_items_total", &format!("reason=\"{reason}\"")))
}

/// The log lines about what was given up for a reason.
fn said(weir: &Weir, reason: &str) -> Vec<Value> {
    weir.logs().into_iter().filter(|line| line["reason"] == reason).collect()
}

fn items(lines: &[Value]) -> u64 {
    lines.iter().map(|line| line["items"].as_u64().unwrap()).sum()
}

/// What `weir why` tells.
pub(crate) async fn why(weir: &Weir, arguments: &[&str]) -> String {
    let url = format!("http://{}", weir.logged("ready").unwrap()["admin"].as_str().unwrap());
    let output = command(&[&["why", "--url", &url][..], arguments].concat()).output();
    String::from_utf8(in_time("weir why", output).await.unwrap().stdout).unwrap()
}

#[tokio::test]
async fn the_log_tells_of_every_item_that_is_given_up() {
    let (sick, well) = (sink(DOWN).await, sink("{}").await);
    let manifests = manifest("sick", sick.grpc) + &manifest("well", well.grpc);
    let options = ["--memory", "32MiB", "--spill-after", "10ms", "--drain-timeout", "100ms"];
    let mut weir = Weir::start(&manifests, &options).await;
    overfill(&weir).await;
    let first = said(&weir, "memory_full");
    assert_eq!(first.len(), 1, "at once, and not again so soon: {first:?}");
    assert_eq!((&first[0]["pipeline"], &first[0]["level"]), (&"traces/sick".into(), &"WARN".into()), "{first:?}");
    let full = dropped(&Scrape::of(weir.metrics).await, "memory_full");
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    let lines = said(&weir, "memory_full");
    assert_eq!((lines.len(), items(&lines)), (2, full), "the rest is said at the end: {lines:?}");
    let ended = said(&weir, "shutdown");
    let stopped = weir.all_logged("stopped");
    let total: u64 = stopped.iter().map(|line| line["dropped"].as_u64().unwrap()).sum();
    assert_eq!(full + items(&ended), total, "{ended:?} {stopped:?}");
    assert_eq!(ended[0]["level"], "ERROR", "{ended:?}");
}

/// Of many pipelines that lose something at once, the log names fifty, and has the sum of the others.
#[tokio::test]
async fn the_log_names_only_so_many_pipelines_that_lose_something() {
    const ALL: u64 = 60;
    const NAMED: u64 = 50;
    let away = closed_port().await;
    let manifests: String = (0..ALL).map(|number| manifest(&format!("p{number}"), away)).collect();
    let options = ["--memory", "256MiB", "--spill-after", "10ms", "--drain-timeout", "100ms"];
    let mut weir = Weir::start(&manifests, &options).await;
    assert_eq!(Grpc::connect(weir.grpc).await.export(&payload::encoded(1, ITEMS, 10)).await.code, OK);
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().await.code(), Some(0));
    let lines = said(&weir, "shutdown");
    let (named, others): (Vec<&Value>, Vec<&Value>) = lines.iter().partition(|line| line["pipeline"].is_string());
    assert_eq!((named.len() as u64, items(&lines)), (NAMED, ALL * ITEMS), "{lines:?}");
    let [line] = &*others else { panic!("{others:?}") };
    assert_eq!((&line["left_out"], &line["items"]), (&(ALL - NAMED).into(), &((ALL - NAMED) * ITEMS).into()), "{line}");
}

#[tokio::test]
async fn the_books_of_a_pipeline_that_is_gone_are_shown() {
    let (sick, well) = (sink(DOWN).await, sink("{}").await);
    let manifests = manifest("sick", sick.grpc) + &manifest("well", well.grpc);
    let options = ["--spill-after", "10ms", "--drain-timeout", "100ms"];
    let weir = Weir::start(&manifests, &options).await;
    let client = Grpc::connect(weir.grpc).await;
    for number in 0..3 {
        assert_eq!(client.export(&payload::encoded(1 + number * ITEMS, ITEMS, 10)).await.code, OK);
    }
    weir.edit(&manifest("well", well.grpc));
    eventually("it is removed", async || weir.logged("pipeline removed").is_some()).await;
    let scrape = Scrape::of(weir.metrics).await;
    let books = scrape.books("sick");
    assert_eq!((books.accepted, books.dropped, books.pending), (3 * ITEMS, 3 * ITEMS, 0));
    assert_eq!(dropped(&scrape, "shutdown"), 3 * ITEMS);
    assert_eq!(items(&said(&weir, "shutdown")), 3 * ITEMS, "said when it leaves");
    for arguments in [&[][..], &["traces/sick"]] {
        let told = why(&weir, arguments).await;
        for part in ["traces/sick: 300 items came in\n", "  shutdown 300\n", "\n  It is not configured any more.\n"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert_eq!(told.contains("traces/well"), arguments.is_empty(), "{told}");
    }
    weir.edit(&manifests);
    eventually("it returns, with its books", async || {
        client.export(&payload::encoded(1000, 1, 10)).await;
        Scrape::of(weir.metrics).await.books("sick").accepted > 3 * ITEMS
    })
    .await;
}

#[tokio::test]
async fn what_is_on_the_disk_for_a_pipeline_that_is_gone_is_told() {
    let (dir, sick, well) = (DataDir::new(), sink(DOWN).await, sink("{}").await);
    let manifests = manifest("sick", sick.grpc) + &manifest("well", well.grpc);
    let options = ["--data-dir", dir.arg(), "--spill-after", "10ms", "--drain-timeout", "100ms"];
    let weir = Weir::start(&manifests, &options).await;
    assert_eq!(Grpc::connect(weir.grpc).await.export(&payload::encoded(1, ITEMS, 10)).await.code, OK);
    weir.edit(&manifest("well", well.grpc));
    eventually("it is removed", async || weir.logged("pipeline removed").is_some()).await;
    let books = Scrape::of(weir.metrics).await.books("sick");
    assert_eq!((books.accepted, books.dropped, books.pending), (ITEMS, 0, ITEMS));
    let told = why(&weir, &["traces/sick"]).await;
    assert!(told.contains("\n  It is not configured any more: what is pending stays on the disk, "), "{told}");
}

/// They are in no books.
#[tokio::test]
async fn requests_that_were_refused_are_told() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    assert!(!why(&weir, &[]).await.contains("were refused"));
    assert_eq!(http::post_to(weir.http, "/v1/traces", JSON, b"{").await.status, 400);
    let told = "Requests of clients were refused: malformed 1. ";
    eventually("it is told", async || why(&weir, &[]).await.contains(told)).await;
    assert!(!why(&weir, &["traces/shop"]).await.contains("were refused"), "they are of no pipeline");
}
