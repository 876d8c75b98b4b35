//! What a node says of the configurations that it has had: by what each of them came, and who changed its pipelines.

use serde_json::{Value, json};
use tempfile::TempDir;
use weir_plan::Signal;
use weir_testkit::data_dir::DataDir;
use weir_testkit::signals::document;
use weir_testkit::sink::closed_port;
use weir_testkit::{eventually, http};

use super::{cluster, node, packed, runs, start, unreachable};
use crate::process::Weir;

async fn configuration(weir: &Weir) -> Value {
    let admin = weir.logged("ready").unwrap()["admin"].as_str().unwrap().parse().unwrap();
    serde_json::from_str(&http::get(admin, "/api/configuration").await.text()).unwrap()
}

/// What became of the newest configuration, what brought it, and which state of the Secret it is: the operator's name and
/// the API server's.
async fn newest(weir: &Weir) -> [String; 4] {
    let page = configuration(weir).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_changed_a_pipeline_is_told_and_nothing_is_taken_up_for_that_alone() {
    let Some(cluster) = cluster().await else { return };
    let (backend, dir, nobody) = (closed_port().await, DataDir::new(), TempDir::new().unwrap());
    let traces = document(Signal::Traces, "traces", backend, "");
    let both = traces.clone() + &document(Signal::Logs, "logs", backend, "  input: {runtime: {enabled: false}}\n");
    let by = |manager: &str| json!({"manager": manager, "operation": "Update", "time": "2026-11-29T10:00:00Z"});
    let shown = |manager: &str| json!({"manager": manager, "operation": "Update", "at": "2026-11-29T10:00:00Z"});
    let data = |documents: &str, changed_by: &str| {
        let (documents, changed_by) = (packed(documents), packed(changed_by));
        json!({"configuration.json.gz": documents, "changed-by.json.gz": changed_by})
    };
    // An operator of an older version does not say who it was.
    cluster.tell("one", &traces, &json!({})).await;
    let arguments = ["--data-dir", dir.arg()];
    let weir = start(cluster.node("a", &arguments)).await;
    runs(&weir, "one").await;
    let page = configuration(&weir).await;
    assert_eq!((&page["pipelines"][0]["changed_by"], &page["history"][0]["changed_by"]), (&Value::Null, &json!({})));
    assert_eq!(page["pipelines"][0]["secrets"], Value::Null);
    // The same with it is the same: the next one is the second.
    cluster.tell_data("one", &data(&traces, &json!({"traces/traces": by("kubectl-edit")}).to_string())).await;
    let apply = "kubectl-client-side-apply";
    let mut helm = by("helm");
    helm["secrets"] = json!({"shop/backend": "812"});
    let hands = json!({"traces/traces": helm, "logs/logs": by(apply), "events/later": by(apply)}).to_string();
    cluster.tell_data("two", &data(&both, &hands)).await;
    runs(&weir, "two").await;
    let page = configuration(&weir).await;
    let of = |page: &Value| [0_usize, 1].map(|number| page["pipelines"][number]["changed_by"].clone());
    assert_eq!(of(&page), [shown("helm"), shown(apply)]);
    let secrets = |page: &Value| [0_usize, 1].map(|number| page["pipelines"][number]["secrets"].clone());
    assert_eq!(secrets(&page), [json!({"shop/backend": "812"}), Value::Null], "not that there are none");
    let newest = &page["history"][0];
    assert_eq!((newest["number"].as_u64(), &newest["added"]), (Some(2), &json!(["logs/logs"])), "{page}");
    assert_eq!(newest["changed_by"], json!({"logs/logs": shown(apply)}), "of what is new");
    // What nobody understands keeps nothing from running.
    cluster.tell_data("three", &data(&traces, "hunter2")).await;
    runs(&weir, "three").await;
    assert_eq!(of(&configuration(&weir).await), [Value::Null, Value::Null]);
    cluster.tell_data("two", &data(&both, &hands)).await;
    runs(&weir, "two").await;
    eventually("it is kept", async || {
        let kept = std::fs::read_to_string(dir.path().join("state/configuration"));
        kept.is_ok_and(|kept| kept.contains("\"two\""))
    })
    .await;
    weir.kill().await;
    drop(cluster);
    let weir = start(node(&unreachable(&nobody).await, "a", &arguments)).await;
    let page = configuration(&weir).await;
    assert_eq!(of(&page), [shown("helm"), shown(apply)]);
    assert_eq!(secrets(&page)[0], json!({"shop/backend": "812"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_operator_overrides_is_shown() {
    let Some(cluster) = cluster().await else { return };
    let (traces, dir) = (document(Signal::Traces, "traces", closed_port().await, ""), DataDir::new());
    cluster.tell("one", &traces, &json!({})).await;
    let weir = start(cluster.node("a", &["--data-dir", dir.arg()])).await;
    runs(&weir, "one").await;
    let mut process = configuration(&weir).await["process"].as_array().unwrap().clone();
    cluster.tell("two", &traces, &json!({"logLevel": "debug", "collectAgentLogs": true})).await;
    runs(&weir, "two").await;
    process.extend([json!("log level debug"), json!("reads its own logs, too")]);
    assert_eq!(configuration(&weir).await["process"], Value::Array(process));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_of_secrets_are_told_where_nobody_knows_who_changed_a_pipeline() {
    let Some(cluster) = cluster().await else { return };
    let (backend, dir) = (closed_port().await, DataDir::new());
    let logs = document(Signal::Logs, "logs", backend, "  input: {runtime: {enabled: false}}\n");
    let both = document(Signal::Traces, "traces", backend, "") + &logs;
    let versions = json!({"traces/traces": {"secrets": {"shop/backend": "813"}}, "logs/logs": {"secrets": {}}});
    let data = json!({"configuration.json.gz": packed(&both), "changed-by.json.gz": packed(&versions.to_string())});
    cluster.tell_data("one", &data).await;
    let weir = start(cluster.node("a", &["--data-dir", dir.arg()])).await;
    runs(&weir, "one").await;
    let page = configuration(&weir).await;
    let of = |field: &str| [0_usize, 1].map(|number| page["pipelines"][number][field].clone());
    assert_eq!(of("pipeline"), [json!("traces/traces"), json!("logs/logs")]);
    assert_eq!(of("secrets"), [json!({"shop/backend": "813"}), json!({})]);
    assert_eq!((of("changed_by"), &page["history"][0]["changed_by"]), ([Value::Null, Value::Null], &json!({})));
}
