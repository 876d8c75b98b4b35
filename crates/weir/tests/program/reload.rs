//! A configuration that changes while data flows: only what it is about changes, and nothing is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::clients::{ids, send_all};
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::manifests::{self, plain, with};
use weir_testkit::sink::{arrived, sink};
use weir_testkit::{eventually, payload};

use crate::process::{Weir, manifest};

#[tokio::test]
async fn an_edited_file_is_taken_up_and_a_wrong_one_is_not() {
    let (first, second) = (sink("{}").await, sink("{}").await);
    let weir = Weir::start(&manifest("backend", first.grpc), &[]).await;
    send_all(weir.grpc, 0..5, 10).await;

    weir.edit("kind: [");
    eventually("the error is logged", async || {
        weir.logged("the new configuration is not used; the last good one goes on").is_some()
    })
    .await;
    let found = |line: &Value| {
        line["level"] == "ERROR" && line["line"] == 2 && line["file"].as_str().unwrap().ends_with("pipelines.yaml")
    };
    assert!(weir.logs().iter().filter(|line| line["file"].is_string()).any(found), "{:?}", weir.logs());
    let page = weir_testkit::metrics::Scrape::of(weir.metrics).await;
    assert_eq!(page.get("weir_config_last_reload_successful"), 0.0);
    send_all(weir.grpc, 5..10, 10).await;

    weir.edit(&(manifest("backend", first.grpc) + &manifest("second", second.grpc)));
    eventually("the new pipeline is there", async || weir.logged("configuration reloaded").is_some()).await;
    send_all(weir.grpc, 10..15, 10).await;
    let page = weir_testkit::metrics::Scrape::of(weir.metrics).await;
    assert_eq!(page.get("weir_config_last_reload_successful"), 1.0);
    assert_eq!(page.get("weir_config_reloads_total{result=\"success\"}"), 1.0);
    eventually("both have theirs", async || arrived(&first) == ids(0..15) && arrived(&second) == ids(10..15)).await;

    let reloads = || weir.logs().iter().filter(|line| line["message"] == "configuration reloaded").count();
    let before = reloads();
    weir.signal(rustix::process::Signal::HUP);
    eventually("SIGHUP reads the files again", async || reloads() > before).await;
}

/// A pipeline whose backend sees which version of the file it is from.
fn versioned(backend: &Backend, version: usize) -> String {
    let header = json!({"name": "x-version", "value": version.to_string()});
    manifests::pipeline(
        Signal::Traces,
        "versioned",
        &with(plain("grpc", backend.address), json!({"headers": [header]})),
    )
}

/// Files of a watched directory are added, edited and removed. `WEIR_EDITS` says how often one is edited; how long edits
/// took is printed.
#[tokio::test]
async fn files_of_a_directory_take_effect() {
    // Much more than it takes, because the machine may be busy.
    const LIMIT: Duration = Duration::from_secs(30);
    let edits = std::env::var_os("WEIR_EDITS").map_or(3, |edits| edits.to_str().unwrap().parse().unwrap());
    let (first, second) = (sink("{}").await, Backend::start().await);
    let weir = Weir::start_directory(&manifest("first", first.grpc), &[]).await;
    let client = Grpc::connect(weir.grpc).await;
    let next = AtomicU64::new(1);
    let send = async || {
        let id = next.fetch_add(1, Ordering::Relaxed);
        assert_eq!(client.export(&payload::encoded(id, 1, 0)).await.code, OK);
        id
    };
    let mut took = Vec::new();
    for version in 0..=edits {
        let since = Instant::now();
        weir.write("second.yaml", &versioned(&second, version));
        eventually("a request has the new version", async || {
            send().await;
            second.captured().last().is_some_and(|request| request.headers["x-version"] == version.to_string())
        })
        .await;
        took.push(since.elapsed());
    }
    let since = Instant::now();
    weir.remove("second.yaml");
    let removed = || weir.logs().iter().any(|line| line["removed"] == "traces/versioned");
    eventually("it is gone", async || removed()).await;
    let removal = since.elapsed();
    let last = send().await;
    eventually("the other one goes on", async || arrived(&first) == (1..=last).collect::<Vec<_>>()).await;
    assert!(!second.ids().contains(&last));

    let added = took.remove(0);
    took.sort_unstable();
    let (median, max) = (took[took.len() / 2], took[took.len() - 1]);
    println!("added after {added:?}, removed after {removal:?}; {edits} edits: median {median:?}, max {max:?}");
    assert!([added, removal, max].iter().all(|took| *took < LIMIT), "{added:?} {removal:?} {took:?}");
}
