//! What `weir why` tells of a process beside its books: its last hour, and its configurations.

use tempfile::TempDir;
use weir_plan::Signal;
use weir_testkit::manifests::{plain, with, with_spec};

use super::*;
use crate::scraping::scraping;

#[tokio::test]
async fn the_last_hour_is_told_in_a_terminal() {
    let refuses = |request: &Captured| payload::ids(&request.message).contains(&1);
    let script =
        move |_, request: &Captured| if refuses(request) { Say::Code(3, "no such field", None) } else { Say::Ok };
    let (backend, sink) = (Backend::scripted(script).await, sink("{}").await);
    let weir = Weir::start(&(manifest("shop", backend.address) + &manifest("other", sink.grpc)), &[]).await;
    let port = admin(&weir);
    send(&weir, 1, 4).await;
    let mut next = 5;
    eventually("it is lost, as others are taken", async || {
        send(&weir, next, 1).await;
        next += 1;
        let history = get(port, "/api/history?pipeline=traces/shop").await.1;
        let mut points = history["pipelines"][0]["points"].as_array().into_iter().flatten();
        points.any(|point| point[2] == 1)
    })
    .await;
    let (code, text, _) = told(port, &["why", "traces/shop", "--hour"]).await;
    assert_eq!(code, Some(0));
    assert!(text.starts_with("traces/shop: ") && text.contains(" were delivered and 1 lost in the last "), "{text}");
    assert!(text.contains("\nUNTIL ") && !text.contains("traces/other"), "{text}");
    assert!(text.contains("\n  most lost: 1 item in 1s until 20"), "{text}");
    assert!(text.contains("\n  rejected since the start: 1 item, INVALID_ARGUMENT, first at 20"), "{text}");
    let (code, all, _) = told(port, &["why", "--hour"]).await;
    assert!(code == Some(0) && all.starts_with("traces/other: ") && all.contains("\n\ntraces/shop: "), "{all}");
    let (_, json, _) = told(port, &["why", "traces/shop", "--hour", "--format", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["step_seconds"], &json["pipelines"][0]["pipeline"]), (&json!(1), &json!("traces/shop")));
    assert_eq!(json["pipelines"].as_array().unwrap().len(), 1);
    let (code, _, error) = told(port, &["why", "traces/none", "--hour"]).await;
    assert!(code == Some(1) && error.contains("there is no pipeline \"traces/none\"; there are: traces/"), "{error}");
    assert_eq!(told(port, &["why", "--hour", "--item", "a"]).await.0, Some(2), "one question at a time");
}

#[tokio::test]
async fn the_configuration_in_use_is_told_without_what_is_secret() {
    let sink = sink("{}").await;
    let headers = json!([{"name": "x-key", "value": "s3cr3t"}]);
    let otlp = with(plain("http", sink.http), json!({"headers": headers, "path": "/p4th"}));
    let filter = json!([{"conditions": ["span.name == \"never\""]}]);
    let shop = with_spec(Signal::Traces, "shop", &json!({"filter": filter, "output": {"otlp": otlp}}));
    let weir = Weir::start(&(shop + &manifest("other", sink.grpc)), &[]).await;
    let port = admin(&weir);
    let (code, text, _) = told(port, &["why", "traces/shop", "--in-use"]).await;
    assert_eq!(code, Some(0));
    let sends = format!("  sends to http://{}", sink.http);
    let rule = "  filter[0].conditions[0]: span.name == \"never\"";
    for line in ["traces/shop", "  takes OTLP", rule, &sends, "  no compression", "  headers x-key"] {
        assert!(text.lines().any(|told| told == line), "{line}: {text}");
    }
    assert!(text.contains("\n  last changed in file ") && !text.contains("traces/other"), "{text}");
    assert!(!text.contains("service enrichment"), "that is not of a pipeline: {text}");
    let (_, all, _) = told(port, &["why", "--in-use"]).await;
    let names = ["process", "  service enrichment otel", "traces/shop", "traces/other"];
    assert!(names.iter().all(|name| all.lines().any(|line| line == *name)), "{all}");
    let (_, json, _) = told(port, &["why", "traces/shop", "--in-use", "--format", "json"]).await;
    let shown: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&shown[0]["pipeline"], shown.as_array().unwrap().len()), (&json!("traces/shop"), 1));
    for text in [text, all, json] {
        assert!(!text.contains("s3cr3t") && !text.contains("p4th"), "{text}");
    }
    let (code, _, error) = told(port, &["why", "traces/none", "--in-use"]).await;
    assert!(code == Some(1) && error.contains("there is no pipeline \"traces/none\"; there are: traces/"), "{error}");
}

