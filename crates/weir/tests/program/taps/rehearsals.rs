//! Rules that are tried on what has passed, and filters of Fluent Bit.

use weir_plan::Signal;
use weir_testkit::grpc::frame;
use weir_testkit::manifests::{from_secret, plain, with, with_spec};
use weir_testkit::signals::{counter_of, deltas, document};

use super::*;
use crate::fluent_bit::{Node, pod};

#[tokio::test]
async fn other_rules_are_tried_on_what_a_tap_has_caught() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    let tap = open(port, &json!({"pipeline": "traces/shop", "items_per_second": 100})).await;
    send(&weir, 1, 10).await;
    eventually("all is seen", async || read(port, tap).await["matched"] == 10).await;
    let rules = json!({"pipeline": "traces/shop", "tap": tap,
        "transform": [{"statements": ["set(span.attributes[\"team\"], \"red\") where span.name == \"GET /orders/1\""]}],
        "filter": [{"conditions": ["IsMatch(span.name, \"/[2-4]$\")"]}]});
    let (status, answer) = post(port, "/api/preview", &rules).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!((&answer["samples"], &answer["kept"], &answer["removed"]), (&json!(10), &json!(7), &json!(3)));
    assert_eq!(answer["kept_changed"], json!(1));
    let [before, after] = ["bytes_before", "bytes_after"].map(|of| answer[of].as_u64().unwrap());
    assert!(0 < after && after < before && answer["removed_ratio"] == 0.3, "{answer}");
    let of_bytes = answer["removed_bytes_ratio"].as_f64().unwrap();
    assert!((of_bytes * before as f64 - (before - after) as f64).abs() < 0.01, "{answer}");
    let [transform, filter] = [0, 1].map(|rule| &answer["rules"][rule]);
    assert_eq!((&filter["matched"], &filter["removed"]), (&json!(3), &json!(3)), "{transform}");
    assert_eq!(answer["changed"].as_array().unwrap().len(), 4);
    assert!(answer["changed"][0]["after"].to_string().contains("red") && answer["changed"][1]["after"].is_null());
    let yaml = answer["yaml"].as_str().unwrap();
    assert!(yaml.contains("kind: \"TracePipeline\"") && yaml.contains("IsMatch(span.name"), "{yaml}");
    // What it exports is what is read.
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let output = "  output:\n    otlp: {endpoint: {value: 'http://127.0.0.1:1'}}\n";
    std::fs::write(file.path(), format!("{yaml}{output}")).unwrap();
    let checked = in_time("weir check", command(&["check", file.path().to_str().unwrap()]).output()).await.unwrap();
    assert!(checked.status.success(), "{yaml}{output}{}", String::from_utf8_lossy(&checked.stderr));
    for (rules, status, words) in [
        (
            json!({"pipeline": "traces/shop", "tap": tap, "filter": [{"conditions": ["span.nam == 1"]}]}),
            400,
            "span.nam",
        ),
        (json!({"pipeline": "traces/shop", "tap": 99}), 410, "there is no tap 99"),
        (json!({"pipeline": "traces/none", "tap": tap}), 404, "there is no pipeline"),
    ] {
        let (found, answer) = post(port, "/api/preview", &rules).await;
        assert!(found == status && answer["error"].as_str().unwrap().contains(words), "{answer}");
    }
    send(&weir, 2, 1).await;
    eventually("it is seen", async || read(port, tap).await["matched"] == 11).await;
    assert!(caught(&read(port, tap).await).iter().all(|(_, way)| way != "removed"), "nothing was deployed");
}

