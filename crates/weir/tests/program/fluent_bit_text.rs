//! Pipelines with filters and outputs in Fluent Bit's own language.

use std::fs;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::data_dir::DataDir;
use weir_testkit::manifests::{self, from_secret, secret, with_spec};
use weir_testkit::metrics::Scrape;
use weir_testkit::{eventually, in_time};

use crate::fluent_bit::{Node, backend_that_comes_back, pod, records, start};
use crate::process::command;

/// A pipeline with these filters and this output.
fn pipeline(filters: &[&str], output: &str, more: Value) -> String {
    let filters: Vec<Value> = filters.iter().map(|text| json!({"custom": text})).collect();
    let spec = manifests::with(json!({"filters": filters, "output": {"custom": output}}), more);
    with_spec(Signal::Logs, "text", &spec) + &pod()
}

fn http(server: &Backend, more: &str) -> String {
    format!("Name http\nHost {}\nPort {}\n{more}", server.address.ip(), server.address.port())
}

/// The records that a server took, without what is known of their pod.
fn taken(server: &Backend) -> Vec<Value> {
    server.captured().iter().filter(|request| request.taken).flat_map(records).collect()
}

#[tokio::test]
async fn what_filters_keep_arrives_and_what_they_drop_is_counted() {
    let (node, server) = (Node::new(), Backend::start().await);
    let filters = [
        "Name grep\nExclude log debug",
        "Name grep\nRegex $kubernetes['labels']['app.kubernetes.io/name'] ^cart$",
        "Name modify\nRename level severity\nSet tenant ${TENANT}\nCondition Key_exists level",
        "Name nest\nOperation nest\nWildcard tenant\nNest_under shop",
    ];
    let output =
        http(&server, "Uri /in\nFormat json\nJson_date_key ts\nJson_date_format epoch\nHeader X-Tenant ${TENANT}");
    let variables = json!([{"name": "TENANT", "valueFrom": from_secret("tenants", "name")["valueFrom"]}]);
    let runtime = json!({"runtime": {"keepOriginalBody": false}});
    let manifests = pipeline(&filters, &output, json!({"variables": variables, "input": runtime}));
    let manifests = manifests + "---\n" + &secret("tenants", &json!({"name": "blue"}));
    let weir = start(&node, &manifests, &[]).await;
    node.writes(&["debug: nothing", "plain", r#"{"level":"warn","log":"low"}"#, "also debug"]);
    let books = async || Scrape::of(weir.metrics).await.books("text");
    eventually("two are delivered", async || books().await.delivered == 2).await;
    let books = books().await;
    assert_eq!((books.accepted, books.filtered), (4, 2));
    let page = Scrape::of(weir.metrics).await;
    let labels = "pipeline=\"text\",signal=\"logs\",kind=\"fluent_bit_filter\",rule=\"0\",line=\"0\"";
    assert_eq!(page.get(&format!("weir_rule_filtered_items_total{{{labels}}}")), 2.0);
    let request = &server.captured()[0];
    assert_eq!((request.path.as_str(), &request.headers["x-tenant"]), ("/in", &"blue".parse().unwrap()));
    let [plain, object] = taken(&server).try_into().unwrap();
    let kubernetes = &plain["kubernetes"];
    assert_eq!((&kubernetes["pod_name"], kubernetes.get("app_name")), (&json!("cart-0"), None));
    assert_eq!(plain["log"], "plain");
    // Neither `@timestamp`, which is for output.http.
    let time = "2026-11-23T12:00:00.123456789Z";
    let expected = json!({
        "ts": 1_795_435_200, "time": time, "stream": "stdout", "_p": "F", "severity": "warn", "log": "low",
        "cluster_identifier": "c0ffee", "kubernetes": kubernetes, "shop": {"tenant": "blue"},
    });
    assert_eq!(object, expected);
}

/// Filters come before `app_name` and the names without dots.
#[tokio::test]
async fn filters_of_an_http_output_see_records_as_fluent_bits_filters_do() {
    let (node, server) = (Node::new(), Backend::start().await);
    let filters = [
        "Name nest\nOperation lift\nNested_under kubernetes\nAdd_prefix k8s_",
        "Name nest\nOperation nest\nWildcard k8s_labels\nWildcard k8s_pod_name\nNest_under kubernetes\nRemove_prefix k8s_",
        "Name record_modifier\nAllowlist_key log\nAllowlist_key kubernetes\nAllowlist_key @timestamp",
    ];
    let filters: Vec<Value> = filters.iter().map(|text| json!({"custom": text})).collect();
    let http = json!({
        "host": {"value": server.address.ip().to_string()}, "port": server.address.port().to_string(),
        "tls": {"insecure": true}, "dedot": true,
    });
    let manifests = with_spec(Signal::Logs, "text", &json!({"filters": filters, "output": {"http": http}})) + &pod();
    let weir = start(&node, &manifests, &[]).await;
    node.writes(&["a line"]);
    eventually("it is delivered", async || Scrape::of(weir.metrics).await.books("text").delivered == 1).await;
    let labels = json!({"app_kubernetes_io_name": "cart", "team": "blue"});
    let expected = json!({
        "date": "2026-11-23T12:00:00.123456Z", "log": "a line", "@timestamp": "2026-11-23T12:00:00.123456789Z",
        "kubernetes": {"labels": labels, "pod_name": "cart-0", "app_name": "cart"},
    });
    assert_eq!(taken(&server), [expected]);
}

/// What waits is what the filters made, whatever they are when it goes out.
#[tokio::test]
async fn what_filters_made_survives_a_kill() {
    let (server, is_up) = backend_that_comes_back().await;
    let (node, dir) = (Node::new(), DataDir::new());
    node.writes(&["keep", "drop"]);
    let filters = ["Name grep\nExclude log drop", "Name modify\nSet seen once"];
    let manifests = pipeline(&filters, &http(&server, "Json_date_key false"), json!({}));
    let arguments = ["--data-dir", dir.arg(), "--spill-after", "10ms"];
    let weir = start(&node, &manifests, &arguments).await;
    eventually("one is on disk", async || {
        Scrape::of(weir.metrics).await.get("weir_pipeline_backlog_items{pipeline=\"text\",signal=\"logs\"}") == 1.0
    })
    .await;
    weir.kill().await;
    // Positions are saved later than lines are on disk: without their file, they are not read again.
    fs::remove_dir_all(node.container().parent().unwrap()).unwrap();
    is_up.store(true, Ordering::SeqCst);
    let weir = start(&node, &pipeline(&[], &http(&server, "Json_date_key false"), json!({})), &arguments).await;
    eventually("it arrives", async || !taken(&server).is_empty()).await;
    Scrape::settled(weir.metrics, "text").await;
    let records = taken(&server);
    assert!(records.iter().all(|record| (&record["log"], &record["seen"]) == (&json!("keep"), &json!("once"))));
    assert!(records.iter().all(|record| record.get("date").is_none() && record["kubernetes"]["host"] == "node-1"));
}

#[tokio::test]
async fn records_are_lines_of_standard_output_or_go_nowhere() {
    for (plugin, exporter) in [("stdout", "stdout/logpipeline-text"), ("null", "null/logpipeline-text")] {
        let node = Node::new();
        let filters = ["Name parser\nKey_Name log\nParser logfmt\nReserve_Data On"];
        let weir = start(&node, &pipeline(&filters, &format!("Name {plugin}"), json!({})), &[]).await;
        node.writes(&["level=info msg=\"a line\"", "level=warn"]);
        eventually("both count as delivered", async || Scrape::of(weir.metrics).await.books("text").delivered == 2)
            .await;
        let page = Scrape::of(weir.metrics).await;
        let sent = page.get(&format!("otelcol_exporter_sent_log_records_total{{exporter=\"{exporter}\"}}"));
        assert_eq!(sent, 2.0);
        let (status, out) = weir.end().await;
        assert!(status.success());
        let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if plugin == "null" {
            assert!(lines.is_empty());
            continue;
        }
        assert_eq!((&lines[0]["msg"], &lines[1]["level"]), (&json!("a line"), &json!("warn")));
    }
}

/// Nobody reads what is written, so standard output takes no more. Others go on, and the process ends when it is told.
#[tokio::test]
async fn standard_output_that_takes_nothing_keeps_nobody_else_waiting() {
    let (node, server) = (Node::new(), Backend::start().await);
    let spec = json!({"output": {"custom": http(&server, "")}});
    let manifests = with_spec(Signal::Logs, "other", &spec) + "---\n" + &pipeline(&[], "Name stdout", json!({}));
    let weir = start(&node, &manifests, &["--drain-timeout", "1s"]).await;
    let long = "x".repeat(10_000);
    let texts = vec![long.as_str(); 100];
    for round in 1..4 {
        node.writes(&texts);
        eventually("the other pipeline has them", async || {
            Scrape::of(weir.metrics).await.books("other").delivered == round * 100
        })
        .await;
    }
    assert!(Scrape::of(weir.metrics).await.books("text").delivered < 300);
    let (status, out) = weir.end().await;
    assert!(status.success() && out.len() < 300 * long.len(), "{status}");
}

#[tokio::test]
async fn check_says_what_is_wrong_and_which_mode_it_is() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("pipelines.yaml");
    let check = async |filter: &str, arguments: &[&str]| {
        let text = format!(
            "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: LogPipeline\nmetadata: {{name: text}}\nspec:\n  \
             filters:\n  - custom: |\n      Name grep\n      {filter}\n  output:\n    custom: Name stdout\n"
        );
        fs::write(&file, text).unwrap();
        let output = command(&[&["check", file.to_str().unwrap()], arguments].concat()).output();
        let output = in_time("weir check", output).await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, _) = check("Exclude log hunter2", &[]).await;
    assert_eq!((code, out.as_str()), (Some(0), "ok: logs/text -> stdout (unsupportedMode)\n"));
    let (_, out, _) = check("Exclude log hunter2", &["--format", "json"]).await;
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["pipelines"][0]["unsupportedMode"], true);
    for (filter, message) in [
        ("Exclude log (?=hunter2)", "exclude of filter grep has a regular expression that has a look-ahead"),
        ("Excludes log hunter2", "key excludes of filter grep is not supported; expected one of: regex, exclude"),
        ("Match *", "custom filter plugin contains match condition. Match conditions are forbidden"),
        ("Exclude log ${HUNTER}", "variable \"HUNTER\" is not defined"),
    ] {
        let (code, _, err) = check(filter, &[]).await;
        assert!(code == Some(1) && err.contains(message) && !err.contains("hunter2"), "{filter}: {err}");
        assert!(err.contains("pipelines.yaml:8:"), "the line of the key: {err}");
    }
}

/// Each record becomes as large as all that is known of its pod. Then fewer lines are read at once.
#[tokio::test]
async fn records_that_filters_make_large_are_made_a_few_at_a_time() {
    let (node, server) = (Node::new(), Backend::start().await);
    let texts: Vec<String> = (0..3000).map(|number| format!("line {number:04}")).collect();
    node.writes(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let lift = "Name nest\nOperation lift\nNested_under kubernetes";
    let runtime = json!({"runtime": {"keepAnnotations": true}});
    let manifests = pipeline(&[lift], &http(&server, "Compress gzip"), json!({"input": runtime}));
    let large = format!("\"large\":\"{}\"", "x".repeat(12 << 10));
    let manifests = manifests.replace("\"example.com/owner\":\"blue\"", &large);
    let weir = start(&node, &manifests, &["--memory", "64MiB"]).await;
    eventually("all arrive", async || Scrape::of(weir.metrics).await.books("text").delivered == 3000).await;
    let mut logs: Vec<_> = taken(&server).iter().map(|record| record["log"].as_str().unwrap().to_owned()).collect();
    logs.sort();
    assert_eq!(logs, texts);
}
