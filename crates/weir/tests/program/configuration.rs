//! What a running program makes of its configuration and of where it runs.

use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::eventually;
use weir_testkit::grpc::{Grpc, OK, frame};
use weir_testkit::signals::{document, encoded, resources, text};
use weir_testkit::sink::closed_port;

use crate::process::{Weir, manifest};

/// A `Telemetry` with this `spec`.
fn telemetry(spec: &str) -> String {
    format!(
        "apiVersion: operator.kyma-project.io/v1beta1\nkind: Telemetry\nmetadata: {{name: default}}\nspec: {spec}\n---\n"
    )
}

async fn send(weir: &Weir, signal: Signal) {
    let request = encoded(signal, &[("service.name", "shop")], 1..3);
    let answer = Grpc::connect(weir.grpc).await.call(signal.grpc_method(), None, frame(&request, false)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
}

#[tokio::test]
async fn a_cluster_without_a_name_is_known_by_its_api_server() {
    let (named, unnamed) = (telemetry("{enrichments: {cluster: {name: garden}}}"), telemetry("{}"));
    for (host, telemetry, expected) in [
        (Some("100.64.0.1"), "", Some("100.64.0.1")),
        (Some("100.64.0.1"), unnamed.as_str(), Some("100.64.0.1")),
        (Some("100.64.0.1"), named.as_str(), Some("garden")),
        (Some(""), "", None),
        (None, unnamed.as_str(), None),
    ] {
        let backend = Backend::start().await;
        let variable = host.map(|host| format!("KUBERNETES_SERVICE_HOST={host}"));
        let environment: Vec<_> = variable.iter().flat_map(|variable| ["env", variable]).collect();
        let manifests = manifest("backend", backend.address) + telemetry;
        let weir = Weir::start_under(&environment, &manifests, &[]).await;
        send(&weir, Signal::Traces).await;
        eventually("it arrives", async || !backend.captured().is_empty()).await;
        let resource = &resources(Signal::Traces, &backend.captured()[0].plain)[0];
        assert_eq!(text(&resource.attributes, "k8s.cluster.name"), expected, "{host:?} {telemetry}");
    }
}

/// Log records with this message so far.
fn logged(weir: &Weir, message: &str) -> usize {
    weir.logs().iter().filter(|line| line["message"] == message).count()
}

const RELOADED: &str = "configuration reloaded";

const SWITCHED: &str =
    "Switching to or away from OTLP output is not supported. Please re-create the LogPipeline instead";

#[tokio::test]
async fn a_log_pipeline_is_not_switched_to_or_from_otlp_while_it_is_there() {
    let backend = Backend::start().await;
    let spans = manifest("spans", backend.address);
    let otlp = spans.clone() + &document(Signal::Logs, "a", backend.address, "");
    let http = format!(
        "{spans}apiVersion: telemetry.kyma-project.io/v1beta1\nkind: LogPipeline\nmetadata: {{name: a}}\nspec:\n  \
         output: {{http: {{host: {{value: b}}}}}}\n"
    );
    let weir = Weir::start(&otlp, &[]).await;

    weir.edit(&http);
    eventually("the switch is refused", async || {
        logged(&weir, "the new configuration is not used; the last good one goes on") == 1
    })
    .await;
    let finding = weir.logged(SWITCHED).unwrap();
    assert_eq!((&finding["level"], &finding["field"]), (&"ERROR".into(), &"spec.output".into()), "{finding}");
    assert_eq!(finding["pipeline"], "logs/a");
    send(&weir, Signal::Logs).await;
    let logs = || backend.captured().iter().filter(|request| request.path == Signal::Logs.grpc_method()).count();
    eventually("the pipeline goes on", async || logs() == 1).await;

    // Re-created: away, and there again.
    weir.edit(&spans);
    eventually("it is away", async || logged(&weir, RELOADED) == 1).await;
    weir.edit(&http);
    eventually("it is there again", async || logged(&weir, RELOADED) == 2).await;
    weir.edit(&otlp);
    eventually("the other way is refused, too", async || logged(&weir, SWITCHED) == 2).await;
    assert_eq!(logged(&weir, RELOADED), 2);
}

/// However often the configuration changes: only a limit that is lower than all before is worth a word.
#[tokio::test]
async fn that_requests_are_limited_for_want_of_memory_is_not_repeated() {
    let backend = Backend::start().await;
    let manifests = |second: &str| manifest("first", backend.address) + &manifest(second, backend.address);
    let weir = Weir::start(&manifests("second"), &["--memory", "32MiB"]).await;
    let limits = || {
        let lines = weir.logs().into_iter().filter(|line| line["message"].to_string().contains("requests are limited"));
        lines.map(|line| line["limit"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(limits().len(), 1);
    for (reloads, name) in ["third", "fourth", "fifth"].into_iter().enumerate() {
        weir.edit(&manifests(name));
        eventually("it is taken up", async || logged(&weir, RELOADED) > reloads).await;
        eventually("the one before has left", async || logged(&weir, "pipeline removed") > reloads).await;
    }
    let limits = limits();
    assert!(limits.is_sorted_by(|before, after| before > after), "{limits:?}");
}

/// However often the configuration changes, and wherever in it the pipeline is by then.
#[tokio::test]
async fn of_a_configuration_those_warnings_are_logged_that_the_one_before_did_not_have() {
    let endpoint = closed_port().await;
    let placed = |name: &str| manifest(name, endpoint).replace("metadata:\n", "metadata:\n  namespace: shop\n");
    let weir = Weir::start(&placed("first"), &[]).await;
    let warned = || {
        let lines = weir.logs().into_iter().filter(|line| line["field"] == "metadata.namespace");
        lines.map(|line| line["pipeline"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(warned(), ["traces/first"]);
    weir.edit(&(manifest("above", endpoint) + &placed("first") + &placed("second")));
    eventually("it is taken up", async || logged(&weir, RELOADED) == 1).await;
    assert_eq!(warned(), ["traces/first", "traces/second"]);
}

/// Of a configuration its text is in memory, and of what is made of it one document.
#[tokio::test]
async fn large_files_with_many_documents_take_little_more_than_their_text() {
    const TEXT: usize = 16 << 20;
    let list = "x, ".repeat(1000);
    let other = format!("apiVersion: example.com/v1\nkind: Anything\nmetadata: {{name: a}}\nspec: [{list}]\n---\n");
    let others = other.repeat(TEXT / other.len());
    let weir = Weir::start_directory(&manifest("backend", closed_port().await), &["--memory", "64MiB"]).await;
    let before = weir.memory("VmHWM");
    weir.write("others.yaml", &others);
    eventually("it is read", async || logged(&weir, RELOADED) == 1).await;
    let cost = weir.memory("VmHWM") - before;
    assert!(cost < 3 * TEXT as u64, "{cost} bytes more at the peak");
}