/// The pipeline is in the file as somebody has edited it. Its Secret is elsewhere.
#[tokio::test]
async fn rules_in_a_file_are_tried_on_what_has_passed() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let token = with(from_secret("nowhere", "token"), json!({"name": "authorization"}));
    let output = json!({"otlp": with(plain("grpc", sink.grpc), json!({"headers": [token]}))});
    let edit = |statement: &str| {
        let spec = json!({"output": output, "transform": [{"statements": [statement]}],
            "filter": [{"conditions": ["IsMatch(span.name, \"/1$\")"]}]});
        let shop = with_spec(Signal::Traces, "shop", &spec);
        std::fs::write(file.path(), shop + &with_spec(Signal::Traces, "none", &json!({"output": output}))).unwrap();
    };
    let path = file.path().to_str().unwrap();
    let tried =
        async |more: &[&str]| told(port, &[&["try", path, "--recent", "--pipeline", "shop"][..], more].concat()).await;
    edit("set(span.attributes[\"team\"], \"red\") where span.name == \"GET /orders/2\"");
    let (code, out, said) = tried(&[]).await;
    assert!(code == Some(1) && out.starts_with("traces/shop: nothing has passed since"), "{out}{said}");
    send(&weir, 1, 10).await;
    let (code, out, said) = tried(&[]).await;
    assert_eq!(code, Some(0), "{out}{said}");
    for line in [
        "traces/shop: 4 recent items: 3 kept, 1 of them changed; 1 removed",
        "  transform[0].statements[0]: 1 matched, 0 failed: set(span.attributes[\"team\"]",
        "  filter[0].conditions[0]: 1 matched, 1 removed, 0 failed: IsMatch(span.name, \"/1$\")",
        "  removed: span \"GET /orders/1\" ",
        "  changed: span \"GET /orders/2\" ",
    ] {
        assert!(out.lines().any(|told| told.starts_with(line)), "{line}: {out}");
    }
    assert!(out.lines().any(|line| line.starts_with('+') && line.contains("\"red\"")), "{out}");
    let (_, out, _) = tried(&["--format", "json"]).await;
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&answer["pipeline"], &answer["samples"]), (&json!("traces/shop"), &json!(4)), "{answer}");
    assert_eq!((&answer["kept_changed"], &answer["rules"][1]["removed"]), (&json!(1), &json!(1)), "{answer}");
    let (code, _, said) = told(port, &["try", path, "--recent"]).await;
    assert!(code == Some(1) && said.contains("cannot try the rules of traces/none: there is no pipeline"), "{said}");
    edit("set(span.attributes[\"n\"], Int(span.name) + 1)");
    let (code, out, _) = tried(&[]).await;
    assert!(code == Some(1) && out.contains("0 matched, 4 failed"), "a rule that fails: {out}");
    edit("set(span.nam, 1)");
    let (code, out, said) = tried(&[]).await;
    assert!(code == Some(1) && out.is_empty() && said.contains("unknown path \"nam\""), "{out}{said}");
    for wrong in [&["try", path][..], &["try", path, "--recent", "--input", "-"]] {
        assert_eq!(told(port, wrong).await.0, Some(2), "a sample, or recent items: {wrong:?}");
    }
    let (_, configured) = get(port, "/api/configuration").await;
    assert_eq!(configured["pipelines"][0]["rules"], json!([]), "nothing was deployed");
}

/// Those of a pipeline apply unless others are written; what these are is not shown.
#[tokio::test]
async fn filters_of_fluent_bit_are_tried() {
    let (node, server) = (Node::new(), Backend::start().await);
    let http = json!({
        "host": {"value": server.address.ip().to_string()}, "port": server.address.port().to_string(),
        "tls": {"insecure": true},
    });
    let spec = json!({"filters": [{"custom": "Name grep\nExclude log drop"}], "output": {"http": http}});
    let manifests = with_spec(Signal::Logs, "text", &spec) + &pod();
    let weir = Weir::start(&manifests, &["--pod-logs", node.pods()]).await;
    let port = admin(&weir);
    node.writes(&["keep this", "drop this"]);
    eventually("both have passed", async || get(port, "/api/recent?pipeline=logs/text").await.1["count"] == 2).await;
    for (filters, removed) in [(Value::Null, 1), (json!([0, "Name grep\nExclude log keep"]), 2), (json!([]), 0)] {
        let (status, answer) = post(port, "/api/preview", &json!({"pipeline": "logs/text", "filters": filters})).await;
        assert_eq!((status, &answer["samples"], &answer["removed"]), (200, &json!(2), &json!(removed)), "{answer}");
        let yaml = answer["yaml"].as_str().unwrap();
        assert_eq!(yaml.contains("Exclude log keep"), removed == 2, "{yaml}");
        assert!(!answer.to_string().contains("Exclude log drop"), "{answer}");
    }
    for (pipeline, filters, words) in [
        ("logs/text", json!(["Name nothing"]), "filters[0]: filter (name not shown) is not supported"),
        ("logs/text", json!([3]), "logs/text has no filters[3]"),
    ] {
        let (status, answer) = post(port, "/api/preview", &json!({"pipeline": pipeline, "filters": filters})).await;
        assert!(status == 400 && answer["error"].as_str().unwrap().contains(words), "{answer}");
    }
}

