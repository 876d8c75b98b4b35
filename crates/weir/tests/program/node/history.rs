//! What a node says of the configurations that it has had: by what each of them came.

use serde_json::{Value, json};
use tempfile::TempDir;
use weir_plan::Signal;
use weir_testkit::data_dir::DataDir;
use weir_testkit::signals::document;
use weir_testkit::sink::closed_port;
use weir_testkit::{eventually, http};

use super::{cluster, node, runs, start, unreachable};
use crate::process::Weir;

/// What became of the newest configuration, what brought it, and which state of the Secret it is: the operator's name and
/// the API server's.
async fn newest(weir: &Weir) -> [String; 4] {
    let admin = weir.logged("ready").unwrap()["admin"].as_str().unwrap().parse().unwrap();
    let page: Value = serde_json::from_str(&http::get(admin, "/api/configuration").await.text()).unwrap();
    let newest = &page["history"][0];
    ["what", "by", "revision", "resource_version"].map(|field| newest[field].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_says_which_secret_brought_a_configuration_or_that_it_was_on_the_disk() {
    let Some(cluster) = cluster().await else { return };
    let (backend, dir, nobody) = (closed_port().await, DataDir::new(), TempDir::new().unwrap());
    cluster.tell("one", &document(Signal::Traces, "traces", backend, ""), &json!({})).await;
    let arguments = ["--data-dir", dir.arg()];
    let weir = start(cluster.node("a", &arguments)).await;
    runs(&weir, "one").await;
    let [what, by, revision, first] = newest(&weir).await;
    assert_eq!([&*what, &*by, &*revision], ["started", "secret", "one"]);
    assert!(!first.is_empty());
    cluster.tell("two", "kind: Nothing\n", &json!({})).await;
    eventually("the other one is refused", async || {
        let [what, by, revision, second] = newest(&weir).await;
        [&*what, &*by, &*revision] == ["refused", "secret", "two"] && !second.is_empty() && second != first
    })
    .await;
    eventually("the good one is kept", async || dir.path().join("state/configuration").exists()).await;
    weir.kill().await;
    drop(cluster);
    let weir = start(node(&unreachable(&nobody).await, "a", &arguments)).await;
    assert_eq!(newest(&weir).await, ["started", "saved", "one", &*first]);
}