#[tokio::test]
async fn what_differs_between_two_configurations_is_told() {
    let sink = sink("{}").await;
    let weir = Weir::start(&filtering(sink.grpc), &[]).await;
    let port = admin(&weir);
    let (code, _, error) = told(port, &["why", "--differences"]).await;
    assert!(code == Some(1) && error.contains("no configuration before the one in use is remembered"), "{error}");
    let newest = async || get(port, "/api/configuration").await.1["history"][0]["number"].clone();
    let changed = filtering(sink.grpc).replace("never", "ever");
    for (number, manifests) in
        [(2u64, changed.clone()), (3, "kind: [".to_owned()), (4, changed + &manifest("other", sink.grpc))]
    {
        weir.edit(&manifests);
        eventually("it was looked at", async || newest().await == number).await;
    }
    let (code, text, _) = told(port, &["why", "--differences"]).await;
    assert_eq!(code, Some(0));
    assert!(text.starts_with("--- 2: changed at ") && text.contains("\n+++ 4: changed at "), "{text}");
    assert!(text.contains(", in use\n+ traces/other  takes OTLP\n") && !text.contains("shop"), "{text}");
    let (_, text, _) = told(port, &["why", "--differences=1..2"]).await;
    let expected = "\n- traces/shop  filter[0].conditions[0]: span.name == \"never\"\n\
                    + traces/shop  filter[0].conditions[0]: span.name == \"ever\"\n";
    assert!(text.starts_with("--- 1: started at ") && text.ends_with(expected), "{text}");
    let (_, text, _) = told(port, &["why", "traces/shop", "--differences=2"]).await;
    assert!(text.contains("\nNothing differs in inputs, rules, backends and settings, as far as "), "{text}");
    let (_, json, _) = told(port, &["why", "traces/shop", "--differences=1", "--format", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["from"], &json["to"], &json["differences"][1]["change"]),
        (&json!(1), &json!(4), &json!("added"))
    );
    for (arguments, code, words) in [
        (&["why", "--differences=3"][..], 1, "nothing is kept of a configuration 3; it is of these: 4, 2, 1"),
        (&["why", "traces/none", "--differences"][..], 1, "there are: traces/other, traces/shop"),
        (&["why", "--differences=first"][..], 2, "write it as 3 or 3..5"),
        (&["why", "--differences", "--in-use"][..], 2, "cannot be used with"),
    ] {
        let (status, _, error) = told(port, arguments).await;
        assert!(status == Some(code) && error.contains(words), "{arguments:?}: {error}");
    }
}

/// A LogPipeline that reads one container, a MetricPipeline with a static target, and a Telemetry that names the cluster.
fn told_little(backend: SocketAddr, [container, target, cluster]: [&str; 3]) -> String {
    let input = json!({"runtime": {"containers": {"include": [container]}}});
    let logs = json!({"input": input, "output": {"otlp": plain("grpc", backend)}});
    // A target with a user is not scraped.
    let targets = [format!("http://user:s3cr3t@127.0.0.1:9/{target}?key=s3cr3t")];
    let spec = json!({"enrichments": {"cluster": {"name": cluster}}});
    let telemetry = json!({"apiVersion": "operator.kyma-project.io/v1beta1", "kind": "Telemetry",
        "metadata": {"name": "default"}, "spec": spec});
    format!("{}{}{telemetry}\n", with_spec(Signal::Logs, "lines", &logs), scraping("pages", backend, &targets))
}

#[tokio::test]
async fn a_change_of_nothing_but_an_input_or_the_telemetry_is_told() {
    let (sink, pods) = (sink("{}").await, TempDir::new().unwrap());
    let arguments = ["--pod-logs", pods.path().to_str().unwrap()];
    let weir = Weir::start(&told_little(sink.grpc, ["app", "a", "garden"]), &arguments).await;
    let port = admin(&weir);
    let newest = async || get(port, "/api/configuration").await.1["history"][0].clone();
    let logs = "logs/lines  takes container logs of all but kyma-system, kube-system, istio-system";
    let target = "metrics/pages  takes the static target http://127.0.0.1:9";
    let cluster = "process  cluster name";
    for (number, says, [gone, come]) in [
        (2u64, ["web", "a", "garden"], ["(containers app)", "(containers web)"].map(|of| format!("{logs} {of}"))),
        (3, ["web", "b", "garden"], ["a", "b"].map(|of| format!("{target}/{of}?..."))),
        (4, ["web", "b", "meadow"], ["garden", "meadow"].map(|of| format!("{cluster} {of}"))),
    ] {
        weir.edit(&told_little(sink.grpc, says));
        eventually("it is taken up", async || newest().await["number"] == number).await;
        assert_eq!(newest().await["what"], "changed");
        let (_, text, _) = told(port, &["why", "--differences"]).await;
        let differences: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(differences, [format!("- {gone}"), format!("+ {come}")], "{text}");
    }
    let (_, first) = get(port, "/api/configuration/1").await;
    let (_, page) = get(port, "/api/configuration").await;
    for (page, name) in [(&first, "garden"), (&page, "meadow")] {
        let process = page["process"].as_array().unwrap();
        assert!(process.contains(&json!(format!("cluster name {name}"))), "{page}");
        assert!(!page.to_string().contains("s3cr3t"), "{page}");
    }
}