/// The conversion of a preview begins anew each time, with the first of the samples, and disturbs the one that is deployed in
/// nothing.
#[tokio::test]
async fn samples_of_a_pipeline_that_converts_become_deltas() {
    let backend = Backend::start().await;
    let pipeline = document(Signal::Metrics, "shop", backend.address, "      temporality: delta");
    let weir = Weir::start(&pipeline, &[]).await;
    let (port, client) = (admin(&weir), Grpc::connect(weir.grpc).await);
    let count = async |service: &str, second: u64, value: i64| {
        let request = frame(&counter_of(service, second, value), false);
        assert_eq!(client.call(Signal::Metrics.grpc_method(), None, request).await.code, OK);
    };
    count("a", 1, 10).await;
    let tap = open(port, &json!({"pipeline": "metrics/shop", "items_per_second": 100})).await;
    for (service, second, value) in [("a", 2, 15), ("b", 2, 100), ("a", 3, 22), ("b", 3, 101)] {
        count(service, second, value).await;
    }
    eventually("all is seen", async || read(port, tap).await["matched"] == 4).await;
    let without_b = json!([{"conditions": ["resource.attributes[\"service.name\"] == \"b\""]}]);
    for (filter, values, [kept, removed, first]) in
        [(json!([]), &["7", "1"][..], [2, 0, 2]), (without_b, &["7"], [1, 2, 1]), (json!([]), &["7", "1"], [2, 0, 2])]
    {
        let rules = json!({"pipeline": "metrics/shop", "tap": tap, "filter": filter});
        let (status, answer) = post(port, "/api/preview", &rules).await;
        assert_eq!((status, &answer["samples"]), (200, &json!(4)), "{answer}");
        assert_eq!((&answer["kept"], &answer["removed"]), (&json!(kept), &json!(removed)), "{answer}");
        assert_eq!((&answer["delta"]["converted"], &answer["delta"]["first"]), (&json!(kept), &json!(first)));
        assert!(answer["delta"]["explanation"].as_str().unwrap().contains("first point of each series"), "{answer}");
        let changed = answer["changed"].as_array().unwrap().iter().filter(|changed| !changed["after"].is_null());
        let after =
            changed.map(|changed| &changed["after"]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["sum"]);
        let after: Vec<_> = after.map(|sum| (&sum["aggregationTemporality"], &sum["dataPoints"][0]["asInt"])).collect();
        let expected: Vec<_> = values.iter().map(|value| (json!(1), json!(value))).collect();
        assert_eq!(after, expected.iter().map(|(delta, value)| (delta, value)).collect::<Vec<_>>(), "{answer}");
    }
    count("a", 4, 30).await;
    let arrived = || backend.captured().iter().flat_map(|request| deltas(&request.plain)).collect::<Vec<_>>();
    eventually("the pipeline goes on", async || arrived().len() == 4).await;
    assert_eq!(arrived().into_iter().map(|(_, value)| value).collect::<Vec<_>>(), [5, 7, 1, 8]);
    let (_, answer) = post(port, "/api/preview", &json!({"pipeline": "metrics/shop"})).await;
    assert!(answer["samples"].as_u64().unwrap() > 0 && answer["delta"]["first"] != 0, "recent items: {answer}");
}

#[tokio::test]
async fn rules_show_no_secret_that_their_tap_hides() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    for hides in [true, false] {
        let tap = open(port, &json!({"pipeline": "traces/shop", "redact": hides})).await;
        send(&weir, 1, 1).await;
        eventually("it is seen", async || read(port, tap).await["matched"] == 1).await;
        let rules = json!({"pipeline": "traces/shop", "tap": tap, "redact": false,
            "transform": [{"statements": ["set(span.attributes[\"note\"], \"password=s3cr3t\")"]}]});
        let (status, answer) = post(port, "/api/preview", &rules).await;
        assert_eq!((status, answer["changed"].to_string().contains("s3cr3t")), (200, !hides), "{answer}");
    }
}

/// Wherever rules put it.
#[tokio::test]
async fn rules_show_no_secret_that_is_hidden_before_them() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    let secrets = json!([{"key": "db.password", "value": {"stringValue": "hunter2"}},
        {"key": "url", "value": {"stringValue": "redis://:p4ssw0rd@cache:6379"}}]);
    let body = json!({"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": format!("{:032x}", 1),
        "spanId": format!("{:016x}", 1), "name": "login", "attributes": secrets}]}]}]});
    let answer = http::post_to(weir.http, "/v1/traces", JSON, body.to_string().as_bytes()).await;
    assert_eq!(answer.status, 200);
    let statements = [
        "set(span.attributes[\"x\"], span.attributes[\"db.password\"])",
        "set(span.name, Concat([\"it is\", span.attributes[\"db.password\"]], \" \"))",
        "replace_pattern(span.attributes[\"url\"], \"^redis://:([^@]+)@.*$\", \"$1\")",
    ];
    for redact in [true, false] {
        let rules = json!({"pipeline": "traces/shop", "redact": redact, "transform": [{"statements": statements}]});
        let (status, answer) = post(port, "/api/preview", &rules).await;
        assert_eq!((status, &answer["kept_changed"], &answer["failed"]), (200, &json!(1), &json!(0)), "{answer}");
        let changed = &answer["changed"][0];
        let span = &changed["after"]["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        let shown = if redact { "[redacted]" } else { "hunter2" };
        assert_eq!(span["name"], format!("it is {shown}"), "{answer}");
        let shows = ["hunter2", "p4ssw0rd"].map(|secret| changed.to_string().contains(secret));
        assert_eq!(shows, [!redact; 2], "{answer}");
        let has_url = changed["after"].to_string().contains("redis://");
        assert!(!has_url, "a password without its URL is found, too: {answer}");
    }
}
